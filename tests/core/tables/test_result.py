"""What every result can do, on a small result by hand."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from importlib.resources import files

import jsonschema
import pytest
import sympy

from tests.core.results import Column, Content, Figure, Formatted, Result, Table
from tests.core.tables.overview.test_overview import Elements
from tests.frameworks import optional

EXACT = 2**70 + 1
HOSTILE = "<script>alert(1)</script>"
COLUMNS = [Column("fruit", "Fruit"), Column("size", "Size", "bytes"), Column("n", "# Pieces", "count")]
ROWS = [
    {"fruit": "fig", "size": 2048, "n": 1},
    {"fruit": "plum", "size": 1024, "n": 2},
    {"fruit": HOSTILE, "size": EXACT, "n": 3},
    {"fruit": "kiwi", "size": 512, "n": None},
]
N = sympy.Symbol("batch", integer=True, positive=True)


class Basket(Result):
    """A result with figures of several kinds and a table."""

    def _content(self):
        table = Table("Fruit", COLUMNS, ROWS)
        figures = [
            Figure("weight", "Weight", EXACT, "bytes", "in all"),
            Figure("formula", "Formula", 10 * N, "flops"),
            Figure("time", "Time", 0.00125, "duration", "at least", "bound"),
            Figure("names", "Names", HOSTILE),
            Figure("ratio", "Ratio", Formatted(0.125, "1/8")),
        ]
        return Content("A basket", figures, [table.sorted("size").top(2, "The 2 heaviest")], ["all of it is fresh"])


class Given(Result):
    """A result with this content."""

    def __init__(self, *content):
        self.content = Content(*content)

    def _content(self):
        return self.content


def test_print_has_figures_and_the_first_rows():
    """The largest is 2^70 + 1 bytes, 2^30 TiB. Plum and kiwi are 1536 bytes = 1.5 KiB."""
    lines = str(Basket()).splitlines()
    assert lines[0] == "A basket" and lines[-1] == "all of it is fresh"
    assert lines[1] == f"  Weight   1073741824.0 TiB  {EXACT:,} B; in all"
    assert [line.split() for line in lines[2:4]] == [["Formula", "10*batch"], ["Time", "1.25", "ms", "at", "least"]]
    assert lines[5].split() == ["Ratio", "1/8"]
    assert lines[6] == "The 2 heaviest:"
    others = next(line for line in lines if line.startswith("| others"))
    assert [cell.strip() for cell in others.split("|")[1:-1]] == ["others", "1.5 KiB", ""]
    assert not any("kiwi" in line for line in lines)


def test_data_has_exact_values_and_all_rows():
    data = Basket().to_dict()
    jsonschema.validate(data, json.loads(files("costcore.tables").joinpath("result.schema.json").read_text("utf-8")))
    assert data["figures"]["weight"]["value"] == EXACT and data["figures"]["ratio"]["value"] == 0.125
    assert data["figures"]["formula"]["value"] == "10*batch" and data["figures"]["time"]["certainty"] == "bound"
    assert data["tables"][0]["rows"] == [ROWS[2], ROWS[0], ROWS[1], ROWS[3]]
    assert json.loads(Basket().to_json()) == data


def test_csv_parses_back():
    rows = [*csv.DictReader(io.StringIO(Basket().to_csv()))]
    assert [(row["fruit"], row["size"], row["n"]) for row in rows] == [
        (HOSTILE, str(EXACT), "3"),
        ("fig", "2048", "1"),
        ("plum", "1024", "2"),
        ("kiwi", "512", ""),
    ]


def test_a_result_without_a_table_writes_its_figures():
    bare = Given("Bare", [Figure("weight", "Weight", EXACT, "bytes")])
    assert bare.to_csv().splitlines() == [
        "name,title,value,kind,note,certainty",
        f"weight,Weight,{EXACT},bytes,,exact",
    ]
    with pytest.raises(ValueError, match="there is no table 1"):
        bare.to_csv(table=1)


def test_pandas_has_the_exact_rows():
    pytest.importorskip("pandas")
    frame = Basket().to_pandas()
    assert frame["size"].tolist() == [EXACT, 2048, 1024, 512]
    assert frame["n"].dropna().tolist() == [3, 1, 2]


@pytest.mark.parametrize("html", [Basket()._repr_html_(), Basket().to_html()])
def test_html_has_no_script_and_names_as_text(html):
    found = Elements(html)
    assert "script" not in found.counts and found.open == []
    assert HOSTILE in found.text and "The 2 heaviest" in found.text


def test_markdown_escapes_names():
    assert HOSTILE not in Basket().to_markdown() and "Weight: **1073741824.0 TiB**" in Basket().to_markdown()


def test_save_writes_the_format_of_the_suffix(tmp_path):
    for suffix, text in {
        ".txt": f"{Basket()}\n",
        ".md": Basket().to_markdown(),
        ".csv": Basket().to_csv(),
        ".json": Basket().to_json(),
        ".html": Basket().to_html(),
    }.items():
        Basket().save(tmp_path / f"basket{suffix}")
        assert (tmp_path / f"basket{suffix}").read_text("utf-8") == text
    with pytest.raises(ValueError, match=r"unknown suffix '.doc' \(expected .txt, .md, .csv, .json, .html, .tex, "):
        Basket().save(tmp_path / "basket.doc")


def test_show_writes_what_print_shows_and_every_format():
    def shown(**options):
        out = io.StringIO()
        Basket().show(out, **options)
        return out.getvalue()

    assert shown() == f"{Basket()}\n"
    assert shown(mode="csv") == Basket().to_csv() and shown(mode="json") == Basket().to_json()
    assert "  Weight" in shown(unit=None) and "TiB" not in shown(unit=None)
    with pytest.raises(ValueError, match="unknown mode"):
        shown(mode="word")


def test_a_table_is_a_result():
    table = Table("Fruit", COLUMNS, ROWS, total={"fruit": "total", "size": EXACT + 3584, "n": None})
    top = table.sorted("size").top(1)
    assert len(top) == 2 and top.rows[1] == {"fruit": "others", "size": 3584}
    assert top.to_dict()["tables"][0]["rows"][1] == {"fruit": "others", "size": 3584, "n": None}
    assert top.to_dict()["tables"][0]["total"]["size"] == EXACT + 3584
    assert '"title": "Früchte"' in Table("Früchte", COLUMNS, ROWS).to_json()
    assert "fig" in str(table) and "total" in str(table)
    changes = Table("Changes", COLUMNS, [{"fruit": "fig", "size": size} for size in (None, -5, 0, 3)])
    assert [row["size"] for row in changes.sorted("size").rows] == [3, 0, -5, None]
    with pytest.raises(ValueError, match="unknown column 'seeds'"):
        table.sorted("seeds")


def test_a_share_is_rounded_to_the_digits_of_tables():
    busy, out = Given("Busy", [Figure("share", "Share", 100 / 3, "percent", "of all")]), io.StringIO()
    busy.show(out)
    assert out.getvalue() == "Busy\n  Share  33.333%  of all\n"
    assert busy.to_dict()["figures"]["share"]["value"] == 100 / 3


def test_a_page_has_large_counts_in_short():
    many = Given("Many", [Figure("a", "A", 99_999_999, "count"), Figure("b", "B", 100_000_000, "count", "all")])
    assert re.findall(r"<dd[^>]*>([^<]*)</dd>", many.to_html()) == ["99,999,999", "100 M", "100,000,000, all"]


@pytest.mark.parametrize(("n", "title"), [(1000, "Fruit"), (1001, "Fruit: the first 1,000 of 1,001 rows")])
def test_a_page_says_if_it_has_not_all_rows(n, title):
    long = Given("Long", [], [Table("Fruit", COLUMNS, ROWS[:1] * n).top(1, "The heaviest")])
    assert re.findall("<h2>(.*?)</h2>", long.to_html()) == ["The heaviest", title]


@pytest.mark.parametrize(
    ("kind", "values", "title", "cells", "on_page"),
    [
        ("duration", (2.0, 0.1, 0.3), "s", ["2.0", "0.1", "0.3"], ["2.000 s", "100.0 ms", "300.0 ms"]),
        # In seconds with two digits, most would be 0.0.
        ("duration", (2.0, 1e-4, 3e-4), "ms", ["2,000.0", "0.1", "0.3"], ["2.000 s", "100.0 µs", "300.0 µs"]),
        # Two of five are.
        (
            *("duration", (2.0, 1e-4, 1e-4, 0.3, 0.4), "s", ["2.0", "0.0", "0.0", "0.3", "0.4"]),
            ["2.000 s", "100.0 µs", "100.0 µs", "300.0 ms", "400.0 ms"],
        ),
        ("ratio", (1000.0, 999.0), "", ["1000.0", "999.0"], ["1,000", "999.0"]),
    ],
)
def test_cells_of_a_column(kind, values, title, cells, on_page):
    rows = [{"name": "row", "v": value} for value in values]
    table, out = Table("Rows", [Column("name", "Name"), Column("v", "Value", kind)], rows), io.StringIO()
    table.show(out, "md", "autoaligned", 2)
    assert re.findall(r"\| ([^|]*) \|$", out.getvalue(), re.MULTILINE) == [f"Value {title}".strip(), *cells]
    assert re.findall(r"<td class='n'[^>]*>(.*?)</td>", table.to_html()) == on_page


def test_others_can_be_more_than_sums():
    table = Table("Fruit", COLUMNS, ROWS, others=lambda rows: {"fruit": f"{len(rows)} more", "size": 0})
    assert table.top(3).rows[-1] == {"fruit": "1 more", "size": 0}
    assert table.top(4) is table and table.top(None) is table


def test_a_table_of_which_no_row_is_shown_is_not_printed():
    table = Table("Fruit", COLUMNS, ROWS, total={"fruit": "total", "size": EXACT + 3584})
    hidden = Given("Hidden", [], [table.part([])])
    assert str(hidden) == "Hidden"
    (data,) = hidden.to_dict()["tables"]
    assert len(data["rows"]) == 4 and data["total"] is not None


def test_a_workbook_has_a_sheet_for_the_figures_and_each_table(tmp_path):
    """Text that a spreadsheet would evaluate is text; numbers are numbers."""
    openpyxl = pytest.importorskip("openpyxl")
    rows = [{"fruit": "=1+1", "size": 2048, "n": 1}, *ROWS[1:]]

    table = Table("Fruit: [all]/*?", COLUMNS, rows, total={"fruit": "total", "size": 7})
    long = [Table(letter * 40, COLUMNS, ROWS[:1]) for letter in "xXx"]  # names of sheets ignore case
    Given("Two", [Figure("weight", "Weight", 3, "bytes")], [table, *long]).save(tmp_path / "two.xlsx")
    book = openpyxl.load_workbook(tmp_path / "two.xlsx")
    assert book.sheetnames == ["Figures", "Fruit   all", "x" * 31, "X" * 26 + " 2", "x" * 26 + " 3"]
    cells = [[cell.value for cell in row] for row in book["Fruit   all"]]
    assert cells[:3] == [["fruit", "size", "n"], ["'=1+1", 2048, 1], ["plum", 1024, 2]]
    assert cells[-1] == ["total", 7, None] and book["Figures"]["C2"].value == 3
    assert all(cell.data_type != "f" for sheet in book for row in sheet for cell in row)


def test_latex_has_every_table_below_its_title(tmp_path):
    Basket().save(tmp_path / "basket.tex")
    text = (tmp_path / "basket.tex").read_text()
    assert text == Basket().to_latex() and "\n% \\usepackage{booktabs, siunitx}\n" in text
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1
    out = io.StringIO()
    Basket().show(out, "latex")
    assert out.getvalue() == text


def test_a_result_without_a_picture_of_its_own_has_bars():
    rows = [{"fruit": "fig", "size": 2048, "n": 1}, {"fruit": "plum", "size": 1024, "n": None}]
    picture = Table("Fruit", COLUMNS, rows).plot()
    assert [*picture] == [("fig", 2048), ("plum", 1024)] and picture.columns == ("name", "size")
    words = [Column(name, name) for name in "abcd"]
    assert [*Table("Words", [*words, COLUMNS[1]], [{**dict(zip("abcd", "wxyz", strict=True)), "size": 3}]).plot()] == [
        ("w, x, y", 3)
    ]
    with pytest.raises(ValueError, match="unknown suffix"):
        Table("Fruit", COLUMNS, rows).plot(target="fruit.gif")
    optional("matplotlib")
    for n, title in ((20, "Fruit"), (21, "Fruit (the first 20 of 21)")):
        (axes,) = Table("Fruit", COLUMNS, rows[:1] * n).plot().figure().axes
        assert (len(axes.patches), axes.get_title()) == (20, title)


@pytest.mark.parametrize(
    ("kind", "values", "widths", "axis"),
    [
        ("duration", (0.002, 0.0005), [2, 0.5], "Amount (ms)"),
        ("seconds", (0.002, 0.0005), [2, 0.5], "Amount (ms)"),
        ("bytes", (3 * 2**20, 2**20), [3, 1], "Amount (MiB)"),
        ("flops", (5 * 10**9, 10**9), [5, 1], "GAmount"),
        ("count", (2_000_000, 1000), [2, 0.001], "Amount (M)"),
        ("ratio", (0.5, 0.25), [0.5, 0.25], "Amount"),
        ("percent", (50.0, 12.5), [50, 12.5], "Amount (%)"),
    ],
)
def test_bars_of_rows_or_of_figures_have_the_unit_of_the_largest(kind, values, widths, axis):
    """Of the figures, those of the most frequent kind are bars."""
    optional("matplotlib")

    other = Figure("other", "Other", 7, "bytes" if kind != "bytes" else "count")
    figures = Given(
        "Figures", [other, *(Figure(name, name, value, kind) for name, value in zip("ab", values, strict=True))]
    )
    rows = [{"n": name, "v": value} for name, value in zip("ab", values, strict=True)]
    for result, title in (
        (Table("Rows", [Column("n", "Name"), Column("v", "Amount", kind)], rows), axis),
        (figures, axis.replace("Amount", "").strip()),
    ):
        picture = result.plot()
        (axes,) = picture.figure().axes
        assert [*picture] == [*zip("ab", values, strict=True)]
        assert [bar.get_width() for bar in axes.patches] == widths and axes.get_xlabel() == title


def test_every_forge_renders_its_markdown():
    """CommonMark with tables (GitHub, GitLab, Gitea), and Python-Markdown (Bitbucket) find the same cells."""
    commonmark, python = pytest.importorskip("markdown_it"), pytest.importorskip("markdown")
    names = ("a|b", "`x`", "*y*", "__z__", "_v", "<b>", "[a](b)", "a_b_c", "~~d~~")
    rows = [{"fruit": name, "size": 1, "n": 2} for name in names]
    text = Table("Fruit", COLUMNS, rows, remarks=["one *remark*"]).to_markdown()
    pages = [
        commonmark.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text),
        python.markdown(text, extensions=["tables"]),
    ]
    cells = [[html.unescape(cell.strip()) for cell in re.findall(r"<td[^>]*>(.*?)</td>", page)] for page in pages]
    assert cells[0][::3] == [*names] and cells[0] == cells[1]
