"""Two real processes that communicate through gloo count what one simulated process counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from costcore import ComputationalCostHook
from tests.frontends.pytorch.differences import NEEDS_EVENTS_OF_A_CPU, NEEDS_REDUCTIONS
from tests.frontends.pytorch.runs import simulated_mesh

from .networks import BATCH, LENGTH, PARAMETERS, Transformer
from .worker import PLANS, facts

ROOT = Path(__file__).parents[4]


DIVISION = {"fully sharded": 4 * PARAMETERS // 2}
"""Bytes of a shard of the gradients: gloo has no average, so that ``fully_shard`` sums, and divides the shard then."""


MARKS = {"fully sharded": NEEDS_EVENTS_OF_A_CPU, "data parallel": NEEDS_REDUCTIONS}
"""What a plan needs of PyTorch."""

RUNNABLE = [name for name in PLANS if name not in MARKS or not MARKS[name].args[0]]


@pytest.fixture(scope="module")
def measured():
    """Run the steps in two processes, and return what the first of them counted, by plan."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "tests.frontends.pytorch.parallel.worker", *RUNNABLE]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in PLANS])
def test_real_processes_count_the_same(measured, name):
    sizes, plan = PLANS[name]
    with torch.device("meta"):
        model = Transformer()
    ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64, device="meta")
    with simulated_mesh(sizes) as mesh:
        model = plan(model, mesh) or model
        with ComputationalCostHook() as hook:
            model(ids).sum().backward()
    simulated = json.loads(json.dumps(facts(hook.report)))
    assert simulated["status"] == measured[name]["status"] == "complete"
    simulated["total"]["mread"] += DIVISION.get(name, 0)
    simulated["total"]["mwrite"] += DIVISION.get(name, 0)
    assert simulated["total"] == measured[name]["total"]
    assert simulated["calls"] == measured[name]["calls"]
