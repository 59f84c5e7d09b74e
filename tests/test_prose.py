"""Docstrings, comments, messages and documents avoid wordings that readers had to decode."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

UNCLEAR = {
    "write 'is not a X'": r"\b(?<![Tt]here )(?:is|are) (?:no|none)\b(?! (?:more|less|longer|larger|smaller))",
    "write 'expected one of …'": r"\b(?:known|accepted|those|commands|limits) are\b",
    "software reports, lists or raises": r"\b(?:tells?|told|untold)\b",
    "data is stored or appears": r"\b(?:stands|stand|stood) (?:in|there|under|above|below|beside|behind|before)\b",
    "write 'one row per model'": r"\b(?:a|one) (?:line|row|test|bar|process|track) an? ",
    "write 'if omitted' or 'default: …'": r"\bwhere (?:not|none is|nothing is|no \w+ is) (?:given|known)\b",
    "a node produces a value": r"\bnothing (?:makes|tells|reads|knows)\b",
    "write 'more expensive', 'decomposed', 'counted'": r"\b(?:dearer|spelled out|spells? out|unpriced)\b",
    "American spelling": r"\b\w*(?:[nrlmt]isation|[nl]ised?|[nl]ising|[Cc]olour\w*|[Bb]ehaviour\w*|[Nn]eighbour\w*)\b",
}
"""What to write instead, and the pattern of what not to write."""

PATTERNS_OF_FILES = (
    *("costcore/**/*.py", "calculators/**/*.py", "frontends/**/*.py", "tools/*.py", "*.md", "docs/*.md"),
    *("plugins/*/costcore_*/**/*.py", "plugins/*/*.md", "probes/costcore_probes/**/*.py", "probes/*.md"),
)

FILES = sorted(file for pattern in PATTERNS_OF_FILES for file in ROOT.glob(pattern))


def prose(file: Path) -> list[tuple[int, str]]:
    """Return the numbered lines of a document, or of the strings and comments of a module."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return list(enumerate(text.splitlines(), 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    written = [token for token in tokens if token.type in (tokenize.STRING, tokenize.COMMENT)]
    return [(token.start[0] + i, line) for token in written for i, line in enumerate(token.string.splitlines())]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_wordings_are_clear(file):
    found = [
        f"{file.relative_to(ROOT)}:{number}: {advice}: {line.strip()}"
        for number, line in prose(file)
        for advice, pattern in UNCLEAR.items()
        if re.search(pattern, line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "is_unclear"),
    [
        ("x is no tensor", True),
        ("there is no such operator", False),
        ("unknown mode; known are csv and md", True),
        ("the shape that nothing tells", True),
        ("one row a model", True),
        ("one row per model", False),
        ("quantised and normalised", True),
        ("a promised path, revised", False),
    ],
)
def test_unclear_wordings_are_found(line, is_unclear):
    assert any(re.search(pattern, line) for pattern in UNCLEAR.values()) == is_unclear
