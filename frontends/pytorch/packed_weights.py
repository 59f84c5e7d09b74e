"""Weights of quantized modules, which PyTorch packs into objects of its own.

A packed object is passed to an operator in place of its weight and bias. Shapes, dtypes, scales and settings are read
from it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.utils._python_dispatch import _disable_current_modes

from .module_walk import modules_of

_SETTINGS = ("stride", "padding", "output_padding", "dilation", "groups", "transpose")
"""The methods of a packed convolution that return its settings."""

_TYPES = "__torch__.torch.classes.quantized."
"""The beginning of the names of the types of packed objects."""

_EMBEDDING = "quantized::embedding_byte"
_PRODUCTS = ("quantized::linear", "quantized::conv", _EMBEDDING)
_QUANTIZATION = ("scale", "zero_point")

META = torch.device("meta")


class PackedWeight(NamedTuple):
    """What a packed object holds, without data.

    Attributes:
        w: the weight, in its packed dtype.
        b: the bias, if there is one.
        scales: one scale per channel; None if one number scales all weights.
        has_zero_point: whether any weight is stored with an offset.
        settings: stride, padding, output padding, dilation, groups and transposition of a convolution.
    """

    w: Parameter
    b: Parameter | None
    scales: Tensor | None
    has_zero_point: bool
    settings: Mapping[str, Any]


def is_packed(schema_type: str) -> bool:
    """Return whether arguments of a type, as named in a schema, are packed objects."""
    return schema_type.startswith(_TYPES)


class PackedWeights:
    """The packed weights of one run, each unpacked once.

    Python sees another object at every call; its hash is that of the object behind it.
    """

    def __init__(self) -> None:
        self._unpacked: dict[int, tuple[Any, Any]] = {}

    def replace(self, arguments: Sequence[Any], is_1d: bool) -> list[Any]:
        """Return arguments with a :class:`PackedWeight` in place of every packed object that can be read."""
        return [self._weight(x, is_1d) if isinstance(x, torch.ScriptObject) else x for x in arguments]

    def _weight(self, packed: Any, is_1d: bool) -> Any:
        found = self._unpacked.get(hash(packed))
        if found is None:
            try:
                with _disable_current_modes():
                    found = (packed, _unpack(packed, is_1d))
            except RuntimeError:  # of a type that this engine cannot unpack: its calls are listed as not counted
                found = (packed, packed)
            self._unpacked[hash(packed)] = found
        return found[1]

    def of(self, model: Module) -> Iterator[PackedWeight]:
        """Return the packed weights that quantized modules in a model hold, each once."""
        quantized = (module for module in modules_of(model) if type(module).__module__.startswith("torch.ao."))
        held = (value for module in quantized for value in vars(module).values())
        packed = {hash(value): value for value in held if isinstance(value, torch.ScriptObject)}
        return (x for x in self.replace([*packed.values()], False) if isinstance(x, PackedWeight))


def _unpack(packed: Any, is_1d: bool) -> PackedWeight:
    if not packed._has_method("unpack"):
        raise RuntimeError("this object holds no weight of its own")
    unpacked = packed.unpack()
    weight, bias = unpacked if isinstance(unpacked, tuple) else (unpacked, None)
    shape = list(weight.shape)
    if is_1d:  # stored as a 2-d convolution of height 1
        del shape[2]
    scales, zero_points = None, 0
    dtype = weight.dtype
    if weight.is_quantized:
        dtype = torch.int8 if dtype is torch.qint8 else torch.uint8
        if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
            scales = torch.empty(weight.q_per_channel_scales().shape, device=META)
            zero_points = int(weight.q_per_channel_zero_points().count_nonzero())
        else:
            zero_points = weight.q_zero_point()
    elif dtype is torch.float32:  # a method unpacks half-precision weights
        dtype = torch.float16
    rank = len(shape) - 2
    settings = {name: getattr(packed, name)() for name in _SETTINGS if packed._has_method(name)}
    return PackedWeight(
        Parameter(torch.empty(shape, dtype=dtype, device=META), requires_grad=False),
        None if bias is None else Parameter(torch.empty_like(bias, device=META), requires_grad=False),
        scales,
        bool(zero_points),
        {name: tuple(value[-rank:]) if isinstance(value, list) else value for name, value in settings.items()},
    )


def without_run(native: str, arguments: Mapping[str, Any]) -> Tensor | None:
    """Return the result of a product with a packed weight on meta tensors, for which PyTorch has no kernel.

    It is None if a kernel must run: on tensors with data, and for operators that are not such products.

    Args:
        native: the full name of the operator.
        arguments: all arguments by name, with a :class:`PackedWeight` in place of the packed object.
    """
    packed = next((value for value in arguments.values() if isinstance(value, PackedWeight)), None)
    x = next((value for value in arguments.values() if isinstance(value, Tensor)), None)
    if packed is None or x is None or not x.is_meta or not native.startswith(_PRODUCTS):
        return None
    if native.startswith(_EMBEDDING):
        return x.new_empty((*x.shape, packed.w.shape[-1]), dtype=torch.float32)
    shape = output_shape(x, packed)
    return _empty_quantized(shape, arguments) if x.is_quantized else x.new_empty(shape)


def _empty_quantized(shape: Sequence[int], arguments: Mapping[str, Any]) -> Tensor:
    scale, zero_point = (arguments.get(f"output_{name}", arguments.get(f"Y_{name}_i")) for name in _QUANTIZATION)
    made: Tensor = torch._empty_affine_quantized(
        shape, scale=scale, zero_point=zero_point, dtype=torch.quint8, device=META
    )
    return made


def output_shape(x: Tensor, packed: PackedWeight) -> tuple[int, ...]:
    """Return the shape of the product of an input and a packed weight."""
    w, settings = packed.w, packed.settings
    if not settings:
        return (*x.shape[:-1], w.shape[0])
    names = ("stride", "padding", "dilation", "output_padding")
    sizes = zip(x.shape[2:], w.shape[2:], *(settings[name] for name in names), strict=True)
    if settings["transpose"]:
        made = [(n - 1) * s - 2 * p + d * (k - 1) + more + 1 for n, k, s, p, d, more in sizes]
        return (x.shape[0], w.shape[1] * settings["groups"], *made)
    return (x.shape[0], w.shape[0], *((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in sizes))
