"""Fragments of error messages."""

import pytest

from costcore.messages import error_text, short_repr, unknown

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
