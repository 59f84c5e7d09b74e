"""Plans of a training step of a small transformer on many devices, against captures of each."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from costcore import CostError, estimate, plan
from costcore.registry import ability, specs
from costcore.studies.plan_setups import Choices, Divisible, Mesh, Schedule, meshes
from costcore.studies.training.step import PublishedRun, RunSetup
from tests.command_line import main
from tests.frontends.pytorch.differences import NEEDS_MESH

pytest.importorskip("torch.distributed.fsdp", reason="fully_shard")

pytestmark = [NEEDS_MESH, pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")]

BLOCK = 2 * 64 + 64 * 256 + 256 + 256 * 64 + 64
"""The parameters of a block: norm, up, down."""

HEAD = 64 * 10 + 10


@pytest.fixture(scope="module")
def found(net):
    return plan(net, ("batch", 16, 64), devices=4, device="h100", global_batch=16, memory="502 MiB")


def test_memory_is_that_of_a_capture_of_all_blocks(net, found):
    """On one stage, with and without sharding: the lines through captures of two and four blocks are exact."""
    distribution = ability(specs()["pytorch"], "distribution")(net)
    assert (distribution.kinds, distribution.kind, distribution.width) == ((0,) * 8, "Block", True)
    compared = 0
    for each in (*found.plans, *found.left_out):
        setup = each.setup
        if setup.mesh.pp > 1 or each.memory is None:
            continue
        layout = distribution.plan(None, fsdp=setup.mesh.fsdp, tp=setup.mesh.tp)
        memory = estimate(
            net,
            (setup.micro_batch, 16, 64),
            memory=True,
            optimizer="adamw",
            mesh=layout.mesh,
            plan=layout,
            step="accumulated" if setup.n_micro_batches > 1 else "steady",
            precision=setup.precision,
            checkpoint="Block" if setup.checkpoints else None,
        ).memory
        assert each.memory == pytest.approx(memory.peak + 500 * 2**20, rel=1e-5)
        compared += 1
    assert compared > 10


@pytest.mark.parametrize("sizes", [{}, {"fsdp": 4}, {"tp": 2}, {"fsdp": 2, "tp": 2}], ids=str)
def test_gradients_of_another_capture_save_a_pass(sizes):
    """A capture that begins with them equals one that makes them in a pass of its own, whatever the batch and depth."""
    small = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 128}
    with torch.device("meta"):
        llama = LlamaForCausalLM(LlamaConfig(**small, num_hidden_layers=4, use_cache=False))
    distribution = ability(specs()["pytorch"], "distribution")(llama)

    def captured(depth, batch, gradients=None):
        layout = distribution.plan((0,) * depth, gradients, **sizes)
        how = {"mesh": layout.mesh, "plan": layout, "step": "accumulated", "precision": "bfloat16"}
        report = estimate(llama, {"input_ids": ((batch, 32), "int64")}, memory=True, optimizer="adamw", **how)
        return layout.gradients, report

    known, _ = captured(3, 1)
    assert len(known) == 9 + 3  # of a block; embedding, norm and head
    for depth, batch in ((3, 2), (4, 1)):
        (_, reused), (_, alone) = captured(depth, batch, known), captured(depth, batch)
        assert reused.memory.ledger.live() == alone.memory.ledger.live()
        assert reused.memory.ledger.live("gradient") == alone.memory.ledger.live("gradient")
        for figure in ("flops", "mread", "mwrite", "mcomm"):
            assert reused.total_report.get(figure) == alone.total_report.get(figure)


def test_the_first_capture_allocates_as_later_ones():
    """DTensor infers shapes of a new operator on whole tensors that no device holds."""
    small = {"hidden_size": 88, "intermediate_size": 104, "num_attention_heads": 4, "vocab_size": 136}
    with torch.device("meta"):
        llama = LlamaForCausalLM(LlamaConfig(**small, num_hidden_layers=1, use_cache=False))
    layout = ability(specs()["pytorch"], "distribution")(llama).plan(None, tp=2)
    how = {"memory": True, "backward": True, "mesh": layout.mesh, "plan": layout}
    first, second = (estimate(llama, {"input_ids": ((1, 24), "int64")}, **how).memory.ledger.live() for _ in range(2))
    assert first == second


def test_plans_that_fit_come_first_and_all_are_listed(found):
    times = [each.seconds * (1 + each.bubble) for each in found.plans]
    assert times == sorted(times)
    assert found.best.is_captured
    assert all(each.memory <= 502 * 2**20 for each in found.plans)
    assert all(each.reason for each in found.left_out)
    content = found.to_dict()
    assert len(content["plans"]) == len(found.plans) + len(found.left_out)
    assert {"dp", "fsdp", "tp", "pp", "memory", "sent", "seconds", "reason"} <= content["plans"][0].keys()


def test_the_front(found):
    """No plan of the front is beaten in both figures by any that fits; every other one is."""
    front = found.pareto("seconds", "memory").plans

    def beaten(each):
        point = (each.seconds, each.memory)
        others = {(other.seconds, other.memory) for other in found.plans} - {point}
        return any(a <= point[0] and b <= point[1] for a, b in others)

    assert 0 < len(front) < len(found.plans)
    assert [each for each in found.plans if not beaten(each)] == [*front]
    with pytest.raises(ValueError, match="unknown figure of a plan 'macs'"):
        found.pareto("macs")


def test_bytes_that_are_sent(net):
    """A ring adds the bfloat16 gradients of 4 copies: 2 * 3 / 4 of 2 bytes of every parameter."""
    options = {"devices": 4, "device": "h100", "global_batch": 4, "micro_batches": (1,), "checkpoints": (False,)}
    (copies,) = plan(net, ("batch", 16, 64), meshes=[{"dp": 4}], **options).plans
    assert copies.sent == 3 * (8 * BLOCK + HEAD)
    (sharded,) = plan(net, ("batch", 16, 64), meshes=[{"fsdp": 4}], **options).plans
    assert copies.sent < sharded.sent < 2 * copies.sent  # gathered twice, reduced once
    slow = {"gbs": 1e-3, "latency_us": 0}
    (limited,) = plan(net, ("batch", 16, 64), meshes=[{"dp": 4}], link=slow, **options).plans
    assert limited.binds == "communication"
    assert limited.seconds == pytest.approx(copies.sent / 1e6)


WEIGHTS = 8 * BLOCK + HEAD
"""The parameters of the network."""

MATRICES = 8 * 2 * 64 * 256
"""Those of linear layers in its blocks."""


@pytest.mark.parametrize(
    ("mesh", "options", "per_parameter", "sent"),
    [
        ({"dp": 4}, {}, 16, 4 * 3 / 4),
        ({"dp": 4}, {"zero": (1,)}, 4 + 12 / 4, 4 * 3 / 4),
        ({"dp": 4}, {"zero": (2,)}, 2 + 14 / 4, 2 * (2 + 1) * 3 / 4),
        ({"dp": 4}, {"sync": "each"}, 16, 2 * 4 * 3 / 4),
        ({"dp": 4}, {"zero": (1,), "sync": "each"}, 4 + 12 / 4, 2 * (2 + 1) * 3 / 4),
        ({"fsdp": 4}, {}, 16 / 4, 2 * 2 * (3 * 3 / 4)),
        ({"fsdp": 4}, {"sync": "last"}, 2 + 14 / 4, 2 * (2 * 2 + 1) * 3 / 4),
        ({"dp": 2, "fsdp": 2}, {}, 16 / 2, 2 * 2 * (3 / 2) + 2 * 2 * 2 / 4),
        ({"dp": 2, "fsdp": 2}, {"sync": "last"}, 2 + 14 / 2, 2 * (2 * 2 + 1) / 2 + 2 * 2 / 4),
        # 18 and 6 + 12 / n bytes: docs/source/api-guide/dist_optimizer.md of Megatron-LM, "bf16 param, fp32 grads".
        ({"dp": 4}, {"gradients": "float32"}, 18, 2 * 4 * 3 / 4),
        ({"dp": 4}, {"gradients": "float32", "zero": (1,)}, 6 + 12 / 4, (4 + 2) * 3 / 4),
        ({"fsdp": 4}, {"gradients": "float32"}, 18 / 4, 2 * (2 * 2 + 4) * 3 / 4),
        ({"dp": 4}, {"precisions": ("pure_bfloat16",)}, 8, 4 * 3 / 4),
        ({"dp": 4}, {"precisions": ("fp8",)}, 16 + 2 * MATRICES / WEIGHTS, 4 * 3 / 4),
        ({"dp": 4}, {"offload": ("optimizer",)}, 4, 4 * 3 / 4),
        ({"dp": 4}, {"offload": ("optimizer",), "zero": (2,)}, 2 + 2 / 4, 2 * (2 + 1) * 3 / 4),
    ],
    ids=str,
)
def test_stages_of_zero(net, mesh, options, per_parameter, sent):
    """Two passes: weights and gradients of 2 bytes and 12 bytes of state for each parameter, as in figure 1 of ZeRO.

    Rajbhandari et al. 2020 (arXiv:1910.02054): with 12 bytes of state, 64 devices and 7.5e9 parameters, ZeRO-1, 2 and
    3 need 31.4, 16.6 and 1.9 of 120 GB. Per pass, ``fully_shard`` gathers weights twice and reduces gradients once;
    the head and the last block stay gathered. Gradients that are whole before the last pass are reduced in it alone.
    Among copies of shards, a ring sends 2 (n - 1) / n of half of the gradients.
    """
    options = {"micro_batches": (1,), "checkpoints": (False,), "global_batch": 8 // mesh.get("tp", 1), **options}
    found = plan(net, ("batch", 1, 64), devices=4, device="h100", meshes=[mesh], **options)
    (made,) = found.plans
    assert made.setup.n_micro_batches == 2
    tokens = 500 * 2**20  # the context; the activations of one token are small
    transient = 64 * 256 * 12  # of a weight and its update, in float32, at most
    assert per_parameter * WEIGHTS <= made.memory - tokens < per_parameter * WEIGHTS + 3 * transient
    kept_whole = 0 if "fsdp" not in mesh else 2 * (BLOCK + HEAD) * 2
    assert sent * WEIGHTS - kept_whole <= made.sent <= sent * WEIGHTS
    assert made.sent == sent * WEIGHTS or "fsdp" in mesh
    is_offloaded = "offload" in options
    assert made.host == (0 if not is_offloaded else 2 * WEIGHTS / 4 if "zero" in options else 2 * WEIGHTS)


@pytest.mark.parametrize(
    ("schedule", "bubble", "waiting"),
    [
        ("1f1b", 1 / 8, 1),
        ("gpipe", 1 / 8, 7),
        ("interleaved", 1 / 16, 1.5),  # 2 (1 + 1 / (2 * 2)) passes: Korthikanti et al. 2022, section 4.2.3
        ("interleaved=4", 1 / 32, 1.25),
        ("zb-h1", 1 / 24, 1),  # a third, in the memory of 1F1B: Qi et al. 2023, table 1
        ("zb-h2", 0, 2),
    ],
)
def test_a_pipeline_keeps_the_activations_of_its_passes(net, schedule, bubble, waiting):
    """Two stages of 4 blocks, 8 passes: the first stage keeps what passes saved beside the one that runs."""
    options = {"devices": 2, "device": "h100", "global_batch": 8, "micro_batches": (1,), "checkpoints": (False,)}
    (piped,) = plan(net, ("batch", 1024, 64), meshes=[{"pp": 2}], schedules=(schedule,), **options).plans
    assert piped.bubble == pytest.approx(bubble)
    distribution = ability(specs()["pytorch"], "distribution")(net)
    run = {"memory": True, "optimizer": "adamw", "precision": "bfloat16", "step": "accumulated"}
    layouts = [distribution.plan((0,) * n) for n in (2, 4)]
    memories = [estimate(net, (1, 1024, 64), mesh=each.mesh, plan=each, **run).memory for each in layouts]
    saved = waiting * (memories[1].saved - memories[0].saved) / 2 * 4
    phases = memories[1].phases
    most = max(phases["optimizer"], *(phases[phase] + saved for phase in ("forward", "backward")))
    # The last stage has the head and keeps fewer passes, unless all keep as many.
    head = HEAD * 16 + 2 * 4 if schedule == "1f1b" or schedule.startswith("interleaved") else 0
    assert piped.memory == most - head + 500 * 2**20
    assert str(piped.setup) == ("pp=2" if schedule == "1f1b" else f"pp=2 {Schedule.parse(schedule)}")


X = ("batch", 4096, 64)

STATISTIC = 4
"""Bytes of a mean or deviation that a norm keeps of a token."""

ONE = {"device": "h100", "global_batch": 2, "micro_batches": (1,), "checkpoints": (False,)}
"""Two passes of one sample."""


def test_sequence_parallelism_divides_all_that_blocks_save(net):
    """Of 4,096 tokens a block saves its input and what its norm returns, 64 numbers each, and two statistics, whole.

    The results of ``up`` and of GELU are divided by tp anyhow. Korthikanti et al. 2022 (arXiv:2205.05198, section 4.2).
    """
    options = {**ONE, "devices": 2, "meshes": [{"tp": 2}]}
    ways = {
        each.setup.sequence_parallel: each for each in plan(net, X, sequence_parallel=(False, True), **options).plans
    }
    block = 4096 * (2 * 64 * 2 + 2 * STATISTIC) / 2
    # At the peak, the head and a part of the last block have used theirs.
    assert 7 * block < ways[False].memory - ways[True].memory <= 8 * block
    assert ways[True].sent == ways[False].sent
    (alone,) = plan(net, X, devices=1, meshes=[{"dp": 1}], **ONE).plans
    assert ways[True].seconds == pytest.approx(alone.seconds / 2, rel=1e-3)
    assert ways[True].seconds < ways[False].seconds
    assert str(ways[True].setup) == "tp=2 sp"


def test_activations_in_the_memory_of_the_host(net):
    """Each of 8 blocks saves 2 * 64 + 2 * 256 numbers and two statistics of each token; those of two stay here."""
    options = {**ONE, "devices": 1, "meshes": [{"dp": 1}]}
    link = {"gbs": 1e-3, "latency_us": 0}
    kept, moved = (
        plan(net, X, offload=(where,), host_link=link, **options).plans[0] for where in ("none", "activations")
    )
    block = 4096 * ((2 * 64 + 2 * 256) * 2 + 2 * STATISTIC)
    assert moved.host == 2 * 8 * block
    assert (7 - 2) * block < kept.memory - moved.memory <= (8 - 2) * block
    assert moved.binds == "host" and moved.seconds == pytest.approx(2 * 8 * block / 1e6)
    assert kept.host == 0 and kept.seconds < 0.1
    both = plan(net, X, offload=("activations+optimizer",), **options).plans[0]  # over 16 lanes of PCIe 5
    assert both.host == moved.host + 2 * WEIGHTS
    assert both.setup.offload == ("activations", "optimizer") and len(both.assumed) == 2


def test_modules_to_recompute(net):
    options = {**ONE, "devices": 1, "meshes": [{"dp": 1}]}
    options["checkpoints"] = (False, True, "GELU", "blocks.*.up", "Block(save=addmm)")
    found = plan(net, X, **options)
    ways = {each.setup.checkpoints: each for each in found.plans}
    assert ways[True].memory < ways["Block(save=addmm)"].memory < ways[False].memory
    assert ways["Block(save=addmm)"].seconds < ways[True].seconds
    (left,) = found.left_out
    assert left.setup.checkpoints == "GELU" and "unknown class of modules in checkpoint 'GELU'" in left.reason


def test_a_stage_of_as_many_blocks_as_a_capture_has_times(net):
    """Two stages of 4 blocks: a capture of all blocks of a stage has no times, which those of 4 blocks need."""
    staged, alone, lines = (
        plan(net, X, **{**ONE, "checkpoints": (True,)}, meshes=[mesh], devices=devices, verified=certain)
        for mesh, devices, certain in (({"pp": 2}, 2, 3), ({"dp": 1}, 1, 3), ({"pp": 2}, 2, 0))
    )
    assert staged.best.seconds == pytest.approx(alone.best.seconds / 2) != 0
    assert staged.best.is_captured and not lines.best.is_captured
    assert lines.best.memory == pytest.approx(staged.best.memory)
    assert "memory: extrapolated from captures of 3 and 4 blocks" in str(lines)


def test_of_equal_bounds_the_plan_that_sends_less_is_first(net):
    """Without a link, ZeRO-1 and ZeRO-2 take as long; ZeRO-2 reduces gradients in both passes and needs less memory."""
    first, second = plan(
        net, ("batch", 1, 64), zero=(2, 1), **{**ONE, "global_batch": 8}, devices=4, meshes=[{"dp": 4}]
    ).plans
    assert (first.setup.zero, second.setup.zero) == (1, 2) and first.memory > second.memory
    assert first.seconds == second.seconds


def test_bubbles_of_recomputing_pipelines():
    """Four stages, 8 passes: 3/8 of a pass of 4 units, of which gradients of weights are one or two less in ZB-H1."""
    for text, bubble in (("1f1b", 3 / 8), ("zb-h1", 3 / 8 * 2 / 4), ("zb-h2", 3 / 8 / 4), ("interleaved=3", 1 / 8)):
        assert Schedule.parse(text).bubble(4, 8, recomputes=True) == pytest.approx(bubble)
    assert [Schedule.parse("interleaved").in_flight(stage, 4, 8) for stage in (0, 3)] == [5.5, 2.5]
    for wrong in ("2f2b", "gpipe=2", "interleaved=1", "interleaved=x"):
        with pytest.raises(ValueError, match="schedule"):
            Schedule.parse(wrong)


def test_stages_of_zero_to_try():
    """16 devices in nodes of 4, at most 2 along tp: hybrid copies are shared by a node, or by half of it."""
    found = {str(mesh) for mesh in meshes(16, 4, Divisible(blocks=1, width=True), zero=(1, "hybrid"))}
    assert found == {"dp=16", "dp=4 fsdp=4", "dp=8 tp=2", "dp=4 fsdp=2 tp=2", "dp=4 tp=4"}
    made = Choices(zero=(1, 2, 3)).setups(Mesh(dp=4), 16, 8)
    assert {(each.zero, each.sync) for ways in made for each in ways} == {(1, "last"), (2, "each")}
    (one,) = Choices((1,), (True,), zero=(1, 2)).setups(Mesh(tp=4), 16, 8)
    assert [each.zero for each in one] == [0]
    interleaved = Choices((1,), (True,), schedules=(Schedule("interleaved", 2),))
    assert [len(ways) for ways in interleaved.setups(Mesh(pp=4), 16, 8)] == [1]
    assert [len(ways) for ways in interleaved.setups(Mesh(pp=4), 16, 12)] == [0]  # 12 blocks have no 8 equal parts
    assert [len(ways) for ways in interleaved.setups(Mesh(pp=4), 15, 8)] == [0]


class Residual(nn.Module):
    """A block of a CNN that halves the image and doubles the channels: none can replace another."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.short = nn.Conv2d(channels, 2 * channels, 1, stride=2)

    def forward(self, x):
        return torch.relu(self.conv(x) + self.short(x))


