"""The plan: how a copy of a model is distributed over a simulated mesh.

This process is one rank of a mesh without other processes: its fake process group communicates with nobody. The later
sections patch collectives, ``fully_shard``, ``DistributedDataParallel`` and pipeline stages, which would otherwise need
other processes or data.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from types import ModuleType
from typing import Any, NoReturn, TypeAlias

import torch
from torch.nn import Module

from costcore.errors import CostError, short_repr, unknown
from costcore.trace.run import Rank, Recorder

from ..capture.autocast import replace
from ..capture.dispatch_mode import THREAD
from ..meta.values import META
from ..operators.plan import WRITTEN
from ..tensors import modules_of
from .strategies import STRATEGIES, named_plan

Plan: TypeAlias = "Callable[[Any, Any], Any] | Mapping[str, Any] | str"
"""A function of the model and the mesh, the styles of ``parallelize_module`` by module, or the name of a strategy."""


def check_plan(mesh: object, plan: object, rank: object) -> None:
    """Check the options of a parallel run.

    Raises:
        TypeError, ValueError: if one is invalid, or if mesh or plan is missing.
    """
    world = check_mesh(mesh)
    check_rank(rank, world)
    if plan is None:
        raise TypeError("mesh needs a plan: a function plan(model, mesh) that distributes the model")
    if isinstance(plan, str):
        if plan not in STRATEGIES:
            raise ValueError(unknown("plan", plan, STRATEGIES))
    elif not callable(plan) and not isinstance(plan, Mapping):
        raise TypeError(
            f"plan must be a function plan(model, mesh), or styles of parallelize_module by module (got "
            f"{short_repr(plan)})"
        )
    if isinstance(plan, Mapping | str) and isinstance(mesh, Mapping) and len(mesh) > 1:
        what = "a named plan is" if isinstance(plan, str) else "styles by module are"
        raise TypeError(
            f"{what} for a mesh of one dimension (got {', '.join(map(repr, mesh))}); pass a function "
            "plan(model, mesh) that calls parallelize_module(model, mesh[…], styles)"
        )


@contextmanager
def distributed(
    model: Module, mesh: Mapping[str, int], plan: Plan, rank: int, recorder: Recorder
) -> Iterator[Callable[[], Module]]:
    """Simulate a mesh inside the context, and return a function that returns the distributed model.

    Args:
        model: the model, on the meta device; the plan may change it.
        mesh: number of processes along each dimension, by name.
        plan: distributes it.
        rank: which process this one is.
        recorder: receives the mesh, and the number of parameters of this process.

    Raises:
        CostError: if the plan returns no module; see also :func:`simulated_mesh`.
    """
    with simulated_mesh(mesh, rank) as device_mesh:

        def distribute() -> Module:
            made = _applied(plan, model, device_mesh)
            number = check_rank(rank, check_mesh(mesh))
            recorder.rank = Rank(tuple(mesh.items()), number, _local_parameters(made))
            return made

        yield distribute


def _applied(plan: Plan, model: Module, mesh: Any) -> Module:
    # Exceptions of the plan come from the user's code, and are not converted.
    if isinstance(plan, Mapping):
        from torch.distributed.tensor.parallel import parallelize_module

        made = parallelize_module(model, mesh, dict(plan))
    else:
        made = (named_plan(plan) if isinstance(plan, str) else plan)(model, mesh)
    made = model if made is None else made
    if not isinstance(made, Module):
        raise CostError(f"the plan must return the distributed model, or None (got {short_repr(made)})")
    for module in modules_of(made):
        check_supported(module)
    return made


def _local_parameters(model: Module) -> int:
    parts = {id(parameter): getattr(parameter, "_local_tensor", parameter) for parameter in model.parameters()}
    return sum(int(part.numel()) for part in parts.values())


# The simulated mesh


_RANDOM = "torch.distributed.tensor._random"

MOST_PROCESSES = 1 << 20
"""Maximum number of processes of a mesh; PyTorch makes a list of them."""


@contextmanager
def simulated_mesh(sizes: Mapping[str, int], rank: int = 0) -> Iterator[Any]:
    """Make this process one rank of a mesh of processes that do not exist.

    Inside the context, PyTorch distributes models as in a real run (``parallelize_module``, ``fully_shard``,
    ``DistributedDataParallel``), also on the meta device. Collectives return tensors of the right shapes with
    meaningless values. Afterwards, also after an exception, there is no process group, and ``torch.distributed``
    is restored::

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
        raise CostError(
            f"PyTorch {torch.__version__} has no distributed tensors, which a mesh needs; install 2.5 or later"
        )
    try:
        from torch.testing._internal.distributed import fake_pg  # noqa: F401 - registers the backend
    except ImportError as error:
        raise CostError(
            f"PyTorch {torch.__version__} has no fake process group, which a mesh needs: {error}"
        ) from error
    return distributed


