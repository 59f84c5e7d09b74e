"""Values of a graph before it runs: shape, dtype, role, stored tensor, and the elements of small ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto, numpy_helper

from costcore.errors import CostError
from costcore.ir import BITS, Role, Tensor, prod
from costcore.numbers.dims import Dim

Shape: TypeAlias = "tuple[Dim, ...]"

MOST_AXES = 1000
"""Inputs with more dimensions are refused: no framework has them."""

MOST_FOLDED = 1024
"""Tensors up to this size have known elements."""

DIMENSION_LIMIT = 1 << 4096
"""Larger dimensions are refused: no model needs them, and a chain of doublings reaches them."""


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
        uses: roles in which operators of this pass read it: ``param``, ``state``, ``const``, or
            ``configuration`` (its elements decide what the operator does).
        identity: its operand id, once an operator reads it.
        is_buffer: whether the exporter marks it as not learned.
        is_in_program: whether the exporter marks it as a tensor of the user's program, and not as learned.
        is_number: whether a node holds it, in a file whose exporter keeps learned tensors as initializers.
        is_learned: whether the exporter marks it as a parameter, which may have a single element.
        is_unmarked: whether the exporter marks neither parameters nor buffers.
        folded_from: the parameters from which the exporter computed it, together with other values; ``""`` otherwise.
    """

    name: str
    size: int
    dtype: str
    uses: set[str] = field(default_factory=set)
    identity: int = 0
    is_buffer: bool = False
    is_in_program: bool = False
    is_number: bool = False
    is_learned: bool = False
    is_unmarked: bool = False
    folded_from: str = ""

    @property
    def is_parameter(self) -> bool:
        """True if it counts as a learned parameter: read as one, or unread and looking like one."""
        looks_like_one = self.dtype in FLOATS and self.size != 1 and not (self.is_buffer or self.is_number)
        return "param" in self.uses or (not self.uses and (looks_like_one or self.is_learned))

    @property
    def is_state(self) -> bool:
        """True if it is held without being learned, as running statistics are."""
        return self.is_buffer or "state" in self.uses


@dataclass(slots=True, eq=False)
class Value:
    """A value of the graph.

    Attributes:
        shape: its dimensions, ints or symbolic expressions; None if even the rank is unknown.
        dtype: dtype.
        data: its elements as an object array of exact numbers and symbolic expressions, if known.
        partial: the same with None for unknown elements, if some are known and some are not.
        role: ``param`` for stored floats, ``const`` for other stored values and for all that follows from these and
            from shapes alone, ``data`` for everything that the run computes.
        follows_shapes: whether a ``const`` follows from shapes of this run.
        stored: the stored tensor that it is, also behind operators that only pass it on or reshape it.
        identity: operand id in this run.
        spread: its shape without the repetition of elements along axes, as ``Expand`` repeats them; None if it repeats
            none.
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
        """Return the same value under another shape, as an operator reads it (a transposed weight)."""
        spread = self.spread if shape == self.shape else None
        return Value(shape, self.dtype, None, self.role, self.follows_shapes, self.stored, self.identity, spread)

    def unstored(self) -> Value:
        """Return another value like this one, which is not stored."""
        return Value(
            self.shape, self.dtype, self.data, self.role, self.follows_shapes, spread=self.spread, partial=self.partial
        )

    def tensor(self, role: Role) -> Tensor:
        """Return the operand for this value in an operator that reads it in ``role``.

        A stored scalar is a plain number, even as a weight or a bias, unless the exporter marks it as a parameter.
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
        if self.stored is None or self.stored.is_buffer or self.stored.is_number:
            role = "const" if role == "param" else role
        if self.stored is not None:
            self.stored.uses.add(role)
        return Tensor(shape, self.dtype, role)


@dataclass(slots=True, eq=False)
class Container(Value):
    """A value that holds values: a sequence, a map, or an optional that may be empty.

    An optional that is known to hold a value is represented by that value.

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
    """Return what shape rules and rows can read of a value, except the elements of a parameter and its identity."""
    if value is None:
        return None
    data, stored = value.data, value.stored
    elements: Hashable
    if data is None:
        elements = value.partial is not None and (*value.partial.flat,)
    else:
        elements = value.role == "param" or (*data.flat, *map(type, data.flat))
    how = stored is not None and (stored.is_buffer, stored.is_number, stored.is_learned)
    return type(value), value.shape, value.dtype, value.role, value.follows_shapes, how, elements, value.spread


class Undetermined(Exception):  # noqa: N818 - not an error: the answer depends on data
    """An attribute, an element or a rank follows from data, so it is unknown before the run."""


def stored_value(proto: Any, name: str, where: str) -> Value:
    """Return the value of a ``TensorProto``, with its elements if they are few and in the file itself.

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
    """Return an input value, unless it is too large to work with.

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
        return None  # dropped when the file was read, or fewer bytes than the shape needs


def number_of(count: Dim) -> Value:
    """Return a scalar that follows from shapes."""
    data: Any = np.empty((), dtype=object)
    data[()] = count
    return Value((), "int64", data, "const", follows_shapes=True)
