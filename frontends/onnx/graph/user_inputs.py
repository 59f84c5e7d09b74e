"""Inputs of a model: the shapes and values that the user gives, and what the model declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from costcore.errors import CostError
from costcore.ir import Tensor, prod
from costcore.messages import unknown
from costcore.numbers.dims import Dim, is_symbolic

from ..values.containers import declared_value, sequence
from ..values.declared_types import declared_shape, dimension_name, fixed_size
from ..values.dimensions import Dimensions
from ..values.value import MOST_FOLDED, Container, Value, check_input_size, dtype_of


def bind_inputs(
    entries: Sequence[Any],
    given: Any,
    dims: Dimensions,
    initializers: Collection[str] = (),
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Value]:
    """Return the value of every input by name.

    Args:
        entries: the model's inputs (``ValueInfoProto``).
        given: shapes (tuples) and values (arrays or lists) by name, or in order, or just one.
        dims: named dimensions, which given shapes bind.
        initializers: names of initializers; one that is an input too keeps the shape it is stored with.
        note: receives a note for every input with unnamed dimensions, which lists their symbols.

    Raises:
        CostError: for an input that does not exist, has another rank, size or dtype, or has no shape at all; for two
            inputs of one name.
    """
    entries = [entry for entry in entries if entry.name not in initializers]
    names = [entry.name for entry in entries]
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise CostError(f"the graph has {count} inputs named {name!r} (expected unique names)")
    by_name = _by_name(names, given, initializers)
    tensors = [entry for entry in entries if entry.type.WhichOneof("value") in (None, "tensor_type")]
    bound = {entry.name: _bind(entry, by_name.get(entry.name), dims) for entry in tensors}
    return {
        entry.name: _tensor(entry, bound[entry.name], dims, note)
        if entry.name in bound
        else _container(entry, by_name.get(entry.name), dims)
        for entry in entries
    }


def _by_name(names: Sequence[str], given: Any, initializers: Collection[str]) -> Mapping[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for name in given:
            if name in initializers:
                raise CostError(f"{name!r} is an initializer, whose shape is fixed (inputs: {list(names)})")
            if name not in names:
                raise CostError(unknown("input", name, names))
        return given
    if isinstance(given, (tuple, list)) and given and all(_is_one_input(part) for part in given):
        if len(given) > len(names):
            raise CostError(f"got {len(given)} inputs, but the model has {len(names)}: {list(names)}")
        return dict(zip(names, given, strict=False))
    if len(names) != 1:
        raise CostError(f"got one input, but the model has {len(names)}: {list(names)}. Give them by name")
    return {names[0]: given}


def _is_one_input(part: Any) -> bool:
    return isinstance(part, (tuple, list)) or hasattr(part, "shape")


class _UserInput:
    """An input as the user gave it: a shape, and the elements if they are few."""

    def __init__(self, given: Any, name: str, dims: Dimensions) -> None:
        self.data: Any = None
        self.dtype = given.dtype if isinstance(given, Tensor) else ""
        if isinstance(given, tuple):
            self.shape: Any = given
        elif isinstance(given, (list, int, float, bool)):
            self._take(_array(given, name), name)
        elif hasattr(given, "shape"):
            self.shape = tuple(given.shape)
            is_small = all(isinstance(d, int) for d in self.shape) and prod(self.shape) <= MOST_FOLDED
            if is_small and hasattr(given, "tolist") and not getattr(given, "is_meta", False):
                self._take(np.array(given.tolist()).reshape(self.shape), name)
        else:
            raise CostError(
                f"input {name!r} must be a shape as a tuple of ints, or values as an array or a list "
                f"(got {type(given).__name__})"
            )
        if "" in self.shape:
            raise CostError(f"shape {self.shape} of input {name!r}: a dimension has an empty name")
        try:
            self.shape = tuple(map(dims.size, self.shape))
        except TypeError as error:
            raise CostError(f"shape {self.shape} of input {name!r}: {error}") from None
        if any(isinstance(d, int) and d < 0 for d in self.shape):
            raise CostError(f"shape {self.shape} of input {name!r}: a dimension is negative")

    def _take(self, array: Any, name: str) -> None:
        if array.dtype.kind not in "biuf":
            raise CostError(f"values for input {name!r} must be numbers or booleans (got dtype {array.dtype})")
        self.shape = array.shape
        self.data = array.astype(object) if array.size <= MOST_FOLDED else None


def _array(values: Any, name: str) -> Any:
    try:
        return np.array(values)
    except ValueError as error:
        raise CostError(f"values for input {name!r} must form a rectangular array") from error


def _bind(entry: Any, given: Any, dims: Dimensions) -> _UserInput | None:
    """Return what the user gave for an input, checked against what the model declares."""
    if given is None:
        return None
    kind, where = entry.type.tensor_type, f"input {entry.name!r}"
    found = _UserInput(given, entry.name, dims)
    dtype = dtype_of(kind.elem_type, where) if kind.elem_type else ""
    if found.dtype and dtype and found.dtype != dtype:
        raise CostError(f"{where} has dtype {dtype} in the model (got {found.dtype})")
    if not kind.HasField("shape"):
        return found
    if not kind.shape.dim and isinstance(given, list) and len(given) == 1 and not isinstance(given[0], list):
        raise CostError(f"{where} is a scalar (got the list {given!r}). Give {given[0]!r}")
    if len(kind.shape.dim) != len(found.shape):
        hint = ". A tuple is a shape, a list holds values" if isinstance(given, list) else ""
        raise CostError(f"{where} has {len(kind.shape.dim)} dimensions (got the shape {found.shape}){hint}")
    for i, (d, size) in enumerate(zip(kind.shape.dim, found.shape, strict=True)):
        fixed = fixed_size(d)
        if fixed is not None and fixed != size:
            raise CostError(f"{where} has size {fixed} along axis {i} in the model (got {size})")
        if name := dimension_name(d):
            dims.bind(name, size, f"{where}, axis {i}")
    return found


def _container(entry: Any, given: Any, dims: Dimensions) -> Value:
    """Return an input that is a sequence, an optional or a map: as the user gave it, else as the model declares it."""
    value = declared_value(entry.type, dims, entry.name)
    if given is None or not isinstance(value, Container):
        return value
    kind, inner = value.kind, value.element
    if kind == "optional" and isinstance(inner, Container):
        kind, inner = inner.kind, inner.element
    dtype = inner.dtype if inner is not None else value.dtype
    if kind == "sequence" and isinstance(given, (list, tuple)):
        items = [_UserInput(part, f"{entry.name}[{i}]", dims) for i, part in enumerate(given)]
        return sequence([Value(item.shape, dtype, item.data) for item in items], dtype)
    if kind == "optional":
        item = _UserInput(given, entry.name, dims)
        return Value(item.shape, dtype, item.data)
    raise CostError(
        f"input {entry.name!r} is a {kind}; only a sequence can be given, as a list of shapes or values of its items "
        f"(got {type(given).__name__})"
    )


def _tensor(entry: Any, given: _UserInput | None, dims: Dimensions, note: Callable[[str], None]) -> Value:
    where = f"input {entry.name!r}"
    kind = entry.type.tensor_type
    has_type = entry.type.HasField("tensor_type")
    if given is not None:
        dtype = dtype_of(kind.elem_type, where) if has_type else given.dtype or "float32"
        return check_input_size(Value(given.shape, dtype, given.data), where)
    if not has_type:
        raise CostError(
            f"{where} has no dtype in the model. Give one: inputs={{{entry.name!r}: Tensor((1, 128), 'int64')}}"
        )
    dtype = dtype_of(kind.elem_type, where)
    shape = declared_shape(kind, dims)
    if shape is None:
        raise CostError(f"{where} has no shape in the model. Give one: inputs={{{entry.name!r}: (1, 3, 224, 224)}}")
    sizes: list[Dim] = [dims.fresh(f"{entry.name}_{i}") if d is None else d for i, d in enumerate(shape)]
    unnamed = [i for i, d in enumerate(shape) if d is None and is_symbolic(sizes[i])]
    if unnamed:
        symbols = ", ".join(f"{sizes[i]} along axis {i}" for i in unnamed)
        note(f"{where} has unnamed dimensions: {symbols}")
    return check_input_size(Value(tuple(sizes), dtype), where)
