"""The inputs of an estimate, turned into tensors on the meta device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import torch
from torch import Tensor

from costcore.dims import is_symbolic
from costcore.errors import CostError
from costcore.ir import Tensor as Operand

from .meta.operands import META


def model_arguments(inputs: Any, dtype: torch.dtype) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the positional and the keyword arguments of a module, with tensors on the meta device.

    Args:
        inputs: what a user gave :func:`costcore.estimate`; see :func:`~costcore.frontends.pytorch.estimate.estimate`.
        dtype: the dtype of inputs given as shapes alone.

    Raises:
        TypeError: for an input of any other form.
        ValueError: for a negative size.
    """
    made: dict[int, Tensor] = {}
    if inputs is None:
        return (), {}
    if isinstance(inputs, Mapping):
        return (), {name: _value(value, dtype, name, made) for name, value in inputs.items()}
    if _is_shape(inputs) or _is_typed_shape(inputs) or not isinstance(inputs, (list, tuple)):
        if isinstance(inputs, (bool, int, float, str)):
            raise TypeError(f"inputs: expected {EXPECTED}, got {inputs!r}")
        return (_value(inputs, dtype, "inputs", made),), {}
    if any(type(item) is int for item in inputs) and all(map(_is_plain, inputs)):  # no module takes these alone
        _sizes(inputs, "inputs")
    return [_value(value, dtype, f"inputs[{i}]", made) for i, value in enumerate(inputs)], {}


def torch_dtype(name: str, where: str) -> torch.dtype:
    """Return the dtype of a name such as ``"int64"``; ``where`` names the argument in the message of an error."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{where}: PyTorch has no element type {name!r}")
    return dtype


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(size, int) and not isinstance(size, bool) for size in value)
    )


def _is_typed_shape(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], torch.dtype):
        return False
    return isinstance(value[0], (list, tuple)) and len(value[0]) > 0


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str)) or value is None or is_symbolic(value)


def _sizes(shape: Sequence[Any], name: str) -> tuple[int, ...]:
    """A shape whose sizes are ints, of whatever type of integer they were."""
    for size in shape:
        if isinstance(size, bool) or is_symbolic(size) or not hasattr(size, "__index__"):
            raise TypeError(
                f"{name}: {size!r} in the shape {tuple(shape)} is no size of an input of a PyTorch module; a size is a "
                "whole number (symbols are for ONNX models)"
            )
        if size < 0:
            raise ValueError(f"{name}: the shape {tuple(shape)} has a negative size")
    return tuple(map(index, shape))


EXPECTED = "a shape (a tuple of ints), a costcore.Tensor, a tensor or array, or a tuple, list or dict of these"


def _value(value: Any, dtype: torch.dtype, name: str, made: dict[int, Tensor]) -> Any:
    """An argument of the model: tensors on the meta device in the place of shapes, tensors and arrays.

    A tensor that is given twice stays one: some models look.
    """
    if isinstance(value, Tensor):
        if id(value) not in made:
            made[id(value)] = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
        return made[id(value)]
    if isinstance(value, Operand):
        return _empty(value.shape, torch_dtype(value.dtype, name), name)
    if _is_typed_shape(value):
        shape, dtype = value
        return _empty(shape, dtype, name)
    if _is_shape(value):
        return _empty(value, dtype, name)
    if isinstance(value, Mapping):
        return {key: _value(item, dtype, f"{name}[{key!r}]", made) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_value(item, dtype, f"{name}[{i}]", made) for i, item in enumerate(value)]
        return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return torch.as_tensor(value).to(META)
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    raise TypeError(f"{name}: expected {EXPECTED}, got {value!r} ({type(value).__name__})")


def _empty(shape: Sequence[int], dtype: torch.dtype, name: str) -> Tensor:
    sizes = _sizes(shape, name)
    try:
        return torch.empty(sizes, dtype=dtype, device=META)
    except RuntimeError as error:
        raise CostError(f"{name}: PyTorch cannot make a tensor of shape {sizes}: {error}") from error
