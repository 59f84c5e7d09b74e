"""The walker: visits the nodes of a model in order, infers every value, and records every node as a call.

Walks over nested graphs are generators, so they do not recurse. Equal nodes, and equal calls of functions, are inferred
once. The last sections decide which stored tensors (initializers, and constants in nodes) are learned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from onnx import AttributeProto, defs
from onnx import __version__ as onnx_version

from costcore.errors import CostError
from costcore.ir import BITS, Layer
from costcore.numbers import Dim
from costcore.trace.call import Call
from costcore.trace.interrupts import collector_off
from costcore.translate import Translation

from ..inference import differs, infer, is_newer_than_onnx, operator, shape_text
from ..inputs import UserShapes
from ..node import GraphContext, Node, Scope, bind, describe, inner_graphs, topological_sort, values_read
from ..reading import read_initializers
from ..schema import ONNX
from ..values import DTYPES, Dimensions, StoredTensor, Undetermined, Value, value_signature
from .recording import MOST_EXPANDED, ModelFunctions, Recording, is_unranked, shapes_argument

Walk: TypeAlias = "Generator[Any, Any, list[Value]]"
"""A walk over one graph, as a generator: it yields the walks over inner graphs and returns the outputs.

Nested graphs do not use the Python stack."""

NodeWalk: TypeAlias = "Generator[Any, Any, list[Value | None]]"
"""A walk over a node that runs other nodes, as a generator: it returns the node's outputs."""

FIRST_INVALID_VERSION = 1 << 20
"""The smallest invalid opset version."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers of nodes that run other nodes.

    Attributes:
        function: walks a call of a model function (``FunctionProto``).
        control: walks a node with subgraphs, by full name of the operator.
        definition: walks the function that defines an operator; returns None if the node is recorded as one call.
    """

    function: Callable[[Walker, Node, Any, GraphContext], NodeWalk]
    control: Mapping[str, Callable[[Walker, Node, Scope, GraphContext], NodeWalk]]
    definition: Callable[[Walker, Node, Scope, GraphContext], NodeWalk | None] = lambda *_: None


