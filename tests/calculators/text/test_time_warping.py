"""Dynamic time warping against its executed definition."""

from __future__ import annotations

import numpy as np

from tests.calculators.counting_scalar import count, minimum
from tests.calculators.layer_costs import operations


def test_paths_through_costs() -> None:
    def definition(costs):
        reached = np.pad(costs, ((1, 0), (1, 0)), mode="edge")  # a border that is as dear as its neighbors
        for i, j in np.ndindex(costs.shape):
            least = minimum(reached[i, j], minimum(reached[i, j + 1], reached[i + 1, j]))
            reached[i + 1, j + 1] = costs[i, j] + least

    assert operations("time_warping", {"x": (3, 4)}, (2, 6)) == count(definition, (3, 4))
