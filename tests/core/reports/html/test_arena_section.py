"""The picture of the arena on the page: where each value is drawn, worked out by hand."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from costcore import Report
from tests.core.analyses.memory.graphs import Node, trace


def map_of(run):
    """Return the rectangles by the names of their values, the place of the line at the peak, and the section."""
    section = Report(run).arena().to_html()
    svg = ElementTree.fromstring(re.search(r"<svg id='arena-map'.*?</svg>", section).group())
    drawn = {each.find("title").text.partition(":")[0]: each for each in svg.findall("rect")}
    return drawn, svg.find("line").get("x1"), section


def test_values_are_drawn_over_their_lifetime_at_their_place_in_memory():
    """An input of 64 B, values of 128 and 192 B: with the second call 320 B are alive, the whole height of 300.

    Each of two steps is 500 wide; the peak is in the middle of the second.
    """
    run = trace([Node("conv", (1,), 10, 128), Node("conv", (10,), 11, 192)], {1: 64}, [11])
    drawn, peak, section = map_of(run)
    slots = {slot.name: slot for slot in Report(run).arena().slots}
    assert [*drawn] == ["conv-1", "conv-0", "input 1"]  # the largest first
    for name, x, width, height, kind in (
        ("input 1", 0, 500, 60, "input"),
        ("conv-0", 0, 1000, 120, "value"),
        ("conv-1", 500, 500, 180, "output"),
    ):
        bottom = 300 - slots[name].offset * 300 / 320
        found = drawn[name]
        assert [float(found.get(key)) for key in ("x", "width", "height", "y")] == [x, width, height, bottom - height]
        assert found.get("class") == kind
    assert peak == "750"
    assert "largest of" not in section


def test_only_the_largest_values_are_drawn():
    """1001 values beside an output, of which the input of one byte is left out."""
    n = 1000
    nodes = [Node("conv", (1 if i == 0 else 9 + i,), 10 + i, 2 + i % 7) for i in range(n)]
    drawn, _, section = map_of(trace(nodes, {1: 1}, [9 + n]))
    assert len(drawn) == n and "input 1" not in drawn
    assert f"The {n} largest of {n + 1} values are drawn." in section
