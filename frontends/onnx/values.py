"""Values of the graph: shapes, dtypes, elements of small constants, and named dimensions.

The last section folds constants: arithmetic on object arrays of exact numbers and symbolic expressions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto, numpy_helper

from costcore.errors import CostError, did_you_mean
from costcore.ir import BITS, Role, Tensor, prod
from costcore.numbers import (
    HIGHEST_DEGREE,
    Dim,
    as_dim,
    degree,
    evaluate,
    floor_div,
    is_symbolic,
    maximum,
    minimum,
    size_from,
    symbol_of,
)

# Values


Shape: TypeAlias = "tuple[Dim, ...]"

MOST_AXES = 1000
"""The maximum rank of an input; no framework supports more."""

MOST_FOLDED = 1024
"""The maximum size of tensors with known elements."""

DIMENSION_LIMIT = 1 << 4096
"""The limit of a dimension. No model needs more, but a chain of doublings could reach any number."""


def _dtype_name(onnx_name: str) -> str:
    renamed = {"float": "float32", "double": "float64", "float4e2m1": "float4_e2m1", "float8e8m0": "float8_e8m0"}
    name = onnx_name.lower()
    if name.startswith(("float8e", "float6e")) and name not in renamed:
        return f"{name[:6]}_{name[6:]}"
    return renamed.get(name, name)


DTYPES: Mapping[int, str] = {
    number: dtype for name, number in TensorProto.DataType.items() if (dtype := _dtype_name(name)) in BITS
}
"""Dtype by ``TensorProto.DataType``."""

FLOATS = frozenset(dtype for dtype in DTYPES.values() if dtype.startswith(("float", "bfloat", "complex")))

FOLDABLE_TYPES = frozenset(
    number
    for number, dtype in DTYPES.items()
    if dtype in ("bool", "float16", "bfloat16", "float32", "float64") or "int" in dtype
) - frozenset(number for number, dtype in DTYPES.items() if BITS[dtype] < 8)
"""``TensorProto.DataType`` of tensors whose elements are read."""


@dataclass(slots=True, eq=False)
class StoredTensor:
    """A tensor stored in the model: an initializer, or the value of a ``Constant`` node.

    Attributes:
        name: name of the initializer, or of the output of the node.
        size: number of elements.
        dtype: dtype.
        uses: the roles in which operators of this pass read it: ``param``, ``state``, ``const``, or
            ``configuration`` (its elements are settings of the operator).
        identity: its operand id, once an operator reads it.
        is_buffer: whether the exporter marks it as not learned.
        is_in_program: whether the exporter marks it as a tensor of the user's program that is not learned.
        is_constant: whether it is not learned, because it is stored in a ``Constant`` node and the exporter stores
            learned tensors as initializers.
        is_learned: whether the exporter marks it as a parameter, even with a single element.
        is_unmarked: whether the exporter marks neither parameters nor buffers.
        folded_from: names of the parameters that the exporter folded into it, together with other values; ``""`` if
            none.
    """

    name: str
    size: int
    dtype: str
    uses: set[str] = field(default_factory=set)
    identity: int = 0
    is_buffer: bool = False
    is_in_program: bool = False
    is_constant: bool = False
    is_learned: bool = False
    is_unmarked: bool = False
    folded_from: str = ""

    @property
    def is_parameter(self) -> bool:
        """True if it counts as a learned parameter: it is read as one, or it is unused and looks like one."""
        looks_like_one = self.dtype in FLOATS and self.size != 1 and not (self.is_buffer or self.is_constant)
        return "param" in self.uses or (not self.uses and (looks_like_one or self.is_learned))

    @property
    def is_state(self) -> bool:
        """True if it is stored state that is not learned, such as running statistics."""
        return self.is_buffer or "state" in self.uses


@dataclass(slots=True, eq=False)
class Value:
    """A value of the graph.

    Attributes:
        shape: its dimensions, ints or symbolic expressions; None if even the rank is unknown.
        dtype: dtype.
        data: its elements as an object array of exact numbers and symbolic expressions, if known.
        partial: its elements with None for unknown elements, if only some are known.
        role: ``param`` for a stored floating-point tensor; ``const`` for any other stored value, and for a result of
            constants and shapes alone; ``data`` for everything that the run computes.
        follows_shapes: whether a ``const`` depends on shapes of this run.
        stored: its stored tensor, also after operators that only forward or reshape it.
        identity: the operand id in this run.
        spread: its shape before elements were repeated along axes, for example by ``Expand``; None if they were not.
    """

    shape: Shape | None
    dtype: str = "float32"
    data: Any = None
    role: Role = "data"
    follows_shapes: bool = False
    stored: StoredTensor | None = None
    identity: int = 0
    spread: Shape | None = None
    partial: Any = None

    @property
    def size(self) -> Dim:
        """Number of elements. Raises ``Undetermined`` if the rank is unknown."""
        return prod(self.known_shape)

    @property
    def known_shape(self) -> Shape:
        """The shape. Raises ``Undetermined`` if the rank is unknown."""
        if self.shape is None:
            raise Undetermined
        return self.shape

    def viewed(self, shape: Shape) -> Value:
        """Return the same value in the shape in which an operator reads it (a transposed weight)."""
        spread = self.spread if shape == self.shape else None
        return Value(shape, self.dtype, None, self.role, self.follows_shapes, self.stored, self.identity, spread)

    def unstored(self) -> Value:
        """Return a copy of this value that is not stored."""
        return Value(
            self.shape, self.dtype, self.data, self.role, self.follows_shapes, spread=self.spread, partial=self.partial
        )

    def tensor(self, role: Role) -> Tensor:
        """Return the operand of an operator that reads this value in ``role``.

        A stored scalar is a plain number even as weight or bias, unless the exporter marks it as a parameter.
        """
        shape = self.known_shape
        if self.role == "data":
            return Tensor(shape, self.dtype, stored=None if self.spread is None else prod(self.spread))
        is_learned = self.stored is not None and self.stored.is_learned
        if role in ("data", "const"):
            role = self.role if role == "data" else "const"
            if self.size == 1 and not is_learned:
                role, shape = "const", ()
        elif role == "param" and not shape and not is_learned:
            role = "const"
        if self.stored is None or self.stored.is_buffer or self.stored.is_constant:
            role = "const" if role == "param" else role
        if self.stored is not None:
            self.stored.uses.add(role)
        return Tensor(shape, self.dtype, role)


class Undetermined(Exception):  # noqa: N818 - not an error: the answer depends on data
    """Raised for an attribute, an element or a rank that depends on data."""


@dataclass(slots=True, eq=False)
class Container(Value):
    """A container of values: a sequence, a map, or an optional that may be empty.

    An optional that is known to contain a value is represented by this value.

    Attributes:
        shape: None; only a tensor has a shape.
        kind: ``sequence``, ``optional`` or ``map``.
        items: its values in order; None if one of them is unknown.
        element: shape and dtype of each item if ``items`` is None; dimensions that differ are None.
        length: number of items.
    """

    shape: Shape | None = None
    kind: str = "sequence"
    items: tuple[Value, ...] | None = None
    element: Value | None = None
    length: Dim | None = None


def value_signature(value: Value | None) -> Hashable:
    """Return all that shape rules and rows read in a value: not its identity, and not the elements of a parameter."""
    if value is None:
        return None
    data, stored = value.data, value.stored
    elements: Hashable
    if data is None:
        elements = value.partial is not None and (*value.partial.flat,)
    else:
        elements = value.role == "param" or (*data.flat, *map(type, data.flat))
    how = stored is not None and (stored.is_buffer, stored.is_constant, stored.is_learned)
    return type(value), value.shape, value.dtype, value.role, value.follows_shapes, how, elements, value.spread


def stored_value(proto: Any, name: str, where: str) -> Value:
    """Return the value of a ``TensorProto``, with its elements if they are few and stored in the file itself.

    Raises:
        CostError: for a negative dimension or an unknown dtype.
    """
    shape = tuple(proto.dims)
    if any(d < 0 for d in shape):
        raise CostError(f"{where} has a negative dimension in its shape {shape}")
    dtype = dtype_of(proto.data_type, where)
    size = prod(shape)
    return Value(
        shape,
        dtype,
        _elements(proto, size),
        "param" if dtype in FLOATS and size != 1 else "const",
        stored=StoredTensor(name, size, dtype),
    )


def check_input_size(value: Value, where: str) -> Value:
    """Check the size of an input value, and return it.

    Raises:
        CostError: for too many dimensions or elements.
    """
    if len(value.known_shape) > MOST_AXES:
        raise CostError(f"{where} has {len(value.known_shape)} dimensions; at most {MOST_AXES} are read")
    if prod(d for d in value.known_shape if isinstance(d, int)) >= DIMENSION_LIMIT:
        raise CostError(f"{where} has 2**4096 elements or more")
    return value


def dtype_of(number: int, where: str) -> str:
    """Return the dtype for a ``TensorProto.DataType``.

    Raises:
        CostError: for a number that ONNX does not define.
    """
    try:
        return DTYPES[number]
    except KeyError:
        raise CostError(f"{where} has the unknown data type {number}") from None


def _elements(proto: Any, size: int) -> Any:
    if size > MOST_FOLDED or proto.data_location == TensorProto.EXTERNAL or proto.data_type not in FOLDABLE_TYPES:
        return None
    try:
        array = numpy_helper.to_array(proto)
        return (array.astype("float32") if proto.data_type == TensorProto.BFLOAT16 else array).astype(object)
    except (TypeError, ValueError):
        return None  # removed when the file was read, or too few bytes for the shape


def number_of(count: Dim) -> Value:
    """Return a scalar that only depends on shapes."""
    data: Any = np.empty((), dtype=object)
    data[()] = count
    return Value((), "int64", data, "const", follows_shapes=True)


# Named dimensions: numbers from the user, or symbols


class Dimensions:
    """The dimensions of one run by name.

    Args:
        dims: numbers or expressions by name, from the user. An expression is a string such as ``"past + new"`` or a
            sympy expression; its names are dimensions.
        declared: the names of dimensions in the model. Some exporters write sums and products of names, such as
            ``past_length + 1``; such a name is a formula if all names in it are also declared.

    Raises:
        TypeError: if ``dims`` is not a mapping, or a size is not an integer.
        CostError: if a size is negative, or an expression contains its own name.
    """

    def __init__(self, dims: Mapping[str, Any] | None, declared: Iterable[str] = ()) -> None:
        if dims is not None and not (isinstance(dims, Mapping) and all(isinstance(name, str) for name in dims)):
            raise TypeError(f"dims must map names to sizes, such as {{'batch': 8}} (got {dims!r})")
        self._declared = frozenset(declared)
        self._dims: dict[str, Dim] = {}
        self._bound: dict[str, tuple[Dim, str]] = {}
        """Sizes from shapes of inputs, each with its input and axis."""
        self._being_read: set[str] = set()
        self._given = dict(dims or {})
        for name, size in self._given.items():
            self._check(name, size)

    def _check(self, name: str, given: Any) -> None:
        try:
            size = size_from(given, symbol_of)
        except TypeError as error:
            raise TypeError(f"dims: the size of {name!r} is invalid: {error}") from None
        if isinstance(size, int) and size < 0:
            raise CostError(f"dims: the size of {name!r} is negative (got {size})")

    def __call__(self, name: str) -> Dim:
        """Return a dimension by name.

        Raises:
            CostError: if the name is not valid UTF-8.
        """
        if not isinstance(name, str):
            raise CostError(f"the name of a dimension is not valid UTF-8: {name!r}")
        if name in self._being_read:
            return symbol_of(name)
        if name not in self._dims:
            self._dims[name] = self._as_given(name) if name in self._given else self._formula(name) or symbol_of(name)
        return self._dims[name]

    def size(self, given: Any) -> Dim:
        """Return a size that the user gave as an int, a name or a sympy expression.

        Raises:
            TypeError: for anything else.
        """
        return self(given) if isinstance(given, str) else size_from(given, self)

    def _as_given(self, name: str) -> Dim:
        given = self._given[name]
        self._being_read.add(name)
        size: Any = self(given) if given in self._declared else size_from(given, self)
        self._being_read.remove(name)
        if isinstance(size, int) and size < 0:
            raise CostError(f"dims: the size of {name!r} is negative (got {given} = {size})")
        own = symbol_of(name)
        if is_symbolic(size) and size != own and size.has(own):
            raise CostError(f"dims: the size of {name!r} contains {name!r} itself (got {given})")
        return size

    def fresh(self, name: str) -> Dim:
        """Return a new symbol for an unnamed dimension, with an unused name."""
        while name in self._declared:
            name += "'"
        return self(name)

    def _formula(self, name: str) -> Dim | None:
        # Some exporters write sums and products of names; a plain name is not a formula.
        if not any(sign in name for sign in "+-*/"):
            return None
        try:
            return evaluate(name, self._declared_size)
        except ValueError:
            return None

    def _declared_size(self, name: str) -> Dim:
        if name not in self._declared:
            raise KeyError(name)
        return self(name)

    def bind(self, name: str, size: Dim, where: str) -> None:
        """Bind a name to a size from the shape of an input.

        Raises:
            CostError: if the name already has another size.
        """
        given = self._given.get(name, size)
        found = self._dims.get(name, given if isinstance(given, int) else size)
        if found != size:
            raise CostError(f"{where}: dimension {name!r} is {found} elsewhere, and {size} here")
        self._dims[name] = size
        self._bound[name] = size, where

    def check(self) -> None:
        """Check that the model has every name, and that sizes are consistent.

        Raises:
            CostError: if not; the message lists the dimensions of the model.
        """
        sizes = {name: (self(name), "dims") for name in self._given if name in self._dims} | self._bound
        for name, (size, where) in sizes.items():
            described = self._formula(name), self._as_given(name) if name in self._given else None
            for other, by in zip(described, ("the other inputs", "dims"), strict=True):
                if isinstance(other, int) and isinstance(size, int) and other != size:
                    raise CostError(f"{where}: dimension {name!r} is {other} by {by}, and {size} here")
        for name in self._given:
            if name not in self._dims:
                shown = ", ".join(sorted(self._dims)[:20])
                expected = f"expected {shown}" if shown else "the model fixes all sizes: leave it out"
                hint = did_you_mean([name], self._dims)
                raise CostError(f"dims: unknown dimension {name!r} ({expected}){hint}")


def may_be_equal(a: Dim, b: Dim) -> bool:
    """Return True if one dimension is a number and the other an expression that may have that value."""
    return is_symbolic(a) != is_symbolic(b)


def describe_size(length: Dim) -> str:
    """Return a data-dependent size as text: its symbol, or the number that the user gave."""
    return f"the symbol {length}" if is_symbolic(length) else f"{length}, as given"


def declared_names(values: Iterable[Any]) -> set[str]:
    """Return the names of dimensions of tensors (``ValueInfoProto``)."""
    shapes = (value.type.tensor_type.shape for value in values)
    return {d.dim_param for shape in shapes for d in shape.dim if d.dim_param}


# Declared shapes (``value_info``, graph inputs and outputs)


UNKNOWN = frozenset(("", "?", "-1", "None"))
"""Placeholders instead of names; two axes with the same placeholder may differ in size."""


def declared_shape(kind: Any, dims: Dimensions) -> tuple[Dim | None, ...] | None:
    """Return the shape of a tensor type: numbers, named dimensions, None for unknown dimensions.

    A negative number is an unknown dimension, as in ONNX Runtime.
    """
    if kind is None or not kind.HasField("shape"):
        return None
    return tuple(_declared_dim(d, dims) for d in kind.shape.dim)


def _declared_dim(d: Any, dims: Dimensions) -> Dim | None:
    name = dimension_name(d)
    return dims(name) if name else fixed_size(d)


def fixed_size(d: Any) -> int | None:
    """Return the size of a fixed dimension, which some exporters write as a name; None for other dimensions."""
    if d.HasField("dim_value"):
        return int(d.dim_value) if d.dim_value >= 0 else None
    return int(d.dim_param) if _is_number(d.dim_param) else None


def dimension_name(d: Any) -> str:
    """Return the name of a dimension; empty for a number or placeholder, which some exporters write as a name."""
    name: str = d.dim_param
    return "" if name in UNKNOWN or _is_number(name) else name


def _is_number(name: Any) -> bool:
    # ``007`` and ``0`` are names.
    return isinstance(name, str) and name.isascii() and name.isdigit() and not name.startswith("0")


# Sequences, maps and optionals


MOST_ITEMS = 1024
"""The maximum length of sequences with known items; longer ones only have a length and a common shape."""


def sequence(items: Iterable[Value], dtype: str = "") -> Container:
    """Return the sequence of ``items``."""
    values = tuple(items)
    return Container(dtype=values[0].dtype if values else dtype, items=values, length=len(values))


def repeated_sequence(element: Value | None, length: Dim | None, dtype: str = "") -> Container:
    """Return a sequence of ``length`` values like ``element``."""
    if element is not None and isinstance(length, int) and length <= MOST_ITEMS and has_known_shape(element):
        return sequence([element] * length, element.dtype)
    return Container(dtype=element.dtype if element is not None else dtype, element=element, length=length)


def has_known_shape(value: Value) -> bool:
    """Return True if all dimensions of a value are known."""
    return value.shape is not None and None not in value.shape


def common_element(values: Iterable[Value | None]) -> Value | None:
    """Return the common shape and dtype of values; differing dimensions are None. None if there are no values."""
    found: Value | None = None
    for value in values:
        if value is None or isinstance(value, Container):
            continue
        if found is None:
            found = Value(value.shape, value.dtype)
        elif found.shape is None or value.shape is None or len(found.shape) != len(value.shape):
            found.shape = None
        else:
            shape: Any = tuple(a if a == b else None for a, b in zip(found.shape, value.shape, strict=True))
            found.shape = shape
    return found


def element_of(container: Container) -> Value | None:
    """Return the common shape and dtype of the items of a container."""
    return container.element if container.items is None else common_element(container.items)


def inside_loop(container: Container, length: Dim | None) -> Container:
    """Return a container inside the body of a loop, where it has ``length`` items."""
    return Container(dtype=container.dtype, kind=container.kind, element=element_of(container), length=length)


def after_loop(first: Container, last: Container, items: Dim, times: Dim) -> Container:
    """Return a container after a loop, extrapolated from its value before the loop and after one iteration."""
    length = None
    if last.length is not None and first.length is not None and last.items is None:
        added = last.length - items
        length = first.length + times * added if isinstance(added, int) or added.is_Integer else None
    if last.items is not None:
        return last
    element = common_element((element_of(first), element_of(last)))
    return Container(dtype=last.dtype or first.dtype, kind=first.kind, element=element, length=length)


def declared_value(kind: Any, dims: Dimensions, name: str) -> Value:
    """Return a value of a declared type (``TypeProto``); unknown lengths of containers become symbols."""
    if kind.HasField("tensor_type"):
        tensor = kind.tensor_type
        shape: Any = declared_shape(tensor, dims)  # the first reader replaces None by symbols
        return Value(shape, DTYPES.get(tensor.elem_type, "float32"))
    if kind.HasField("sequence_type"):
        element = declared_value(kind.sequence_type.elem_type, dims, name)
        return Container(dtype=element.dtype, element=element, length=dims.fresh(f"{name}_length"))
    if kind.HasField("optional_type"):
        element = declared_value(kind.optional_type.elem_type, dims, name)
        return Container(dtype=element.dtype, kind="optional", element=element)
    if kind.HasField("map_type"):
        element = declared_value(kind.map_type.value_type, dims, name)
        return Container(dtype=element.dtype, kind="map", element=element, length=dims.fresh(f"{name}_length"))
    return Value(None, "float32")


# Constant folding


LARGEST_EXPRESSION = 200
"""The maximum size of a folded expression, in symbols, numbers and operators; larger ones are dropped."""


def fold_elements(
    function: Callable[..., Any], arrays: Sequence[Any], shape: tuple[int, ...], *, partial: bool = False
) -> Any:
    """Apply ``function`` to arrays, and return the elements in ``shape``; None if they are not known exactly.

    With ``partial``, elements of the arrays and of the result may be None (unknown).
    """
    try:
        result = np.asarray(function(*arrays), dtype=object).reshape(shape)
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):
        return None  # a comparison of symbols, a division by zero, an index out of bounds
    if partial:
        return result if all(element is None or _is_representable(element) for element in result.flat) else None
    return result if all(map(_is_representable, result.flat)) else None


def _is_representable(element: Any) -> bool:
    if isinstance(element, (bool, float)):
        return True
    if isinstance(element, int):
        return -(1 << 63) <= element < 1 << 64
    if not is_symbolic(element) or degree(element) > HIGHEST_DEGREE:
        return False
    from sympy import preorder_traversal

    return sum(1 for _ in islice(preorder_traversal(element), LARGEST_EXPRESSION + 1)) <= LARGEST_EXPRESSION


def each(function: Callable[..., Any], *, takes_unknown: bool = False) -> Callable[..., Any]:
    """Turn a function of elements into a function of broadcast arrays.

    An unknown operand (None) gives an unknown element without a call, unless ``takes_unknown``.
    """

    def apply(*arrays: Any) -> Any:
        broadcast = np.broadcast_arrays(*arrays)
        result = np.empty(broadcast[0].shape, dtype=object)
        for where in np.ndindex(result.shape):
            elements = [array[where] for array in broadcast]
            is_unknown = not takes_unknown and any(element is None for element in elements)
            result[where] = None if is_unknown else function(*elements)
        return result

    return apply


def exact(number: Any) -> Any:
    """Convert a float to an exact fraction, which can be combined with symbols."""
    if isinstance(number, float):
        from sympy import Integer, Rational

        return Integer(int(number)) if number.is_integer() else Rational(str(number))
    return number


def _mixed(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        return _plain(function(exact(a), exact(b))) if is_symbolic(a) or is_symbolic(b) else function(a, b)

    return apply


def _plain(value: Any) -> Any:
    return int(value) if is_symbolic(value) and value.is_Integer else value


def _div(a: Any, b: Any) -> Any:
    # Integers truncate toward zero, as in ONNX; symbols are sizes, so they are positive.
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return floor_div(a, b)


def _remainder(a: Any, b: Any) -> Any:
    # The result has the sign of the dividend, as in C; symbols are sizes, so they are positive.
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) % abs(b) * (-1 if a < 0 else 1)
    return math.fmod(a, b) if isinstance(a, float) else a % b


def _pow(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and abs(a) > 1 and not 0 <= b <= 64:
        raise ArithmeticError("too large for any dtype")
    return a**b


def _floor(a: Any) -> Any:
    from sympy import floor

    return _plain(floor(a)) if is_symbolic(a) else a if isinstance(a, int) else float(math.floor(a))


def _ceil(a: Any) -> Any:
    from sympy import ceiling

    return _plain(ceiling(a)) if is_symbolic(a) else a if isinstance(a, int) else float(math.ceil(a))


def _truth(relation: Any) -> bool:
    # sympy raises ``TypeError`` if the comparison depends on a symbol.
    return bool(relation)


def _equal(a: Any, b: Any) -> bool:
    if is_symbolic(a) or is_symbolic(b):
        from sympy import Eq

        return _truth(Eq(exact(a), exact(b)))
    return bool(a == b)


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": _mixed(operator.add),
    "Sub": _mixed(operator.sub),
    "Mul": _mixed(operator.mul),
    "Div": _mixed(_div),
    "Div of floats": _mixed(operator.truediv),
    "Pow": _mixed(_pow),
    "Mod": _mixed(operator.mod),
    "Mod as in C": _mixed(_remainder),
    "Max": _mixed(maximum),
    "Min": _mixed(minimum),
    "Equal": _equal,
    "Less": lambda a, b: _truth(exact(a) < exact(b)),
    "LessOrEqual": lambda a, b: _truth(exact(a) <= exact(b)),
    "Greater": lambda a, b: _truth(exact(a) > exact(b)),
    "GreaterOrEqual": lambda a, b: _truth(exact(a) >= exact(b)),
    "And": lambda a, b: bool(a) and bool(b),
    "Or": lambda a, b: bool(a) or bool(b),
    "Xor": lambda a, b: bool(a) != bool(b),
}
"""Functions of two elements by operator."""


def _root(a: Any) -> Any:
    from sympy import sqrt

    return _plain(sqrt(a))


UNARY: Mapping[str, Callable[[Any], Any]] = {
    "Abs": abs,
    "Neg": operator.neg,
    "Not": lambda a: not a,
    "Floor": _floor,
    "Ceil": _ceil,
    "Round": lambda a: a if isinstance(a, int) else float(round(a)),
    "Relu": lambda a: _plain(maximum(exact(a), 0)) if is_symbolic(a) else max(a, 0),
    "Sqrt": lambda a: _plain(a**0.5) if not is_symbolic(a) else _root(a),
    "Reciprocal": lambda a: 1 / exact(a) if is_symbolic(a) else 1.0 / a,
    "Exp": lambda a: math.exp(a),
    "Log": lambda a: math.log(a),
    "Sign": lambda a: 1 if is_symbolic(a) and a.is_positive else (a > 0) - (a < 0),
}
"""Functions of one element by operator."""


def cast(dtype: str) -> Callable[[Any], Any]:
    """Return the conversion of elements to a dtype."""

    def convert(a: Any) -> Any:
        if dtype == "bool":
            return bool(a) if not is_symbolic(a) else not _equal(a, 0)
        if is_symbolic(a):
            return a if "float" in dtype or a.is_integer else as_dim(_floor(a))
        return float(a) if "float" in dtype else int(a)

    return convert
