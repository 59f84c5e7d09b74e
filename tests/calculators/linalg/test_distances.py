"""Distances against executed definitions."""

from __future__ import annotations

from math import inf

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, fma, largest, measure, sqrt, total
from tests.calculators.layer_costs import declared, layer_cost, operations
from tests.calculators.reference import cosine, euclidean_distance

DISTANCE_GRADIENTS = declared("linalg", "DISTANCE_GRADIENTS")

NORMS = {
    0: lambda d: total(1.0 if value != 0 else 0.0 for value in d),
    1: lambda d: total(abs(value) for value in d),
    2: lambda d: sqrt(dot(d, d)),
    inf: lambda d: largest([abs(value) for value in d]),
    3: lambda d: total([(e := abs(value)) * e * e for value in d]) ** (1 / 3),
    2.5: lambda d: total([abs(value) ** 2.5 for value in d]) ** (1 / 2.5),
}
ZERO = Operations(add=4)
"""What the plain numbers of the count of elements that differ do not show: 5 elements, 4 add."""


def distance(p):
    def measured(a, b):
        return NORMS[p]([x - y for x, y in zip(a, b, strict=True)])

    return count(measured, (5,), (5,)) + (ZERO if p == 0 else Operations())


@pytest.mark.parametrize("p", NORMS)
def test_distances(p):
    result = layer_cost("pairwise_distances", {"x0": (2, 3, 5), "x1": (2, 4, 5)}, (2, 3, 4), p=p)
    assert result.flops == 2 * 3 * 4 * distance(p)
    assert result[1:3] == (4 * (30 + 40), 4 * 24)
    assert result.macs == 0
    assert operations("self_distances", {"x": (4, 5)}, (6,), p=p) == 6 * distance(p)
    assert operations("distance", {"x0": (5,), "x1": (5,)}, (), p=p) == distance(p)
    assert operations("pairwise_distance", {"x0": (2, 5), "x1": (2, 5)}, (2,), p=p) == 2 * (
        distance(p) + Operations(add=5)
    )


def test_a_distance_with_broadcasting_is_that_of_the_larger():
    assert operations("distance", {"x0": (1,), "x1": (5,)}, (), elements=5) == distance(2)


POWERS = {  # by p: y^(p - 1) and d |d|^(p - 2)
    3: ("y * y", "d * abs(d)"),
    4: ("y * y * y", "d * (e * e)"),
    5: ("y ** 4", "d * (e * e * e)"),
    2.5: ("y ** (p - 1)", "d * abs(d) ** (p - 2)"),
}


@pytest.mark.parametrize("p", [1, 2, inf, *POWERS])
def test_gradients(p):
    if p in POWERS:
        norm, slope = POWERS[p]
        feature = "e = abs(d); " if "e *" in slope else ""
        definitions = f"dy / ({norm})", f"d = x0 - x1; {feature}fma({slope}, s, dx)"
    else:
        definitions = tuple(part.definition for part in DISTANCE_GRADIENTS[p])
    names = {"p": p, "sign": lambda d: 1.0 if d > 0 else (-1.0 if d < 0 else 0.0)}
    _, once = measure(definitions[0], "dy", "y", p=p)
    _, each = measure(definitions[1], "x0=0.75", "x1=1.5", "s", "dx", "y", **names)
    shapes = {"dy": (3, 4), "x0": (3, 5), "x1": (4, 5), "y": (3, 4)}
    assert operations("pairwise_distances_backward", shapes, (3, 5), p=p) == 12 * (once + 5 * each)
    own = {"dy": (6,), "x": (4, 5), "y": (6,)}
    both = 6 * (once + 5 * (each + Operations(fma=1)))
    assert operations("self_distances_backward", own, (4, 5), p=p) == both


def test_the_euclidean_gradient_is_its_definition():
    def gradient(dy, a, b, y):
        for i in range(len(a)):
            dx = [0.0] * a.shape[1]
            for j in range(len(b)):
                s = dy[i, j] / y[i, j]
                dx = [fma(p - q, s, d) for p, q, d in zip(a[i], b[j], dx, strict=True)]

    shapes = (3, 4), (3, 5), (4, 5), (3, 4)
    found = operations("pairwise_distances_backward", dict(zip(("dy", "x0", "x1", "y"), shapes, strict=True)), (3, 5))
    assert found == count(gradient, *shapes)
    none = operations(
        "pairwise_distances_backward", dict(zip(("dy", "x0", "x1", "y"), shapes, strict=True)), (3, 5), p=0
    )
    assert none == Operations()


def test_squared_distances() -> None:
    def definition(x0, x1):
        for a in x0:
            for b in x1:
                difference = [p - q for p, q in zip(a, b, strict=True)]
                dot(difference, difference)

    result = layer_cost("squared_distances", {"x0": (2, 5), "x1": (3, 5)}, (2, 3))
    assert (result.flops, result.macs) == (count(definition, (2, 5), (3, 5)), 0)
    assert (result.mread, result.mwrite) == (4 * (10 + 15), 4 * 6)


def test_similarities_of_rows_are_their_definitions():
    rows = {"x0": (4, 3), "x1": (4, 3)}
    similar = layer_cost("cosine_similarity", rows, (4,), axis=1)
    assert similar.flops == count(lambda a, b: [cosine(p, q) for p, q in zip(a, b, strict=True)], (4, 3), (4, 3))
    apart = layer_cost("pairwise_distance", rows, (4,))
    assert apart.flops == count(
        lambda a, b: [euclidean_distance(p, q) for p, q in zip(a, b, strict=True)], (4, 3), (4, 3)
    )
