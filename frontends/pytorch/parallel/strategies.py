"""Plans by name or by their parts: how people usually distribute a model that nobody wrote a plan for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from torch.nn import Module

from costcore.errors import CostError
from costcore.messages import unknown

from ..module_walk import modules_of
from .experts import SPLIT, divide_experts, experts_of, split_experts
from .sequence import share_sequence

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


def fully_sharded(model: Module, mesh: Any, blocks: Sequence[Module] | None = None) -> Module:
    """Shard the parameters of a model by ``fully_shard``: those of each of its blocks together, and all others.

    Args:
        model: the copy of the model.
        mesh: the mesh of processes, of one dimension.
        blocks: the blocks; default: those that it repeats.

    Raises:
        CostError: if this PyTorch has no ``fully_shard``.
    """
    for block in repeated(model).blocks if blocks is None else blocks:
        _shard(block, mesh)
    return _shard(model, mesh)


def _shard(module: Module, mesh: Any) -> Any:
    """Shard the parameters of a module: along their first axis, or the second if the first has fewer parts than needed.

    ``fully_shard`` pads the first axis: of one expert among eight processes, all would gather eight.
    """
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise CostError(f"sharding needs fully_shard of PyTorch 2.6 or later: {error}") from error
    from torch.distributed.tensor import Shard

    def placement(parameter: Any) -> Any:
        size, n = [*parameter.shape, 1], mesh.size()
        return Shard(1) if parameter.dim() > 1 and size[0] < n and size[1] % n == 0 else None

    return fully_shard(module, mesh=mesh, shard_placement_fn=placement)


_WHOLE = ("replicated_with_grad_allreduce",)
"""Styles of ``tp_plan`` of modules that every process holds whole."""


def tensor_styles(model: Module) -> dict[str, Any]:
    """Return the styles of ``parallelize_module`` for what a model states as ``tp_plan``, as those of transformers do.

    Styles of experts are left out, see :func:`.experts.split_experts`.

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
    experts = tuple(name for name, style in stated.items() if style == SPLIT)
    kept = {name: style for name, style in stated.items() if style not in _WHOLE and not name.startswith(experts)}
    if wrong := [style for style in kept.values() if style not in styles]:
        raise CostError(f"{type(model).__name__}: {unknown('style of tp_plan', wrong, styles)}")
    return {name: styles[style]() for name, style in kept.items()}


