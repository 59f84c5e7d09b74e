"""Limited norms against their executed definition."""

from __future__ import annotations

from tests.calculators.counting_scalar import count, dot, sqrt
from tests.calculators.layer_costs import layer_cost, operations


def test_renorm_limits_every_slice():
    def limit(x):
        for row in x:
            norm = sqrt(dot(row, row))
            factor = 1.5 / (norm + 1e-7) if norm > 0.1 else norm
            [value * factor for value in row]

    assert operations("renorm", {"x": (3, 5)}, (3, 5), axis=0) == count(limit, (3, 5))
    result = layer_cost("renorm_rows", {"w": (100, 5), "x": (3,)}, (100, 5))
    assert result[:3] == (count(limit, (3, 5)), 4 * (3 + 15), 4 * 15)
