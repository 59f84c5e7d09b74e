from __future__ import annotations

import math

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, exp, log2, maximum, minimum, select
from tests.calculators.layer_costs import bytes_moved, operations

SCALES = {"scale": (), "zero_point": ()}


def test_signs() -> None:
    def bipolar(x, scale):
        return [scale * select(v >= 0, 1, -1) for v in x]

    assert operations("bipolar_quantize", {"x": (6,), "scale": ()}, (6,)) == count(bipolar, (6,), ())
    assert bytes_moved("bipolar_quantize", {"x": (6,), "scale": ()}, (6,)) == (4 * 6 + 4, 4 * 6)


@pytest.mark.parametrize("limited", [False, True])
def test_truncation(limited: bool) -> None:
    def truncate(x, scale, zero_point):
        steps = [round(v / scale + zero_point) / 16 for v in x]
        steps = [minimum(maximum(v, -8), 7) for v in steps] if limited else steps
        return [(math.floor(v) - zero_point) * scale for v in steps]

    found = operations("truncate_bits", {"x": (6,), **SCALES}, (6,), **({"limited": True} if limited else {}))
    assert found == count(truncate, (6,), (), ())


def test_floats_of_fewer_bits() -> None:
    def rounded(x, scale):
        made = []
        for v in (element / scale for element in x):
            exponent = maximum(math.floor(log2(abs(v) + 1e-38)) - 3, -9)
            power = exp(exponent)  # of two
            made.append(minimum(maximum(power * round(v / power), -448), 448) * scale)
        return made

    assert operations("float_quantize", {"x": (6,), "scale": ()}, (6,)) == count(rounded, (6,), ())


def test_thresholds() -> None:
    # 2 rows of 3 channels, 4 thresholds each: 4 comparisons of each element, and 3 additions of their results
    operands = {"x": (2, 3), "w": (3, 4)}
    assert operations("multi_threshold", operands, (2, 3)) == Operations(cmp=6 * 4, add=6 * 3)
    assert operations("multi_threshold", operands, (2, 3), affine=True) == Operations(fma=6, cmp=24, add=18)
    assert bytes_moved("multi_threshold", operands, (2, 3)) == (4 * (6 + 12), 4 * 6)