@dataclass(frozen=True, slots=True)
class WalkConfig:
    """Facts about a model, and the user's options, for a walk.

    Attributes:
        functions: the model's own functions.
        user_shapes: shapes that the user gave for values inside the model.
        budget: the number of nodes that may be visited.
        parameters_are_initializers: whether the exporter keeps all learned tensors as initializers.
        keep_history: whether recorded nodes are kept for pattern matching.
        is_rewritten: whether the file was rewritten by a tool that drops exporter metadata.
        arguments: by domain, arguments that all its nodes share, such as the size of channel blocks.
    """

    functions: ModelFunctions
    user_shapes: UserShapes
    budget: NodeBudget
    parameters_are_initializers: bool = False
    keep_history: bool = False
    is_rewritten: bool = False
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Walker:
    """Walks one model.

    Args:
        recording: writes nodes into the run.
        handlers: the handlers of nodes that run other nodes.
        config: facts about the model, and options.

    Attributes:
        recording: writes nodes into the run.
        dims: the named dimensions.
        handlers: the handlers of nodes that run other nodes.
        functions: the model's own functions.
        user_shapes: shapes that the user gave for values inside the model.
        initializers: the stored tensors found so far.
        history: the recorded nodes, if they are kept.
        budget: the number of nodes that may still be visited.
        function_cache: reuses calls of functions, if the functions expand to very many nodes.
        trip_counts: the symbol for each unknown trip count that loops read.
    """

    functions: ModelFunctions
    user_shapes: UserShapes
    initializers: InitializerTable
    history: NodeHistory | None
    budget: NodeBudget
    function_cache: FunctionCallCache | None

    def __init__(self, recording: Recording, handlers: Handlers, config: WalkConfig) -> None:
        self.recording = recording
        self.dims: Dimensions = recording.dims
        self.handlers = handlers
        self.functions = config.functions
        self.user_shapes = config.user_shapes
        self._arguments = config.arguments
        is_huge = self.functions.expanded > MOST_EXPANDED
        self.initializers = InitializerTable(config.parameters_are_initializers, config.is_rewritten)
        self.history = NodeHistory() if config.keep_history else None
        self.budget = config.budget
        if is_huge:
            self.budget.unrollable = 0
        self.function_cache = FunctionCallCache() if is_huge else None
        self.trip_counts: dict[Value, Dim] = {}
        self._node_cache: dict[Hashable, CachedNode] = {}

    def run(self, walk: Walk) -> list[Value]:
        """Run a walk and the walks that it yields, without recursion."""
        walks, result = [walk], None
        with collector_off():
            while walks:
                try:
                    walks.append(walks[-1].send(result))
                    result = None
                except StopIteration as done:
                    walks.pop()
                    result = done.value
        if self.function_cache is not None:
            self._multiply_calls(self.function_cache)
        return result or []

    def walk_graph(self, graph: Any, scope: Scope, context: GraphContext) -> Walk:
        """Walk a graph whose inputs are in ``scope``."""
        scope.values.update(self.initializers.read(graph, context.source, self.recording.note))
        scope.declared = {entry.name: entry.type for entry in (*graph.value_info, *graph.output)}
        yield from self.walk_nodes(graph.node, scope, context, [entry.name for entry in graph.output])
        outputs = []
        for entry in graph.output:
            value = scope.find(entry.name)
            if value is None:
                raise CostError(f"graph output {entry.name!r} is not produced by any node")
            outputs.append(value)
        self._mark_read(outputs)
        return outputs

    def walk_nodes(self, nodes: Sequence[Any], scope: Scope, context: GraphContext, outputs: Sequence[str]) -> Walk:
        """Walk the nodes of one graph; ``outputs`` names the values that are read outside of it."""
        ordered = topological_sort(nodes, outputs, scope.values, scope.defines, self.recording.note)
        is_inside = context.expanding or context.region
        hints = self.recording.hints  # which values depend on input values that the user could give
        for proto in ordered if is_inside else self.recording.recorder.progress(ordered, "nodes"):
            self.budget.visit()
            inputs, attributes, signature = self._inputs(proto, scope), context.attributes_of(proto), None
            produced = tuple(proto.output)  # protobuf makes a new list at every access
            if not self.user_shapes.cover(context.prefix, produced):
                version = context.opsets.get(proto.domain or ONNX)
                signature = node_signature(proto, produced, version, inputs, attributes, scope.declared)
            cached = self._node_cache.get(signature)
            if cached is not None:
                found = self._replay(cached, proto, produced, inputs, attributes, scope, context)
            else:
                node = self._bind(proto, inputs, attributes, scope, context)
                found = yield from self._walk_node(node, scope, context, signature)
            if hints:
                hints.propagate(inputs, found)
            for name, value in zip(produced, found, strict=False):
                if name and value is not None:
                    scope.values[name] = value
        return []

    def _inputs(self, proto: Any, scope: Scope) -> list[Value | None]:
        own = scope.values
        inputs = [own[name] if name in own else scope.find(name) if name else None for name in proto.input]
        for value in inputs:
            if value is not None and value.stored is not None:
                value.stored.uses.add("configuration")  # any read is a use; recording adds the role of an operand
        return with_quantized_roles(proto.op_type, inputs) if proto.op_type in QUANTIZED_INPUTS else inputs

    def _bind(
        self,
        proto: Any,
        inputs: list[Value | None],
        attributes: Mapping[str, Any],
        scope: Scope,
        context: GraphContext,
    ) -> Node:
        domain = proto.domain or ONNX
        version = context.opsets.get(domain)
        if version is None or not 1 <= version < FIRST_INVALID_VERSION:
            version = defs.onnx_opset_version() if domain == ONNX else 1
            self.recording.note(f"the model imports no version of {domain}; it was read as version {version}")
        if not (isinstance(proto.op_type, str) and isinstance(proto.domain, str) and isinstance(proto.name, str)):
            raise CostError(f"{describe(proto)} has a name, an op_type or a domain that is not valid UTF-8")
        node = bind(proto, operator(domain, proto.op_type, version), inputs, attributes)
        node.args.update(self._arguments.get(domain, ()))
        if node.version > version and node.schema is not None:
            self.recording.note(
                f"version {version} of {domain} has no {node.op}; it was read as in version {node.version}"
            )
        if is_newer_than_onnx(node.key):
            self.recording.note(f"{node.key} is not in onnx {onnx_version}. To count it: pip install --upgrade onnx")
        if not any(proto.output):
            raise node.error("has no outputs")
        for name, value in zip(proto.input, inputs, strict=True):
            if name and value is None and not scope.defines(name):
                raise node.error(f"reads {name!r}, which is not defined: no node produces it")
        return node

    def _walk_node(self, node: Node, scope: Scope, context: GraphContext, signature: Hashable) -> NodeWalk:
        try:
            walk = self._inner_walk(node, scope, context)
            if walk is None:
                outputs = self._record_operator(node, scope, context, signature)
            else:
                outputs = yield from walk
            self.user_shapes.apply(node, context.prefix, outputs)
        except CostError:
            raise
        except MISFITS as error:
            raise misfit(node, error) from error
        if self.history is None:
            node.args.clear()  # they refer to the node: a cycle that only the garbage collector would free
        return outputs

    def _inner_walk(self, node: Node, scope: Scope, context: GraphContext) -> NodeWalk | None:
        # None: the node is recorded as one call.
        function = self.functions.called_by(node.proto)
        if function is not None:
            return self.handlers.function(self, node, function, context)
        if inner_graphs(node.proto):
            control = self.handlers.control.get(node.key)
            if control is not None:
                self._mark_read(node.inputs)
                return control(self, node, scope, context)
        definition = self.handlers.definition(self, node, scope, context)
        if definition is not None:
            self._mark_read(node.inputs)
        return definition

    def _record_operator(
        self, node: Node, scope: Scope, context: GraphContext, signature: Hashable
    ) -> list[Value | None]:
        node.outputs = infer(node, self.dims, scope.declared.get, context.prefix, self.user_shapes.apply)
        if node.assumed and node.lacks_elements:
            node.assumed = [f"{what}{self.recording.hints.remedy(*node.inputs)}" for what in node.assumed]
        for value in node.inferred.stored:
            self.initializers.add_constant(value, context.source, is_constant=node.op == "Constant")
        is_as_declared = self._check_declared(node, scope)
        call = self.record(node, context)
        cached = cached_node(node, call) if signature is not None and is_as_declared else None
        if cached is not None:
            self._node_cache[signature] = cached
        return node.outputs

    def _check_declared(self, node: Node, scope: Scope) -> bool:
        is_as_declared = True
        for name, value in zip(node.proto.output, node.outputs, strict=False):
            declared = scope.declared.get(name)
            if declared is not None and value is not None and differs(value.shape, declared.tensor_type):
                is_as_declared = False
                self.recording.note(
                    f"{node.label} produces {name!r} of shape {value.shape}, "
                    f"but the model declares {shape_text(declared.tensor_type)}"
                )
        return is_as_declared

    def _replay(
        self,
        cached: CachedNode,
        proto: Any,
        produced: tuple[str, ...],
        inputs: list[Value | None],
        attributes: Mapping[str, Any],
        scope: Scope,
        context: GraphContext,
    ) -> list[Value | None]:
        outputs, translation = cached.replay(inputs)
        call = self.recording.write_node(proto, cached.native, produced, translation, inputs, outputs, context)
        node = None
        if self.history is not None:
            node = self._bind(proto, inputs, attributes, scope, context)
            node.outputs = outputs
        self._keep(node, call)
        return outputs

    def record(self, node: Node, context: GraphContext) -> Call:
        """Record a node with known outputs, and keep the call for pattern matching and function reuse."""
        call = self.recording.record(node, context)
        self._keep(node, call)
        return call

    def _keep(self, node: Node | None, call: Call) -> None:
        if self.history is not None and node is not None:
            self.history.add(node, call)
        if self.function_cache is not None:
            self.function_cache.add(call)

    def _multiply_calls(self, cache: FunctionCallCache) -> None:
        calls = self.recording.recorder.calls
        for i, call in enumerate(calls):
            calls[i] = cache.multiplied(call)
            if self.history is not None and calls[i] is not call:
                self.history.replace(call, calls[i])

    def calls(self) -> list[Call]:
        """Return the calls recorded so far, multiplied if function calls were reused."""
        calls = self.recording.recorder.calls
        return calls if self.function_cache is None else [self.function_cache.multiplied(call) for call in calls]

    def _mark_read(self, values: Iterable[Value | None]) -> None:
        if self.history is not None:
            self.history.mark_read(values)


