"""Convolutions against executed definitions, counts worked out by hand, and other counters."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, fma
from tests.calculators.layer_costs import layer_cost


def conv(x, w, b=None, stride=1, padding=0, groups=1):
    """Two spatial axes, as loops over the definition."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=0.0)
    batch, _, height, width = x.shape
    c_out, c_group, k_h, k_w = w.shape
    y = np.empty((batch, c_out, (height - k_h) // stride + 1, (width - k_w) // stride + 1), dtype=object)
    for n, c, i, j in np.ndindex(y.shape):
        first = c // (c_out // groups) * c_group
        window = x[n, first : first + c_group, i * stride : i * stride + k_h, j * stride : j * stride + k_w]
        y[n, c, i, j] = dot(window.flat, w[c].flat, None if b is None else b[c])
    return y


def conv_transpose(x, w, b=None, stride=1, groups=1):
    """Two spatial axes: every product is added onto an output that starts at the bias or at zero."""
    batch, c_in, height, width = x.shape
    _, c_group, k_h, k_w = w.shape
    c_out = c_group * groups
    y = np.zeros((batch, c_out, (height - 1) * stride + k_h, (width - 1) * stride + k_w), dtype=object)
    y += 0.0 if b is None else np.array([value.value for value in b]).reshape(-1, 1, 1)  # copies cost nothing
    for n, c, i, j in np.ndindex(x.shape):
        first = c // (c_in // groups) * c_group
        for o, p, q in np.ndindex(w.shape[1:]):
            place = n, first + o, i * stride + p, j * stride + q
            y[place] = fma(x[n, c, i, j], w[c, o, p, q], y[place])
    return y


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("stride", "padding", "groups"), [(1, 0, 1), (2, 1, 1), (1, 1, 2), (1, 0, 4)])
def test_conv_is_its_definition(stride, padding, groups, bias):
    x, w = (2, 4, 5, 4), (4, 4 // groups, 3, 2)
    y = (2, 4, (5 + 2 * padding - 3) // stride + 1, (4 + 2 * padding - 2) // stride + 1)
    operands = {"x": x, "w": w} | ({"b": (4,)} if bias else {})
    done = count(lambda *o: conv(*o, stride=stride, padding=padding, groups=groups), *operands.values())
    assert layer_cost("conv", operands, y, groups=groups).flops == done


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 1), (2, 2)])
def test_conv_transpose_is_its_definition(stride, groups, bias):
    operands = {"x": (2, 4, 3, 2), "w": (4, 6 // groups, 2, 3)} | ({"b": (6,)} if bias else {})
    y = (2, 6, 2 * stride + 2, stride + 3)
    done = count(lambda *o: conv_transpose(*o, stride=stride, groups=groups), *operands.values())
    cost = layer_cost("conv_transpose", operands, y, groups=groups)
    assert cost.flops == done
    assert cost.macs == (2 * 4 * 3 * 2) * (6 // groups) * (2 * 3)


def test_conv_by_hand():
    cost = layer_cost("conv", {"x": (1, 3, 10, 10), "w": (12, 3, 3, 3), "b": (12,)}, (1, 12, 10, 10), kernel=(3, 3))
    assert cost.flops == Operations(fma=12 * 100 * 27)
    assert cost.macs == 32_400  # chainer-computational-cost, test_connection.py
    assert (cost.mread, cost.mwrite) == (4 * (300 + 12 * 27 + 12), 4 * 1200)
    assert cost.params == {"kernel": (3, 3)}


@pytest.mark.parametrize(
    ("op", "x", "w", "y", "macs"),
    [  # facebookresearch/fvcore@3378afe tests/test_flop_count.py
        ("conv", (2, 10, 20, 20), (6, 10, 3, 3), (2, 6, 10, 10), 108_000),
        ("conv", (5, 16, 15, 15), (8, 2, 3, 3), (5, 8, 15, 15), 162_000),
        ("conv", (5, 10, 15, 15, 15), (3, 10, 3, 3, 3), (5, 3, 15, 15, 15), 13_668_750),
        ("conv_transpose", (5, 10, 15, 15), (10, 3, 3, 3), (5, 3, 31, 31), 303_750),
        # pytorch/pytorch@067f1d9 test/test_flop_counter.py, which counts 2 a product
        ("conv", (2, 3, 6), (6, 3, 4), (2, 6, 5), 1440 // 2),
        ("conv_transpose", (1, 1, 2, 2), (1, 1, 2, 2), (1, 1, 3, 3), 32 // 2),
        # frgfm/torch-scan@6431b49 tests/test_modules.py
        ("conv", (1, 3, 32, 32), (8, 3, 3, 3), (1, 8, 30, 30), 194_400),
    ],
)
def test_macs_of_other_counters(op, x, w, y, macs):
    assert layer_cost(op, {"x": x, "w": w}, y).macs == macs


def test_local_conv_by_hand():
    cost = layer_cost("local_conv", {"x": (2, 3, 5), "w": (4, 3, 3, 3), "b": (4, 3)}, (2, 4, 3))
    assert cost.flops == Operations(fma=(2 * 4 * 3) * (3 * 3))
    assert cost.macs == 24 * 9


def test_deform_conv_samples_every_tap_and_reads_no_more_than_x():
    operands = {"x": (1, 2, 4, 4), "w": (3, 2, 3, 3), "offset": (1, 18, 2, 2)}
    samples = 2 * 9 * 4
    cost = layer_cost("deform_conv", operands, (1, 3, 2, 2))
    assert cost.flops == Operations(mul=3 * samples + 12, add=6 * samples, fma=12 * 18 - 12)
    assert (cost.macs, cost.mread) == (12 * 18, 4 * (32 + 54 + 72))
    masked = layer_cost("deform_conv", operands | {"mask": (1, 9, 2, 2)}, (1, 3, 2, 2))
    assert masked.flops == cost.flops + Operations(mul=samples)
    few = layer_cost("deform_conv", {"x": (1, 1, 9, 9), "w": (1, 1, 1, 1), "offset": (1, 2, 2, 2)}, (1, 1, 2, 2))
    assert few.mread == 4 * (4 * 4 + 1 + 8)


def test_symbols_give_closed_formulas():
    n, i, o, k = sympy.symbols("n i o k", integer=True, positive=True)
    linear = layer_cost("linear", {"x": Tensor((n, i)), "w": Tensor((o, i))}, Tensor((n, o)))
    assert linear.macs == n * i * o
    assert linear.flops.flops(fma_1flop=False) == sympy.expand((2 * i - 1) * n * o)
    einsum = layer_cost("einsum", {"x0": Tensor((n, k)), "x1": Tensor((k, o))}, Tensor((n, o)), equation="nk,ko->no")
    assert einsum.macs == n * k * o
