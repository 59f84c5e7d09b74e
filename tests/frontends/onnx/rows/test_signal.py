"""Fourier transforms, windows and mel weights: one node each, by hand."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.frontends.onnx.read_model import read
from tests.frontends.onnx.rows.single_node import INT64, priced
from tests.prices import price
from tests.whole_networks.onnx_models import Graph


def test_fourier_transforms_of_real_and_complex_signals():
    # 2 signals of 16 points: 4 stages of 2 mul and 3 add a point
    stages = 2 * 16 * 4 * Operations(mul=2, add=3)
    layer, cost = priced("DFT", (2, 16, 2), None, 1)
    assert (layer["x"].shape, layer["x"].dtype, layer.out.shape) == ((2, 16), "complex64", (2, 16, 2))
    assert cost.flops == stages
    layer, cost = priced("DFT", (2, 16, 1), None, 1, onesided=1)
    assert (layer["x"].shape, layer["x"].dtype, layer.out.shape) == ((2, 16), "float32", (2, 9, 2))
    assert (cost.flops, cost.mread, cost.mwrite) == (stages, 4 * 32, 4 * 36)


def test_fourier_transforms_of_another_length():
    padded = 2 * 16 * 4 * Operations(mul=2, add=3)
    layer, cost = priced("DFT", (2, 10, 1), 16, 1)
    assert (layer.out.shape, cost.flops) == ((2, 16, 2), padded)
    layer, cost = priced("DFT", (2, 9, 2), None, 1, inverse=1, onesided=1)
    assert (layer.out.shape, cost.flops) == ((2, 16, 1), padded + Operations(mul=64))


def test_short_time_fourier_transform():
    layer, cost = priced("STFT", (1, 64, 1), 8, (16,), None)
    assert layer.out.shape == (1, 7, 9, 2)
    assert cost.flops == 7 * 16 * 4 * Operations(mul=2, add=3) + Operations(mul=7 * 16)
    layer, cost = priced("STFT", (1, 16, 1), 8, None, None)
    assert layer.out.shape == (1, 1, 9, 2), "one frame, the whole signal"
    assert cost.flops == 16 * 4 * Operations(mul=2, add=3)


def test_a_signal_whose_parts_have_no_number_is_real():
    layer, cost = priced("STFT", (1, 64, "parts"), 8, (16,), None)
    assert layer["x"].shape == (1, 64)
    assert cost.flops == 7 * 16 * 4 * Operations(mul=2, add=3) + Operations(mul=7 * 16)


def test_frames_of_unknown_length_have_no_price():
    g = Graph(17)
    y = g("STFT", "x", g.number(8, scalar=True), "", "length")
    recorder = read(g.model({"x": (1, 64, 1), "length": (INT64, ())}, y))
    answer = price(recorder.calls[-1])
    assert (answer.cost, answer.reason) == (None, "no calculator for 'ai.onnx::STFT'")
    batch, frames, bins, parts = recorder.calls[-1].layer.out.shape
    assert (batch, parts) == (1, 2)
    assert (str(frames), str(bins)) == (f"{y}_1", f"{y}_2")


@pytest.mark.parametrize(
    ("op", "each"),
    [
        ("HannWindow", Operations(mul=2, add=1, special=1)),
        ("HammingWindow", Operations(mul=2, add=1, special=1)),
        ("BlackmanWindow", Operations(mul=4, add=2, special=2)),
    ],
)
def test_windows(op, each):
    layer, cost = priced(op, 10)
    assert (layer.out.shape, cost.flops, cost.mread) == ((10,), 10 * each, 0)


def test_mel_weights():
    layer, cost = priced("MelWeightMatrix", 8, 64, 8192, 0.0, 4096.0)
    assert layer.out.shape == (33, 8)
    assert cost.flops == 10 * Operations(mul=3, add=2, div=2, cmp=1, special=1) + 264 * Operations(add=1, div=1)
