"""What is known of a value of the graph before it is computed: shape, element type, a few elements, origin."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from onnx import TensorProto, numpy_helper

from costcore.dims import Dim
from costcore.errors import CostError
from costcore.ir import BITS, Role, Tensor, prod

Shape: TypeAlias = "tuple[Dim, ...]"

MOST_AXES = 1000
"""Inputs with more dimensions are refused: no framework has them."""

FOLDED = 1024
"""Elements are known of tensors up to this size, whoever wrote the model."""


LARGEST = 1 << 4096
"""Dimensions beyond this are refused: no file needs them, and a chain of doublings reaches them."""


def _neutral(name: str) -> str:
    known = {"float": "float32", "double": "float64", "float4e2m1": "float4_e2m1", "float8e8m0": "float8_e8m0"}
    spelled = name.lower()
    if spelled.startswith(("float8e", "float6e")) and spelled not in known:
        return f"{spelled[:6]}_{spelled[6:]}"
    return known.get(spelled, spelled)


DTYPES: Mapping[int, str] = {
    number: dtype for name, number in TensorProto.DataType.items() if (dtype := _neutral(name)) in BITS
}
"""Neutral element type by ONNX number."""

FLOATS = frozenset(dtype for dtype in DTYPES.values() if dtype.startswith(("float", "bfloat", "complex")))

PLAIN = frozenset(
    number
    for number, dtype in DTYPES.items()
    if dtype in ("bool", "float16", "bfloat16", "float32", "float64") or "int" in dtype
) - frozenset(number for number, dtype in DTYPES.items() if BITS[dtype] < 8)
"""Numbers of the types whose elements are folded."""


@dataclass(slots=True, eq=False)
class Stored:
    """A tensor stored in the model.

    Attributes:
        name: initializer name, or the value a ``Constant`` node makes.
        size: elements.
        dtype: neutral element type.
        uses: how operators of this pass use it: ``param``, ``state``, ``const``, or ``setting`` (its elements say how).
        identity: its operand id, once an operator reads it.
        is_buffer: whether the exporter says that it is not learned.
        is_number: whether it is written in a node, in a file whose exporter keeps learned tensors elsewhere.
        is_learned: whether the exporter says that it is a parameter, which a single number can be, too.
    """

    name: str
    size: int
    dtype: str
    uses: set[str] = field(default_factory=set)
    identity: int = 0
    is_buffer: bool = False
    is_number: bool = False
    is_learned: bool = False

    @property
    def is_parameter(self) -> bool:
        """Whether it counts as a learned parameter of the model: read as one, or unread and looking like one."""
        looks_like_one = self.dtype in FLOATS and self.size != 1 and not (self.is_buffer or self.is_number)
        return "param" in self.uses or (not self.uses and (looks_like_one or self.is_learned))


@dataclass(slots=True, eq=False)
class Value:
    """A value of the graph.

    Attributes:
        shape: its dimensions, ints or integer expressions; None where even the rank is unknown.
        dtype: neutral element type.
        data: its elements as an object array of exact numbers and expressions, where known.
        role: ``param`` for stored floats, ``const`` for other stored values and what follows from them and from shapes
            alone, ``data`` for what the run computes.
        follows_shapes: whether a ``const`` follows from shapes of this run.
        stored: the tensor of the model it is, also behind operators that only rename it.
        identity: operand id of this run.
    """

    shape: Shape | None
    dtype: str = "float32"
    data: Any = None
    role: Role = "data"
    follows_shapes: bool = False
    stored: Stored | None = None
    identity: int = 0

    @property
    def size(self) -> Dim:
        """Elements; the shape must be known."""
        return prod(self.known)

    @property
    def known(self) -> Shape:
        """The shape, of which the rank must be known."""
        if self.shape is None:
            raise Undetermined
        return self.shape

    def viewed(self, shape: Shape) -> Value:
        """The same value under another shape, as an operator understands it (a transposed weight)."""
        return Value(shape, self.dtype, None, self.role, self.follows_shapes, self.stored, self.identity)

    def unstored(self) -> Value:
        """Return another value like this one, which is not stored."""
        return Value(self.shape, self.dtype, self.data, self.role, self.follows_shapes)

    def tensor(self, role: Role) -> Tensor:
        """The operand this value is, where the operator uses it in ``role``."""
        shape = self.known
        if self.role == "data":
            return Tensor(shape, self.dtype)
        if role in ("data", "const"):
            role = self.role if role == "data" else "const"
            if self.size == 1 and not (self.stored is not None and self.stored.is_learned):
                role, shape = "const", ()
        if self.stored is None or self.stored.is_buffer or self.stored.is_number:
            role = "const" if role == "param" else role
        if self.stored is not None:
            self.stored.uses.add(role)
        return Tensor(shape, self.dtype, role)


@dataclass(slots=True, eq=False)
class Container(Value):
    """A value that holds values: a sequence, a map, or an optional of which is not known that it holds something.

    An optional that holds a value is that value.

    Attributes:
        kind: ``sequence``, ``optional`` or ``map``.
        items: what it holds, in order; None where not each of them is known.
        element: what each of them is like where only that is known; dimensions that differ are None.
        length: how many they are.
    """

    shape: Shape | None = None
    kind: str = "sequence"
    items: tuple[Value, ...] | None = None
    element: Value | None = None
    length: Dim | None = None


def value_signature(value: Value | None) -> Hashable:
    """All that rules and rows see of a value, but for the elements of a learned one; which it is, they do not see."""
    if value is None:
        return None
    data, stored = value.data, value.stored
    is_told = data is not None and value.role != "param"
    elements = (*data.flat, *map(type, data.flat)) if is_told else data is not None
    how = stored is not None and (stored.is_buffer, stored.is_number, stored.is_learned)
    return type(value), value.shape, value.dtype, value.role, value.follows_shapes, how, elements


class Undetermined(Exception):  # noqa: N818 - no error: the answer is that there is none yet
    """A setting or a rank that follows only from data."""


def stored_value(proto: Any, name: str, where: str) -> Value:
    """The value of a ``TensorProto``, with its elements where they are few and in the file itself.

    Raises:
        CostError: for a negative dimension or an unknown element type.
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
        stored=Stored(name, size, dtype),
    )


def check_input_size(value: Value, where: str) -> Value:
    """Return an input value, unless it is too large to work with.

    Raises:
        CostError: for too many dimensions or elements.
    """
    if len(value.known) > MOST_AXES:
        raise CostError(f"{where} has {len(value.known)} dimensions; at most {MOST_AXES} are read")
    if prod(d for d in value.known if isinstance(d, int)) >= LARGEST:
        raise CostError(f"{where} has 2**4096 elements or more")
    return value


def dtype_of(number: int, where: str) -> str:
    """The neutral name of an element type.

    Raises:
        CostError: for a number that ONNX does not define.
    """
    try:
        return DTYPES[number]
    except KeyError:
        raise CostError(f"{where} has the unknown element type {number}") from None


def _elements(proto: Any, size: int) -> Any:
    if size > FOLDED or proto.data_location == TensorProto.EXTERNAL or proto.data_type not in PLAIN:
        return None
    try:
        array = numpy_helper.to_array(proto)
        return (array.astype("float32") if proto.data_type == TensorProto.BFLOAT16 else array).astype(object)
    except (TypeError, ValueError):
        return None  # left out when the file was read, or fewer bytes than the shape needs
