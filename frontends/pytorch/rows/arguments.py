"""Readers of operands and attributes from the arguments of an operator, where a name is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from costcore.translate import Arguments, Row, Source

from ..operators.plan import indices_are_dropped, is_differentiated
from ..tensors import SPARSE_LAYOUTS, DataOperand, Number, PackedWeight

Reader = Callable[[Arguments], Any]
"""Computes an operand or an attribute from all arguments of a call; None leaves it out."""


def first_argument(args: Arguments) -> Any:
    """Return the first argument, which PyTorch calls ``self``, ``input``, ``A`` and so on."""
    return next(iter(args.values()))


X: dict[str, Source] = {"x": first_argument}
"""Operands of an operator on one tensor."""

DY_AND_Y: dict[str, Source] = {"dy": "grad_output", "y": "output"}
"""Operands of a gradient that follows from the output."""


def tensor_or_number(name: str) -> Reader:
    """Read an operand that is a tensor or a Python number."""

    def read(args: Arguments) -> Any:
        value = args.get(name)
        return Number(value) if isinstance(value, (bool, int, float, complex)) else value

    return read


def either(*names: str) -> Reader:
    """Read an argument that versions of PyTorch call by different names."""
    return lambda args: next(args[name] for name in names if name in args)


def as_data(name: str) -> Reader:
    """Read class weights or an addend: an operand that counts as data unless it is a parameter of the model."""
    return lambda args: None if args.get(name) is None else DataOperand(args[name])


def constant(value: Any) -> Reader:
    """Return the same value for every call."""
    return lambda args: value


def non_default(name: str, default: Any) -> Reader:
    """Read an attribute that is left out if it equals its default."""
    return lambda args: None if args.get(name) in (None, default) else args[name]


def axis(name: str = "dim") -> Reader:
    """Read an axis of the first argument, counted from the front."""

    def read(args: Arguments) -> int:
        value = first_argument(args)
        tensor = value if isinstance(value, torch.Tensor) else value[0]
        rank: int = tensor.dim()
        return int(args[name]) % max(rank, 1)

    return read


def axis_or_last(args: Arguments) -> int:
    """Return the axis ``dim`` of the first argument, counted from the front; the last axis if it is None."""
    rank: int = first_argument(args).dim()
    return rank - 1 if args["dim"] is None else int(args["dim"]) % max(rank, 1)


def axes(name: str = "dim") -> Reader:
    """Read axes of the first argument, counted from the front and sorted; all axes if the list is empty or None."""

    def read(args: Arguments) -> tuple[int, ...]:
        rank = first_argument(args).dim()
        value = args.get(name)
        if value is None or (isinstance(value, Sequence) and len(value) == 0):
            return tuple(range(rank))
        dims = value if isinstance(value, Sequence) else (value,)
        return tuple(sorted(int(dim) % max(rank, 1) for dim in dims))

    return read


def ntuple(name: str, rank: int, fallback: str | None = None) -> Reader:
    """Read a spatial attribute as ``rank`` numbers; the attribute ``fallback`` if it is empty or None."""

    def read(args: Arguments) -> tuple[int, ...]:
        value = args.get(name)
        if (value is None or value == []) and fallback is not None:
            value = args[fallback]
        return to_ntuple(value, rank)

    return read


def to_ntuple(value: Any, rank: int) -> tuple[int, ...]:
    """Expand a number, or a sequence of one or ``rank`` numbers, to ``rank`` numbers."""
    items = tuple(value) if isinstance(value, Sequence) else (value,)
    return tuple(int(item) for item in (items * rank if len(items) == 1 else items))


def enum_name(name: str, *values: Any) -> Reader:
    """Read an attribute that PyTorch stores as a number: the index of one of ``values``."""
    return lambda args: values[int(args[name])]


def reduction(args: Arguments) -> str | None:
    """Return the reduction of a loss by name; None if the operator has no such argument."""
    value = args.get("reduction")
    return value if value is None or isinstance(value, str) else ("none", "mean", "sum")[value]


def normalized_axes(args: Arguments) -> tuple[int, ...]:
    """Return the axes of ``normalized_shape``, the last ones of the input."""
    rank: int = args["input"].dim()
    return tuple(range(rank - len(args["normalized_shape"]), rank))


def needed_gradients(*operands: str, mask: str = "output_mask") -> Reader:
    """Read which operands need a gradient: one flag for each in the argument ``mask``; all if it is None."""

    def read(args: Arguments) -> tuple[str, ...]:
        flags = args.get(mask)
        return operands if flags is None else tuple(name for name, flag in zip(operands, flags, strict=False) if flag)

    return read


def differentiated(**operands: str) -> Reader:
    """Read which operands need a gradient, by the names of their arguments; None if all do."""

    def read(args: Arguments) -> tuple[str, ...] | None:
        found = tuple(name for name, argument in operands.items() if args[argument].requires_grad)
        return None if len(found) == len(operands) else found

    return read


def tensors_in(*names: str) -> Reader:
    """Read the tensors of several arguments, each a tensor or a list, in order."""

    def read(args: Arguments) -> list[Any]:
        found = (args.get(name) for name in names)
        lists = (value if isinstance(value, (list, tuple)) else [value] for value in found)
        return [value for values in lists for value in values if isinstance(value, torch.Tensor)]

    return read


def is_tensor(name: str) -> Callable[[Arguments], bool]:
    """Restrict a row to calls in which an argument is a tensor."""
    return lambda args: isinstance(args.get(name), torch.Tensor)


def is_number(name: str) -> Callable[[Arguments], bool]:
    """Restrict a row to calls in which an argument exists and is not a tensor."""
    return lambda args: name in args and not isinstance(args[name], torch.Tensor)


def first_output(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Keep the first output; the others are empty, or saved for the backward pass."""
    return outputs[:1]


