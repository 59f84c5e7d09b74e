"""The tree of a model's modules, with the parameters and buffers that each holds."""

from __future__ import annotations

from typing import Any

from torch.nn import Module as TorchModule
from torch.nn import Parameter
from torch.nn.parameter import is_lazy

from costcore.trace.call import Module

from ..module_walk import walk
from .identity import Identities


def module_tree(model: TorchModule, identities: Identities) -> dict[str, Module]:
    """Return the modules of ``model`` by path, in the order of the model."""
    tree: dict[str, Module] = {}
    paths: dict[int, str] = {}
    for path, module, is_first in walk(model):
        name = type(module).__name__
        if not is_first:
            tree[path] = Module(name, same_as=paths[id(module)])
            continue
        paths[id(module)] = path
        if not module._parameters and not module._buffers:
            tree[path] = Module(name)
            continue
        is_trained: dict[int, bool] = {}
        for parameter in module._parameters.values():
            if parameter is not None and not is_lazy(parameter):
                identity = _parameter_id(parameter, identities)
                is_trained[identity] = is_trained.get(identity, True) and parameter.requires_grad
        frozen = tuple([identity for identity, trained in is_trained.items() if not trained])
        buffers = [x.numel() for x in module._buffers.values() if x is not None and not is_lazy(x)]
        tree[path] = Module(name, tuple(is_trained), frozen, sum(buffers))
    return tree


def _parameter_id(parameter: Any, identities: Identities) -> int:
    """Return the id of a parameter; of a distributed one the id of its local shard."""
    if type(parameter) is not Parameter and (shard := getattr(parameter, "_local_tensor", None)) is not None:
        identities.register_shard(shard)
        return identities.parameter_of(shard)
    return identities.parameter_of(parameter)
