"""What the caller says of a model's inputs, and what the model says itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from costcore.dims import Dim, as_dim, is_symbolic
from costcore.errors import CostError
from costcore.ir import Tensor, prod

from ..values.containers import declared as container
from ..values.containers import sequence
from ..values.declared_types import declared_shape
from ..values.dimensions import Dimensions
from ..values.value import FLOATS, FOLDED, LARGEST, Container, Value, dtype_of

MOST_AXES = 1000
"""Inputs of more dimensions are refused: no framework has them."""


def bound_inputs(
    declared: Sequence[Any],
    given: Any,
    dims: Dimensions,
    stored: Collection[str] = (),
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Value]:
    """The value of every input.

    Args:
        declared: the model's inputs (``ValueInfoProto``).
        given: shapes (tuples) and values (arrays or lists) by name, or in order, or just one.
        dims: names of dimensions, which given shapes bind.
        stored: names of initializers; one that is an input too has the shape it is stored with.
        note: takes the remark what the symbols are that stand for lengths without a name.

    Raises:
        CostError: for an input that does not exist, has another rank, length or type, or has no shape at all; for two
            inputs of one name.
    """
    declared = [entry for entry in declared if entry.name not in stored]
    names = [entry.name for entry in declared]
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise CostError(f"{count} inputs of the model are called {name!r}")
    wanted = _by_name(names, given, stored)
    tensors = [entry for entry in declared if entry.type.WhichOneof("value") in (None, "tensor_type")]
    bound = {entry.name: _bind(entry, wanted.get(entry.name), dims) for entry in tensors}
    return {
        entry.name: _value(entry, bound[entry.name], dims, note)
        if entry.name in bound
        else _container(entry, wanted.get(entry.name), dims)
        for entry in declared
    }


def _by_name(names: Sequence[str], given: Any, stored: Collection[str]) -> Mapping[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for name in given:
            if name in stored:
                raise CostError(f"{name!r} is stored in the model and keeps its shape; inputs are {list(names)}")
            if name not in names:
                raise CostError(f"the model has no input {name!r}; its inputs are {list(names)}")
        return given
    if isinstance(given, (tuple, list)) and given and all(_is_one_input(part) for part in given):
        if len(given) > len(names):
            raise CostError(f"{len(given)} inputs are given, but the model has {len(names)}: {list(names)}")
        return dict(zip(names, given, strict=False))
    if len(names) != 1:
        raise CostError(f"one input is given, but the model has {len(names)}: {list(names)}; give them by name")
    return {names[0]: given}


def _is_one_input(part: Any) -> bool:
    return isinstance(part, (tuple, list)) or hasattr(part, "shape")


class _Given:
    """A shape, and the elements where they are few."""

    def __init__(self, given: Any, name: str, dims: Dimensions) -> None:
        self.data: Any = None
        self.dtype = given.dtype if isinstance(given, Tensor) else ""
        if isinstance(given, tuple):
            self.shape: Any = given
        elif isinstance(given, (list, int, float, bool)):
            self._take(_array(given, name), name)
        elif hasattr(given, "shape"):
            self.shape = tuple(given.shape)
            is_small = all(isinstance(d, int) for d in self.shape) and prod(self.shape) <= FOLDED
            if is_small and hasattr(given, "tolist") and not getattr(given, "is_meta", False):
                self._take(np.array(given.tolist()).reshape(self.shape), name)
        else:
            raise CostError(
                f"input {name!r} is given as {type(given).__name__}; accepted are a shape (a tuple of ints) and values "
                "(an array or a list)"
            )
        if "" in self.shape:
            raise CostError(f"input {name!r} is given the shape {self.shape}, in which a dimension has no name")
        try:
            self.shape = tuple(dims(d) if isinstance(d, str) else as_dim(d) for d in self.shape)
        except TypeError as error:
            raise CostError(f"input {name!r} is given the shape {self.shape}: {error}") from None
        if any(isinstance(d, int) and d < 0 for d in self.shape):
            raise CostError(f"input {name!r} is given the negative shape {self.shape}")

    def _take(self, array: Any, name: str) -> None:
        if array.dtype.kind not in "biuf":
            raise CostError(f"input {name!r} is given values that are not numbers")
        self.shape = array.shape
        self.data = array.astype(object) if array.size <= FOLDED else None


def _array(values: Any, name: str) -> Any:
    try:
        return np.array(values)
    except ValueError as error:
        raise CostError(f"input {name!r} is given lists of different lengths, which make no array") from error


def _bind(entry: Any, given: Any, dims: Dimensions) -> _Given | None:
    """What is given of an input, held against what the model declares of it."""
    if given is None:
        return None
    kind, where = entry.type.tensor_type, f"input {entry.name!r}"
    found = _Given(given, entry.name, dims)
    dtype = dtype_of(kind.elem_type, where) if kind.elem_type else ""
    if found.dtype and dtype and found.dtype != dtype:
        raise CostError(f"{where} is {dtype} in the model, but {found.dtype} is given")
    if not kind.HasField("shape"):
        return found
    if not kind.shape.dim and isinstance(given, list) and len(given) == 1 and not isinstance(given[0], list):
        raise CostError(f"{where} is one number: give {given[0]!r}, not the list {given!r}")
    if len(kind.shape.dim) != len(found.shape):
        meant = "; a shape is written as a tuple, a list holds values" if isinstance(given, list) else ""
        raise CostError(f"{where} has {len(kind.shape.dim)} dimensions, but {found.shape} is given{meant}")
    for i, (d, number) in enumerate(zip(kind.shape.dim, found.shape, strict=True)):
        if d.HasField("dim_value") and d.dim_value >= 0 and d.dim_value != number:
            raise CostError(f"{where} has length {d.dim_value} along axis {i} in the model, but {number} is given")
        if d.dim_param:
            dims.bind(d.dim_param, number, f"{where}, axis {i}")
    return found


def _container(entry: Any, given: Any, dims: Dimensions) -> Value:
    """An input that is a sequence, an optional or a map: what the caller gives of it, else what the model declares."""
    declared = container(entry.type, dims, entry.name)
    if given is None or not isinstance(declared, Container):
        return declared
    kind, inner = declared.kind, declared.element
    if kind == "optional" and isinstance(inner, Container):
        kind, inner = inner.kind, inner.element
    dtype = inner.dtype if inner is not None else declared.dtype
    if kind == "sequence" and isinstance(given, (list, tuple)):
        found = [_Given(part, f"{entry.name}[{i}]", dims) for i, part in enumerate(given)]
        return sequence([Value(part.shape, dtype, part.data) for part in found], dtype)
    if kind == "optional":
        one = _Given(given, entry.name, dims)
        return Value(one.shape, dtype, one.data)
    raise CostError(
        f"input {entry.name!r} is a {kind}; accepted is a list of the shapes or values of what it holds, for a sequence"
    )


def _value(entry: Any, given: _Given | None, dims: Dimensions, note: Callable[[str], None]) -> Value:
    where = f"input {entry.name!r}"
    kind = entry.type.tensor_type
    has_type = entry.type.HasField("tensor_type")
    if given is not None:
        dtype = dtype_of(kind.elem_type, where) if has_type else given.dtype or "float32"
        return bounded(Value(given.shape, dtype, given.data), where)
    if not has_type:
        raise CostError(
            f"{where} has no type in the model; give it one: inputs={{{entry.name!r}: Tensor((1, 128), 'int64')}}"
        )
    dtype = dtype_of(kind.elem_type, where)
    if any(d.HasField("dim_value") and d.dim_value < 0 for d in kind.shape.dim):
        raise CostError(f"{where} has a negative dimension in its shape {[d.dim_value for d in kind.shape.dim]}")
    shape = declared_shape(kind, dims)
    if shape is None:
        raise CostError(f"{where} has no shape in the model; give it one: inputs={{{entry.name!r}: (1, 3, 224, 224)}}")
    named: list[Dim] = [dims.fresh(f"{entry.name}_{i}") if d is None else d for i, d in enumerate(shape)]
    open_axes = [i for i, d in enumerate(shape) if d is None and is_symbolic(named[i])]
    if open_axes:
        told = ", ".join(f"{named[i]} along axis {i}" for i in open_axes)
        note(f"{where} has lengths that the model does not name: {told}")
    return bounded(Value(tuple(named), dtype), where)


FEW = 8
"""More numbers than these are data rather than factors, and no example of them is written out."""


class Missing:
    """Which inputs of a model carry numbers that the caller has not given, and what follows from them.

    Args:
        inputs: the values of the inputs by name.
    """

    def __init__(self, inputs: Mapping[str, Value] = MappingProxyType({})) -> None:
        self._from: dict[Value, dict[str, str]] = {
            value: {name: _example(value)} for name, value in inputs.items() if _carries_numbers(value)
        }

    def __bool__(self) -> bool:
        return bool(self._from)

    def passed_on(self, given: Iterable[Value | None], made: Iterable[Value | None]) -> None:
        """What a node makes of missing numbers is missing, too."""
        sources = {name: example for value in given if value for name, example in self._from.get(value, {}).items()}
        for value in made if sources else ():
            if value is not None and _carries_numbers(value):
                self._from[value] = sources

    def hint(self, *values: Value | None) -> str:
        """What the caller may give, so that the elements of ``values`` are known; ``""`` where that is not told."""
        sources = {name: example for value in values if value for name, example in self._from.get(value, {}).items()}
        shown = ", ".join(f"{name!r}: {example}" for name, example in sources.items())
        return f"inputs={{{shown}}}" if shown else ""


def _carries_numbers(value: Value) -> bool:
    """Whether a value that is not known looks like a few sizes, places, factors or conditions."""
    if value.data is not None or value.shape is None or len(value.shape) > 1 or 0 in value.shape:
        return False
    is_short = all(isinstance(d, int) and d <= FEW for d in value.shape)
    return value.dtype == "bool" or "int" in value.dtype or (value.dtype in FLOATS and is_short)


def _example(value: Value) -> str:
    """Numbers as the caller may give them."""
    one = "True" if value.dtype == "bool" else "9.0" if value.dtype in FLOATS else "9"
    (length,) = value.known or (0,)
    shown = length if isinstance(length, int) and length <= FEW else 2
    return f"[{', '.join([one] * shown)}]" if value.known else one


def bounded(value: Value, where: str) -> Value:
    """The value, which is no larger than its size can be told."""
    if len(value.known) > MOST_AXES:
        raise CostError(f"{where} has {len(value.known)} dimensions; at most {MOST_AXES} are read")
    if prod(d for d in value.known if isinstance(d, int)) >= LARGEST:
        raise CostError(f"{where} has 2**4096 elements or more")
    return value