def requested_indices(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Keep the indices of maxima, the second output, if the user asked for them or a backward pass can follow."""
    return outputs if is_differentiated(first_argument(args)) or not indices_are_dropped() else outputs[:1]


def non_empty_outputs(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Keep the outputs with elements: PyTorch returns an empty tensor for an output that was not requested."""
    return [value for value in outputs if value.dim() == 0 or 0 not in value.shape] or outputs[:1]


def is_unpacked(args: Arguments) -> bool:
    """Restrict a row to calls in which a packed weight was read."""
    return any(isinstance(value, PackedWeight) for value in args.values())


def packed_weight(args: Arguments) -> PackedWeight:
    """Return the content of the packed weight among the arguments."""
    return next(value for value in args.values() if isinstance(value, PackedWeight))


PACKED: dict[str, Source] = {"w": lambda args: packed_weight(args).w, "b": lambda args: packed_weight(args).b}
"""The weight and the bias in a packed weight."""


def operands(pairs: str) -> dict[str, Source]:
    """Split ``"x=input w=weight"`` into operands and the arguments that feed them."""
    split = (pair.partition("=") for pair in pairs.split())
    return {operand: argument for operand, _, argument in split}


def rows_by_name(
    names: str, inputs: dict[str, Source], attrs: dict[str, Source] | None = None, op: str | None = None
) -> Iterable[Row]:
    """Yield one row per name, all with the same operands and attributes.

    Args:
        names: names in ``aten``, each followed by ``=`` and the canonical name if that differs: ``"neg abs eq=equal"``.
        inputs: the operands.
        attrs: the attributes.
        op: the canonical name of all of them.
    """
    for name in names.split():
        native, _, canonical = name.partition("=")
        yield Row(f"aten::{native}", op or canonical or native, inputs, attrs or {})


def is_sparse(name: str) -> Callable[[Arguments], bool]:
    """Return whether an argument is a sparse tensor."""
    return lambda args: isinstance(args[name], torch.Tensor) and args[name].layout in SPARSE_LAYOUTS


def index_count(name: str) -> Callable[[Arguments], int]:
    """Read the number of indices of a sparse tensor."""

    def read(args: Arguments) -> int:
        tensor = args[name]
        with _disable_current_modes():
            if tensor.layout is torch.sparse_coo:
                return int(tensor._indices().numel())
            if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
                return int(tensor.crow_indices().numel() + tensor.col_indices().numel())
            return int(tensor.ccol_indices().numel() + tensor.row_indices().numel())

    return read
