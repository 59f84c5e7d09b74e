"""Walk a model's graph in order, infer every value, and record every node as a call."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from onnx import defs

from costcore.errors import CostError
from costcore.trace.call import Call
from costcore.trace.gc_paused import collector_off
from costcore.trace.recorder import Recorder
from costcore.translate import Row, Translation

from ..graph.node import Node, describe
from ..graph.scope import Place, Scope
from ..graph.topological_sort import in_order, inner_graphs
from ..graph.user_shapes import Told
from ..operators import operator
from ..reading.initializers import QUANTIZED, in_their_roles, stored_values
from ..schema.signature import ONNX
from ..shapes.cross_check import differs, written
from ..shapes.infer import infer
from ..values.dimensions import Dimensions
from ..values.value import Stored, Undetermined, Value
from .function_calls import called, priced
from .function_reuse import Repeats
from .functions import MANY, Functions
from .node_reuse import Known, likeness, shared
from .recording import Recording, asked, is_open

Walk: TypeAlias = "Generator[Any, Any, list[Value]]"
"""A walk over one graph; it yields the walks over inner graphs, and returns its outputs. No nesting uses the stack."""

Outputs: TypeAlias = "Generator[Any, Any, list[Value | None]]"
"""A walk over a node that holds graphs; it returns the node's outputs."""

NO_VERSION = 1 << 20
"""Versions from here on are none."""

MOST_NODES = 1_000_000
"""More nodes than this, functions and bodies expanded, are refused."""

MOST_UNROLLED = 10_000
"""More nodes than this are not walked for the sake of single iterations, in all loops of a model together."""


