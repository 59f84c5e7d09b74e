"""Measures of accuracy against executed definitions."""

from __future__ import annotations

import pytest

from costcore.ir import Tensor
from tests.calculators.counting_scalar import CountingScalar, count, dot, largest, select, total
from tests.calculators.layer_costs import layer_cost


def one(like):
    return CountingScalar(1.0, like.counts)


def argmax(row):
    largest(row)
    return one(row[0])


def hits(guesses, targets):
    """As ones and zeros, without the products that make them."""
    found = []
    for guess, target in zip(guesses, targets, strict=True):
        found.append(select(guess == target, one(guess), one(guess)))
    return found


def accuracy(x, target):
    return total(hits([argmax(row) for row in x], target)) / len(x)


def accuracy_less_a_label(x, target):
    masks = [select(t == 0, one(t), CountingScalar(0.0, t.counts)) for t in target]
    ignored = total(masks)
    chosen = [select(mask, t, argmax(row)) for mask, t, row in zip(masks, target, x, strict=True)]
    return (total(hits(chosen, target)) - ignored) / (len(x) - ignored)


@pytest.mark.parametrize(
    ("definition", "settings"), [(accuracy, {}), (accuracy_less_a_label, {"ignore_index": 0})], ids=["all", "less one"]
)
def test_accuracy(definition, settings):
    result = layer_cost("accuracy", {"x": (4, 3), "target": Tensor((4,), "int32")}, (), **settings)
    assert result.flops == count(definition, (4, 3), (4,))
    assert (result.mread, result.mwrite) == (4 * (12 + 4), 4)


def test_binary_accuracy():
    def definition(x, target):
        right = total(hits([select(v >= 0, one(v), one(v)) for v in x], target))
        counted = total([select(t != -1, one(t), one(t)) for t in target])
        return right / select(counted > 1, counted, one(counted))

    result = layer_cost("binary_accuracy", {"x": (5,), "target": Tensor((5,), "int32")}, ())
    assert result.flops == count(definition, (5,), (5,))
    assert (result.mread, result.mwrite) == (4 * 10, 4)


def test_classification_summary():
    def definition(x, target):
        counts = [[one(x[0, 0]) for _ in range(3)] for _ in range(3)]
        for row, t in zip(x, target, strict=True):
            guess = argmax(row)
            ignored = select(t == 9, one(t), one(t))
            guess, true = select(ignored, t, guess), select(ignored, t, t)
            hit = select(select(guess == true, one(t), one(t)), true, guess)
            for counter in counts:
                counter[0] = counter[0] + 1
            assert hit is not None
        for relevant, support, right in zip(*counts, strict=True):
            p, r = right / relevant, right / support
            2 * p * r / (1 * p + r)

    result = layer_cost("classification_summary", {"x": (4, 3), "target": Tensor((4,), "int32")}, *[(3,)] * 4)
    assert result.flops == count(definition, (4, 3), (4,))
    assert (result.mread, result.mwrite) == (4 * (12 + 4), 4 * 12)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_r2_score(reduction):
    def definition(x, target):
        scores = []
        for a, t in zip(x.T, target.T, strict=True):
            off = [p - q for p, q in zip(t, a, strict=True)]
            mean = total(t) / len(t)
            spread = [p - mean for p in t]
            divisor = dot(spread, spread)
            empty = divisor == 0
            scores.append(select(one(divisor), 1 - dot(off, off) / divisor, divisor))
            assert not empty
        if reduction == "mean":
            total(scores) / len(scores)

    output = () if reduction == "mean" else (3,)
    result = layer_cost("r2_score", {"x": (5, 3), "target": (5, 3)}, output, reduction=reduction)
    assert result.flops == count(definition, (5, 3), (5, 3))
