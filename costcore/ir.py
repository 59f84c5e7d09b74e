"""The neutral layer: what every frontend produces and every calculator reads, and the cost it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from costcore.dims import Dim, as_dim, ceil_div, ceil_log2, gcd, is_symbolic, maximum, minimum

__all__ = [
    "BITS",
    "Calculator",
    "Cost",
    "Dim",
    "Layer",
    "Operations",
    "PerElement",
    "Role",
    "Tensor",
    "as_dim",
    "ceil_div",
    "ceil_log2",
    "covers",
    "frozen",
    "gcd",
    "is_symbolic",
    "layout_operator",
    "maximum",
    "minimum",
    "prod",
]

Role: TypeAlias = Literal["data", "param", "state", "const"]

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
    "string": 0,  # a string's size is not told by its shape
}
"""Bits of one element, by neutral element type. Sub-byte types are packed."""


class frozen(dict[str, Any]):  # noqa: N801 - reads as an adjective where it is used
    """A hashable mapping of names to hashable values, in a fixed order."""

    __slots__ = ("_hash",)

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash
        except AttributeError:
            self._hash: int = hash(frozenset(self.items()))
            return self._hash

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("operands and attributes of a layer cannot be changed; make another layer")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape, element type and role of one operand; never its values.

    Attributes:
        shape: elements along each axis, ints or integer symbols.
        dtype: neutral element type, a key of :data:`BITS`.
        role: ``data`` (activations, inputs), ``param`` (learned), ``state`` (running statistics, initial hidden
            states) or ``const`` (fixed values). A 0-d ``const`` is a scalar written into the instruction: it is
            an operand, and takes no bytes.
    """

    shape: tuple[Dim, ...]
    dtype: str = "float32"
    role: Role = "data"

    @property
    def size(self) -> Dim:
        """Elements."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_scalar(self) -> bool:
        """Whether this is a scalar constant."""
        return self.role == "const" and not self.shape

    @property
    def nbytes(self) -> Dim:
        """Bytes of all elements, sub-byte types packed; 0 for a scalar constant."""
        return 0 if self.is_scalar else self.bytes_of(self.size)

    def bytes_of(self, elements: Dim) -> Dim:
        """Bytes that ``elements`` elements of this tensor's type take."""
        bits = BITS[self.dtype]
        return elements * (bits // 8) if bits % 8 == 0 else ceil_div(elements * bits, 8)


@dataclass(frozen=True, slots=True, init=False)
class Layer:
    """One operator with the shapes, types and settings it is used with. Hashable; equal layers cost the same.

    Attributes:
        op: neutral name (``conv``), or the framework's full name (``aten::foo``) where no row translates it.
        inputs: tensors by operand name (``x``, ``w``, ``b``; ``x0``, ``x1`` … for operands of equal standing).
        outputs: the tensors it returns.
        attrs: settings by neutral name, spatial ones as tuples (``kernel=(3, 3)``).
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
        return self.inputs[operand]

    def __contains__(self, operand: str) -> bool:
        return operand in self.inputs

    def get(self, operand: str) -> Tensor | None:
        """The named operand, or None where it is not given."""
        return self.inputs.get(operand)

    @property
    def out(self) -> Tensor:
        """The first output."""
        return self.outputs[0]

    @property
    def read(self) -> Dim:
        """Bytes of all inputs, each once."""
        return sum(tensor.nbytes for tensor in self.inputs.values())

    @property
    def written(self) -> Dim:
        """Bytes of all outputs."""
        return sum(tensor.nbytes for tensor in self.outputs)

    @property
    def n_params(self) -> Dim:
        """Elements of the learned parameters among the inputs."""
        return sum(tensor.size for tensor in self.inputs.values() if tensor.role == "param")

    def map_dims(self, change: Callable[[Any], Any]) -> Layer:
        """The same layer with ``change`` applied to every dimension and every setting."""

        def tensor(t: Tensor) -> Tensor:
            return Tensor(tuple(change(d) for d in t.shape), t.dtype, t.role)

        def setting(value: Any) -> Any:
            return tuple(setting(v) for v in value) if isinstance(value, tuple) else change(value)

        return Layer(
            self.op,
            {name: tensor(t) for name, t in self.inputs.items()},
            [tensor(t) for t in self.outputs],
            {name: setting(value) for name, value in self.attrs.items()},
        )


@dataclass(frozen=True, slots=True)
class Operations:
    """Arithmetic operations by kind. Add two with ``+``, repeat with ``*`` a count.

    Attributes:
        fma: a product that is at once added to something.
        mul: multiplications.
        add: additions, subtractions, negations, absolute values.
        div: divisions.
        cmp: comparisons, minima, maxima, selections.
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
        return Operations(*(getattr(self, kind) + getattr(other, kind) for kind in KINDS))

    def __mul__(self, count: Dim) -> Operations:
        return Operations(*(getattr(self, kind) * count for kind in KINDS))

    __rmul__ = __mul__

    def flops(self, fma_1flop: bool = True) -> Dim:
        """FLOPs: the sum of all kinds, ``fma`` weighing 1 or, where ``fma_1flop`` is false, 2."""
        return self.fma * (1 if fma_1flop else 2) + self.mul + self.add + self.div + self.cmp + self.special


KINDS = tuple(field.name for field in fields(Operations))


class PerElement(NamedTuple):
    """What an element-wise operator does for one element of its output: a line of a family's table.

    Attributes:
        operations: the operations, by kind.
        definition: the expression they are counted from, ``x / (1 + exp(-x))``. It is Python, and tests execute it:
            ``where(c, a, b)`` computes both branches, and every other name is a setting or a function.
    """

    operations: Operations
    definition: str


class Cost(NamedTuple):
    """What one call of a layer costs. A calculator may return a bare 4-tuple as well.

    Attributes:
        flops: arithmetic operations, an int or :class:`Operations` by kind.
        mread: bytes read.
        mwrite: bytes written.
        params: the operator's settings for display, by neutral name.
        macs: products of matrix multiplications.
    """

    flops: Dim | Operations
    mread: Dim
    mwrite: Dim
    params: Mapping[str, Any]
    macs: Dim = 0


Calculator: TypeAlias = Callable[[Layer], "Cost | tuple[Any, Any, Any, Mapping[str, Any]]"]

_F = TypeVar("_F", bound=Callable[..., Any])


def covers(*ops: str | Mapping[str, object]) -> Callable[[_F], _F]:
    """Mark a calculator as the formula of each of ``ops``, a family of like operators, instead of ``calc_<op>``.

    A table, ``@covers(TABLE)``, covers its keys, and stays with the function as ``function.table``: what is said of
    each operator in it stands in its line of DETAILS.md.
    """
    names = tuple(name for part in ops for name in ((part,) if isinstance(part, str) else part))
    table = {name: entry for part in ops if isinstance(part, Mapping) for name, entry in part.items()}

    def mark(function: _F) -> _F:
        function.ops = names  # type: ignore[attr-defined]
        function.table = table  # type: ignore[attr-defined]
        return function

    return mark


def layout_operator(function: _F) -> _F:
    """Mark a calculator as one of pure data movement, which ``layout="free"`` makes free."""
    function.is_layout = True  # type: ignore[attr-defined]
    return function
