from __future__ import annotations

import math

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, exp, largest, log, maximum, measure, select, tanh
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations

ACTIVATIONS = declared("activation", "ACTIVATIONS")
GELU = declared("activation", "GELU")

SETTINGS: dict[str, dict[str, float]] = {
    "hard_tanh": {"lower": -1, "upper": 1},
    "leaky_relu": {"slope": 0.01},
    "rrelu": {"slope": 0.01},
    "threshold": {"threshold": 0.1, "value": 7},
    "elu": {"alpha": 1},
    "celu": {"alpha": 2},
    "selu": {"alpha": 1.6732632423543772, "scale": 1.0507009873554805},
    "quick_gelu": {"alpha": 1.702},
    "hard_sigmoid": {"slope": 1 / 6, "shift": 0.5},
    "hard_swish": {"slope": 1 / 6, "shift": 0.5},
    "hard_shrink": {"lambd": 0.5},
    "soft_shrink": {"lambd": 0.5, "bias": 0.5},
}

# At 0.5 and at -1.5, by torch.nn.functional of PyTorch 2.13 in float64 (rrelu at a slope of 0.01; quick_gelu is
# x / (1 + exp(-1.702 x)), by hand).
VALUES = {
    "relu": (0.5, 0),
    "relu6": (0.5, 0),
    "hard_tanh": (0.5, -1),
    "leaky_relu": (0.5, -0.015),
    "rrelu": (0.5, -0.015),
    "threshold": (0.5, 7),
    "elu": (0.5, -0.776869839852),
    "celu": (0.5, -1.05526689452),
    "selu": (0.525350493678, -1.36581435337),
    "sigmoid": (0.622459331202, 0.182425523806),
    "log_sigmoid": (-0.47407698418, -1.70141327798),
    "silu": (0.311229665601, -0.27363828571),
    "quick_gelu": (0.5 / (1 + math.exp(-0.851)), -1.5 / (1 + math.exp(2.553))),
    "mish": (0.375245211305, -0.298099742167),
    "softsign": (0.333333333333, -0.6),
    "tanh": (0.46211715726, -0.905148253645),
    "tanh_shrink": (0.03788284274, -0.594851746355),
    "hard_sigmoid": (0.583333333333, 0.25),
    "hard_swish": (0.291666666667, -0.375),
    "hard_shrink": (0, -1.5),
    "soft_shrink": (0, -1),
}


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_an_activation_counts_what_its_definition_does(op: str) -> None:
    values = []
    for x in ("x=0.5", "x=-1.5"):
        value, counted = measure(ACTIVATIONS[op].definition, x, **SETTINGS.get(op, {}))
        values.append(value)
        assert operations(op, {"x": (2, 3)}, (2, 3)) == 6 * counted
    assert values == pytest.approx(VALUES[op], abs=1e-10)


# The counting convention, per element.
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("relu", Operations(cmp=1)),
        ("relu6", Operations(cmp=2)),
        ("leaky_relu", Operations(mul=1, cmp=1)),
        ("sigmoid", Operations(add=2, div=1, special=1)),
        ("tanh", Operations(special=1)),
        ("silu", Operations(mul=1, add=2, div=1, special=1)),
        ("gelu", Operations(mul=3, add=1, special=1)),
        ("softplus", Operations(add=1, special=2)),
        ("mish", Operations(mul=1, add=1, special=3)),
        ("hard_sigmoid", Operations(mul=1, add=1, cmp=2)),
        ("hard_swish", Operations(mul=2, add=1, cmp=2)),
        ("elu", Operations(mul=1, add=1, cmp=1, special=1)),
        ("selu", Operations(mul=2, add=1, cmp=1, special=1)),
    ],
)
def test_the_counting_table(op: str, expected: Operations) -> None:
    assert operations(op, {"x": (4, 5)}, (4, 5)) == 20 * expected


# By torch.nn.functional.gelu of PyTorch 2.13 in float64.
@pytest.mark.parametrize(
    ("approximate", "values", "expected"),
    [
        ("none", (0.345731230637, -0.100210801903), Operations(mul=3, add=1, special=1)),
        ("tanh", (0.345714009825, -0.10042842302), Operations(mul=6, add=2, special=1)),
    ],
)
def test_gelu(approximate: str, values: tuple[float, float], expected: Operations) -> None:
    measured = [measure(GELU[approximate].definition, x) for x in ("x=0.5", "x=-1.5")]
    assert [value for value, _ in measured] == pytest.approx(values, abs=1e-10)
    assert {counted for _, counted in measured} == {expected}
    assert operations("gelu", {"x": (7,)}, (7,), approximate=approximate) == 7 * expected


