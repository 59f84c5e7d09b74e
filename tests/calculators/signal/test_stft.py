from __future__ import annotations

import math

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import measure
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations

WINDOWS = declared("signal", "WINDOWS")


@pytest.mark.parametrize("op", sorted(WINDOWS))
def test_windows_are_their_definitions(op: str) -> None:
    # the position n is index arithmetic, made a float by its product with the angle
    _, counted = measure(WINDOWS[op].definition, "n", step=math.pi / 4, double=math.pi / 2, a=0.54, b=0.46)
    assert operations(op, {}, (8,)) == 8 * counted == 8 * WINDOWS[op].operations
    assert bytes_moved(op, {}, (8,)) == (0, 32)


def test_short_time_fourier_transform() -> None:
    # 2 signals of 20 in 5 frames of 8 with a window: 80 products, and 80 points in 3 stages of half of 2 mul and 3 add
    given = {"x": (2, 20), "window": (8,)}
    result = layer_cost("stft", given, Tensor((2, 5, 5), "complex64"), frames=5, length=8)
    assert result.flops == Operations(mul=80 + 80 * 3, add=3 * 80 * 3 // 2)
    assert (result.mread, result.mwrite) == (4 * 48, 8 * 50)
    bare = operations("stft", {"x": Tensor((2, 20), "complex64")}, (2, 5, 8), frames=5, length=8)
    assert bare == Operations(mul=480, add=720)
    windowed = {"x": Tensor((2, 20), "complex64"), "window": (8,)}
    assert operations("stft", windowed, (2, 5, 8), frames=5, length=8) == bare + Operations(mul=160)


def test_signal_of_frames() -> None:
    # 2 x 5 frames of 8: 80 points in 3 stages of half of 2 mul and 3 add, 80 / n, 80 products added; the window is
    # squared, and added for 5 frames; 40 quotients
    result = layer_cost("istft", {"x": Tensor((2, 5, 5), "complex64"), "window": (8,)}, (2, 20), frames=5, length=8)
    assert result.flops == Operations(mul=80 * 3 + 80 + 8, add=80 * 3 * 3 // 2 + 40, fma=80, div=40)
    assert (result.mread, result.mwrite) == (8 * 50 + 32, 4 * 40)


def test_squared_magnitudes() -> None:
    # 2 signals of 20 in 5 frames of 8 as above, and of 2 x 5 bins in 5 frames re * re + im * im: 1 mul, 1 fma
    given = {"x": (2, 20), "window": (8,)}
    result = layer_cost("stft_power", given, (2, 5, 5), frames=5, length=8)
    assert result.flops == Operations(mul=80 + 80 * 3 + 50, add=3 * 80 * 3 // 2, fma=50)
    assert (result.mread, result.mwrite) == (4 * 48, 4 * 50)


def test_mel_weights() -> None:
    definition = "floor(700 * (power(10, (low + i * step) / 2595) - 1) * n / rate)"
    _, edge = measure(definition, "i", low=0, step=1, n=9, rate=2)
    # 6 mel bins have 8 edges; 5 frequency bins
    assert operations("mel_weights", {}, (5, 6)) == 8 * edge + 30 * Operations(add=1, div=1)
