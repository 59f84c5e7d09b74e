"""One node of a graph: its inputs and attributes by the names of the operator's schema, in any opset version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from costcore.errors import CostError
from costcore.ir import prod
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.symbolic import DEEPEST, HIGHEST_DEGREE, HIGHEST_DEGREE_OF_SHAPE, degree, depth

from ..schema.constraints import Constraints
from ..schema.signature import Signature, attribute_value, type_name, types_of_any_version
from ..values.constant_folding import fold_elements
from ..values.value import DIMENSION_LIMIT, MOST_FOLDED, Container, Undetermined, Value

NODE = "@node"
"""Key of a node's arguments whose value is the node itself."""


F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Inferred:
    """Result of a shape rule.

    Attributes:
        outputs: the outputs, as many as the operator can have.
        facts: what rows read besides the outputs, in a class that the rule's module defines; None if there is nothing.
        stored: tensors that the node itself holds, as ``Constant`` does.
    """

    outputs: Sequence[Value]
    facts: object = None
    stored: tuple[Value, ...] = ()


NOTHING = Inferred(())


class Node:
    """One node, with its inputs and attributes as they are; :func:`bind` checks them.

    Attributes:
        proto: the ``NodeProto``.
        op: operator type, ``Conv``.
        key: full name, ``ai.onnx::Conv``.
        rule: its shape rule; None if it has none.
        version: version of the operator's schema; 0 if the operator is unknown.
        schema: its ``OpSchema`` in the onnx package; None if it has none.
        inputs: its inputs by position; None for an omitted one.
        args: inputs and attributes by the schema's names, and the node itself as ``NODE``.
        outputs: its outputs by position, once they are inferred; None for an omitted one.
        assumed: assumptions that its outputs rest on.
        noted: what contradicts itself in the node, as text that follows its name; it is counted nevertheless.
        makes_tensors: whether its outputs are tensors, not sequences, maps or optionals.
        inferred: the result of its shape rule, if that has facts or stored tensors.
        reads_elements: whether its shape rule read elements of its inputs.
        lacks_elements: whether its shape rule read elements that are unknown.
    """

    __slots__ = (
        *("args", "assumed", "inferred", "inputs", "key", "lacks_elements", "makes_tensors", "noted", "op", "outputs"),
        *("proto", "reads_elements", "rule", "schema", "version"),
    )

    def __init__(
        self, proto: Any, operator: Operator, inputs: list[Value | None], attributes: Mapping[str, Any]
    ) -> None:
        self.proto = proto
        self.op = proto.op_type
        self.key = operator.key
        self.rule = operator.rule
        self.inputs = inputs
        self.outputs: list[Value | None] = []
        self.assumed: list[str] = []
        self.noted: list[str] = []
        self.inferred = NOTHING
        self.reads_elements = self.lacks_elements = False
        signature = operator.signature
        self.version = signature.since if signature else 0
        self.schema = signature.schema if signature else None
        self.makes_tensors = signature is not None and signature.makes_tensors
        self.args: dict[str, Any] = dict(signature.defaults) if signature else {}
        self.args.update((name, attribute_value(attribute)) for name, attribute in attributes.items())
        self.args.update(_bound(signature.inputs if signature else (("inputs", True),), inputs))
        self.args[NODE] = self

    @property
    def label(self) -> str:
        """The node's name in messages."""
        return describe(self.proto)

    def get(self, *names: str) -> Any:
        """Return the argument under the first of these names that is given; None if none is.

        Several names are for arguments that have another name in another opset version.
        """
        return next((value for name in names if (value := self.args.get(name)) is not None), None)

    def value(self, *names: str) -> Value:
        """Return the input of that name.

        Raises:
            CostError: if it is omitted.
        """
        value = self.get(*names)
        if not isinstance(value, Value):
            raise self.error(f"lacks the input {names[0]!r}")
        return value

    def values(self, name: str) -> list[Value]:
        """Return the inputs of a variadic name.

        Raises:
            CostError: if there are none.
        """
        values: list[Value] = self.args.get(name) or []
        if not values:
            raise self.error(f"lacks the input {name!r}")
        return values

    def numbers(self, *names: str) -> tuple[Any, ...] | None:
        """Return the numbers of an attribute, or of an input whose elements are known; None if it is omitted.

        Raises:
            Undetermined: if the elements are unknown.
        """
        value = self.get(*names)
        if isinstance(value, Value):
            self.reads_elements = True
            if value.data is None:
                self.lacks_elements = True
                raise Undetermined
            return tuple(value.data.ravel().tolist())
        return (value,) if isinstance(value, (int, float)) else value

    def partial_numbers(self, *names: str) -> tuple[Any, ...] | None:
        """Return what :meth:`numbers` returns, with None for the unknown elements of an input.

        Raises:
            Undetermined: if no element is known, or their number is not.
        """
        value = self.get(*names)
        if not isinstance(value, Value) or value.partial is None:
            return self.numbers(*names)
        self.reads_elements = self.lacks_elements = True
        return tuple(value.partial.ravel().tolist())

    def number(self, *names: str) -> Any:
        """Return the single number of an attribute or an input, as :meth:`numbers` does; None if it is omitted."""
        numbers = self.numbers(*names)
        return numbers[0] if numbers else None

    def axes(self, rank: int, *names: str) -> tuple[int, ...] | None:
        """Return axes as non-negative numbers; None if they are omitted.

        Raises:
            CostError: if the operand has no such axis.
            Undetermined: if the axes are unknown.
        """
        axes = self.numbers(*names)
        if axes is None:
            return None
        for axis in axes:
            if is_symbolic(axis):
                raise Undetermined
            if not -rank <= axis < rank:
                raise self.error(f"has {names[0]} {axis}, but its operand has {rank} dimensions")
        return tuple(int(axis) % rank for axis in axes)

    def axis(self, rank: int, *names: str) -> int | None:
        """Return one axis as a non-negative number; None if it is omitted."""
        axes = self.axes(rank, *names)
        return axes[0] if axes else None

    def result(
        self,
        shape: Sequence[Dim | None] | None,
        dtype: str,
        fold: Callable[..., Any] | None = None,
        count: int | None = None,
    ) -> Value:
        """Return an output of this node.

        Args:
            shape: its dimensions, None for one that depends on data; or None if even the rank does.
            dtype: its dtype.
            fold: computes its elements from arrays of the inputs' elements. A small output of constants is a constant
                if there is such a function.
            count: number of leading inputs that the elements are computed from; None for all.
        """
        dims: Any = tuple(shape) if shape is not None else None
        result = Value(dims, dtype)  # shape inference replaces None among the dimensions before others read them
        given = [value for value in self.inputs[:count] if value is not None]
        if fold is None or dims is None or not all(isinstance(d, int) for d in dims) or prod(dims) > MOST_FOLDED:
            return result
        if all(value.role == "const" for value in given) and not self._sized_by_shapes():
            result.role = "const"
            result.follows_shapes = any(value.follows_shapes for value in given)
        if all(value.data is not None for value in given):
            self.reads_elements = True
            result.data = fold_elements(fold, [value.data for value in given], dims)
        elif prod(dims) <= MOST_PARTIAL and len(dims) < 3:
            result.partial = self._partly_folded(fold, given, dims)
        return result

    def _partly_folded(self, fold: Callable[..., Any], given: Sequence[Value], dims: tuple[int, ...]) -> Any:
        """Return the elements of an output as far as they follow from known elements; None if none does."""
        arrays = [value.data if value.partial is None else value.partial for value in given]
        if self.op in _JOINING and any(array is not None for array in arrays):
            for i, value in enumerate(given):
                if arrays[i] is None:
                    # No larger than the output; a symbolic axis is as long as the output's, or 1.
                    arrays[i] = np.full([size if isinstance(size, int) else 1 for size in value.known_shape], None)
        elif self.op not in _MIXING and any(value.data is None for value in given[1:]):
            return None  # an index, a size or a place
        if any(array is None for array in arrays):
            return None
        self.reads_elements = True
        found = fold_elements(fold, arrays, dims, partial=True)
        return None if found is None or all(element is None for element in found.flat) else found

    def _sized_by_shapes(self) -> bool:
        """Return whether the size of the output follows from shapes of this run, so that it is not a constant."""
        first = _SIZED_BY.get(self.op)
        return first is not None and any(value is not None and value.follows_shapes for value in self.inputs[first:])

    def reshaped(self, x: Value, shape: Sequence[Dim | None]) -> Value:
        """Return an output with the elements of the input ``x`` in another shape.

        The output of an initializer is the initializer too.
        """
        result = self.result(shape, x.dtype, lambda data, *_: data)
        if x.stored is not None:
            result.role, result.stored = x.role, x.stored
        return result

    def facts(self, kind: type[F]) -> F:
        """Return the facts of that class, which the shape rule found.

        Raises:
            Undetermined: if the rule could not finish, because an attribute or a dimension follows from data.
        """
        found = self.inferred.facts
        if not isinstance(found, kind):
            raise Undetermined
        return found

    def error(self, why: str) -> CostError:
        """Return the error that this node is invalid; ``why`` follows the node's name."""
        return CostError(f"{self.label} {why}")


