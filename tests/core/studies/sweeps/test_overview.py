"""What ``print`` and notebooks show of a table of models."""

from __future__ import annotations

from costcore.studies.sweeps.rows import ModelRow
from costcore.studies.sweeps.table import ModelTable


def rows(n):
    costs = {"flops": 2_000_000, "macs": 1_000_000, "mread": 8, "mwrite": 4, "n_params": 10}
    return tuple(ModelRow(f"net{i}", costs, "complete") for i in range(n))


def test_every_row_of_a_short_table_is_shown_with_failures():
    shown = ModelTable((*rows(2), ModelRow("<b>broken</b>", {}, "no such file", failed=True)))
    html = shown._repr_html_()
    assert "3 models, 1 failed" in html and "failed: no such file" in html
    assert repr(shown) == "<ModelTable: 3 models, 1 failed>"
    assert html.count("<tr>") == 4 and "<b>" not in html
    assert "| net0" in str(shown) and "| net1" in str(shown)
    assert "net1" in shown._repr_markdown_()


def test_a_long_table_shows_its_first_rows():
    shown = ModelTable(rows(5000))
    text = str(shown)
    assert text.count("| net") == 40
    assert "| net0 " in text and "| net39 " in text and "| net40 " not in text
    assert "the first 40 of 5,000 rows" in text
    assert len(shown._repr_html_()) < 30_000
