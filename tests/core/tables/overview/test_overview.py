"""What ``print`` and notebooks show of reports and comparisons, by hand without frameworks."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import sympy

from costcore import compare
from tests.core import html_reports
from tests.core.analyses.timing.toy_device import TOY, calibrated_device
from tests.core.given_costs import Step, dense, net, relu


class Elements(HTMLParser):
    """Reads HTML: how often each element starts, which are still open, the deepest nesting, and the text."""

    EMPTY = ("br", "img", "hr", "meta", "link")

    def __init__(self, html):
        super().__init__()
        self.counts, self.open, self.deepest, self.text, self.attributes = {}, [], 0, "", set()
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.EMPTY:
            self.open.append(tag)
        self.deepest = max(self.deepest, self.open.count("details"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def five_types():
    calls = [html_reports.call(f"op{n}", f"block.{n}", 1000 * n, 8, 4, 500 * n) for n in range(1, 8)]
    return html_reports.report([*calls, html_reports.unknown("toy::wave", "block")])


def test_print_shows_totals_status_and_the_five_dearest_types():
    """28,000 FLOPs: 1000 (1 + 2 + … + 7). Others are 1 and 2: 3000, 10.7 %."""
    lines = str(five_types()).splitlines()
    assert lines[0] == "7 calls, partial"
    assert lines[1].split() == ["FLOPs", "28", "K", "28,000;", "a", "fused", "multiply-add", "is", "one", "FLOP"]
    assert lines[2].split() == ["MACs", "14", "K", "14,000"]
    assert lines[4].split() == ["Bytes", "read", "and", "written", "84", "B"]
    rows = [line.split()[1] for line in lines if line.startswith(("| op", "| others"))]
    assert rows == [*(f"op{n}_type" for n in (7, 6, 5, 4, 3)), "others"]
    assert "10.7%" in next(line for line in lines if line.startswith("| others"))
    assert lines[-2].startswith("partial: the totals do not include 1 call of 1 unsupported operator (wave)")


def test_types_without_cost_are_left_out_of_the_title():
    free = (Step("view"), Step("copy", mread=0))
    assert "The type with the most FLOPs" in str(net(dense("a"), *free))
    assert "The 2 types with the most FLOPs" in str(net(dense("a"), relu("b"), *free))


def test_the_representation_is_one_line():
    report = five_types()
    compared = compare(html_reports.small(), html_reports.report([]))
    for result in (report, compared, report.fused("pointwise"), net(dense("a", 8)).time(TOY)):
        assert "\n" not in repr(result) and len(repr(result)) < 200
    assert repr(compared) == "<Comparison: old → new, calls: 0 added, 3 removed, 0 changed>"


def test_a_notebook_folds_modules_with_their_costs():
    html = html_reports.small()._repr_html_()
    assert re.findall("checked /> ([^<]*)<", html) == ["FLOPs", "Share", "Parameters"]
    found = Elements(html)
    assert found.open == [] and found.counts["details"] == 3  # the types, the model, and its block
    assert found.deepest == 2  # the block is inside the model
    assert "Net 1,152,922 T 100.0% 1.024 K 1,152,922 T 200 B 68 B" in found.text
    assert "fc Linear 600 <0.1% 1.000 K 590 100 B 20 B 2 × 4" in found.text
    assert "Columns:  FLOPs Share Parameters MACs Read Written Output shape" in found.text
    assert "assumption: the mask is True" in found.text


def test_a_notebook_gets_no_scripts_and_names_as_text():
    for html in (
        html_reports.hostile()._repr_html_(),
        compare(html_reports.small(), html_reports.hostile(), names=html_reports.HOSTILE[:2])._repr_html_(),
    ):
        found = Elements(html)
        allowed = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "details", "summary"}
        allowed |= {"span", "label", "input", "style"}
        assert found.counts.keys() <= allowed
        assert found.attributes <= {"style", "scope", "open", "class", "type", "checked"}
        assert html_reports.HOSTILE[0] in found.text and "\u202e" not in html


def test_markdown_escapes_names():
    markdown = html_reports.hostile()._repr_markdown_()
    assert "<script" not in markdown and "<img" not in markdown
    assert "FLOPs: **50**" in markdown


def test_ten_thousand_calls_are_a_bounded_overview():
    """200 blocks of 10 layers: 2 + 200 modules are shown to the level of the blocks, of which 40 have a line."""
    html = html_reports.many(10_000)._repr_html_()
    assert len(html) < 100_000
    assert Elements(html).counts["div"] <= 40 + 5
    assert "others" in html and "modules below level" in html


@pytest.mark.parametrize(
    ("sizes", "is_whole", "n_open"),
    [
        ([22] * 13, True, 1),  # with the model 1 + 13 + 286 = 300 modules
        ([22] * 12 + [23], False, 1),
        ([5] * 4, True, 1 + 4),  # 25 rows are open at first
        ([5] * 3 + [6], True, 1),
    ],
)
def test_a_notebook_shows_300_modules_and_opens_25_rows(sizes, is_whole, n_open):
    calls = [(f"g{i}.l{j}", 100 * i + j + 1) for i, n in enumerate(sizes) for j in range(n)]
    html = html_reports.report(html_reports.call("mul", module, flops, 8, 8) for module, flops in calls)._repr_html_()
    assert ("modules below level 1 are part of their sums" not in html) == is_whole
    assert html.partition("costcore-tree'>")[2].count("<details open") == n_open


def test_a_very_deep_model_is_a_bounded_overview():
    path = ".".join("m" for _ in range(2000))
    found = Elements(html_reports.report([html_reports.call("mul", path, 8, 4, 4)])._repr_html_())
    assert found.open == [] and found.deepest <= 30 and sum(found.counts.values()) < 400


def test_symbolic_totals_are_formulas():
    n = sympy.Symbol("batch", integer=True, positive=True)
    report = html_reports.report([html_reports.call("linear", "fc", 10 * n, 4 * n, 2 * n)])
    assert str(report).splitlines()[1].split() == ["FLOPs", "10*batch"]
    assert "fc 10*batch 100.0% 0 0 4*batch 2*batch" in Elements(report._repr_html_()).text


def test_a_report_without_calls_can_be_shown():
    report = html_reports.report([])
    assert str(report).startswith("0 calls, complete")
    assert Elements(report._repr_html_()).counts.get("details", 0) == 0
    assert report._repr_markdown_().startswith("**0 calls, complete**")


def test_bytes_order_the_types_if_there_are_no_flops():
    calls = [html_reports.call("copy", "", 0, 8, 8), html_reports.call("cat", "", 0, 80, 80)]
    text = str(html_reports.report(calls))
    assert "By type, most bytes first" in text and text.index("cat_type") < text.index("copy_type")


def test_a_fused_report_and_a_convention_are_shown_in_notebooks():
    report = net(relu("a", 1024), relu("b", 1024), dense("c", 8), framework="torch")
    assert "without fusion" in report.fused("pointwise")._repr_html_()
    counted = report.under("fvcore")
    assert "not counted by fvcore: relu (2 calls)" in Elements(counted._repr_html_()).text
    assert str(counted) == counted.describe()


def test_a_timed_report_shows_its_bound_and_its_calibrated_time():
    """relu of 1024 elements takes 1 µs as measured."""
    time = net(relu("b", 1024), framework="torch").time(calibrated_device())
    text = str(time)
    assert text.splitlines()[0] == "Time on toy, complete"
    assert "Calibrated    1.0 µs" in text and "± 70%" in text
    assert "relu" in Elements(time._repr_html_()).text


@pytest.mark.parametrize("shown", [str, lambda result: result._repr_html_(), lambda result: result._repr_markdown_()])
def test_a_comparison_shows_what_changed(shown):
    text = shown(compare(html_reports.small(), html_reports.report([html_reports.call("linear", "head", 40, 80, 28)])))
    assert "old → new" in text and "Totals" in text and "MACs: " in text
