"""Views of traces of many symbols: the same text as sympy's, within a bound of time."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import pytest

from costcore import CostError, Report, estimate


def graph():
    pytest.importorskip("onnx")
    from tests.whole_networks.onnx_models import Graph

    return Graph()


def concatenated() -> Any:
    g = graph()
    y = g("Concat", *(f"x{i}" for i in range(100)), axis=0)
    return g.model({f"x{i}": (f"n{i}", 4) for i in range(100)}, g("Relu", y))


def found_again() -> Any:
    g, y = graph(), "x"
    for _ in range(40):
        y = g("NonZero", y)
    return g.model({"x": ("n", 4)}, y)


def added() -> Any:
    g, y = graph(), "x0"
    for i in range(1, 20):
        y = g("Add", y, f"x{i}")
    return g.model({f"x{i}": (f"n{i}", 4) for i in range(20)}, y)


def pooled(alternating: bool = False, count: int = 120) -> Any:
    g, y = graph(), "x"
    for i in range(count):
        mode = i % 2 if alternating else 1
        y = g("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=mode)
    return g.model({"x": (1, 3, "h", "w")}, y)


def different_calls(count: int = 1000) -> Any:
    """``count`` products, no two alike, over 20 symbols."""
    g = graph()
    w = g.weight(3, 5)
    more = [g.weight(c + 1, 3) for c in range(5)]
    pairs = [(a, b, c) for a in range(20) for b in range(20) for c in range(5)][: count // 2]
    y = [g("MatMul", g("Concat", f"x{a}", f"x{b}", more[c], axis=0), w) for a, b, c in pairs]
    return g.model({f"x{a}": (f"n{a}", 3) for a in range(20)}, y[-1])


@pytest.mark.parametrize("model", [concatenated, found_again, added, pooled, different_calls])
def test_every_view_takes_seconds_at_most(model):
    """10,000 different calls take about 5 s a view; these are fewer, and the bound is for a busy machine."""
    report = estimate(model())
    views: list[Callable[[], Any]] = [
        lambda: report.show_report(ost=io.StringIO()),
        lambda: report.show_layers(ost=io.StringIO()),
        lambda: report.show_tree(ost=io.StringIO()),
        report.to_html,
        report.to_json,
        lambda: Report.from_json(report.to_json()),
        lambda: report.subs(dict.fromkeys({str(s) for s in report.total_report["mread"].free_symbols}, 5)),
    ]
    for view in views:
        start = time.process_time()
        view()
        assert time.process_time() - start < 5


def test_sizes_that_are_rounded_inside_one_another_too_often_are_refused():
    with pytest.raises(CostError, match="more than 32 nested roundings; give numbers"):
        estimate(pooled(alternating=True))
    assert estimate(pooled(alternating=True), dims={"h": 9, "w": 9}).status == "complete"
    assert estimate(pooled(alternating=True, count=16)).status == "complete"
