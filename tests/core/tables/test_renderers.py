import csv
import io

import pytest

from costcore.tables.renderers import renderer_for, to_boxes, to_csv, to_markdown
from costcore.text.screen import RenderedTable, printable


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
    with pytest.raises(ValueError, match="csv, md, table"):
        renderer_for("html5")


def test_the_mode_html_suggests_to_html():
    with pytest.raises(ValueError, match=r"For an HTML page use report\.to_html\(\)\.$"):
        renderer_for("html")
