"""The simulated mesh: what it refuses, and that nothing of it is left afterwards."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp._fully_shard import _fsdp_init, _fsdp_param_group
from torch.distributed.tensor import _random
from torch.nn.parallel import DistributedDataParallel

from costcore import CostError, estimate

from .networks import TENSOR_PARALLEL, TOKEN_IDS, Transformer, fully_sharded


@pytest.fixture(scope="module")
def net():
    with torch.device("meta"):
        return Transformer()


def state_of_pytorch():
    """Return everything that a simulated mesh replaces, and every process group."""
    kinds = DistributedDataParallel, _fsdp_param_group.FSDPParamGroup, dist.Backend, torch.UntypedStorage
    return (
        *(dict(vars(kind)) for kind in kinds),
        {name: list(devices) for name, devices in dist.Backend.backend_capability.items()},
        {name: value for name, value in vars(dist).items() if callable(value)},
        vars(_fsdp_init)["_get_device_from_mesh"],
        _random._rng_tracker,
        sys.excepthook,
        dist.is_initialized(),
        torch.get_rng_state().tolist(),
    )


def failing(model, mesh):
    raise RuntimeError("no such layer")


@pytest.mark.parametrize("plan", [TENSOR_PARALLEL, fully_sharded, failing])
def test_nothing_is_left_changed(net, plan):
    estimate(net, TOKEN_IDS, mesh={"tp": 2}, plan=TENSOR_PARALLEL)  # registers the backend, as PyTorch does
    before, keys = state_of_pytorch(), set(net.state_dict())
    options = {"mesh": {"tp": 2}, "plan": plan, "optimizer": "sgd", "memory": True}
    if plan is failing:
        with pytest.raises(RuntimeError, match="no such layer"):
            estimate(net, TOKEN_IDS, **options)
    else:
        estimate(net, TOKEN_IDS, **options)
    assert state_of_pytorch() == before
    assert set(net.state_dict()) == keys
    assert type(net) is Transformer
    assert all(type(parameter) is nn.Parameter for parameter in net.parameters())


def test_a_process_group_is_not_replaced(net):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(CostError, match=r"has a process group already.*destroy_process_group\(\) first"):
            estimate(net, TOKEN_IDS, mesh={"tp": 2}, plan=TENSOR_PARALLEL)
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mesh": 8, "plan": failing}, TypeError, r'mesh must be a dict such as {"dp": 2, "tp": 4} \(got 8\)'),
        ({"mesh": {}, "plan": failing}, TypeError, "mesh must be a dict"),
        ({"mesh": {"dp": 2.0}, "plan": failing}, TypeError, "whole numbers of processes"),
        ({"mesh": {"dp": 0}, "plan": failing}, ValueError, "at least one process along 'dp'"),
        ({"mesh": {"dp": 1 << 30}, "plan": failing}, ValueError, "mesh has 1,073,741,824 processes"),
        ({"mesh": {"dp": 2}}, TypeError, r"mesh needs a plan: a function plan\(model, mesh\)"),
        ({"plan": failing}, TypeError, "mesh must be a dict"),
        ({"mesh": {"dp": 2}, "plan": 3}, TypeError, "plan must be a function"),
        ({"mesh": {"dp": 2, "tp": 2}, "plan": {}}, TypeError, "styles by module are for a mesh of one dimension"),
        ({"mesh": {"dp": 2}, "plan": failing, "rank": 2}, ValueError, "rank must be from -2 to 1"),
        ({"mesh": {"dp": 2}, "plan": failing, "rank": True}, TypeError, "rank must be a whole number"),
        ({"mesh": {"dp": 2}, "plan": lambda model, mesh: 3}, CostError, "must return the distributed model"),
    ],
)
def test_invalid_options(net, options, error, message):
    with pytest.raises(error, match=message):
        estimate(net, TOKEN_IDS, **options)
    assert not dist.is_initialized()
