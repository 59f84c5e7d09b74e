"""A node of a graph, with inputs and attributes by the names in the operator's schema, for all opset versions.

Then follow the scopes of graphs, the topological sort of nodes, the module tree rebuilt from names and metadata, and
the declaration of ONNX Runtime operators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from onnx import AttributeProto

from costcore.errors import CostError
from costcore.graphs import ModuleTree, Place, in_order
from costcore.ir import prod
from costcore.numbers import DEEPEST, HIGHEST_DEGREE, HIGHEST_DEGREE_OF_SHAPE, Dim, degree, depth, is_symbolic
from costcore.translate import Arguments, Row, Source

from .reading import classes, has_folded_norm, scopes
from .schema import Constraints, Signature, attribute_value, type_name, types_of_any_version
from .values import DIMENSION_LIMIT, MOST_FOLDED, Container, StoredTensor, Undetermined, Value, fold_elements

NODE = "@node"
"""The key of the node itself among its arguments."""

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Inferred:
    """Result of a shape rule.

    Attributes:
        outputs: all outputs that the operator can have.
        facts: further data for rows, of a class in the module of the rule; None if there is none.
        stored: tensors stored in the node, such as that of ``Constant``.
    """

    outputs: Sequence[Value]
    facts: object = None
    stored: tuple[Value, ...] = ()


NOTHING = Inferred(())


class Node:
    """One node, with unchecked inputs and attributes; :func:`bind` checks them.

    Attributes:
        proto: the ``NodeProto``.
        op: operator type, ``Conv``.
        key: full name, ``ai.onnx::Conv``.
        rule: its shape rule; None if there is none.
        version: the version of the operator's schema; 0 if the operator is unknown.
        schema: its ``OpSchema`` in the onnx package; None if it has none.
        inputs: its inputs by position; None for an omitted input.
        args: inputs and attributes by the schema's names, and the node itself as ``NODE``.
        outputs: its outputs by position after inference; None for an omitted output.
        assumed: assumptions about its outputs.
        noted: contradictions in the node, as texts that follow its name; the node is still counted.
        makes_tensors: whether its outputs are tensors, not sequences, maps or optionals.
        inferred: the result of its shape rule, if it has facts or stored tensors.
        reads_elements: whether its shape rule read elements of its inputs.
        lacks_elements: whether its shape rule read elements that are unknown.
    """

    op: Any
    key: str
    rule: Callable[[Node], Sequence[Value] | Inferred] | None
    reads_elements: bool
    lacks_elements: bool
    version: int
    schema: Any | None
    makes_tensors: bool

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
        """The name of the node in errors."""
        return describe(self.proto)

    def get(self, *names: str) -> Any:
        """Return the first of these arguments that the node has; None if it has none of them.

        An argument has several names if opset versions name it differently.
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
        """Return the inputs of a variadic parameter.

        Raises:
            CostError: if there are none.
        """
        values: list[Value] = self.args.get(name) or []
        if not values:
            raise self.error(f"lacks the input {name!r}")
        return values

    def numbers(self, *names: str) -> tuple[Any, ...] | None:
        """Return the numbers of an attribute, or of an input with known elements; None if it is omitted.

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
        """Return numbers like :meth:`numbers`, with None for unknown elements of an input.

        Raises:
            Undetermined: if all elements or their number are unknown.
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
            shape: its dimensions, None for a data-dependent dimension; None instead if the rank is data-dependent.
            dtype: its dtype.
            fold: computes the elements of the output from arrays of the inputs' elements, to fold a small output of
                constant inputs into a constant.
            count: the number of leading inputs for ``fold``; None for all.
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
        # Returns None if no element is known.
        arrays = [value.data if value.partial is None else value.partial for value in given]
        if self.op in _JOINING and any(array is not None for array in arrays):
            for i, value in enumerate(given):
                if arrays[i] is None:
                    # The output has at least as many elements. A symbolic axis has length 1 here, which broadcasts.
                    arrays[i] = np.full([size if isinstance(size, int) else 1 for size in value.known_shape], None)
        elif self.op not in _MIXING and any(value.data is None for value in given[1:]):
            # All other inputs of these operators are indices, sizes or positions, which must be known.
            return None
        if any(array is None for array in arrays):
            return None
        self.reads_elements = True
        found = fold_elements(fold, arrays, dims, partial=True)
        return None if found is None or all(element is None for element in found.flat) else found

    def _sized_by_shapes(self) -> bool:
        # Whether the size depends on shapes of this run, so that the result is not a constant.
        first = _SIZED_BY.get(self.op)
        return first is not None and any(value is not None and value.follows_shapes for value in self.inputs[first:])

    def reshaped(self, x: Value, shape: Sequence[Dim | None]) -> Value:
        """Return an output with the elements of the input ``x`` in another shape.

        If ``x`` is an initializer, the output is the same stored tensor.
        """
        result = self.result(shape, x.dtype, lambda data, *_: data)
        if x.stored is not None:
            result.role, result.stored = x.role, x.stored
        return result

    def facts(self, kind: type[F]) -> F:
        """Return the facts of that class from the shape rule.

        Raises:
            Undetermined: if the rule failed, because an attribute or a dimension depends on data.
        """
        found = self.inferred.facts
        if not isinstance(found, kind):
            raise Undetermined
        return found

    def error(self, why: str) -> CostError:
        """Return the error that this node is invalid; ``why`` follows the node's name."""
        return CostError(f"{self.label} {why}")


