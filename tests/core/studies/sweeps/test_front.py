"""The Pareto front of rows."""

from __future__ import annotations

import pytest

from costcore.studies.sweeps.rows import ModelRow
from costcore.studies.sweeps.table import ModelTable, front

ROWS = [
    {"macs": 4, "peak": 1},
    {"macs": 2, "peak": 2},
    {"macs": 3, "peak": 2},  # the one before has fewer macs
    {"macs": 1, "peak": 5},
    {"macs": 2, "peak": 2},
    {"macs": 1, "peak": None},
    {"macs": 5, "peak": 6},
]


def test_no_other_row_is_better_in_everything():
    assert front(ROWS, ["macs", "peak"]) == [0, 1, 3, 4]
    assert front(ROWS, ["macs"]) == [3, 5]
    assert front(ROWS, ["-macs", "peak"]) == [0, 6]
    assert front(ROWS, ["nothing"]) == []


def test_a_table_keeps_the_rows_of_the_front():
    rows = [
        ModelRow(str(i), {"macs": row["macs"], "peak_memory": row["peak"]}, "complete") for i, row in enumerate(ROWS)
    ]
    rows.append(ModelRow("failed", {}, "no such file", failed=True))
    table = ModelTable(tuple(rows), columns=("macs", "peak_memory"))
    assert [row.name for row in table.pareto("macs", "peak_memory").rows] == ["0", "1", "3", "4"]
    assert table.pareto("macs", "peak_memory").columns == table.columns
    with pytest.raises(ValueError, match="unknown column 'flop'"):
        table.pareto("flop")
