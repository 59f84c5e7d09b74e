"""Images of one column over another."""

import sys
from xml.etree import ElementTree

import pytest

from costcore import CostError, sweep
from tests.core.results import Axis, Column, draw
from tests.frameworks import optional


def points(path):
    """The number of points in an SVG file of matplotlib, which draws each as a use of one path."""
    tree = ElementTree.parse(path)
    (group,) = (each for each in tree.iter() if each.get("id") == "PathCollection_1")
    return len([*group.iter("{http://www.w3.org/2000/svg}use")])


def test_one_point_per_model_that_did_not_fail(nets, tmp_path):
    optional("matplotlib")
    result = sweep(f"{nets}:make", {"depth": [1, 2, 3, "x"]}, (2, 3), columns=["flops", "mrw"])
    result.scatter("depth", "flops", tmp_path / "a.svg")
    assert points(tmp_path / "a.svg") == 3
    result.scatter("mrw", "flops", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_front_is_a_line_and_names_do_not_overlap(tmp_path):
    """Of (1, 9), (2, 3), (4, 4), (100, 2), the third has a better one in both."""
    figure = pytest.importorskip("matplotlib.figure")
    x, y = Axis(Column("macs", "MACs", "flops"), [1, 2, 4, 100]), Axis(Column("ms", "Time", "ratio"), [9, 3, 4, 2])
    names = ["a long name of a model"] * 4
    drawn = draw(x, y, names=names, color=Axis(Column("depth", "Depth"), [1, 2, None, 4]), best=[0, 1, 3], title="nets")
    assert isinstance(drawn, figure.Figure)
    axes, bar = drawn.axes
    assert [axes.get_xscale(), axes.get_yscale(), axes.get_title("left"), bar.get_ylabel()] == [
        "log",
        "linear",
        "nets",
        "Depth",
    ]
    assert axes.xaxis.get_major_formatter()(2000, None) == "2 K" and axes.xaxis.get_minor_formatter()(2000, None) == ""
    (line,) = axes.lines
    assert [[*each] for each in line.get_xydata()] == [[1, 9], [2, 3], [100, 2]]
    assert not draw(x, y, best=[1]).axes[0].lines
    drawn.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) > 1 and not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_what_cannot_be_drawn_is_an_error(nets, tmp_path, monkeypatch):
    result = sweep(f"{nets}:make", {"depth": [1]}, (2, 3), columns=["flops"])
    with pytest.raises(ValueError, match=r"unknown column 'flop' \(expected depth, flops\)"):
        result.scatter("depth", "flop", tmp_path / "a.svg")
    with pytest.raises(ValueError, match="unknown suffix"):
        result.scatter("depth", "flops", tmp_path / "a.gif")
    with pytest.raises(CostError, match="nothing has numbers for both depth and flops"):
        sweep(f"{nets}:make", {"depth": ["x"]}, (2, 3), columns=["flops"]).scatter("depth", "flops", "a.svg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(CostError, match=r"needs matplotlib.*pip install matplotlib"):
        result.scatter("depth", "flops", tmp_path / "a.svg")
