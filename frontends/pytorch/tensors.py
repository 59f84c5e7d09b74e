"""Operands: shape, canonical dtype and role of a PyTorch tensor or a Python number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from costcore.ir import BITS, Role
from costcore.ir import Tensor as Operand

_DTYPES = {
    "quint8": "uint8",
    "qint8": "int8",
    "qint32": "int32",
    "quint4x2": "uint4",
    "quint2x4": "uint2",
    "float8_e8m0fnu": "float8_e8m0",
    "float4_e2m1fn_x2": "uint8",  # two packed elements, which PyTorch counts as one
    "bits8": "uint8",
    "bits16": "uint16",
    "bits1x8": "uint8",
    "bits2x4": "uint8",
    "bits4x2": "uint8",
}


class Number(NamedTuple):
    """A Python number passed as an operand; it occupies no memory."""

    value: complex


class DataOperand(NamedTuple):
    """An operand that is data although its canonical name is that of a parameter: class weights, an addend."""

    value: Any


_SCALARS = frozenset((type(None), bool, int, float, complex, str))

SPARSE_LAYOUTS = frozenset((torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc))


@cache
def dtype_name(dtype: torch.dtype) -> str:
    """Return the canonical name of a dtype."""
    name = str(dtype).removeprefix("torch.")
    name = _DTYPES.get(name, name)
    return name if name in BITS else f"uint{dtype.itemsize * 8}"


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape in ints.

    For a sparse tensor it is the shape of its values, for a nested tensor that of its packed samples.
    """
    if tensor.layout in SPARSE_LAYOUTS:
        with _disable_current_modes():
            held = tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()
        return tuple([int(size) for size in held.shape])
    if not tensor.is_nested:
        return tuple([int(size) for size in tensor.shape])
    with _disable_current_modes():
        return _packed(tensor)


def _packed(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape of all samples concatenated along the ragged axis; 1-d if several are ragged."""
    if tensor.layout is torch.jagged:
        return (1, *tensor.values().shape)
    sizes, ragged = tensor._nested_tensor_size(), _ragged_axes(tensor)
    if len(ragged) > 1:
        return (int(sizes.prod(-1).sum()),)
    packed: list[int] = sizes[0].tolist()
    axis = ragged[0] if ragged else 0
    packed[axis] = int(sizes[:, axis].sum())
    return (1, *packed)


def _ragged_axes(tensor: torch.Tensor) -> list[int]:
    sizes = tensor._nested_tensor_size()
    return [axis for axis in range(sizes.shape[1]) if sizes[:, axis].unique().numel() > 1]


def stored_elements(tensor: torch.Tensor) -> int | None:
    """Return the number of elements in memory of a view that repeats them; None if it repeats none.

    An axis of stride 0 (``expand``) repeats all elements, overlapping windows (``unfold``) some of them. If the strides
    of two axes are multiples of each other, the count is exact; otherwise it is the maximum.
    """
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_contiguous():
        return None
    size = math.prod(map(int, tensor.shape))
    runs: list[tuple[int, int]] = []  # axes as a stride and a count; those that fill or overlap a run extend it
    for stride, count in sorted(zip(map(int, tensor.stride()), map(int, tensor.shape), strict=True)):
        if stride == 0:
            continue
        for i, (step, length) in enumerate(runs):
            if stride % step == 0 and stride // step <= length:
                runs[i] = step, length + stride // step * (count - 1)
                break
        else:
            runs.append((stride, count))
    stored = min(math.prod(count for _, count in runs), 1 + sum(stride * (count - 1) for stride, count in runs))
    return stored if stored < size else None


def is_contiguous(tensor: torch.Tensor) -> bool:
    """Return whether the elements are in memory in their order; True for sparse and nested tensors too."""
    return tensor.layout is not torch.strided or tensor.is_nested or tensor.is_contiguous()


def nested_tensors(value: Any) -> list[torch.Tensor]:
    """Return every tensor in nested lists, tuples, dicts and dataclasses, in order."""
    found: list[torch.Tensor] = []
    waiting: list[Any] = [value]
    around: set[int] = set()  # the containers that are being read, so that one that contains itself ends
    while waiting:
        item = waiting.pop()
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif type(item) is _Left:
            around.remove(item.container)
        elif type(item) not in _SCALARS and id(item) not in around and (inside := _items(item)):
            around.add(id(item))
            waiting.append(_Left(id(item)))
            waiting += reversed(inside)
    return found


class _Left(NamedTuple):
    """The end of a container, by its id."""

    container: int


def _items(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [*value]
    if isinstance(value, Mapping):
        return [*value.values()]
    return [getattr(value, name, None) for name in getattr(type(value), "__dataclass_fields__", ())]


def sample_lengths(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Return the last size but one, the length, of every sample of a nested tensor; None for any other tensor."""
    if not tensor.is_nested:
        return None
    with _disable_current_modes():
        if tensor.layout is not torch.jagged:
            return tuple(tensor._nested_tensor_size()[:, -2].tolist())
        lengths = tensor.lengths()
        return tuple((tensor.offsets().diff() if lengths is None else lengths).tolist())


def is_twice_ragged(value: Any) -> bool:
    """Return whether the samples of a nested tensor differ in more than one size."""
    if not isinstance(value, torch.Tensor) or not value.is_nested or value.layout is torch.jagged:
        return False
    with _disable_current_modes():
        return len(_ragged_axes(value)) > 1


def operand(value: Any, role: Role) -> Operand | None:
    """Return the operand of a tensor or a :class:`Number`; None for any other value."""
    if isinstance(value, torch.Tensor):
        return Operand(shape_of(value), dtype_name(value.dtype), role, stored_elements(value))
    if type(value) is Number:
        return Operand((), _number_type(value.value), "const")
    return None


def _number_type(value: complex) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    return "complex64" if isinstance(value, complex) else "float32"
