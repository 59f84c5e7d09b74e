"""Linear layers and matrix products against executed definitions and other counters."""

from __future__ import annotations

import numpy as np
import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot, fma, select
from tests.calculators.layer_costs import layer_cost

N, P, F = 2, 3, 5


def matmul(a, b):
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    return [dot(a[n][i], b[n][:, j]) for n in np.ndindex(batch) for i in range(a.shape[-2]) for j in range(b.shape[-1])]


@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_its_definition(bias):
    operands = {"x": (2, 3, 5), "w": (4, 5)} | ({"b": (4,)} if bias else {})

    def linear(x, w, b=(None,) * 4):
        return [dot(row, weights, start) for row in x.reshape(6, 5) for weights, start in zip(w, b, strict=True)]

    done = count(linear, *operands.values())
    cost = layer_cost("linear", operands, (2, 3, 4))
    assert cost.flops == done
    assert cost.macs == 6 * 4 * 5
    assert cost.mread == 4 * (30 + 20 + (4 if bias else 0))


def test_gemm_scales_product_and_addend():
    operands = {"x": (3, 5), "w": (4, 5), "b": (4,)}

    def gemm(x, w, b):
        addend = [2.0 * c for c in b]
        return [fma(dot(row, weights), 0.5, c) for row in x for weights, c in zip(w, addend, strict=True)]

    assert layer_cost("linear", operands, (3, 4), alpha=0.5, beta=2.0).flops == count(gemm, *operands.values())
    plain = Operations(fma=3 * 4 * 5)
    assert layer_cost("linear", operands, (3, 4), alpha=1.0, beta=1.0).flops == plain
    assert layer_cost("matmul", {"x0": (3, 5), "x1": (5, 4), "b": (3, 4)}, (3, 4), beta=2).flops == plain + Operations(
        mul=12
    )


@pytest.mark.parametrize(
    ("x0", "x1", "y"),
    [
        ((3, 4), (4, 5), (3, 5)),
        ((2, 3, 4), (2, 4, 5), (2, 3, 5)),
        ((2, 1, 3, 4), (3, 4, 2), (2, 3, 3, 2)),
    ],
)
def test_matmul_is_its_definition(x0, x1, y):
    cost = layer_cost("matmul", {"x0": x0, "x1": x1}, y)
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
    assert layer_cost("matmul", {"x0": x0, "x1": x1}, y).macs == macs


def test_matmul_onto_an_addend_and_transposed():
    onto = layer_cost("matmul", {"x0": (2, 4, 8), "x1": (2, 8, 5), "b": (2, 4, 5)}, (2, 4, 5))
    assert onto.flops == Operations(fma=2 * 4 * 5 * 8)
    assert onto.mread == 4 * (64 + 80 + 40)
    assert layer_cost("matmul", {"x0": (8, 4), "x1": (8, 5)}, (4, 5), transpose_x0=True).macs == 4 * 5 * 8


@pytest.mark.parametrize("mask", [(N, F, P), (F, P)], ids=["a mask a row", "one mask"])
def test_dropconnect_linear(mask):
    def definition(x, w, keep, b):
        dropped = {i: select(keep[i], w[i[-2:]] * 2.0, w[i[-2:]]) for i in np.ndindex(mask)}
        for n in range(N):
            for o in range(F):
                kept = [dropped[(n, o, i)[-len(mask) :]] for i in range(P)]
                dot(x[n], kept, b[o])

    result = layer_cost("dropconnect_linear", {"x": (N, P), "w": (F, P), "b": (F,)}, (N, F), mask)
    assert result.flops == count(definition, (N, P), (F, P), mask, (F,))
    assert result.macs == N * F * P
    assert result.mwrite == 4 * (N * F + int(np.prod(mask)))
