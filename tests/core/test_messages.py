"""Fragments of error messages."""

import re

import pytest

from costcore.messages import did_you_mean, error_text, line_of, short_repr, unknown
from costcore.text.amounts import parse_amount

MODES = ("csv", "md", "table", "color")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tabel", ". Did you mean 'table'?"),
        ("pdf", ""),
        (3, ""),
        (["colour", "cvs"], ". Did you mean 'color' and 'csv'?"),
    ],
)
def test_an_unknown_name_lists_the_expected_ones_and_suggests_the_nearest(name, hint):
    names = ", ".join(map(repr, name if isinstance(name, list) else [name]))
    assert unknown("mode", name, MODES) == f"unknown mode {names} (expected csv, md, table, color){hint}"


def test_fragments_of_messages():
    class Model:
        def __repr__(self):
            return "Net(\n  (0): Linear()\n)"

    assert error_text(FileNotFoundError(2, "No such file or directory", "a")) == "No such file or directory"
    assert error_text(OSError("odd")) == "odd"
    assert short_repr([Model()]) == "[Net( (0): Linear() )]"
    assert short_repr("x" * 100) == "'" + "x" * 78 + "…"


def test_the_line_of_an_error_is_the_last_one_outside_costcore():
    try:
        parse_amount("many", "flops")
    except ValueError as error:
        assert re.fullmatch(r" \(test_messages\.py, line \d+\)", line_of(error))


def test_a_name_that_begins_with_the_given_one_is_nearer_than_a_similar_one():
    names = ["cortex-m7-480", "cortex-m4-168"]
    assert did_you_mean(["cortex-m4"], names) == ". Did you mean 'cortex-m4-168'?"
    assert did_you_mean(["cortex-m7-48"], names) == ". Did you mean 'cortex-m7-480'?"
    assert did_you_mean(["kortex-m7-480"], names) == ". Did you mean 'cortex-m7-480'?"
