"""The four networks of MLPerf Tiny, which TensorFlow converted to int8: by hand, and as the runtime places them."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from costcore import estimate, fit

DATA = Path(__file__).parent / "data"


def depthwise_separable(kernel, c_in, c_out, places):
    """Return the products of a depthwise 3 x 3 convolution and a pointwise one, and their weights and biases."""
    weights = kernel * c_in + c_in * c_out
    return places * weights, weights + c_in + c_out


def resnet8():
    """3 x 3 convolutions of 16, 32 and 64 channels on 32, 16 and 8 squared places, with shortcuts of 1 x 1."""
    weights = [
        (32 * 32, 9 * (3 * 16 + 2 * 16 * 16), 3 * 16),
        (16 * 16, 9 * (16 * 32 + 32 * 32) + 16 * 32, 3 * 32),
        (8 * 8, 9 * (32 * 64 + 64 * 64) + 32 * 64, 3 * 64),
        (1, 64 * 10, 10),
    ]
    return sum(places * n for places, n, _ in weights), sum(n + biases for _, n, biases in weights)


def ds_cnn():
    """A convolution of 10 x 4, four separable ones of 64 channels on 25 x 5 places, a linear layer."""
    macs, n_params = depthwise_separable(9, 64, 64, 25 * 5)
    return 25 * 5 * 40 * 64 + 4 * macs + 64 * 12, 40 * 64 + 64 + 4 * n_params + 64 * 12 + 12


def vww():
    """MobileNet with a quarter of the channels on 96 x 96 pixels: 13 separable convolutions."""
    channels = (8, 16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    sides = (48, 24, 24, 12, 12, 6, 6, 6, 6, 6, 6, 3, 3)  # of what the depthwise convolutions make
    parts = [
        depthwise_separable(9, c_in, c_out, side**2)
        for c_in, c_out, side in zip(channels[:-1], channels[1:], sides, strict=True)
    ]
    macs, n_params = (sum(column) for column in zip(*parts, strict=True))
    return 48**2 * 27 * 8 + macs + 256 * 2, 27 * 8 + 8 + n_params + 256 * 2 + 2


def autoencoder():
    """Linear layers of 640, four of 128, 8, four of 128 and 640 features."""
    features = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
    macs = sum(a * b for a, b in pairwise(features))
    return macs, macs + sum(features[1:])


TINY = {"resnet8": resnet8, "ds_cnn": ds_cnn, "vww": vww, "autoencoder": autoencoder}

PLANNED = {"resnet8": 49_152, "ds_cnn": 16_000, "vww": 73_728, "autoencoder": 768}
"""``Arena allocation head`` in bytes that ``print_allocations`` of tflite_micro 20261023 printed of these files."""


@pytest.fixture(scope="module", params=TINY)
def counted(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / f"{request.param}.tflite"
    path.write_bytes(gzip.decompress((DATA / f"{request.param}.tflite.gz").read_bytes()))
    return request.param, estimate(path)


def test_macs_and_parameters_are_those_by_hand(counted):
    """Normalizations are folded into the weights and biases of the layers before them."""
    name, report = counted
    assert (report.total_report["macs"], report.total_report["n_params"]) == TINY[name]()
    assert report.status == "complete"


def test_the_macs_are_those_that_are_published():
    """Of the reference networks: 12.5, 2.66, 7.49 and 0.264 million."""
    assert [make()[0] for make in TINY.values()] == [12_501_632, 2_656_768, 7_489_664, 264_192]


def test_the_micro_strategy_is_the_plan_of_the_runtime(counted):
    name, report = counted
    arena = report.arena(align=16)
    assert arena.sizes["micro"] == PLANNED[name]
    assert arena.size <= PLANNED[name]


@pytest.mark.parametrize(("limit", "said"), [(64_000, "which does not fit"), (80_000, "which fits too")])
def test_a_verdict_says_what_the_planner_of_the_runtime_takes(tmp_path, limit, said):
    """It takes 73,728 bytes, see :data:`PLANNED`; a layout of 55,296 exists."""
    path = tmp_path / "vww.tflite"
    path.write_bytes(gzip.decompress((DATA / "vww.tflite.gz").read_bytes()))
    verdict = fit(path, None, f"sram={limit}B", align=16)
    assert verdict.fits
    assert [note for note in verdict.notes if "LiteRT Micro" in note] == [
        f"the planner of LiteRT Micro takes 73,728 B of SRAM, {said}; the layout of 55,296 B needs an offline plan"
    ]
