"""Gradients of normalization layers against executed derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, fma, total
from tests.calculators.layer_costs import layer_cost

N, C, M = 3, 2, 4

MEAN, INVERSE = 0.5, 2.0  # statistics of the forward pass: plain numbers, there already

NEEDS = [("x",), ("x", "w"), ("w", "b"), ("b",), ("x", "w", "b")]


def normalized(row, centered):
    return [(value - MEAN) * INVERSE if centered else value * INVERSE for value in row]


def rows_backward(dy, x, w, needs, centered=True):
    """dy and x as rows; w as one weight per element of a row, or None; returns what dw and db sum."""
    products = []
    for g, row in zip(dy, x, strict=True):
        if {"x", "w"} & set(needs):
            n = normalized(row, centered)
            products.append(n)
        if "x" in needs:
            g = g if w is None else [a * b for a, b in zip(g, w, strict=True)]
            if centered:
                average = total(g) / len(g)
                g_centered = [a - average for a in g]
            else:
                g_centered = g
            slope = dot(g, n) / len(g)
            for a, b in zip(g_centered, n, strict=True):
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

    cost = layer_cost(f"{op}_backward", given, *outputs, needs=needs, **settings)
    assert cost.flops == count(definition, *given.values())
    assert cost.mread == 4 * (24 + 24 + (size if "x" in needs else 0))
    assert cost.mwrite == 4 * sum(int(np.prod(shape)) for shape in outputs)


def test_layer_norm_backward_without_weight():
    given = {"dy": (4, 3), "x": (4, 3)}
    done = count(lambda dy, x: rows_backward(dy, x, None, ("x",)), *given.values())
    assert layer_cost("layer_norm_backward", given, (4, 3), axis=(1,)).flops == done


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("needs", NEEDS)
def test_batch_norm_backward_is_its_definition(needs, training):
    given, outputs = shapes((3, 2, 4), needs, 2)

    def definition(dy, x, w, b):
        for c in range(2):
            g, values = list(dy[:, c].flat), list(x[:, c].flat)
            whole = training and "x" in needs
            if "w" in needs or whole:
                n = normalized(values, True)
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

    cost = layer_cost("batch_norm_backward", given, *outputs, needs=needs, training=training)
    assert cost.flops == count(definition, *given.values())


def test_scale_shift_backward():
    def definition(dy, x, w):
        for c in range(C):
            for value in dy[:, c].ravel():
                value * w[c]
            dot(dy[:, c].ravel(), x[:, c].ravel())
            total(dy[:, c].ravel())

    shape = (N, C, M)
    result = layer_cost("scale_shift_backward", {"dy": shape, "x": shape, "w": (C,)}, shape, (C,), (C,))
    assert result.flops == count(definition, shape, shape, (C,))


def test_local_response_norm_backward():
    def definition(dy, x, y, u, scale):
        terms = [a * b / c for a, b, c in zip(y, dy, u, strict=True)]
        for g, value, k in zip(dy, x, scale, strict=True):
            window = total(terms[0] for _ in range(5))  # taps beyond the ends count
            fma(0.2 * value, window, g * k)

    shapes = dict.fromkeys(("dy", "x", "y", "u", "scale"), (1, 6, 1, 1))
    result = layer_cost("local_response_norm_backward", shapes, (1, 6, 1, 1), size=5)
    assert result.flops == count(definition, *[(6,)] * 5)


def test_batch_renorm_backward():
    def definition(dy, x, w):
        inverse, center, r, d = 2.0, 0.5, 0.9, 0.1  # of the forward pass
        for c in range(C):
            g, m = dy[:, c].ravel(), N * M
            n = [(value - center) * inverse for value in x[:, c].ravel()]
            dot(g, [fma(value, r, d) for value in n])
            slope, average = dot(g, n) / m, total(g) / m
            scale = w[c] * r * inverse
            for a, b in zip(g, n, strict=True):
                fma(slope, b, a - average) * scale

    shape = (N, C, M)
    result = layer_cost("batch_renorm_backward", {"dy": shape, "x": shape, "w": (C,)}, shape, (C,), (C,))
    assert result.flops == count(definition, shape, shape, (C,))


def test_weight_norm_backward_is_its_definition():
    def gradients(dy, w, g, norms):
        for slopes, row, scale, norm in zip(dy, w, g, norms, strict=True):
            dg = dot(slopes, row) / norm
            part, factor = dg / norm, scale / norm
            [fma(-value, part, slope) * factor for slope, value in zip(slopes, row, strict=True)]

    shapes = {"dy": (3, 4), "w0": (3, 4), "w1": (3,), "norms": (3,)}
    counted = count(gradients, *shapes.values())
    negated = Operations(add=12)  # the sign of a fused product is free
    assert layer_cost("weight_norm_backward", shapes, (3, 4), (3,)).flops + negated == counted
