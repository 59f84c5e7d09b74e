from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.layer_costs import layer_cost, operations

X0, X1 = Tensor((3, 4), "float8_e4m3fn"), Tensor((4, 5), "float8_e4m3fn")


@pytest.mark.parametrize(
    ("scales", "muls"),
    [
        ({"x0_scale": (), "x1_scale": ()}, 1),
        ({"x0_scale": (1,), "x1_scale": (1,), "y_scale": ()}, 1),
        ({"x0_scale": (3, 1), "x1_scale": (1, 5)}, 2),
        ({"x0_scale0": (3, 1), "x0_scale1": (1,), "x1_scale0": (1, 5)}, 2),
        ({}, 0),
    ],
)
def test_scales(scales, muls):
    result = layer_cost("scaled_matmul", {"x0": X0, "x1": X1, **scales}, (3, 5))
    # 15 dot products of length 4
    assert result.flops == Operations(mul=15 + 15 * muls, fma=45)
    assert result.macs == 60
    onto_bias = operations("scaled_matmul", {"x0": X0, "x1": X1, "b": (5,), **scales}, (3, 5))
    assert onto_bias == Operations(fma=60, mul=15 * muls)


def test_a_scaled_product_is_added_to_a_matrix():
    """3 x 5 elements: 60 products, of which the first of each is added to the matrix, too; one mul for each factor."""
    given = {"x0": X0, "x1": X1, "b": (3, 5), "x0_scale0": (1,), "x1_scale0": (1,)}
    assert operations("scaled_matmul", given, (3, 5)) == Operations(fma=60, mul=15)
    factors = operations("scaled_matmul", given, (3, 5), alpha=0.5, beta=2.0)
    assert factors == Operations(fma=60, mul=15 + 15 + 15)


@pytest.mark.parametrize(
    ("x0", "x1", "y"),
    [((6, 4), (2, 4, 5), (6, 5)), ((2, 3, 4), (2, 4, 5), (2, 3, 5)), ((2, 3, 4), (4, 10), (3, 10))],
)
def test_groups_of_rows(x0, x1, y):
    size = y[0] * y[1] * (y[2] if len(y) > 2 else 1)
    result = layer_cost("grouped_matmul", {"x0": x0, "x1": x1}, y)
    assert (result.macs, result.flops) == (4 * size, Operations(mul=size, fma=3 * size))


@pytest.mark.parametrize(
    ("x0", "x1", "y", "elements"),
    [
        # 2 rows for 8 experts of 4 x 5: 2 x 4 of rows and 2 of the 8 matrices, 2 x 20
        ((2, 4), (8, 4, 5), (2, 5), 8 + 40),
        # 8 rows and more need all 8 matrices
        ((8, 4), (8, 4, 5), (8, 5), 32 + 160),
        ((9, 4), (8, 4, 5), (9, 5), 36 + 160),
        # 3 columns for 8 matrices of 2 x 4
        ((8, 2, 4), (4, 3), (2, 3), 12 + 24),
        # batched products use all of their matrices
        ((8, 1, 4), (8, 4, 5), (8, 1, 5), 32 + 160),
    ],
)
def test_no_more_matrices_are_read_than_there_are_rows(x0, x1, y, elements):
    assert layer_cost("grouped_matmul", {"x0": x0, "x1": x1}, y).mread == 4 * elements


def test_scales_and_biases_of_matrices_without_rows_are_not_read():
    """Of 8 matrices 2 are read, with 2 x 5 scales and 2 x 5 biases; scales of rows are read whole."""
    x1, rows = Tensor((8, 4, 5), "float8_e4m3fn"), Tensor((2, 4), "float8_e4m3fn")
    given = {"x0": rows, "x1": x1, "x0_scale": (2,), "x1_scale": (8, 5), "b": (8, 5)}
    # 8 bytes of rows, 40 of matrices, 2 + 10 + 10 float32
    assert layer_cost("grouped_matmul", given, (2, 5)).mread == 8 + 40 + 4 * 22


def test_groups_along_the_summed_axis():
    """3 x 8 by 8 x 5 in two groups: 120 products in all make two 3 x 5 matrices."""
    result = layer_cost("grouped_matmul", {"x0": (3, 8), "x1": (8, 5)}, (2, 3, 5))
    assert (result.macs, result.flops) == (120, Operations(mul=30, fma=90))


def test_groups_without_columns_have_no_sums():
    """3 x 2 by 2 x 5 in four groups, at most two of which have a column: 30 products make two 3 x 5 matrices."""
    result = layer_cost("grouped_matmul", {"x0": (3, 2), "x1": (2, 5)}, (4, 3, 5))
    assert (result.macs, result.flops, result.mwrite) == (30, Operations(mul=30), 4 * 60)


def test_lists():
    given = {"x0": (2, 3), "x1": (1, 4), "x2": (3, 5), "x3": (4, 2)}
    result = layer_cost("foreach_matmul", given, (2, 5), (1, 2))
    assert result.flops == Operations(mul=10 + 2, fma=20 + 6)
    assert result.macs == 30 + 8
