"""Tables of reports: their front, and what ``print`` and notebooks show of them."""

from __future__ import annotations

import pytest

from costcore import table
from tests.core.given_costs import Step, net, relu

AMOUNTS = [(4, 1), (2, 2), (3, 2), (1, 5), (2, 2), (5, 6)]
"""MACs and bytes read; the second model has fewer MACs than the third."""


def models(*amounts):
    return [(f"net{i}", net(Step("linear", macs=macs, mread=mread))) for i, (macs, mread) in enumerate(amounts)]


def test_the_front_has_the_rows_that_no_other_beats_in_everything():
    found = table([*models(*AMOUNTS), ("failed", "no such file.json")], columns=["macs", "mread"])
    for columns, names in (
        (("macs", "mread"), "013 4"),
        (("macs",), "3"),
        (("-macs", "mread"), "05"),
        (("-macs",), "5"),
    ):
        assert [row.name for row in found.pareto(*columns).rows] == [f"net{n}" for n in names.replace(" ", "")]
    assert found.pareto("macs").columns == found.columns
    with pytest.raises(ValueError, match="unknown column 'flop'"):
        found.pareto("flop")


def test_every_row_of_a_short_table_is_shown_with_failures():
    shown = table([*models((1, 2), (3, 4)), ("<b>broken</b>", "no such file.json")])
    html = shown._repr_html_()
    assert "3 models, 1 failed" in html and "No such file" in html
    assert repr(shown) == "<ModelTable: 3 models, 1 failed>"
    assert html.count("<tr>") == 4 and "<b>" not in html
    assert "| net0" in str(shown) and "| net1" in str(shown)
    assert "net1" in shown._repr_markdown_()


def test_a_long_table_shows_its_first_rows():
    report = net(relu("a"))
    shown = table([(f"net{i}", report) for i in range(500)])
    text = str(shown)
    assert text.count("| net") == 40
    assert "| net0 " in text and "| net39 " in text and "| net40 " not in text
    assert "the first 40 of 500 rows" in text
    assert len(shown._repr_html_()) < 30_000


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(({"jobs": jobs}, ValueError, "jobs must be a number of processes") for jobs in (0, True, 1.5, "2")),
        *(({"timeout": each}, ValueError, "timeout must be a positive") for each in (0, -1, True, "1", float("inf"))),
        ({"resume": True}, ValueError, "resume needs the .jsonl, .csv or .parquet file"),
        ({"mode": "fast"}, ValueError, "unknown mode 'fast'"),
        ({"columns": "macs"}, TypeError, "columns must be a list of names"),
        ({"columns": ["macs", 3]}, TypeError, "columns must be a list of names"),
        ({"columns": []}, ValueError, "columns is empty"),
        ({"columns": ["macs", "flops", "macs"]}, ValueError, "column 'macs' is given twice"),
        ({"columns": ["mac"]}, ValueError, "unknown column 'mac'"),
        ({"memory_limit": "much"}, ValueError, "memory_limit"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        table([], **options)


@pytest.mark.parametrize("models", ["net.onnx", b"net", 3, [("a",)], [("a", 1, 2, 3)], [(1, 2)]])
def test_wrong_models(models):
    with pytest.raises(TypeError, match="model"):
        table(models)
