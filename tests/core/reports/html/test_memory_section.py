"""The section of the page about the memory of a run: the picture, its data, and the blocks at the peak."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.core import html_reports
from tests.core.reports.html.test_page_text import Page
from tests.core.traces import Block, MemoryLedger


def heights(path):
    """Return the height and the width of every step of a path, the height above the lower edge."""
    level, found = 0, []
    for vertical, horizontal in re.findall(r"v(-?\d+)h(\d+)", path):
        level -= int(vertical)
        found.append((level, int(horizontal)))
    return found


def drawn(report):
    """Return the call and the live bytes of every column, and the picture."""
    svg = ElementTree.fromstring(re.search(r"<svg id='memory-map'.*?</svg>.*?</svg>", report.to_html())[0])
    rows = report.plot("memory")
    return [(row[0], row[1]) for row in rows], svg


def test_the_areas_are_stacked_to_the_live_bytes():
    """The peak, 2816 B, is at 1 / 1.08 of the height: 926 of 1000; 2816 * 1.08 is 3041 in whole bytes."""
    columns, svg = drawn(html_reports.step())
    assert columns == [(0, 1536), (1, 2816), (2, 2176)]
    areas = {path.get("class"): heights(path.get("d")) for path in svg.findall("svg/path")}
    assert [*areas] == ["temporary", "saved", "gradient", "parameter"]  # what is drawn later covers the areas below it
    unit = 1000 / 3041
    assert areas["temporary"] == [(round(1536 * unit), 1), (round(2816 * unit), 1), (round(2176 * unit), 1)]
    assert areas["saved"] == [(round(1536 * unit), 1), (round(2560 * unit), 1), (round(2048 * unit), 1)]
    assert areas["gradient"] == [(round(1024 * unit), 1), (round(2048 * unit), 2)]
    assert areas["parameter"] == [(round(1024 * unit), 3)]


def test_the_peak_the_phases_and_the_scale_have_labels():
    """1024 and 2048 B are the round numbers below 3041 B; the peak is in the middle of the second of three columns."""
    _, svg = drawn(html_reports.step())
    texts = [each.text for each in svg.findall("text")]
    assert texts == ["1 KiB", "2 KiB", "forward", "backward", "optimizer", "peak 2.75 KiB"]
    (line,) = (each for each in svg.findall("line") if each.get("class") == "peak")
    assert line.get("x1") == "50%"


def run(phases, spike=None):
    """Return a run in which every call makes 4 bytes and frees them, and one of them makes 100."""
    calls = [html_reports.call("relu", "", 1, 1, 1, phase=phase) for phase in phases]
    blocks = [
        Block(i + 1, 100 if i == spike else 4, "temporary", 2 * i + 1, 2 * i + 2, i, (1,), "float32")
        for i in range(len(calls))
    ]
    return html_reports.report(calls, memory=MemoryLedger(tuple(blocks), tuple(i // 2 for i in range(2 * len(calls)))))


@pytest.mark.parametrize("n_calls", [1, 600, 601, 10_000])
def test_long_runs_have_few_columns_and_keep_the_peak(n_calls):
    columns, _ = drawn(run(["forward"] * n_calls, n_calls // 3))
    assert min(n_calls, 300) <= len(columns) <= 600
    assert [call for call, live in columns if live == 100] == [n_calls // 3]


def test_the_calls_of_an_optimizer_take_a_third_of_the_width():
    """60 calls of the model and 1,200 of the optimizer: 40 to a column, 30 columns."""
    columns, _ = drawn(run(["forward"] * 60 + ["optimizer"] * 1200, 1000))
    assert [call < 60 for call, _ in columns] == [True] * 60 + [False] * 30
    assert [call for call, live in columns if live == 100] == [1000]
    assert len(drawn(run(["optimizer"] * 10, 1))[0]) == 10


def test_narrow_phases_have_no_name():
    """Of 100 calls, 5, 10 and 85 are of one phase."""
    _, svg = drawn(run(["a"] * 5 + ["b"] * 10 + ["c"] * 85))
    named = [(each.text, each.get("class")) for each in svg.findall("text") if each.text in ("a", "b", "c")]
    assert named == [("b", "narrow"), ("c", None)]


@pytest.mark.parametrize(("call", "live_at_start", "place"), [(-1, 8, 0), (1, 0, -1)])
def test_a_peak_outside_of_all_calls_has_a_column(call, live_at_start, place):
    """A block is freed at once by the first call, or made after the last one, as by a loss."""
    base = Block(1, 8, "input", 0, 1, -1, (2,), "float32")
    late = Block(1, 8, "output", 2, None, 1, (2,), "float32")
    ledger = MemoryLedger((base if live_at_start else late,), (0, 1))
    columns, _ = drawn(html_reports.report([html_reports.call("relu", "", 1, 1, 1)], memory=ledger))
    assert (columns[place], len(columns)) == ((call, 8), 2)


def test_the_page_has_cards_and_the_blocks_at_the_peak():
    """At the peak: the weight, its gradient, what was saved, and the temporary block."""
    page = Page(html_reports.step().to_html())
    for words in (
        "Peak 2.75 KiB 2,816 B, exact, at mm_type-1 (backward, fc)",
        "Before the run 1 KiB 1,024 B",
        "Kept for backward 512 B",
        "After the run 2 KiB 2,048 B",
        "most in forward 1.5 KiB, backward 2.75 KiB, optimizer 2.125 KiB",
        "parameter fc weight 256 float32 1.000 KiB 36.4%",
        "saved fc linear_type-0 128 float32 512 B 18.2% mm_type-1",
        "all gradient 1.000 KiB 36.4%",
        "total mm_type-1 2.750 KiB 100.0%",
        "a note",
    ):
        assert words in page.text
    assert page.data["memory"]["kinds"] == ["parameter", "gradient", "saved", "temporary"]
    assert page.data["memory"]["rows"][1] == [1, "2816", "1024", "1024", "512", "256"]


def test_a_page_without_memory_has_no_such_section():
    text = html_reports.small().to_html()
    assert "id='memory'" not in text and Page(text).data["memory"] is None


def test_a_run_without_calls_or_bytes_has_no_picture():
    empty = html_reports.report([], memory=MemoryLedger())
    assert "memory-map" not in Page(empty.to_html()).text
    assert not any(attrs.get("id") == "memory-map" for _, attrs in Page(empty.to_html()).elements)
    assert (empty.memory.peak, empty.memory.where) == (0, "before the first call")


def test_hostile_names_are_text():
    names = html_reports.HOSTILE
    calls = [html_reports.call(name, name.replace(".", "_"), 1, 1, 1, phase=name, name=name) for name in names]
    blocks = tuple(Block(i, 4, "parameter", i, None, i, (1,), name, name) for i, name in enumerate(names))
    text = html_reports.report(calls, memory=MemoryLedger(blocks, tuple(range(len(names))), names)).to_html()
    page = Page(text)
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in Page(html_reports.step().to_html()).elements} | {
        *("a", "ul", "li", "small")
    }
    assert "\u202e" not in text and all(name in page.text for name in names[:3])
