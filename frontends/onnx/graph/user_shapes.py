"""Shapes that the user gives for values inside the model, if nothing else determines them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.messages import did_you_mean
from costcore.numbers.dims import Dim

from ..values.dimensions import Dimensions
from ..values.value import Container, Value, check_input_size
from .messages import joined
from .node import Node


class UserShapes:
    """Shapes by the full name of a value, ``loop.body/h`` for the ``h`` of a loop's body.

    Args:
        shapes: tuples of ints and names of dimensions, or :class:`costcore.Tensor` with a dtype too.
        dims: named dimensions.

    Raises:
        TypeError: if ``shapes`` has another form.
        CostError: for a shape with a negative or unnamed dimension, or with too many dimensions or elements.
    """

    def __init__(self, shapes: Mapping[str, Any] | None, dims: Dimensions) -> None:
        _check_types(shapes)
        self._values = {name: _value(name, shape, dims) for name, shape in (shapes or {}).items()}
        self._used: set[str] = set()

    def cover(self, prefix: str, names: Iterable[str]) -> bool:
        """Return True if one of these values has a user shape; ``prefix`` goes before their names."""
        return bool(self._values) and any(f"{prefix}{name}" in self._values for name in names)

    def apply(self, node: Node, prefix: str, outputs: Iterable[Value | None]) -> None:
        """Fill in the user shapes of the outputs of a node; ``prefix`` goes before their names.

        Raises:
            CostError: if an output has another shape or dtype already; the message includes the node.
        """
        if not self._values:
            return
        for output, value in zip(node.proto.output, outputs, strict=False):
            name = f"{prefix}{output}"
            if name in self._values and value is not None:
                self._used.add(name)
                _fill(node, name, value, self._values[name])

    def check_used(self, inputs: Collection[str], unranked: Collection[str], produced: Collection[str]) -> None:
        """Refuse names that no node produces.

        Args:
            inputs: the inputs of the model.
            unranked: the values of unknown rank.
            produced: the values that its nodes produce.

        Raises:
            CostError: naming the values of unknown rank if there are any, else all that nodes produce.
        """
        for name in self._values:
            if name in self._used:
                continue
            if name in inputs:
                raise CostError(
                    f"shapes: {name!r} is an input of the model. Give its shape with inputs={{{name!r}: …}}"
                )
            hint = did_you_mean([name], [*unranked, *produced])
            what = "values without a shape" if unranked else "values"
            shown = joined([*map(repr, unranked or produced)])
            raise CostError(f"shapes: no node produces {name!r} ({what}: {shown}){hint}")


def _check_types(shapes: object) -> None:
    """Refuse anything but shapes by name.

    Raises:
        TypeError: with what was expected.
    """
    if shapes is not None and not (isinstance(shapes, Mapping) and all(isinstance(name, str) for name in shapes)):
        raise TypeError(f"shapes must map names of values to shapes, such as {{'h': ('batch', 8)}} (got {shapes!r})")
    for name, shape in (shapes or {}).items():
        if not isinstance(shape, (tuple, Tensor)):
            raise TypeError(f"shapes: the shape of {name!r} must be a tuple such as ('batch', 8) (got {shape!r})")


def dimension_names(shapes: Mapping[str, Any] | None) -> set[str]:
    """Return the names of dimensions in user shapes.

    Raises:
        TypeError: for anything but shapes by name.
    """
    _check_types(shapes)
    dims = (shape.shape if isinstance(shape, Tensor) else shape for shape in (shapes or {}).values())
    return {d for shape in dims for d in shape if isinstance(d, str)}


def _value(name: str, given: Any, dims: Dimensions) -> Value:
    shape = given.shape if isinstance(given, Tensor) else given
    try:
        sizes: tuple[Dim, ...] = tuple(map(dims.size, shape))
    except TypeError as error:
        raise TypeError(f"shapes: shape {shape} of {name!r}: {error}") from None
    if "" in shape or any(isinstance(d, int) and d < 0 for d in sizes):
        what = "has an empty name" if "" in shape else "is negative"
        raise CostError(f"shapes: shape {shape} of {name!r}: a dimension {what}")
    value = Value(sizes, given.dtype if isinstance(given, Tensor) else "")
    return check_input_size(value, f"shapes: the shape of {name!r}")


def _fill(node: Node, name: str, value: Value, given: Value) -> None:
    """Give a value its user shape and dtype."""
    if isinstance(value, Container):
        raise node.error(f"produces {name!r}, which is a {value.kind} (got the shape {given.shape} in shapes)")
    if given.dtype and value.dtype not in ("", given.dtype):
        raise node.error(f"produces {name!r} of dtype {value.dtype} (got {given.dtype} in shapes)")
    value.dtype = value.dtype or given.dtype
    inferred: tuple[Dim | None, ...] = given.known_shape if value.shape is None else value.shape
    if len(inferred) != len(given.known_shape) or any(
        a not in (None, b) for a, b in zip(inferred, given.known_shape, strict=True)
    ):
        shown = ", ".join("?" if d is None else str(d) for d in inferred)
        raise node.error(
            f"produces {name!r} of shape ({shown}{',' * (len(inferred) == 1)}) (got {given.shape} in shapes)"
        )
    value.shape = given.shape
