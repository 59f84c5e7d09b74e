"""How tables are written: CSV, Markdown, boxes and color, fitted to a terminal."""

import csv
import io
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
import sympy

from costcore.tables.renderers import (
    fitted,
    line_length,
    order_of,
    renderer_for,
    to_boxes,
    to_color,
    to_csv,
    to_latex,
    to_markdown,
)
from costcore.tables.result import with_rows_and_columns
from costcore.text.output import Screen, printable
from tests.core.results import Column, RenderedTable
from tests.core.results import Table as ReportTable
from tests.core.toy_networks import nested_report


def table(*texts):
    return RenderedTable([("Layer name", ""), ("MemRead", "GiB")], [[text, "1.5"] for text in texts], [False, True])


@pytest.mark.parametrize("text", ["=cmd|'/c calc'!A1", "+1", "-1", "@x", "\tx", "\rx", "\0x"])
def test_csv_text_is_never_a_formula(text):
    rows = list(csv.reader(io.StringIO(to_csv(table(text)))))
    assert rows[1][0].startswith("'")


def test_csv_numbers_are_not_escaped():
    assert to_csv(RenderedTable([("a", "")], [["-1.5"]], [True])) == "a\n-1.5\n"


@pytest.mark.parametrize("text", ["a,b", 'say "x"', "plain", "aten::add"])
def test_csv_can_be_read_back(text):
    rows = list(csv.reader(io.StringIO(to_csv(table(text)))))
    assert rows == [["Layer name", "MemRead GiB"], [text, "1.5"]]


def test_markdown_is_a_table_and_escapes_what_would_break_it():
    lines = to_markdown(table("a|b", "`x`", "<b>", "two\nlines")).splitlines()
    assert lines[0] == "| Layer name | MemRead GiB |"
    assert lines[1] == "|:---|---:|"
    assert lines[2:] == ["| a\\|b | 1.5 |", "| \\`x\\` | 1.5 |", "| &lt;b> | 1.5 |", "| two lines | 1.5 |"]


def test_boxes_have_two_line_headers():
    assert to_boxes(table("ReLU-1")).splitlines() == [
        "+------------+---------+",
        "| Layer name | MemRead |",
        "|            | GiB     |",
        "+============+=========+",
        "| ReLU-1     |     1.5 |",
        "+------------+---------+",
    ]


def test_control_characters_are_escaped():
    assert printable("\x1b[31mred\u202e\u200b\ud800") == "\\x1b[31mred\\u202e\\u200b\\ud800"
    assert "\x1b" not in to_boxes(table("\x1b]0;title\x07"))


def test_long_cells_are_truncated_in_boxes():
    assert max(map(len, to_boxes(table("x" * 1_000_000)).splitlines())) < 500


def test_an_unknown_mode_lists_the_expected_ones():
    with pytest.raises(ValueError, match="csv, md, latex, table"):
        renderer_for("html5")


