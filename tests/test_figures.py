"""Numbers that compare costcore with others say what computes them again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools import benchmark

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


def test_the_page_of_figures_compares_releases():
    old = {"versions": {"python": "3.10"}, "figures": {"a": {"value": 1, "command": "x"}}}
    new = {"versions": {"python": "3.11"}, "figures": {"a": {"value": 1234, "command": "y"}, "b": old["figures"]["a"]}}
    text = benchmark.page({"0.1.0": old, "0.2.0": new})
    assert "python 3.11" in text
    assert text.splitlines()[-2:] == ["| a | 1 | 1,234 | `y` |", "| b |  | 1 | `x` |"]


def test_the_section_of_times_says_which_bars_are_met():
    rows = [("hook", 1.17, 1.05, False, ""), ("an empty mode", 1.05, None, False, "")]
    rows += [("cold", 0.3, 0.3, False, "s"), ("faster", 7.9, 8, True, ""), ("workers", 1.93, 1.8, True, "")]
    figures = [dict(zip(("work", "found", "bar", "is_least", "unit"), row, strict=True)) for row in rows]
    text = benchmark.speed({"machine": "a CPU, 2 cores", "versions": {"python": "3.11"}, "figures": figures})
    assert "measured these on\na CPU, 2 cores, python 3.11.\n" in text
    assert text.splitlines()[-5:] == [
        "| hook | 1.17 | at most 1.05 | missed |",
        "| an empty mode | 1.05 |  |  |",
        "| cold | 0.3 s | at most 0.3 s | met |",
        "| faster | 7.9 | at least 8 | missed |",
        "| workers | 1.93 | at least 1.8 | met |",
    ]


def test_the_page_is_that_of_the_files():
    files = sorted((ROOT / "docs" / "figures").glob("*.json"))
    releases = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    speed = json.loads((ROOT / "docs" / "speed.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "figures.md").read_text(encoding="utf-8") == benchmark.page(releases) + benchmark.speed(
        speed
    )
    assert all(figure["command"] for release in releases.values() for figure in release["figures"].values())
