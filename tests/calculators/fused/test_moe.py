from __future__ import annotations

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, exp, maximum, total
from tests.calculators.layer_costs import layer_cost


def test_every_row_runs_k_experts() -> None:
    """3 rows of 4 features, 4 experts of 5 hidden units, 2 a row; the choice of 2 of 4 takes at most 8 comparisons."""

    def definition(x, scores, first, second):
        for row, score in zip(x, scores, strict=True):
            powers = [exp(value) for value in score]
            summed = total(powers)
            chosen = [value / summed for value in powers][:2]
            results = []
            for i in range(2):
                hidden = [maximum(dot(row, w), 0) for w in first[i]]
                results.append([dot(hidden, w) for w in second[i]])
            for column in zip(*results, strict=True):
                dot(chosen, column)

    given = {"x": (3, 4), "router": (3, 4), "w0": (4, 5, 4), "w1": (4, 4, 5)}
    result = layer_cost("moe", given, (3, 4), k=2, activation="relu")
    assert result.flops == count(definition, *given.values()) + Operations(cmp=3 * 8)
    assert result.macs == 3 * 2 * (20 + 20)
    assert result.mread == 4 * (12 + 12 + 80 + 80), "six choices of four experts: all of them are read"


def test_gates_biases_and_normalized_weights() -> None:
    given = {
        "x": (1, 4),
        "router": (1, 8),
        "w0": (8, 5, 4),
        "w1": (8, 4, 5),
        "w2": (8, 5, 4),
        "b0": (8, 5),
        "b1": (8, 4),
    }
    result = layer_cost("moe", given, (1, 4), k=2, activation="silu", normalize=True)
    router = Operations(add=7, div=8, special=8, cmp=8 * 2) + Operations(add=1, div=2)
    layers = Operations(fma=40 + 40) + Operations(mul=10, fma=30)
    hidden = 10 * (Operations(mul=1, add=2, div=1, special=1) + Operations(mul=1))
    assert result.flops == router + layers + hidden + Operations(mul=4, fma=4)
    assert result.macs == 2 * 60
    assert result.mread == 4 * (4 + 8 + 2 * (20 + 20 + 20 + 5 + 4)), "two of eight experts"


def test_packed_experts_are_made_real() -> None:
    given = {
        "x": (1, 4),
        "router": (1, 4),
        "w0": Tensor((4, 6, 4), "uint4"),
        "w1": Tensor((4, 4, 6), "uint4"),
        "w0_scale": (4, 6),
        "w1_scale": (4, 4),
    }
    plain = layer_cost("moe", {name: x for name, x in given.items() if "scale" not in name}, (1, 4), k=1)
    packed = layer_cost("moe", given, (1, 4), k=1)
    assert isinstance(plain.flops, Operations)
    assert packed.flops == plain.flops + Operations(mul=24 + 24)
    assert packed.mread == 4 * 8 + 12 + 12 + 4 * (6 + 4)
