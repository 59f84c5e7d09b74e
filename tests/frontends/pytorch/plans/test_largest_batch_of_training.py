"""The largest batch per rank of ``costcore train``: captures say that it fits, and that the next one does not."""

from __future__ import annotations

import json

import pytest

from costcore import TrainingLedger, estimate
from tests.command_line import main
from tests.frontends.pytorch.differences import NEEDS_MESH

pytest.importorskip("torch.distributed.fsdp", reason="fully_shard")

pytestmark = [NEEDS_MESH, pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")]

MEMORY = 8 * 10**6
CONTEXT = 500 * 2**20


@pytest.mark.parametrize("checkpoint", [None, "Block"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_the_batch_fits_and_the_next_one_does_not(net, checkpoint, accumulation):
    options = {"optimizer": "adamw", "checkpoint": checkpoint, "mesh": {"dp": 2}, "plan": "fully_sharded"}
    ledger = TrainingLedger()
    terms = {"device_memory": MEMORY, "context": 0, "accumulation": accumulation}
    stage = ledger.add("training", net, ("batch", 16, 64), **terms, **options)
    step = "accumulated" if accumulation > 1 else "steady"
    batch = stage.largest.batch
    peaks = [estimate(net, (n, 16, 64), memory=True, step=step, **options).memory.peak for n in (batch, batch + 1)]
    assert peaks[0] == stage.largest.peak <= MEMORY < peaks[1] == stage.largest.next_peak
    assert stage.tokens == accumulation * batch  # samples: the network has no embedding


def test_the_command(path, capsys):
    args = ["train", f"{path}:Net", "--input", "batch,16,64", "--optimizer", "adamw", "--mesh", "dp=2", "--plan"]
    args += ["fully_sharded", "--checkpoint", "Block"]
    assert main([*args, "--memory", f"{CONTEXT + MEMORY} B", "--format", "json"]) == 0
    (stage,) = json.loads(capsys.readouterr().out)["stages"]
    found = stage["largest_batch"]
    assert found["needed"] <= found["limit"]["memory"] == CONTEXT + MEMORY < found["next_peak"] + CONTEXT
    assert main([*args, "--memory", "500.1 MiB"]) == 1
    assert "not even the smallest batch fits" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["train", f"{path}:Net", "--input", "1,16,64", "--memory", "1 GB"])
    assert left.value.code == 2