class Walker(Recording):
    """Walks one model.

    Args:
        recorder: takes the calls.
        rows: the table.
        dims: named dimensions.
        functions: the model's own functions.
        control: how operators that hold graphs are walked.
        expand: the walk of an operator that stands for others; None for one that does not.
    """

    def __init__(
        self,
        recorder: Recorder,
        rows: Iterable[Row],
        dims: Dimensions,
        functions: Functions,
        control: Mapping[str, Callable[[Walker, Node, Scope, Place], Outputs]],
        expand: Callable[[Walker, Node, Scope, Place], Outputs | None] = lambda *_: None,
    ) -> None:
        super().__init__(recorder, rows, dims)
        self.functions = functions
        self.control = control
        self.expand = expand
        self.told = Told(None, dims)
        """Shapes that the caller gives."""
        self.stored: dict[tuple[str, str], Stored] = {}
        """Stored tensors by place and name: one that is met again is the same."""
        self.initializers: dict[Stored, None] = {}
        self.read_elsewhere: set[Stored] = set()
        """Stored tensors that nodes read which are not walked, in the branch that a constant condition leaves out."""
        self.numbers_in_nodes = False
        """Whether the exporter keeps all learned tensors as initializers, so that what a node holds is a number."""
        self.history: list[tuple[Node, Call]] | None = None
        """Every recorded node with its call, where a list is put here before the walk."""
        self.kept: list[Value] = []
        """With a history: values that are read by something that is no recorded node."""
        self._nodes_left = MOST_NODES
        self.spare = 0 if functions.expanded > MANY else MOST_UNROLLED
        """How many nodes may yet be walked for the sake of single iterations of loops."""
        self.repeats = Repeats() if functions.expanded > MANY else None
        self._known: dict[Hashable, Known] = {}
        """What nodes share that are alike."""

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
        return result or []

    def graph(self, graph: Any, scope: Scope, place: Place) -> Walk:
        """Walk a graph whose inputs are in ``scope`` already."""
        for name, value in stored_values(graph, self.note, self.numbers_in_nodes):
            scope.values[name] = self.keep(value, place.source, name)
            if value.stored is not None:
                self.initializers.setdefault(value.stored)
        scope.declared = {entry.name: entry.type for entry in (*graph.value_info, *graph.output)}
        yield from self.nodes(graph.node, scope, place, [entry.name for entry in graph.output])
        outputs = []
        for entry in graph.output:
            made = scope.find(entry.name)
            if made is None:
                raise CostError(f"nothing makes the output {entry.name!r}")
            outputs.append(made)
        self.keep_from_regrouping(outputs)
        return outputs

    def nodes(self, nodes: Sequence[Any], scope: Scope, place: Place, outputs: Sequence[str]) -> Walk:
        """Walk nodes that see ``scope``, and whose values named ``outputs`` are read elsewhere."""
        ordered = in_order(nodes, outputs, scope.values, scope.knows, self.note)
        shown: Iterable[Any] = ordered if place.functions or place.region else self.recorder.progress(ordered, "nodes")
        for proto in shown:
            self._nodes_left -= 1
            if self._nodes_left < 0:
                raise CostError(f"it expands to more than {MOST_NODES} nodes")
            inputs, attributes = self.given(proto, scope), place.resolved(proto)
            key = likeness(proto, place.opsets.get(proto.domain or ONNX), inputs, attributes, scope.declared)
            if self.told.concerns(place.names, proto.output):
                key = None
            known = self._known.get(key)
            if known is not None:
                made = self.again(known, proto, inputs, attributes, scope, place)
            else:
                node = self.bind(proto, inputs, attributes, scope, place)
                try:
                    walk = self.special(node, scope, place)
                    made = self.plain(node, scope, place, key) if walk is None else (yield from walk)
                    self.told.fit(node, place.names, made)
                except CostError:
                    raise
                except MISFITS as error:
                    raise misfit(node, error) from error
                if self.history is None:
                    node.args.clear()  # it holds the node itself, which would wait for the garbage collector
            if self.missing:
                self.missing.passed_on(inputs, made)
            for name, value in zip(proto.output, made, strict=False):
                if name and value is not None:
                    scope.values[name] = value
        return []

    def plain(self, node: Node, scope: Scope, place: Place, key: Hashable) -> list[Value | None]:
        """The outputs of a node that is just a node, which is recorded; ``key`` is its likeness."""
        made = infer(node, self.dims, scope.declared.get, place.names, self.told.fit)
        if node.assumed and node.lacks_elements:
            node.assumed = [f"{what}{self.hint(*node.inputs)}" for what in node.assumed]
        for tensor in node.inferred.stored:
            if tensor.stored is not None:
                if self.numbers_in_nodes and node.op == "Constant":
                    tensor.role, tensor.stored.is_number = "const", True
                self.keep(tensor, place.source, tensor.stored.name)
        node.outputs = made
        is_as_said = True
        for name, value in zip(node.proto.output, made, strict=False):
            said = scope.declared.get(name)
            if said is not None and value is not None and differs(value.shape, said.tensor_type):
                is_as_said = False
                self.note(
                    f"{node.label} makes {name!r} of shape {value.shape}, "
                    f"but the model declares {written(said.tensor_type)}"
                )
        call = self.record(node, place)
        self.recorded(node, call)
        known = shared(node, call) if key is not None and is_as_said else None
        if known is not None:
            self._known[key] = known
        return made

    def again(
        self,
        known: Known,
        proto: Any,
        inputs: list[Value | None],
        attributes: Mapping[str, Any],
        scope: Scope,
        place: Place,
    ) -> list[Value | None]:
        """The outputs of a node that is like one before, which is recorded."""
        outputs = [value and value.alike() for value in known.outputs]
        read: list[Any] = [inputs[i] for i in known.read]
        for value, tensor in zip(read, known.layer.inputs.values(), strict=True):
            if value.stored is not None:
                value.stored.uses.add(tensor.role)
        found = Translation(known.layer, tuple(read), tuple([outputs[i] for i in known.made]), known=True)
        call = self.write(proto, known.native, found, inputs, place)
        if self.history is not None:
            node = self.bind(proto, inputs, attributes, scope, place)
            node.outputs = outputs
            self.history.append((node, call))
        if self.repeats is not None:
            self.repeats.count(call)
        return outputs

    def recorded(self, node: Node, call: Call) -> None:
        """Remember that a node was recorded."""
        if self.history is not None:
            self.history.append((node, call))
        if self.repeats is not None:
            self.repeats.count(call)

    def special(self, node: Node, scope: Scope, place: Place) -> Outputs | None:
        """The walk over what a node holds, calls or stands for; None where it is just a node."""
        function = self.functions.called_by(node.proto)
        if function is not None:
            is_priced = node.key in self.recorder.calculators or self.translator.knows(node.key)
            return (priced if is_priced else called)(self, node, function, place)
        if inner_graphs(node.proto):
            walk = self.control.get(node.key)
            if walk is not None:
                self.keep_from_regrouping(node.inputs)
                return walk(self, node, scope, place)
        expansion = self.expand(self, node, scope, place)
        if expansion is not None:
            self.keep_from_regrouping(node.inputs)
        return expansion

    def given(self, proto: Any, scope: Scope) -> list[Value | None]:
        """The inputs of a node, None for those left out."""
        own = scope.values
        inputs = [own[name] if name in own else scope.find(name) if name else None for name in proto.input]
        for value in inputs:
            if value is not None and value.stored is not None:
                value.stored.uses.add("setting")
        return in_their_roles(proto.op_type, inputs) if proto.op_type in QUANTIZED else inputs

    def bind(
        self, proto: Any, inputs: list[Value | None], attributes: Mapping[str, Any], scope: Scope, place: Place
    ) -> Node:
        """The node with its inputs and attributes.

        Raises:
            CostError: where it reads what nothing makes, or an attribute is missing or of another type.
        """
        domain = proto.domain or ONNX
        version = place.opsets.get(domain)
        if version is None or not 1 <= version < NO_VERSION:
            version = defs.onnx_opset_version() if domain == ONNX else 1
            self.note(f"the model does not say which version of {domain} it uses; {version} was taken")
        if not (isinstance(proto.op_type, str) and isinstance(proto.domain, str) and isinstance(proto.name, str)):
            raise CostError(f"{describe(proto)} has a name, a kind or a domain that is no text")
        node = Node(proto, operator(domain, proto.op_type, version), inputs, attributes)
        if node.version > version and node.schema is not None:
            self.note(f"version {version} of {domain} has no {node.op}; it was read as of version {node.version}")
        if not any(proto.output):
            raise node.error("makes nothing")
        for name, value in zip(proto.input, inputs, strict=True):
            if name and value is None and not scope.knows(name):
                raise node.error(f"reads {name!r}, which nothing makes")
        return node

    @property
    def walked(self) -> int:
        """How many nodes were walked so far."""
        return MOST_NODES - self._nodes_left

    def keep(self, value: Value, place: str, name: str) -> Value:
        """Remember the stored tensor of ``value``, or give it the one that was met under this name before."""
        if value.stored is not None:
            value.stored = self.stored.setdefault((place, name), value.stored)
        return value

    def keep_from_regrouping(self, values: Iterable[Value | None]) -> None:
        """Say that something other than a recorded node reads these values."""
        if self.history is not None:
            self.kept += [value for value in values if value is not None]


MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, Undetermined)
"""What rules and rows raise where a node's inputs or settings are none that its operator takes."""


def misfit(node: Node, error: Exception) -> CostError:
    """The error that a node does not fit its operator."""
    if isinstance(error, Undetermined):
        unknown = [n for n, value in zip(node.proto.input, node.inputs, strict=False) if is_open(value)]
        return node.error(
            "needs to know the dimensions of its inputs, which follow from data; give the model's inputs"
            f"{f', or {asked(unknown[0])}' if unknown else ''}"
        )
    shapes = ", ".join("none" if value is None else str(value.shape) for value in node.inputs)
    why = str(error).splitlines()
    return node.error(
        f"has inputs or attributes that its operator does not take (inputs of shapes {shapes}; "
        f"{type(error).__name__}{f': {why[0]}' if why else ''})"
    )