MLP = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))

CNN = nn.Sequential(Residual(4), Residual(8), Residual(16), nn.Flatten(), nn.Linear(32 * 2 * 2, 10))

FLAT = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))


@pytest.mark.parametrize(("model", "sizes"), [(MLP, (784,)), (CNN, (4, 16, 16)), (FLAT, (4, 16, 16))])
def test_models_without_equal_blocks_are_captured_whole(model, sizes):
    """A rank of dp has all weights and 1 / dp of the samples, and reduces all gradients, of 2 bytes, once."""
    found = plan(model, ("batch", *sizes), devices=4, device="h100", global_batch=64, checkpoints=(False,))
    assert {str(each.setup) for each in found.plans} == {"dp=4", "fsdp=4"} and not found.left_out
    weights = sum(each.numel() for each in model.parameters())
    for each in found.plans:
        setup = each.setup
        assert 4 * setup.micro_batch * setup.n_micro_batches == 64
        assert each.is_captured
        if setup.mesh.dp == 4:
            step = {"backward": True, "optimizer": "adamw", "precision": "bfloat16", "step": setup.step}
            alone = estimate(model, (setup.micro_batch, *sizes), memory=True, **step)
            assert each.memory == found.limit.needed(alone.memory.peak)
            assert each.sent == 2 * 3 / 4 * 2 * weights
    assert "memory: every plan was captured whole" in str(found)


