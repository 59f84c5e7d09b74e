"""One process of a parallel run without a cluster, against arithmetic from the sizes of a small transformer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from costcore import ComputationalCostHook, check, compare, estimate, table
from tests.frontends.pytorch.runs import simulated_mesh

from .networks import (
    ACTIVATION,
    BLOCK,
    HEAD,
    LAYERS,
    MACS,
    PARAMETERS,
    TENSOR_PARALLEL,
    TOKEN_IDS,
    TOKENS,
    Transformer,
    data_parallel,
    fully_sharded,
    sequence_parallel,
    tensor_parallel_and_sharded,
)

PSI = 4 * PARAMETERS
"""Bytes of all parameters in float32."""

ROOT = 4 * 2 * HEAD
"""Bytes of the parameters outside of blocks, which stay gathered between forward and backward pass."""


@pytest.fixture(scope="module")
def net():
    with torch.device("meta"):
        return Transformer()


def count(net, **options):
    report = estimate(net, TOKEN_IDS, **{"backward": True, **options})
    assert report.status == "complete"
    return report


@pytest.fixture(scope="module")
def single(net):
    return count(net)


@pytest.fixture(scope="module")
def tensor_parallel(net):
    return count(net, mesh={"tp": 8}, plan=TENSOR_PARALLEL)


@pytest.fixture(scope="module")
def sharded(net):
    return count(net, mesh={"dp": 8}, plan=fully_sharded)


def collectives(report, key="mcomm"):
    """Return how often each collective runs in each phase, and the sum of an amount."""
    found = {}
    for entry in report.layer_report.values():
        if entry["mcomm"]:
            name = entry["op"], entry["phase"], entry["params"]["group"]
            calls, amount = found.get(name, (0, 0))
            found[name] = calls + 1, amount + entry[key]
    return found


def macs(report):
    return {phase: sums["macs"] for phase, sums in report.by("phase").items()}


def test_tensor_parallel_divides_blocks_and_replicates_the_rest(single, tensor_parallel):
    head = TOKENS * HEAD
    assert macs(single) == {"forward": MACS, "backward": 2 * MACS}
    assert macs(tensor_parallel)["forward"] == (MACS - head) // 8 + head
    for phase, replicated in (("forward", head), ("backward", 2 * head)):
        assert 8 * macs(tensor_parallel)[phase] - 7 * replicated == macs(single)[phase]


def test_tensor_parallel_reduces_activations(tensor_parallel):
    """Forward, a block reduces the results of two products of rows. Backward, this plan reduces those of all five
    products of columns, one by one; Megatron would add them up before."""
    each = 2 * ACTIVATION * 7 // 8
    assert collectives(tensor_parallel) == {
        ("all_reduce", "forward", "tp"): (2 * LAYERS, 2 * LAYERS * each),
        ("all_reduce", "backward", "tp"): (5 * LAYERS, 5 * LAYERS * each),
    }


def test_sequence_parallel_sends_the_same_bytes_forward(net, tensor_parallel):
    """An all-reduce is a reduce-scatter and an all-gather: 2 of each in a block, but here each of the five products of
    columns gathers its own input. The embedding is divided by rows, and reduced; the head is gathered."""
    report = count(net, backward=False, mesh={"tp": 8}, plan=sequence_parallel)
    found = collectives(report)
    part = ACTIVATION * 7 // 8
    assert found["reduce_scatter", "forward", "tp"] == (2 * LAYERS + 1, (2 * LAYERS + 1) * part)
    gathered = (5 * LAYERS + 1) * part + 4 * TOKENS * 40 * 7 // 8
    assert found["all_gather", "forward", "tp"] == (5 * LAYERS + 2, gathered)
    assert 2 * part == collectives(tensor_parallel)["all_reduce", "forward", "tp"][1] // (2 * LAYERS)


def test_fully_sharded_gathers_and_reduces_three_times_the_parameters(single, sharded):
    """ZeRO-3: parameters are gathered forward and backward, and gradients reduced, 3 PSI less the root group."""
    assert macs(sharded) == macs(single)
    assert collectives(sharded, "mwrite")["all_gather", "forward", "dp"] == (LAYERS + 1, PSI)
    assert collectives(sharded, "mwrite")["all_gather", "backward", "dp"] == (LAYERS, PSI - ROOT)
    assert collectives(sharded, "mread")["reduce_scatter", "backward", "dp"] == (LAYERS + 1, PSI)
    assert len(collectives(sharded)) == 3
    assert sharded.total_report["mcomm"] == (3 * PSI - ROOT) * 7 // 8


def test_data_parallel_reduces_gradients_in_buckets(net, single):
    """ZeRO-1 and data parallelism: 2 PSI. All gradients fit into the first bucket and the second."""
    report = count(net, mesh={"dp": 8}, plan=data_parallel)
    assert collectives(report) == {("all_reduce", "backward", "dp"): (1, 2 * PSI * 7 // 8)}
    assert macs(report) == macs(single)

    def small(model, mesh):
        return nn.parallel.DistributedDataParallel(model, process_group=mesh.get_group(), bucket_cap_mb=BLOCK / 2**18)

    report = count(net, mesh={"dp": 8}, plan=small)
    assert collectives(report)["all_reduce", "backward", "dp"][0] == LAYERS + 1
    assert report.total_report["mcomm"] == 2 * PSI * 7 // 8


@pytest.mark.parametrize(("rank", "moved"), [(0, "mread"), (1, "mwrite")])
def test_data_parallel_copies_buffers_from_the_first_rank(rank, moved):
    """Before a forward pass: 2 statistics of 8 channels in float32, and an integer of 8 bytes."""
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to("meta")
    report = estimate(net, (2, 3, 9, 7), backward=True, mesh={"dp": 4}, plan=data_parallel, rank=rank)
    entries = [entry for entry in report.layer_report.values() if entry["op"] == "broadcast"]
    assert [(entry["phase"], entry[moved], entry["mrw"]) for entry in entries] == [
        ("forward", 64, 64),
        ("forward", 8, 8),
    ]
    assert report.by("op")["all_reduce"]["mcomm"] == 2 * 4 * (8 * 27 + 8 + 16) * 3 // 4


def test_tied_parameters_are_gathered_once():
    """An embedding of 40 x 16 that is also the head, and a linear layer of 16 x 16 between, in a group of its own."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.linear = nn.Embedding(40, 16), nn.Linear(16, 16, bias=False)
            self.head = nn.Linear(16, 40, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids):
            return self.head(self.linear(self.embedding(ids)))

    def plan(model, mesh):
        fully_shard(model.linear, mesh=mesh)
        fully_shard(model, mesh=mesh)

    ids = ((2, 3), torch.int64)
    with torch.device("meta"):
        net = Tied()
    report = estimate(net, ids, backward=True, mesh={"dp": 4}, plan=plan)
    table, linear = 4 * 40 * 16, 4 * 16 * 16
    assert report.total_report["mcomm"] == (2 * table + 3 * linear) * 3 // 4
    assert report.total_report["n_params_rank"] == (40 * 16 + 16 * 16) // 4