# Equal nodes, inferred and translated once: networks repeat their layers


COMPARED_TYPES = frozenset(
    (
        *(AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING),
        *(AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS),
    )
)
"""Types of attributes that signatures compare; a node with an attribute of another type has no signature."""

MOST_ELEMENTS = 64
"""The maximum number of known elements of a non-parameter input; a node with a larger one has no signature."""


class CachedNode(NamedTuple):
    """The shared result of equal nodes.

    Attributes:
        native: full name of the operator.
        layer: the layer of the call.
        operands: indices of the node's inputs that are the operands of the layer.
        results: indices of the node's outputs that are outputs of the layer.
        outputs: all outputs of the node.
    """

    native: str
    layer: Layer
    operands: tuple[int, ...]
    results: tuple[int, ...]
    outputs: tuple[Value | None, ...]

    def replay(self, inputs: Sequence[Value | None]) -> tuple[list[Value | None], Translation]:
        """Return outputs and translation of an equal node with these inputs."""
        outputs = [value and value.unstored() for value in self.outputs]
        read: list[Any] = [inputs[i] for i in self.operands]
        for value, tensor in zip(read, self.layer.inputs.values(), strict=True):
            if value.stored is not None:
                value.stored.uses.add(tensor.role)
        return outputs, Translation(self.layer, tuple(read), tuple([outputs[i] for i in self.results]), has_row=True)