def _start(stack: ExitStack, distributed: Any, rank: int, world: int) -> None:
    stack.callback(setattr, sys, "excepthook", sys.excepthook)  # a process group prints its rank with exceptions
    devices = distributed.Backend.backend_capability
    stack.callback(devices.__setitem__, "fake", list(devices["fake"]))
    devices["fake"] = [*devices["fake"], "meta"]
    distributed.init_process_group("fake", store=distributed.HashStore(), rank=rank, world_size=world)
    stack.callback(distributed.destroy_process_group)
    stack.callback(_forget_groups)


def _forget_groups() -> None:
    # Cached meshes would keep groups that no longer exist. Up to PyTorch 2.9, the second cache also has the mask of
    # row-sharded embeddings.
    from torch.distributed.tensor import DTensor, _redistribute

    cached = DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding
    cached = getattr(cached, "cache", cached)  # one for each thread, in most releases
    for each in (cached, getattr(_redistribute, "_gen_transform_infos", None)):
        if each is not None and hasattr(each, "cache_clear"):
            each.cache_clear()


def _mesh(distributed: Any, sizes: Mapping[str, int]) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    for name in sizes:  # a dimension with all processes uses the default group, which is described differently
        if mesh.get_group(name) is distributed.group.WORLD:
            mesh.get_group(name)._set_group_desc(f"mesh_{name}")
    return mesh


def _restore_random_state(before: object) -> None:
    # Restore the generator of distributed tensors, which they make on first use.
    module = sys.modules.get(_RANDOM)
    if module is not None:
        module._rng_tracker = before  # type: ignore[attr-defined]


# Collectives on meta tensors, for releases of PyTorch (before 2.13) that run them on data only


def communicate_on_meta(stack: ExitStack) -> None:
    """Register missing kernels, which call the process group like CPU kernels, until ``stack`` is closed."""
    library = torch.library.Library("c10d", "IMPL")
    stack.callback(library._destroy)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in WRITTEN:
        for overload in _overloads(name):
            if has_kernel(overload.name(), "CPU") and not has_kernel(overload.name(), "Meta"):
                library.impl(overload.name(), _as_on_cpu(overload), "Meta")


def _overloads(name: str) -> list[Any]:
    packet = getattr(torch.ops.c10d, name, None)
    return [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]


def _as_on_cpu(operator: Any) -> Callable[..., Any]:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return partial(operator.redispatch, keys)


# ``fully_shard`` on meta tensors
#
# In four places, it uses the device of the mesh, its streams, or parameters with data. These are patched: on the meta
# device nothing is computed and nothing waits.


_PACKAGE = "torch.distributed.fsdp._fully_shard"

_PARTS = ("_fsdp_collectives", "_fsdp_init", "_fsdp_param", "_fsdp_param_group", "_fsdp_state", "_fully_shard")


class _Stream(torch.cpu.Stream):
    # Nothing runs on this stream, so its events are always complete.
    stream_id = device_index = device_type = 0  # PyTorch 2.15 passes them to an operator that does nothing

    def record_event(self) -> torch.cpu.Event:
        return torch.cpu.Event()

    def wait_event(self, event: object) -> None:
        pass  # PyTorch 2.6 has no such method


class _Device:
    # ``fully_shard`` uses the module of a device (``torch.cuda``); on the meta device nothing waits.
    Stream = _Stream

    def current_stream(self, device: object = None) -> _Stream:
        return _Stream()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


class _Torch:
    # FSDP param groups query the current stream from ``torch`` in one place, not from their device.
    cuda = accelerator = _Device()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def shard_on_meta(stack: ExitStack) -> None:
    """Make ``fully_shard`` run on the meta device until ``stack`` is closed."""
    parts = _modules()
    if not parts:
        return  # this version is organized differently: it raises an error for meta tensors
    for part in parts:
        if hasattr(part, "_get_device_from_mesh"):
            replace(stack, part, "_get_device_from_mesh", lambda mesh: META)
        if hasattr(part, "_get_device_handle"):
            replace(stack, part, "_get_device_handle", lambda device_type="cpu": _Device())
        if hasattr(part, "AllGatherState"):
            replace(stack, part, "torch", _Torch())
    group: Any = next((part.FSDPParamGroup for part in parts if hasattr(part, "FSDPParamGroup")), None)
    if hasattr(group, "_validate_no_meta_params"):
        replace(stack, group, "_validate_no_meta_params", lambda self: None)


def _modules() -> list[ModuleType]:
    try:
        return [import_module(f"{_PACKAGE}.{part}") for part in _PARTS]
    except ImportError:
        return []


def check_supported(module: object) -> None:
    """Check that no module flattens its parameters, which cannot run on meta tensors.

    Raises:
        CostError: for ``FullyShardedDataParallel``.
    """
    if type(module).__name__ == "FullyShardedDataParallel":
        raise CostError("FullyShardedDataParallel needs parameters with data; use fully_shard in the plan instead")


# ``DistributedDataParallel`` without other processes


