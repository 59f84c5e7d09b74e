"""Removal and restoration of padding."""

from __future__ import annotations

from costcore.ir import Operations, Tensor
from tests.calculators.layer_costs import layer_cost


def test_padding_is_taken_away_and_brought_back() -> None:
    lengths, places = Tensor((2,), "int32"), Tensor((2, 5), "int32")
    joined = layer_cost("unpad", {"x": (2, 5, 3), "lengths": lengths}, (7, 3))
    assert (joined.flops, joined.mread, joined.mwrite) == (Operations(), 4 * (21 + 2), 4 * 21)
    apart = layer_cost("repad", {"x": (7, 3), "indices": places}, (2, 5, 3))
    assert (apart.flops, apart.mread, apart.mwrite) == (Operations(), 4 * (21 + 10), 4 * 30)
