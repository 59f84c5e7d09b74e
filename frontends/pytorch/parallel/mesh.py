"""A mesh of processes of which only this one exists: its process group communicates with nobody."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

import torch

from costcore.errors import CostError
from costcore.messages import short_repr

from .data_parallel import reduce_in_simulation
from .fully_sharded import shard_on_meta
from .meta_collectives import communicate_on_meta
from .pipeline import run_stages_alone

_RANDOM = "torch.distributed.tensor._random"

MOST_PROCESSES = 1 << 20
"""The largest number of processes of a mesh; PyTorch makes a list of them."""


@contextmanager
def simulated_mesh(sizes: Mapping[str, int], rank: int = 0) -> Iterator[Any]:
    """Make this process one rank of a mesh of processes that do not exist.

    Inside the context, PyTorch distributes models as in a real run (``parallelize_module``, ``fully_shard``,
    ``DistributedDataParallel``), also on the meta device. Collectives return tensors of the right shapes, whose values
    mean nothing. Afterwards there is no process group, and ``torch.distributed`` is as it was before, also after an
    exception::

        with simulated_mesh({"dp": 2, "tp": 4}) as mesh, ComputationalCostHook() as hook:
            parallelize_module(net, mesh["tp"], plan)(torch.empty(1, 128, device="meta"))

    Args:
        sizes: the number of processes along each dimension of the mesh, by name, the outermost first.
        rank: which process this one is; negative numbers count from the last.

    Yields:
        The ``torch.distributed.device_mesh.DeviceMesh``.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if a process group exists already, or this PyTorch has no distributed package.
    """
    world = check_mesh(sizes)
    number = check_rank(rank, world)
    distributed = _distributed()
    if distributed.is_initialized():
        raise CostError(
            "this process has a process group already, so it cannot simulate another. Count the real run with "
            "ComputationalCostHook, or call torch.distributed.destroy_process_group() first."
        )
    with ExitStack() as stack:
        _start(stack, distributed, number, world)
        stack.callback(_restore_random_state, getattr(sys.modules.get(_RANDOM), "_rng_tracker", None))
        mesh = _mesh(distributed, sizes)
        communicate_on_meta(stack)
        shard_on_meta(stack)
        reduce_in_simulation(stack)
        run_stages_alone(stack)
        yield mesh


def check_mesh(sizes: object) -> int:
    """Return the number of processes of a mesh.

    Raises:
        TypeError, ValueError: if it is not a mapping of names to numbers of processes.
    """
    if not isinstance(sizes, Mapping) or not sizes:
        raise TypeError(f'mesh must be a dict such as {{"dp": 2, "tp": 4}} (got {short_repr(sizes)})')
    for name, size in sizes.items():
        if not isinstance(name, str) or isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"mesh must map names to whole numbers of processes (got {name!r}: {short_repr(size)})")
        if size < 1:
            raise ValueError(f"mesh needs at least one process along {name!r} (got {size})")
    world = math.prod(sizes.values())
    if world > MOST_PROCESSES:
        raise ValueError(f"mesh has {world:,} processes (expected at most {MOST_PROCESSES:,})")
    return world


def check_rank(rank: object, world: int) -> int:
    """Return a rank counted from 0.

    Raises:
        TypeError, ValueError: if there is no such rank.
    """
    if isinstance(rank, bool) or not isinstance(rank, int):
        raise TypeError(f"rank must be a whole number (got {short_repr(rank)})")
    if not -world <= rank < world:
        raise ValueError(f"rank must be from {-world} to {world - 1} in a mesh of {world} processes (got {rank})")
    return rank % world


def _distributed() -> Any:
    import torch.distributed as distributed

    if not distributed.is_available():
        raise CostError(f"PyTorch {torch.__version__} was built without torch.distributed, which a mesh needs")
    if find_spec("torch.distributed.tensor._random") is None:
        raise CostError(f"PyTorch {torch.__version__} has no distributed tensors yet, which a mesh needs; 2.5 has them")
    try:
        from torch.testing._internal.distributed import fake_pg  # noqa: F401 - registers the backend
    except ImportError as error:
        raise CostError(
            f"PyTorch {torch.__version__} has no fake process group, which a mesh needs: {error}"
        ) from error
    return distributed


def _start(stack: ExitStack, distributed: Any, rank: int, world: int) -> None:
    """Start the process group, for meta tensors too, until ``stack`` is closed."""
    stack.callback(setattr, sys, "excepthook", sys.excepthook)  # a process group prints its rank with exceptions
    devices = distributed.Backend.backend_capability
    stack.callback(devices.__setitem__, "fake", list(devices["fake"]))
    devices["fake"] = [*devices["fake"], "meta"]
    distributed.init_process_group("fake", store=distributed.HashStore(), rank=rank, world_size=world)
    stack.callback(distributed.destroy_process_group)
    stack.callback(_forget_groups)


def _forget_groups() -> None:
    """Empty the caches in which distributed tensors keep meshes, whose groups no longer exist after a simulation.

    Up to PyTorch 2.9, the mask of an embedding that is divided by rows is in the second, too.
    """
    from torch.distributed.tensor import DTensor, _redistribute

    cached = DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding
    cached = getattr(cached, "cache", cached)  # one for each thread, in most releases
    for each in (cached, getattr(_redistribute, "_gen_transform_infos", None)):
        if each is not None and hasattr(each, "cache_clear"):
            each.cache_clear()


def _mesh(distributed: Any, sizes: Mapping[str, int]) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    for name in sizes:  # a dimension with all processes has the group of all, whose description is another one
        if mesh.get_group(name) is distributed.group.WORLD:
            mesh.get_group(name)._set_group_desc(f"mesh_{name}")
    return mesh


def _restore_random_state(before: object) -> None:
    """Restore the generator of distributed random numbers, which distributed tensors make when they need it first."""
    module = sys.modules.get(_RANDOM)
    if module is not None:
        module._rng_tracker = before  # type: ignore[attr-defined]
