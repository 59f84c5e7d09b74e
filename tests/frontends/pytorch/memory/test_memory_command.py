"""``costcore memory MODEL --memory SIZE``."""

from __future__ import annotations

import json
import re

import pytest

from costcore import max_batch
from tests.command_line import main

NET = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))

    def forward(self, x):
        return x + self.layers(x)

def make():
    return torch.nn.Sequential(Block(), Block(), Block(), torch.nn.Dropout(), torch.nn.Linear(64, 10))

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 64)
        self.norm = torch.nn.BatchNorm1d(64)

    def forward(self, ids, scale):
        return self.norm(self.words(ids).sum(1)) * scale
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    path = tmp_path_factory.mktemp("nets") / "fit_net.py"
    path.write_text(NET, encoding="utf-8")
    return f"{path}:make"


TRAIN = ("--memory", "8MiB", "--context", "1 MiB", "--optimizer", "adamw", "--global-batch", "2000")


def test_training_is_answered_in_five_lines(target, capsys):
    assert main(["memory", target, "--input", "batch,64", *TRAIN]) == 0
    printed = capsys.readouterr()
    largest, peak, plan, checkpointing, limit = printed.out.splitlines()
    assert printed.err == ""
    fits = r"largest batch: ([\d,]+), which needs [\d.]+ MiB of 8 MiB; [\d,]+ would exceed it by [\d.]+ [KM]iB$"
    batch = _number(re.match(fits, largest)[1])
    assert re.match(r"peak [\d.]+ MiB of tensors, at \S+ \(backward, \S+\): saved for the backward pass ", peak)
    assert re.search(r"; a further sample adds [\d.]+ KiB$", peak)
    plan = re.match(r"global batch 2,000: ([\d,]+) micro-batches of ([\d,]+) and one of ([\d,]+) \(or ", plan)
    steps, micro, last = map(_number, plan.groups())
    assert last < micro < batch
    assert steps * micro + last == 2000
    assert checkpointing.startswith(f"checkpointing 3 Block at batch {batch:,}: peak ")
    assert _number(re.search(r"largest batch ([\d,]+)$", checkpointing)[1]) > batch
    assert limit.startswith("limit: 8 MiB - context 1 MiB - workspace 0 B = 7 MiB for tensors, fragmentation 0 %")
    # 3 blocks of 64 * 256 + 256 + 256 * 64 + 64 = 33,088 and 650 are 99,914 parameters, of 16 bytes 1,598,624; AdamW
    # counts its steps in 14 tensors of 4 bytes: 1,598,680 in the run, 1.52 MiB both.
    assert limit.endswith("rule of thumb: 16 B per parameter, 1.525 MiB (captured 1.525 MiB), without activations")


def _number(text):
    return int(text.replace(",", ""))


