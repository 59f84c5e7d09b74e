"""Layers in JAX have the cost that the conformance table of costcore derives by hand."""

from __future__ import annotations

import pytest
from layers import BUILDERS

from costcore import estimate


@pytest.mark.parametrize("name", BUILDERS)
def test_the_cost_of_a_layer_is_the_one_by_hand(name, cost_conformance):
    model, inputs, options = BUILDERS[name]
    cost_conformance(name, lambda: estimate(model, inputs, **options))