Rule: TypeAlias = "Callable[[Node], Sequence[Value] | Inferred]"
"""A function that returns all possible outputs of a node, with facts if there are any.

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
        CostError: if a required one is missing, or has an unsupported type or value.
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
    # If this version of the operator lacks the attribute, accept its types in all other versions.
    types = {expected} if expected is not None else None
    if types is None and node.schema is not None:
        types = types_of_any_version(node.key).get(attribute.name)
    if types and attribute.type not in types:
        raise node.error(
            f"has the attribute {attribute.name!r} as {type_name(attribute.type)}, but it must be "
            f"{' or '.join(type_name(kind) for kind in sorted(types))}"
        )


MOST_PARTIAL = 64
"""The maximum number of elements of a partially known tensor."""

_JOINING = frozenset(("Concat", "Where"))
"""Operators whose output may be partially known even if an input is unknown."""

_MIXING = frozenset(("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", *_JOINING))
"""Operators that accept unknown elements in any input; others accept them only in the first."""

_SIZED_BY = {
    **dict.fromkeys(("ConstantOfShape", "Range", "EyeLike"), 0),
    **dict.fromkeys(("Expand", "OneHot", "Pad", "Slice", "Split", "Tile", "Resize", "Upsample", "TopK"), 1),
}
"""The position of the first input that determines the size of the output by its elements."""


def describe(proto: Any) -> str:
    """Return the name of a node in errors."""
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
    """Check that no dimension is negative or too large.

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
                f"has an output dimension with more than {HIGHEST_DEGREE} factors; give numbers for its symbols "
                "with dims"
            )
        elif depth(d) > DEEPEST:
            raise node.error(
                f"has an output dimension with more than {DEEPEST} nested roundings; give numbers for its "
                "symbols with dims"
            )
        else:
            factors += degree(d)
    if factors > HIGHEST_DEGREE_OF_SHAPE:
        raise node.error(
            f"has an output whose sizes have more than {HIGHEST_DEGREE_OF_SHAPE} factors; give numbers for its "
            "symbols with dims"
        )
    if count >= DIMENSION_LIMIT:
        raise node.error("has an output of 2**4096 elements or more")


# Scope and context of a graph


