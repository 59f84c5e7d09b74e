"""Numbers that compare costcore with others say what computes them again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = re.compile(
    r"\b(fvcore|ptflops|thop|torchinfo|calflops|DeepSpeed|torchprofile|FlopCounterMode|onnx-tool|onnx-opcounter|XLA|"
    r"torch-scan|torchstat|mmengine|TorchInductor|torchvision|timm)\b"
)
NUMBER = re.compile(r"\b\d{1,3}(?:,\d{3})+\b|\b\d+ of \d+\b|\d(?:\.\d+)? ?%|\d times\b")
COMMAND = re.compile(r"`[^`\n]*(?:benchmarks/\w+\.py|tools/\w+\.py|tests/\w|make test|make probes|probes (?:ask|run))")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PAGES = [Path("README.md"), *sorted(path.relative_to(ROOT) for path in (ROOT / "docs").glob("*.md"))]


def without_command(text: str) -> list[str]:
    """Return the paragraphs and tables that compare numbers with another tool, in sections that name no command.

    Blocks of code are left out: other tests run them and compare what they print.
    """
    return [
        part
        for section in re.split(r"^(?=#+ )", CODE.sub("", text), flags=re.MULTILINE)
        if not COMMAND.search(section)
        for part in section.split("\n\n")
        if TOOLS.search(part) and NUMBER.search(part) and "max_increase" not in part  # a limit that a reader sets
    ]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_comparisons_name_the_command_that_computes_them(page):
    assert not without_command((ROOT / page).read_text(encoding="utf-8"))


def test_a_comparison_without_a_command_is_found():
    text = "# A\n\nfvcore says 1,234.\n\n## B\n\nthop says 1,234: `make probes`.\n\n## C\n\nthop\n\n5 %\n"
    assert without_command(text) == ["fvcore says 1,234."]
