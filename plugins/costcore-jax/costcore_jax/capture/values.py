"""Values of a jaxpr: shape, dtype, role and identity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from costcore.ir import BITS, Role, Tensor
from costcore.numbers import Dim

from .dims import dim_of

DTYPES = {
    "float0": "bool",  # gradients of integers, which JAX stores as a byte per element
    "float4_e2m1fn": "float4_e2m1",
    "float6_e2m3fn": "float6_e2m3",
    "float6_e3m2fn": "float6_e3m2",
    "float8_e8m0fnu": "float8_e8m0",
}
"""Dtypes that costcore names otherwise."""

KEY = "uint64"
"""The dtype of a random key: two words of 32 bits for the default generator."""


@dataclass(eq=False, slots=True)
class Value:
    """A variable or a literal of a jaxpr.

    Attributes:
        shape: the sizes of the axes.
        dtype: a key of :data:`costcore.ir.BITS`; empty for tokens and other values without elements.
        role: ``param`` for a learned parameter and reshaped or sliced views of it.
        identity: its operand id.
        parameter: the parameter id of a learned parameter; 0 for all others.
        is_weight: whether it is a learned parameter, or computed from learned parameters by moving and casting only.
        number: the number, if it is a literal or a literal everywhere.
        has_gradient: whether it depends on a result of the backward pass.
        is_reversed: whether it was made by reversing axes, as the kernel is for the gradient of the input.
    """

    shape: tuple[Dim, ...]
    dtype: str
    role: Role = "data"
    identity: int = 0
    parameter: int = 0
    is_weight: bool = False
    number: Any = None
    has_gradient: bool = False
    is_reversed: bool = False

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return Tensor(self.shape).size

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def viewed(self, *shape: Dim) -> Value:
        """Return the same value with other axes."""
        return replace(self, shape=shape)

    def tensor(self) -> Tensor | None:
        """Return the operand; None for a value without elements."""
        return Tensor(self.shape, self.dtype, self.role) if self.dtype else None


def value_of(aval: Any, **fields: Any) -> Value:
    """Return a value of an abstract value of JAX."""
    aval = getattr(aval, "inner_aval", aval)  # that of a reference to memory
    shape = tuple(map(dim_of, getattr(aval, "shape", ())))
    return Value(shape, dtype_of(getattr(aval, "dtype", None)), **fields)


def dtype_of(dtype: Any) -> str:
    """Return the name of a dtype of JAX in costcore; empty for None."""
    if dtype is None:
        return ""
    name = str(dtype)
    if name.startswith("key<"):
        return KEY
    known = DTYPES.get(name, name)
    return known if known in BITS else f"uint{8 * dtype.itemsize}"
