from __future__ import annotations

import math

import numpy as np
import pytest

from tests.calculators.counting_scalar import count, exp, measure, select, total
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations

ELU_DERIVATIVE = declared("activation", "ELU_DERIVATIVE")
GELU_GRADIENTS = declared("activation", "GELU_GRADIENTS")
GRADIENTS = declared("activation", "GRADIENTS")

SETTINGS: dict[str, dict[str, float]] = {
    "threshold_backward": {"threshold": 0.1},
    "hard_tanh_backward": {"lower": -1, "upper": 1},
    "leaky_relu_backward": {"slope": 0.01},
    "rrelu_backward": {"slope": 0.01},
    "elu_backward": {"alpha": 1},
    "celu_backward": {"alpha": 2},
    "selu_backward": {"alpha": 1.6732632423543772, "scale": 1.0507009873554805},
    "hard_sigmoid_backward": {"slope": 1 / 6, "lower": -3, "upper": 3},
    "hard_shrink_backward": {"lambd": 0.5},
    "soft_shrink_backward": {"lambd": 0.5},
}

# dx for dy = 1 at x = 0.5 and x = -1.5, by PyTorch 2.13's autograd in float64.
BY_AUTOGRAD = {
    "threshold_backward": (1, 0),
    "relu6_backward": (1, 0),
    "hard_tanh_backward": (1, 0),
    "leaky_relu_backward": (1, 0.01),
    "elu_backward": (1, 0.223130160148),
    "celu_backward": (1, 0.472366552741),
    "selu_backward": (1.05070098736, 0.39228498748),
    "log_sigmoid_backward": (0.377540668798, 0.817574476194),
    "silu_backward": (0.739961187303, -0.0412941542991),
    "mish_backward": (0.886424375358, -0.0640978158923),
    "softsign_backward": (0.444444444444, 0.16),
    "hard_sigmoid_backward": (1 / 6, 1 / 6),
    "hard_swish_backward": (0.666666666667, 0),
    "hard_shrink_backward": (0, 1),
    "soft_shrink_backward": (0, 1),
}

# dx for dy = 1 at x = 0.5 and the y that belongs to it, by calculus.
BY_CALCULUS = {
    "relu_backward": (0.5, 1),
    "sigmoid_backward": (1 / (1 + math.exp(-0.5)), 0.235003712202),
    "tanh_backward": (math.tanh(0.5), 0.786447732966),
    "softplus_backward": (math.log1p(math.exp(0.5)), 1 / (1 + math.exp(-0.5))),
}


@pytest.mark.parametrize("op", GRADIENTS)
def test_a_gradient_counts_what_its_definition_does(op: str) -> None:
    definition, settings = GRADIENTS[op].definition, SETTINGS.get(op, {})
    _, counted = measure(definition, "dy=1", "x", "y", "x0", "x1=0.25", "x2", **settings)
    assert operations(op, {"dy": (2, 3), "x": (2, 3)}, (2, 3)) == 6 * counted


@pytest.mark.parametrize("op", BY_AUTOGRAD)
def test_a_gradient_is_what_autograd_says(op: str) -> None:
    definition, settings = GRADIENTS[op].definition, SETTINGS.get(op, {})
    found = [measure(definition, "dy=1", x, **settings)[0] for x in ("x=0.5", "x=-1.5")]
    assert found == pytest.approx(BY_AUTOGRAD[op], abs=1e-9)


@pytest.mark.parametrize("op", BY_CALCULUS)
def test_a_gradient_is_what_calculus_says(op: str) -> None:
    y, expected = BY_CALCULUS[op]
    assert measure(GRADIENTS[op].definition, "dy=1", "x=0.5", f"y={y}")[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("approximate", "values"),
    [("none", (0.867495124656, -0.12746919223)), ("tanh", (0.867369903535, -0.127710793151))],
)
def test_gradient_of_gelu(approximate: str, values: tuple[float, float]) -> None:
    found = [measure(GELU_GRADIENTS[approximate].definition, "dy=1", x) for x in ("x=0.5", "x=-1.5")]
    assert [value for value, _ in found] == pytest.approx(values, abs=1e-9)
    operands = {"dy": (7,), "x": (7,)}
    assert operations("gelu_backward", operands, (7,), approximate=approximate) == 7 * found[0][1]
    assert bytes_moved("gelu_backward", operands, (7,), approximate=approximate) == (2 * 7 * 4, 7 * 4)


def test_gradients_of_prelu() -> None:
    def prelu(dy, x, w):
        dx = [select(x[i, j] > 0, dy[i, j], w[j] * dy[i, j]) for i in range(4) for j in range(3)]
        dw = [total(select(x[i, j] > 0, 0, x[i, j] * dy[i, j]) for i in range(4)) for j in range(3)]
        return dx, dw

    operands = {"dy": (4, 3), "x": (4, 3), "w": (3,)}
    assert operations("prelu_backward", operands, (4, 3), (3,)) == count(prelu, (4, 3), (4, 3), (3,))


def test_derivative_of_elu() -> None:
    _, each = measure(ELU_DERIVATIVE.definition, "x", "y", one=1.0, alpha=0.5)
    result = layer_cost("elu_derivative", {"x": (2, 3), "y": (2, 3)}, (2, 3))
    assert (result.flops, result.mread, result.mwrite) == (6 * each, 2 * 24, 24)


def test_swish_backward():
    def definition(dy, x, beta):
        slopes = [[] for _ in beta]
        for i, j in np.ndindex(dy.shape):
            g = 1 / (1 + exp(-(beta[j] * x[i, j])))
            y = x[i, j] * g
            b = beta[j] * y
            dy[i, j] * (b + g * (1 - b))
            slopes[j].append(dy[i, j] * y * (x[i, j] - y))
        for values in slopes:
            total(values)

    result = layer_cost("swish_backward", {"dy": (4, 3), "x": (4, 3), "beta": (3,)}, (4, 3), (3,))
    assert result.flops == count(definition, (4, 3), (4, 3), (3,))
    assert (result.mread, result.mwrite) == (4 * (12 + 12 + 3), 4 * (12 + 3))
