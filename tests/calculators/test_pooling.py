from __future__ import annotations

import math

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting import count, dot, largest, sqrt, total
from tests.calculators.layers import moved, operations

IMAGE = (1, 1, 6, 6)


def windows(x, size: int, stride: int):
    """All windows of a square map."""
    places = range(0, x.shape[0] - size + 1, stride)
    return [list(x[i : i + size, j : j + size].ravel()) for i in places for j in places]


def mean(values):
    return total(values) / len(values)


def norm(values):
    return sqrt(dot(values, values))


def absolutes(values):
    return total(abs(v) for v in values)


def cubic_norm(values):
    return total(abs(v) ** 3 for v in values) ** (1 / 3)


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
    ],
)
@pytest.mark.parametrize(("size", "stride", "out"), [(2, 2, 3), (3, 1, 4), (6, 1, 1), (1, 1, 6)])
def test_pools(op, attrs, join, size: int, stride: int, out: int) -> None:
    counted = count(lambda x: [join(w) for w in windows(x, size, stride)], (6, 6))
    batch = 2 * 5
    layer = {"kernel": (size, size), "stride": (stride, stride), **attrs}
    assert operations(op, {"x": (2, 5, 6, 6)}, (2, 5, out, out), **layer) == batch * counted


def test_bytes_of_pools() -> None:
    settings = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    assert moved("max_pool", {"x": IMAGE}, (1, 1, 3, 3), **settings) == (36 * 4, 9 * 4)
    indices = Tensor((1, 1, 3, 3), "int64")
    assert moved("max_pool", {"x": IMAGE}, (1, 1, 3, 3), indices, **settings) == (36 * 4, 9 * 4 + 9 * 8)
    assert operations("max_pool", {"x": IMAGE}, (1, 1, 3, 3), **settings) == Operations(cmp=9 * (9 - 1))


def adaptive(x, out: tuple[int, int]):
    """The windows floor(i * L / n) .. ceil((i + 1) * L / n) of a map."""
    (height, width), (rows, columns) = x.shape, out
    for i in range(rows):
        for j in range(columns):
            top, bottom = math.floor(i * height / rows), math.ceil((i + 1) * height / rows)
            left, right = math.floor(j * width / columns), math.ceil((j + 1) * width / columns)
            yield list(x[top:bottom, left:right].ravel())


@pytest.mark.parametrize(
    ("size", "out"),
    [((6, 6), (4, 4)), ((7, 5), (3, 2)), ((5, 5), (7, 3)), ((6, 4), (3, 2)), ((3, 3), (1, 1)), ((2, 3), (2, 3))],
)
@pytest.mark.parametrize(("op", "join"), [("adaptive_avg_pool", mean), ("adaptive_max_pool", largest)])
def test_adaptive_pools_count_every_window(op, join, size, out) -> None:
    counted = count(lambda x: [join(w) for w in adaptive(x, out)], size)
    assert operations(op, {"x": (2, 3, *size)}, (2, 3, *out)) == 2 * 3 * counted
    assert operations(op, {"x": (3, *size)}, (3, *out)) == 3 * counted


def test_unpooling_copies() -> None:
    assert operations("unpool", {"x": (1, 1, 3, 3)}, IMAGE, kernel=(2, 2)) == Operations()
    assert moved("unpool", {"x": (1, 1, 3, 3)}, IMAGE, kernel=(2, 2)) == (9 * 4, 36 * 4)
    operands = {"x": (1, 1, 3, 3), "indices": Tensor((1, 1, 3, 3), "int64")}
    assert moved("upsample", operands, IMAGE) == (9 * 4 + 9 * 8, 36 * 4)


@pytest.mark.parametrize(("op", "join"), [("roi_avg_pool", mean), ("roi_max_pool", largest)])
def test_pools_of_regions_take_the_bound_of_the_whole_map(op, join) -> None:
    counted = count(lambda x: [join(w) for w in adaptive(x, (3, 2))], (7, 5))
    operands = {"x": (1, 4, 7, 5), "rois": (6, 5)}
    assert operations(op, operands, (6, 4, 3, 2)) == 6 * 4 * counted
    assert moved(op, operands, (6, 4, 3, 2)) == ((140 + 30) * 4, 144 * 4)


