"""The walker: visits the nodes of a model in order, infers every value, and records every node as a call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from onnx import __version__ as onnx_version
from onnx import defs

from costcore.errors import CostError
from costcore.numbers.dims import Dim
from costcore.trace.call import Call
from costcore.trace.gc_paused import collector_off

from ..graph.node import Node, bind, describe
from ..graph.scope import GraphContext, Scope
from ..graph.topological_sort import inner_graphs, topological_sort
from ..graph.user_shapes import UserShapes
from ..operators import is_newer_than_onnx, operator
from ..schema.signature import ONNX
from ..shapes.cross_check import differs, written
from ..shapes.infer import infer
from ..values.value import Value
from .function_reuse import FunctionCallCache
from .functions import MOST_EXPANDED, ModelFunctions
from .history import NodeHistory
from .initializer_table import InitializerTable
from .node_budget import NodeBudget
from .node_errors import MISFITS, misfit
from .node_reuse import CachedNode, cached_node, node_signature
from .quantized_inputs import QUANTIZED_INPUTS, with_quantized_roles
from .recording import Recording

Walk: TypeAlias = "Generator[Any, Any, list[Value]]"
"""A walk over one graph, as a generator: it yields the walks over inner graphs and returns the outputs.

Nested graphs do not use the Python stack."""

Outputs: TypeAlias = "Generator[Any, Any, list[Value | None]]"
"""A walk over a node that runs other nodes, as a generator: it returns the node's outputs."""

