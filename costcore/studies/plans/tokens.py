"""The tokens of a sequence among the inputs of a model, and a part of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.trace.input_shapes import with_tensors

AXIS = 1
"""The dimension of an input that is taken to be tokens: the one after the batch."""


def tokens_of(inputs: Any) -> int:
    """Return how many tokens the inputs have: the largest second dimension of one; 0 if none has two."""
    return max((shape[AXIS] for shape in _shapes(with_tensors(inputs)) if len(shape) > AXIS), default=0)


def with_part_of_tokens(inputs: Any, parts: int) -> Any:
    """Return inputs with one of several equal parts of their tokens.

    Args:
        inputs: inputs as :func:`costcore.estimate` takes them.
        parts: the number of parts.

    Raises:
        CostError: if there are no tokens, or their number is not a multiple of the parts.
    """
    if parts == 1:
        return inputs
    tokens = tokens_of(inputs)
    if not tokens or tokens % parts:
        raise CostError(f"a sequence of {tokens} tokens, the second dimension of an input, has no {parts} equal parts")
    return _divided(with_tensors(inputs), tokens, parts)


def _shapes(value: Any) -> list[tuple[int, ...]]:
    if hasattr(value, "shape"):
        return [tuple(value.shape)]
    if _is_shape(value):
        return [tuple(value)]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return [shape for item in items for shape in _shapes(item)]


def _divided(value: Any, tokens: int, parts: int) -> Any:
    if hasattr(value, "shape"):
        shape = _part(tuple(value.shape), tokens, parts)
        return value if shape == tuple(value.shape) else Tensor(shape, str(value.dtype).rpartition(".")[2])
    if _is_shape(value):
        return type(value)(_part(tuple(value), tokens, parts))
    if isinstance(value, Mapping):
        return {key: _divided(item, tokens, parts) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_divided(item, tokens, parts) for item in value)
    return value


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(type(size) is int for size in value)


def _part(shape: tuple[int, ...], tokens: int, parts: int) -> tuple[int, ...]:
    if len(shape) <= AXIS or shape[AXIS] != tokens:
        return shape
    return (*shape[:AXIS], tokens // parts, *shape[AXIS + 1 :])
