"""The inputs of an estimate, turned into tensors on the meta device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index
from typing import Any

import torch
from torch import Tensor

from costcore.errors import CostError
from costcore.ir import Tensor as Operand
from costcore.messages import short_repr
from costcore.numbers.dims import is_symbolic
from costcore.trace.input_shapes import Value

from .argument_kinds import Kind, is_metadata, is_name_of_sizes, kinds_of_arguments, takes_integers
from .meta.operands import META
from .meta.values import Values, is_small_integer

EXPECTED = (
    "a shape (a tuple of ints), a costcore.Tensor, a costcore.Value, a tensor or array, or a tuple, list or dict of "
    "these"
)


def model_arguments(
    inputs: Any,
    dtype: torch.dtype,
    values: Values,
    forward: Callable[..., Any] | None = None,
    notes: list[str] | None = None,
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the positional and the keyword arguments of a module, with tensors on the meta device.

    Args:
        inputs: the inputs in any form that :func:`~costcore.frontends.pytorch.estimate.estimate` takes.
        dtype: the dtype of inputs given as shapes alone.
        values: receives the values of inputs of integers or bools that have data.
        forward: the function that is called with them, whose signature and code tell shapes from lists of integers.
        notes: receives a note if a list inside of other inputs is taken for a shape.

    Raises:
        TypeError: for an input in any other form.
        ValueError: for a negative size.
    """
    reader = _Reader(dtype, values)
    if inputs is None:
        return (), {}
    is_by_name = isinstance(inputs, Mapping)
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    if is_by_name:
        kind_of = kinds_of_arguments(forward, inputs, is_by_name)
        kwargs = {name: reader.read(value, name, kind_of(name)) for name, value in inputs.items()}
    elif _is_shape(inputs) or _is_shape_with_dtype(inputs) or not isinstance(inputs, (list, tuple)):
        if isinstance(inputs, (bool, int, float, str)):
            raise TypeError(f"inputs: expected {EXPECTED}, got {inputs!r}")
        is_numbers = forward is not None and _is_shape(inputs) and takes_integers(forward, inputs)
        args = (reader.read(inputs, "inputs", Kind.NUMBERS if is_numbers else Kind.SHAPE),)
    else:
        if any(type(item) is int for item in inputs) and all(map(_is_scalar, inputs)):  # meant as a shape
            _sizes(inputs, "inputs")
        kind_of = kinds_of_arguments(forward, inputs, is_by_name)
        args = [reader.read(value, f"inputs[{i}]", kind_of(i)) for i, value in enumerate(inputs)]
    if notes is not None and reader.guessed:
        notes.append(_note_on(reader.guessed))
    return args, kwargs


def variants_with_numbers(forward: Callable[..., Any], inputs: Any) -> Iterator[tuple[Any, str]]:
    """Yield inputs in which one argument, of which nothing says what it is, has numbers in place of shapes.

    Each comes with a note on that argument.
    """
    is_by_name = isinstance(inputs, Mapping)
    if not is_by_name and (not isinstance(inputs, (list, tuple)) or _is_shape(inputs) or _is_shape_with_dtype(inputs)):
        return
    kind_of = kinds_of_arguments(forward, inputs, is_by_name)
    for key, value in inputs.items() if is_by_name else enumerate(inputs):
        if isinstance(value, (list, tuple)) and not _is_shape_with_dtype(value) and kind_of(key) is Kind.UNKNOWN:
            name = key if is_by_name else f"inputs[{key}]"
            taken = f"{name}: {short_repr(value)} was taken for numbers"
            given = inputs.items() if is_by_name else enumerate(inputs)
            changed = {k: Value(v) if k == key else v for k, v in given}
            note = f"{taken}: the model does not run on a tensor of that shape"
            yield (changed if is_by_name else [*changed.values()]), note


def _note_on(guessed: Mapping[str, Sequence[int]]) -> str:
    (name, value), *rest = guessed.items()
    others = f", and {len(rest)} other list{'s' * (len(rest) > 1)} likewise" if rest else ""
    text = short_repr([*value])
    return f"{name}: {text} was taken for the shape of a tensor{others}; costcore.Value({text}) passes the numbers"


def torch_dtype(name: str, place: str) -> torch.dtype:
    """Return the dtype of a name such as ``"int64"``.

    Raises:
        ValueError: for an unknown name; starts with ``place``.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{place}: unknown dtype {name!r} (expected the name of a PyTorch dtype, such as 'int64')")
    return dtype


class _Reader:
    """Reads inputs; a tensor that is passed twice stays one tensor: some models compare their inputs by identity.

    Args:
        dtype: the dtype of shapes.
        values: receives the values of integers and bools.

    Attributes:
        guessed: lists of integers that were taken for shapes, though nothing says so, by name.
    """

    def __init__(self, dtype: torch.dtype, values: Values) -> None:
        self._dtype = dtype
        self._values = values
        self._made: dict[int, Tensor] = {}
        self.guessed: dict[str, Sequence[int]] = {}

    def read(self, value: Any, name: str, kind: Kind) -> Any:
        """Return an argument of the model, with meta tensors in place of shapes, tensors and arrays.

        Args:
            value: the argument.
            name: its name, for messages.
            kind: what its lists and tuples of integers are.
        """
        if isinstance(value, Value):
            return self.read(value.value, name, Kind.NUMBERS)
        if isinstance(value, Tensor):
            return self._like(value, name)
        if isinstance(value, Operand):
            return _empty(value.shape, torch_dtype(value.dtype, name), name)
        if _is_shape_with_dtype(value):
            shape, dtype = value
            return _empty(shape, dtype, name)
        if _is_shape(value):
            return self._integers(value, name, kind)
        if isinstance(value, Mapping):
            return {key: self.read(item, f"{name}[{key!r}]", _kind_in(value, key, kind)) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self.read(item, f"{name}[{i}]", kind) for i, item in enumerate(value)]
            return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)
        if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
            return _like(torch.as_tensor(value), self._values)
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        raise TypeError(f"{name}: expected {EXPECTED}, got {value!r} ({type(value).__name__})")

    def _like(self, tensor: Tensor, name: str) -> Tensor:
        if tensor.is_quantized:
            raise CostError(
                f"{name}: PyTorch has no kernels for quantized tensors without data; count a real run inside "
                "ComputationalCostHook instead"
            )
        if id(tensor) not in self._made:
            self._made[id(tensor)] = _like(tensor, self._values)
        return self._made[id(tensor)]

    def _integers(self, value: Sequence[int], name: str, kind: Kind) -> Any:
        if kind is Kind.NUMBERS or (kind is Kind.LIST_IS_NUMBERS and isinstance(value, list)):
            return value
        if kind is Kind.UNKNOWN and isinstance(value, list):
            self.guessed[name] = value
        return _empty(value, self._dtype, name)


def _kind_in(holder: Mapping[Any, Any], key: Any, kind: Kind) -> Kind:
    """Return what the integers of an item of a dict are: numbers if it describes data, ``{"img_shape": (480, 640)}``.

    Lists in a dict are numbers too: shapes of tensors are tuples.
    """
    if kind is Kind.NUMBERS or is_metadata(holder) or is_name_of_sizes(key):
        return Kind.NUMBERS
    return Kind.LIST_IS_NUMBERS


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
