"""Real Fourier transforms: half of complex ones along the real axis, complex ones along all others."""

from __future__ import annotations

from costcore.ir import Operations, Tensor
from tests.calculators.layers import cost


def spectrum(*shape):
    return Tensor(shape, "complex64")


def test_forward():
    # 8 elements, 3 stages: n/4 = 2 butterflies of 4 mul and 6 add in each
    result = cost("real_fft", {"x": (5, 8)}, spectrum(5, 5), axes=(1,))
    assert result.flops == 5 * 3 * 2 * Operations(mul=4, add=6)
    assert (result.mread, result.mwrite) == (5 * 8 * 4, 5 * 5 * 8)
    # then 4 elements along the other axis, 2 stages on 4 * 5 complex elements, and their scale
    planar = cost("real_fft", {"x": (4, 8)}, spectrum(4, 5), axes=(0, 1), scaled=True)
    assert planar.flops == 4 * 3 * 2 * Operations(mul=4, add=6) + 20 * 2 * Operations(mul=2, add=3) + Operations(mul=40)


def test_backward():
    result = cost("inverse_real_fft", {"x": spectrum(4, 5)}, (4, 8), axes=(0, 1), scaled=True)
    assert result.flops == 4 * 3 * 2 * Operations(mul=4, add=6) + 20 * 2 * Operations(mul=2, add=3) + Operations(mul=32)


def test_an_odd_length_is_held_to_the_next_power():
    # 5 elements, 3 stages: 15 mul, 45 / 2 add rounded down
    assert cost("real_fft", {"x": (5,)}, spectrum(3), axes=(0,)).flops == Operations(mul=15, add=22)


def test_a_scale_that_is_told_replaces_that_of_the_inverse():
    plain = cost("fft", {"x": spectrum(8)}, spectrum(8), inverse=True, scaled=False)
    assert plain.flops == 3 * 8 * Operations(mul=2, add=3)
    assert cost("fft", {"x": spectrum(8)}, spectrum(8), scaled=True).flops == plain.flops + Operations(mul=16)
