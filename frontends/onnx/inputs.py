"""Inputs of a model: shapes and values from the user, checked against declarations in the model.

The later sections handle shapes of inner values from the user, and hints on input values that would determine sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from costcore.errors import CostError, did_you_mean, unknown
from costcore.ir import Tensor, prod
from costcore.numbers import Dim, is_symbolic

from .node import Node, joined
from .values import (
    FLOATS,
    MOST_FOLDED,
    Container,
    Dimensions,
    Value,
    check_input_size,
    declared_shape,
    declared_value,
    dimension_name,
    dtype_of,
    fixed_size,
    sequence,
)


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
        dims: the named dimensions, which are bound to given sizes.
        initializers: the names of initializers; an input that is also an initializer keeps its stored shape.
        note: receives a note for every input with unnamed dimensions, which lists their symbols.

    Raises:
        CostError: for an input that does not exist, has another rank, size or dtype, or has no shape, and for two
            inputs with one name.
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
            raise CostError(
                f"{where} has size {fixed} along axis {i} in the model (got {size}), which the file fixes: "
                f"leave out this input, or export it with a name for axis {i} (dynamic_shapes, dynamic_axes)"
            )
        if name := dimension_name(d):
            dims.bind(name, size, f"{where}, axis {i}")
    return found


def _container(entry: Any, given: Any, dims: Dimensions) -> Value:
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


# Shapes of inner values from the user, for values that nothing else determines


class UserShapes:
    """Shapes from the user by full name of a value: ``loop.body/h`` is ``h`` in the body of a loop.

    Args:
        shapes: tuples of ints and dimension names, or :class:`costcore.Tensor` with a dtype.
        dims: the named dimensions.

    Raises:
        TypeError: if ``shapes`` has another type.
        CostError: for a shape with a negative or unnamed dimension, or with too many dimensions or elements.
    """

    def __init__(self, shapes: Mapping[str, Any] | None, dims: Dimensions) -> None:
        _check_types(shapes)
        self._values = {name: _value(name, shape, dims) for name, shape in (shapes or {}).items()}
        self._used: set[str] = set()

    def cover(self, prefix: str, names: Iterable[str]) -> bool:
        """Return True if one of these values has a user shape; ``prefix`` precedes their names."""
        return bool(self._values) and any(f"{prefix}{name}" in self._values for name in names)

    def apply(self, node: Node, prefix: str, outputs: Iterable[Value | None]) -> None:
        """Set the user shapes of the outputs of a node; ``prefix`` precedes their names.

        Raises:
            CostError: if an output already has another shape or dtype; the message names the node.
        """
        if not self._values:
            return
        for output, value in zip(node.proto.output, outputs, strict=False):
            name = f"{prefix}{output}"
            if name in self._values and value is not None:
                self._used.add(name)
                _fill(node, name, value, self._values[name])

    def check_used(self, inputs: Collection[str], unranked: Collection[str], produced: Collection[str]) -> None:
        """Check that every name in ``shapes`` is the output of a node.

        Args:
            inputs: the inputs of the model.
            unranked: the values of unknown rank.
            produced: all outputs of nodes.

        Raises:
            CostError: if a name is not; the message lists the values of unknown rank or, if there are none, all
                outputs.
        """
        for name in self._values:
            if name in self._used:
                continue
            if name in inputs:
                raise CostError(
                    f"shapes: {name!r} is an input of the model. Give its shape with inputs={{{name!r}: …}}"
                )
            hint = did_you_mean([name], [*unranked, *produced])
            what = "values without a shape" if unranked else "values"
            shown = joined([*map(repr, unranked or produced)])
            raise CostError(f"shapes: no node produces {name!r} ({what}: {shown}){hint}")


def _check_types(shapes: object) -> None:
    if shapes is not None and not (isinstance(shapes, Mapping) and all(isinstance(name, str) for name in shapes)):
        raise TypeError(f"shapes must map names of values to shapes, such as {{'h': ('batch', 8)}} (got {shapes!r})")
    for name, shape in (shapes or {}).items():
        if not isinstance(shape, (tuple, Tensor)):
            raise TypeError(f"shapes: the shape of {name!r} must be a tuple such as ('batch', 8) (got {shape!r})")


def dimension_names(shapes: Mapping[str, Any] | None) -> set[str]:
    """Return the names of dimensions in user shapes.

    Raises:
        TypeError: if ``shapes`` does not map names to shapes.
    """
    _check_types(shapes)
    dims = (shape.shape if isinstance(shape, Tensor) else shape for shape in (shapes or {}).values())
    return {d for shape in dims for d in shape if isinstance(d, str)}


def _value(name: str, given: Any, dims: Dimensions) -> Value:
    shape = given.shape if isinstance(given, Tensor) else given
    try:
        sizes: tuple[Dim, ...] = tuple(map(dims.size, shape))
    except TypeError as error:
        raise TypeError(f"shapes: shape {shape} of {name!r}: {error}") from None
    if "" in shape or any(isinstance(d, int) and d < 0 for d in sizes):
        what = "has an empty name" if "" in shape else "is negative"
        raise CostError(f"shapes: shape {shape} of {name!r}: a dimension {what}")
    value = Value(sizes, given.dtype if isinstance(given, Tensor) else "")
    return check_input_size(value, f"shapes: the shape of {name!r}")


def _fill(node: Node, name: str, value: Value, given: Value) -> None:
    if isinstance(value, Container):
        raise node.error(f"produces {name!r}, which is a {value.kind} (got the shape {given.shape} in shapes)")
    if given.dtype and value.dtype not in ("", given.dtype):
        raise node.error(f"produces {name!r} of dtype {value.dtype} (got {given.dtype} in shapes)")
    value.dtype = value.dtype or given.dtype
    inferred: tuple[Dim | None, ...] = given.known_shape if value.shape is None else value.shape
    if len(inferred) != len(given.known_shape) or any(
        a not in (None, b) for a, b in zip(inferred, given.known_shape, strict=True)
    ):
        shown = ", ".join("?" if d is None else str(d) for d in inferred)
        raise node.error(
            f"produces {name!r} of shape ({shown}{',' * (len(inferred) == 1)}) (got {given.shape} in shapes)"
        )
    value.shape = given.shape


# Hints on input values (sizes, counts, conditions) that the user did not give


MOST_NUMBERS = 8
"""The maximum length of an input in an example; longer inputs are data, not sizes or factors."""


class InputHints:
    """Tracks which values depend on input values that the user could give.

    Args:
        inputs: the inputs of the model by name.
    """

    def __init__(self, inputs: Mapping[str, Value] = MappingProxyType({})) -> None:
        self._sources: dict[Value, dict[str, str]] = {
            value: {name: _example(value)} for name, value in inputs.items() if _may_carry_numbers(value)
        }
        """For each value: the inputs on which it depends, with an example of each."""

    def __bool__(self) -> bool:
        return bool(self._sources)

    def propagate(self, inputs: Iterable[Value | None], outputs: Iterable[Value | None]) -> None:
        """Record that the outputs of a node depend on its inputs."""
        sources = self._sources_of(inputs)
        for value in outputs if sources else ():
            if value is not None and _may_carry_numbers(value):
                self._sources[value] = sources

    def argument(self, *values: Value | None) -> str:
        """Return the argument that would make the elements of ``values`` known; ``""`` if there is none."""
        shown = ", ".join(f"{name!r}: {example}" for name, example in self._sources_of(values).items())
        return f"inputs={{{shown}}}" if shown else ""

    def remedy(self, *values: Value | None) -> str:
        """Return the hint of an assumption on elements of ``values``: the argument that would make them known."""
        argument = self.argument(*values)
        return f"; give {argument}" if argument else ""

    def _sources_of(self, values: Iterable[Value | None]) -> dict[str, str]:
        return {name: example for value in values if value for name, example in self._sources.get(value, {}).items()}


def _may_carry_numbers(value: Value) -> bool:
    # Sizes, positions, factors and conditions are short vectors or scalars.
    if value.data is not None or value.shape is None or len(value.shape) > 1 or 0 in value.shape:
        return False
    is_short = all(isinstance(d, int) and d <= MOST_NUMBERS for d in value.shape)
    return value.dtype == "bool" or "int" in value.dtype or (value.dtype in FLOATS and is_short)


def _example(value: Value) -> str:
    one = "True" if value.dtype == "bool" else "9.0" if value.dtype in FLOATS else "9"
    (length,) = value.known_shape or (0,)
    shown = length if isinstance(length, int) and length <= MOST_NUMBERS else 2
    return f"[{', '.join([one] * shown)}]" if value.known_shape else one