def node_signature(
    proto: Any,
    produced: Sequence[str],
    version: int | None,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    declared: Mapping[str, Any],
) -> Hashable:
    """Return a key of everything that determines outputs and cost of a node; None if the node has no such key.

    Operators outside of the standard have none: their shape rules change the stored tensors that they read.

    Args:
        proto: the node (``NodeProto``).
        produced: the names of its outputs.
        version: version of its domain.
        inputs: its inputs by position.
        attributes: its attributes by name.
        declared: the types that the model declares, by value name.
    """
    if proto.domain not in ("", ONNX) or not isinstance(proto.name, str):
        return None
    if attributes and any(attribute.type not in COMPARED_TYPES for attribute in attributes.values()):
        return None
    for name, value in zip(proto.input, inputs, strict=True):
        if value is None:
            if name:
                return None  # whether it may be absent is checked later
        elif value.shape is None or _has_many_elements(value):
            return None
    given = [value_signature(value) for value in inputs]
    types = [declared[name].SerializeToString() if name in declared else name != "" for name in produced]
    written = [(name, attribute.SerializeToString()) for name, attribute in attributes.items()] if attributes else []
    return proto.op_type, proto.overload, version, tuple(given), tuple(types), tuple(written)


def cached_node(node: Node, call: Call) -> CachedNode | None:
    """Return the result of ``node``, recorded as ``call``, for equal nodes; None if their results may differ."""
    inputs = [value for value in node.inputs if value is not None]
    outputs = [value for value in node.outputs if value is not None]
    if len({id(value.stored or value) for value in inputs}) < len(inputs):
        return None  # two inputs are the same tensor: an operand has no unique input
    if any(value.stored is not None or value.shape is None for value in outputs):
        return None
    if node.reads_elements and any(value.role == "param" for value in inputs):
        return None  # signatures do not compare the elements of parameters
    if node.assumed or node.noted or "::" in call.layer.op:
        return None  # assumptions, notes and unsupported operators are reported at each node
    input_ids, output_ids = _indices_by_id(node.inputs), _indices_by_id(node.outputs)
    if not (input_ids.keys() >= set(call.inputs) and output_ids.keys() >= set(call.outputs)):
        return None
    operands, results = tuple(input_ids[i] for i in call.inputs), tuple(output_ids[i] for i in call.outputs)
    return CachedNode(node.key, call.layer, operands, results, tuple(node.outputs))


def _has_many_elements(value: Value) -> bool:
    return value.role != "param" and value.data is not None and value.data.size > MOST_ELEMENTS


def _indices_by_id(values: Sequence[Value | None]) -> dict[int, int]:
    return {(value.stored or value).identity: i for i, value in enumerate(values) if value is not None}


# Limits on the number of visited nodes


MOST_NODES = 100_000
"""The default maximum of nodes from expanding functions, loops and branches, besides the stored nodes."""

MOST_STORED = 100_000
"""The default maximum of stored nodes; language models have up to 50,000."""

MOST_UNROLLED = 10_000
"""The maximum number of nodes walked while loops are unrolled, iteration by iteration, in all loops of a model."""