@dataclass(frozen=True, slots=True)
class GraphContext(Place):
    """The context of a graph: its :class:`Place`, names, modules and the function call around it.

    Attributes:
        opsets: the version of each domain.
        module: the path of the module around the graph.
        prefix: the prefix of the full names of its values, ``loop.body/``; new symbols are named after these.
        call_attributes: the attributes of the function call, inside a function.
        expanding: the full names of functions that are being expanded.
        source: the part of the file with the graph, equal for all calls of a function.
    """

    opsets: Mapping[str, int] = field(default_factory=dict)
    module: str = ""
    prefix: str = ""
    call_attributes: Mapping[str, Any] = field(default_factory=dict)
    expanding: tuple[str, ...] = ()
    source: str = ""

    def attributes_of(self, node: Any) -> dict[str, Any]:
        """Return the attributes of a node (``NodeProto``) by name.

        Inside a function, they may refer to attributes of the function call; if the call omits such an attribute, it is
        absent.
        """
        return {
            a.name: self.call_attributes[a.ref_attr_name] if a.ref_attr_name else a
            for a in node.attribute
            if not a.ref_attr_name or a.ref_attr_name in self.call_attributes
        }

    def of_subgraph(self, node: Node, part: str, times: Dim = 1) -> GraphContext:
        """Return the context of a graph inside ``node``, its body or branch ``part``."""
        name = node.proto.name or next(filter(None, node.proto.output), node.op)
        region = f"{name}.{part}"
        return replace(
            self,
            prefix=f"{self.prefix}{region}/",
            times=self.times * times,
            region=self.inner_region(region),
            source=f"{self.source}/{region}",
        )


class Scope:
    """The values visible in a graph: its own, and those of the graphs around it."""

    parent: Scope | None

    __slots__ = ("absent", "declared", "parent", "values")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.values: dict[str, Value] = {}
        self.declared: dict[str, Any] = {}
        self.absent: frozenset[str] = frozenset()

    def find(self, name: str) -> Value | None:
        """Return the innermost value with a name; None if there is none, or for an omitted function input."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.absent:
                return None
            scope = scope.parent
        return None

    def defines(self, name: str) -> bool:
        """Return True if the name exists, even as a function input that the call omits."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values or name in scope.absent:
                return True
            scope = scope.parent
        return False


# Topological sort


def inner_graphs(node: Any) -> list[Any]:
    """Return the graphs among a node's attributes: branches and bodies."""
    attributes = node.attribute
    return [g for a in attributes for g in ((a.g,) if a.HasField("g") else a.graphs)] if attributes else []


def values_read(node: Any) -> list[str]:
    """Return the values of the surrounding graph that a node reads, also from inside its own graphs."""
    found = [name for name in node.input if name]
    waiting = [(graph, frozenset[str]()) for graph in inner_graphs(node)]
    while waiting:
        graph, around = waiting.pop()
        own = around | _produced_in(graph)
        for inner in graph.node:
            found += [name for name in inner.input if name and name not in own]
            waiting += [(deeper, own) for deeper in inner_graphs(inner)]
        found += [output.name for output in graph.output if output.name not in own]
    return found


def _produced_in(graph: Any) -> set[str]:
    stored = {tensor.name for tensor in graph.initializer} | {sparse.values.name for sparse in graph.sparse_initializer}
    return stored | {entry.name for entry in graph.input} | {name for node in graph.node for name in node.output}


def topological_sort(
    nodes: Sequence[Any],
    outputs: Iterable[str],
    own: Collection[str],
    is_defined: Callable[[str], bool],
    note: Callable[[str], None],
) -> Sequence[Any]:
    """Return nodes in topological order.

    Args:
        nodes: the nodes of one graph.
        outputs: the outputs of the graph.
        own: the inputs and initializers of the graph.
        is_defined: returns whether a name is defined outside of these nodes.
        note: receives a note if the nodes had to be sorted, and a list of nodes with unused outputs.

    Raises:
        CostError: for a duplicate name, a name that is not defined, or a cycle; the message includes the nodes.
    """
    producer: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if not name:
                continue
            if name in own:
                raise CostError(
                    f"{describe(node)} produces {name!r}, which is already an input or an initializer of the graph"
                )
            if name in producer:
                raise CostError(f"{describe(nodes[producer[name]])} and {describe(node)} both produce {name!r}")
            producer[name] = i
    before: list[list[int]] = []
    is_sorted, used = True, {producer[name] for name in outputs if name in producer}
    for i, node in enumerate(nodes):
        names = values_read(node)
        earlier = [producer[name] for name in names if name in producer]
        if len(earlier) < len(names):
            for name in node.input:
                if name and name not in producer and not is_defined(name):
                    raise CostError(f"{describe(node)} reads {name!r}, which is not defined: no node produces it")
        used.update(earlier)
        before.append(earlier)
        if earlier and max(earlier) >= i:
            is_sorted = False
    if len(used) < len(nodes):
        unused = [node for i, node in enumerate(nodes) if i not in used and node.op_type != "Constant"]
        if unused:
            labels = joined([describe(node) for node in unused])
            note(f"the outputs of these nodes are unused; the nodes are counted: {labels}")
    if is_sorted:
        return nodes
    note("the nodes of the graph are not in topological order; they were sorted")
    order = in_order([[*dict.fromkeys(earlier)] for earlier in before], lambda i: describe(nodes[i]))
    return [nodes[i] for i in order]


