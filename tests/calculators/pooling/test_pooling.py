from __future__ import annotations

from functools import reduce
from operator import mul

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, largest, select, sqrt, total
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations
from tests.calculators.reference import adaptive_windows, mean, square_windows

IMAGE = (1, 1, 6, 6)


def norm(values):
    return sqrt(dot(values, values))


def absolutes(values):
    return total(abs(v) for v in values)


def cubic_norm(values):
    return total((e := abs(v)) * e * e for v in values) ** (1 / 3)


def quartic_norm(values):
    return total(abs(v) ** 4 for v in values) ** (1 / 4)


@pytest.mark.parametrize(
    ("op", "attrs", "join"),
    [
        ("max_pool", {}, largest),
        ("avg_pool", {}, mean),
        ("fractional_max_pool", {}, largest),
        ("lp_pool", {}, norm),
        ("lp_pool", {"p": 1}, absolutes),
        ("lp_pool", {"p": 2.0}, norm),
        ("lp_pool", {"p": 3}, cubic_norm),
        ("lp_pool", {"p": 4}, quartic_norm),
        ("window_reduction", {"by": "add"}, total),
        ("window_reduction", {"by": "max"}, largest),
        ("window_reduction", {"by": "mul"}, lambda values: reduce(mul, values)),
    ],
)
@pytest.mark.parametrize(("size", "stride", "out"), [(2, 2, 3), (3, 1, 4), (6, 1, 1), (1, 1, 6)])
def test_pools(op, attrs, join, size: int, stride: int, out: int) -> None:
    counted = count(lambda x: [join(w) for w in square_windows(x, size, stride)], (6, 6))
    batch = 2 * 5
    layer = {"kernel": (size, size), "stride": (stride, stride), **attrs}
    assert operations(op, {"x": (2, 5, 6, 6)}, (2, 5, out, out), **layer) == batch * counted


def test_bytes_of_pools() -> None:
    settings = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    assert bytes_moved("max_pool", {"x": IMAGE}, (1, 1, 3, 3), **settings) == (36 * 4, 9 * 4)
    indices = Tensor((1, 1, 3, 3), "int64")
    assert bytes_moved("max_pool", {"x": IMAGE}, (1, 1, 3, 3), indices, **settings) == (36 * 4, 9 * 4 + 9 * 8)
    kept = bytes_moved("max_pool", {"x": IMAGE}, (1, 1, 3, 3), **settings, indices="int64")
    assert kept == (36 * 4, 9 * 4 + 9 * 8)
    assert operations("max_pool", {"x": IMAGE}, (1, 1, 3, 3), **settings) == Operations(cmp=9 * (9 - 1))


@pytest.mark.parametrize(
    ("size", "out"),
    [((6, 6), (4, 4)), ((7, 5), (3, 2)), ((5, 5), (7, 3)), ((6, 4), (3, 2)), ((3, 3), (1, 1)), ((2, 3), (2, 3))],
)
@pytest.mark.parametrize(("op", "join"), [("adaptive_avg_pool", mean), ("adaptive_max_pool", largest)])
def test_adaptive_pools_count_every_window(op, join, size, out) -> None:
    counted = count(lambda x: [join(w) for w in adaptive_windows(x, out)], size)
    assert operations(op, {"x": (2, 3, *size)}, (2, 3, *out)) == 2 * 3 * counted
    assert operations(op, {"x": (3, *size)}, (3, *out)) == 3 * counted


def test_unpooling_copies() -> None:
    assert operations("unpool", {"x": (1, 1, 3, 3)}, IMAGE, kernel=(2, 2)) == Operations()
    assert bytes_moved("unpool", {"x": (1, 1, 3, 3)}, IMAGE, kernel=(2, 2)) == (9 * 4, 36 * 4)
    operands = {"x": (1, 1, 3, 3), "indices": Tensor((1, 1, 3, 3), "int64")}
    assert bytes_moved("upsample", operands, IMAGE) == (9 * 4 + 9 * 8, 36 * 4)


def test_pooling_of_what_a_mask_leaves() -> None:
    def definition(x, mask):
        left = np.array([select(m, a, -9.0) for a, m in zip(x.flat, mask.flat, strict=True)], dtype=object)
        left = left.reshape(x.shape)
        for i, j in np.ndindex(2, 2):
            largest(left[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].flat)

    given = {"x": (1, 3, 4, 4), "mask": Tensor((1, 3, 4, 4), "int32")}
    result = layer_cost("masked_max_pool", given, (1, 3, 2, 2), kernel=(2, 2))
    assert result.flops == 3 * count(definition, (4, 4), (4, 4))
    assert (result.mread, result.mwrite) == (4 * 2 * 48, 4 * 12)
