import pytest

from costcore.reports.text.suggest import unknown

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
