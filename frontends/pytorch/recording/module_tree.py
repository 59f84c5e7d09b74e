"""The tree of a model's modules, with the parameters and buffers that each holds."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from torch.nn import Module as TorchModule
from torch.nn import Parameter
from torch.nn.parameter import is_lazy

from costcore.trace.call import Module, qualified_bases

from ..module_walk import join, walk
from .identity import Identities

_bases: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()
"""The qualified names of a class of modules and its base classes."""


def _bases_of(kind: type) -> tuple[str, ...]:
    bases = _bases.get(kind)
    if bases is None:
        bases = _bases[kind] = qualified_bases(kind, TorchModule)
    return bases


def module_tree(model: TorchModule, identities: Identities, prefix: str = "") -> dict[str, Module]:
    """Return the modules of ``model`` by path, below ``prefix`` if there are several models, in its order."""
    tree: dict[str, Module] = {}
    paths: dict[int, str] = {}
    bases_of: dict[type, tuple[str, ...]] = {}
    sizes, new = identities.sizes, tuple.__new__
    entries = walk(model)
    if prefix:
        entries = ((join(prefix, below), module, is_first) for below, module, is_first in entries)
    for path, module, is_first in entries:
        kind = type(module)
        bases = bases_of.get(kind)
        if bases is None:
            bases = bases_of[kind] = _bases_of(kind)
        fields = module.__dict__  # PyTorch's own lookup of an attribute takes as long as all the rest
        has_int = type(fields.get("kernel_size")) is int
        if not is_first:
            tree[path] = new(Module, (kind.__name__, (), (), 0, paths[id(module)], bases, (), has_int))
            continue
        paths[id(module)] = path
        parameters, stored = fields.get("_parameters"), fields.get("_buffers")
        if parameters is None or stored is None:  # a traced module looks them up elsewhere
            parameters, stored = module._parameters, module._buffers
        if not parameters and not stored:
            tree[path] = new(Module, (kind.__name__, (), (), 0, "", bases, (), has_int))
            continue
        is_trained: dict[int, bool] = {}
        own = []
        for name, parameter in parameters.items():
            plain = type(parameter) is Parameter
            if parameter is None or (not plain and is_lazy(parameter)):
                continue
            identity = identities.parameter_of(parameter if plain else _local(parameter, identities))
            is_trained[identity] = is_trained.get(identity, True) and parameter.requires_grad
            own.append((name, sizes[identity] if identity else parameter.numel()))
        frozen = tuple([identity for identity, trained in is_trained.items() if not trained])
        buffers = [x.numel() for x in stored.values() if x is not None and not is_lazy(x)]
        entry = kind.__name__, tuple(is_trained), frozen, sum(buffers), "", bases, tuple(own), has_int
        tree[path] = new(Module, entry)
    return tree


def _local(parameter: Any, identities: Identities) -> Any:
    """Return the local shard of a distributed parameter; any other parameter as it is."""
    shard = getattr(parameter, "_local_tensor", None)
    if shard is None:
        return parameter
    identities.register_shard(shard)
    return shard
