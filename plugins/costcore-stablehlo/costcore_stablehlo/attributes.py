"""Convert MLIR attributes and types to Python values and abstract JAX arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from costcore.errors import CostError

REAL: Mapping[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}

DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        **REAL,
        "i1": np.bool_,
        "i2": ml_dtypes.int2,
        "i4": ml_dtypes.int4,
        "ui2": ml_dtypes.uint2,
        "ui4": ml_dtypes.uint4,
        **{f"{sign}i{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    }.items()
}
"""Element types of MLIR."""


def aval_of(kind: Any) -> jax.ShapeDtypeStruct | None:
    """Return the abstract array of a type; None for a token.

    Raises:
        CostError: for an open size, and for a type that JAX lacks.
    """
    if not isinstance(kind, ir.RankedTensorType) and str(kind) == "!stablehlo.token":
        return None
    dtype = dtype_of(kind)
    if not kind.has_static_shape:
        raise CostError(
            f"the program has values of open sizes ({kind!s:.100}). Give the shapes of its inputs, numbers or names, "
            "and the values of arguments that are sizes, such as --input arg0:=8"
        )
    return jax.ShapeDtypeStruct(tuple(kind.shape), dtype)


def dtype_of(kind: Any) -> np.dtype[Any]:
    """Return the dtype of a tensor type; sizes may be open.

    Raises:
        CostError: for a type that JAX lacks.
    """
    if not isinstance(kind, ir.RankedTensorType):
        raise CostError(f"values of type {kind!s:.100} are not supported")
    name = str(kind.element_type)
    if name.startswith("!quant."):
        name = re.split("[<:]", name)[1]
    if name not in DTYPES:
        raise CostError(f"elements of type {name:.100} are not supported")
    return DTYPES[name]


def has_shape(kind: Any, shape: Sequence[int]) -> bool:
    """Return whether a type allows a shape. Open sizes allow any size, and types without a shape any shape."""
    if not isinstance(kind, ir.RankedTensorType):
        return True
    axes = range(kind.rank)
    return len(shape) == kind.rank and all(kind.is_dynamic_dim(i) or kind.get_dim_size(i) == shape[i] for i in axes)


def constant_of(op: Any) -> tuple[Any, bool]:
    """Return the elements of a constant, and False; if all elements are equal, one number, and True.

    Elements that the Python bindings cannot read, such as complex numbers, become zeros: costs do not change.

    Raises:
        CostError: if its type is not supported.
    """
    aval = aval_of(op.results[0].type)
    if aval is None:
        raise CostError("a constant is a token")
    try:
        attribute = op.attributes["value"]
        if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
            return np.asarray(attribute.get_splat_value().value).astype(aval.dtype)[()], True
        return np.asarray(attribute).reshape(aval.shape).astype(aval.dtype, copy=False), False
    except (AttributeError, TypeError, ValueError):
        zero = np.zeros((), aval.dtype)
        if is_real(aval.dtype):
            return np.broadcast_to(zero, aval.shape), False  # a view, so it takes no memory
        return zero[()], True


def is_real(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is floating-point, as weights are."""
    return any(dtype == np.dtype(each) for each in REAL.values()) and dtype.kind != "c"


def get(op: Any, name: str, default: Any = None) -> Any:
    """Return an attribute of an operation as Python values; ``default`` if it is absent."""
    return plain(op.attributes[name]) if name in op.attributes else default


def plain(attribute: Any) -> Any:
    """Convert an attribute to an int, float, bool, str, or a list of these."""
    if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr, ir.StringAttr)):
        return attribute.value
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return attribute.value
    if isinstance(attribute, ir.DenseElementsAttr):
        return np.asarray(attribute).tolist()
    if isinstance(attribute, (ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr)):
        return list(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return [plain(each) for each in attribute]
    return str(attribute)


MOST_PLACES = 8
"""The maximum source lines for an operation; the innermost lines are kept."""


def lines_of(location: Any) -> str:
    """Format the source lines of a location as a traceback, innermost line last; empty if there are none."""
    lines: list[str] = []
    waiting = [(location, "")]
    for _ in range(4 * MOST_PLACES):  # locations may share parts
        if not waiting or len(lines) == MOST_PLACES:
            break
        place, name = waiting.pop()
        if isinstance(place, ir.CallSiteLoc):
            waiting += [(place.caller, ""), (place.callee, "")]
        elif isinstance(place, ir.NameLoc):
            waiting.append((place.child_loc, place.name_str))
        elif isinstance(place, ir.FusedLoc):
            waiting += [(each, "") for each in place.locations[:1]]
        elif isinstance(place, ir.FileLineColLoc) and place.filename not in ("", "-"):
            inside = f", in {name:.200}" if name else ""
            lines.append(f'  File "{place.filename:.1000}", line {place.start_line}{inside}\n')
    return "".join(reversed(lines))


def name_of(location: Any) -> str:
    """Return the name in a location, ``jit(f)/Dense_0/dot_general``; empty if there is none."""
    return str(getattr(location, "name_str", ""))
