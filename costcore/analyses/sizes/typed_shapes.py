"""Shapes with the name of a dtype, ``((2, 128), "int64")``, among the inputs of a model."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from costcore.analyses.sizes.inputs import is_integer, is_named
from costcore.ir import BITS, Tensor
from costcore.messages import unknown


def with_tensors(inputs: Any) -> Any:
    """Return inputs with a :class:`Tensor` for every pair of a shape and the name of a dtype; the rest is the same.

    Raises:
        ValueError: if a text beside a shape is almost the name of a dtype.
    """
    if _is_typed_shape(inputs):
        return Tensor(tuple(inputs[0]), inputs[1])
    if type(inputs) is dict:
        return {name: with_tensors(value) for name, value in inputs.items()}
    if type(inputs) in (list, tuple):
        return type(inputs)(map(with_tensors, inputs))
    return inputs


def _is_typed_shape(value: Any) -> bool:
    if type(value) is not tuple or len(value) != 2 or not isinstance(value[1], str):
        return False
    shape, dtype = value
    if type(shape) not in (list, tuple) or not shape or not all(is_named(size) or is_integer(size) for size in shape):
        return False
    if dtype not in BITS and get_close_matches(dtype, BITS, cutoff=0.75):  # another text is an argument of the model
        raise ValueError(f"shape {tuple(shape)} with a dtype: {unknown('dtype', dtype, BITS)}")
    return dtype in BITS
