"""The fused linear layer and cross entropy against the two operators."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.layer_costs import layer_cost

LABELS = Tensor((6,), "int64")


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("biased", [False, True])
def test_a_linear_cross_entropy_is_its_parts(reduction, biased):
    bias = {"b": (5,)} if biased else {}
    y = (6,) if reduction == "none" else ()
    scores = layer_cost("linear", {"x": (6, 4), "w": (5, 4), **bias}, (6, 5))
    loss = layer_cost("cross_entropy", {"x": (6, 5), "target": LABELS}, y, reduction=reduction)
    given = {"x": (6, 4), "w": (5, 4), **bias, "target": LABELS}
    result = layer_cost("linear_cross_entropy", given, y, reduction=reduction)
    assert result.flops == scores.flops + loss.flops
    assert result.macs == 6 * 5 * 4


def test_its_gradients():
    """6 rows, 5 classes, 4 features: 30 slopes; dx and dw are 24 and 20 dot products, db sums 6 rows."""
    given = {"x": (6, 4), "w": (5, 4), "b": (5,), "target": LABELS}
    plain = layer_cost("linear_cross_entropy", given, (), reduction="mean")
    result = layer_cost(
        "linear_cross_entropy", given, (), (6, 4), (5, 4), (5,), reduction="mean", needs=("x", "w", "b")
    )
    slopes = Operations(div=6, mul=30, add=6)
    products = Operations(mul=24, fma=120 - 24) + Operations(mul=20, fma=120 - 20) + Operations(add=25)
    assert result.flops == plain.flops + slopes + products
    assert result.macs == 3 * 120
    weighted = layer_cost("linear_cross_entropy", given | {"class_weights": (5,)}, (), reduction="mean")
    assert weighted.flops == plain.flops + Operations(mul=6, add=5)
