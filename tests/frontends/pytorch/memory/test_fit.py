"""Whether PyTorch models fit: the allocator of the CPU agrees at the answer, and one sample above it."""

from __future__ import annotations

import gc
import json
import re

import pytest
import torch
from torch import nn

from costcore import Tensor, estimate, fit
from tests.command_line import main
from tests.frontends.pytorch.differences import NEEDS_MESH, NEEDS_WORKSPACE

from .batch_networks import NETWORKS, bytes_of, sized
from .profiler import Run, profiled_peaks

NUMBERS = 64
"""Bytes of Python numbers that operators turn into tensors, which no dispatch mode sees."""

SMALL = {"mlp": "6 MiB", "resnet18": "12 MiB", "unet": "8 MiB", "densenet": "6 MiB", "vit": "6 MiB", "gpt2": "6 MiB"}
SMALL |= {"mobilenet": "6 MiB", "bert": "6 MiB", "llama": "6 MiB", "lstm": "6 MiB", "encoder": "4 MiB"}
"""Smaller limits than those of the table, so that runs take little time."""


def tensors(inputs):
    """Return arguments of a model with zeros."""
    if isinstance(inputs, dict):
        return {name: tensors(value)[0] for name, value in inputs.items()}
    if isinstance(inputs, Tensor):
        return [torch.zeros(inputs.shape, dtype=getattr(torch, inputs.dtype))]
    if isinstance(inputs[0], int):
        return [torch.zeros(inputs)]
    return [part for value in inputs for part in tensors(value)]


def held(network, values):
    """Return the bytes of parameters, buffers and inputs, each once."""
    found = {each.data_ptr(): each.nbytes for each in (*network.parameters(), *network.buffers(), *values)}
    return sum(found.values())


def measured(network, inputs, trains):
    """Return the bytes that a run on a CPU has allocated at its peak, with those before it."""
    arguments = tensors(inputs)
    values = [*arguments.values()] if isinstance(arguments, dict) else arguments

    def run():
        with torch.set_grad_enabled(trains):
            y = network(**arguments) if isinstance(arguments, dict) else network(*arguments)
            if not trains:
                return y
            outputs = y if isinstance(y, tuple) else (y,)
            total = sum(each.sum() for each in outputs if each.requires_grad)
            total.backward()
            return y, total

    network.zero_grad()
    peak = profiled_peaks({"run": Run(run, network.zero_grad)})["run"]
    network.zero_grad()
    return peak + held(network, values)


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[NEEDS_WORKSPACE] if n == "lstm" else []) for n in NETWORKS])
def test_the_allocator_agrees_at_the_answer_and_above_it(name, trains):
    make, inputs, limit = NETWORKS[name]
    limit = SMALL.get(name, limit)
    network = make().train(trains)
    verdict = fit(network, inputs, limit, train=trains, context=0)
    assert verdict.fits
    assert verdict.batch
    gc.collect()
    peaks = [measured(network, sized(inputs, verdict.batch + more), trains) for more in (0, 1)]
    assert peaks[0] <= bytes_of(limit) + NUMBERS
    assert peaks[1] > bytes_of(limit)
    assert abs(peaks[0] - verdict.needs["memory"]) <= NUMBERS
    for more, fits in ((0, True), (1, False)):
        found = fit(network, sized(inputs, verdict.batch + more), limit, train=trains, context=0, suggestions=False)
        assert (found.fits, found.batch) == (fits, None)


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.narrow(torch.nn.functional.gelu(self.wide(x)))


def blocks(n=4):
    return nn.Sequential(*(Block() for _ in range(n)))


@NEEDS_MESH
def test_every_remedy_is_what_a_capture_says():
    network, inputs = blocks(2).train(), (256, 64)
    verdict = fit(network, inputs, "1.2 MB", train=True, optimizer="adamw", context=0)
    assert not verdict.fits
    assert verdict.needs == {"memory": estimate(network, inputs, memory=True, optimizer="adamw").memory.peak}
    assert verdict.because.startswith(f"exceeds memory by {(verdict.needs['memory'] - 1_200_000) / 2**20:.3f} MiB;")
    names = [each.name for each in verdict.suggestions]
    assert {"autocast", "fully_sharded"} <= {*names}
    for each in verdict.suggestions:
        options, shape = dict(each.options), inputs
        if "batch" in options:
            shape = (options.pop("batch"), 64)
        memory = estimate(network, shape, memory=True, optimizer="adamw", **options).memory
        assert each.needs == {"memory": memory.peak}
        assert each.fits is (memory.peak <= 1_200_000)
        assert each.needs["memory"] < verdict.needs["memory"]


