"""Layers that JAX exports have the cost that the conformance table of costcore derives by hand."""

from __future__ import annotations

import pytest
from exported import exported
from layers import BUILDERS

from costcore import estimate

EXPANDED = {
    "cumsum": "a reduction of windows",
    "erf": "a quotient of polynomials",
    "gelu": "its erfc is one, too",
    "split": "a slice for each part",
}
"""What JAX exports for layers that StableHLO has no operator for: it is counted as the file has it."""


@pytest.mark.parametrize("name", sorted(BUILDERS.keys() - EXPANDED))
def test_the_cost_of_a_layer_is_the_one_by_hand(name, cost_conformance):
    model, inputs, options = BUILDERS[name]
    path = exported(model, inputs, options.get("params", ()))
    cost_conformance(name, lambda: estimate(path, regroup=True))
