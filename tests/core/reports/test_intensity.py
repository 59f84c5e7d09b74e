"""The intensity of a page divides its FLOPs; plots and rooflines count a multiply-add as two FLOPs, as peaks do."""

import pytest
import sympy

from tests.core import html_reports
from tests.core.analyses.timing.toy_device import TOY, Memory, device
from tests.core.given_costs import dense, net
from tests.core.html_reports import page_data
from tests.frameworks import optional

PRODUCTS, BYTES = 1000**2, 4 * (1000**2 + 2 * 1000)
UNCACHED = device(memory=Memory(1000.0))
"""A device without a cache: all bytes come from memory."""

INTENSITY = 2 * PRODUCTS / BYTES
"""Of a square product of width 1000 on one row."""


@pytest.mark.parametrize("fma_1flop", [True, False])
def test_a_page_divides_its_own_amounts(fma_1flop):
    report = net(dense("a", 1000), framework="torch", fma_1flop=fma_1flop)
    assert report.total_report["flops"] == (1 if fma_1flop else 2) * PRODUCTS
    time = report.time(UNCACHED)
    assert report.plot("intensity") == [("linear-1", "linear", 2 * PRODUCTS, BYTES)]
    (point,) = report.plot("roofline", device=UNCACHED)
    assert point[1] == pytest.approx(INTENSITY)
    data = page_data(report)
    ratio = report.total_report["flops"] / report.total_report["mrw"]
    for table in ("nodes", "layers"):
        columns, rows = data[table]["columns"], data[table]["rows"]
        assert [row[columns.index("intensity")] for row in rows] == [pytest.approx(ratio)] * len(rows)
    shown = "0.2495" if fma_1flop else "0.499"
    tile = f"<dt>FLOPs per byte</dt><dd>{shown}</dd><dd class='note'>arithmetic intensity</dd>"
    assert tile in report.to_html()
    assert "<dd>0.499</dd><dd class='note'>arithmetic intensity</dd>" in time.to_html()  # counts as its roofline
    assert "a multiply-add is two FLOPs" in time.to_svg()


def test_a_table_of_time_has_the_flops_of_the_report():
    counted = [net(dense("a", 1000), fma_1flop=once).time(TOY).by_type()["total"]["flops"] for once in (True, False)]
    assert counted == [PRODUCTS, 2 * PRODUCTS]


def test_an_axis_says_how_a_multiply_add_counts():
    optional("matplotlib")
    (axes,) = net(dense("a", 1000)).plot("intensity").figure().axes
    assert axes.get_ylabel() == "FLOPs (a multiply-add is two FLOPs)"
    (axes,) = net(dense("a", 1000)).plot("roofline", device=TOY).figure().axes
    assert axes.get_xlabel() == "FLOP per byte from memory (a multiply-add is two FLOPs)"


def test_a_formula_has_no_intensity_but_the_calls_beside_it_have():
    calls = [
        html_reports.call("a", "x", 8, 4, 4),
        html_reports.call("b", "y", 10 * sympy.Symbol("n", integer=True, positive=True), 4, 4),
    ]
    data = page_data(html_reports.report(calls))
    columns = data["nodes"]["columns"]
    found = {row[columns.index("path")]: row[columns.index("intensity")] for row in data["nodes"]["rows"]}
    assert found == {"": None, "x": 1.0, "y": None}
