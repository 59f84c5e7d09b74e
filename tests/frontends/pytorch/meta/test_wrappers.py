"""Models wrapped for data-parallel training are estimated as one process computes them."""

from __future__ import annotations

import gc
import inspect

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from costcore import ComputationalCostHook, CostError, estimate
from tests.frontends.pytorch.differences import NEEDS_MESH, MixedPrecisionPolicy, distributed_tensors, fully_shard

pytestmark = [
    pytest.mark.filterwarnings("ignore:FSDP is switching to use `NO_SHARD`"),
    pytest.mark.filterwarnings("ignore:Deallocating Tensor"),  # FullyShardedDataParallel of torch 2.4, without costcore
]

CPU = torch.device("cpu")
MACS = 5 * (8 * 16 + 16 * 16 + 16 * 4)
PARAMETERS = (8 * 16 + 16) + (16 * 16 + 16) + 2 * 16 + (16 * 4 + 4)


@pytest.fixture(scope="module", params=[1, 4], ids=["one process", "one of four processes"])
def processes(request):
    """Start the process group of one process, or of the first of four, whose communication does nothing."""
    if request.param == 1:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=request.param)
    yield request.param
    dist.destroy_process_group()
    gc.collect()  # what warns below while it is freed


def network():
    inner = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16))
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), inner, nn.Linear(16, 4))


def sharded(**options):
    net = network()
    net[2] = FullyShardedDataParallel(net[2], device_id=CPU, **options)
    return FullyShardedDataParallel(net, device_id=CPU, **options)


def fully_sharded(**options):
    net = network()
    fully_shard(net[2], **options)
    return fully_shard(net, **options)


class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