FIRST_INVALID_VERSION = 1 << 20
"""Opset versions from here on are invalid."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """How nodes that run other nodes are walked.

    Attributes:
        function: walks a call of a model function (``FunctionProto``).
        control: walks a node with subgraphs, by full name of the operator.
        definition: walks the function that defines an operator; None if the operator is recorded itself.
    """

    function: Callable[[Walker, Node, Any, GraphContext], Outputs]
    control: Mapping[str, Callable[[Walker, Node, Scope, GraphContext], Outputs]]
    definition: Callable[[Walker, Node, Scope, GraphContext], Outputs | None] = lambda *_: None


@dataclass(frozen=True, slots=True)
class WalkConfig:
    """What a walk needs to know of a model and of the user's options.

    Attributes:
        functions: the model's own functions.
        user_shapes: shapes that the user gave for values inside the model.
        budget: how many nodes may be visited.
        parameters_are_initializers: whether the exporter keeps all learned tensors as initializers.
        keep_history: whether recorded nodes are kept for pattern matching.
        is_rewritten: whether a tool that drops marks of exporters wrote the file.
        arguments: what the file as a whole says of its nodes, by their domain.
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
        handlers: how nodes that run other nodes are walked.
        config: facts about the model, and options.

    Attributes:
        recording: writes nodes into the run.
        dims: the named dimensions.
        handlers: how nodes that run other nodes are walked.
        functions: the model's own functions.
        user_shapes: shapes that the user gave for values inside the model.
        initializers: the stored tensors found so far.
        history: the recorded nodes, if they are kept.
        budget: how many nodes may yet be visited.
        function_cache: reuses calls of functions, if the functions expand to very many nodes.
        trip_counts: the symbol for each unknown trip count that loops read.
    """

    def __init__(self, recording: Recording, handlers: Handlers, config: WalkConfig) -> None:
        self.recording = recording
        self.dims = recording.dims
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
        """Run a walk and those it yields, without recursion."""
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
        """Walk a graph whose inputs are in ``scope`` already."""
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
        """Walk nodes that see ``scope``, and whose values named ``outputs`` are read outside."""
        ordered = topological_sort(nodes, outputs, scope.values, scope.defines, self.recording.note)
        is_inside, hints = context.expanding or context.region, self.recording.hints
        for proto in ordered if is_inside else self.recording.recorder.progress(ordered, "nodes"):
            self.budget.visit()
            inputs, attributes, signature = self._inputs(proto, scope), context.attributes_of(proto), None
            produced = tuple(proto.output)  # a new list at every access
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
        """Return the inputs of a node, None for omitted ones."""
        own = scope.values
        inputs = [own[name] if name in own else scope.find(name) if name else None for name in proto.input]
        for value in inputs:
            if value is not None and value.stored is not None:
                value.stored.uses.add("configuration")
        return with_quantized_roles(proto.op_type, inputs) if proto.op_type in QUANTIZED_INPUTS else inputs

    def _bind(
        self,
        proto: Any,
        inputs: list[Value | None],
        attributes: Mapping[str, Any],
        scope: Scope,
        context: GraphContext,
    ) -> Node:
        """Return the node with its inputs and attributes.

        Raises:
            CostError: if it reads a value that does not exist, or an attribute is missing or of another type.
        """
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
            self.recording.note(f"onnx {onnx_version} is older than {node.key}; install a newer one to count it")
        if not any(proto.output):
            raise node.error("has no outputs")
        for name, value in zip(proto.input, inputs, strict=True):
            if name and value is None and not scope.defines(name):
                raise node.error(f"reads {name!r}, which is not defined: no node produces it")
        return node

    def _walk_node(self, node: Node, scope: Scope, context: GraphContext, signature: Hashable) -> Outputs:
        """Walk a node that no earlier one equals, and return its outputs."""
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
            node.args.clear()  # it holds the node itself, which would wait for the garbage collector
        return outputs

    def _inner_walk(self, node: Node, scope: Scope, context: GraphContext) -> Outputs | None:
        """Return the walk over the nodes that a node runs; None for a node that is recorded itself."""
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
        """Infer the outputs of a node, record it, and keep what nodes of the same signature share."""
        node.outputs = infer(node, self.dims, scope.declared.get, context.prefix, self.user_shapes.apply)
        if node.assumed and node.lacks_elements:
            node.assumed = [f"{what}{self.recording.hints.remedy(*node.inputs)}" for what in node.assumed]
        for value in node.inferred.stored:
            self.initializers.add_constant(value, context.source, is_number=node.op == "Constant")
        is_as_declared = self._check_declared(node, scope)
        call = self.record(node, context)
        cached = cached_node(node, call) if signature is not None and is_as_declared else None
        if cached is not None:
            self._node_cache[signature] = cached
        return node.outputs

    def _check_declared(self, node: Node, scope: Scope) -> bool:
        """Return True if the outputs have the shapes that the model declares; note those that have not."""
        is_as_declared = True
        for name, value in zip(node.proto.output, node.outputs, strict=False):
            declared = scope.declared.get(name)
            if declared is not None and value is not None and differs(value.shape, declared.tensor_type):
                is_as_declared = False
                self.recording.note(
                    f"{node.label} produces {name!r} of shape {value.shape}, "
                    f"but the model declares {written(declared.tensor_type)}"
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
        """Record a node that equals an earlier one, and return its outputs."""
        outputs, translation = cached.replay(inputs)
        call = self.recording.write_node(proto, cached.native, produced, translation, inputs, outputs, context)
        node = None
        if self.history is not None:
            node = self._bind(proto, inputs, attributes, scope, context)
            node.outputs = outputs
        self._keep(node, call)
        return outputs

    def record(self, node: Node, context: GraphContext) -> Call:
        """Record a node whose outputs are known, for pattern matching and function reuse too."""
        call = self.recording.record(node, context)
        self._keep(node, call)
        return call

    def _keep(self, node: Node | None, call: Call) -> None:
        """Keep a recorded node, if nodes are kept, and its call for functions that are called again."""
        if self.history is not None and node is not None:
            self.history.add(node, call)
        if self.function_cache is not None:
            self.function_cache.add(call)

    def _multiply_calls(self, cache: FunctionCallCache) -> None:
        """Multiply the calls that reused function calls stand for."""
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
        """Note that something other than a recorded node reads these values."""
        if self.history is not None:
            self.history.mark_read(values)
