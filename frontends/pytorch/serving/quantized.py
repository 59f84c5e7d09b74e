"""Linear layers whose weights are packed: what their storages take, and plain layers in their place."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Module
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from costcore.studies.serving.cached_model import PackedWeight

from ..meta.operands import META
from ..tensors import dtype_name

SIZES = (("in_features", "out_features"), ("infeatures", "outfeatures"))
"""The names of the sizes of linear layers, in PyTorch, bitsandbytes, AutoAWQ and GPTQModel, and in AutoGPTQ."""

BIAS = "bias"

QUANTIZES_INPUT = ("act_quant_kwargs", "input_quant_func", "SCB")
"""Attributes of weights whose layers quantize their input too: of torchao, and LLM.int8() of bitsandbytes."""

STATES = ("quant_state", "state2", "SCB", "absmax", "code", "offset")
"""Attributes of packed weights of bitsandbytes that hold scales: of its weights, and of the states of these."""


def with_plain_linears(model: Module) -> tuple[Module, Mapping[str, PackedWeight]]:
    """Return a model in which plain layers take the place of those with packed weights, and what these are.

    Other modules share their tensors with the model, which is not changed. Without packed weights it is the model.
    """
    packed = {path: found for path, module in model.named_modules() if (found := packed_weight(module)) is not None}
    if not packed:
        return model, {}
    dtype = _dtype_beside(model, packed)
    plain = {id(model.get_submodule(path)): _plain(model.get_submodule(path), dtype) for path in packed}
    return _copy(model, plain), packed


def packed_weight(module: Module) -> PackedWeight | None:
    """Return the packed weight of a linear layer; None of any other module."""
    sizes = _sizes(module)
    if sizes is None or _is_plain(module, sizes):
        return None
    held = list({id(tensor): tensor for tensor in _storages(module)}.values())
    if not held:
        return None
    size, main = sizes[0] * sizes[1], max(held, key=lambda tensor: tensor.nbytes)
    weight = getattr(module, "weight", None)
    is_subclass = isinstance(weight, Tensor) and is_traceable_wrapper_subclass(weight)
    kind = type(weight if is_subclass else module).__name__
    act = dtype_name(main.dtype) if any(getattr(weight, name, None) is not None for name in QUANTIZES_INPUT) else ""
    return PackedWeight(size, sum(each.nbytes for each in held), max(1, round(8 * main.nbytes / size)), kind, act)


def _sizes(module: Module) -> tuple[int, int] | None:
    for names in SIZES:
        found = [getattr(module, name, None) for name in names]
        sizes = [size for size in found if isinstance(size, int) and not isinstance(size, bool) and size > 0]
        if len(sizes) == len(names):
            return sizes[0], sizes[1]
    return None


def _is_plain(module: Module, sizes: tuple[int, int]) -> bool:
    """Return whether a layer holds every weight as a number of its own, or holds none."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor):
        return not any(True for _ in _storages(module))
    if is_traceable_wrapper_subclass(weight) or hasattr(weight, "quant_state") or hasattr(weight, "SCB"):
        return False
    return bool(weight.is_floating_point()) and weight.numel() == sizes[0] * sizes[1]


def _storages(module: Module) -> Iterator[Tensor]:
    """Yield the arrays that a layer stores for its weight, with scales and zero points."""
    own = {**module._parameters, **module._buffers}
    for name, tensor in own.items():
        if tensor is not None and name != BIAS:
            yield from _arrays(tensor)
    if own.get("weight") is not None:
        yield from _arrays(getattr(module, "state", None))


def _arrays(value: Any) -> Iterator[Tensor]:
    """Yield the arrays behind a tensor, of tensors inside a tensor, and of the states of packed weights."""
    if isinstance(value, Tensor):
        if is_traceable_wrapper_subclass(value):
            names, _ = value.__tensor_flatten__()
            for name in names:
                yield from _arrays(getattr(value, name))
        else:
            yield value
    for name in STATES:
        state = getattr(value, name, None)
        if state is not None:
            yield from _arrays(state)


def _dtype_beside(model: Module, packed: Mapping[str, PackedWeight]) -> torch.dtype:
    """Return the dtype of most numbers that are not packed, in which the model computes."""
    counts: dict[torch.dtype, int] = {}
    for path, module in model.named_modules():
        for tensor in module._parameters.values():
            if path not in packed and tensor is not None and tensor.is_floating_point():
                counts[tensor.dtype] = counts.get(tensor.dtype, 0) + tensor.numel()
    return max(counts, key=lambda dtype: counts[dtype], default=torch.get_default_dtype())


def _plain(module: Module, dtype: torch.dtype) -> nn.Linear:
    sizes, bias = _sizes(module), getattr(module, BIAS, None)
    assert sizes is not None
    return nn.Linear(*sizes, bias=isinstance(bias, Tensor), device=META, dtype=dtype)


def _copy(module: Module, plain: Mapping[int, nn.Linear]) -> Module:
    """Return a shallow copy of a module with plain layers; a module that is used twice stays one."""
    made: dict[int, Module] = dict(plain)
    for each in [*module.modules()][::-1]:
        if id(each) not in made:
            made[id(each)] = copy.copy(each)
    for each in module.modules():
        copied = made[id(each)]
        if id(each) not in plain:
            copied._modules = {name: child and made[id(child)] for name, child in each._modules.items()}
    return made[id(module)]
