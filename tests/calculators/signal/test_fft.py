"""Fourier transforms against an executed transform."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count
from tests.calculators.layer_costs import layer_cost


def transform(real, imaginary):
    """Decimation in time; the roots of unity are constants of any value."""
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
    result = layer_cost("fft", {"real": (3, n), "imaginary": (3, n)}, (3, n), (3, n))
    assert result.flops == 3 * count(transform, (n,), (n,))
    assert (result.mread, result.mwrite, result.macs) == (4 * 6 * n, 4 * 6 * n, 0)


def test_other_lengths_axes_and_the_inverse():
    # 6 elements take the 3 stages of 8
    assert layer_cost("fft", {"x": (2, 6)}, (2, 6)).flops == Operations(mul=2 * 12 * 3, add=3 * 12 * 3)
    # 4 along one axis, 8 along the other: 2 and 3 stages for 32 elements
    assert layer_cost("fft", {"x": (4, 8)}, (4, 8), axes=(0, 1)).flops == Operations(mul=2 * 32 * 5, add=3 * 32 * 5)
    assert layer_cost("fft", {"x": (2, 4)}, (2, 4), inverse=True).flops == Operations(
        mul=2 * 8 * 2 + 2 * 8, add=3 * 8 * 2
    )


def test_signals_are_padded_or_cut_to_a_length():
    # 2 rows of 6 become rows of 4 or 8: 2 or 3 stages for 8 or 16 elements; the scale of an inverse is of these too
    assert layer_cost("fft", {"x": (2, 6)}, (2, 4), length=4).flops == Operations(mul=2 * 8 * 2, add=3 * 8 * 2)
    padded = layer_cost("fft", {"x": (2, 6)}, (2, 8), length=8, inverse=True)
    assert padded.flops == Operations(mul=2 * 16 * 3 + 2 * 16, add=3 * 16 * 3)
    first = layer_cost("fft", {"x": (6, 2)}, (4, 2), axes=(0,), length=4)
    assert first.flops == Operations(mul=2 * 8 * 2, add=3 * 8 * 2)


def test_a_scale_may_be_asked_for_or_left_out():
    plain = Operations(mul=2 * 8 * 2, add=3 * 8 * 2)
    assert layer_cost("fft", {"x": (2, 4)}, (2, 4), inverse=True, scaled=False).flops == plain
    assert layer_cost("fft", {"x": (2, 4)}, (2, 4), scaled=True).flops == plain + Operations(mul=2 * 8)


def spectrum(*shape):
    return Tensor(shape, "complex64")


def test_forward():
    # 8 elements, 3 stages: n/4 = 2 butterflies of 4 mul and 6 add in each
    result = layer_cost("real_fft", {"x": (5, 8)}, spectrum(5, 5), axes=(1,))
    assert result.flops == 5 * 3 * 2 * Operations(mul=4, add=6)
    assert (result.mread, result.mwrite) == (5 * 8 * 4, 5 * 5 * 8)
    # then 4 elements along the other axis, 2 stages on 4 * 5 complex elements, and their scale
    planar = layer_cost("real_fft", {"x": (4, 8)}, spectrum(4, 5), axes=(0, 1), scaled=True)
    assert planar.flops == 4 * 3 * 2 * Operations(mul=4, add=6) + 20 * 2 * Operations(mul=2, add=3) + Operations(mul=40)


def test_a_real_signal_is_padded_or_cut_to_a_length():
    # 5 rows of 8 cut to 4: 2 stages of half of 2 mul and 3 add for 20 elements
    cut = layer_cost("real_fft", {"x": (5, 8)}, spectrum(5, 3), axes=(1,), length=4)
    assert cut.flops == Operations(mul=20 * 2, add=20 * 2 * 3 // 2)


def test_backward():
    result = layer_cost("inverse_real_fft", {"x": spectrum(4, 5)}, (4, 8), axes=(0, 1), scaled=True)
    assert result.flops == 4 * 3 * 2 * Operations(mul=4, add=6) + 20 * 2 * Operations(mul=2, add=3) + Operations(mul=32)


def test_an_odd_length_is_held_to_the_next_power():
    # 5 elements, 3 stages: 15 mul, 45 / 2 add rounded down
    assert layer_cost("real_fft", {"x": (5,)}, spectrum(3), axes=(0,)).flops == Operations(mul=15, add=22)


def test_a_scale_that_is_told_replaces_that_of_the_inverse():
    plain = layer_cost("fft", {"x": spectrum(8)}, spectrum(8), inverse=True, scaled=False)
    assert plain.flops == 3 * 8 * Operations(mul=2, add=3)
    assert layer_cost("fft", {"x": spectrum(8)}, spectrum(8), scaled=True).flops == plain.flops + Operations(mul=16)