class Layout:
    """A plan of a model with some of its blocks, distributed over a mesh.

    Experts are divided over neighbors of those processes that have tokens of their own, ``fsdp * cp`` of them; what
    is left of these shards the experts, all of them shard everything else.

    Args:
        kinds: the kinds of the blocks that it has, in order; None for the model as it is.
        fsdp: copies over which parameters are sharded.
        tp: processes that share every block.
        cp: processes that share every sequence.
        ep: processes that divide the experts.

    Attributes:
        mesh: the sizes of the mesh.
        expert_parameters: the parameters of experts that a process holds, once the plan was applied.
        blocks: the paths of the blocks that the model has, once the plan was applied.
    """

    def __init__(self, kinds: Sequence[int] | None, fsdp: int = 1, tp: int = 1, cp: int = 1, ep: int = 1) -> None:
        self._kinds = kinds
        self._shards = fsdp > 1
        self._cp = cp
        self._ep = ep
        inner, middle = min(cp, ep), max(cp, ep) // min(cp, ep)
        self.mesh = {"outer": max(fsdp * cp // (inner * middle), 1), "middle": middle, "inner": inner, "tp": tp}
        self.expert_parameters = 0
        self.blocks: list[str] = []

    def __call__(self, model: Module, mesh: Any) -> Module:
        """Change the copy of a model.

        Args:
            model: the copy.
            mesh: the mesh of the sizes :attr:`mesh`.

        Raises:
            CostError: if the model cannot be divided in this way.
        """
        found = repeated(model)
        blocks = found.blocks if self._kinds is None else _leave(found, self._kinds)
        self.blocks = [name for name, module in model.named_modules() if any(module is block for block in blocks)]
        if mesh["tp"].size() > 1:
            from torch.distributed.tensor.parallel import parallelize_module

            parallelize_module(model, mesh["tp"], tensor_styles(model))
            split_experts(model, mesh["tp"])
        if self._ep > 1:
            divide_experts(model, _joined(mesh, "ep", *self._dimensions(self._ep < self._cp)))
        if self._cp > 1:
            share_sequence(blocks, _joined(mesh, "cp", *self._dimensions(self._cp < self._ep)).get_group())
        experts = [*experts_of(model).values()]
        self.expert_parameters = sum(each.numel() for module in experts for each in module.parameters(recurse=False))
        if not self._shards:
            return model
        apart = ("outer", "middle") if self._ep < self._cp else ("outer",)
        for module in experts if self._ep > 1 else ():
            _shard(module, _joined(mesh, "experts", *apart))
        return fully_sharded(model, _joined(mesh, "shards", "outer", "middle", "inner"), blocks)

    @staticmethod
    def _dimensions(is_less: bool) -> tuple[str, ...]:
        return ("inner",) if is_less else ("middle", "inner")


def _leave(found: Repeated, kinds: Sequence[int]) -> list[Module]:
    """Leave blocks of these kinds, in this order, and return them; of a kind with too few blocks, one is copied."""
    container = found.container
    assert container is not None
    by_kind: dict[int, list[Module]] = {}
    for kind, block in zip(_kinds(found.blocks), found.blocks, strict=True):
        by_kind.setdefault(kind, []).append(block)
    waiting = {kind: iter(blocks) for kind, blocks in by_kind.items()}
    chosen = [next(waiting[kind], None) or deepcopy(by_kind[kind][0]) for kind in kinds]
    for name in found.names[len(chosen) :]:
        delattr(container, name)
    names = (*found.names, *map(str, range(len(found.names), len(chosen))))
    for name, block in zip(names, chosen, strict=False):
        setattr(container, name, block)
    return chosen


def _kinds(blocks: Sequence[Module]) -> list[int]:
    """Return the kind of each block: equal numbers for blocks whose parameters have equal names and shapes."""
    known: dict[Any, int] = {}
    shapes = (tuple((name, *each.shape) for name, each in block.named_parameters()) for block in blocks)
    return [known.setdefault(shape, len(known)) for shape in shapes]


def _joined(mesh: Any, name: str, *dimensions: str) -> Any:
    """Return one dimension of several of a mesh, with a name; those of one process are left out."""
    several = tuple(each for each in dimensions if mesh[each].size() > 1) or dimensions[:1]
    return mesh[several[0]] if len(several) == 1 else mesh[several]._flatten(name)


class Distribution:
    """How a model can be distributed; see :class:`costcore.frontend.DistributionOf`.

    Args:
        model: the model.

    Attributes:
        kinds: the kind of each block that it repeats: equal numbers for blocks with equal parameters.
        kind: the name of their class.
        width: whether the model states a plan of tensor parallelism.
        experts: the number of experts that can be divided over devices; 0 without any.
    """

    def __init__(self, model: Module) -> None:
        found = repeated(model).blocks
        self.kinds = tuple(_kinds(found))
        self.kind = type(found[0]).__name__ if found else ""
        self.width = bool(getattr(model, "tp_plan", None))
        self.experts = min((int(each.num_experts) for each in experts_of(model).values()), default=0)

    def plan(self, kinds: Sequence[int] | None, **sizes: int) -> Layout:
        """Return the plan for :func:`costcore.estimate`; arguments as those of :class:`Layout`."""
        return Layout(kinds, **sizes)


def named_plan(name: str) -> Callable[[Module, Any], Module]:
    """Return the plan of a name, one of :data:`STRATEGIES`."""
    return {"fully_sharded": fully_sharded}[name]