def test_a_smaller_batch_and_checkpointing():
    """The saved activations of six blocks are most of it; without them a batch of 4,096 fits."""
    network = blocks(6).train()
    verdict = fit(network, (4096, 64), "32 MiB", train=True, context=0)
    found = {each.name: each for each in verdict.suggestions}
    assert (found["checkpoint"].options, found["checkpoint"].fits) == ({"checkpoint": "Block"}, True)
    batch = found["batch"].options["batch"]
    assert fit(network, (batch, 64), "32 MiB", train=True, context=0, suggestions=False).fits
    assert not fit(network, (batch + 1, 64), "32 MiB", train=True, context=0, suggestions=False).fits


@NEEDS_MESH
def test_fewest_devices():
    """Parameters, gradients and moments of 16 layers of 256 * 256 take 16 MiB, a half of that on two devices."""
    network = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(16)))
    verdict = fit(network, (1, 256), "10 MiB", optimizer="sgd_momentum", context=0)
    (sharded,) = (each for each in verdict.suggestions if each.name == "fully_sharded")
    assert sharded.fits
    n = sharded.options["mesh"]["fsdp"]
    options = {"memory": True, "optimizer": "sgd_momentum", "plan": "fully_sharded"}
    peaks = [estimate(network, (1, 256), mesh={"fsdp": size}, **options).memory.peak for size in (n // 2, n)]
    assert peaks[1] <= 10 * 2**20 < peaks[0]


def test_what_cannot_be_tried_says_why():
    class OnlyFloat32(nn.Linear):
        def forward(self, x):
            if self.weight.dtype != torch.float32:
                raise RuntimeError("only float32 is supported here")
            return super().forward(x)

    verdict = fit(OnlyFloat32(64, 64), (1, 64), "10 KB", context=0)
    (half,) = (each for each in verdict.suggestions if each.name == "bfloat16")
    assert (half.needs, half.fits) == ({}, False)
    assert "only float32 is supported here" in half.problem
    assert "only float32 is supported here" in str(verdict)


def test_values_and_weights_in_memories_of_their_own():
    """Linear(64, 32): 64 + 32 values of 4 bytes, and 64 * 32 + 32 weights; as int8 96 bytes and 2,048 + 4 * 32."""
    verdict = fit(nn.Linear(64, 32), (1, 64), "384 B sram, 8319 B flash", align=1)
    assert (verdict.fits, verdict.needs) == (False, {"sram": 384, "flash": 8_320})
    assert verdict.because == "exceeds flash by 1 B"
    (integers,) = (each for each in verdict.suggestions if each.name == "int8")
    assert (integers.fits, integers.needs) == (True, {"sram": 96, "flash": 2_176})
    assert fit(nn.Linear(64, 32), (1, 64), "384 B sram, 8320 B flash", align=1).fits


def test_a_gpu_needs_what_its_allocator_needs():
    report = estimate(nn.Linear(1024, 1024), (64, 1024), memory=True)
    verdict = fit(nn.Linear(1024, 1024), (64, 1024), "l4")
    assert verdict.needs == {"memory": report.memory.allocator("cuda").least_memory + 500 * 2**20}
    assert verdict.peak == report.memory.peak
    assert fit(report, None, "l4").needs == verdict.needs


NET = """
import torch
def make():
    return torch.nn.Linear(1000, 1000)
"""


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "fit_command.py"
    path.write_text(NET)
    return f"{path}:make"


@NEEDS_MESH
def test_the_command(target, capsys):
    """4,004,000 bytes of weights, and 4,000 of input and of output each."""
    assert main(["fit", target, "5 MB", "--input", "1x1000", "--context", "0 B"]) == 0
    assert re.search(r"On 5 MB +fits", capsys.readouterr().out)
    assert main(["fit", target, "4011999", "--input", "1x1000", "--context", "0 B", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False
    assert (found["needs"], found["limit"]) == ({"memory": 4_012_000}, {"memory": 4_011_999})
    assert found["because"].startswith("exceeds memory by 1 B")
    assert {each["name"] for each in found["suggestions"]} == {"bfloat16"}
    assert main(["fit", target, "cortex-m4-168", "--input", "1x1000"]) == 2
    assert main(["fit", target, "5 MB", "--input", "1x10"]) == 2
    assert "operands of linear" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["fit", target, "5 MB", "--input", "batch,1000", "--dim", "batch=4"])
    assert left.value.code == 2
    assert "--dim cannot be used with the pytorch frontend" in capsys.readouterr().err
    assert main(["fit", target, "sram=5MB", "--input", "batch,1000"]) == 2
    assert "sizes depend on batch: state numbers in the shapes of inputs" in capsys.readouterr().out
    assert main(["fit", target, "5 MB"]) == 2
    assert "--input 1x1000" in capsys.readouterr().err
    assert main(["fit", target, "5 MB", "--input", "batch,1000", "--context", "0 B"]) == 0
    assert re.search(r"Largest batch +124", capsys.readouterr().out)  # (5,000,000 - 4,004,000) / 8,000


@pytest.mark.parametrize("aim", ["4000 KB", "5 MB", "h100", "sram=256KB,flash=1MB", "256 KB sram, 8 MB flash"])
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_every_door_says_the_same(target, capsys, aim, trains):
    step = ["--train", "--optimizer", "adamw"] if trains else []
    code = main(["fit", target, aim, "--input", "2x1000", "--format", "json", *step])
    found = json.loads(capsys.readouterr().out)
    verdict = fit(nn.Linear(1000, 1000), (2, 1000), aim, train=trains, optimizer="adamw" if trains else None)
    assert found == json.loads(json.dumps(verdict.to_dict()))
    assert code == {True: 0, False: 1, None: 2}[verdict.fits]
    assert {"fits", "needs", "limit", "because", "suggestions"} <= found.keys()
    for memory, nbytes in found["needs"].items():
        assert (nbytes > found["limit"][memory]) <= (verdict.fits is False)


def test_weights_of_16_bits_are_trained_with_copies_and_moments_of_32():
    """Of n weights 2 bytes each, gradients of 2, and three states of 4: 16 n."""
    network, n = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4))).half(), 4 * (64 * 64 + 64)
    usual = fit(network, (8, 64), "1 GB", optimizer="adamw", context=0)
    assert 16 * n <= usual.peak < 16 * n + 4 * (4 * 4096)  # and what the arithmetic of one weight takes
    assert any("weights in bfloat16, gradients in bfloat16, optimizer states in float32" in x for x in usual.notes)
    as_they_are = fit(network, (8, 64), "1 GB", optimizer="adamw", context=0, precision=None)
    assert as_they_are.peak < 9 * n + 2**14
    assert "weights in float16, gradients in float16, optimizer states in float16" in as_they_are.notes


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.outer(self.inner(x).relu())


