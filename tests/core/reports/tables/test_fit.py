"""A tree in a terminal has one line per row, and no line is wider than the terminal."""

import io
import re

import pytest

from tests.core.toy_networks import nested_report


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(params=["plain", "color"])
def tree(request, toy, monkeypatch):
    """Return a function that returns the lines of the tree of a nested network in a terminal of some width."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if request.param == "plain":
        monkeypatch.setenv("NO_COLOR", "1")
    report = nested_report(toy)

    def lines(width, show=report.show_tree, **options):
        monkeypatch.setenv("COLUMNS", str(width))
        out = Terminal()
        show(ost=out, mode="color", **options)
        return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()

    lines.report = report
    return lines


@pytest.mark.parametrize("width", [300, 120, 80, 60])
def test_lines_fit_the_terminal_and_columns_that_do_not_are_named(tree, width):
    lines = tree(width)
    drawn = [line for line in lines if line[0] in "+|╭│├╰"]
    assert max(map(len, drawn)) <= width
    named = [line for line in lines if line.startswith("columns left out to fit the width of the terminal: ")]
    assert bool(named) == (width < 300)
    assert any("FLOPs" in line for line in drawn[:3])


def test_the_least_important_columns_are_left_out_first(tree):
    wide, narrow = (" ".join(tree(width)) for width in (140, 80))
    assert "# Buffers" not in wide and "Output shape" in wide
    assert "Output shape" not in narrow and "Module" in narrow and "FLOPs" in narrow and "(%)" in narrow


def test_modules_follow_each_other_without_rules(tree):
    lines = tree(300)
    rows = [i for i, line in enumerate(lines) if "├─" in line[1:] or "└─" in line[1:]]
    assert len(rows) == 8 and rows == list(range(rows[0], rows[0] + len(rows)))


def test_columns_that_were_asked_for_are_all_shown(tree):
    lines = tree(30, columns=["module", "type", "n_buffers", "flops"])
    assert any("# Buffers" in line for line in lines)
    assert not any("left out" in line for line in lines)


def test_files_have_every_column(tree, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    tree.report.show_tree(ost=out, mode="table")
    assert "# Buffers" in out.getvalue() and "left out" not in out.getvalue()


def test_other_tables_fit_too(tree):
    lines = tree(60, show=tree.report.show_summary_report)
    assert max(len(line) for line in lines if line[0] in "+|╭│├╰") <= 60


def test_a_tree_fits_the_output_of_a_notebook(toy):
    """Notebooks wrap lines of more than some 100 characters."""
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    nested_report(toy).show_tree(ost=notebook, mode="table")
    *lines, named = notebook.getvalue().splitlines()
    assert 80 < max(map(len, lines)) <= 100
    assert named.startswith("columns left out to fit the width")