class NodeBudget:
    """The number of nodes that a walk has visited, with its limits.

    Args:
        model: the ``ModelProto``.
        most: the maximum of visited nodes besides the stored ones, default: :data:`MOST_NODES`; if larger than
            :data:`MOST_STORED`, also the maximum of stored nodes.

    Attributes:
        visited: nodes visited so far.
        unrollable: nodes that may still be walked while loops are unrolled, iteration by iteration.

    Raises:
        TypeError, ValueError: if ``most`` is not a positive int.
        CostError: if the graph of the model has too many nodes.
    """

    visited: int
    unrollable: int

    def __init__(self, model: Any, most: int | None = None) -> None:
        if most is not None and (isinstance(most, bool) or not isinstance(most, int)):
            raise TypeError(f"max_nodes must be an int (got {most!r})")
        if most is not None and most < 1:
            raise ValueError(f"max_nodes must be at least 1 (got {most})")
        self.visited = 0
        self.unrollable = MOST_UNROLLED
        self._model = model
        self._most = self._limit = MOST_NODES if most is None else most
        self._most_stored = max(MOST_STORED, most or 0)
        self._check_stored(len(model.graph.node))
        self._has_counted_stored = False

    def visit(self) -> None:
        """Count one node.

        Raises:
            CostError: if the model expands to too many.
        """
        self.visited += 1
        if self.visited > self._limit:
            self._check()

    def unroll(self, nodes: int) -> bool:
        """Reserve the nodes of one loop iteration; return False if too few are left."""
        self.unrollable -= nodes
        return self.unrollable >= 0

    def _check(self) -> None:
        # The nodes that the model stores are counted only when the limit is reached.
        if not self._has_counted_stored:
            self._has_counted_stored = True
            stored = _stored_nodes(self._model)
            self._check_stored(stored)
            self._limit += stored
        if self.visited > self._limit:
            raise CostError(
                f"its functions, loops and branches expand to more than {self._most} nodes, besides the "
                f"{self._limit - self._most} that the model stores. If that is right, raise the limit: "
                f"max_nodes={10 * self._most} (--max-nodes)"
            )

    def _check_stored(self, count: int) -> None:
        if count > self._most_stored:
            raise CostError(
                f"it stores {count:,} nodes (limit {self._most_stored:,}). If that is right, raise the limit: "
                f"max_nodes={count} (--max-nodes)"
            )


def _stored_nodes(model: Any) -> int:
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    count = 0
    while waiting:
        nodes = waiting.pop()
        count += len(nodes)
        waiting += [graph.node for node in nodes for graph in inner_graphs(node)]
    return count


# Errors for inputs or attributes that an operator does not support


MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, Undetermined)
"""Exceptions for inputs or attributes that an operator does not support.

Shape rules raise them, and the :class:`costcore.translate.Row` that maps an operator to a layer.
"""


def misfit(node: Node, error: Exception) -> CostError:
    """Return the error for a node that does not fit its operator."""
    if isinstance(error, Undetermined):
        unranked = [n for n, value in zip(node.proto.input, node.inputs, strict=False) if is_unranked(value)]
        return node.error(
            "needs the dimensions of its inputs, which depend on data. Give the model's inputs (inputs=…)"
            f"{f', or {shapes_argument(unranked[0])}' if unranked else ''}"
        )
    shapes = ", ".join("none" if value is None else str(value.shape) for value in node.inputs)
    why = str(error).splitlines()
    return node.error(
        f"has inputs or attributes that its operator does not support (inputs of shapes {shapes}; "
        f"{type(error).__name__}{f': {why[0]}' if why else ''})"
    )


# Recorded nodes, for the pattern matching of ``regroup``


class RecordedNode(NamedTuple):
    """A recorded node, its call, and its position among all recorded nodes."""

    node: Node
    call: Call
    position: int


class NodeHistory:
    """Every recorded node with its call, in order.

    Attributes:
        read_outside: values with a reader other than a recorded node: a graph output or a subgraph.
    """

    def __init__(self) -> None:
        self.read_outside: list[Value] = []
        self._nodes: list[tuple[Node, Call]] = []
        self._replaced: dict[int, tuple[Call, Call]] = {}

    def add(self, node: Node, call: Call) -> None:
        """Append a recorded node."""
        self._nodes.append((node, call))

    def mark_read(self, values: Iterable[Value | None]) -> None:
        """Record that a reader other than a recorded node reads these values."""
        self.read_outside += [value for value in values if value is not None]

    def replace(self, old: Call, new: Call) -> None:
        """Record that ``new`` replaces ``old`` in the run."""
        self._replaced[id(old)] = old, new  # keeping the old call keeps its id valid

    def nodes(self) -> list[RecordedNode]:
        """Return the recorded nodes, each with the call that stands for it in the run."""
        return [RecordedNode(node, self._current(call), i) for i, (node, call) in enumerate(self._nodes)]

    def _current(self, call: Call) -> Call:
        while id(call) in self._replaced:
            call = self._replaced[id(call)][1]
        return call


