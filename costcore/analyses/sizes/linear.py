"""Exact solution of linear equations."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def solve(rows: Sequence[Sequence[int]], values: Sequence[int]) -> list[Fraction] | None:
    """Return the only ``x`` with ``rows · x == values``; None if there is none, or more than one."""
    width = len(rows[0])
    matrix = [[*map(Fraction, row), Fraction(value)] for row, value in zip(rows, values, strict=True)]
    for column in range(width):
        pivot = next((i for i in range(column, len(matrix)) if matrix[i][column]), None)
        if pivot is None:
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        scale = matrix[column][column]
        matrix[column] = [entry / scale for entry in matrix[column]]
        for i, row in enumerate(matrix):
            if i != column and row[column]:
                factor = row[column]
                matrix[i] = [a - factor * b for a, b in zip(row, matrix[column], strict=True)]
    if any(row[width] for row in matrix[width:]):
        return None
    return [row[width] for row in matrix[:width]]
