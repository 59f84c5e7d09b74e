"""What keeps ``DistributedDataParallel`` from running in a simulated mesh: messages that nobody answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch.nn import Module

from ..capture.replacement import replace
from ..module_walk import modules_of


def reduce_in_simulation(stack: ExitStack) -> None:
    """Let ``DistributedDataParallel`` run without other processes until ``stack`` is closed.

    Its constructor compares the shapes of all processes and copies parameters from the first, which is not part of a
    step: both are left out. Its default all-reduce expects the tensor back, which a simulated group does not return: it
    is made by a hook of its own.
    """
    from torch.nn.parallel import distributed

    for name in ("_verify_param_shape_across_processes", "_sync_module_states"):
        if hasattr(distributed, name):
            replace(stack, distributed, name, _do_nothing)
    initialize = distributed.DistributedDataParallel._ddp_init_helper
    replace(stack, distributed.DistributedDataParallel, "_ddp_init_helper", _with_buckets(initialize))
    replace(stack, distributed.DistributedDataParallel, "forward", _with_hook(distributed.DistributedDataParallel))


@contextmanager
def unsynchronized(model: Module, shards_too: bool) -> Iterator[None]:
    """Keep gradients to this process inside the context, as training does for all micro-batches but the last.

    Args:
        model: the distributed model.
        shards_too: whether ``fully_shard`` keeps them, too. It would reduce them, so that only shards are held.
    """
    from torch.distributed.fsdp import FSDPModule
    from torch.nn.parallel import DistributedDataParallel

    with ExitStack() as stack:
        for module in modules_of(model):
            if isinstance(module, DistributedDataParallel):
                stack.enter_context(module.no_sync())
            elif shards_too and isinstance(module, FSDPModule):
                module.set_requires_gradient_sync(False, recurse=False)
                stack.callback(module.set_requires_gradient_sync, True, recurse=False)
        yield


def _do_nothing(*args: Any, **kwargs: Any) -> bool:
    return True


def _with_buckets(initialize: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor of the reducer, which divides gradients into buckets as every step but the first does.

    The first step has one bucket for all gradients. After it, DistributedDataParallel makes buckets in the order in
    which gradients were ready, for which it asks the other processes. Here it is the reverse order of the parameters.
    """

    @wraps(initialize)
    def initialized(self: Any, *args: Any, **kwargs: Any) -> None:
        package = torch.distributed
        assign = package._compute_bucket_assignment_by_size
        limits = [min(package._DEFAULT_FIRST_BUCKET_BYTES, self.bucket_bytes_cap), self.bucket_bytes_cap]

        def assigned(parameters: list[Any], *_: Any) -> tuple[list[list[int]], list[int]]:
            last = len(parameters) - 1
            buckets, sizes = assign([*reversed(parameters)], limits)
            return [[last - i for i in bucket] for bucket in reversed(buckets)], [*reversed(sizes)]

        with ExitStack() as stack:
            replace(stack, package, "_compute_bucket_assignment_by_size", assigned)
            initialize(self, *args, **kwargs)

    return initialized


def _with_hook(kind: Any) -> Callable[..., Any]:
    """Return the forward pass of a class, before which an instance without a hook gets one."""
    forward = kind.forward

    @wraps(forward)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._comm_hooks:
            self.register_comm_hook(self.process_group, lambda group, bucket: _all_reduce(group, bucket))
        return forward(self, *args, **kwargs)

    return hooked


def _all_reduce(group: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    """Sum a bucket.

    Without a hook, gradients are divided by the number of processes while they are copied to the bucket. Here the
    reduction multiplies them, which is as many operations.
    """
    factor = torch.distributed._make_nccl_premul_sum(1 / group.size())
    torch.distributed.all_reduce(bucket.buffer(), factor, group=group)
    reduced: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    reduced.set_result(bucket.buffer())
    return reduced
