"""Positions of nonzero elements, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import priced


def test_places_of_what_is_not_zero():
    layer, cost = priced("NonZero", (3, 4))
    assert (str(layer.out.shape), cost.flops) == ("(2, NonZero_0_0_1)", Operations(cmp=12))
    assert str(cost.mwrite) == "16*NonZero_0_0_1"
