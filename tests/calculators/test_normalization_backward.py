"""Gradients of normalisations and softmax against executed derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting import count, dot, exp, fma, total
from tests.calculators.layers import cost as priced

MEAN, INVERSE = 0.5, 2.0  # statistics of the forward pass: plain numbers, there already

NEEDS = [("x",), ("x", "w"), ("w", "b"), ("b",), ("x", "w", "b")]


def normalised(row, centred):
    return [(value - MEAN) * INVERSE if centred else value * INVERSE for value in row]


def rows_backward(dy, x, w, needs, centred=True):
    """dy and x as rows; w as one weight per element of a row, or None; returns what dw and db sum."""
    products = []
    for g, row in zip(dy, x, strict=True):
        if {"x", "w"} & set(needs):
            n = normalised(row, centred)
            products.append(n)
        if "x" in needs:
            g = g if w is None else [a * b for a, b in zip(g, w, strict=True)]
            if centred:
                average = total(g) / len(g)
                g_centred = [a - average for a in g]
            else:
                g_centred = g
            slope = dot(g, n) / len(g)
            for a, b in zip(g_centred, n, strict=True):
                fma(slope, b, a) * INVERSE
    return products


def sums(dy, n, owner, size, needs):
    """dw and db: the elements that share a weight are summed."""
    places = [np.flatnonzero(owner == i) for i in range(size)]
    dy = np.array(dy, dtype=object).ravel()
    if "w" in needs:
        n = np.array(n, dtype=object).ravel()
        for place in places:
            dot(dy[place], n[place])
    if "b" in needs:
        for place in places:
            total(dy[place])


def shapes(x, needs, channels):
    given = {"dy": x, "x": x, "w": (channels,), "b": (channels,)}
    return given, [given[name] for name in needs]


@pytest.mark.parametrize("needs", NEEDS)
@pytest.mark.parametrize(
    ("op", "settings", "rows", "owner"),
    [
        ("layer_norm", {"axis": (2,)}, 8, np.tile(np.arange(3), 8)),
        ("rms_norm", {"axis": (2,)}, 8, np.tile(np.arange(3), 8)),
        ("group_norm", {"groups": 2}, 4, np.tile(np.repeat(np.arange(4), 3), 2)),
        ("instance_norm", {}, 8, np.tile(np.repeat(np.arange(4), 3), 2)),
    ],
)
def test_gradients_of_rows_are_their_definitions(op, settings, rows, owner, needs):
    """x[2, 4, 3]; the owner of an element is the index of its weight."""
    size = int(owner.max()) + 1
    given, outputs = shapes((2, 4, 3), needs, size)

    def definition(dy, x, w, b):
        weights = w[owner].reshape(rows, -1)
        dy_rows, x_rows = dy.reshape(rows, -1), x.reshape(rows, -1)
        n = []
        for i in range(rows):
            n += rows_backward(dy_rows[i : i + 1], x_rows[i : i + 1], weights[i], needs, op != "rms_norm")
        sums(dy_rows, n, owner, size, needs)

    cost = priced(f"{op}_backward", given, *outputs, needs=needs, **settings)
    assert cost.flops == count(definition, *given.values())
    assert cost.mread == 4 * (24 + 24 + (size if "x" in needs else 0))
    assert cost.mwrite == 4 * sum(int(np.prod(shape)) for shape in outputs)


def test_layer_norm_backward_without_weight():
    given = {"dy": (4, 3), "x": (4, 3)}
    done = count(lambda dy, x: rows_backward(dy, x, None, ("x",)), *given.values())
    assert priced("layer_norm_backward", given, (4, 3), axis=(1,)).flops == done


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("needs", NEEDS)
def test_batch_norm_backward_is_its_definition(needs, training):
    given, outputs = shapes((3, 2, 4), needs, 2)

    def definition(dy, x, w, b):
        for c in range(2):
            g, values = list(dy[:, c].flat), list(x[:, c].flat)
            whole = training and "x" in needs
            if "w" in needs or whole:
                n = normalised(values, True)
                dw = dot(g, n)
            if "b" in needs or whole:
                db = total(g)
            if whole:
                scale, average, slope = w[c] * INVERSE, db / len(g), dw / len(g)
                for a, b in zip(g, n, strict=True):
                    fma(slope, b, a - average) * scale
            elif "x" in needs:
                for a in g:
                    a * 2.0  # the scale is folded

    cost = priced("batch_norm_backward", given, *outputs, needs=needs, training=training)
    assert cost.flops == count(definition, *given.values())


def softmax(dy, y):
    inner = dot(dy, y)
    return [b * (a - inner) for a, b in zip(dy, y, strict=True)]


def log_softmax(dy, y):
    summed = total(dy)
    return [a - exp(b) * summed for a, b in zip(dy, y, strict=True)]


@pytest.mark.parametrize(
    ("op", "definition"), [("softmax", softmax), ("softmin", softmax), ("log_softmax", log_softmax)]
)
def test_softmax_backward_is_its_definition(op, definition):
    cost = priced(f"{op}_backward", {"dy": (4, 3), "y": (4, 3)}, (4, 3), axis=1)
    assert cost.flops == count(lambda dy, y: [definition(*r) for r in zip(dy, y, strict=True)], (4, 3), (4, 3))
    assert (cost.mread, cost.mwrite) == (4 * 24, 4 * 12)


def test_softmax_backward_by_hand():
    """4 rows of c = 3: 1 mul and c-1 fma for the sum, c add, c mul."""
    cost = priced("softmax_backward", {"dy": (3, 4), "y": (3, 4)}, (3, 4), axis=0)
    assert cost.flops == Operations(mul=4 * 4, fma=4 * 2, add=4 * 3)
