"""Inputs in windows of pools, by hand."""

from __future__ import annotations

import pytest

from costcore.analyses.conventions.quantities import taps_of_average_pool
from costcore.ir import Layer, Tensor


@pytest.mark.parametrize(
    ("size", "outputs", "settings", "expected"),
    [
        (5, 3, {"padding": (1,)}, 3 + 3 + 3),  # windows begin at -1, 1 and 3; padding counts
        (5, 3, {"padding": (1,), "count_include_pad": False}, 2 + 3 + 2),
        (6, 4, {"padding": (1,)}, 3 + 3 + 3 + 2),  # the last begins at 5: 5 and the padding, not what lies beyond
        (6, 4, {"padding": (1,), "count_include_pad": False}, 2 + 3 + 3 + 1),
        (6, 3, {"padding": (0,)}, 3 + 3 + 2),
        (4, 3, {"padding": (0,)}, 3 + 2 + 0),  # the last begins beyond the input
    ],
)
def test_inputs_of_windows(size, outputs, settings, expected):
    attrs = {"kernel": (3,), "stride": (2,), **settings}
    layer = Layer("avg_pool", {"x": Tensor((2, 4, size))}, [Tensor((2, 4, outputs))], attrs)
    assert taps_of_average_pool(layer) == 2 * 4 * expected
    square = Layer(
        "avg_pool",
        {"x": Tensor((2, 4, size, size))},
        [Tensor((2, 4, outputs, outputs))],
        {name: value * 2 if isinstance(value, tuple) else value for name, value in attrs.items()},
    )
    assert taps_of_average_pool(square) == 2 * 4 * expected**2


def test_windows_of_an_adaptive_pool_overlap():
    """From 7 to 3: 0-2, 2-4 and 4-6 are 9 inputs, 7 + 3 - gcd 1; from 6 to 3 none overlap."""
    for size, expected in ((7, 9), (6, 6)):
        layer = Layer("adaptive_avg_pool", {"x": Tensor((2, 4, size))}, [Tensor((2, 4, 3))])
        assert taps_of_average_pool(layer) == 2 * 4 * expected