def test_what_cannot_run_says_why(net):
    options = {"devices": 8, "device": "h100", "global_batch": 8}
    found = plan(net, ("batch", 16, 64), meshes=[{"tp": 8}, {"dp": 8}], memory="500.1 MiB", **options)
    assert not found.plans
    assert found.best is None
    assert all("memory by" in each.reason for each in found.left_out)
    # Weights, gradients and state of two bytes, two and twelve do not fit, whatever the passes need.
    copies = [each for each in found.left_out if each.setup.mesh.dp == 8]
    assert all(0 <= each.memory_at_least - 500 * 2**20 - 16 * WEIGHTS < 4 * 100 for each in copies)
    assert sum(each.memory is not None for each in found.left_out) == 1  # the least is captured, to show it
    with pytest.raises(CostError, match=r"tp=8: the model repeats no blocks.*, and is planned whole, over dp and fsdp"):
        plan(nn.Linear(4, 4), ("batch", 4), meshes=[{"tp": 8}], **options)
    layers = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    with pytest.raises(CostError, match=r"not with 3 equal blocks in place of its 3 Linear.*--replicas 8$"):
        plan(layers, ("batch", 4), meshes=[{"pp": 8}], **options)
    with pytest.raises(ValueError, match="has 4 devices, not 8"):
        plan(net, ("batch", 16, 64), meshes=[{"dp": 4}], **options)
    with pytest.raises(ValueError, match="unknown dimension of a mesh 'sp'"):
        plan(net, ("batch", 16, 64), meshes=[{"sp": 8}], **options)
    for wrong in (
        *({"zero": (4,)}, {"schedules": ("2f2b",)}, {"sync": "never"}, {"gradients": "float16"}),
        *({"offload": ("weights",)}, {"precisions": ("fp4",)}),
    ):
        with pytest.raises(ValueError, match=r"unknown (stage|schedule|pass|dtype of gradients|part|precision)"):
            plan(net, ("batch", 16, 64), **options, **wrong)
    with pytest.raises(ValueError, match="link of tpu-v4 to its host is unknown"):
        plan(net, ("batch", 16, 64), **{**options, "device": "tpu-v4"}, offload=("optimizer",))
    with pytest.raises(CostError, match="a100-sxm4-80gb has no products in float8"):
        plan(net, X, **{**ONE, "device": "a100"}, devices=1, precisions=("fp8",))
    with pytest.raises(ValueError, match="schedules interleaved"):
        plan(net, ("batch", 16, 64), meshes=[{"pp": 8}], schedules=("interleaved",), **options)
    with pytest.raises(CostError, match="no plan can be captured"):
        plan(net, ("batch", 16, 65), **options)