def reduce_in_simulation(stack: ExitStack) -> None:
    """Make ``DistributedDataParallel`` run without other processes until ``stack`` is closed.

    Its constructor compares the shapes of all processes, and copies parameters from the first. Both are left out,
    because they are not part of a step. Its default all-reduce expects a result that a simulated group does not return;
    a communication hook replaces it.
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
    """Do not reduce gradients inside the context, as training does for all micro-batches but the last.

    Args:
        model: the distributed model.
        shards_too: whether ``fully_shard`` also keeps whole gradients, instead of reducing them to shards.
    """
    from torch.nn.parallel import DistributedDataParallel

    with ExitStack() as stack:
        for module in modules_of(model):
            if isinstance(module, DistributedDataParallel):
                stack.enter_context(module.no_sync())
            elif shards_too and hasattr(module, "set_requires_gradient_sync"):  # a module of ``fully_shard``
                module.set_requires_gradient_sync(False, recurse=False)
                stack.callback(module.set_requires_gradient_sync, True, recurse=False)
        yield


def _do_nothing(*args: Any, **kwargs: Any) -> bool:
    return True


def _with_buckets(initialize: Callable[..., None]) -> Callable[..., None]:
    # The first step has one bucket for all gradients. After it, DistributedDataParallel makes buckets in the order in
    # which gradients were ready, and agrees with the other processes on it. Here, every step has buckets in the reverse
    # order of the parameters.
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
    forward = kind.forward

    @wraps(forward)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._comm_hooks:
            self.register_comm_hook(self.process_group, lambda group, bucket: _all_reduce(group, bucket))
        return forward(self, *args, **kwargs)

    return hooked


def _all_reduce(group: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    # Without a hook, gradients are divided by the number of processes while they are copied to the bucket. Here the
    # reduction scales them, with the same number of operations.
    factor = torch.distributed._make_nccl_premul_sum(1 / group.size())
    torch.distributed.all_reduce(bucket.buffer(), factor, group=group)
    reduced: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    reduced.set_result(bucket.buffer())
    return reduced


# Pipeline stages without neighbors to ask for shapes


GRADIENTS = "of_gradients"
"""The attribute that marks transfers of gradients."""


def run_stages_alone(stack: ExitStack) -> None:
    """Make a stage of a pipeline run without its neighbors until ``stack`` is closed.

    Before its first step, a stage exchanges messages with other stages, to find out whether each stage knows the shapes
    that it receives and sends. These messages are left out, because they are not part of a step; the shapes must be
    stated. Transfers of gradients, which run outside of the backward pass, count as part of it.
    """
    module = sys.modules.get("torch.distributed.pipelining.schedules")  # importing it takes half a second
    schedule: Any = getattr(module, "_PipelineSchedule", None)
    if hasattr(schedule, "_warmup_p2p"):
        replace(stack, schedule, "_warmup_p2p", _begin)
    stages = sys.modules.get("torch.distributed.pipelining.stage")
    stage: Any = getattr(stages, "_PipelineStageBase", None)
    inferring: Any = getattr(stages, "PipelineStage", None)
    if hasattr(inferring, "_shape_inference"):
        replace(stack, inferring, "_shape_inference", _refuse_shape_inference)
        if hasattr(stage, "_get_init_p2p_neighbors_ops"):
            replace(stack, stage, "_get_init_p2p_neighbors_ops", lambda _stage: [])
    names = ("get_bwd_send_ops", "get_bwd_recv_ops")
    if module is not None and hasattr(module, "_batch_p2p") and all(hasattr(stage, name) for name in names):
        for name in names:
            replace(stack, stage, name, _marking(getattr(stage, name)))
        replace(stack, module, "_batch_p2p", _in_phases(module._batch_p2p))


def _begin(schedule: Any, stages: list[Any], has_backward: bool, p2p_done: bool) -> None:
    from torch.distributed.pipelining._utils import InferenceMode

    for stage in stages:
        if InferenceMode.needs_dynamic(stage._user_meta, has_backward):
            _refuse_shape_inference(stage)
        stage._inference_mode = InferenceMode.STATIC


def _refuse_shape_inference(stage: Any, *_arguments: Any) -> NoReturn:
    raise CostError(
        f"stage {stage.stage_index} of the pipeline has no neighbors in a simulated mesh. Pass the shapes that it "
        "receives and sends: PipelineStage(…, input_args=…, output_args=…)"
    )


def _marking(transfers_of: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    @wraps(transfers_of)
    def marked(*args: Any, **kwargs: Any) -> list[Any]:
        transfers = transfers_of(*args, **kwargs)
        for transfer in transfers:
            setattr(transfer, GRADIENTS, True)
        return transfers

    return marked


def _in_phases(transfer: Callable[..., Any]) -> Callable[..., Any]:
    # ``transfer`` returns a list of works to wait for; until PyTorch 2.6, only the last work.
    @wraps(transfer)
    def transferred(transfers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        works: Any = []
        for of_gradients, some in groupby(transfers, lambda each: hasattr(each, GRADIENTS)):
            with _in_backward(of_gradients):
                made = transfer([*some], *args, **kwargs)
                works = [*works, *made] if isinstance(made, list) else made
        return works

    return transferred


@contextmanager
def _in_backward(of_gradients: bool) -> Iterator[None]:
    # Transfers of gradients belong to the backward pass.
    mode = THREAD.mode
    if mode is None or not of_gradients:
        yield
        return
    locator = mode.recording.locator
    before, locator.outside = locator.outside, "backward"
    try:
        yield
    finally:
        locator.outside = before
