"""The plan: how a copy of a model is distributed over a simulated mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch.nn import Module

from costcore.errors import CostError
from costcore.messages import short_repr, unknown
from costcore.trace.recorder import Recorder
from costcore.trace.run import Rank

from ..module_walk import modules_of
from .fully_sharded import check_supported
from .mesh import check_mesh, check_rank, simulated_mesh
from .strategies import STRATEGIES, named_plan

Plan: TypeAlias = "Callable[[Any, Any], Any] | Mapping[str, Any] | str"
"""A function of the model and the mesh, the styles of ``parallelize_module`` by module, or the name of a strategy."""


def check_plan(mesh: object, plan: object, rank: object) -> None:
    """Check the options of a parallel run.

    Raises:
        TypeError, ValueError: if one is invalid, or if one of mesh and plan is there without the other.
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
        recorder: receives the mesh, and how many parameters this process holds.

    Raises:
        CostError: if the plan returns no module; see also :func:`.mesh.simulated_mesh`.
    """
    with simulated_mesh(mesh, rank) as device_mesh:

        def distribute() -> Module:
            made = _applied(plan, model, device_mesh)
            number = check_rank(rank, check_mesh(mesh))
            recorder.rank = Rank(tuple(mesh.items()), number, _local_parameters(made))
            return made

        yield distribute


def _applied(plan: Plan, model: Module, mesh: Any) -> Module:
    """Return what the plan makes of a model; an exception of the plan is the user's own, and passes as it is."""
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
    """Return the number of elements of all parameters that this process holds."""
    parts = {id(parameter): getattr(parameter, "_local_tensor", parameter) for parameter in model.parameters()}
    return sum(int(part.numel()) for part in parts.values())