Rule: TypeAlias = "Callable[[Node], Sequence[Value] | Inferred]"
"""Returns the outputs of a node, as many as the operator can have, with facts if there are any.

Raises ``CostError`` if the node is invalid, and ``Undetermined`` if a deciding attribute or element is unknown."""


class Operator(NamedTuple):
    """An operator in one opset version: the signature, constraints and shape rule of its nodes.

    Attributes:
        key: full name, ``ai.onnx::Conv``.
        signature: inputs and attributes; None if the operator is unknown.
        constraints: values and ranks that it supports; None for any.
        rule: its shape rule; None if it has none.
    """

    key: str
    signature: Signature | None
    constraints: Constraints | None
    rule: Rule | None


def bind(proto: Any, operator: Operator, inputs: list[Value | None], attributes: Mapping[str, Any]) -> Node:
    """Return a node (``NodeProto``) with its inputs and attributes.

    Raises:
        CostError: if one that the operator needs is missing, or has a type or a value that it does not support.
    """
    node, signature = Node(proto, operator, inputs, attributes), operator.signature
    if signature is not None:
        for name, attribute in attributes.items():
            if signature.types.get(name) != attribute.type:
                _check_type(node, attribute, signature.types.get(name))
        if signature.required and not signature.required <= attributes.keys():
            raise node.error(f"lacks the required attribute {min(signature.required - attributes.keys())!r}")
        if len(inputs) < signature.least or None in inputs[: signature.least]:
            names = ", ".join(name for name, _ in signature.inputs[: signature.least])
            raise node.error(f"lacks one of its required inputs {names}")
        if signature.tensors_only and any(isinstance(x, Container) and x.shape is None for x in inputs):
            raise node.error("has a sequence as an input (expected tensors)")
    if operator.constraints is not None:
        operator.constraints.check(node.args, node.error)
    return node


