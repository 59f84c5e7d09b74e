"""Gradients of losses against executed derivatives and figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, exp, run, select
from tests.calculators.layer_costs import declared, layer_cost

LOSS_GRADIENTS = declared("loss", "LOSS_GRADIENTS")
LOSSES = declared("loss", "LOSSES")

NAMES = {"where": select, "exp": exp, "beta": 0.3, "delta": 0.3, "margin": 1.0}
LABELS = Tensor((4,), "int64")


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("op", LOSS_GRADIENTS)
def test_gradients_of_elementwise_losses_are_their_definitions(op, weighted):
    definition = compile(LOSS_GRADIENTS[op].definition, op, "eval")

    def gradient(dy, x, target, w=None):
        share = dy / len(x)
        slopes = [eval(definition, NAMES | {"dy": share, "x": a, "target": t}) for a, t in zip(x, target, strict=True)]
        if w is not None:
            [slope * weight for slope, weight in zip(slopes, w, strict=True)]

    given = {"dy": (), "x": (5,), "target": (5,)} | ({"w": (5,)} if weighted else {})
    cost = layer_cost(op, given, (5,), reduction="mean")
    assert cost.flops == count(gradient, *given.values())
    summed = layer_cost(op, given, (5,), reduction="sum")
    assert cost.flops == summed.flops + Operations(div=1)
    assert (cost.mread, cost.mwrite) == (4 * (1 + 5 * (len(given) - 1)), 4 * 5)


@pytest.mark.parametrize("op", LOSSES)
@pytest.mark.parametrize("x", [0.23, 0.61])
def test_a_derivative_is_the_slope_of_its_loss(op, x):
    names = NAMES | {
        "log": math.log,
        "exp": math.exp,
        "where": lambda c, a, b: a if c else b,
    }
    step, target = 1e-6, 0.4

    def loss(value):
        return eval(LOSSES[op].definition, names | {"x": value, "target": target})

    slope = eval(LOSS_GRADIENTS[f"{op}_backward"].definition, names | {"x": x, "target": target, "dy": 1.0})
    assert slope == pytest.approx((loss(x + step) - loss(x - step)) / (2 * step), abs=1e-5)


def test_binary_cross_entropy_with_a_weight_of_positives_is_its_definition():
    def gradient(dy, x, target, p):
        share = dy / len(x)
        for a, t, weight in zip(x, target, p, strict=True):
            ((1 - t) - (1 + (weight - 1) * t) * (1 - 1 / (1 + exp(-a)))) * share

    given = {"dy": (), "x": (5,), "target": (5,), "pos_weight": (5,)}
    cost = layer_cost("binary_cross_entropy_with_logits_backward", given, (5,))
    assert cost.flops == count(gradient, *given.values())


def test_kl_div_backward_of_a_logarithmic_target_evaluates_it():
    given = {"dy": (), "x": (5,), "target": (5,)}
    cost = layer_cost("kl_div_backward", given, (5,), reduction="sum", log_target=True)
    assert cost.flops == run(lambda dy, t: [-exp(value) * dy for value in t], (), (5,))[1]


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_and_nll_loss_backward_are_their_definitions(reduction, weighted):
    def shares(dy, w):
        scale = dy / 4 if reduction == "mean" else dy
        rows = [scale[i] if reduction == "none" else scale for i in range(4)]
        return rows if w is None else [share * w[i % 3] for i, share in enumerate(rows)]

    def entropy(dy, y, w=None):
        for i, (row, share) in enumerate(zip(y, shares(dy, w), strict=True)):
            powers = [exp(value) for value in row]
            powers[i % 3] = powers[i % 3] - 1
            [power * share for power in powers]

    def likelihood(dy, w=None):
        shares(-dy, w)

    dy = (4,) if reduction == "none" else ()
    weights = {"w": (3,)} if weighted else {}
    given = {"dy": dy, "y": (4, 3)} | weights
    cost = layer_cost("cross_entropy_backward", given | {"target": LABELS}, (4, 3), reduction=reduction)
    assert cost.flops == count(entropy, *given.values())
    given = {"dy": dy} | weights
    cost = layer_cost("nll_loss_backward", given | {"target": LABELS}, (4, 3), reduction=reduction)
    assert cost.flops == count(likelihood, *given.values())
    assert cost.mread == 4 * (4 if dy else 1) + 8 * 4 + (4 * 4 if weighted else 0)


def test_cross_entropy_backward_with_probabilities_subtracts_them_all():
    given = {"dy": (), "y": (4, 3), "target": (4, 3)}
    cost = layer_cost("cross_entropy_backward", given, (4, 3), reduction="mean")
    assert cost.flops == Operations(special=12, add=12, mul=12, div=1)
