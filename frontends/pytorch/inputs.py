"""The inputs of an estimate, turned into tensors on the meta device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import torch
from torch import Tensor

from costcore.errors import CostError
from costcore.ir import Tensor as Operand
from costcore.numbers.dims import is_symbolic

from .meta.operands import META
from .meta.values import Values, is_small_integer

EXPECTED = "a shape (a tuple of ints), a costcore.Tensor, a tensor or array, or a tuple, list or dict of these"


def model_arguments(inputs: Any, dtype: torch.dtype, values: Values) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the positional and the keyword arguments of a module, with tensors on the meta device.

    Args:
        inputs: the inputs in any form that :func:`~costcore.frontends.pytorch.estimate.estimate` takes.
        dtype: the dtype of inputs given as shapes alone.
        values: receives the values of inputs of integers or bools that have data.

    Raises:
        TypeError: for an input in any other form.
        ValueError: for a negative size.
    """
    made: dict[int, Tensor] = {}
    if inputs is None:
        return (), {}
    if isinstance(inputs, Mapping):
        return (), {name: _argument(value, dtype, name, made, values) for name, value in inputs.items()}
    if _is_shape(inputs) or _is_shape_with_dtype(inputs) or not isinstance(inputs, (list, tuple)):
        if isinstance(inputs, (bool, int, float, str)):
            raise TypeError(f"inputs: expected {EXPECTED}, got {inputs!r}")
        return (_argument(inputs, dtype, "inputs", made, values),), {}
    if any(type(item) is int for item in inputs) and all(map(_is_scalar, inputs)):  # meant as a shape
        _sizes(inputs, "inputs")
    return [_argument(value, dtype, f"inputs[{i}]", made, values) for i, value in enumerate(inputs)], {}


def torch_dtype(name: str, place: str) -> torch.dtype:
    """Return the dtype of a name such as ``"int64"``.

    Raises:
        ValueError: for an unknown name; starts with ``place``.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{place}: unknown dtype {name!r} (expected the name of a PyTorch dtype, such as 'int64')")
    return dtype


def _argument(value: Any, dtype: torch.dtype, name: str, made: dict[int, Tensor], values: Values) -> Any:
    """Return an argument of the model, with meta tensors in place of shapes, tensors and arrays.

    A tensor that is passed twice stays one tensor: some models compare their inputs by identity.
    """
    if isinstance(value, Tensor):
        if value.is_quantized:
            raise CostError(
                f"{name}: PyTorch has no kernels for quantized tensors without data; count a real run inside "
                "ComputationalCostHook instead"
            )
        if id(value) not in made:
            made[id(value)] = _like(value, values)
        return made[id(value)]
    if isinstance(value, Operand):
        return _empty(value.shape, torch_dtype(value.dtype, name), name)
    if _is_shape_with_dtype(value):
        shape, dtype = value
        return _empty(shape, dtype, name)
    if _is_shape(value):
        return _empty(value, dtype, name)
    if isinstance(value, Mapping):
        return {key: _argument(item, dtype, f"{name}[{key!r}]", made, values) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_argument(item, dtype, f"{name}[{i}]", made, values) for i, item in enumerate(value)]
        return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return _like(torch.as_tensor(value), values)
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    raise TypeError(f"{name}: expected {EXPECTED}, got {value!r} ({type(value).__name__})")


def _like(tensor: Tensor, values: Values) -> Tensor:
    """Return a meta tensor like ``tensor``; the values of integers and bools are known, those of floats are not."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)
    if is_small_integer(tensor):
        values.give(made, tensor)
    return made.requires_grad_(tensor.requires_grad)


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(size, int) and not isinstance(size, bool) for size in value)
    )


def _is_shape_with_dtype(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], torch.dtype):
        return False
    return isinstance(value[0], (list, tuple)) and len(value[0]) > 0


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str)) or value is None or is_symbolic(value)


def _empty(shape: Sequence[Any], dtype: torch.dtype, name: str) -> Tensor:
    sizes = _sizes(shape, name)
    try:
        return torch.empty(sizes, dtype=dtype, device=META)
    except RuntimeError as error:
        raise CostError(f"{name}: PyTorch cannot make a tensor of shape {sizes}: {error}") from error


def _sizes(shape: Sequence[Any], name: str) -> tuple[int, ...]:
    """Return a shape in ints, made of any type of integer."""
    for size in shape:
        if isinstance(size, bool) or is_symbolic(size) or not hasattr(size, "__index__"):
            raise TypeError(
                f"{name}: invalid size {size!r} in the shape {tuple(shape)} (expected an integer, "
                "or a name for formulas in sizes)"
            )
        if size < 0:
            raise ValueError(f"{name}: the shape {tuple(shape)} has a negative size")
    return tuple(map(index, shape))
