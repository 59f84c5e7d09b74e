"""The tree of a model's modules, and what each holds."""

from __future__ import annotations

from typing import Any

from torch.nn import Module as TorchModule
from torch.nn import Parameter
from torch.nn.parameter import is_lazy

from costcore.trace.call import Module

from ..module_walk import walk
from .identity import Identities


def module_tree(model: TorchModule, identities: Identities) -> dict[str, Module]:
    """The modules of ``model`` by path, in its own order."""
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
        held: dict[int, bool] = {}
        for parameter in module._parameters.values():
            if parameter is not None and not is_lazy(parameter):
                identity = _identity(parameter, identities)
                held[identity] = held.get(identity, True) and parameter.requires_grad
        frozen = tuple([identity for identity, is_trained in held.items() if not is_trained])
        buffers = [x.numel() for x in module._buffers.values() if x is not None and not is_lazy(x)]
        tree[path] = Module(name, tuple(held), frozen, sum(buffers))
    return tree


def _identity(parameter: Any, identities: Identities) -> int:
    """The id of a parameter; of one that is spread over devices, of the part that is here."""
    if type(parameter) is not Parameter and (here := getattr(parameter, "_local_tensor", None)) is not None:
        identities.take_for_learned(here)
        return identities.parameter_of(here)
    return identities.parameter_of(parameter)
