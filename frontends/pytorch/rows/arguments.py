"""How a row says where an operand or a setting comes from, beyond naming an argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from ..tensors import Given, Number

Reader = Callable[[Arguments], Any]


def first_argument(args: Arguments) -> Any:
    """The first argument, whatever it is called."""
    return next(iter(args.values()))


X: dict[str, Source] = {"x": first_argument}
"""The operands of operators of one tensor."""


def tensor_or_number(name: str) -> Reader:
    """An operand that may be a tensor or a Python number."""

    def read(args: Arguments) -> Any:
        value = args.get(name)
        return Number(value) if isinstance(value, (bool, int, float, complex)) else value

    return read


def as_data(name: str) -> Reader:
    """An operand that is learned only where it is known to be a parameter."""
    return lambda args: None if args.get(name) is None else Given(args[name])


def constant(value: Any) -> Reader:
    """The same for every call."""
    return lambda args: value


def non_default(name: str, default: Any) -> Reader:
    """A setting that is told only where it differs from the default one."""
    return lambda args: None if args.get(name) in (None, default) else args[name]


def axis(name: str = "dim") -> Reader:
    """An axis, counted from the front."""

    def read(args: Arguments) -> int:
        value = first_argument(args)
        tensor = value if isinstance(value, torch.Tensor) else value[0]
        rank: int = tensor.dim()
        return int(args[name]) % max(rank, 1)

    return read


def axis_or_last(args: Arguments) -> int:
    """The axis of ``dim``; the last one if it is None."""
    rank: int = first_argument(args).dim()
    return rank - 1 if args["dim"] is None else int(args["dim"]) % max(rank, 1)


def axes(name: str = "dim") -> Reader:
    """Axes counted from the front, in order; all of them where none are named."""

    def read(args: Arguments) -> tuple[int, ...]:
        rank = first_argument(args).dim()
        value = args.get(name)
        if value is None or (isinstance(value, Sequence) and len(value) == 0):
            return tuple(range(rank))
        dims = value if isinstance(value, Sequence) else (value,)
        return tuple(sorted(int(dim) % max(rank, 1) for dim in dims))

    return read


def ntuple(name: str, rank: int, fallback: str | None = None) -> Reader:
    """A spatial setting as a tuple of ``rank`` numbers; of another argument where this one is empty."""

    def read(args: Arguments) -> tuple[int, ...]:
        value = args.get(name)
        if (value is None or value == []) and fallback is not None:
            value = args[fallback]
        return to_ntuple(value, rank)

    return read


def to_ntuple(value: Any, rank: int) -> tuple[int, ...]:
    """A number, or a sequence of one or ``rank`` numbers, as ``rank`` numbers."""
    items = tuple(value) if isinstance(value, Sequence) else (value,)
    return tuple(int(item) for item in (items * rank if len(items) == 1 else items))


def first_output(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """The first output counts; the others are kept for the backward pass, or empty."""
    return outputs[:1]


def non_empty_outputs(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Outputs that hold something: what was not asked for comes empty."""
    return [value for value in outputs if value.dim() == 0 or 0 not in value.shape] or outputs[:1]


def is_tensor(name: str) -> Callable[[Arguments], bool]:
    """Rows for calls in which an argument is a tensor."""
    return lambda args: isinstance(args.get(name), torch.Tensor)


def is_number(name: str) -> Callable[[Arguments], bool]:
    """Rows for calls of overloads in which an argument is a number."""
    return lambda args: name in args and not isinstance(args[name], torch.Tensor)


def rows_by_name(
    names: str, inputs: dict[str, Source], attrs: dict[str, Source] | None = None, op: str | None = None
) -> Iterable[Row]:
    """Rows for operators with like arguments; ``names`` holds words ``native`` or ``native=neutral``."""
    for name in names.split():
        native, _, neutral = name.partition("=")
        yield Row(f"aten::{native}", op or neutral or native, inputs, attrs or {})


def needed_gradients(*operands: str, mask: str = "output_mask") -> Reader:
    """The operands whose gradients an argument asks for, a bool for each of them; all where there is none."""

    def read(args: Arguments) -> tuple[str, ...]:
        flags = args.get(mask)
        return operands if flags is None else tuple(name for name, flag in zip(operands, flags, strict=False) if flag)

    return read


def enum_name(name: str, *values: Any) -> Reader:
    """A setting that PyTorch numbers: which of ``values`` an argument says."""
    return lambda args: values[int(args[name])]


def reduction(args: Arguments) -> str | None:
    """How a loss is reduced; None for losses that are not asked."""
    value = args.get("reduction")
    return value if value is None or isinstance(value, str) else ("none", "mean", "sum")[value]


def normalized_axes(args: Arguments) -> tuple[int, ...]:
    """The last axes, as many as the shape that is normalised over has."""
    rank: int = args["input"].dim()
    return tuple(range(rank - len(args["normalized_shape"]), rank))


def tensors_in(*names: str) -> Reader:
    """The tensors of several arguments, each a tensor or a list, one after another."""

    def read(args: Arguments) -> list[Any]:
        found = (args.get(name) for name in names)
        lists = (value if isinstance(value, (list, tuple)) else [value] for value in found)
        return [value for values in lists for value in values if isinstance(value, torch.Tensor)]

    return read


def operands(words: str) -> dict[str, Source]:
    """Operands by the arguments that feed them, ``"x=input w=weight"``."""
    pairs = (word.partition("=") for word in words.split())
    return {operand: argument for operand, _, argument in pairs}