# Lists of names in messages


def joined(items: Sequence[str], maximum: int = 10) -> str:
    """Join at most ``maximum`` items by commas."""
    return ", ".join([*items[:maximum], *([f"and {len(items) - maximum} more"] if len(items) > maximum else [])])


# The module tree, rebuilt from names and metadata of nodes and initializers


DEQUANTIZE = "DequantizeLinear"

QUANTIZED_PRODUCTS = ("QLinearConv", "QLinearMatMul", "QGemm")
"""Operators that a quantizer writes without copying the metadata of the float operator."""

SETTINGS = ("_scale", "_zero_point")
"""Suffixes with which quantizers name the scale and zero point of a tensor."""

_FUSED = re.compile(r"\w+Fusion_(?P<operand>W|[A-Z]\w*?B)_")
"""The prefixes of ONNX Runtime for the names of tensors that it fused: ``ConvBnFusion_W_conv1.weight``,
``ConvBnFusion_BN_B_bn1.bias``, ``ConvAddFusion_Add_B_add.bias``, ``ConvMulFusion_Mul_B_scale``."""

_REPEATED = re.compile(r"(/.+)_\d+$")


class Modules(ModuleTree[StoredTensor]):
    """The modules of one model. Nodes are added in execution order."""

    def __init__(self) -> None:
        super().__init__(_owner)
        self._by_scope: dict[str, str] = {}
        self._dequantized: dict[str, Sequence[StoredTensor]] = {}

    def around(self, node: Any, outer: str, read: Sequence[StoredTensor] = ()) -> str:
        """Return the path of the module around a node (``NodeProto``), ``layer1.0.conv1``; ``""`` if unknown.

        Args:
            node: the node.
            outer: path of the module around the function it is in.
            read: the stored tensors it reads.
        """
        if self._dequantized:
            read = [*read, *(stored for name in node.input for stored in self._dequantized.get(name, ()))]
        listed = scopes(node) if node.metadata_props else None
        kinds = classes(node) if listed else []
        if listed and has_folded_norm(node) and (owner := next(filter(None, map(_owner, read)), "")):
            listed, kinds = [*listed[:-1], owner], kinds[:-1]
        if listed is None:
            inner = self._of_name(node.name, read)
            if not inner and read and node.op_type in QUANTIZED_PRODUCTS:
                inner = next(filter(None, map(_owner, read)), "")
            path = f"{outer}.{inner}" if outer and inner else outer or inner
        else:
            path = (listed[-1] if listed else "") or outer
        if listed and not self.knows(path):
            for scope, kind in zip(listed, kinds, strict=False):
                self.enter(scope, kind.rpartition(".")[2])
        if read and node.op_type == DEQUANTIZE:  # a quantizer inserted it between a weight and its reader
            self._dequantized[node.output[0]] = [stored for stored in read if not stored.name.endswith(SETTINGS)]
        else:
            self.read(path, read)
        return path

    def of_call(self, node: Any, outer: str) -> str:
        """Return the module path of a call of a model function; without metadata, the function is a module."""
        if node.metadata_props and scopes(node) is not None:
            return self.around(node, outer)
        path = ".".join(filter(None, (outer, (node.name or node.op_type).strip("/").replace("/", "."))))
        self.enter(path, node.op_type)
        return path

    def _of_name(self, name: str, read: Iterable[StoredTensor]) -> str:
        # PyTorch names nodes after their modules: ``/layer1/layer1.0/conv1/Conv``.
        scope = name.rpartition("/")[0]
        path = self._by_scope.get(scope)
        if path is None:
            path = self._by_scope[scope] = self._of_scope(scope, read)
        return path

    def _of_scope(self, scope: str, read: Iterable[StoredTensor]) -> str:
        # The TorchScript exporter writes ``act_1`` for the second run of the module ``act``.
        again = _REPEATED.match(scope)
        before = self._by_scope.get(again[1]) if again else None
        weights = (stored for stored in read if "param" in stored.uses)
        if before is not None and all(before in self.readers(stored) for stored in weights):
            return before
        return _path(scope)


