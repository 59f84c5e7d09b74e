import io
import re
import sys

import pytest

from costcore.tables.renderers import renderer_for, to_boxes, to_color
from costcore.text.screen import RenderedTable
from tests.core.toy_networks import nested_report

TABLE = RenderedTable(
    [("Layer name", ""), ("FLOPs", "")], [["a", "1"], ["b", "3"], ["total", "4"]], [False, True], [25, 75, 100]
)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "300")


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_bar_is_as_long_as_the_share_of_the_flops():
    assert "\x1b[" in to_color(TABLE).splitlines()[4]
    assert plain(to_color(TABLE)).splitlines() == [
        "╭────────────┬───────┬──────────────────────╮",
        "│            │       │ FLOPs                │",
        "│ Layer name │ FLOPs │ share                │",
        "├────────────┼───────┼──────────────────────┤",
        "│ a          │     1 │ █████                │",  # a quarter of 20
        "│ b          │     3 │ ███████████████      │",
        "├────────────┼───────┼──────────────────────┤",
        "│ total      │     4 │ ████████████████████ │",
        "╰────────────┴───────┴──────────────────────╯",
    ]


def test_bars_have_the_unit_of_the_convention():
    assert "│ MACs (fvcore)        │\n│ Layer name │ FLOPs │ share " in plain(
        to_color(TABLE._replace(unit="MACs (fvcore)"))
    )


@pytest.mark.parametrize(("total", "bold"), [(-1, ["total"]), (0, ["a"]), (None, [])])
def test_only_the_total_is_bold(total, bold):
    rows = to_color(TABLE._replace(shares=(), total=total)).splitlines()[3:-1]
    assert [plain(row).split()[1] for row in rows if "\x1b[1m" in row] == bold


def test_a_table_without_shares_has_no_bars():
    assert "share" not in to_color(RenderedTable([("a", "")], [["x"]], [False]))
    assert to_color(RenderedTable([("a", "")], [["x"], ["y"]], [False], [None, 50]))
    assert to_color(RenderedTable([("a", "")], [], [False]))


def test_markup_and_control_characters_in_names_are_escaped():
    text = to_color(TABLE._replace(rows=[["[red]x[/red]", "1"], ["\x1b]0;title\x07", "3"], ["total", "4"]]))
    assert "[red]x[/red]" in text
    assert "\x1b]" not in text and "\\x1b]0;title\\x07" in text


def test_color_is_for_terminals_that_support_it(toy, monkeypatch):
    report = nested_report(toy)

    def shown(stream):
        report.show_tree(stream, mode="color")
        return stream.getvalue()

    table = io.StringIO()
    report.show_tree(table, mode="table")
    assert "\x1b[" in shown(Terminal())
    assert shown(io.StringIO()) == table.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(Terminal()) == table.getvalue()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert shown(Terminal()) == table.getvalue()


def test_boxes_are_plain_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert renderer_for("color")(TABLE) == to_boxes(TABLE)