def _check_type(node: Node, attribute: Any, expected: int | None) -> None:
    """Refuse an attribute of an invalid type; one that this version lacks may have its type of any version."""
    types = {expected} if expected is not None else None
    if types is None and node.schema is not None:
        types = types_of_any_version(node.key).get(attribute.name)
    if types and attribute.type not in types:
        raise node.error(
            f"has the attribute {attribute.name!r} as {type_name(attribute.type)}, but it must be "
            f"{' or '.join(type_name(kind) for kind in sorted(types))}"
        )


MOST_PARTIAL = 64
"""Elements of the largest tensors, of one or two axes, of which some elements are known and some are not."""

_JOINING = frozenset(("Concat", "Where"))
"""Operators of which some elements may be known if an input is unknown."""

_MIXING = frozenset(("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", *_JOINING))
"""Operators of whose inputs any may have unknown elements; others take these as their first input only."""

_SIZED_BY = {
    **dict.fromkeys(("ConstantOfShape", "Range", "EyeLike"), 0),
    **dict.fromkeys(("Expand", "OneHot", "Pad", "Slice", "Split", "Tile", "Resize", "Upsample", "TopK"), 1),
}
"""Position of the first input whose elements give the size of the output."""


def describe(proto: Any) -> str:
    """Return the name of a node in messages."""
    if proto.name:
        return f"node {proto.name!r} ({proto.op_type})"
    output = next((name for name in proto.output if name), "")
    return f"the {proto.op_type} node that produces {output!r}"


def _bound(formals: Sequence[tuple[str, bool]], inputs: list[Value | None]) -> Iterable[tuple[str, Any]]:
    for position, (name, variadic) in enumerate(formals):
        if variadic:
            yield name, [value for value in inputs[position:] if value is not None]
        elif position < len(inputs) and inputs[position] is not None:
            yield name, inputs[position]


def check_size(value: Value, node: Node) -> None:
    """Refuse dimensions that are negative or too large.

    Raises:
        CostError: for such a dimension; the message includes the node.
    """
    count, factors = 1, 0
    for d in value.shape or ():
        if isinstance(d, int):
            if not 0 <= d < DIMENSION_LIMIT:
                raise node.error(f"has an output dimension of {d if d < 0 else '2**4096 or more'}")
            count *= d
        elif isinstance(d, float) or (is_symbolic(d) and d.is_negative):
            raise node.error(f"has an output dimension of {d}")
        elif degree(d) > HIGHEST_DEGREE:
            raise node.error(
                f"has an output dimension with more than {HIGHEST_DEGREE} factors; give numbers for its symbols"
            )
        elif depth(d) > DEEPEST:
            raise node.error(
                f"has an output dimension with more than {DEEPEST} roundings inside one another; give numbers for its "
                "symbols"
            )
        else:
            factors += degree(d)
    if factors > HIGHEST_DEGREE_OF_SHAPE:
        raise node.error(
            f"has an output whose sizes have more than {HIGHEST_DEGREE_OF_SHAPE} factors; give numbers for its symbols"
        )
    if count >= DIMENSION_LIMIT:
        raise node.error("has an output of 2**4096 elements or more")
