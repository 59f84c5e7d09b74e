"""Whether ONNX files fit a microcontroller: by the hand graphs whose arenas ONNX Runtime and arithmetic confirm."""

from __future__ import annotations

import json

import onnx
import pytest

from costcore import check, estimate, fit
from tests.command_line import main
from tests.frontends.onnx.small_models import model, node
from tests.frontends.onnx.test_arena import chain, residual, wide, zeros

WEIGHTS = {chain: 4 * (32 * 256 + 256 * 64 + 64 * 10), residual: 4 * 8 * 8 * 9, wide: 4 * (8 * 8 * 9 + 2 * 64 * 8)}
SRAM = {chain: 8_192, residual: 24_576, wide: 139_264}
"""The layouts: 4 * 256 * 4 B twice; three tensors of 8 KiB; two of 64 KiB and one of 8 KiB."""


KEPT = {residual: 8_192}
"""With one memory, where a runtime allocates as it runs: the input, which the caller keeps beside the other values.

ONNX Runtime runs the third depth first, and needs 81,920 bytes and the input: less than the layout.
"""


@pytest.mark.parametrize("make", [chain, residual, wide])
def test_it_fits_to_the_byte(make):
    sram, flash = SRAM[make], WEIGHTS[make]
    exact = fit(make(), None, {"sram": sram, "flash": flash})
    assert (exact.fits, exact.needs, exact.suggestions) == (True, {"sram": sram, "flash": flash}, ())
    for memory in ("sram", "flash"):
        target = {"sram": sram, "flash": flash, memory: {"sram": sram, "flash": flash}[memory] - 1}
        below = fit(make(), None, target)
        assert below.fits is False
        assert below.because.startswith(f"exceeds {memory} by 1 B")
    memory = sram + KEPT.get(make, 0) + flash
    together = fit(make(), None, memory)
    assert (together.fits, together.needs) == (True, {"memory": memory})
    assert not fit(make(), None, memory - 1).fits


def suggestions_of(make, target):
    return {each.name: each for each in fit(make(), None, target).suggestions}


