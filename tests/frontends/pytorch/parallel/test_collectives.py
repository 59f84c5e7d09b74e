"""Every collective of ``torch.distributed``, and pipelines and experts that consist of them, in a simulated mesh."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from costcore import ComputationalCostHook, CostError, estimate, estimate_ranks
from tests.frontends.pytorch.differences import NEEDS_REDUCTIONS
from tests.frontends.pytorch.runs import simulated_mesh

from .networks import HEAD, TENSOR_PARALLEL, TOKEN_IDS, TOKENS, Transformer

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated. Please use:FutureWarning")

X, ALL = 4 * 24, 4 * 4 * 24
"""Bytes of 24 elements in float32, and of those of 4 processes."""


def x(size=24):
    return torch.empty(size, device="meta")


def parts():
    return [x() for _ in range(4)]


CALLS = {
    # name: (call, operator, (read, written, sent))
    "all_reduce": (lambda: dist.all_reduce(x()), "all_reduce", (X, X, 2 * X * 3 // 4)),
    "reduce": (lambda: dist.reduce(x(), 0), "reduce_to_root", (X, X, X)),
    "broadcast": (lambda: dist.broadcast(x(), 0), "broadcast", (X, 0, X)),
    "broadcast, received": (lambda: dist.broadcast(x(), 1), "broadcast", (0, X, X)),
    "all_gather": (lambda: dist.all_gather(parts(), x()), "all_gather", (X, ALL, 3 * X)),
    "all_gather_into_tensor": (lambda: dist.all_gather_into_tensor(x(96), x()), "all_gather", (X, ALL, 3 * X)),
    "reduce_scatter": (lambda: dist.reduce_scatter(x(), parts()), "reduce_scatter", (ALL, X, 3 * X)),
    "reduce_scatter_tensor": (lambda: dist.reduce_scatter_tensor(x(), x(96)), "reduce_scatter", (ALL, X, 3 * X)),
    "all_to_all": (lambda: dist.all_to_all(parts(), parts()), "all_to_all", (ALL, ALL, 3 * X)),
    "all_to_all_single": (lambda: dist.all_to_all_single(x(), x()), "all_to_all", (X, X, X * 3 // 4)),
    "gather": (lambda: dist.gather(x(), parts()), "gather_to_root", (X, ALL, 0)),
    "scatter": (lambda: dist.scatter(x(), parts()), "scatter_from_root", (ALL, X, 3 * X)),
    "send": (lambda: dist.send(x(), 1), "send", (X, 0, X)),
    "recv": (lambda: dist.recv(x(), 1), "recv", (0, X, 0)),
    "functional all_reduce": (
        lambda: functional.all_reduce(x(), "sum", dist.group.WORLD),
        "all_reduce",
        (X, X, 2 * X * 3 // 4),
    ),
    "functional broadcast": (lambda: functional.broadcast(x(), 0, dist.group.WORLD), "broadcast", (X, X, X)),
    "functional all_gather": (
        lambda: functional.all_gather_tensor(x(), 0, dist.group.WORLD),
        "all_gather",
        (X, ALL, 3 * X),
    ),
    "functional reduce_scatter": (
        lambda: functional.reduce_scatter_tensor(x(96), "avg", 0, dist.group.WORLD),
        "reduce_scatter",
        (ALL, X, 3 * X),
    ),
    "functional all_to_all": (
        lambda: functional.all_to_all_single(x(), None, None, dist.group.WORLD),
        "all_to_all",
        (X, X, X * 3 // 4),
    ),
    "functional coalesced": (
        lambda: functional.all_reduce_coalesced([x(), x()], "sum", dist.group.WORLD),
        "all_reduce",
        (2 * X, 2 * X, 4 * X * 3 // 4),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_bytes_read_written_and_sent(name):
    call, op, expected = CALLS[name]
    with simulated_mesh({"all": 4}), ComputationalCostHook() as hook:
        call()
    assert hook.report.status == "complete"
    found = [entry for entry in hook.layer_report.values() if entry["op"] == op]
    assert [(entry["mread"], entry["mwrite"], entry.get("mcomm", 0)) for entry in found] == [expected]
    assert found[0]["params"]["group_size"] == 4
    assert found[0]["params"]["group"] == "all"


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("SUM", {"add": 18}),
        pytest.param("AVG", {"add": 18, "div": 6}, marks=NEEDS_REDUCTIONS),
        pytest.param("PRODUCT", {"mul": 18}, marks=NEEDS_REDUCTIONS),
        pytest.param("MAX", {"cmp": 18}, marks=NEEDS_REDUCTIONS),
    ],
)
def test_reductions(reduction, expected):
    """24 elements in a ring of 4: each process combines 6 elements 3 times."""
    with simulated_mesh({"all": 4}), ComputationalCostHook() as hook:
        dist.all_reduce(x(), getattr(dist.ReduceOp, reduction))
    (entry,) = hook.layer_report.values()
    assert entry["operations"] == expected


class Experts(nn.Module):
    """One expert per process: tokens are exchanged before and after it."""

    def __init__(self, group):
        super().__init__()
        self.expert, self.group = nn.Linear(16, 16), group

    def forward(self, x):
        exchanged = functional.all_to_all_single_autograd(x, [8] * 4, [8] * 4, self.group)
        return functional.all_to_all_single_autograd(self.expert(exchanged), [8] * 4, [8] * 4, self.group)


def test_experts_exchange_tokens_twice_each_way():
    """Expert parallelism: 2 + 2 exchanges of 32 tokens of 16 numbers, of which a fourth stays."""
    with simulated_mesh({"ep": 4}) as mesh, torch.device("meta"):
        net = Experts(mesh.get_group("ep"))
        tokens = torch.empty(32, 16, requires_grad=True)
        with ComputationalCostHook() as hook:
            net(tokens).sum().backward()
    found = [(e["phase"], e["mcomm"]) for e in hook.layer_report.values() if e["op"] == "all_to_all"]
    each = 4 * 32 * 16 * 3 // 4
    assert found == [("forward", each), ("forward", each), ("backward", each), ("backward", each)]


WIDTH, MICRO_BATCHES = 16, 4
ACTIVATION = 4 * 2 * WIDTH
"""Bytes of the activations of a micro-batch of 2."""


def pipeline_step(rank, schedule=Schedule1F1B, with_shapes=True):
    """Return the report of a step of a stage of 3, each with two linear layers."""
    with simulated_mesh({"pp": 3}, rank) as mesh, torch.device("meta"):
        layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
        micro_batch = torch.empty(2, WIDTH, requires_grad=True)
        shapes = {"input_args": (micro_batch,), "output_args": (micro_batch,)} if with_shapes else {}
        stage = PipelineStage(layers, rank, 3, torch.device("meta"), group=mesh.get_group("pp"), **shapes)
        run = schedule(stage, MICRO_BATCHES, loss_fn=lambda y, target: (y - target).sum())
        batch = torch.empty(2 * MICRO_BATCHES, WIDTH)
        with ComputationalCostHook() as hook:
            if rank == 0:
                run.step(batch)
            elif rank == 2:
                run.step(target=batch)
            else:
                run.step()
    assert hook.report.status == "complete"
    return hook.report


@pytest.mark.parametrize("schedule", [Schedule1F1B, ScheduleGPipe])
def test_stages_of_a_pipeline_send_activations_and_gradients(schedule):
    """Across each boundary, the activations of every micro-batch and their gradients. The first stage computes no
    gradient of its input: 2 of 3 products of its first layer, backward."""
    reports = [pipeline_step(rank, schedule) for rank in range(3)]
    each = MICRO_BATCHES * ACTIVATION
    assert [report.total_report["mcomm"] for report in reports] == [each, 2 * each, each]
    sent = [r.by("phase").get("backward", {}).get("mcomm", 0) for r in reports]
    assert sent == [0, each, each]  # gradients go to the stage before
    received = [sum(e["mwrite"] for e in r.layer_report.values() if e["op"] == "recv") for r in reports]
    assert received == [each, 2 * each, each]
    product = 2 * MICRO_BATCHES * WIDTH * WIDTH
    assert [report.total_report["macs"] for report in reports] == [5 * product, 6 * product, 6 * product]


def test_all_ranks_add_up_to_the_model_and_what_is_replicated():
    with torch.device("meta"):
        net = Transformer()
    reports = estimate_ranks(net, TOKEN_IDS, mesh={"tp": 4}, plan=TENSOR_PARALLEL)
    assert list(reports) == [0, 1, 2, 3]
    macs = sum(report.total_report["macs"] for report in reports.values())
    assert macs == estimate(net, TOKEN_IDS).total_report["macs"] + 3 * TOKENS * HEAD
    (table,) = reports.to_dict()["tables"]
    keys = ("flops", "macs", "mrw", "mcomm")
    expected = [[rank, *(report.total_report[key] for key in keys)] for rank, report in reports.items()]
    assert [[row[key] for key in ("rank", *keys)] for row in table["rows"]] == expected
    assert list(estimate_ranks(net, TOKEN_IDS, mesh={"tp": 4}, plan=TENSOR_PARALLEL, ranks=(1, -1))) == [1, 3]
    with pytest.raises(TypeError, match="ranks must be a list of ranks"):
        estimate_ranks(net, TOKEN_IDS, mesh={"tp": 4}, plan=TENSOR_PARALLEL, ranks=2)


def test_a_barrier_costs_nothing():
    with simulated_mesh({"all": 4}), ComputationalCostHook() as hook:
        dist.barrier()
    assert [entry["op"] for entry in hook.layer_report.values()] == ["barrier"]
    assert hook.total_report["mrw"] == 0


def test_a_stage_needs_its_shapes():
    ours = r"stage 1 of the pipeline .* PipelineStage\(…, input_args=…, output_args=…\)"
    of_pytorch = r"Stage 1 requires dynamic shape inference.* to the PipelineStage constructor"  # since 2.15
    with pytest.raises((CostError, RuntimeError), match=f"{ours}|{of_pytorch}"):
        pipeline_step(1, with_shapes=False)