def test_the_mode_html_suggests_to_html():
    with pytest.raises(ValueError, match=r"For an HTML page use report\.to_html\(\)\.$"):
        renderer_for("html")


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
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown(io.StringIO()) == table.getvalue()  # NO_COLOR goes first
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[" in shown(io.StringIO()) and "\x1b[" in shown(Terminal())
    monkeypatch.delenv("FORCE_COLOR")
    assert shown(Terminal()) == table.getvalue()


def test_boxes_are_plain_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert renderer_for("color")(TABLE) == to_boxes(TABLE)


def test_long_text_is_shortened_before_figures_are_left_out():
    names = ["encoder.layers.0.feed_forward.intermediate.dense.weight", "a sentence of many words that is long"]
    table = RenderedTable([("Name", ""), ("Bytes", "")], [[name, "1024"] for name in names], [False, True])
    shown, dropped = fitted(table, 40, order_of(["name", "bytes"], ["bytes"]))
    assert dropped == [] and line_length(shown) == 40
    assert [row[0] for row in shown.rows] == ["…d.intermediate.dense.weight", "a sentence of many words th…"]
    narrow, dropped = fitted(table, 33, order_of(["name", "bytes"], ["bytes"]))
    assert dropped == [1] and line_length(narrow) == 33


def test_sentences_of_a_small_table_are_whole():
    """80 characters, of which the figure has 10 and lines and spaces 7: 63 are left for a sentence of 79."""
    sentence = "weights and activations in bfloat16, with float32 copies in the optimizer, sharded"
    table = RenderedTable([("What helps", ""), ("Needs", "")], [[sentence, "1234567890"]], [False, True], total=None)
    lines = to_boxes(fitted(table, 80, ()).table).splitlines()
    assert all(len(line) == 80 for line in lines)
    words = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    assert words == ["What helps", *textwrap.wrap(sentence, 63)]
    many = fitted(table._replace(rows=table.rows * 9), 80, ()).table
    assert many.rows[0][0] == f"{sentence[:62]}…"


def test_a_table_that_fits_is_not_changed():
    table = RenderedTable([("Name", "")], [["x" * 50]], [False])
    shown, dropped = fitted(table, 54, [])
    assert (shown.rows, dropped) == (table.rows, [])


LONG = "864*batch*height*width - 1728*batch*height - 1728*batch*width + 3456*batch"


def on_screen(rows, columns, width=80, **options):
    """Return the lines of a table that a command prints into a pipe."""
    out = io.StringIO()
    screen = Screen(out, "--format table")
    screen.width = width
    ReportTable("Rows", columns, rows, **options).show(screen)
    screen.finish()
    return out.getvalue().splitlines()


def test_a_column_that_tells_rows_apart_is_shown():
    """Both rows are attention of float32: only the module, which is left out first elsewhere, tells them apart."""
    columns = [Column("op", "Operator"), Column("dtype", "Element type"), Column("module", "Module")]
    columns += [Column(f"n{i}", f"Amount {i}", "bytes") for i in range(9)]
    rows = [
        {"op": "attention", "dtype": "float32", "module": path, **{f"n{i}": 2**40 + 5 for i in range(9)}}
        for path in ("encoder.layers.0.self_attention.core", "encoder.layers.1.self_attention.core")
    ]
    lines = on_screen(rows, columns)
    drawn = [line for line in lines if line[:1] in "+|"]
    assert max(map(len, drawn)) <= 80
    assert "| Module" in drawn[1] and "Amount 0" in drawn[1] and "Element type" not in drawn[1]
    assert any("layers.0." in line for line in drawn) and any("layers.1." in line for line in drawn)


def test_columns_that_were_chosen_are_shown():
    columns = [Column("op", "Operator"), *(Column(f"n{i}", f"Amount {i}", "bytes") for i in range(9))]
    table = ReportTable("Rows", columns, [{"op": "conv", **{f"n{i}": 2**40 + 5 for i in range(9)}}])
    out = io.StringIO()
    screen = Screen(out, "--format table")
    with_rows_and_columns(table, [column.key for column in columns], None, None).show(screen)
    screen.finish()
    assert all(f"Amount {i}" in out.getvalue() for i in range(9))


def test_a_table_of_formulas_has_an_amount():
    """A formula of 74 characters does not fit besides a name; it goes on in the next line, after a term."""
    columns = [Column("name", "Name"), Column("flops", "FLOPs", "flops"), Column("mread", "MemRead", "bytes")]
    batch, height, width = sympy.symbols("batch height width", integer=True, positive=True)
    formula = sympy.expand(864 * batch * (height - 2) * (width - 2))
    lines = on_screen([{"name": "Conv-1", "flops": formula, "mread": formula}], columns, dropped_first=("mread",))
    drawn = [line for line in lines if line[:1] in "+|"]
    assert max(map(len, drawn)) <= 80
    cells = " ".join(line.split("|")[2].strip() for line in drawn if line.startswith("|"))
    assert LONG in cells


LATEX = RenderedTable(
    [("Module", ""), ("GFLOPs", ""), ("FLOPs", "(%)"), ("# Params", ""), ("Size", "MiB")],
    [
        ["total", "12.500", "100.000%", "1,234", "batch*4"],
        ["├─ a_b & c", "2.500", "20.000%", "-", "7"],
        ["│  └─ 0 … 5 ×6", "-0.5", "", "12", "2 MiB"],
        ["└─ C:\\x", "10.000", "80.000%", "0", "7"],
    ],
    [False, True, True, True, True],
    total=0,
    is_tree=True,
)


def test_latex_aligns_numbers_and_indents_a_tree():
    assert to_latex(LATEX).splitlines() == [
        r"% \usepackage{booktabs, siunitx}",
        r"\begin{tabular}{l S[table-format=-2.3] S[table-format=3.3] S[table-format=4] S[table-format=1]}",
        r"\toprule",
        r"{Module} & {GFLOPs} & {FLOPs (\%)} & {\# Params} & {Size (MiB)} \\",
        r"\midrule",
        r"total & 12.500 & 100.000 & 1234 & {batch*4} \\",
        r"\midrule",
        r"\hspace*{1em}a\_b \& c & 2.500 & 20.000 & {-} & 7 \\",
        r"\hspace*{2em}0 \dots{} 5 $\times$6 & -0.5 &  & 12 & {2 MiB} \\",
        r"\hspace*{1em}C:\textbackslash{}x & 10.000 & 80.000 & 0 & 7 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert to_latex(LATEX._replace(rows=LATEX.rows[:1])).count(r"\midrule") == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")
@pytest.mark.parametrize("name", ["plain", "_^~\\{}$%#&<>|\"'`", "a × b → c ≤ d µ …", "x" * 200, "{[%]}"])
def test_latex_compiles(name, tmp_path):
    text = to_latex(LATEX._replace(rows=[[name, "1.5", "7%", "3", name], *LATEX.rows]))
    head = r"\documentclass{article}\usepackage{booktabs,siunitx}\begin{document}"
    (tmp_path / "t.tex").write_text(f"{head}\n{text}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-900:]