# Memoized calls of model functions: a few nested functions can expand to 2**30 nodes


class FunctionCallCache:
    """The calls recorded inside each walked function.

    The same function with equal inputs is not walked again: the ``times`` of these calls are raised instead.
    """

    def __init__(self) -> None:
        self._finished: dict[Hashable, tuple[dict[int, tuple[Call, Dim]], list[Value | None]]] = {}
        self._open: list[dict[int, tuple[Call, Dim]]] = [{}]
        self._multiplied: dict[int, tuple[Call, Dim]] = {}

    def replay(self, key: Hashable) -> list[Value | None] | None:
        """Count an earlier function call once more, and return its outputs; None for a new ``key``."""
        finished = self._finished.get(key)
        if finished is None:
            return None
        recorded, outputs = finished
        for identity, (call, times) in recorded.items():
            self._multiplied[identity] = call, self.times(call) + times
        self._add(recorded)
        return [None if value is None else replace(value, identity=0) for value in outputs]

    def enter(self) -> None:
        """Start a new function call."""
        self._open.append({})

    def add(self, call: Call) -> None:
        """Add a recorded call."""
        self._add({id(call): (call, call.times)})

    def leave(self, key: Hashable, outputs: list[Value | None]) -> None:
        """Finish the function call that was entered last."""
        recorded = self._open.pop()
        self._finished[key] = recorded, outputs
        self._add(recorded)

    def times(self, call: Call) -> Dim:
        """Return how often a call runs, replays included."""
        return self._multiplied.get(id(call), (call, call.times))[1]

    def multiplied(self, call: Call) -> Call:
        """Return the call with replays counted in its ``times``."""
        return call._replace(times=self.times(call)) if id(call) in self._multiplied else call

    def _add(self, recorded: dict[int, tuple[Call, Dim]]) -> None:
        around = self._open[-1]
        for key, (call, times) in recorded.items():
            before = around.get(key)
            around[key] = call, times if before is None else before[1] + times


def function_call_key(node: Node, attributes: Mapping[str, Any], context: GraphContext) -> Hashable:
    """Return the key of a node that calls a function; functions called with equal keys record the same calls."""
    written = tuple(sorted((name, a.SerializeToString(deterministic=True)) for name, a in attributes.items()))
    return node.key, context.times, written, tuple(map(_input_key, node.inputs))


def _input_key(value: Value | None) -> Hashable:
    if value is None:
        return None
    return (
        value_signature(value),
        id(value.stored) if value.stored is not None else 0,
        value.shape is None and id(value),
    )


# Stored tensors, each once: initializers, and constants that nodes hold


class InitializerTable:
    """The stored tensors of a model.

    Args:
        parameters_are_initializers: whether the exporter keeps all learned tensors as initializers, so that the tensor
            of a ``Constant`` node is not learned.
        is_rewritten: whether the file was rewritten by a tool that drops exporter metadata.
    """

    def __init__(self, parameters_are_initializers: bool = False, is_rewritten: bool = False) -> None:
        self._parameters_are_initializers = parameters_are_initializers
        self._is_rewritten = is_rewritten
        self._by_name: dict[tuple[str, str], StoredTensor] = {}
        self._of_graphs: dict[StoredTensor, None] = {}
        self._configuration: dict[str, Mapping[str, bool]] = {}
        """Names of configuration values, by the part of the file that holds them."""
        self._read_in_skipped_branches: set[StoredTensor] = set()

    @property
    def tensors(self) -> Collection[StoredTensor]:
        """All stored tensors, in order."""
        return self._by_name.values()

    def read(self, graph: Any, source: str, note: Callable[[str], None]) -> dict[str, Value]:
        """Return the initializers of a graph by name.

        Args:
            graph: the ``GraphProto``.
            source: the part of the file that holds it.
            note: receives notes on the stored bytes.
        """
        found: dict[str, Value] = {}
        names = self._configuration.get(source)
        if names is None:
            names = self._configuration[source] = configuration_values(graph)
        initializers = read_initializers(
            graph,
            note,
            has_parameter_names=self._parameters_are_initializers,
            configuration=names,
            is_rewritten=self._is_rewritten,
        )
        for name, value in initializers:
            found[name] = self.add(value, source, name)
            if value.stored is not None:
                self._of_graphs.setdefault(value.stored)
        return found

    def add(self, value: Value, source: str, name: str) -> Value:
        """Return the value with the stored tensor that the first walk of ``source`` found under this name."""
        if value.stored is not None:
            value.stored = self._by_name.setdefault((source, name), value.stored)
        return value

    def add_constant(self, value: Value, source: str, is_constant: bool) -> None:
        """Add a tensor that a node holds.

        Args:
            value: the tensor.
            source: the part of the file that holds the node.
            is_constant: whether it is not learned, provided that the exporter keeps all learned tensors as
                initializers.
        """
        if value.stored is None:
            return
        if is_constant and self._parameters_are_initializers:
            value.role, value.stored.is_constant = "const", True
        if value.stored.name in self._configuration.get(source, ()):
            value.role, value.stored.is_buffer = "const", True
        self.add(value, source, value.stored.name)

    def mark_skipped(self, values: Iterable[Value | None]) -> None:
        """Record that a branch that is not walked reads these values."""
        stored = (value.stored for value in values if value is not None)
        self._read_in_skipped_branches.update(tensor for tensor in stored if tensor is not None)

    def unused(self, outputs: Collection[str]) -> list[str]:
        """Return the names of the initializers that no node reads, ``outputs`` of the model excluded."""
        unread = (t for t in self._of_graphs if not t.uses and t not in self._read_in_skipped_branches)
        return [tensor.name for tensor in unread if tensor.name not in outputs]


