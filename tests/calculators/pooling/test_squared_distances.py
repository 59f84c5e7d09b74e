"""Squared distances against their executed definition."""

from __future__ import annotations

from tests.calculators.counting_scalar import count, dot
from tests.calculators.layer_costs import layer_cost


def test_squared_distances() -> None:
    def definition(x0, x1):
        for a in x0:
            for b in x1:
                difference = [p - q for p, q in zip(a, b, strict=True)]
                dot(difference, difference)

    result = layer_cost("squared_distances", {"x0": (2, 5), "x1": (3, 5)}, (2, 3))
    assert (result.flops, result.macs) == (count(definition, (2, 5), (3, 5)), 0)
    assert (result.mread, result.mwrite) == (4 * (10 + 15), 4 * 6)
