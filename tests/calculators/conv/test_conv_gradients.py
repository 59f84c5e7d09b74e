"""Gradients of convolutions and matrix products against executed definitions and other counters."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calculators.counting_scalar import count, dot, fma, total
from tests.calculators.layer_costs import layer_cost

NEEDS = [("x",), ("w",), ("b",), ("x", "w"), ("x", "w", "b")]


def taps(dy, w, groups, stride=1):
    """Every product of a convolution: places in y, x and w."""
    c_out, c_group, *kernel = w.shape
    for n, c, i, j in np.ndindex(dy.shape):
        first = c // (c_out // groups) * c_group
        for o, p, q in np.ndindex(c_group, *kernel):
            yield (n, c, i, j), (n, first + o, i * stride + p, j * stride + q), (c, o, p, q)


def conv_backward(dy, x, w, needs, groups):
    if "x" in needs:
        dx = np.zeros(x.shape, dtype=object)
        for at_y, at_x, at_w in taps(dy, w, groups):
            dx[at_x] = fma(dy[at_y], w[at_w], dx[at_x])
    if "w" in needs:
        terms = {at_w: [] for at_w in np.ndindex(w.shape)}
        for at_y, at_x, at_w in taps(dy, w, groups):
            terms[at_w].append((dy[at_y], x[at_x]))
        for pairs in terms.values():
            dot(*zip(*pairs, strict=True))
    if "b" in needs:
        for c in range(dy.shape[1]):
            total(dy[:, c].flat)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("needs", NEEDS)
def test_conv_backward_is_its_definition(needs, groups):
    shapes = {"dy": (2, 4, 3, 2), "x": (2, 4, 4, 4), "w": (4, 4 // groups, 2, 3)}
    outputs = [shapes.get(name, (4,)) for name in needs]
    cost = layer_cost("conv_backward", shapes, *outputs, needs=needs, groups=groups)
    assert cost.flops == count(lambda dy, x, w: conv_backward(dy, x, w, needs, groups), *shapes.values())
    assert cost.macs == 48 * (4 // groups) * 6 * len({"x", "w"} & set(needs))
    read = 48 + (4 * (4 // groups) * 6 if "x" in needs else 0) + (128 if "w" in needs else 0)
    assert cost.mread == 4 * read
    assert cost.mwrite == 4 * sum(int(np.prod(shape)) for shape in outputs)


def test_the_weight_gradient_of_a_convolution_needs_no_weight():
    whole = {"dy": (2, 4, 3, 2), "x": (2, 4, 4, 4), "w": (4, 2, 2, 3)}
    without = {name: shape for name, shape in whole.items() if name != "w"}
    known, unknown = (layer_cost("conv_backward", given, (4, 2, 2, 3), needs=("w",)) for given in (whole, without))
    assert known == unknown


def test_conv_backward_of_another_counter():
    """pytorch/pytorch@067f1d9 test/test_flop_counter.py: layer1 of resnet18, four of 64 channels, 3 x 3, 56 x 56."""
    shapes = {"dy": (1, 64, 56, 56), "x": (1, 64, 56, 56), "w": (64, 64, 3, 3)}
    cost = layer_cost("conv_backward", shapes, shapes["x"], shapes["w"], needs=("x", "w"))
    assert 4 * 2 * cost.macs == 1_849_688_064


def conv_transpose_backward(dy, x, w, needs, groups):
    c_in, c_group, *kernel = w.shape
    terms_x, terms_w = ({at: [] for at in np.ndindex(shape)} for shape in (x.shape, w.shape))
    for n, c, i, j in np.ndindex(x.shape):
        first = c // (c_in // groups) * c_group
        for o, p, q in np.ndindex(c_group, *kernel):
            gradient = dy[n, first + o, i + p, j + q]
            terms_x[n, c, i, j].append((gradient, w[c, o, p, q]))
            terms_w[c, o, p, q].append((gradient, x[n, c, i, j]))
    for name, terms in (("x", terms_x), ("w", terms_w)):
        for pairs in terms.values() if name in needs else ():
            dot(*zip(*pairs, strict=True))
    if "b" in needs:
        for c in range(dy.shape[1]):
            total(dy[:, c].flat)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("needs", NEEDS)
def test_conv_transpose_backward_is_its_definition(needs, groups):
    shapes = {"dy": (2, 6, 4, 4), "x": (2, 4, 3, 2), "w": (4, 6 // groups, 2, 3)}
    outputs = [shapes.get(name, (6,)) for name in needs]
    cost = layer_cost("conv_transpose_backward", shapes, *outputs, needs=needs, groups=groups)
    assert cost.flops == count(lambda dy, x, w: conv_transpose_backward(dy, x, w, needs, groups), *shapes.values())
    assert cost.macs == 48 * (6 // groups) * 6 * len({"x", "w"} & set(needs))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("groups", "offset_groups"), [(1, 1), (2, 1), (1, 2)])
def test_deform_conv_backward_is_its_definition(masked, groups, offset_groups):
    """4 channels to 2, kernel 2 x 2, 3 x 1 positions; the neighbors of every sample are known."""
    channels, filters, taps, places = 4, 2, 4, 3
    per_group = channels // groups

    def definition(dy, w, samples, neighbors, mask):
        share = np.zeros((offset_groups, taps, places, 2), dtype=object)
        terms = {at: ([], []) for at in np.ndindex(share.shape)}
        mask_terms = {at: ([], []) for at in np.ndindex(share.shape[:3])}
        for c, t, p in np.ndindex(channels, taps, places):
            group = c // per_group
            members = range(group * (filters // groups), (group + 1) * (filters // groups))
            gradient = dot([w[f, c % per_group, t] for f in members], [dy[f, p] for f in members])
            shared = c // (channels // offset_groups)
            if masked:
                mask_terms[shared, t, p][0].append(gradient)
                mask_terms[shared, t, p][1].append(samples[c, t, p])
                gradient = gradient * mask[shared, t, p]
            a, b, left, right = neighbors[c, t, p]
            for value in (a, b, left, right):
                value + gradient * 0.25
            for axis, (first, second) in enumerate([(left - a, right - b), (b - a, right - left)]):
                terms[shared, t, p, axis][0].append(first + (second - first) * 0.5)
                terms[shared, t, p, axis][1].append(gradient)
        for slopes, gradients in terms.values():
            dot(slopes, gradients)
        for gradients, values in mask_terms.values():
            if masked:
                dot(gradients, values)
        for f, o, t in np.ndindex(filters, per_group, taps):
            c = f // (filters // groups) * per_group + o
            dot([dy[f, p] for p in range(places)], [samples[c, t, p] for p in range(places)])
        for f in range(filters):
            total(dy[f])

    shapes = [
        (filters, places),
        (filters, per_group, taps),
        (channels, taps, places),
        (channels, taps, places, 4),
        (offset_groups, taps, places),
    ]
    layer = {
        "dy": (1, filters, 3, 1),
        "x": (1, channels, 4, 2),
        "w": (filters, per_group, 2, 2),
        "offset": (1, 2 * offset_groups * taps, 3, 1),
    } | ({"mask": (1, offset_groups * taps, 3, 1)} if masked else {})
    outputs = [layer["x"], layer["w"], layer["offset"], *([layer["mask"]] if masked else []), (filters,)]
    cost = layer_cost("deform_conv_backward", layer, *outputs, groups=groups, needs=("x", "w", "offset", "b"))
    assert cost.flops == count(definition, *shapes)
    assert cost.macs == 2 * filters * places * per_group * taps
    assert cost.mread == 4 * sum(int(np.prod(shape)) for shape in layer.values())
    assert cost.mwrite == 4 * sum(int(np.prod(shape)) for shape in outputs)
