"""Random numbers and choices, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import priced


def test_random_numbers_are_free_and_choices_are_not():
    for op in ("RandomNormal", "RandomUniform"):
        layer, cost = priced(op, shape=[3, 4])
        assert (layer.out.shape, cost.flops, cost.mwrite) == ((3, 4), Operations(), 48)
    for op in ("RandomNormalLike", "RandomUniformLike"):
        assert priced(op, (3, 4))[1][:3] == (Operations(), 0, 48)
    assert priced("Bernoulli", (3, 4))[1].flops == Operations(cmp=12)
    layer, cost = priced("Multinomial", (2, 8), sample_size=5)
    assert layer.out.shape == (2, 5)
    assert cost.flops == Operations(add=14, special=16) + 10 * Operations(mul=1, cmp=3)