def sigmoid(x):
    return 1 / (1 + exp(-x))


def test_softplus_scales_for_a_beta() -> None:
    def softplus(x):
        return [log(1 + exp(v)) for v in x]

    def scaled(x):
        return [(1 / 3) * log(1 + exp(3 * v)) for v in x]

    assert operations("softplus", {"x": (6,)}, (6,)) == count(softplus, (6,))
    assert operations("softplus", {"x": (6,)}, (6,), beta=1.0) == count(softplus, (6,))
    assert operations("softplus", {"x": (6,)}, (6,), beta=3.0) == count(scaled, (6,))


def test_swish_is_silu_without_a_beta() -> None:
    def silu(x):
        return [v * sigmoid(v) for v in x]

    def swish(x, beta):
        return [v * sigmoid(beta * v) for v in x]

    assert operations("swish", {"x": (6,)}, (6,)) == count(silu, (6,))
    assert operations("swish", {"x": (6,)}, (6,), beta=2.0) == count(swish, (6,), ())
    assert operations("swish", {"x": (2, 3), "beta": (3,)}, (2, 3)) == count(swish, (6,), ())


def test_gated_units() -> None:
    def glu(x):
        return [v * sigmoid(gate) for v, gate in zip(x[:3], x[3:], strict=True)]

    def swiglu(gate, x):
        return [g * sigmoid(g) * v for g, v in zip(gate, x, strict=True)]

    def scaled(gate, x):
        return [g * sigmoid(2 * g) * v for g, v in zip(gate, x, strict=True)]

    assert operations("glu", {"x": (1, 6)}, (1, 3), axis=1) == count(glu, (6,))
    assert operations("swiglu", {"x0": (3,), "x1": (3,)}, (3,)) == count(swiglu, (3,), (3,))
    assert operations("swiglu", {"x0": (3,), "x1": (3,)}, (3,), alpha=2.0) == count(scaled, (3,), (3,))
    assert bytes_moved("glu", {"x": (1, 6)}, (1, 3)) == (6 * 4, 3 * 4)


def test_crelu_and_prelu() -> None:
    def crelu(x):
        return [maximum(v, 0) for v in x] + [maximum(-v, 0) for v in x]

    def prelu(x, w):
        return [maximum(v, w[i % 2] * v) for i, v in enumerate(x)]

    assert operations("crelu", {"x": (3, 2)}, (3, 4)) == count(crelu, (6,))
    assert operations("prelu", {"x": (3, 2), "w": (2,)}, (3, 2)) == count(prelu, (6,), (2,))
    assert bytes_moved("prelu", {"x": (3, 2), "w": (2,)}, (3, 2)) == ((6 + 2) * 4, 6 * 4)


def test_hardmax_and_zoneout() -> None:
    def zoneout(drop, x0, x1):
        return [select(d, a, b) for d, a, b in zip(drop, x0, x1, strict=True)]

    def blend(x0, x1):
        return [0.3 * a + 0.7 * b for a, b in zip(x0, x1, strict=True)]

    assert operations("hardmax", {"x": (2, 5)}, (2, 5), axis=1) == 2 * count(largest, (5,))
    pair = {"x0": (4,), "x1": (4,)}
    assert operations("zoneout", pair, (4,), training=True) == count(zoneout, (4,), (4,), (4,))
    assert operations("zoneout", pair, (4,), training=False) == count(blend, (4,), (4,))


def test_bytes_follow_each_tensors_type_and_settings_are_shown() -> None:
    half = Tensor((2, 3), "float16")
    result = layer_cost("leaky_relu", {"x": half}, Tensor((2, 3), "float32"), slope=0.1)
    assert (result.mread, result.mwrite) == (6 * 2, 6 * 4)
    assert result.params == {"slope": 0.1}


def test_counting_itself() -> None:
    assert count(lambda x, y: dot(x, y), (3,), (3,)) == Operations(mul=1, fma=2)
    assert count(lambda x, y, b: dot(x, y, b), (3,), (3,), ()) == Operations(fma=3)
    assert count(lambda x: tanh(x) + abs(x) - 1, ()) == Operations(add=3, special=1)
