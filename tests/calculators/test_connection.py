"""Convolutions and matrix products against their definitions, figures worked out by hand, and other counters."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from costcore.errors import CostError
from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, fma
from tests.calculators.layers import cost as priced


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
    assert priced("conv", operands, y, groups=groups).flops == done


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 1), (2, 2)])
def test_conv_transpose_is_its_definition(stride, groups, bias):
    operands = {"x": (2, 4, 3, 2), "w": (4, 6 // groups, 2, 3)} | ({"b": (6,)} if bias else {})
    y = (2, 6, 2 * stride + 2, stride + 3)
    done = count(lambda *o: conv_transpose(*o, stride=stride, groups=groups), *operands.values())
    cost = priced("conv_transpose", operands, y, groups=groups)
    assert cost.flops == done
    assert cost.macs == (2 * 4 * 3 * 2) * (6 // groups) * (2 * 3)


def test_conv_by_hand():
    cost = priced("conv", {"x": (1, 3, 10, 10), "w": (12, 3, 3, 3), "b": (12,)}, (1, 12, 10, 10), kernel=(3, 3))
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
    assert priced(op, {"x": x, "w": w}, y).macs == macs


def test_local_conv_by_hand():
    cost = priced("local_conv", {"x": (2, 3, 5), "w": (4, 3, 3, 3), "b": (4, 3)}, (2, 4, 3))
    assert cost.flops == Operations(fma=(2 * 4 * 3) * (3 * 3))
    assert cost.macs == 24 * 9


def test_deform_conv_samples_every_tap_and_reads_no_more_than_x():
    operands = {"x": (1, 2, 4, 4), "w": (3, 2, 3, 3), "offset": (1, 18, 2, 2)}
    samples = 2 * 9 * 4
    cost = priced("deform_conv", operands, (1, 3, 2, 2))
    assert cost.flops == Operations(mul=3 * samples + 12, add=6 * samples, fma=12 * 18 - 12)
    assert (cost.macs, cost.mread) == (12 * 18, 4 * (32 + 54 + 72))
    masked = priced("deform_conv", operands | {"mask": (1, 9, 2, 2)}, (1, 3, 2, 2))
    assert masked.flops == cost.flops + Operations(mul=samples)
    few = priced("deform_conv", {"x": (1, 1, 9, 9), "w": (1, 1, 1, 1), "offset": (1, 2, 2, 2)}, (1, 1, 2, 2))
    assert few.mread == 4 * (4 * 4 + 1 + 8)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_its_definition(bias):
    operands = {"x": (2, 3, 5), "w": (4, 5)} | ({"b": (4,)} if bias else {})

    def linear(x, w, b=(None,) * 4):
        return [dot(row, weights, start) for row in x.reshape(6, 5) for weights, start in zip(w, b, strict=True)]

    done = count(linear, *operands.values())
    cost = priced("linear", operands, (2, 3, 4))
    assert cost.flops == done
    assert cost.macs == 6 * 4 * 5
    assert cost.mread == 4 * (30 + 20 + (4 if bias else 0))


def test_gemm_scales_product_and_addend():
    operands = {"x": (3, 5), "w": (4, 5), "b": (4,)}

    def gemm(x, w, b):
        addend = [2.0 * c for c in b]
        return [fma(dot(row, weights), 0.5, c) for row in x for weights, c in zip(w, addend, strict=True)]

    assert priced("linear", operands, (3, 4), alpha=0.5, beta=2.0).flops == count(gemm, *operands.values())
    plain = Operations(fma=3 * 4 * 5)
    assert priced("linear", operands, (3, 4), alpha=1.0, beta=1.0).flops == plain
    assert priced("matmul", {"x0": (3, 5), "x1": (5, 4), "b": (3, 4)}, (3, 4), beta=2).flops == plain + Operations(
        mul=12
    )


def matmul(a, b):
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    return [dot(a[n][i], b[n][:, j]) for n in np.ndindex(batch) for i in range(a.shape[-2]) for j in range(b.shape[-1])]


@pytest.mark.parametrize(
    ("x0", "x1", "y"),
    [
        ((3, 4), (4, 5), (3, 5)),
        ((2, 3, 4), (2, 4, 5), (2, 3, 5)),
        ((2, 1, 3, 4), (3, 4, 2), (2, 3, 3, 2)),
    ],
)
def test_matmul_is_its_definition(x0, x1, y):
    cost = priced("matmul", {"x0": x0, "x1": x1}, y)
    assert cost.flops == count(matmul, x0, x1)
    assert cost.mread == 4 * (np.prod(x0) + np.prod(x1))


@pytest.mark.parametrize(
    ("x0", "x1", "y", "macs"),
    [  # deepspeedai/DeepSpeed@0fe7b1b tests/unit/profiling/flops_profiler/test_flops_profiler.py
        ((4, 8), (8,), (4,), 32),
        ((4, 8), (8, 5), (4, 5), 160),
        ((2, 1, 4, 8), (3, 8, 5), (2, 3, 4, 5), 960),
        ((3, 4, 5), (3, 5, 6), (3, 4, 6), 720 // 2),  # pytorch/pytorch@067f1d9 test/test_flop_counter.py
        ((7,), (7,), (), 7),
    ],
)
def test_matmul_macs_of_other_counters(x0, x1, y, macs):
    assert priced("matmul", {"x0": x0, "x1": x1}, y).macs == macs


def test_matmul_onto_an_addend_and_transposed():
    onto = priced("matmul", {"x0": (2, 4, 8), "x1": (2, 8, 5), "b": (2, 4, 5)}, (2, 4, 5))
    assert onto.flops == Operations(fma=2 * 4 * 5 * 8)
    assert onto.mread == 4 * (64 + 80 + 40)
    assert priced("matmul", {"x0": (8, 4), "x1": (8, 5)}, (4, 5), transpose_x0=True).macs == 4 * 5 * 8


def test_bilinear_is_its_definition():
    def bilinear(x0, x1, w, b):
        for n, o in np.ndindex(2, 3):
            dot([dot(x0[n], w[o, :, j]) for j in range(5)], x1[n], b[o])

    shapes = {"x0": (2, 4), "x1": (2, 5), "w": (3, 4, 5), "b": (3,)}
    cost = priced("bilinear", shapes, (2, 3))
    assert cost.flops == count(bilinear, *shapes.values())
    assert cost.macs == 2 * 3 * (5 * 4 + 5)


EINSUM = [  # equation, operands, output, kinds and macs by hand
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), Operations(mul=30, fma=30 * 3), 120),
    ("nct,ncp->ntp", [(1, 5, 2), (1, 5, 12)], (1, 2, 12), Operations(mul=24, fma=24 * 4), 120),  # fvcore
    ("nc,nchw->hw", [(3, 4), (3, 4, 2, 3)], (2, 3), Operations(mul=6, fma=6 * 11), 72),  # fvcore
    ("...ij,...jk", [(2, 3, 4), (4, 5)], (2, 3, 5), Operations(mul=30, fma=30 * 3), 120),
    ("b i j , b j k -> b i k", [(1, 3, 4), (2, 4, 5)], (2, 3, 5), Operations(mul=30, fma=30 * 3), 120),
    ("i,j->ij", [(3,), (4,)], (3, 4), Operations(mul=12), 0),
    ("ij,ij->ij", [(3, 4), (3, 4)], (3, 4), Operations(mul=12), 0),
    ("i,i->", [(7,), (7,)], (), Operations(mul=1, fma=6), 7),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], (2, 5), Operations(mul=8 + 10, fma=8 * 2 + 10 * 3), 24 + 40),
    ("ij->i", [(3, 4)], (3,), Operations(add=12 - 3), 0),
    ("...j->...", [(2, 3, 4)], (2, 3), Operations(add=24 - 6), 0),
    ("ji", [(3, 4)], (4, 3), Operations(), 0),
    ("ii->", [(5, 5)], (), Operations(add=4), 0),
    ("ii->i", [(5, 5)], (5,), Operations(), 0),
]


@pytest.mark.parametrize(("equation", "shapes", "y", "operations", "macs"), EINSUM)
def test_einsum_by_hand(equation, shapes, y, operations, macs):
    cost = priced("einsum", {f"x{i}": shape for i, shape in enumerate(shapes)}, y, equation=equation)
    assert (cost.flops, cost.macs) == (operations, macs)


def test_einsum_reads_diagonals_and_adds_onto_b():
    assert priced("einsum", {"x0": (5, 5)}, (), equation="ii->").mread == 4 * 5
    outer = priced("einsum", {"x0": (3,), "x1": (4,), "b": (3, 4)}, (3, 4), equation="i,j->ij")
    assert (outer.flops, outer.macs, outer.mread) == (Operations(fma=12), 0, 4 * (3 + 4 + 12))
    summed = priced("einsum", {"x0": (3, 4), "b": (3,)}, (3,), equation="ij->i")
    assert summed.flops == Operations(add=12)


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ij,jk->ik", [(2, 3)]), ("ijk->i", [(2, 3)]), ("ij->i", [(2, 3, 4)]), ("ij->k", [(2, 3)])]
)
def test_an_equation_that_does_not_fit_is_named(equation, shapes):
    with pytest.raises(CostError, match=r"the equation 'ij|'ijk' of the equation"):
        priced("einsum", {f"x{i}": shape for i, shape in enumerate(shapes)}, (2,), equation=equation)


def test_symbols_give_closed_formulas():
    n, i, o, k = sympy.symbols("n i o k", integer=True, positive=True)
    linear = priced("linear", {"x": Tensor((n, i)), "w": Tensor((o, i))}, Tensor((n, o)))
    assert linear.macs == n * i * o
    assert linear.flops.flops(fma_1flop=False) == sympy.expand((2 * i - 1) * n * o)
    einsum = priced("einsum", {"x0": Tensor((n, k)), "x1": Tensor((k, o))}, Tensor((n, o)), equation="nk,ko->no")
    assert einsum.macs == n * k * o
