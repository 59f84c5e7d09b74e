"""One node of a graph as rules and table rows see it: arguments by the schema's names, whatever the opset version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from costcore.dims import Dim, is_symbolic
from costcore.errors import CostError
from costcore.ir import prod
from costcore.symbolic import HIGHEST_DEGREE, degree

from ..schema.constraints import Constraints
from ..schema.signature import Signature, setting, type_name, types_of_any_version
from ..values.constant_folding import fold_elements
from ..values.value import FOLDED, LARGEST, Container, Undetermined, Value

NODE = "@node"
"""The key under which a node's arguments hold the node itself."""


F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a shape rule finds.

    Attributes:
        outputs: the outputs, as many as the operator can have.
        facts: what rows read beyond the outputs: an object of a class that the rule's module defines; None if nothing.
        stored: tensors that the node itself stores, as ``Constant`` does.
    """

    outputs: Sequence[Value]
    facts: object = None
    stored: tuple[Value, ...] = ()


NOTHING = Inferred(())


class Node:
    """A node with its inputs resolved.

    Attributes:
        op: operator type, ``Conv``.
        key: full name, ``ai.onnx::Conv``.
        rule: its shape rule; None if it has none.
        version: version of the operator's schema; 0 where onnx has no schema of it.
        inputs: its inputs by position, None where left out.
        args: inputs and attributes by the schema's names, and the node itself as ``NODE``.
        outputs: its outputs by position once they are inferred, None where left out.
        assumed: what was assumed to infer them.
        makes_tensors: whether its outputs are neither sequences nor maps nor optionals.
        inferred: what its shape rule found beyond the outputs.
        reads_elements: whether its shape rule read elements of its inputs.
        lacks_elements: whether its shape rule read elements that are unknown.
    """

    __slots__ = (
        *("args", "assumed", "inferred", "inputs", "key", "lacks_elements", "makes_tensors", "op", "outputs", "proto"),
        *("reads_elements", "rule", "schema", "version"),
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
        self.inferred = NOTHING
        self.reads_elements = self.lacks_elements = False
        known = operator.signature
        self.version = known.since if known else 0
        self.schema = known.schema if known else None
        self.makes_tensors = known is not None and known.makes_tensors
        self.args: dict[str, Any] = dict(known.defaults) if known else {}
        for name, attribute in attributes.items():
            if known and known.types.get(name) != attribute.type:
                self._check_type(attribute, known.types.get(name))
            self.args[name] = setting(attribute)
        if known and known.required and not known.required <= attributes.keys():
            raise self.error(f"has no attribute {min(known.required - attributes.keys())!r}")
        if known and (len(inputs) < known.least or None in inputs[: known.least]):
            raise self.error(f"lacks one of its inputs {', '.join(name for name, _ in known.inputs[: known.least])}")
        if known and known.tensors_only:
            for value in inputs:
                if value is not None and value.shape is None and isinstance(value, Container):
                    raise self.error("is given a sequence, and takes tensors")
        self.args.update(_bound(known.inputs if known else (("inputs", True),), inputs))
        self.args[NODE] = self
        if operator.constraints is not None:
            operator.constraints.check(self.args, self.error)

    def _check_type(self, attribute: Any, expected: int | None) -> None:
        """Refuse an attribute of a type that it has not, in this version or, where it is not of this one, in any."""
        types = {expected} if expected is not None else None
        if types is None and self.schema is not None:
            types = types_of_any_version(self.key).get(attribute.name)
        if types and attribute.type not in types:
            raise self.error(
                f"has the attribute {attribute.name!r} as {type_name(attribute.type)}, but it must be "
                f"{' or '.join(type_name(kind) for kind in sorted(types))}"
            )

    @property
    def label(self) -> str:
        """The words it is called by in messages."""
        return describe(self.proto)

    def get(self, *names: str) -> Any:
        """The argument of the first of these names that is given (names change with versions); None for none."""
        return next((value for name in names if (value := self.args.get(name)) is not None), None)

    def value(self, *names: str) -> Value:
        """The input of that name.

        Raises:
            CostError: where it is left out.
        """
        value = self.get(*names)
        if not isinstance(value, Value):
            raise self.error(f"has no input {names[0]!r}")
        return value

    def values(self, name: str) -> list[Value]:
        """The inputs of a variadic name."""
        values: list[Value] = self.args.get(name) or []
        if not values:
            raise self.error(f"has no input {name!r}")
        return values

    def numbers(self, *names: str) -> tuple[Any, ...] | None:
        """The numbers of an attribute, or of an input whose elements are known; None where it is left out.

        Raises:
            Undetermined: where the elements are not known.
        """
        value = self.get(*names)
        if isinstance(value, Value):
            self.reads_elements = True
            if value.data is None:
                self.lacks_elements = True
                raise Undetermined
            return tuple(value.data.ravel().tolist())
        return (value,) if isinstance(value, (int, float)) else value

    def number(self, *names: str) -> Any:
        """The one number of an attribute or a known input; None where it is left out."""
        numbers = self.numbers(*names)
        return numbers[0] if numbers else None

    def axes(self, rank: int, *names: str) -> tuple[int, ...] | None:
        """Axes as non-negative numbers, None where they are left out.

        Raises:
            CostError: for an axis that the operand does not have.
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
        """One axis as a non-negative number."""
        axes = self.axes(rank, *names)
        return axes[0] if axes else None

    def result(
        self,
        shape: Sequence[Dim | None] | None,
        dtype: str,
        fold: Callable[..., Any] | None = None,
        count: int | None = None,
    ) -> Value:
        """An output of this node; None stands for a dimension that cannot be told.

        Args:
            shape: its dimensions.
            dtype: its element type.
            fold: makes its elements from arrays of the inputs' elements. An operator with it, whose inputs are all
                constants, makes a constant, unless its output is large.
            count: how many of the inputs its elements are made from, the first ones; all where None.
        """
        known: Any = tuple(shape) if shape is not None else None
        result = Value(known, dtype)  # None among the dimensions is filled in before anybody else looks
        given = [value for value in self.inputs[:count] if value is not None]
        if fold is None or known is None or not all(isinstance(d, int) for d in known) or prod(known) > FOLDED:
            return result
        if all(value.role == "const" for value in given) and not self._sized_by_shapes():
            result.role = "const"
            result.follows_shapes = any(value.follows_shapes for value in given)
        if all(value.data is not None for value in given):
            self.reads_elements = True
            result.data = fold_elements(fold, [value.data for value in given], known)
        return result

    def _sized_by_shapes(self) -> bool:
        """Whether shapes of this run decide how many elements it makes: then it is no constant, large or small."""
        first = _SIZED_BY.get(self.op)
        return first is not None and any(value is not None and value.follows_shapes for value in self.inputs[first:])

    def renamed(self, x: Value, shape: Sequence[Dim | None]) -> Value:
        """An output that is the input ``x`` under another shape; a stored tensor stays one."""
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
        """The error that this node is wrong."""
        return CostError(f"{self.label} {why}")


