"""Packed weights against executed definitions."""

from __future__ import annotations

import numpy as np

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, exp
from tests.calculators.layer_costs import layer_cost, operations
from tests.calculators.reference import rms_normalized


def test_gated_projections_of_a_normalized_sum() -> None:
    """2 rows of 4 features to 3: the second projection times the SiLU of the first."""

    def definition(x, skip, w, w0, w1, b0):
        w0, w1 = (np.array([value * 0.5 for value in part.flat], dtype=object).reshape(3, 4) for part in (w0, w1))
        for row, more in zip(x, skip, strict=True):
            row = rms_normalized(row + more, w)
            for i in range(3):
                gate = dot(row, w0[i], b0[i])
                _ = gate * (1 / (1 + exp(-gate))) * dot(row, w1[i])

    packed = Tensor((3, 4), "uint4", "param")
    given = {"x": (2, 4), "skip": (2, 4), "w": (4,), "w0": packed, "w1": packed, "b0": (3,), "w0_scale": (3, 1)}
    result = layer_cost("packed_projections", given, (2, 3), activation="silu")
    assert result.flops == count(definition, (2, 4), (2, 4), (4,), (3, 4), (3, 4), (3,))
    assert result.macs == 2 * (2 * 3 * 4)
    # two weights of 12 elements of half a byte
    assert (result.mread, result.mwrite) == (4 * (8 + 8 + 4 + 3 + 3) + 2 * 6, 4 * 6)


def test_plain_projections_and_their_zero_points() -> None:
    packed, zeros = Tensor((3, 4), "uint4"), Tensor((3,), "uint8")
    given = {"x": (2, 4), "w0": packed, "w1": packed, "w2": Tensor((5, 4), "uint4"), "w2_zero_point": zeros}
    result = layer_cost("packed_projections", given, (2, 3), (2, 3), (2, 5))
    outputs, weights = 2 * (3 + 3 + 5), (3 + 3 + 5) * 4
    assert result.flops == Operations(mul=outputs + weights, fma=outputs * 3, add=5 * 4)
    assert result.macs == outputs * 4


def test_packed_weights_are_made_real_once() -> None:
    def definition(x, w):
        real = np.array([[(value - 8) * 0.5 for value in row] for row in w], dtype=object)
        for row in x:
            for column in real:
                dot(row, column)

    given = {"x": (2, 4), "w": Tensor((3, 4), "uint4"), "w_scale": (3, 1), "w_zero_point": Tensor((3,), "uint8")}
    result = layer_cost("packed_linear", given, (2, 3))
    assert result.flops == count(definition, (2, 4), (3, 4))
    assert (result.macs, result.mread) == (24, 4 * 8 + 6 + 12 + 3)


def test_rows_of_packed_tables() -> None:
    given = {"x": Tensor((5,), "int64"), "w": Tensor((100, 8), "uint4"), "w_scale": (100, 2)}
    result = layer_cost("packed_embedding", given, (5, 8))
    assert result.flops == Operations(mul=40)
    assert (result.mread, result.mwrite) == (5 * 8 + 20 + 4 * 10, 4 * 40)


def test_weights_of_a_packed_product_are_made_real_once():
    w = Tensor((5, 2), "uint8")
    result = layer_cost("packed_matmul", {"x": (3, 4), "w": w, "w_scale": (5,)}, (3, 5))
    assert result.flops == Operations(mul=15 + 20, fma=45)
    assert result[1:3] == (4 * 12 + 10 + 20, 60)
    shifted = operations("packed_matmul", {"x": (3, 4), "w": w, "w_scale": (5, 2)}, (3, 5), zero_points=True)
    assert shifted == Operations(mul=35, fma=45, add=20)