@NEEDS_MESH
def test_checkpointing_with_sharding_is_listed_where_it_takes_fewer_devices():
    network, x = nn.Sequential(*(Wide() for _ in range(6))), (256, 64)
    options = {"optimizer": "adamw", "memory": True}
    sharded = {"mesh": {"fsdp": 2}, "plan": "fully_sharded"}
    both = estimate(network, x, **options, **sharded, checkpoint="Wide").memory.peak
    assert both < estimate(network, x, **options, **sharded).memory.peak
    found = fit(network, x, f"{both + 1000} B", optimizer="adamw", context=0).suggestions
    devices = {each.name: each.options["mesh"]["fsdp"] for each in found if each.fits and "mesh" in each.options}
    assert devices["checkpoint+fully_sharded"] == 2


@pytest.mark.parametrize("given", [(8, 64), torch.zeros(8, 64), ((8, 64), torch.float32)])
def test_inputs_follow_the_precision_of_the_model(given):
    """However they are stated, the memory is that of inputs in bfloat16."""
    reports = [estimate(nn.Linear(64, 64), each, precision="bfloat16", memory=True) for each in (given, (8, 64))]
    assert reports[0].memory.peak == reports[1].memory.peak
    assert {*reports[0].by("dtype")} == {"bfloat16"}
