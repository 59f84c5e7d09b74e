"""The shapes of inputs that a user gives for a model whose file leaves sizes open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.errors import CostError
from costcore.messages import unknown


def given_shapes(names: Sequence[str], inputs: Any) -> dict[int, tuple[Any, ...]]:
    """Return the shapes that are given, by the position of the input.

    Args:
        names: the names of the inputs of the model.
        inputs: shapes or arrays in order or by name, or one of them; None for none.

    Raises:
        CostError: if an input does not exist.
        TypeError: if one of them is not a shape.
    """
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        if wrong := [name for name in inputs if name not in names]:
            raise CostError(unknown("input", wrong, list(names)))
        return {names.index(name): _shape(value) for name, value in inputs.items()}
    is_one = isinstance(inputs, tuple) and all(not isinstance(item, (tuple, list)) for item in inputs)
    listed = [inputs] if is_one or hasattr(inputs, "shape") else list(inputs)
    if len(listed) > len(names):
        raise CostError(f"{len(listed)} inputs were given, but the model has {len(names)}: {', '.join(names)}")
    return dict(enumerate(map(_shape, listed)))


def _shape(value: Any) -> tuple[Any, ...]:
    found: Any = getattr(value, "shape", value)
    if not isinstance(found, (tuple, list)):
        raise TypeError(f"expected a shape such as (1, 3, 224, 224) or an array (got {value!r})")
    return tuple(found)