# Quantized operators: integers may be learned, scales and zero points are not


QUANTIZED_INPUTS = {
    "QuantizeLinear": ((), (1, 2)),
    "DequantizeLinear": ((0,), (1, 2)),
    "QLinearConv": ((3, 8), (1, 2, 4, 5, 6, 7)),
    "QLinearMatMul": ((3,), (1, 2, 4, 5, 6, 7)),
    "ConvInteger": ((1,), (2, 3)),
    "MatMulInteger": ((1,), (2, 3)),
    "Gather": ((0,), ()),
    "QGemm": ((3, 6), ()),
    "QOrderedMatMul": ((2,), ()),
    "MatMulInteger16": ((1,), ()),
    "MatMulIntegerToFloat": ((1,), ()),
    "DynamicQuantizeMatMul": ((1,), ()),
    "MulInteger": ((0, 2), ()),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), ((0, 3), ())),
    "QLinearWhere": ((1, 4), ()),
    "DequantizeWithOrder": ((0,), (1,)),
    "DequantizeBFP": ((0,), ()),
    **dict.fromkeys(("Quant", "IntQuant"), ((), (1, 2, 3))),
    "BipolarQuant": ((), (1,)),
    **dict.fromkeys(("Trunc", "FloatQuant"), ((), (1, 2, 3, 4, 5))),
}
"""Two tuples of input positions, by quantized operator: inputs that are learned if stored; scales and zero points.

Weights and biases need no entry if the :class:`costcore.translate.Row` of the operator names them; nor do scales that
it names like ``x_scale``.
"""

NARROW = frozenset(dtype for dtype, bits in BITS.items() if 0 < bits <= 8 and "int" in dtype)
"""Integer dtypes of quantized values; wider integers are indices, counts and sums."""


def with_quantized_roles(op: str, inputs: Sequence[Value | None]) -> list[Value | None]:
    """Return the inputs of a quantized operator: stored integers may be learned, stored scales are constants."""
    learned, constants = QUANTIZED_INPUTS[op]

    def with_role(i: int, value: Value | None) -> Value | None:
        if value is None or value.stored is None or value.stored.is_buffer:
            return value
        if i in learned and value.shape and (op != "Gather" or (len(value.shape) == 2 and value.dtype in NARROW)):
            return replace(value, role="param")
        return replace(value, role="const") if i in constants else value

    return [with_role(i, value) for i, value in enumerate(inputs)]


# Initializers that are configuration (initial states, scales), also behind views


STATES: Mapping[str, Collection[int]] = {
    "GRU": (5,),
    "RNN": (5,),
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), (5, 6)),
    "CausalConvWithState": (3,),
    "LinearAttention": (3,),
}
"""Positions of inputs that are initial states, by operator."""

SCALES: Mapping[str, Collection[int]] = {
    "BatchNormalization": (3, 4),
    "Resize": (1, 2),
    "Upsample": (1,),
    **{op: constants for op, (_, constants) in QUANTIZED_INPUTS.items() if constants},
}
"""Positions of scales, zero points, running statistics or regions of interest among inputs, by operator."""

