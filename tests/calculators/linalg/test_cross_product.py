"""The cross product against its executed definition."""

from __future__ import annotations

from tests.calculators.counting_scalar import count
from tests.calculators.layer_costs import operations


def test_cross_product():
    def cross(a, b):
        return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

    assert operations("cross", {"x0": (4, 3), "x1": (3,)}, (4, 3)) == 4 * count(cross, (3,), (3,))
