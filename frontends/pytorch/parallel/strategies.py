"""Plans by name or by their parts: how people usually distribute a model that nobody wrote a plan for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch.nn import Module

from costcore.errors import CostError
from costcore.messages import unknown

from ..module_walk import modules_of

STRATEGIES = ("fully_sharded",)
"""The plans that have a name."""


class Repeated(NamedTuple):
    """The blocks that a model repeats.

    Attributes:
        container: the module whose children they are; None if there are none.
        names: the names of these children.
    """

    container: Module | None
    names: tuple[str, ...]

    @property
    def blocks(self) -> list[Module]:
        """The blocks."""
        return [] if self.container is None else [self.container.get_submodule(name) for name in self.names]


def repeated(model: Module) -> Repeated:
    """Return the blocks of a model: of the modules with several children of one class, those with most parameters."""
    best, most = Repeated(None, ()), 0
    for module in modules_of(model):
        by_class: dict[type, list[str]] = {}
        for name, child in module.named_children():
            by_class.setdefault(type(child), []).append(name)
        for names in by_class.values():
            found = Repeated(module, tuple(names))
            size = sum(parameter.numel() for child in found.blocks for parameter in child.parameters())
            if len(names) > 1 and size > most:
                best, most = found, size
    return best


def fully_sharded(model: Module, mesh: Any) -> Module:
    """Shard the parameters of a model by ``fully_shard``: those of each of its blocks together, and all others.

    Args:
        model: the copy of the model.
        mesh: the mesh of processes, of one dimension.

    Raises:
        CostError: if this PyTorch has no ``fully_shard``.
    """
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise CostError(f"sharding needs fully_shard of PyTorch 2.6 or later: {error}") from error
    for block in repeated(model).blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def tensor_styles(model: Module) -> dict[str, Any]:
    """Return the styles of ``parallelize_module`` for what a model states as ``tp_plan``, as those of transformers do.

    Raises:
        CostError: if the model has no such plan, or one with an unknown style.
    """
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    styles: Mapping[str, Callable[[], Any]] = {
        "colwise": ColwiseParallel,
        "rowwise": RowwiseParallel,
        "colwise_rep": lambda: ColwiseParallel(output_layouts=Replicate()),
        "colwise_gather_output": lambda: ColwiseParallel(output_layouts=Replicate()),
        "colwise_split_output": lambda: ColwiseParallel(output_layouts=Shard(-1)),
        "embedding_rowwise": lambda: RowwiseParallel(input_layouts=Replicate()),
    }
    stated = getattr(model, "tp_plan", None)
    if not stated:
        raise CostError(f"{type(model).__name__} states no plan of tensor parallelism, an attribute tp_plan")
    if wrong := [style for style in stated.values() if style not in styles]:
        raise CostError(f"{type(model).__name__}: {unknown('style of tp_plan', wrong, styles)}")
    return {name: styles[style]() for name, style in stated.items()}


class Layout:
    """A plan of a model with fewer blocks, divided by tensor parallelism and sharded.

    Args:
        depth: the number of blocks that are left; None for all.
        shards: whether parameters are sharded along the dimension ``dp`` of the mesh.
    """

    def __init__(self, depth: int | None, shards: bool) -> None:
        self.depth = depth
        self.shards = shards

    def __call__(self, model: Module, mesh: Any) -> Module:
        """Change the copy of a model.

        Args:
            model: the copy.
            mesh: a mesh of the dimensions ``dp`` and ``tp``.
        """
        found = repeated(model)
        if found.container is not None and self.depth is not None:
            for name in found.names[self.depth :]:
                delattr(found.container, name)
        if mesh["tp"].size() > 1:
            from torch.distributed.tensor.parallel import parallelize_module

            parallelize_module(model, mesh["tp"], tensor_styles(model))
        return fully_sharded(model, mesh["dp"]) if self.shards else model


class Distribution:
    """How a model can be distributed; see :class:`costcore.frontend.DistributionOf`.

    Args:
        model: the model.

    Attributes:
        blocks: the number of blocks that it repeats; 0 without any.
        kind: the name of their class.
        width: whether the model states a plan of tensor parallelism.
    """

    def __init__(self, model: Module) -> None:
        found = repeated(model).blocks
        self.blocks = len(found)
        self.kind = type(found[0]).__name__ if found else ""
        self.width = bool(getattr(model, "tp_plan", None))

    def plan(self, depth: int | None, shards: bool) -> Layout:
        """Return the plan for :func:`costcore.estimate`; arguments as those of :class:`Layout`."""
        return Layout(depth, shards)


def named_plan(name: str) -> Callable[[Module, Any], Module]:
    """Return the plan of a name, one of :data:`STRATEGIES`."""
    return {"fully_sharded": fully_sharded}[name]