def _owner(stored: StoredTensor) -> str:
    # The module ``layer1.0.conv1`` owns ``layer1.0.conv1.weight``. Names with slashes or colons have no owner.
    return _owner_in(stored.name)


@lru_cache(maxsize=4096)
def _owner_in(name: str) -> str:
    if name.endswith(SETTINGS):
        return ""
    fused = _FUSED.match(name)
    if fused:  # a fused bias comes from another node, but belongs to the convolution that reads it
        name = name[fused.end() :] if fused["operand"] == "W" else ""
    owner = name.rpartition(".")[0]
    return "" if "/" in name or ":" in name or not all(owner.split(".")) else owner


def _path(scope: str) -> str:
    # PyTorch repeats the name of a Sequential in its children: ``/layer1/layer1.0``.
    parts: list[str] = []
    for part in filter(None, scope.split("/")):
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part
        else:
            parts.append(part)
    return ".".join(parts)


# Declaration of ONNX Runtime operators.

MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"
"""Domain of operators on blocks of channels."""

NHWC = "com.ms.internal.nhwc"
"""Domain of operators with channels last, written by ONNX Runtime's layout transformer."""

EXTENSIONS = ("ai.onnx.contrib", "com.microsoft.extensions")
"""Domains of the operators of onnxruntime-extensions."""

QONNX = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general", "finn")
"""Domains of QONNX, including those of older releases of Brevitas and FINN."""

NEWEST = 99
"""The version of these operators, so that rules and rows shared with the standard treat them as the newest version."""


@dataclass(frozen=True)
class OperatorSpec:
    """One operator of ONNX Runtime: its inputs, attributes, constraints, shape rule and rows.

    Source: microsoft/onnxruntime, docs/ContribOperators.md (1.31), and its schemas of the nchwc and nhwc domains.

    Attributes:
        name: operator type.
        inputs: names of the inputs, in order; ``*`` marks the variadic one.
        required: number of leading inputs that must be given.
        attributes: names of the attributes that hold one integer.
        constraints: values and ranks that the operator supports.
        infer: its shape rule; None if the operator has subgraphs, which the walk counts.
        rows: its rows, from :func:`row`. Operands from inputs that the operator lacks are dropped, so that operators
            can share a row.
        domain: the operator's domain.
    """

    name: str
    inputs: str
    required: int = 1
    attributes: str = ""
    constraints: Constraints | None = None
    infer: Rule | None = None
    rows: Sequence[Row] = ()
    domain: str = MICROSOFT

    @property
    def key(self) -> str:
        """Full name, ``com.microsoft::FusedConv``."""
        return f"{self.domain}::{self.name}"

    @property
    def signature(self) -> Signature:
        """The signature of this operator, like that of a schema."""
        names = tuple((name.removeprefix("*"), name.startswith("*")) for name in self.inputs.split())
        types = dict.fromkeys(self.attributes.split(), int(AttributeProto.INT))
        return Signature(NEWEST, names, {}, None, types, least=self.required)

    @property
    def own_rows(self) -> Iterator[Row]:
        """Yield its rows with its name, and without operands that it lacks."""
        names = {name for name, _ in self.signature.inputs}
        for shared in self.rows:
            operands = {k: v for k, v in shared.inputs.items() if not isinstance(v, str) or v in names}
            yield replace(shared, native=self.key, inputs=operands)


def row(
    op: str | Callable[[Arguments], str],
    inputs: Mapping[str, Source] | None = None,
    attrs: Mapping[str, Source] | None = None,
    **rest: Any,
) -> Row:
    """Return a row without the name of an operator; :attr:`OperatorSpec.own_rows` adds the name."""
    return Row("", op, inputs or {}, attrs or {}, **rest)
