"""The tree of a model's modules, and what each holds."""

from __future__ import annotations

from typing import Any

from torch.nn import Module as TorchModule

from costcore.engine import Module

from .identity import Identities
from .modules import walk


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
        held = [parameter for parameter in module._parameters.values() if _has_shape(parameter)]
        ids = [_identity(parameter, identities) for parameter in held]
        frozen = [identity for identity, parameter in zip(ids, held, strict=True) if not parameter.requires_grad]
        buffers = sum([buffer.numel() for buffer in module._buffers.values() if _has_shape(buffer)])
        tree[path] = Module(name, tuple(dict.fromkeys(ids)), tuple(dict.fromkeys(frozen)), buffers)
    return tree


def _identity(parameter: Any, identities: Identities) -> int:
    """The id of a parameter; of one that is spread over devices, of the part that is here."""
    here = getattr(parameter, "_local_tensor", None)
    if here is None:
        return identities.parameter_of(parameter)
    identities.take_for_learned(here)
    return identities.parameter_of(here)


def _has_shape(tensor: object) -> bool:
    return tensor is not None and not type(tensor).__name__.startswith("Uninitialized")