Rule: TypeAlias = "Callable[[Node], Sequence[Value] | Inferred]"
"""Returns the outputs of a node, as many as the operator can have, with facts if there are any.

Raises ``CostError`` if the node is wrong, and ``Undetermined`` if a deciding attribute or element is unknown."""


class Operator(NamedTuple):
    """One operator in one version: what a node is bound, checked and inferred by.

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


_SIZED_BY = {
    **dict.fromkeys(("ConstantOfShape", "Range", "EyeLike"), 0),
    **dict.fromkeys(("Expand", "OneHot", "Pad", "Slice", "Split", "Tile", "Resize", "Upsample", "TopK"), 1),
}
"""The first of the inputs that say how large the output is."""


def describe(proto: Any) -> str:
    """The words a node is called by in messages."""
    if proto.name:
        return f"node {proto.name!r} ({proto.op_type})"
    made = next((name for name in proto.output if name), "")
    return f"the {proto.op_type} node that makes {made!r}"


def _bound(formals: Sequence[tuple[str, bool]], inputs: list[Value | None]) -> Iterable[tuple[str, Any]]:
    for position, (name, variadic) in enumerate(formals):
        if variadic:
            yield name, [value for value in inputs[position:] if value is not None]
        elif position < len(inputs) and inputs[position] is not None:
            yield name, inputs[position]


def check_size(value: Value, node: Node) -> None:
    """Refuse dimensions that are negative, or too long to work with.

    Raises:
        CostError: naming the node.
    """
    count = 1
    for d in value.shape or ():
        if isinstance(d, int):
            if not 0 <= d < LARGEST:
                raise node.error(f"makes the impossible dimension {d if d < 0 else '2**4096 or more'}")
            count *= d
        elif isinstance(d, float):
            raise node.error(f"makes a dimension of length {d}")
        elif is_symbolic(d) and d.is_negative:
            raise node.error(f"makes the impossible dimension {d}")
        elif degree(d) > HIGHEST_DEGREE:
            raise node.error(f"makes a dimension that multiplies more than {HIGHEST_DEGREE} symbols; give them numbers")
    if count >= LARGEST:
        raise node.error("makes a tensor of 2**4096 elements or more")