WRAPPED = {
    "DataParallel": lambda: nn.DataParallel(network()),
    "DistributedDataParallel": lambda: DistributedDataParallel(network()),
    "FullyShardedDataParallel": sharded,
    "FullyShardedDataParallel, original parameters": lambda: sharded(use_orig_params=True),
    "fully_shard": fully_sharded,
    "replicate": lambda: replicate(network()),
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", WRAPPED)
def test_the_wrapped_module_is_counted_with_whole_parameters(processes, name, backward):
    plain = estimate(network(), (5, 8), backward=backward).total_report
    assert plain["macs"] == MACS + (2 * MACS - 5 * 8 * 16 if backward else 0)
    for model in (WRAPPED[name](), Outer(WRAPPED[name]())):
        report = estimate(model, (5, 8), backward=backward)
        assert report.total_report == plain
        assert report.total_report["n_params_model"] == PARAMETERS
        noted = [note.partition(":")[0] for note in report.notes]
        assert noted == ([] if name == "DataParallel" else [name.partition(",")[0]])


def test_the_wrapper_is_left_as_it_was(processes):
    model = sharded()
    before = [(name, parameter.shape, parameter.data_ptr()) for name, parameter in model.named_parameters()]
    estimate(model, (5, 8))
    assert [(name, parameter.shape, parameter.data_ptr()) for name, parameter in model.named_parameters()] == before
    assert type(model) is FullyShardedDataParallel
    assert model._handle is not None


def steps(model):
    optimizer = torch.optim.AdamW(model.parameters())
    parameters = [*model.parameters()]

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    def update(model, optimizer, x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step, (update, [model, optimizer, torch.zeros(5, 8)])


@pytest.mark.parametrize("name", WRAPPED)
def test_an_optimizer_of_shards_updates_whole_parameters(processes, name):
    """It refers to the shards of this process. A forward pass leaves the parameters of the root of FSDP2 whole."""
    plain, (update, plain_inputs) = steps(network())
    model = WRAPPED[name]()
    step, (_, inputs) = steps(model)
    expected = estimate(plain, (5, 8)).total_report
    assert estimate(step, (5, 8)).total_report == expected
    model(torch.zeros(5, 8))
    assert estimate(step, (5, 8)).total_report == expected
    assert estimate(update, inputs).total_report == estimate(update, plain_inputs).total_report


@pytest.mark.parametrize("name", ["FullyShardedDataParallel", "fully_shard"])
def test_an_optimizer_of_shards_may_have_a_state(processes, name):
    def stepped(model):
        update, (model, optimizer, x) = steps(model)[1]
        update(model, optimizer, x)
        state = dict(optimizer.state)
        total = estimate(update, [model, optimizer, x]).total_report
        assert [*map(id, optimizer.state)] == [*map(id, state)]
        return total

    assert stepped(WRAPPED[name]()) == stepped(network())


def test_tied_parameters_stay_tied_in_shards(processes):
    def tied():
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        net[2].weight = net[0].weight
        return net

    expected = estimate(tied(), (5, 8)).total_report
    assert expected["n_params"] == 8 * 8 + 8 + 8
    for model in (FullyShardedDataParallel(tied(), device_id=CPU), fully_shard(tied())):
        assert estimate(model, (5, 8)).total_report == expected


@NEEDS_MESH
def test_distributed_tensors_are_counted_as_in_a_run(processes):
    """One process multiplies its rows of the input. In the split layer, it has its rows of the weight."""
    mesh = dist.init_device_mesh("cpu", (processes,))
    rows, whole = [distributed_tensors.Shard(0)], [distributed_tensors.Replicate()]
    distribute = distributed_tensors.distribute_tensor
    weight, x = distribute(torch.zeros(8, 16), mesh, whole), distribute(torch.zeros(8, 8), mesh, rows)
    split = nn.Linear(8, 16, bias=False)
    split.weight = nn.Parameter(distribute(torch.zeros(16, 8), mesh, rows))
    for function, given, noted in (
        (lambda x: x @ weight, x, False),
        (lambda batch: batch["x"] @ weight, {"batch": {"x": x}}, False),
        (split, distribute(torch.zeros(8, 8), mesh, whole), processes > 1),
    ):
        report = estimate(function, given)
        assert report.total_report["macs"] == 8 * 8 * 16 // processes
        assert [note.partition(":")[0] for note in report.notes] == ["DTensor"] * noted


def test_a_collective_draws_no_random_numbers(processes):
    def gathered(x):
        dist.all_reduce(x)
        return x

    assert estimate(gathered, (5, 8)).status == "complete"


def test_a_schedule_of_a_pipeline_runs_a_copy_of_its_stage(processes):
    pipelining = pytest.importorskip("torch.distributed.pipelining")
    if processes > 1 or inspect.signature(pipelining.PipelineStage).parameters["input_args"].default is not None:
        pytest.skip("one stage, whose shapes the first step infers")
    stage = pipelining.PipelineStage(nn.Linear(8, 8), 0, 1, CPU)
    schedule = pipelining.ScheduleGPipe(stage, 2, loss_fn=lambda y, target: (y - target).square().mean())
    target, ones = torch.zeros(4, 8), torch.ones(4, 8)

    def step(x):
        schedule.step(x, target=target)

    report = estimate(step, (4, 8))
    assert stage.submod.weight.grad is None
    with ComputationalCostHook() as hook:
        step(ones)
    for key in ("flops", "macs", "mread", "mwrite"):
        assert report.total_report[key] == hook.total_report[key]
    assert report.by("phase")["backward"]["macs"] == 4 * 8 * 8


def test_data_parallel_of_devices_that_are_not_there_runs():
    model = nn.DataParallel(network())
    model.device_ids = [0, 1]
    assert estimate(model, (5, 8)).total_report["macs"] == MACS


def test_attributes_behind_a_wrapper_are_found(processes):
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.wrapped = FullyShardedDataParallel(network(), device_id=CPU)

        def forward(self, x):
            assert self.wrapped.module is self.wrapped._fsdp_wrapped_module
            assert len(self.wrapped[0].weight) == self.wrapped.__getattr__("0").out_features
            return self.wrapped(x)

    assert estimate(Reads(), (5, 8)).total_report["macs"] == MACS


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("FullyShardedDataParallel", lambda: sharded(mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))),
        ("fully_shard", lambda: fully_sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))),
    ],
)
def test_mixed_precision_is_refused_with_what_to_pass_instead(processes, name, model):
    with pytest.raises(CostError) as caught:
        estimate(model(), (5, 8))
    assert str(caught.value) == (
        f"{name} computes in bfloat16 by its mixed precision; estimate the model before it is wrapped, cast by "
        ".to(torch.bfloat16)"
    )