MOVES = frozenset(
    (
        *("Cast", "Expand", "Flatten", "Identity", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Tile"),
        *("Transpose", "Unsqueeze"),
    )
)
"""Operators whose outputs have the elements of their first input."""

PRODUCTS = frozenset(("MatMulInteger", "ConvInteger", "MatMulInteger16"))
"""Operators whose outputs are sums of products of integers, which are dequantized by a scale."""

OFFSETS = frozenset(("Add", "Sub"))
"""Operators that shift integers by a zero point."""

INTEGERS = frozenset(number for number, dtype in DTYPES.items() if dtype in NARROW)
"""``TensorProto.DataType`` of stored quantized values."""


def configuration_values(graph: Any) -> Mapping[str, bool]:
    """Return the values of a graph (``GraphProto``) that are read only as initial states, scales or statistics.

    An initial state may be expanded to the batch before a recurrent layer reads it. A scale may be multiplied with
    another one, with products of integers, or with stored integers that were cast.

    Returns:
        For each value, by name, whether a module may have learned it: initial states can be learned.
    """
    nodes = graph.node
    stored = [tensor.name for tensor in graph.initializer if tensor.data_type in INTEGERS]
    operators = {node.op_type for node in nodes}
    found: dict[str, bool] = {}
    if not operators.isdisjoint(STATES):
        found.update(dict.fromkeys(_read_only_as(STATES, (), frozenset(), graph), True))
    if stored or not operators.isdisjoint((*SCALES, *PRODUCTS, "DynamicQuantizeLinear")):
        found.update(dict.fromkeys(_read_only_as(SCALES, ("Mul", "Div"), _quantized(nodes, stored), graph), False))
    return found


def _quantized(nodes: Iterable[Any], stored: Iterable[str]) -> frozenset[str]:
    # Values that a scale may multiply: stored integers, products of integers, and scales of DynamicQuantizeLinear. All
    # are followed through ``MOVES``, integers also through ``OFFSETS``, scales also through ``Mul`` without such
    # integers.
    readers: dict[str, list[Any]] = {}
    products, scales = [*stored], list[str]()
    for node in nodes:
        op = node.op_type
        if op in MOVES or op in OFFSETS or op == "Mul":
            for name in node.input:
                readers.setdefault(name, []).append(node)
        elif op in PRODUCTS:
            products += node.output[:1]
        elif op == "DynamicQuantizeLinear":
            scales += node.output[1:2]
    integers = _spread(products, readers, lambda node: node.op_type != "Mul")
    return frozenset(
        integers
        | _spread(scales, readers, lambda node: node.op_type not in OFFSETS and integers.isdisjoint(node.input))
    )


def _spread(names: Iterable[str], readers: Mapping[str, list[Any]], passes: Callable[[Any], bool]) -> set[str]:
    waiting = [*names]
    found = {*waiting}
    while waiting:
        name = waiting.pop()
        for node in readers.get(name, ()):
            if passes(node) and (node.op_type not in MOVES or node.input[0] == name):
                new = [output for output in node.output if output not in found]
                found.update(new)
                waiting += new
    return found


def _read_only_as(
    positions: Mapping[str, Collection[int]], through: Collection[str], quantized: frozenset[str], graph: Any
) -> set[str]:
    # Find the values that every node reads at one of ``positions`` or only forwards. ``through`` names operators that
    # forward values, besides ``MOVES`` and ``Concat``. A factor of a value in ``quantized`` is a scale.
    passed: dict[str, list[str]] = {}
    wanted: set[str] = set()
    others = {output.name for output in graph.output}
    for node in graph.node:
        op, given = node.op_type, node.input
        if op in positions:
            at = positions[op]
            wanted.update(name for i, name in enumerate(given) if i in at)
            others.update(name for i, name in enumerate(given) if i not in at)
        elif op == "Mul" and not quantized.isdisjoint(given):
            wanted.update(given)
        elif op in MOVES or op in through or op == "Concat":
            count = 1 if op in MOVES else len(given)
            others.update(given[count:])
            for output in node.output:
                passed.setdefault(output, []).extend(given[:count])
        else:
            others.update(given if not inner_graphs(node) else values_read(node))
    return _with_passed(wanted, passed) - _with_passed(others, passed)


def _with_passed(names: set[str], passed: Mapping[str, Iterable[str]]) -> set[str]:
    found, waiting = {*names}, [*names]
    while waiting:
        new = [name for name in passed.get(waiting.pop(), ()) if name not in found]
        found.update(new)
        waiting += new
    return found
