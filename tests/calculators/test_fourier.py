"""Fourier transforms against a transform that is executed."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting import count
from tests.calculators.layers import cost


def transform(real, imaginary):
    """Decimation in time; the roots of unity are constants, whatever they are."""
    n = len(real)
    if n == 1:
        return list(real), list(imaginary)
    even, odd = transform(real[::2], imaginary[::2]), transform(real[1::2], imaginary[1::2])
    first, second = [], []
    for a, b, c, d in zip(*even, *odd, strict=True):
        p, q = c * 0.6 - d * 0.8, c * 0.8 + d * 0.6
        first.append((a + p, b + q))
        second.append((a - p, b - q))
    return tuple(map(list, zip(*first, *second, strict=True)))


@pytest.mark.parametrize("n", [1, 2, 4, 16])
def test_power_of_two(n):
    result = cost("fft", {"real": (3, n), "imaginary": (3, n)}, (3, n), (3, n))
    assert result.flops == 3 * count(transform, (n,), (n,))
    assert (result.mread, result.mwrite, result.macs) == (4 * 6 * n, 4 * 6 * n, 0)


def test_other_lengths_axes_and_the_inverse():
    # 6 elements take the 3 stages of 8
    assert cost("fft", {"x": (2, 6)}, (2, 6)).flops == Operations(mul=2 * 12 * 3, add=3 * 12 * 3)
    # 4 along one axis, 8 along the other: 2 and 3 stages for 32 elements
    assert cost("fft", {"x": (4, 8)}, (4, 8), axes=(0, 1)).flops == Operations(mul=2 * 32 * 5, add=3 * 32 * 5)
    assert cost("fft", {"x": (2, 4)}, (2, 4), inverse=True).flops == Operations(mul=2 * 8 * 2 + 2 * 8, add=3 * 8 * 2)


def test_signals_are_padded_or_cut_to_a_length():
    # 2 rows of 6 become rows of 4 or 8: 2 or 3 stages for 8 or 16 elements; the scale of an inverse is of these too
    assert cost("fft", {"x": (2, 6)}, (2, 4), length=4).flops == Operations(mul=2 * 8 * 2, add=3 * 8 * 2)
    padded = cost("fft", {"x": (2, 6)}, (2, 8), length=8, inverse=True)
    assert padded.flops == Operations(mul=2 * 16 * 3 + 2 * 16, add=3 * 16 * 3)
    first = cost("fft", {"x": (6, 2)}, (4, 2), axes=(0,), length=4)
    assert first.flops == Operations(mul=2 * 8 * 2, add=3 * 8 * 2)


def test_a_scale_may_be_asked_for_or_left_out():
    plain = Operations(mul=2 * 8 * 2, add=3 * 8 * 2)
    assert cost("fft", {"x": (2, 4)}, (2, 4), inverse=True, scaled=False).flops == plain
    assert cost("fft", {"x": (2, 4)}, (2, 4), scaled=True).flops == plain + Operations(mul=2 * 8)
