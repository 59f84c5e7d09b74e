"""The arguments of a function: shapes, tensors and arrays as abstract values of JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import jax
import jax.export
import jax.numpy as jnp

from costcore.errors import CostError, short_repr
from costcore.ir import Tensor
from costcore.trace.trace import Value

JAX_NAMES = {"float8_e8m0": "float8_e8m0fnu", "float4_e2m1": "float4_e2m1fn"}
"""Dtypes that JAX names otherwise."""


def is_shape(value: object) -> bool:
    """Return whether a value is a shape: a tuple of ints or symbolic sizes that is not empty."""
    return (
        isinstance(value, tuple)
        and not hasattr(value, "_fields")
        and bool(value)
        and all(_is_size(size) for size in value)
    )


def _is_size(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or jax.export.is_symbolic_dim(value)


def arguments(inputs: Any, dtype: Any = None) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments by position and by name, with abstract values in place of shapes, tensors and arrays.

    Args:
        inputs: one argument, a tuple or list of several, or a dict of arguments by name.
        dtype: the dtype of inputs given as shapes; default: float32.

    Raises:
        CostError: for a leaf that is neither a shape nor an array.
    """
    if isinstance(inputs, Mapping):
        return [], {name: abstract(value, dtype, repr(name)) for name, value in inputs.items()}
    if inputs is None:
        return [], {}
    is_one = is_shape(inputs) or not isinstance(inputs, (tuple, list)) or inputs == () or hasattr(inputs, "_fields")
    positional: Sequence[Any] = [inputs] if is_one else inputs
    return [abstract(value, dtype, str(i)) for i, value in enumerate(positional)], {}


def abstract(argument: Any, dtype: Any = None, label: str = "") -> Any:
    """Return a pytree of arguments whose leaves are abstract values, or Python values to pass as they are."""
    if isinstance(argument, tuple) and argument == ():
        return _array((), dtype)
    return jax.tree.map(lambda leaf: _leaf(leaf, dtype, label), argument, is_leaf=lambda leaf: is_shape(leaf))


def _leaf(leaf: Any, dtype: Any, label: str) -> Any:
    if isinstance(leaf, Value):
        return leaf.value
    if is_shape(leaf):
        if any(isinstance(size, int) and size < 0 for size in leaf):
            raise CostError(f"argument {label} has a negative size: {leaf}")
        return _array(leaf, dtype)
    if isinstance(leaf, Tensor):
        return _array(leaf.shape, JAX_NAMES.get(leaf.dtype, leaf.dtype))
    if is_static(leaf):
        return leaf
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    raise CostError(
        f"argument {label} is {short_repr(leaf)} (expected a shape as a tuple of ints, a costcore.Tensor, "
        "a jax.ShapeDtypeStruct, an array, or a pytree of these)"
    )


def _array(shape: Sequence[Any], dtype: Any) -> jax.ShapeDtypeStruct:
    try:
        return jax.ShapeDtypeStruct(tuple(shape), jnp.float32 if dtype is None else jnp.dtype(dtype))
    except TypeError as error:
        raise ValueError(f"{error} (expected a dtype of JAX, such as 'bfloat16')") from error


def is_static(leaf: object) -> bool:
    """Return whether an argument is passed as it is: a Python number, a text or a function."""
    return isinstance(leaf, (bool, int, float, complex, str, type, FunctionType))
