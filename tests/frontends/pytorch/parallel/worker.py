"""One of several real processes: runs a step of the plans that are named, with gloo; the first prints the counts."""

from __future__ import annotations

import json
import sys
from collections import Counter

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module

from costcore import ComputationalCostHook

from .networks import BATCH, LENGTH, TENSOR_PARALLEL, Transformer, data_parallel, fully_sharded

PLANS = {
    "tensor parallel": ({"tp": 2}, lambda model, mesh: parallelize_module(model, mesh, TENSOR_PARALLEL)),
    "fully sharded": ({"dp": 2}, fully_sharded),
    "data parallel": ({"dp": 2}, data_parallel),
}
"""The mesh and the plan of every case."""


def facts(report):
    """Return the totals, and the calls that communicate."""
    amounts = "flops", "macs", "mread", "mwrite", "mcomm", "n_params"
    calls = Counter(
        (e["op"], e["phase"], e["mread"], e["mwrite"], e["mcomm"]) for e in report.layer_report.values() if e["mcomm"]
    )
    listed = sorted([*key, times] for key, times in calls.items())
    return {"total": {key: report.total_report[key] for key in amounts}, "calls": listed, "status": report.status}


def step(model, ids):
    """Return the report of a step, before which there are no gradients."""
    model.zero_grad()
    with ComputationalCostHook() as hook:
        model(ids).sum().backward()
    return hook.report


def main():
    dist.init_process_group("gloo")
    found = {}
    ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    for name in sys.argv[1:]:
        sizes, plan = PLANS[name]
        torch.manual_seed(0)
        model = Transformer()
        mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        model = plan(model, mesh) or model
        for _ in range(2):  # DistributedDataParallel agrees on buckets of its own in the second step
            step(model, ids)
        found[name] = facts(step(model, ids))
    if dist.get_rank() == 0:
        json.dump(found, sys.stdout)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