def test_json_has_all_figures(target, capsys):
    assert main(["memory", target, "--input", "batch,64", *TRAIN, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["largest"]["batch"] == data["recomputation"]["batch"]
    assert data["rule_of_thumb"] == {
        "per_parameter": 16,
        "parameters": 99_914,
        "measured": 1_598_680,
        "nbytes": 1_598_624,
    }
    assert data["accumulation"]["global_batch"] == 2000
    assert data["largest"]["limit"]["room"] == 7 * 2**20
    assert len(data["lines"]) == 5


def test_a_device_by_name_means_what_fit_means(target, capsys):
    for device, others in (("l4", ()), ("mi300x", ()), ("24 GB", ("--allocator", "tensors"))):
        inputs = ["--input", "batch,64", "--optimizer", "adamw", "--format", "json"]
        assert main(["memory", target, "--memory", device, *inputs, *others]) == 0
        found = json.loads(capsys.readouterr().out)["largest"]
        assert main(["fit", target, device, *inputs]) == 0
        assert found["batch"] == json.loads(capsys.readouterr().out)["batch"], device
        assert found["limit"]["allocator"] == ("cuda" if device == "l4" else "tensors")


def test_no_batch_fits(target, capsys):
    terms = ["--memory", "2MiB", "--context", "1 MiB", "--optimizer", "adamw"]
    assert main(["memory", target, "--input", "batch,64", *terms]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("largest batch: 0: one sample needs 2.")
    assert (
        "1.525 MiB of it for parameters, gradients and state; what helps: an optimizer with less state (up to "
        in lines[0]
    )
    assert lines[0].endswith("a smaller dtype, or sharding")
    assert "a micro-batch of one sample does not fit" in lines[2]
    assert main(["memory", target, "--input", "batch,64", "--memory", "100MiB"]) == 0
    assert "context and workspace alone exceed the limit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--memory", "8G"), 2, '--memory must be an integer or a string such as "100 MiB"'),
        (("--memory", "8GiB", "--context", "x"), 2, "--context must be an integer"),
        (("--memory", "8GiB", "--global-batch", "0"), 2, "global_batch must be at least 1"),
        (("--memory", "8GiB", "--allocator", "gpu"), 2, "invalid choice: 'gpu'"),
        (("--memory", "8GiB", "--input", "nx64"), 2, "--input 'nx64': did you mean n,64?"),
        (("--memory", "8GiB", "--input", "2*64:int64"), 2, "did you mean 2x64:int64?"),
        (("--memory", "8GiB", "--input", "n.64"), 2, "is invalid (expected 1x3x224x224"),
        (("--memory", "8GiB", "--train", "--checkpoint", "Blok"), 2, "unknown class of modules in checkpoint 'Blok'"),
        (("--memory", "8GiB", "--input", "batch,63"), 1, "with a batch of 2"),
        ((), 2, "--memory is missing: run costcore memory"),
    ],
)
def test_mistakes(target, capsys, arguments, code, message):
    given = ["memory", target, *arguments]
    given += [] if "--input" in arguments else ["--input", "batch,64"]
    if code == 2:
        with pytest.raises(SystemExit) as stopped:
            main(given)
        assert stopped.value.code == 2
    else:
        assert main(given) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["fit", "l4"]])
def test_misread_inputs_have_the_fix(target, capsys, command):
    whole = [*command[:1], target, *command[1:]]
    assert main([*whole, "--input", "[2,64]"]) != 0
    assert capsys.readouterr().err.endswith("[2,64] are values; for a shape: --input 2x64\n")
    assert main([*whole, "--seq", "64"]) != 0
    assert "--seq is the input of language models: pass the shape of this one, --input 1x3" in capsys.readouterr().err


def test_inputs_are_required_and_other_models_refused(target, capsys):
    with pytest.raises(SystemExit):
        main(["memory", target, "--memory", "8GiB"])
    assert "--input batch,3,224,224" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["memory", "report.json", "--memory", "8GiB", "--input", "batch,64"])
    assert "is a saved report, and its batch size is fixed" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["memory", "net.onnx", "--memory", "8GiB", "--input", "batch,64"])
    assert "Run costcore net.onnx --arena for the" in capsys.readouterr().err


def test_the_command_and_the_function_agree(target, capsys):
    namespace = {}
    exec(NET, namespace)
    found = max_batch(namespace["make"](), ("batch", 64), "8 MiB", context="1 MiB", optimizer="adamw")
    assert main(["memory", target, "--input", "batch,64", *TRAIN]) == 0
    assert capsys.readouterr().out.startswith(f"largest batch: {found.batch},")


def test_the_memory_may_be_that_of_a_device(target, capsys):
    """An L4 has 24 GB: 24 * 10**9 bytes."""
    command = ["memory", target, "--input", "batch,64", "--allocator", "cuda", "--memory"]
    assert main([*command, "l4"]) == main([*command, "24 GB"]) == 0
    by_name, by_size = capsys.readouterr().out.replace(" (24 GB = 24,000,000,000 B)", "").split("largest batch")[1:]
    assert by_name == by_size
