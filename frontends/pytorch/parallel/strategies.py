"""Plans by name: how people usually distribute a model that nobody wrote a plan for."""

from __future__ import annotations

from typing import Any

from torch.nn import Module

from costcore.errors import CostError

from ..module_walk import modules_of

STRATEGIES = ("fully_sharded",)
"""The plans that have a name."""


def fully_sharded(model: Module, mesh: Any) -> Module:
    """Shard the parameters of a model by ``fully_shard``: those of each of its blocks together, and all others.

    Args:
        model: the copy of the model.
        mesh: the mesh of processes, of one dimension.
    """
    from torch.distributed.fsdp import fully_shard

    for block in blocks_of(model):
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def blocks_of(model: Module) -> list[Module]:
    """Return the blocks that a model repeats: of the modules with several children of one class, the largest such list.

    Children of one class count by their parameters. A model without repeated modules has no blocks.
    """
    best: list[Module] = []
    most = 0
    for module in modules_of(model):
        by_class: dict[type, list[Module]] = {}
        for child in module.children():
            by_class.setdefault(type(child), []).append(child)
        for children in by_class.values():
            size = sum(parameter.numel() for child in children for parameter in child.parameters())
            if len(children) > 1 and size > most:
                best, most = children, size
    return best


def named_plan(name: str) -> Any:
    """Return the plan of a name.

    Raises:
        CostError: if this PyTorch does not have what the plan calls.
    """
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401 - PyTorch 2.6 has it
    except ImportError as error:
        raise CostError(f"fully_sharded needs fully_shard of PyTorch 2.6 or later: {error}") from error
    return {"fully_sharded": fully_sharded}[name]
