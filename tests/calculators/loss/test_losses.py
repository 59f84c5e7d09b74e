"""Losses against their executed definitions and figures worked out by hand."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, exp, log, select, total
from tests.calculators.layer_costs import declared, layer_cost
from tests.calculators.reference import reduced

LOSSES = declared("loss", "LOSSES")

LABELS = Tensor((4,), "int64")
NAMES = {"where": select, "log": log, "exp": exp, "beta": 0.3, "delta": 0.3, "margin": 1.0}


def reduced_with_weights(terms, reduction, w=None):
    """Return the sum or the mean of losses times weights, which is a dot product, or all of them."""
    if w is None:
        return reduced(terms, reduction)
    if reduction == "none":
        return [term * weight for term, weight in zip(terms, w, strict=True)]
    products = dot(terms, w)
    return products / len(terms) if reduction == "mean" else products


REDUCTIONS = pytest.mark.parametrize("reduction", ["none", "sum", "mean"])


@REDUCTIONS
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("op", LOSSES)
def test_elementwise_losses_are_their_definitions(op, weighted, reduction):
    definition = compile(LOSSES[op].definition, op, "eval")

    def loss(x, target, w=None):
        terms = [eval(definition, NAMES | {"x": a, "target": t}) for a, t in zip(x.flat, target.flat, strict=True)]
        reduced_with_weights(terms, reduction, w if w is None else w.flat)

    given = {"x": (2, 3), "target": (2, 3)} | ({"w": (2, 3)} if weighted else {})
    y = (2, 3) if reduction == "none" else ()
    cost = layer_cost(op, given, y, reduction=reduction)
    assert cost.flops == count(loss, *given.values())
    assert (cost.mread, cost.mwrite) == (4 * 6 * len(given), 4 * (6 if y else 1))


def test_binary_cross_entropy_with_a_weight_of_positives_is_its_definition():
    def loss(x, target, p):
        terms = []
        for a, t, weight in zip(x, target, p, strict=True):
            s = 1 / (1 + exp(-a))
            terms.append(-(t * log(s) * weight + (1 - t) * log(1 - s)))
        reduced(terms, "mean")

    given = {"x": (5,), "target": (5,), "pos_weight": (5,)}
    assert layer_cost("binary_cross_entropy_with_logits", given, ()).flops == count(loss, *given.values())


@REDUCTIONS
def test_mse_loss_is_its_definition(reduction):
    def loss(x, target):
        differences = [a - t for a, t in zip(x, target, strict=True)]
        if reduction == "none":
            return [d * d for d in differences]
        squares = dot(differences, differences)
        return squares / len(x) if reduction == "mean" else squares

    cost = layer_cost("mse_loss", {"x": (7,), "target": (7,)}, (7,) if reduction == "none" else (), reduction=reduction)
    assert cost.flops == count(loss, (7,), (7,))


@REDUCTIONS
def test_kl_div_is_its_definition(reduction):
    def loss(x, target):
        logarithms = [log(t) - a for a, t in zip(x, target, strict=True)]
        if reduction == "none":
            return [t * d for t, d in zip(target, logarithms, strict=True)]
        products = dot(target, logarithms)
        return products / len(x) if reduction == "mean" else products

    cost = layer_cost("kl_div", {"x": (7,), "target": (7,)}, (7,) if reduction == "none" else (), reduction=reduction)
    assert cost.flops == count(loss, (7,), (7,))


def log_softmax(row):
    logarithm = log(total([exp(value) for value in row]))
    return [value - logarithm for value in row]


def picked(rows, reduction, w=None):
    """The negated picks of rows of log-probabilities; row i belongs to class i mod c."""
    terms = [-row[i % len(row)] for i, row in enumerate(rows)]
    if w is not None:
        weights = [w[i % len(w)] for i in range(len(rows))]
        products = reduced_with_weights(terms, "sum" if reduction == "mean" else reduction, weights)
        return products / total(weights) if reduction == "mean" else products
    return reduced(terms, reduction)


@REDUCTIONS
@pytest.mark.parametrize("weighted", [True, False])
def test_cross_entropy_and_nll_loss_are_their_definitions(weighted, reduction):
    y = (4,) if reduction == "none" else ()
    given = {"x": (4, 3), "w": (3,)} if weighted else {"x": (4, 3)}
    entropy = layer_cost("cross_entropy", given | {"target": LABELS}, y, reduction=reduction)
    assert entropy.flops == count(lambda x, w=None: picked([log_softmax(r) for r in x], reduction, w), *given.values())
    likelihood = layer_cost("nll_loss", given | {"target": LABELS}, y, reduction=reduction)
    assert likelihood.flops == count(lambda x, w=None: picked(list(x), reduction, w), *given.values())
    weights = 4 * 4 if weighted else 0  # one a row
    assert entropy.mread == 4 * 12 + 8 * 4 + weights
    assert likelihood.mread == 4 * 4 + 8 * 4 + weights


def test_cross_entropy_by_hand():
    """N = 4 rows of c = 3: 2c add and c+1 special a row, 3 add and 1 div for the mean; also with positions as rows."""
    expected = Operations(add=4 * 6 + 3, special=4 * 4, div=1)
    assert layer_cost("cross_entropy", {"x": (4, 3), "target": LABELS}, (), reduction="mean").flops == expected
    positions = {"x": (2, 3, 1, 2), "target": Tensor((2, 1, 2), "int64")}
    assert layer_cost("cross_entropy", positions, (), reduction="mean").flops == expected
    alone = layer_cost("cross_entropy", {"x": (3,), "target": Tensor((), "int64")}, (), reduction="none")
    assert alone.flops == Operations(add=6, special=4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_with_probabilities_is_its_definition(smoothing):
    def loss(x, target):
        terms = []
        for row, probabilities in zip(x, target, strict=True):
            logs = log_softmax(row)
            term = -dot(logs, probabilities)
            if smoothing:
                term = term * (1 - smoothing) + -total(logs) * (smoothing / len(row))
            terms.append(term)
        reduced(terms, "mean")

    given = {"x": (4, 3), "target": (4, 3)}
    cost = layer_cost("cross_entropy", given, (), reduction="mean", label_smoothing=smoothing)
    assert cost.flops == count(loss, *given.values())


@pytest.mark.parametrize(("log_input", "full"), [(True, False), (False, False), (True, True)])
def test_poisson_nll_loss_is_its_definition(log_input, full):
    def loss(x, target):
        terms = []
        for a, t in zip(x, target, strict=True):
            term = exp(a) - t * a if log_input else a - t * log(a + 1e-8)
            if full:
                term = term + select(t > 1, t * log(t) - t + 0.5 * log(6.2832 * t), 0.0)
            terms.append(term)
        reduced(terms, "mean")

    cost = layer_cost("poisson_nll_loss", {"x": (5,), "target": (5,)}, (), log_input=log_input, full=full)
    assert cost.flops == count(loss, (5,), (5,))


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_kl_div_with_logits(reduction):
    def definition(x, target):
        losses = []
        for row, wanted in zip(x, target, strict=True):
            whole = log(total(exp(value) for value in row))
            losses.append(dot(wanted, [log(t) - (value - whole) for t, value in zip(wanted, row, strict=True)]))
        if reduction == "mean":
            total(losses) / len(losses)

    output = () if reduction == "mean" else (4,)
    result = layer_cost("kl_div_with_logits", {"x": (4, 3), "target": (4, 3)}, output, reduction=reduction)
    assert result.flops == count(definition, (4, 3), (4, 3))
    assert result.mread == 4 * 24
