"""Without a mode, a table suits its stream: boxes in a terminal, HTML in a notebook, CSV of two tables elsewhere."""

import io
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from tests.core.given_costs import dense, net, relu

REPORT = net(dense("a"), relu("b"))
VIEWS = {
    "report": REPORT.show_report,
    "summary": REPORT.show_summary_report,
    "by": lambda **options: REPORT.show_by("op", **options),
    "tree": REPORT.show_tree,
    "layers": REPORT.show_layers,
}
AS_CSV = ("report", "summary")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("view", VIEWS)
def test_a_terminal_gets_an_aligned_table_without_lines_between_its_rows(view, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = Terminal()
    VIEWS[view](ost=out)
    lines = [line for line in out.getvalue().splitlines() if line[0] in "+|"]
    assert [line[0] for line in lines] == ["+", "|", *(["|"] if lines[2][0] == "|" else []), "+", "|", "|", "|", "+"]


@pytest.mark.parametrize("view", VIEWS)
def test_any_other_stream_gets_csv_of_two_tables(view):
    out, asked = io.StringIO(), io.StringIO()
    VIEWS[view](ost=out)
    VIEWS[view](ost=asked, mode="csv")
    assert (out.getvalue() == asked.getvalue()) == (view in AS_CSV)
    assert out.getvalue().startswith("+") == (view not in AS_CSV)


def test_a_mode_that_is_asked_for_keeps_its_look():
    out = Terminal()
    REPORT.show_summary_report(out, "table")
    assert out.getvalue().count("+-") + out.getvalue().count("+=") >= 4 * 3  # a line below every row


@pytest.fixture
def shown(monkeypatch):
    """What a notebook displays; this process is one."""
    found = []
    python, display = ModuleType("IPython"), ModuleType("IPython.display")
    python.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.HTML, display.display = str, found.append
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return found


@pytest.mark.parametrize("view", VIEWS)
def test_a_notebook_shows_html(view, shown, capsys):
    VIEWS[view]()
    (html,) = shown
    assert html.startswith("<table class='plain'><thead><tr><th scope='col'")
    assert html.count("<tr>") == 4  # titles, two rows, the total
    assert capsys.readouterr().out == ""


def test_a_stream_or_a_mode_is_text_in_a_notebook_too(shown, capsys):
    REPORT.show_report(mode="md")
    assert capsys.readouterr().out.startswith("| ")
    out = io.StringIO()
    REPORT.show_report(out)
    assert out.getvalue().startswith("Layer name,")
    assert shown == []


def test_a_terminal_of_ipython_is_no_notebook(monkeypatch, capsys):
    python = ModuleType("IPython")
    python.get_ipython = lambda: SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", python)
    REPORT.show_report()
    assert capsys.readouterr().out.startswith("Layer name,")


def test_a_notebook_keeps_the_indentation_of_a_tree(shown):
    """Notebooks align cells to the right and collapse spaces unless the cells say otherwise."""
    REPORT.show_tree()
    (html,) = shown
    rows = re.findall(r"<td style='([^']*)'>([^<]*)</td>", html)
    names = [(style, text) for style, text in rows if text in ("total", "├─ a", "└─ b")]
    assert names == [("text-align:left;white-space:pre", text) for text in ("total", "├─ a", "└─ b")]
    assert all(style == "text-align:right" for style, text in rows if text.isdigit())