def bilinear(x, i: int, j: int):
    """A sample between four neighbours: three interpolations a + t * (b - a)."""
    top = x[i, j] + 0.25 * (x[i, j + 1] - x[i, j])
    bottom = x[i + 1, j] + 0.25 * (x[i + 1, j + 1] - x[i + 1, j])
    return top + 0.25 * (bottom - top)


@pytest.mark.parametrize(("mode", "join"), [("avg", mean), ("max", largest)])
def test_aligned_regions(mode: str, join) -> None:
    counted = count(lambda x: join([bilinear(x, i, j) for i in range(2) for j in range(3)]), (4, 4))
    operands = {"x": (1, 2, 20, 20), "rois": (3, 5)}
    assert operations("roi_align", operands, (3, 2, 2, 2), sampling=(2, 3), mode=mode) == 3 * 2 * 2 * 2 * counted
    assert moved("roi_align", operands, (3, 2, 2, 2), sampling=(2, 3), mode=mode)[0] == (4 * 6 * 24 + 15) * 4
    assert moved("roi_align", operands, (30, 2, 2, 2), sampling=(2, 3), mode=mode)[0] == (800 + 15) * 4


def test_every_bin_of_a_region_may_have_channels_of_its_own() -> None:
    counted = count(lambda x: mean([bilinear(x, i, j) for i in range(2) for j in range(3)]), (4, 4))
    operands = {"x": (1, 8, 20, 20), "rois": (3, 5)}  # 2 * 2 bins of 2 channels each
    assert operations("ps_roi_align", operands, (3, 2, 2, 2), sampling=(2, 3)) == 24 * counted
    assert moved("ps_roi_align", operands, (3, 2, 2, 2), sampling=(2, 3)) == (4 * (4 * 6 * 24 + 15), 4 * 24)


def test_regions_that_choose_their_samples_take_the_bound_of_the_whole_map() -> None:
    operands = {"x": (1, 2, 20, 15), "rois": (3, 5)}
    bound = operations("roi_align", operands, (3, 2, 7, 7), sampling=(3, 3))  # ceil(20 / 7), ceil(15 / 7)
    assert operations("roi_align", operands, (3, 2, 7, 7)) == bound
    assert operations("roi_align", operands, (3, 2, 7, 7), sampling=(0, 0)) == bound


def test_gradient_of_max_pooling() -> None:
    def put(dy):
        dx = [0] * 36
        for i, value in enumerate(dy.ravel()):
            dx[2 * i] = value + dx[2 * i]
        return dx

    operands = {"dy": (1, 1, 3, 3), "x": IMAGE, "indices": Tensor((1, 1, 3, 3), "int64")}
    counted = count(put, (3, 3))
    assert operations("max_pool_backward", operands, IMAGE, kernel=(2, 2)) == counted
    assert moved("max_pool_backward", operands, IMAGE, kernel=(2, 2)) == (9 * 4 + 9 * 8, 36 * 4)
    assert operations("adaptive_max_pool_backward", operands, IMAGE) == counted
    assert moved("adaptive_max_pool_backward", operands, IMAGE) == (9 * 4 + 9 * 8, 36 * 4)
    del operands["indices"]
    searched = counted + count(lambda x: [largest(w) for w in windows(x, 2, 2)], (6, 6))
    assert operations("max_pool_backward", operands, IMAGE, kernel=(2, 2)) == searched
    assert moved("max_pool_backward", operands, IMAGE, kernel=(2, 2)) == ((9 + 36) * 4, 36 * 4)


def test_gradient_of_average_pooling() -> None:
    def spread(dy):
        dx = [[0] * 6 for _ in range(6)]
        for i in range(4):
            for j in range(4):
                share = dy[i, j] / 9
                for p in range(3):
                    for q in range(3):
                        dx[i + p][j + q] = share + dx[i + p][j + q]
        return dx

    settings = {"kernel": (3, 3), "stride": (1, 1)}
    assert operations("avg_pool_backward", {"dy": (1, 1, 4, 4), "x": IMAGE}, IMAGE, **settings) == count(spread, (4, 4))
    assert moved("avg_pool_backward", {"dy": (1, 1, 4, 4), "x": IMAGE}, IMAGE, **settings) == (16 * 4, 36 * 4)
    # Windows of 6 elements cut into 4: 2 each along an axis, 8 in all.
    unequal = operations("adaptive_avg_pool_backward", {"dy": (1, 1, 4, 4)}, IMAGE)
    assert unequal == Operations(add=8 * 8, div=16)
