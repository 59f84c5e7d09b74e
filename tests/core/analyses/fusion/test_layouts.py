"""In which order the axes of views lie in memory, by hand; numpy's strides say the same."""

from __future__ import annotations

import pytest

from costcore.analyses.fusion.traffic import order_of_view
from costcore.ir import Layer, Tensor


def view(before, after, **attrs):
    return Layer("view", {"x": Tensor(before)}, [Tensor(after)], attrs)


TURNED = [0, 2, 1]
"""The order of [2, 3, 4] that lies as [2, 4, 3]."""


@pytest.mark.parametrize(
    ("before", "after", "attrs", "order", "expected"),
    [
        ((2, 3, 4), (2, 4, 3), {"axes": (0, 2, 1)}, None, [0, 2, 1]),
        ((2, 3, 4), (4, 2, 3), {"axes": (2, 0, 1)}, None, [1, 2, 0]),  # axis 0 is now the second, 1 the third
        ((2, 3, 4), (2, 4, 3), {"axes": (0, 2, 1)}, TURNED, [0, 1, 2]),
        ((2, 3, 4), (2, 3, 2), {}, TURNED, TURNED),  # a part along one axis
        ((2, 3, 4), (3, 4), {"axis": 0}, TURNED, [1, 0]),  # one element of an axis
        ((2, 3, 4), (2, 4), {"axis": 1}, TURNED, [0, 1]),
        ((2, 3, 4), (2, 3), {"axis": 2}, TURNED, [0, 1]),
        ((2, 3, 4), (6, 4), {}, None, None),
        ((2, 3, 4), (6, 4), {}, [2, 0, 1], [1, 0]),  # neighbors are joined
        ((6, 4), (2, 3, 4), {}, [1, 0], [2, 0, 1]),  # and parted
        ((2, 3, 4), (6, 4), {}, TURNED, None),  # axes that are not neighbors cannot be joined
        ((2, 3, 4), (2, 1, 3, 4), {}, TURNED, [1, 0, 3, 2]),  # an axis of one element lies anywhere: first
        ((2, 1, 4), (2, 4), {}, [2, 1, 0], [1, 0]),
        ((2, 3, 4), (5, 5), {}, TURNED, None),
        ((2, 3), (3, 2), {}, [1, 0, 2], None),  # an order of another shape
    ],
)
def test_order_of_views(before, after, attrs, order, expected):
    assert order_of_view(view(before, after, **attrs), order) == expected


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
@pytest.mark.parametrize("after", [(6, 4), (2, 12), (24,), (2, 3, 2, 2), (2, 3, 4, 1), (3, 2, 4)])
def test_reshapes_that_numpy_makes_without_a_copy(order, after):
    numpy = pytest.importorskip("numpy")
    shape = (2, 3, 4)
    memory = numpy.zeros([shape[axis] for axis in order])
    value = memory.transpose([order.index(axis) for axis in range(3)])
    found = order_of_view(view(shape, after), order)
    reshaped = value.reshape(after)
    if found is None:
        assert not numpy.shares_memory(reshaped, value)
        return
    assert sorted(found) == list(range(len(after)))
    if numpy.shares_memory(reshaped, value):
        strides = [reshaped.strides[axis] for axis in found if after[axis] != 1]
        assert strides == sorted(strides, reverse=True)
