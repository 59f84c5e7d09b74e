"""Columns of the least time on a device in tables of models."""

import csv

import pytest

from costcore import estimate, sweep, table
from tests.command_line import main
from tests.core import toy_framework

DEVICE = """
name = "mine"
kind = "gpu"
[memory]
dram_gbs = {gbs}
"""
COLUMN = "bound_seconds@mine.toml"


@pytest.fixture(autouse=True)
def device(tmp_path, monkeypatch):
    """A device without caches, whose memory moves 24 bytes per ns."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(DEVICE.format(gbs=24))
    return path


def test_the_least_time_is_a_column_by_device_and_dtype(nets, capsys):
    """n doublings of 2 x 3 elements read and write 24 B each in float32: 2 ns; half of that in float16."""
    columns = ["flops", COLUMN, f"{COLUMN}:float16"]
    result = sweep(f"{nets}:make", {"depth": [1, 3]}, (2, 3), columns=columns)
    found = [[row.costs[name] * 1e9 for name in columns[1:]] for row in result.rows]
    assert found == [pytest.approx([2, 1]), pytest.approx([6, 3])]
    result.show(mode="md")
    header, _, first, _ = capsys.readouterr().out.splitlines()
    assert "| Bound (mine.toml) ns | Bound (mine.toml, float16) ns |" in header and "| 2.0 | 1.0 |" in first


def test_the_command_has_the_column(nets, capsys):
    assert (
        main(["table", f"{nets}:small", "--input", "2x3", "--columns", "bound_seconds@mine.toml", "--unit", "none"])
        == 0
    )
    assert "2e-09" in capsys.readouterr().out


def test_a_row_is_kept_while_the_device_is_the_same(nets, device, tmp_path):
    def seconds():
        result = sweep(f"{nets}:make", {"depth": [2]}, (2, 3), columns=[COLUMN], output=path, resume=True)
        return result.rows[0].costs[COLUMN]

    path = tmp_path / "rows.csv"
    assert seconds() == seconds() == pytest.approx(4e-9)
    with path.open() as file:
        assert float(next(csv.DictReader(file))[COLUMN]) == pytest.approx(4e-9)
    device.write_text(DEVICE.format(gbs=12))
    assert seconds() == pytest.approx(8e-9)


def test_symbolic_sizes_have_no_time(toy):
    report = estimate(toy_framework.Model("toy::Double"), ("B", 3))
    (row,) = table([("net", report)], columns=[COLUMN]).rows
    assert row.costs[COLUMN] is None and "bound_seconds@mine.toml is unknown: time needs numbers" in row.status


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("bound_seconds@l5", "unknown device 'l5'"),
        ("bound_seconds@", r"column 'bound_seconds@' needs a parameter: bound_seconds@DEVICE"),
        ("second", "bound_seconds@DEVICE"),
        ("binds@l4", "column 'binds@l4' is text"),
    ],
)
def test_wrong_columns(toy, column, message):
    with pytest.raises(ValueError, match=message):
        table([], columns=[column])


def test_a_row_says_what_is_unknown_of_the_device(nets, device):
    """Without a bandwidth there is no bound; with one, but without a peak, it leaves out the additions."""
    (row,) = table([f"{nets}:small"], (2, 3), columns=[COLUMN]).rows
    assert row.costs[COLUMN] == pytest.approx(2e-9)
    assert row.status == "complete; mine: unknown, not part of the bound: the peak of its vector engine"
    device.write_text('name = "mine"\nkind = "gpu"\n')
    (row,) = table([f"{nets}:small"], (2, 3), columns=[COLUMN]).rows
    assert row.costs[COLUMN] is None
    assert f"{COLUMN} is unknown: mine: unknown, not part of the bound" in row.status
