"""Losses against their executed definitions and figures worked out by hand."""

from __future__ import annotations

import pytest

from costcore.calculators.loss.losses import LOSSES
from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, exp, log, select, sqrt, total
from tests.calculators.layers import cost as priced

LABELS = Tensor((4,), "int64")
NAMES = {"where": select, "log": log, "exp": exp, "beta": 0.3, "delta": 0.3, "margin": 1.0}


def reduced(terms, reduction):
    """The sum or mean of losses, or all of them."""
    if reduction == "none":
        return terms
    return total(terms) / len(terms) if reduction == "mean" else total(terms)


REDUCTIONS = pytest.mark.parametrize("reduction", ["none", "sum", "mean"])


@REDUCTIONS
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("op", LOSSES)
def test_elementwise_losses_are_their_definitions(op, weighted, reduction):
    definition = compile(LOSSES[op].definition, op, "eval")

    def loss(x, target, w=None):
        terms = [eval(definition, NAMES | {"x": a, "target": t}) for a, t in zip(x.flat, target.flat, strict=True)]
        if w is not None:
            terms = [term * weight for term, weight in zip(terms, w.flat, strict=True)]
        reduced(terms, reduction)

    given = {"x": (2, 3), "target": (2, 3)} | ({"w": (2, 3)} if weighted else {})
    y = (2, 3) if reduction == "none" else ()
    cost = priced(op, given, y, reduction=reduction)
    assert cost.flops == count(loss, *given.values())
    assert (cost.mread, cost.mwrite) == (4 * 6 * len(given), 4 * (6 if y else 1))


def test_binary_cross_entropy_with_a_weight_of_positives_is_its_definition():
    def loss(x, target, p):
        terms = []
        for a, t, weight in zip(x, target, p, strict=True):
            terms.append((1 - t) * a + (1 + (weight - 1) * t) * log(1 + exp(-a)))
        reduced(terms, "mean")

    given = {"x": (5,), "target": (5,), "pos_weight": (5,)}
    assert priced("binary_cross_entropy_with_logits", given, ()).flops == count(loss, *given.values())


@REDUCTIONS
def test_mse_loss_is_its_definition(reduction):
    def loss(x, target):
        differences = [a - t for a, t in zip(x, target, strict=True)]
        if reduction == "none":
            return [d * d for d in differences]
        squares = dot(differences, differences)
        return squares / len(x) if reduction == "mean" else squares

    cost = priced("mse_loss", {"x": (7,), "target": (7,)}, (7,) if reduction == "none" else (), reduction=reduction)
    assert cost.flops == count(loss, (7,), (7,))


def log_softmax(row):
    logarithm = log(total([exp(value) for value in row]))
    return [value - logarithm for value in row]


def picked(rows, reduction, w=None):
    """The negated picks of rows of log-probabilities; row i belongs to class i mod c."""
    terms = [-row[i % len(row)] for i, row in enumerate(rows)]
    if w is not None:
        weights = [w[i % len(w)] for i in range(len(rows))]
        terms = [term * weight for term, weight in zip(terms, weights, strict=True)]
        if reduction == "mean":
            return total(terms) / total(weights)
    return reduced(terms, reduction)


@REDUCTIONS
@pytest.mark.parametrize("weighted", [True, False])
def test_cross_entropy_and_nll_loss_are_their_definitions(weighted, reduction):
    y = (4,) if reduction == "none" else ()
    given = {"x": (4, 3), "w": (3,)} if weighted else {"x": (4, 3)}
    entropy = priced("cross_entropy", given | {"target": LABELS}, y, reduction=reduction)
    assert entropy.flops == count(lambda x, w=None: picked([log_softmax(r) for r in x], reduction, w), *given.values())
    likelihood = priced("nll_loss", given | {"target": LABELS}, y, reduction=reduction)
    assert likelihood.flops == count(lambda x, w=None: picked(list(x), reduction, w), *given.values())
    weights = 4 * 4 if weighted else 0  # one a row
    assert entropy.mread == 4 * 12 + 8 * 4 + weights
    assert likelihood.mread == 4 * 4 + 8 * 4 + weights


def test_cross_entropy_by_hand():
    """N = 4 rows of c = 3: 2c add and c+1 special a row, 3 add and 1 div for the mean; also with positions as rows."""
    expected = Operations(add=4 * 6 + 3, special=4 * 4, div=1)
    assert priced("cross_entropy", {"x": (4, 3), "target": LABELS}, (), reduction="mean").flops == expected
    positions = {"x": (2, 3, 1, 2), "target": Tensor((2, 1, 2), "int64")}
    assert priced("cross_entropy", positions, (), reduction="mean").flops == expected
    alone = priced("cross_entropy", {"x": (3,), "target": Tensor((), "int64")}, (), reduction="none")
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
    cost = priced("cross_entropy", given, (), reduction="mean", label_smoothing=smoothing)
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

    cost = priced("poisson_nll_loss", {"x": (5,), "target": (5,)}, (), log_input=log_input, full=full)
    assert cost.flops == count(loss, (5,), (5,))