def test_hybrid_sharding(net):
    """In 4 of 8 processes parameters are sharded; gradients of a shard are reduced among the 2 that have it."""
    found = collectives(count(net, mesh={"replicate": 2, "shard": 4}, plan=fully_sharded))
    assert found["all_gather", "forward", "shard"] == (LAYERS + 1, PSI * 3 // 4)
    assert found["all_reduce", "backward", "replicate"] == (LAYERS + 1, 2 * (PSI // 4) // 2)


def test_two_dimensions(net):
    """Blocks are divided by 2, and these halves sharded over 4."""
    report = count(net, mesh={"dp": 4, "tp": 2}, plan=tensor_parallel_and_sharded)
    local = 4 * LAYERS * BLOCK // 2 + ROOT
    found = collectives(report)
    assert found["all_gather", "forward", "dp"] == (LAYERS + 1, local * 3 // 4)
    assert found["all_reduce", "forward", "tp"] == (2 * LAYERS, 2 * LAYERS * ACTIVATION)
    assert report.total_report["n_params_rank"] == local // 4 // 4


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_parameter_and_its_shard_count_once(net, optimizer):
    """The model reads whole parameters, the optimizer their shards."""
    total = count(net, mesh={"dp": 8}, plan=fully_sharded, optimizer=optimizer).total_report
    assert total["n_params"] == PARAMETERS


def test_shards_that_are_not_equal():
    """7 rows over 4 processes: 2, 2, 2 and 1 rows of 5, and as many biases. All gather 8 rows."""
    net = nn.Linear(5, 7, device="meta")
    held = [
        estimate(net, (3, 5), mesh={"dp": 4}, plan=fully_sharded_linear, rank=rank).total_report["n_params_rank"]
        for rank in range(4)
    ]
    assert held == [12, 12, 12, 6]
    report = estimate(net, (3, 5), mesh={"dp": 4}, plan=fully_sharded_linear)
    assert collectives(report, "mwrite") == {("all_gather", "forward", "dp"): (1, 4 * 8 * 6)}


def fully_sharded_linear(model, mesh):
    fully_shard(model, mesh=mesh)


def test_memory_of_a_training_step(net):
    """Parameters, gradients and the two moments of Adam are divided by 8; what else is alive at the end is not."""
    whole = estimate(net, TOKEN_IDS, optimizer="adamw", memory=True).total_report
    part = estimate(net, TOKEN_IDS, optimizer="adamw", memory=True, mesh={"dp": 8}, plan=fully_sharded).total_report
    assert whole["live"] - 4 * PSI == part["live"] - 4 * PSI // 8
    assert part["live_peak"] < whole["live_peak"]


@pytest.mark.parametrize(("step", "whole"), [("steady", 0), ("accumulated", 0), ("unsynchronized", PSI)])
def test_sharded_gradients_of_earlier_micro_batches(net, step, whole):
    """``fully_shard`` reduces them in every pass, so that a process holds an eighth, unless it waits for the last pass.

    Before the pass, a process has its shards of the parameters and of two moments, and a number of steps each.
    """
    report = count(net, mesh={"dp": 8}, plan=fully_sharded, optimizer="adamw", step=step, memory=True)
    blocks = [block for block in report.memory.ledger.blocks if block.born == 0]
    sizes = {kind: sum(block.nbytes for block in blocks if block.kind == kind) for kind in ("parameter", "gradient")}
    shards = 0 if step == "steady" else PSI // 8
    assert sizes == {"parameter": PSI // 8, "gradient": whole or shards}


def test_sizes_may_be_names(net):
    """Activations that are reduced grow with the batch, parameters that are gathered do not."""
    ids = {"ids": (("batch", 16), torch.int64)}
    report = estimate(net, ids, backward=True, mesh={"dp": 4, "tp": 2}, plan=tensor_parallel_and_sharded)
    gathered = 3 * (4 * LAYERS * BLOCK // 2 + ROOT) - ROOT
    assert str(report.formula("mcomm")) == f"{7 * LAYERS * ACTIVATION // 2}*batch + {gathered * 3 // 4}"


def test_mixed_precision_halves_what_is_gathered(net):
    """Parameters are gathered in bfloat16, gradients reduced in float32."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

    def plan(model, mesh):
        fully_sharded(model, mesh, mp_policy=policy)

    report = count(net, mesh={"dp": 8}, plan=plan)
    assert report.total_report["mcomm"] == ((2 * PSI - ROOT) // 2 + PSI) * 7 // 8


SENT = 7 * LAYERS * 2 * ACTIVATION * 7 // 8
"""Bytes of the 2 + 5 all-reduces of an activation in every layer among 8 processes, each as a ring."""


def test_bytes_sent_are_limited_compared_and_tabulated(single, tensor_parallel):
    assert tensor_parallel.total_report["mcomm"] == SENT
    assert check(tensor_parallel, {"total": {"mcomm": SENT}}) == []
    (violation,) = check(tensor_parallel, {"operator": {"all_reduce": {"mcomm": SENT - 1}}})
    assert f"operator all_reduce: {SENT:,} bytes sent, limit {SENT - 1:,}, 1 over" in str(violation)
    assert check(single, {"total": {"mcomm": 0}}) == []
    comparison = compare(single, tensor_parallel)
    assert comparison.totals["mcomm"] == (0, SENT)
    assert f"bytes sent: 0 → {SENT:,} (+{SENT:,})" in comparison.summary
    assert "bytes sent" in comparison.to_markdown()
    assert "mcomm" not in compare(single, single).totals
    rows = table({"parallel": tensor_parallel, "single": single}, columns=["mcomm"]).rows
    assert [row.costs["mcomm"] for row in rows] == [SENT, 0]


def test_a_rank_without_a_mesh_is_refused(net):
    with pytest.raises(TypeError, match="rank needs a mesh and a plan"):
        estimate(net, TOKEN_IDS, rank=2)


def test_a_hook_around_a_sharded_step_counts_every_parameter_once(net):
    """The optimizer updates the shards of parameters that the forward pass gathered, which are no others."""
    with simulated_mesh({"dp": 8}) as mesh, torch.device("meta"):
        model = copy.deepcopy(net)
        fully_sharded(model, mesh)
        optimizer = torch.optim.AdamW(model.parameters())
        with ComputationalCostHook() as hook:
            model(torch.zeros(2, 8, dtype=torch.int64)).sum().backward()
            optimizer.step()
    assert hook.total_report["n_params"] == PARAMETERS


def test_accumulation_reduces_gradients_once(net):
    """The last of several micro-batches: those before it do not communicate."""
    report = count(net, mesh={"dp": 8}, plan=data_parallel, optimizer="sgd", step="accumulated")
    assert collectives(report) == {("all_reduce", "backward", "dp"): (1, 2 * PSI * 7 // 8)}


def test_columns_show_bytes_sent_if_there_are_any(sharded, single, capsys):
    sharded.show_summary_report(mode="csv")
    sharded.show_report(mode="csv", columns=["name", "flops", "mread", "mwrite"])
    single.show_summary_report(mode="csv")
    head = [line for line in capsys.readouterr().out.splitlines() if "FLOPs" in line]
    assert ["MemSent" in line for line in head] == [True, False, False]
    assert "mcomm" not in single.total_report
    assert single.formula("mcomm") == 0
