"""``--mesh``, ``--plan``, ``--checkpoint`` and ``--precision`` count what the options of ``estimate`` count."""

from __future__ import annotations

import json

import pytest

from costcore import estimate
from tests.command_line import main
from tests.frontends.pytorch.differences import HAS_MESH

NETS = """
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.fc(x).relu()

def make():
    return nn.Sequential(Block(), Block())

def linear():
    return nn.Sequential(nn.Linear(8, 8))

def split(model, mesh):
    parallelize_module(model[0], mesh["tp"], ColwiseParallel())
"""


@pytest.fixture
def nets(tmp_path):
    path = tmp_path / "nets.py"
    path.write_text(NETS)
    return path


def macs(*args) -> int:
    saved = args[0].parent / "report.json"
    assert main([f"{args[0]}:{args[1]}", *args[2:], "--output", str(saved)]) == 0
    return json.loads(saved.read_text())["total"]["macs"]


def test_checkpointed_modules_run_twice_in_a_step(nets):
    """Forward, recomputation, and two products of the backward pass, but the input's gradient of the first block:
    4 rows of 8 by 8, in 2 blocks, four times, less one."""
    once = 4 * 8 * 8
    options = ("--input", "4x8", "--train", "--checkpoint", "Block")
    assert (
        macs(nets, "make", *options)
        == estimate(f"{nets}:make", (4, 8), backward=True, checkpoint="Block").total_report["macs"]
    )
    assert macs(nets, "make", *options) - macs(nets, "make", "--input", "4x8", "--train") == 2 * once


@pytest.mark.skipif(not HAS_MESH, reason="no simulated mesh in this release")
def test_a_plan_of_a_file_distributes_the_model(nets):
    """Half of the 8 output features on each of two processes: 4 rows, 8 by 4."""
    assert macs(nets, "linear", "--input", "4x8", "--mesh", "tp=2", "--plan", f"{nets}:split") == 4 * 8 * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mesh", "tp=2"], "--mesh and --plan need each other"),
        (["--plan", "fully_sharded"], "--mesh and --plan need each other"),
        (["--mesh", "tp", "--plan", "fully_sharded"], "--mesh 'tp' is invalid (expected sizes by dimension"),
        (["--mesh", "tp=2", "--plan", "missing.py:plan"], "missing.py cannot be read"),
    ],
)
def test_mistakes(nets, options, message, capsys):
    try:
        code = main([f"{nets}:make", "--input", "4x8", *options])
    except SystemExit as left:
        code = left.code
    assert code in (1, 2) and message in capsys.readouterr().err


@pytest.mark.skipif(not HAS_MESH, reason="no simulated mesh in this release")
def test_a_named_plan_and_precision(nets, capsys):
    options = ["--mesh", "dp=2", "--plan", "fully_sharded", "--precision", "bfloat16", "--by", "run"]
    assert main([f"{nets}:make", "--input", "4x8", *options, "--columns", "mcomm", "--format", "csv"]) == 0
    assert "rank 0 of the mesh dp=2" in capsys.readouterr().err
