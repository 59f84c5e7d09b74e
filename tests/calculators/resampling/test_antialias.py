from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.layer_costs import layer_cost, operations


@pytest.mark.parametrize(("mode", "support"), [("linear", 2), ("cubic", 4), ("lanczos", 6)])
def test_one_axis_after_another(mode, support):
    """8 x 8 to 4 x 16: windows of twice the support along the axis that shrinks; the last axis goes first."""
    wide, tall = 8 * 16, 4 * 16
    result = layer_cost("antialiased_resize", {"x": (2, 3, 8, 8)}, (2, 3, 4, 16), mode=mode)
    expected = wide * Operations(mul=support, add=support - 1)
    expected += tall * Operations(mul=2 * support, add=2 * support - 1)
    assert result.flops == 6 * expected
    assert (result.mread, result.mwrite) == (4 * 6 * 64, 4 * 6 * 64)


def test_a_ratio_that_is_not_whole_is_rounded_up():
    """5 to 3: at most ceil(2 * 5 / 3) = 4 elements in a window."""
    assert operations("antialiased_resize", {"x": (1, 1, 5)}, (1, 1, 3), mode="linear") == 3 * Operations(mul=4, add=3)


def test_gradient():
    found = operations("antialiased_resize_backward", {"dy": (1, 1, 4, 16)}, (1, 1, 8, 8), mode="linear")
    assert found == 8 * 16 * 2 * Operations(mul=1, add=1) + 4 * 16 * 4 * Operations(mul=1, add=1)
