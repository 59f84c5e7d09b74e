"""Analyses by hook: what one registers is found everywhere, and no list has its name."""

from __future__ import annotations

import json

import pytest

from costcore import CostError, Report, hookimpl
from costcore.analyses.analysis import Analysis, View
from costcore.analyses.registered import analyses, drawn_by
from costcore.cli.main import main
from costcore.import_paths import imported
from costcore.plugins import register, unregister
from costcore.studies.budgets.check import check
from costcore.tables.answer import Answer, Figure
from costcore.tables.pictures.picture import Picture
from costcore.tables.quantity import Quantity
from costcore.tables.result import Result
from tests.core.toy_networks import nested_report


class Doubled(Result):
    """Twice the MACs of a run."""

    def __init__(self, macs):
        self.macs = macs

    def _answer(self):
        return Answer("Doubled", [Figure("doubled", "Doubled MACs", 2 * self.macs, "count")])


def doubled(report, factor=1):
    return Doubled(factor * report.ledger.total["macs"])


def section(report):
    return f"<section id='doubled'><p>{doubled(report).macs}</p></section>"


def draw(report, theme, above=0):
    return Picture(("name", "doubled"), [(call.name, above) for call in report.ledger.calls], lambda: None)


def data(report):
    return {"doubled": 2 * report.ledger.total["macs"]}


QUANTITIES = [
    Quantity("doubled", "Doubled", "count", "twice the MACs", lambda ledger: [2 * c.macs for _, c in ledger.counted])
]

ANALYSIS = Analysis(
    "doubled",
    "twice the MACs",
    f"{__name__}:doubled",
    quantities=f"{__name__}:QUANTITIES",
    section=f"{__name__}:section",
    pictures={"dots": f"{__name__}:draw"},
    view=View("twice the MACs, in one line"),
    data=f"{__name__}:data",
)


class Plugin:
    """A plug-in with one analysis."""

    def __init__(self, *found):
        self.found = found

    @hookimpl
    def costcore_analyses(self):
        return self.found


@pytest.fixture
def registered():
    plugins = []

    def add(*found):
        plugins.append(Plugin(*found))
        register(plugins[-1])

    yield add
    for plugin in plugins:
        unregister(plugin)


def test_a_registered_analysis_answers_and_takes_its_options(toy, registered):
    registered(ANALYSIS)
    report = nested_report(toy)
    assert report.analysis("doubled").macs == 3 * 18  # three Dense layers
    assert report.analysis("doubled", factor=10).to_dict()["figures"]["doubled"]["value"] == 2 * 540


def test_every_place_reads_it(toy, registered, tmp_path, capsys):
    registered(ANALYSIS)
    report = nested_report(toy)
    assert report.table("run", columns=["doubled"]).rows[0]["doubled"] == 108
    assert "<section id='doubled'><p>54</p></section>" in report.to_html()
    assert report.plot("dots", above=7)[0] == ("Dense-1", 7)
    assert report.plot("doubled") == [("toy_dense", 108)]
    assert [each.value for each in check(report, {"total": {"doubled": 100}})] == [108]
    path = tmp_path / "report.json"
    assert json.loads(report.to_json(path))["analyses"] == {"doubled": {"doubled": 108}}
    assert Report.from_json(path) == report
    assert main([str(path), "--doubled"]) == 0
    assert "Doubled MACs" in capsys.readouterr().out


def test_without_the_plug_in_nothing_is_left_of_it(toy):
    report = nested_report(toy)
    assert "analyses" not in report.to_dict() and "id='doubled'" not in report.to_html()
    with pytest.raises(ValueError, match="unknown analysis 'doubled'"):
        report.analysis("doubled")


def test_two_of_one_name_or_of_one_picture_are_an_error(registered):
    registered(ANALYSIS, ANALYSIS._replace(name="other"))
    with pytest.raises(CostError, match="two analyses draw pictures of kind dots"):
        drawn_by()
    registered(ANALYSIS._replace(pictures={}))
    with pytest.raises(CostError, match="there are two analyses 'doubled'"):
        analyses()


def test_every_path_that_ours_state_can_be_imported():
    for each in analyses().values():
        view = each.view or View("")
        paths = (each.compute, each.quantities, each.section, each.data, *each.pictures.values())
        for path in filter(None, (*paths, view.show, view.columns, view.column_sets)):
            assert imported(path) is not None


def test_our_analyses_are_found_by_their_folders():
    assert {"arena", "conventions", "fusion", "measured", "memory", "receptive_field", "sizes", "time"} < {*analyses()}
