"""What the caller says of values inside the model: shapes that nothing else tells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from costcore.dims import Dim, as_dim
from costcore.errors import CostError
from costcore.ir import Tensor

from ..values.dimensions import Dimensions
from ..values.value import Container, Value
from .node import Node
from .topological_sort import some
from .user_inputs import bounded


class Told:
    """Shapes by the full name of a value, ``loop.body/h`` for the ``h`` of a loop's body.

    Args:
        given: shapes (tuples of ints and names of dimensions), or :class:`costcore.Tensor` with an element type too, as
            the caller gave them.
        dims: named dimensions.

    Raises:
        TypeError: for anything else; says what is accepted.
        CostError: for a shape that no tensor has.
    """

    def __init__(self, given: Mapping[str, Any] | None, dims: Dimensions) -> None:
        check(given)
        self._given = {name: _value(name, shape, dims) for name, shape in (given or {}).items()}
        self._met: set[str] = set()

    def concerns(self, place: str, names: Iterable[str]) -> bool:
        """Whether a shape is given of one of these values."""
        return bool(self._given) and any(f"{place}{name}" in self._given for name in names)

    def fit(self, node: Node, place: str, values: Iterable[Value | None]) -> None:
        """Fill in what is given of the outputs of a node; ``place`` goes before their names.

        Raises:
            CostError: where something else is known of them; names the node.
        """
        if not self._given:
            return
        for output, value in zip(node.proto.output, values, strict=False):
            name = f"{place}{output}"
            if name in self._given and value is not None:
                self._met.add(name)
                _fill(node, name, value, self._given[name])

    def check(self, inputs: Collection[str], unknown: Collection[str], others: Collection[str]) -> None:
        """Refuse names that no node makes.

        Args:
            inputs: the inputs of the model.
            unknown: the values that have no shape.
            others: the values that its nodes make.

        Raises:
            CostError: naming those that have no shape, else those that there are.
        """
        for name in self._given:
            if name in self._met:
                continue
            if name in inputs:
                raise CostError(f"shapes names {name!r}, which is an input: inputs={{{name!r}: …}} gives its shape")
            near = get_close_matches(name, [*unknown, *others], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            what = "values without a shape" if unknown else "its values"
            shown = some([*map(repr, unknown or others)])
            raise CostError(f"shapes names {name!r}, which no node of the model makes; {what} are {shown}{hint}")


def check(given: object) -> None:
    """Refuse what gives no shapes by name.

    Raises:
        TypeError: saying what is accepted.
    """
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
        raise TypeError(f"shapes must give shapes by the names of values, such as {{'h': ('batch', 8)}}, got {given!r}")
    for name, shape in (given or {}).items():
        if not isinstance(shape, (tuple, Tensor)):
            raise TypeError(f"shapes gives {name!r} no shape, a tuple such as ('batch', 8), but {shape!r}")


def names_in(given: Mapping[str, Any] | None) -> set[str]:
    """The names of dimensions that given shapes use."""
    check(given)
    shapes = (shape.shape if isinstance(shape, Tensor) else shape for shape in (given or {}).values())
    return {d for shape in shapes for d in shape if isinstance(d, str)}


def _value(name: str, given: Any, dims: Dimensions) -> Value:
    shape = given.shape if isinstance(given, Tensor) else given
    try:
        found: tuple[Dim, ...] = tuple(dims(d) if isinstance(d, str) else as_dim(d) for d in shape)
    except TypeError as error:
        raise TypeError(f"shapes gives {name!r} the shape {shape}: {error}") from None
    if "" in shape or any(isinstance(d, int) and d < 0 for d in found):
        what = "in which a dimension has no name" if "" in shape else "in which a dimension is negative"
        raise CostError(f"shapes gives {name!r} the shape {shape}, {what}")
    return bounded(Value(found, given.dtype if isinstance(given, Tensor) else ""), f"the given shape of {name!r}")


def _fill(node: Node, name: str, value: Value, given: Value) -> None:
    """Make a value what is given of it."""
    if isinstance(value, Container):
        raise node.error(f"makes {name!r}, which is a {value.kind}, but shapes gives it the shape {given.shape}")
    if given.dtype and value.dtype not in ("", given.dtype):
        raise node.error(f"makes {name!r} of type {value.dtype}, but shapes gives it {given.dtype}")
    value.dtype = value.dtype or given.dtype
    known: tuple[Dim | None, ...] = given.known if value.shape is None else value.shape
    if len(known) != len(given.known) or any(d not in (None, told) for d, told in zip(known, given.known, strict=True)):
        shown = ", ".join("?" if d is None else str(d) for d in known)
        raise node.error(f"makes {name!r} of shape ({shown}{',' * (len(known) == 1)}), but shapes gives {given.shape}")
    value.shape = given.shape
