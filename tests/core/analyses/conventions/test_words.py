"""Whatever is shown of a report under a convention names what the convention counts, never FLOPs."""

from __future__ import annotations

import io

import pytest

from costcore import compare
from tests.core.given_costs import dense, net, relu
from tests.core.reports.html.test_page_text import Page

COUNTED = {"fvcore": "MACs (fvcore)", "mults": "products (mults)"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def view_of(convention, *steps):
    return net(*steps or (dense("body.0", 4), relu("body.1", 4), dense("head", 6))).under(convention)


def tables(view):
    for name in ("report", "summary_report", "layers", "tree"):
        for mode in ("md", "csv", "color"):
            out = Terminal()
            getattr(view, f"show_{name}")(out, mode=mode)
            yield out.getvalue()


@pytest.mark.parametrize(("convention", "unit"), COUNTED.items())
def test_no_text_of_a_report_speaks_of_flops(convention, unit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    view = view_of(convention)
    page = Page(view.to_html())
    assert page.data["unit"]["name"] == unit
    attributes = " ".join(value or "" for _, values in page.elements for value in values.values())
    texts = [*tables(view), view.report._repr_html_(), view.report._repr_markdown_(), page.text, attributes]
    for text in (*texts, str(view.report)):
        assert unit in text and "FLOP" not in text


@pytest.mark.parametrize(("convention", "unit"), COUNTED.items())
def test_a_comparison_has_the_unit_of_its_reports(convention, unit):
    old, new = view_of(convention).report, view_of(convention, dense("body.0", 4), dense("head", 8)).report
    comparison = compare(old, new)
    for text in (comparison.to_markdown(), comparison.to_html(), str(comparison)):
        assert unit in text and "FLOP" not in text
    assert f"{unit}: equal" in compare(old, old).to_markdown()


def test_a_comparison_of_two_conventions_has_both_units():
    old, new = view_of("fvcore").report, view_of("mults").report
    assert "MACs (fvcore) → products (mults): equal, 52" in compare(old, new).to_markdown()


def test_rows_of_calls_have_one_price_of_a_multiply_add():
    out = io.StringIO()
    view_of("fvcore").show_layers(out, mode="md")
    assert out.getvalue().count("MACs (fvcore)") == 2  # the amount and its share
    assert "MAdd" not in out.getvalue() and "| Flops" not in out.getvalue()


def test_a_model_card_has_the_amount_with_its_unit():
    card = view_of("fvcore").to_model_card()
    assert "  counted: 52\n" in card and '  counted_unit: "MACs (fvcore)"\n' in card
    assert "flops" not in card


def test_a_plot_of_intensity_has_the_unit_on_both_axes():
    axes = view_of("fvcore").report.plot("intensity").figure().axes[0]
    assert axes.get_ylabel() == "MACs (fvcore)"
    assert "MACs per byte" in axes.get_xlabel()
