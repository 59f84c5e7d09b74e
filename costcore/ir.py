"""The intermediate representation: layers from frontends, costs from calculators, and marks of calculators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from costcore.errors import MissingOperandError
from costcore.numbers import Dim, as_dim, ceil_div, ceil_log2, gcd, is_symbolic, maximum, minimum

__all__ = [
    "BITS",
    "Arrangement",
    "Calculator",
    "Cost",
    "Dim",
    "Layer",
    "Operations",
    "Pattern",
    "PerElement",
    "Role",
    "Tensor",
    "as_dim",
    "ceil_div",
    "ceil_log2",
    "counts_with_empty",
    "covers",
    "element_wise",
    "frozen",
    "gcd",
    "is_symbolic",
    "layout_operator",
    "maximum",
    "minimum",
    "pattern",
    "prod",
]

Role: TypeAlias = Literal["data", "param", "state", "const"]

Pattern: TypeAlias = Literal["free", "map", "reduce", "window", "move", "make", "product", "opaque"]

BITS: Mapping[str, int] = {
    **dict.fromkeys(("int1", "uint1"), 1),
    **dict.fromkeys(("int2", "uint2"), 2),
    **dict.fromkeys(("int3", "uint3"), 3),
    **dict.fromkeys(("int4", "uint4", "float4_e2m1"), 4),
    **dict.fromkeys(("int5", "uint5"), 5),
    **dict.fromkeys(("int6", "uint6", "float6_e2m3", "float6_e3m2"), 6),
    **dict.fromkeys(("int7", "uint7"), 7),
    **dict.fromkeys(("bool", "int8", "uint8"), 8),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0"), 8),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 16),
    **dict.fromkeys(("int32", "uint32", "float32", "complex32"), 32),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 64),
    "complex128": 128,
    "string": 0,  # the shape does not determine the size of a string
}
"""Bits of one element, by dtype. Elements of less than a byte are packed."""


class frozen(dict[str, Any]):  # noqa: N801 - used like the built-in frozenset
    """A hashable mapping of names to hashable values, in a fixed order."""

    __slots__ = ("_hash",)

    def __init__(self, items: Mapping[str, Any]) -> None:
        super().__init__(items)
        self._hash: int | None = None

    def __hash__(self) -> int:  # type: ignore[override]
        if self._hash is None:
            self._hash = hash(frozenset(self.items()))
        return self._hash

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("the operands and attributes of a layer cannot be changed; create another layer")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape, dtype and role of one operand, without its values.

    Attributes:
        shape: the size of each axis, an int or a symbolic expression.
        dtype: a key of :data:`BITS`, such as ``float32``.
        role: ``data`` (activations, inputs), ``param`` (learned), ``state`` (running statistics, initial hidden
            states) or ``const`` (fixed values). A 0-d ``const`` is a scalar argument of the operator and takes no
            bytes.
        stored: the number of elements in memory of an expanded view; None if no element is repeated.
    """

    shape: tuple[Dim, ...]
    dtype: str = "float32"
    role: Role = "data"
    stored: Dim | None = None

    @property
    def size(self) -> Dim:
        """The number of elements."""
        for size in self.shape:
            if type(size) is not int and is_symbolic(size):
                return _elements(self.shape)
        return prod(self.shape)

    @property
    def stored_size(self) -> Dim:
        """The number of elements in memory, at most ``size``."""
        return self.size if self.stored is None else self.stored

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_scalar(self) -> bool:
        """True for a scalar constant."""
        return self.role == "const" and not self.shape

    @property
    def nbytes(self) -> Dim:
        """The bytes in memory, packed if an element has less than a byte; 0 for a scalar constant."""
        return 0 if self.is_scalar else self.bytes_of(self.stored_size)

    def bytes_of_part(self, elements: Dim) -> Dim:
        """Return the bytes in memory of ``elements`` elements; an expanded view stores at most ``stored``."""
        return self.bytes_of(elements if self.stored is None else minimum(elements, self.stored))

    def bytes_of(self, elements: Dim) -> Dim:
        """Return the bytes of ``elements`` elements of this tensor's dtype."""
        bits = BITS[self.dtype]
        return elements * (bits // 8) if bits % 8 == 0 else ceil_div(elements * bits, 8)


_elements = lru_cache(1 << 14)(prod)
"""The product of a shape with symbols, which takes 20 us; networks repeat their shapes."""


@dataclass(frozen=True, slots=True, init=False)
class Layer:
    """An operator with its operands: shapes, dtypes and attributes, without values.

    Layers are hashable, and equal layers have equal costs.

    Attributes:
        op: the canonical operator name (``conv``), or the framework's own name (``aten::foo``) if no ``Row`` maps it.
        inputs: tensors by operand name (``x``, ``w``, ``b``; ``x0``, ``x1`` … for the elements of a list).
        outputs: the tensors it returns.
        attrs: attributes by canonical name, spatial ones as tuples (``kernel=(3, 3)``).
    """

    op: str
    inputs: Mapping[str, Tensor]
    outputs: tuple[Tensor, ...]
    attrs: Mapping[str, Any]

    def __init__(
        self,
        op: str,
        inputs: Mapping[str, Tensor] | None = None,
        outputs: Iterable[Tensor] = (),
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "inputs", frozen(inputs or {}))
        object.__setattr__(self, "outputs", tuple(outputs))
        object.__setattr__(self, "attrs", frozen(attrs or {}))

    def __getitem__(self, operand: str) -> Tensor:
        try:
            return self.inputs[operand]
        except KeyError:
            raise MissingOperandError(self.op, operand, self.inputs) from None

    def __contains__(self, operand: str) -> bool:
        return operand in self.inputs

    def get(self, operand: str) -> Tensor | None:
        """Return the operand of that name, or None if it is absent."""
        return self.inputs.get(operand)

    @property
    def out(self) -> Tensor:
        """The first output."""
        if not self.outputs:
            raise MissingOperandError(self.op, "output", ())
        return self.outputs[0]

    @property
    def read(self) -> Dim:
        """The bytes of all inputs, each read once."""
        return sum(tensor.nbytes for tensor in self.inputs.values())

    @property
    def written(self) -> Dim:
        """The bytes of all outputs."""
        return sum(tensor.nbytes for tensor in self.outputs)

    @property
    def n_params(self) -> Dim:
        """The number of elements of the learned parameters among the inputs."""
        return sum(tensor.stored_size for tensor in self.inputs.values() if tensor.role == "param")

    def map_dims(self, change: Callable[[Any], Any]) -> Layer:
        """Return the layer with ``change`` applied to every dimension and every attribute."""

        def tensor(t: Tensor) -> Tensor:
            stored = None if t.stored is None else change(t.stored)
            return Tensor(tuple(change(d) for d in t.shape), t.dtype, t.role, stored)

        def attribute(value: Any) -> Any:
            return tuple(attribute(v) for v in value) if isinstance(value, tuple) else change(value)

        return Layer(
            self.op,
            {name: tensor(t) for name, t in self.inputs.items()},
            [tensor(t) for t in self.outputs],
            {name: attribute(value) for name, value in self.attrs.items()},
        )


@dataclass(frozen=True, slots=True)
class Operations:
    """The number of arithmetic operations of each class. Supports ``+``, and ``*`` with a count.

    Attributes:
        fma: multiplications with the product added to an accumulator (fused multiply-add).
        mul: multiplications.
        add: additions, subtractions, negations, absolute values.
        div: divisions.
        cmp: comparisons, minima, maxima, selections, rounding, logic.
        special: evaluations of exp, log, sqrt, pow, erf, tanh, sin and the like.
    """

    fma: Dim = 0
    mul: Dim = 0
    add: Dim = 0
    div: Dim = 0
    cmp: Dim = 0
    special: Dim = 0

    def __add__(self, other: Operations) -> Operations:
        if not isinstance(other, Operations):
            return NotImplemented
        return Operations(*(getattr(self, name) + getattr(other, name) for name in OPERATION_CLASSES))

    def __mul__(self, count: Dim) -> Operations:
        return Operations(*(getattr(self, name) * count for name in OPERATION_CLASSES))

    __rmul__ = __mul__

    def flops(self, fma_1flop: bool = True) -> Dim:
        """Return the sum of all classes, with an ``fma`` counted as 1, or as 2 if ``fma_1flop`` is False."""
        terms = (self.fma if fma_1flop else 2 * self.fma, self.mul, self.add, self.div, self.cmp, self.special)
        counted = [n for n in terms if type(n) is not int or n]  # adding 0 to a sympy expression is slow, too
        return sum(counted[1:], start=counted[0]) if counted else 0


OPERATION_CLASSES = tuple(field.name for field in fields(Operations))


class PerElement(NamedTuple):
    """The operations of an element-wise operator for one element of its output.

    Attributes:
        operations: the number of operations of each class.
        definition: the expression whose operations are counted, ``x / (1 + exp(-x))``, as Python code that tests
            execute. Names are operands, attributes and functions. ``where(c, a, b)`` counts both branches.
    """

    operations: Operations
    definition: str


class Cost(NamedTuple):
    """The cost of one operator call. A calculator may also return a plain tuple of four to six values.

    Attributes:
        flops: arithmetic operations, an int or :class:`Operations`.
        mread: bytes read.
        mwrite: bytes written.
        params: the attributes to display, by canonical name. (Learned parameters are counted as ``n_params``.)
        macs: multiplications in matrix products, including convolutions and attention.
        mcomm: bytes that one process sends to others.
    """

    flops: Dim | Operations
    mread: Dim
    mwrite: Dim
    params: Mapping[str, Any]
    macs: Dim = 0
    mcomm: Dim = 0


Calculator: TypeAlias = Callable[[Layer], "Cost | tuple[Any, Any, Any, Mapping[str, Any]]"]


class Arrangement(NamedTuple):
    """The memory layout of a matrix product.

    Attributes:
        copied: the operands to copy into another layout first.
        order: the axes of the output in memory order.
        adds_bias: whether a further pass over the output adds the bias.
    """

    copied: Sequence[str]
    order: tuple[int, ...]
    adds_bias: bool = False


Layout: TypeAlias = Callable[[Layer, Mapping[str, Sequence[int]]], Arrangement]

_F = TypeVar("_F", bound=Callable[..., Any])


def covers(*ops: str | Mapping[str, object]) -> Callable[[_F], _F]:
    """Mark a function as the calculator of several operators, instead of the one in its name, ``calc_<op>``.

    With a table, ``@covers(TABLE)``, the operators are the keys of the table. The table is stored as
    ``function.table``, and DETAILS.md prints its values, one row per operator.
    """
    names = tuple(name for entry in ops for name in ((entry,) if isinstance(entry, str) else entry))
    table = {name: value for entry in ops if isinstance(entry, Mapping) for name, value in entry.items()}

    def mark(function: _F) -> _F:
        function.ops = names  # type: ignore[attr-defined]
        function.table = table  # type: ignore[attr-defined]
        return function

    return mark


def layout_operator(function: _F) -> _F:
    """Mark a calculator as data movement only: zero-cost with ``layout="free"``."""
    function.is_layout = True  # type: ignore[attr-defined]
    return function


def element_wise(function: _F) -> _F:
    """Mark a calculator of element-wise operators.

    Operands are broadcast to the shape of the outputs. The receptive field needs no rule for these operators: a
    position of the output depends on the same position of each operand. Their pattern is ``map`` unless :func:`pattern`
    states another.
    """
    function.is_element_wise = True  # type: ignore[attr-defined]
    if not hasattr(function, "pattern"):
        function.pattern = "map"  # type: ignore[attr-defined]
    return function


def pattern(
    default: Pattern | Callable[[Layer], Pattern],
    *,
    rows: Callable[[Layer], Dim] | None = None,
    layout: Layout | None = None,
    **by_op: Pattern,
) -> Callable[[_F], _F]:
    """Mark a calculator with the pattern of its operators: which inputs an output element depends on.

    Compilers fuse operators by pattern, see :mod:`costcore.analyses.fusion`. Operators without a pattern are
    ``opaque`` and never fused.

    * ``free``: nothing runs: the output is the first input, perhaps in another shape.
    * ``map``: an output element depends on one element of each operand, with broadcasting.
    * ``reduce``: it depends on a row of the input, independently of other rows.
    * ``window``: it depends on several elements, or on elements at computed positions.
    * ``move``: it is a copy of one element of one operand.
    * ``make``: it depends on no tensor.
    * ``product``: a matrix engine or a tuned library computes it.
    * ``opaque``: anything else.

    Args:
        default: the pattern, or a function that returns the pattern of a layer.
        rows: returns the number of rows that a reduction reduces. By default, an output smaller than the input has one
            element per row; for an output as large as the input, the attribute ``axis`` names the axes of a row.
        layout: returns the :class:`Arrangement` of a product. It is called as ``layout(layer, orders)``: ``orders``
            maps the names of transposed operands to the memory order of their axes.
        by_op: exceptions: the pattern of single operators, by operator name.
    """

    def mark(function: _F) -> _F:
        function.pattern = default  # type: ignore[attr-defined]
        function.pattern_by_op = by_op  # type: ignore[attr-defined]
        function.rows = rows  # type: ignore[attr-defined]
        function.layout = layout  # type: ignore[attr-defined]
        return function

    return mark


def counts_with_empty(*operands: str) -> Callable[[_F], _F]:
    """Mark a calculator of operators that compute even with these inputs empty.

    Without the mark, no operations are counted for a layer with an empty input, and the calculator is not called.
    """

    def mark(function: _F) -> _F:
        function.may_be_empty = operands  # type: ignore[attr-defined]
        return function

    return mark
