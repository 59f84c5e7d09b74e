"""Losses of embeddings and their gradients against executed definitions."""

from __future__ import annotations

import pytest

from costcore.ir import Tensor
from tests.calculators.counting_scalar import count, dot, maximum, select, sqrt
from tests.calculators.layer_costs import layer_cost
from tests.calculators.reference import cosine, euclidean_distance, reduced

N, C = 4, 3
INTEGERS = Tensor((N,), "int32")


def minus(a, b):
    return [p - q for p, q in zip(a, b, strict=True)]


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_contrastive_loss(reduction):
    def definition(x0, x1, target):
        losses = []
        for a, b, t in zip(x0, x1, target, strict=True):
            d = minus(a, b)
            square = dot(d, d)
            short = maximum(2 - sqrt(square), 0)
            losses.append((t * square + (1 - t) * short * short) * 0.5)
        reduced(losses, reduction)

    output = () if reduction == "mean" else (N,)
    result = layer_cost(
        "contrastive_loss", {"x0": (N, C), "x1": (N, C), "target": INTEGERS}, output, reduction=reduction
    )
    assert result.flops == count(definition, (N, C), (N, C), (N,))
    assert result.mread == 4 * (2 * N * C + N)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_squared_triplet_loss(reduction):
    def definition(x0, x1, x2):
        losses = []
        for a, b, c in zip(x0, x1, x2, strict=True):
            near, far = minus(a, b), minus(a, c)
            losses.append(maximum(dot(near, near) - dot(far, far) + 0.2, 0))
        reduced(losses, reduction)

    output = () if reduction == "mean" else (N,)
    result = layer_cost("squared_triplet_loss", {f"x{i}": (N, C) for i in range(3)}, output, reduction=reduction)
    assert result.flops == count(definition, *[(N, C)] * 3)


def test_losses_of_pairs_and_triples_are_their_definitions():
    def ranking(x0, x1, target):
        reduced([max(-t * (a - b) + 5.0, 0.0) for a, b, t in zip(x0, x1, target, strict=True)], "mean")

    shapes = {"x0": (4,), "x1": (4,), "target": (4,)}
    assert layer_cost("margin_ranking_loss", shapes, ()).flops == count(ranking, *shapes.values())

    def embedding(x0, x1, target):
        terms = []
        for a, b, t in zip(x0, x1, target, strict=True):
            similar = cosine(a, b)
            terms.append(select(t == 1, 1 - similar, max(similar - 0.1, 0.0)))
        reduced(terms, "mean")

    shapes = {"x0": (4, 3), "x1": (4, 3), "target": (4,)}
    assert layer_cost("cosine_embedding_loss", shapes, ()).flops == count(embedding, *shapes.values())


@pytest.mark.parametrize("swap", [True, False])
def test_triplet_margin_loss_is_its_definition(swap):
    def triplet(anchor, positive, negative):
        terms = []
        for a, p, n in zip(anchor, positive, negative, strict=True):
            near, far = euclidean_distance(a, p), euclidean_distance(a, n)
            far = min(far, euclidean_distance(p, n)) if swap else far
            terms.append(max(near - far + 9.0, 0.0))
        reduced(terms, "mean")

    shapes = {"x0": (4, 3), "x1": (4, 3), "x2": (4, 3)}
    assert layer_cost("triplet_margin_loss", shapes, (), swap=swap).flops == count(triplet, *shapes.values())