def test_eight_bits():
    """A quarter of every float32 value and weight, by the layout for these sizes; biases keep 4 bytes."""
    found = suggestions_of(chain, "sram=4KB,flash=100KB")["int8"]
    assert (found.fits, found.needs) == (True, {"sram": 2_048, "flash": WEIGHTS[chain] // 4})
    biased = model(node("Gemm", ["x", "w", "b"], ["y"]), x=(1, 64))
    biased.graph.initializer.extend([zeros("w", 64, 32), zeros("b", 32)])
    (whole,) = (each for each in fit(biased, None, "flash=2200B", align=1).suggestions if each.name == "int8")
    assert whole.needs == {"flash": 64 * 32 + 4 * 32}


def test_a_quantized_file_is_not_quantized_again():
    """x of 64 bytes, y of 64, and z of 64: with y and z in one place 128 bytes are enough."""
    net = model(node("Relu", ["x"], ["y"]), node("Relu", ["y"], ["z"]), node("Relu", ["z"], ["r"]), x=(1, 64))
    for value in (*net.graph.input, *net.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.INT8
    found = {each.name: each for each in fit(net, None, "sram=1B", align=1).suggestions}
    assert "int8" not in found
    assert all("int8" not in each.what for each in found.values())


def test_powers_of_two_are_named_where_they_decide():
    """Two tensors of 4 KiB are 8,192 B: 8 KB are 8,000 B here, and 8,192 B on the box of a board."""
    note = "it fits if KB are 1,024 B, as vendors mean them: type '8 KiB sram'"
    assert note in fit(chain(), None, "8 KB sram").notes
    for target in ("8 KiB sram", "7 KB sram", "9 KB sram", {"sram": 8_000}):
        assert not any(note in line for line in fit(chain(), None, target).notes)


@pytest.mark.parametrize(
    ("target", "note"),
    [
        ("8 KB sram", "limit: sram 8 KB = 8,000 B, 8 KiB = 8,192 B"),
        (
            "sram=1.5mb,flash=2MB",
            "limit: sram 1.5 MB = 1,500,000 B, 1.5 MiB = 1,572,864 B; flash 2 MB = 2,000,000 B, 2 MiB = 2,097,152 B",
        ),
        ("9 KB", "limit: 8.789 KiB (9 KB = 9,000 B) - context 0 B"),
        ("1 KiB sram", None),
        ("1 MiB", "limit: 1 MiB - context 0 B"),
        ({"sram": "2 KB"}, "limit: sram 2 KB = 2,000 B, 2 KiB = 2,048 B"),
    ],
)
def test_a_size_with_a_prefix_of_1000_is_said_in_bytes(target, note):
    notes = [line for line in fit(chain(), None, target).notes if line.startswith("limit")]
    assert [line[: len(note or "")] for line in notes] == [note] * bool(note)


def test_a_smaller_image():
    """Two values of 4 * 3 * 16 * 32 bytes; at 8 x 16 they are 4 * 3 * 8 * 16 = 1,536 bytes each."""
    net = model(node("Relu", ["x"], ["y"]), x=(1, 3, "height", "width"))
    found = {each.name: each for each in fit(net, (1, 3, 16, 32), "sram=4000B", align=1).suggestions}
    assert found["image"].options == {"inputs": (1, 3, 8, 16)}
    assert (found["image"].needs["sram"], found["image"].fits) == (2 * 1_536, True)
    assert found["image"].what == "an image of 8 x 16, which the model must be trained for"
    for size, target in (((1, 3, 8, 8), "sram=8B"), ((1, 3, 16, 32), "sram=8B")):
        assert "image" not in {each.name for each in fit(net, size, target, align=1).suggestions}


def test_a_smaller_batch():
    """x and y of 4 * 64 bytes and 4 * 32 bytes a sample: 384 bytes."""
    net = model(node("MatMul", ["x", "w"], ["y"]), x=("batch", 64))
    net.graph.initializer.extend([zeros("w", 64, 32)])
    verdict = fit(net, {"x": (10, 64)}, "sram=2000B", align=1)
    (smaller,) = (each for each in verdict.suggestions if each.name == "batch")
    assert (verdict.needs, smaller.options, smaller.needs) == ({"sram": 3_840}, {"batch": 5}, {"sram": 1_920})
    assert fit(net, {"x": (5, 64)}, "sram=2000B", align=1).fits
    assert not fit(net, {"x": (6, 64)}, "sram=2000B", align=1).fits


def test_sizes_must_be_numbers():
    net = model(node("Relu", ["x"], ["y"]), x=("batch", 64))
    verdict = fit(net, None, "sram=2000B")
    assert (verdict.fits, verdict.needs) == (None, {})
    assert verdict.because == (
        'sizes depend on batch: state numbers, as with --dim batch=1, or dims={"batch": 1} in Python'
    )
    assert fit(net, None, "sram=2000B", dims={"batch": 1}).fits


def mystery(*value_info):
    """x of 4 * 8 numbers, a Relu, an operator that nobody knows, a Relu."""
    nodes = [node("Relu", ["x"], ["a"]), node("Mystery", ["a"], ["b"], domain="my"), node("Relu", ["b"], ["y"])]
    net = model(*nodes, x=(4, 8))
    net.opset_import.append(onnx.helper.make_opsetid("my", 1))
    net.graph.value_info.extend(value_info)
    return net


@pytest.mark.filterwarnings("ignore:no calculator")
def test_an_unknown_operator_with_known_results():
    """Two values of 128 bytes; what the operator takes beside them is not known, which is said."""
    shape = onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [4, 8])
    verdict = fit(mystery(shape), None, "sram=256B")
    assert (verdict.fits, verdict.needs) == (True, {"sram": 256})
    assert "Mystery: only the sizes of the results are known" in verdict.notes
    assert "Mystery: only the sizes of the results" in str(verdict)


@pytest.mark.filterwarnings("ignore:no calculator")
def test_an_unknown_operator_with_unknown_results(tmp_path, capsys):
    verdict = fit(mystery(), None, "sram=1KB")
    assert (verdict.fits, verdict.needs) == (None, {})
    assert verdict.because.endswith("; the sizes of Mystery are unknown")
    path = str(tmp_path / "mystery.onnx")
    onnx.save(mystery(), path)
    assert main(["fit", path, "1 MB", "--format", "json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["fits"], found["needs"], found["because"]) == (None, {}, verdict.because)


def test_the_command(tmp_path, capsys):
    path = str(tmp_path / "chain.onnx")
    onnx.save(chain(), path)
    assert main(["fit", path, "8 KiB sram, 1 MB flash"]) == 0
    assert "fits" in capsys.readouterr().out
    assert main(["fit", path, "sram=8191B,flash=1MB", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["needs"], found["limit"]) == ({"sram": 8_192, "flash": 100_864}, {"sram": 8_191, "flash": 1_000_000})
    assert [each["name"] for each in found["suggestions"] if each["fits"]] == ["inplace+order+int8", "int8", "inplace"]


@pytest.mark.parametrize("step", [{"train": True}, {"optimizer": "adamw"}])
def test_a_file_cannot_be_trained(step):
    verdict = fit(chain(), None, "1 MB", **step)
    assert (verdict.fits, verdict.needs) == (None, {})
    assert verdict.because.startswith("the memory of a training step is known only for PyTorch models")


def test_a_device_without_a_memory_asks_for_it():
    verdict = fit(chain(), None, "cortex-m4-168")
    assert verdict.fits is None
    assert verdict.because.endswith('is unknown: state it instead of the name, as in "256 KB sram, 1 MB flash"')


def test_a_budget_has_sram_and_flash():
    report = estimate(chain())
    assert not check(report, {"total": {"sram": "8 KiB", "flash": 100_864}})
    found = check(report, {"total": {"sram": 8_191, "flash": 100_863}})
    assert [(each.metric, each.value) for each in found] == [("arena", 8_192), ("weights", 100_864)]


def test_a_training_step_of_a_file_is_a_usage_error(tmp_path, capsys):
    path = str(tmp_path / "chain.onnx")
    onnx.save(chain(), path)
    with pytest.raises(SystemExit) as left:
        main(["fit", path, "l4", "--train"])
    assert left.value.code == 2
    assert "is an inference file. Drop --train and --optimizer" in capsys.readouterr().err