def test_the_command(path, capsys):
    args = [
        "plan",
        f"{path}:Net",
        "--input",
        "batch,16,64",
        "--devices",
        "4",
        "--device",
        "h100",
        "--global-batch",
        "8",
    ]
    assert main([*args, "--mesh", "dp=4", "--mesh", "dp=2,tp=2", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert {(each["dp"], each["tp"]) for each in content["plans"]} == {(4, 1), (2, 2)}
    assert main([*args, "--mesh", "fsdp=4", "--micro-batch", "1"]) == 0
    assert "fsdp=4" in capsys.readouterr().out
    assert main([*args, "--mesh", "fsdp=4", "--mesh", "dp=4", "--micro-batch", "1", "--pareto", "sent"]) == 0
    assert "fsdp=4" not in capsys.readouterr().out
    assert main([*args, "--mesh", "dp=4", "--zero", "1,2", "--micro-batch", "1"]) == 0
    assert "dp=4 zero=1" in capsys.readouterr().out
    host = ["--mesh", "dp=2,tp=2", "--sequence-parallel", "--offload", "none,optimizer", "--host-link", "pcie4-x16"]
    host += [
        "--checkpoint",
        "Block(save=mm,addmm),none",
        "--precision",
        "pure_bfloat16,model",
        "--gradients",
        "float32",
    ]
    assert main([*args, *host, "--micro-batch", "1", "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)["plans"]
    keys = ("checkpoint", "precision", "sequence_parallel", "gradients")
    found = {(*(each[key] for key in keys), *each["offload"]) for each in made}
    assert len(made) == 8 == len(found)
    assert ("Block(save=mm,addmm)", "pure_bfloat16", True, "float32", "optimizer") in found
    pipes = ["--mesh", "pp=2,dp=2", "--schedule", "interleaved=2", "--sync", "each", "--micro-batch", "1"]
    assert main([*args, *pipes, "--format", "json"]) == 0
    assert {(each["schedule"], each["sync"]) for each in json.loads(capsys.readouterr().out)["plans"]} == {
        ("interleaved=2", "each")
    }
    assert main([*args, "--mesh", "dp=4", "--memory", "500 MiB"]) == 1
    for wrong in (
        ["--mesh", "dp=x"],
        ["--pareto", "macs"],
        ["--micro-batch", "0"],
        ["--micro-batch", "3"],
        ["--device", "h10"],
        ["--zero", "4"],
        ["--schedule", "2f2b"],
        ["--offload", "weights"],
        ["--precision", "fp4"],
        ["--memory", "much"],
    ):
        with pytest.raises(SystemExit) as left:
            main([*args, *wrong])
        assert left.value.code == 2


def test_a_narrow_terminal_shows_memory_and_bound(found):
    lines = str(found).splitlines()
    title = next(line for line in lines if line.startswith("| Mesh"))
    assert [cell.strip() for cell in title.strip("|").split("|")][:3] == ["Mesh", "Memory", "Bound"]


def test_the_model_stays_as_it_is(net):
    before = [name for name, _ in net.named_parameters()]
    plan(net, ("batch", 16, 64), devices=2, device="h100", global_batch=2, meshes=[{"fsdp": 2}], micro_batches=(1,))
    assert [name for name, _ in net.named_parameters()] == before
    assert all(type(parameter) is nn.Parameter for parameter in net.parameters())
    assert net(torch.zeros(1, 2, 64)).shape == (1, 2, 10)


def test_a_cache_of_keys_and_values_is_saved_for_waiting_passes():
    """A model that returns its cache keeps it for the backward pass, too: stages hold the same bytes of each pass."""
    needed = []
    for use_cache in (True, False):
        config = LlamaConfig(
            hidden_size=64, intermediate_size=64, num_hidden_layers=4, vocab_size=100, use_cache=use_cache
        )
        with torch.device("meta"):
            model = LlamaForCausalLM(config)
        ids = {"input_ids": (("batch", 4096), "int64")}
        (made,) = plan(model, ids, devices=2, meshes=[{"pp": 2}], schedules=("gpipe",), **ONE).plans
        needed.append(made.memory)
    assert needed[0] == needed[1]


@pytest.mark.parametrize("near", [2.0, 99.0])
def test_a_language_model_has_the_range_of_published_runs(near, monkeypatch):
    """Two layers of width 64, 4 heads, an output of 100: products of 16 tokens by hand, all pairs of attention.

    No published run is near so small a model: the bound orders plans. If it were, the MFU of runs would, in steps of
    5 %: the middle of their range, the mean of logarithms weighted by 1 / (0.3 + distance).
    """
    setups = [RunSetup(7 * 10**9, 7 * 10**9, 2048, "h100", 8, "bf16", tp=tp) for tp in (1, 2) for _ in range(3)]
    runs = [PublishedRun("7b", setup, 0.3 * setup.tp, "a paper") for setup in setups]
    monkeypatch.setattr("costcore.studies.training.step.published_runs", lambda: runs)
    monkeypatch.setattr("costcore.studies.plans.NEAR", near)
    config = LlamaConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=100
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    meshes = [{"dp": 4}, {"dp": 2, "tp": 2}, {"dp": 2, "pp": 2}]
    ids = {"input_ids": (("batch", 16), "int64")}
    options = {"devices": 4, "device": "h100", "global_batch": 16, "meshes": meshes, "micro_batches": (1,)}
    found = plan(model, ids, **options)
    per_token = 2 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 16 * 64) + 64 * 100
    assert found.run.flops == 3 * 2 * 16 * per_token
    low, high, expected = found.run.expected(found.best.setup, 16)
    ideal = 16 * found.run.flops / (4 * 989.4e12)
    assert low == pytest.approx(ideal / expected.high)
    assert low < high and found.best.seconds < high
    text = str(found)
    assert "Nearest published runs" in text
    content = found.to_dict()
    assert [*content["plans"][0]["expected"]] == [max(low, found.best.seconds), high]
    slow = dataclasses.replace(found.best, seconds=2 * high)
    assert found.expected(slow) is None  # no run did what takes longer
    assert found.expected(dataclasses.replace(slow, seconds=0.99 * high))[0] == 0.99 * high

    def middle(each):
        runs = [(run.mfu, 1 / (0.3 + far)) for run, far in found.run.nearest(each.setup).nearest]
        mean = sum(weight * math.log(mfu) for mfu, weight in runs) / sum(weight for _, weight in runs)
        return ideal / math.exp(mean)

    bounds = [each.seconds * (1 + each.bubble) for each in found.plans]
    keys = [
        (round(math.log(max(middle(each), bound), 1.05)), bound)
        for each, bound in zip(found.plans, bounds, strict=True)
    ]
    by_runs = near == 99.0
    assert keys == sorted(keys) if by_runs else bounds == sorted(bounds)
    assert content["order"] == ("expected" if by_runs else "bound")
    assert ("expected time by published runs" if by_runs else "no published run is near: the nearest has") in text
    assert found.best.setup.mesh.tp == (2 if by_runs else 1)  # which has the larger bound, and published twice the MFU
    if by_runs:  # whether a run is near is the same for all meshes
        monkeypatch.setattr("costcore.studies.plans.NEAR", found.run.distance)
        assert [each.setup for each in plan(model, ids, **options).plans] == [each.setup for each in found.plans]
