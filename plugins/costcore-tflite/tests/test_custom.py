"""Custom operators of sound features, worked out by hand: a file of tflite-micro, and those that it has not."""

import math
from pathlib import Path

import pytest
from build import G, Op, T, model
from flatbuffers import flexbuffers

from costcore import CostError, estimate
from costcore_tflite.operators import CUSTOM_ROWS


@pytest.fixture(scope="module")
def features():
    """The features of 480 samples of 16 bits: a spectrum of 512 points, and 40 channels."""
    return estimate(Path(__file__).parent / "data" / "audio_preprocessor_int8.tflite").layer_report


@pytest.mark.parametrize(
    ("name", "flops", "mread", "mwrite"),
    [
        ("Window", 480 * (1 + 3), 2 * (480 + 480), 2 * 480),
        ("FftAutoScale", 480 * (1 + 2), 2 * 480, 2 * 480 + 4),  # the shift is an int32
        ("Rfft", 512 * 9 * 5 // 2, 2 * 480, 2 * 514),  # 2.5 n log2(n) for n = 512
        ("Energy", (241 - 5) * 2, 2 * 2 * (241 - 5), 4 * (241 - 5)),  # bins 5 to 240, as the options say
        ("FilterBank", 316 * 2, 4 * 257 + 2 * (316 * 2 + 41 * 3), 8 * 40),
        ("FilterBankSquareRoot", 40 * 2, 8 * 40 + 4, 4 * 40),
        ("FilterBankSpectralSubtraction", 40 * (1 + 2 + 1 + 6), 4 * 40, 4 * (40 + 40)),  # and the noise
        ("PCAN", 40 * (2 + 2 + 2 + 10), 4 * (40 + 40) + 2 * 125, 4 * 40),
        ("FilterBankLog", 40 * (1 + 3 + 1), 4 * 40, 2 * 40),
    ],
)
def test_the_features_of_a_real_file(features, name, flops, mread, mwrite):
    found = features[f"Signal{name}-1"]
    assert (found["flops"], found["mread"], found["mwrite"]) == (flops, mread, mwrite)
    assert (found["macs"], found["n_params"]) == (316 * 2 if name == "FilterBank" else 0, 0)


@pytest.mark.parametrize(
    ("name", "given", "made", "flops"),
    [
        ("Irfft", (3, 34), (3, 32), 3 * 32 * 5 * 5 // 2),  # 17 bins of 3 frames: 2.5 n log2(n) for n = 32
        ("OverlapAdd", (4, 8), (16,), 4 * 8),
        ("Framer", (1, 160), (1, 480), 0),
        ("Delay", (1, 160), (1, 160), 0),
        ("Stacker", (40,), (120,), 0),
    ],
)
def test_operators_that_the_file_has_not(name, given, made, flops):
    tensors = [T(given, "int16"), T(made, "int16")]
    report = estimate(model(G(tensors, [Op(f"Signal{name}", (0,), (1,))], [0], [1])))
    (found,) = report.layer_report.values()
    assert (report.status, found["flops"], found["mwrite"]) == ("complete", flops, 2 * math.prod(made))


def test_cepstral_coefficients_of_samples():
    """Speech commands: 99 windows of 320 samples, 160 apart, of 16,000; the shapes are those that LiteRT finds.

    A transform of 512 samples has 257 bins. The file has no shapes of the results.
    """
    spectrogram = flexbuffers.Dumps({"window_size": 320, "stride": 160, "magnitude_squared": True})
    cepstrum = flexbuffers.Dumps({"filterbank_channel_count": 40, "dct_coefficient_count": 13})
    operators = [Op("AudioSpectrogram", (0,), (1,), custom=spectrogram), Op("Mfcc", (1, 2), (3,), custom=cepstrum)]
    tensors = [T((16_000, 1)), T(()), T((1,), "int32"), T(())]
    report = estimate(model(G(tensors, operators, [0, 2], [3])))
    first, second = report.layer_report.values()
    assert (first["output_shapes"], second["output_shapes"]) == ([(1, 99, 257)], [(1, 99, 13)])
    assert first["flops"] == 99 * (320 + 512 * 9 * 5 // 2 + 257 * 2)
    assert second["flops"] == 99 * (257 * 5 + 40 * 2 + 40 * 13)
    assert (report.total_report["macs"], report.status) == (99 * 40 * 13, "complete")


@pytest.mark.parametrize(
    ("options", "bins"),
    [
        (flexbuffers.Dumps({"start_index": 2, "end_index": 9, "T": 7.5}), 7),
        (flexbuffers.Dumps({"start_index": -4, "end_index": 999}), 17),
        (flexbuffers.Dumps([1, 2]), 17),
        (b"\xff\xff\xff", 17),
        (b"", 17),
    ],
)
def test_options_of_custom_operators(options, bins):
    """Options that are damaged, missing or beyond the spectrum leave all of its 17 bins."""
    operator = Op("SignalEnergy", (0,), (1,), custom=options)
    report = estimate(model(G([T((34,), "int16"), T((17,), "int32")], [operator], [0], [1])))
    assert report.total_report["flops"] == 2 * bins


def test_an_operator_without_its_operand_is_an_error():
    for row in CUSTOM_ROWS:
        file = model(G([T((4,))], [Op(row.native.removeprefix("tflite::"), (), (0,))], [], [0]))
        with pytest.raises(CostError, match=r"operand 0 of \w+ is missing"):
            estimate(file)
