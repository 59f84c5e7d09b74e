"""Analyses by hook: what one registers is found everywhere, and no list has its name."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from costcore import CostError, Report, check, hookimpl
from costcore.plugins import imported, register, unregister
from tests.command_line import main
from tests.core.results import (
    Analysis,
    Column,
    Content,
    Figure,
    Picture,
    Quantity,
    Result,
    Table,
    View,
    analyses,
    drawn_by,
)
from tests.core.toy_networks import nested_report


class Doubled(Result):
    """Twice the MACs of a run."""

    def __init__(self, macs):
        self.macs = macs

    def _content(self):
        columns = [Column("name", "Name"), Column("macs", "MACs", "count")]
        rows = [{"name": f"part {n}", "macs": n * self.macs} for n in (1, 3, 2)]
        figure = Figure("doubled", "Doubled MACs", 2 * self.macs, "count")
        return Content("Doubled", [figure], [Table("By part", columns, rows)])


def doubled(report, factor=1):
    return Doubled(factor * report.ledger.total["macs"])


def section(report):
    return f"<section id='doubled'><p>{doubled(report).macs}</p></section>"


def draw(report, theme, above=0):
    return Picture(("name", "doubled"), [(call.name, above) for call in report.ledger.calls], lambda: None)


def data(report):
    return {"doubled": 2 * report.ledger.total["macs"]}


STYLE = "#doubled { color: green }"
ENDS = "</SCRIPT><p>"
SCRIPT = "document.getElementById('doubled').title = 'twice';"

QUANTITIES = [
    Quantity("doubled", "Doubled", "count", "twice the MACs", lambda ledger: [2 * c.macs for _, c in ledger.counted])
]

ANALYSIS = Analysis(
    "doubled",
    "twice the MACs",
    f"{__name__}:doubled",
    quantities=f"{__name__}:QUANTITIES",
    section=f"{__name__}:section",
    style=f"{__name__}:STYLE",
    script=f"{__name__}:SCRIPT",
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


def test_its_view_takes_the_options_of_tables(toy, registered, tmp_path, capsys):
    """The parts have 1, 3 and 2 times 54 MACs."""
    registered(ANALYSIS)
    path = tmp_path / "report.json"
    nested_report(toy).to_json(path)
    assert main([str(path), "--doubled", "--sort", "macs", "--top", "1", "--columns", "macs,name"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["|", "MACs", "|", "Name", "|"] in lines
    assert ["|", "162", "|", "part", "3", "|"] in lines and ["|", "162", "|", "others", "|"] in lines
    assert not any("2" in line for line in lines)
    with pytest.raises(SystemExit):
        main([str(path), "--doubled", "--sort", "bytes"])
    assert "unknown column 'bytes' (expected name, macs)" in capsys.readouterr().err


def test_its_style_and_script_are_part_of_the_page(toy, registered):
    registered(ANALYSIS)
    page = nested_report(toy).to_html()
    (digest,) = set(re.findall(r"script-src '(sha256-[^']+)'", page))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert SCRIPT in script and STYLE in page
    assert digest == f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
    registered(ANALYSIS._replace(name="broken", pictures={}, quantities="", script=f"{__name__}:ENDS"))
    with pytest.raises(CostError, match="a style or script tag, which would end its element"):
        nested_report(toy).to_html()


def test_an_unknown_analysis_is_named_with_those_of_every_package(toy, registered):
    registered(ANALYSIS)
    with pytest.raises(CostError, match="unknown analysis 'double'") as error:
        nested_report(toy).analysis("double")
    assert "of costcore: conventions, communication, fusion, " in str(error.value) and "Did you mean 'doubled'?" in str(
        error.value
    )
    assert f"of {__name__.partition('.')[0]}: doubled" in str(error.value)


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
        paths = (
            each.compute,
            each.quantities,
            each.section,
            each.style,
            each.script,
            each.data,
            *each.pictures.values(),
        )
        for path in filter(None, (*paths, view.table, view.columns, view.column_sets)):
            assert imported(path) is not None


def test_our_analyses_are_found_by_their_folders():
    assert {"arena", "conventions", "fusion", "measured", "memory", "receptive_field", "sizes", "time"} < {*analyses()}