@REDUCTIONS
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_hinge_loss_is_its_definition(norm, reduction):
    def loss(x):
        signed = [[-v if c == i % 3 else v for c, v in enumerate(row)] for i, row in enumerate(x)]
        terms = [max(1 + value, 0.0) for row in signed for value in row]
        if reduction == "none":
            return terms if norm == "l1" else [term * term for term in terms]
        summed = total(terms) if norm == "l1" else dot(terms, terms)
        return summed / len(x) if reduction == "mean" else summed

    cost = priced("hinge_loss", {"x": (4, 3), "target": LABELS}, (), norm=norm, reduction=reduction)
    assert cost.flops == count(loss, (4, 3))


@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss_is_its_definition(p):
    def loss(x):
        terms = []
        for i, row in enumerate(x):
            bound = 10.0 - row[i % 3]
            parts = [max(bound + value, 0.0) for c, value in enumerate(row) if c != i % 3]
            terms.append((total(parts) if p == 1 else dot(parts, parts)) / 3)
        reduced(terms, "mean")

    cost = priced("multi_margin_loss", {"x": (4, 3), "target": LABELS}, (), p=p, reduction="mean")
    assert cost.flops == count(loss, (4, 3))


def cosine(a, b):
    return dot(a, b) / sqrt(max(dot(a, a) * dot(b, b), 1e-8))


def distance(a, b):
    differences = [p - q + 1e-6 for p, q in zip(a, b, strict=True)]
    return sqrt(dot(differences, differences))


def test_similarities_of_rows_are_their_definitions():
    rows = {"x0": (4, 3), "x1": (4, 3)}
    similar = priced("cosine_similarity", rows, (4,), axis=1)
    assert similar.flops == count(lambda a, b: [cosine(p, q) for p, q in zip(a, b, strict=True)], (4, 3), (4, 3))
    apart = priced("pairwise_distance", rows, (4,))
    assert apart.flops == count(lambda a, b: [distance(p, q) for p, q in zip(a, b, strict=True)], (4, 3), (4, 3))


def test_losses_of_pairs_and_triples_are_their_definitions():
    def ranking(x0, x1, target):
        reduced([max(-t * (a - b) + 5.0, 0.0) for a, b, t in zip(x0, x1, target, strict=True)], "mean")

    shapes = {"x0": (4,), "x1": (4,), "target": (4,)}
    assert priced("margin_ranking_loss", shapes, ()).flops == count(ranking, *shapes.values())

    def embedding(x0, x1, target):
        terms = []
        for a, b, t in zip(x0, x1, target, strict=True):
            similar = cosine(a, b)
            terms.append(select(t == 1, 1 - similar, max(similar - 0.1, 0.0)))
        reduced(terms, "mean")

    shapes = {"x0": (4, 3), "x1": (4, 3), "target": (4,)}
    assert priced("cosine_embedding_loss", shapes, ()).flops == count(embedding, *shapes.values())


@pytest.mark.parametrize("swap", [True, False])
def test_triplet_margin_loss_is_its_definition(swap):
    def triplet(anchor, positive, negative):
        terms = []
        for a, p, n in zip(anchor, positive, negative, strict=True):
            near, far = distance(a, p), distance(a, n)
            far = min(far, distance(p, n)) if swap else far
            terms.append(max(near - far + 9.0, 0.0))
        reduced(terms, "mean")

    shapes = {"x0": (4, 3), "x1": (4, 3), "x2": (4, 3)}
    assert priced("triplet_margin_loss", shapes, (), swap=swap).flops == count(triplet, *shapes.values())


def test_ctc_loss_by_hand():
    """5 steps, 2 samples of 3 labels, 7 states each: 70 visits of 4 special, 3 add; 2 ends of 3 special, 2 add."""
    target = Tensor((2, 3), "int64")
    cost = priced("ctc_loss", {"x": (5, 2, 20), "target": target}, (), reduction="sum")
    assert cost.flops == Operations(special=70 * 4 + 6, add=70 * 3 + 4 + 1)
    assert cost.mread == 4 * 70 + 8 * 6
    assert priced("ctc_loss", {"x": (5, 2, 4), "target": target}, ()).mread == 4 * 40 + 8 * 6
