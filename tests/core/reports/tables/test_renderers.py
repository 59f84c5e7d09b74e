import csv
import io

import pytest

from costcore.reports.columns import Table
from costcore.reports.tables.renderers import renderer_for, to_boxes, to_csv, to_markdown
from costcore.reports.text.escape import printable


def table(*texts):
    return Table([("Layer name", ""), ("MemRead", "GiB")], [[text, "1.5"] for text in texts], [False, True])


@pytest.mark.parametrize("text", ["=cmd|'/c calc'!A1", "+1", "-1", "@x", "\tx", "\rx", "\0x"])
def test_csv_text_is_never_a_formula(text):
    rows = list(csv.reader(io.StringIO(to_csv(table(text)))))
    assert rows[1][0].startswith("'")


def test_csv_numbers_are_left_alone():
    assert to_csv(Table([("a", "")], [["-1.5"]], [True])) == "a\n-1.5\n"


@pytest.mark.parametrize("text", ["a,b", 'say "x"', "two\nlines", "plain"])
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


def test_a_terminal_is_not_given_control_characters():
    assert printable("\x1b[31mred\u202e\u200b\ud800") == "\\x1b[31mred\\u202e\\u200b\\ud800"
    assert "\x1b" not in to_boxes(table("\x1b]0;title\x07"))


def test_a_cell_of_a_megabyte_is_cut_in_boxes():
    assert max(map(len, to_boxes(table("x" * 1_000_000)).splitlines())) < 500


def test_an_unknown_mode_names_the_known_ones():
    with pytest.raises(ValueError, match="csv, md, table"):
        renderer_for("html5")


def test_the_mode_html_leads_to_the_method_for_pages():
    with pytest.raises(ValueError, match=r"For an HTML page use report\.to_html\(\)\.$"):
        renderer_for("html")
