"""A tree in a terminal has one line per row, and no line is wider than the terminal."""

import io
import re
from itertools import product

import pytest

from costcore import TreeColumns, compare, reconcile
from tests.command_line import main
from tests.core import html_reports
from tests.core.analyses.timing.toy_device import calibrated_device
from tests.core.given_costs import dense, net, relu
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

    def lines(width, show=report.show_tree, mode="color", **options):
        monkeypatch.setenv("COLUMNS", str(width))
        out = Terminal()
        show(ost=out, mode=mode, **options)
        return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()

    lines.report = report
    return lines


@pytest.mark.parametrize("width", [300, 120, 80, 60])
def test_lines_fit_the_terminal_and_columns_that_do_not_are_named(tree, width):
    lines = tree(width, columns=TreeColumns.DETAILED)
    drawn = [line for line in lines if line[0] in "+|╭│├╰"]
    assert max(map(len, drawn)) <= width
    named = [line for line in lines if re.match(r"columns left out to fit \d+ characters: ", line)]
    assert bool(named) == (width < 300)
    assert any("FLOPs" in line for line in drawn[:3])


def test_the_least_important_columns_are_left_out_first(tree):
    wide, narrow = (" ".join(tree(width, columns=TreeColumns.DETAILED)) for width in (140, 80))
    assert "# Buffers" not in wide and "Output shape" in wide
    assert "MACs" not in narrow and "Module" in narrow and "FLOPs" in narrow and "Output shape" in narrow


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
    tree.report.show_tree(ost=out, mode="table", columns=TreeColumns.DETAILED)
    assert "# Buffers" in out.getvalue() and "left out" not in out.getvalue()


@pytest.mark.parametrize(("width", "left_out"), [(130, ""), (88, "type, macs, mrw"), (80, "type, flops%, macs, mrw")])
def test_a_narrow_tree_has_shapes_and_parameters_as_torchinfo_has(toy, monkeypatch, width, left_out):
    monkeypatch.setenv("COLUMNS", str(width))  # 26 of them are for the longest path
    out = Terminal()
    nested_report(toy).show_tree(out)
    assert max(len(line) for line in out.getvalue().splitlines() if line[0] in "+|") <= width
    named = [line for line in out.getvalue().splitlines() if "left out" in line]
    assert named == [f"columns left out to fit {width} characters: {left_out}"] * bool(left_out)


def test_a_tree_fits_the_output_of_a_notebook(toy):
    """Notebooks wrap lines of more than some 100 characters."""
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    nested_report(toy).show_tree(ost=notebook, mode="table", columns=TreeColumns.DETAILED)
    *lines, named, _, _ = notebook.getvalue().splitlines()
    assert 80 < max(map(len, lines)) <= 100
    assert named.startswith("columns left out to fit 100 characters: ")


def chain():
    """Return a report whose fused groups and module paths have long names."""
    return net(*(step(f"encoder.layers.{i}.feed_forward.intermediate", 8) for i in range(3) for step in (dense, relu)))


TABLES = {
    "report": lambda: chain().show_report,
    "layers": lambda: chain().show_layers,
    "summary": lambda: chain().show_summary_report,
    "by": lambda: lambda **options: chain().show_by("module", "type", **options),
    "memory": lambda: html_reports.step().show_memory,
    "arena": lambda: chain().show_arena,
    "receptive field": lambda: chain().show_receptive_field,
    "fused": lambda: chain().fused("compiler").show_report,
    "time": lambda: chain().time(calibrated_device()).show_report,
    "time by type": lambda: chain().time(calibrated_device()).show_summary_report,
    "comparison": lambda: compare(chain(), net(dense("encoder.layers.0.feed_forward.intermediate", 9))).show,
    "reconciliation": lambda: reconcile(chain(), "fvcore", "torch").show,
}


PLAIN = ("comparison", "reconciliation")
"""The tables that have no colors."""


@pytest.mark.parametrize(("name", "width"), [*product(TABLES, (120, 80)), ("summary", 60)])
def test_every_table_fits(tree, name, width):
    lines = tree(width, show=TABLES[name](), mode="table" if name in PLAIN else "color")
    drawn = [line for line in lines if line and line[0] in "+|╭│├╰"]
    assert drawn and max(map(len, drawn)) <= width


@pytest.mark.parametrize("command", [["devices"], ["conventions"]])
def test_lists_of_commands_fit(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)
    assert main(command) == 0
    drawn = [line for line in out.getvalue().splitlines() if line.startswith(("+", "|"))]
    assert len(drawn) > 20 and max(map(len, drawn)) <= 80
    assert "columns left out to fit 80 characters: " in out.getvalue()


def test_the_columns_that_say_what_a_row_is_are_kept(tree):
    """Both names by which rows are grouped stay, of which ``type`` is else left out first."""
    for show, title in ((TABLES["by"](), "Layer type"), (tree.report.show_summary_report, "Layer type")):
        assert any(title in line for line in tree(30, show=show)[:3])


def test_percentages_are_aligned_on_the_decimal_point(tree):
    lines = tree(300)
    cells = [
        cell for line in lines for cell in line.split("│" if "│" in line[:1] else "|") if cell.strip().endswith("%")
    ]
    assert len(cells) > 5 and len({cell.index(".") for cell in cells}) == 1
    assert {len(cell.strip().rpartition(".")[2]) for cell in cells} == {4}  # three digits and the sign


def test_a_share_of_nothing_is_aligned_too():
    out = io.StringIO()
    net(dense("a", 8), relu("b", 8)).under("fvcore").show_summary_report(out, "table", columns=["type", "flops%"])
    assert [line.split("|")[2] for line in out.getvalue().splitlines()[4::2]] == [
        f"{share:>14} " for share in ("100.000%", "0.000%", "100.000%")
    ]


def test_a_long_tree_is_cut_at_a_level(tmp_path, capsys):
    """5 modules of a module of 8: with the model, 11 of 51 rows are in the upper levels, and fit 40 lines."""
    calls = [html_reports.call("mul", f"a{i}.b.c{j}", 8 * i + j, 8, 8) for i in range(5) for j in range(8)]
    html_reports.report(calls).to_json(tmp_path / "report.json")
    assert main([str(tmp_path / "report.json"), "--tree"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "(levels 1 to 2 of 3 below the model)" in lines and len(lines) <= 40
    assert sum(line.startswith("| ") and " b " in line for line in lines) == 5
