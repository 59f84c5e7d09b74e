"""What the caller says of a model's inputs, and what the model says itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costcore.dims import Dim, as_dim
from costcore.errors import CostError
from costcore.ir import prod

from .containers import declared as container
from .containers import sequence
from .dimensions import Dimensions
from .shapes import declared_shape
from .values import FOLDED, Container, Value, dtype_of


def bound_inputs(declared: Sequence[Any], given: Any, dims: Dimensions) -> dict[str, Value]:
    """The value of every input.

    Args:
        declared: the model's inputs (``ValueInfoProto``), without initializers.
        given: shapes (tuples) and values (arrays or lists) by name, or in order, or just one.
        dims: names of dimensions, which given shapes bind.

    Raises:
        CostError: for an input that does not exist, has another rank or another length, or has no shape at all.
    """
    wanted = _by_name([entry.name for entry in declared], given)
    tensors = [entry for entry in declared if entry.type.WhichOneof("value") in (None, "tensor_type")]
    bound = {entry.name: _bind(entry, wanted.get(entry.name), dims) for entry in tensors}
    return {
        entry.name: _value(entry, bound[entry.name], dims)
        if entry.name in bound
        else _container(entry, wanted.get(entry.name), dims)
        for entry in declared
    }


def _by_name(names: Sequence[str], given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for name in given:
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

    def __init__(self, given: Any, name: str) -> None:
        self.data: Any = None
        if isinstance(given, tuple):
            self.shape = given
        elif isinstance(given, (list, int, float, bool)):
            self._take(np.array(given), name)
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

    def _take(self, array: Any, name: str) -> None:
        if array.dtype.kind not in "biuf":
            raise CostError(f"input {name!r} is given values that are not numbers")
        self.shape = array.shape
        self.data = array.astype(object) if array.size <= FOLDED else None


def _bind(entry: Any, given: Any, dims: Dimensions) -> _Given | None:
    """What is given of an input, held against what the model declares of it."""
    if given is None:
        return None
    kind, where = entry.type.tensor_type, f"input {entry.name!r}"
    found = _Given(given, entry.name)
    try:
        found.shape = tuple(dims(d) if isinstance(d, str) else as_dim(d) for d in found.shape)
    except TypeError as error:
        raise CostError(f"{where} is given the shape {found.shape}: {error}") from None
    if any(isinstance(d, int) and d < 0 for d in found.shape):
        raise CostError(f"{where} is given the negative shape {found.shape}")
    if not kind.HasField("shape"):
        return found
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
        found = [_Given(part, f"{entry.name}[{i}]") for i, part in enumerate(given)]
        return sequence([Value(part.shape, dtype, part.data) for part in found], dtype)
    if kind == "optional":
        one = _Given(given, entry.name)
        return Value(one.shape, dtype, one.data)
    raise CostError(
        f"input {entry.name!r} is a {kind}; accepted is a list of the shapes or values of what it holds, for a sequence"
    )


def _value(entry: Any, given: _Given | None, dims: Dimensions) -> Value:
    where = f"input {entry.name!r}"
    if not entry.type.HasField("tensor_type"):
        return Value(None)
    kind = entry.type.tensor_type
    dtype = dtype_of(kind.elem_type, where)
    if given is not None:
        return Value(given.shape, dtype, given.data)
    if any(d.HasField("dim_value") and d.dim_value < 0 for d in kind.shape.dim):
        raise CostError(f"{where} has a negative dimension in its shape {[d.dim_value for d in kind.shape.dim]}")
    shape = declared_shape(kind, dims)
    if shape is None:
        raise CostError(f"{where} has no shape in the model; give it one: inputs={{{entry.name!r}: (1, 3, 224, 224)}}")
    named: list[Dim] = [dims(f"{entry.name}_{i}") if d is None else d for i, d in enumerate(shape)]
    return Value(tuple(named), dtype)
