"""Recording of nodes with known values as calls of the run.

After the walk, operators between DequantizeLinear and QuantizeLinear nodes are counted as runtimes run them. The last
sections have the model's functions, data flow for memory plans, and values of unknown rank.
"""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costcore import graphs
from costcore.errors import CostError
from costcore.graphs import GraphWriter, Notes
from costcore.ir import Layer, Role, Tensor
from costcore.numbers import Dim
from costcore.registry import calculators
from costcore.trace.call import Call, Uncounted
from costcore.trace.run import GraphNodes, Recorder
from costcore.trace.run import Value as Size
from costcore.translate import Native, Row, Translation, Translator, settings
from costcore.translate import role_of as canonical_role

from ..inference import arguments_of_any_version
from ..inputs import InputHints
from ..node import GraphContext, Modules, Node, describe, inner_graphs
from ..schema import ONNX
from ..values import FLOATS, Container, Dimensions, StoredTensor, Value, describe_size, element_of, has_known_shape

ZERO_COST = frozenset(("Constant", "Shape", "Size", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"))
"""Operators that always cost nothing. Any operator costs nothing if its outputs are constants."""


class Recording(GraphWriter[Value, StoredTensor]):
    """Writes nodes into a run as translated calls; unknown sizes are symbols.

    Args:
        recorder: receives the calls.
        rows: the mapping rules by full name of the operator.
        dims: named dimensions.
        note: receives notes for the report.
        hints: inputs whose values the user may give.
    """

    unranked: UnrankedValues

    modules: Modules

    def __init__(
        self, recorder: Recorder, rows: Mapping[str, Sequence[Row]], dims: Dimensions, note: Notes, hints: InputHints
    ) -> None:
        self.dims = dims
        self.hints = hints
        self.unranked = UnrankedValues(dims, self.identity)
        super().__init__(recorder, DataflowLog(recorder, dims, self.unranked), Modules(), note)
        self._translator = Translator(rows, _operand, _role_of, arguments_of_any_version)
        self._zero_cost_translator = self._translator.by(_unread_operand)

    def record(self, node: Node, context: GraphContext) -> Call:
        """Record a node as a call."""
        self.dataflow.ids(node.inputs)  # assigns ids now: operands that are views of an input share its id
        translation, uncounted = self.translate(node, context.prefix)
        translation = translation._replace(layer=self.recorder.intern(translation.layer))
        produced = tuple(node.proto.output)
        call = self.write_node(
            node.proto, node.key, produced, translation, node.inputs, node.outputs, context, uncounted
        )
        for what in node.assumed:
            self.assume(what, node.label)
        for what in node.noted:
            self.note(f"{node.label} {what}")
        return call

    def translate(self, node: Node, prefix: str = "") -> tuple[Translation, Uncounted | None]:
        """Return the layer of a node with its values, and why the node cannot be counted (None if it can).

        ``prefix`` precedes the names of the values.
        """
        outputs = tuple(value for value in node.outputs if value is not None)
        if node.makes_tensors and any(isinstance(value, Container) and value.shape is None for value in outputs):
            raise node.error("produces tensors, but the model declares a sequence")
        is_zero_cost = node.op in ZERO_COST
        if outputs and not is_zero_cost and all(value.role == "const" for value in outputs):
            # The output keeps its axes: readers decide whether a constant of one element is a plain number.
            layer = Layer("constant", {}, [Tensor(value.known_shape, value.dtype, "data") for value in outputs])
            return Translation(layer, (), outputs, has_row=True), None
        if any(map(is_unranked, node.inputs)):
            return self._unranked_layer(node, prefix)
        if not any(map(is_unranked, outputs)):
            translator = self._zero_cost_translator if is_zero_cost else self._translator
            return _with_shapes(translator(Native(node.key, node.args, node.outputs))), None
        why = "it depends on data" if node.schema else "the operator is not supported"
        argument = self.hints.argument(*node.inputs) if node.lacks_elements else ""
        name = next(n for n, value in zip(node.proto.output, node.outputs, strict=False) if is_unranked(value))
        self.note(
            f"operators downstream of {node.label} are not counted, because the rank of its output is unknown ({why}). "
            f"Give its shape: {shapes_argument(f'{prefix}{name}')}{f', or {argument}' if argument else ''}"
        )
        return self._unranked_layer(node, prefix)

    def on_constants(self, node: Node) -> Translation:
        """Return the layer of a node with a constant result, as if every run computed it."""
        return _with_shapes(self._translator(Native(node.key, node.args, node.outputs)))

    def has_formula(self, operator: str) -> bool:
        """Return True if an operator (full name) has a row, or a calculator of this run."""
        return operator in self.recorder.calculators or self._translator.has_row(operator)

    def write_node(
        self,
        proto: Any,
        native: str,
        produced: tuple[str, ...],
        translation: Translation,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | None],
        context: GraphContext,
        uncounted: Uncounted | None = None,
    ) -> Call:
        """Write a translated node (``NodeProto``) into the run.

        Args:
            proto: the node.
            native: full name of its operator.
            produced: names of its outputs; reading them from ``proto`` again would be slow.
            translation: its layer, and the values that are operands and outputs of the layer.
            inputs: all inputs of the node.
            outputs: all outputs of the node.
            context: the context of its graph.
            uncounted: why it cannot be counted; None if it can.
        """
        stored = [value.stored for value in inputs if value is not None and value.stored is not None]
        return self.write(
            proto.op_type,
            native,
            self.nodes_key(proto.name, produced, context.prefix),
            translation,
            context,
            module=self.modules.around(proto, context.module, stored),
            where=describe(proto) if self.recorder.tracebacks or not translation.has_row else "",
            uncounted=uncounted,
            inputs=inputs,
            outputs=outputs,
        )

    def _unranked_layer(self, node: Node, prefix: str) -> tuple[Translation, Uncounted | None]:
        has_calculator = node.key in self.recorder.calculators or node.key in calculators()

        def tensor(value: Value) -> Tensor:
            if value.shape is not None:
                return value.tensor("data")
            unranked = self.unranked[value]
            if has_calculator:
                self.assume(
                    f"the shape of {unranked.name!r} is unknown: assumed one axis, its size "
                    f"{describe_size(unranked.size)}. Give its shape: {shapes_argument(unranked.name)}",
                    unranked.node,
                )
            return Tensor((unranked.size,), value.dtype or "float32")

        for names, values in ((node.proto.input, node.inputs), (node.proto.output, node.outputs)):
            for name, value in zip(names, values, strict=False):
                if value is not None and value.shape is None:
                    self.unranked.add(value, f"{prefix}{name}", node.label)
        inputs = tuple(value for value in node.inputs if value is not None)
        outputs = tuple(value for value in node.outputs if value is not None)
        operands = {f"x{i}": tensor(v) for i, v in enumerate(inputs)}
        layer = Layer(node.key, operands, map(tensor, outputs), settings(node.args))
        uncounted = Uncounted.NO_SHAPES if self._translator.has_row(node.key) and not has_calculator else None
        return Translation(layer, inputs, outputs, has_row=False), uncounted

    def identity(self, value: Value) -> int:
        """Return the operand id of a value: the parameter id if it is a learned parameter."""
        if value.stored is not None:
            return self.stored_identity(value.stored, "param" in value.stored.uses)
        if not value.identity:
            value.identity = self.recorder.new_id()
        return value.identity

    def stored_identity(self, stored: StoredTensor, is_parameter: bool = True) -> int:
        """Return the operand id of a stored tensor: the parameter id if it is a learned parameter."""
        if not stored.identity:
            stored.identity = self.recorder.parameter(stored.size) if is_parameter else self.recorder.new_id()
        elif is_parameter:
            self.recorder.parameters.setdefault(stored.identity, stored.size)
        return stored.identity

    def assume(self, what: str, where: str) -> None:
        """Add an assumption. Equal assumptions at the same node are reported once."""
        self.recorder.assume(what, where)


def _role_of(operand: str) -> Role:
    # Scales and zero points are not learned.
    return "const" if operand.endswith(("_scale", "_zero_point")) else canonical_role(operand)


def _operand(value: Any, role: Role) -> Tensor | None:
    # None: a sequence, or a plain argument
    return value.tensor(role) if isinstance(value, Value) and not isinstance(value, Container) else None


def _with_shapes(translation: Translation) -> Translation:
    # Element-wise operators read a constant of one element as a plain number. All other operators, such as products,
    # reductions and copies, read it as a tensor with axes. An output that repeats elements is written in full.
    layer = translation.layer
    if any(tensor.stored is not None for tensor in layer.outputs):
        outputs = [Tensor(tensor.shape, tensor.dtype, tensor.role) for tensor in layer.outputs]
        layer = Layer(layer.op, layer.inputs, outputs, layer.attrs)
        translation = translation._replace(layer=layer)
    kept: dict[str, Tensor] = {}
    for (name, tensor), value in zip(layer.inputs.items(), translation.inputs, strict=True):
        if tensor.is_scalar and value.shape and name.rstrip(string.digits) == "x":
            kept[name] = Tensor(value.shape, tensor.dtype, "const")
    calculator = calculators().get(layer.op) if kept else None
    pattern = getattr(calculator, "pattern_by_op", {}).get(layer.op) or getattr(calculator, "pattern", "map")
    if pattern == "map":
        return translation
    return translation._replace(layer=Layer(layer.op, {**layer.inputs, **kept}, layer.outputs, layer.attrs))


def _unread_operand(value: Any, role: Role) -> Tensor | None:
    # A zero-cost operator reads no parameter.
    if not isinstance(value, Value) or isinstance(value, Container):
        return None
    return Tensor(value.known_shape, value.dtype, "data" if value.role == "data" else "const")


# Operators between DequantizeLinear and QuantizeLinear nodes, counted on quantized values


PRODUCTS = frozenset(("conv", "conv_transpose", "linear", "matmul"))
"""Products, which runtimes compute in integers if all factors are quantized."""

CALCULATED = frozenset(
    (
        *("relu", "leaky_relu", "hard_sigmoid", "hard_swish", "sigmoid", "silu", "tanh", "gelu", "clip", "erf", "sqrt"),
        *("softmax", "log_softmax", "batch_norm", "instance_norm", "layer_norm", "avg_pool", "reduce_mean", "resize"),
        *("add", "sub", "mul", "div", "maximum", "minimum", "pow", "concat", "where"),
    )
)
"""Operators with a quantized form that dequantizes each operand and quantizes the result."""

MOVES = frozenset(
    (
        *("reshape", "identity", "copy", "transpose", "slice", "split", "tile", "broadcast_to", "pad", "max_pool"),
        *("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "depth_to_space"),
        *("space_to_depth", "reverse_sequence", "topk", "argmax", "argmin"),
    )
)
"""Operators that only select or move elements, so that they can run on quantized ones."""

LIMITS = frozenset(("relu", "clip"))
"""Functions that the range of a following quantization can include."""

VIEWS = frozenset(("reshape", "transpose", "identity"))
"""Operators through which a stored weight stays the same weight."""


class Source(NamedTuple):
    """The quantized value behind a real one.

    Attributes:
        tensor: the quantized value.
        identity: its operand id.
        scale: the call that dequantizes it, with scale and zero point.
    """

    tensor: Tensor
    identity: int
    scale: Call

    @property
    def is_stored(self) -> bool:
        """Whether the model stores it."""
        return self.tensor.role != "data"

    def as_operand(self, real: Tensor) -> Tensor:
        """Return the quantized value in the shape in which an operator reads the real value."""
        return Tensor(real.shape, self.tensor.dtype, self.tensor.role)


def fold_quantization(recording: Recording, values: Iterable[Value]) -> None:
    """Replace operators between dequantization and quantization by their quantized forms, and add a note.

    Args:
        recording: the run, with all its calls.
        values: the values of the outermost graph, for the elements of scales.
    """
    scales = Scales(values)
    quantize_as_runtimes_do(recording, scales)
    folding = _Folding(recording, scales)
    for call in recording.recorder.calls:
        folding.fold(call)
    folding.remove_unread()
    if folding.replaced:
        left_out = sum(call.layer.op in ("quantize", "dequantize") for call in folding.gone.values())
        recording.note(
            f"{len(folding.replaced)} operators between DequantizeLinear and QuantizeLinear are counted as runtimes "
            f"run them, on quantized values. They include {left_out} DequantizeLinear and QuantizeLinear nodes"
            f"{_at_the_ends(folding)}. keep_qdq=True counts each node"
        )
    folding.finish()


def _at_the_ends(folding: _Folding) -> str:
    # They convert real inputs and outputs of the network.
    left = sum(folding.is_at_an_end(call) for call in folding.kept())
    converts = "1 other node converts" if left == 1 else f"{left} other nodes convert"
    return f"; {converts} real inputs or outputs of the network, as in runtimes" if left else ""


def keep_stored(recording: Recording) -> None:
    """Count no memory for dequantized weights: runtimes dequantize them before the run, or at use."""
    derived: set[int] = set()
    for call in recording.recorder.calls:
        op = call.layer.op
        if op in ("quantize", "dequantize"):
            is_stored = call.layer["x"].role != "data" or call.inputs[0] in derived
        else:
            is_stored = op in VIEWS and bool(call.inputs) and call.inputs[0] in derived
        if is_stored:
            derived.add(call.outputs[0])
            recording.dataflow.views.append((call.outputs[0], call.inputs[0]))


class _Folding:
    def __init__(self, recording: Recording, scales: Scales) -> None:
        self._recorder, self._scales = recording.recorder, scales
        self.replaced: dict[int, Call] = {}
        self.gone: dict[int, Call] = {}
        self._moved: dict[int, int] = {}
        """Ids of quantized values, by id of the real value."""
        self._absorbed: dict[int, set[int]] = defaultdict(set)
        """The calls that no longer read a value, by id of the value. The id of its first output stands for a call."""
        self._producers: dict[int, Call] = {}
        self._readers = readers_of(recording)
        """The calls that read a value, also by their first outputs; 0 stands for any other reader."""
        for call in self._recorder.calls:
            # A view of a stored value has the id of the value.
            self._producers.update((i, call) for i in call.outputs if i not in call.inputs)

    def fold(self, call: Call) -> None:
        """Fold the dequantization and quantization around a call into it, if it has a quantized form."""
        op = call.layer.op
        if op not in PRODUCTS | CALCULATED | MOVES or not call.outputs or call.outputs[0] in self.gone:
            return
        operands = zip(call.layer.inputs, call.inputs, strict=True)
        sources = {name: found for name, i in operands if (found := self._source(i, call)) is not None}
        if op in MOVES:
            self._move(call, sources)
        elif op in CALCULATED or self._is_quantized(call, sources):
            nodes = [call, *self._quantized_after(call)]
            if len(nodes) > 1 or any(not source.is_stored for source in sources.values()):
                self._take(nodes, f"quantized_{op}", sources)
        elif op == "matmul" and sources.keys() == {"x1"} and sources["x1"].is_stored:
            self._take([call], "packed_matmul", sources, {"x0": "x", "x1": "w"})  # dequantized as it is used

    @staticmethod
    def _is_quantized(call: Call, sources: Mapping[str, Source]) -> bool:
        return bool(sources) and all(
            name in sources for name, x in call.layer.inputs.items() if name != "b" and x.dtype in FLOATS
        )

    def _source(self, identity: int, reader: Call) -> Source | None:
        call, is_view = self._producers.get(identity), False
        while call is not None and call.layer.op in VIEWS and call.inputs:
            call, is_view = self._producers.get(call.inputs[0]), True
        if call is None or call.layer.op != "dequantize":
            return None
        source = Source(call.layer["x"], call.inputs[0], call)
        made = self._producers.get(source.identity)
        if made is not None and made.layer.op == "quantize" and made.layer["x"].role != "data":
            weight = made.layer["x"]  # stored as a float: runtimes store the quantized weight instead
            source = Source(Tensor(weight.shape, source.tensor.dtype, weight.role), made.inputs[0], call)
        return source if source.is_stored or not (is_view or loop_context(call) != loop_context(reader)) else None

    def _only_reader(self, call: Call, output: int = 0) -> Call | None:
        # The reader must be in the same loop or branch as the call, and run as often.
        readers = self._readers.get(call.outputs[output], ())
        reader = self._producers.get(readers[0]) if len(readers) == 1 else None
        is_first = reader is not None and reader.inputs[:1] == call.outputs[output : output + 1]
        return reader if reader is not None and is_first and loop_context(reader) == loop_context(call) else None

    def _quantized_after(self, call: Call, output: int = 0) -> list[Call]:
        reader = self._only_reader(call, output)
        limits = []
        if reader is not None and reader.layer.op in LIMITS and call.layer.op not in MOVES:
            limits, reader = [reader], self._only_reader(reader)
        return [*limits, reader] if reader is not None and reader.layer.op == "quantize" else []

    def _move(self, call: Call, sources: Mapping[str, Source]) -> None:
        # An operator that moves elements is folded only if its result has the scale and zero point of its operands.
        layer = call.layer
        if not sources or any(name not in sources for name, x in layer.inputs.items() if x.dtype in FLOATS):
            return
        quantized: list[Call] = []
        for k, tensor in enumerate(layer.outputs):
            if tensor.dtype in FLOATS and self._readers.get(call.outputs[k]):
                after = self._quantized_after(call, k)
                if not after or not all(self._scales.are_equal(source.scale, after[0]) for source in sources.values()):
                    if layer.op == "gather" and layer.attrs.get("axis") == 0 and sources["x"].is_stored:
                        self._take([call], "packed_embedding", sources, {"x": "w", "indices": "x"})
                    return
                quantized += after
        if not quantized and any(tensor.dtype in FLOATS for tensor in layer.outputs):
            return
        dtype = next(iter(sources.values())).tensor.dtype
        operands = {name: sources[name].as_operand(x) if name in sources else x for name, x in layer.inputs.items()}
        outputs = [Tensor(x.shape, dtype) if x.dtype in FLOATS else x for x in layer.outputs]
        ids = {reader.inputs[0]: reader.outputs[0] for reader in quantized}
        identities = [sources[n].identity if n in sources else i for n, i in zip(operands, call.inputs, strict=True)]
        moved = tuple(ids.get(identity, identity) for identity in call.outputs)
        new = Layer(layer.op, operands, outputs, layer.attrs)
        if layer.op == "gather" and _is_embedding(new):
            new = Layer("embedding", {"x": new["indices"], "w": new["x"]}, outputs)
            identities.reverse()
        self._replace(call, quantized, new, identities, moved)
        self._absorb(call, sources)

    def _take(
        self, nodes: Sequence[Call], op: str, sources: Mapping[str, Source], names: Mapping[str, str] | None = None
    ) -> None:
        # ``nodes`` begin with the operator and end with the quantization; ``names`` renames operands.
        call, last, new_names = nodes[0], nodes[-1], names or {}
        operands: dict[str, Tensor] = {}
        identities = []
        for own, tensor, identity in zip(call.layer.inputs, call.layer.inputs.values(), call.inputs, strict=True):
            source = sources.get(own)
            operands[new_names.get(own, own)] = tensor if source is None else source.as_operand(tensor)
            identities.append(identity if source is None else source.identity)
        scaled = [(new_names.get(own, own), source.scale) for own, source in sources.items()]
        if call.layer.op in PRODUCTS:
            scaled = [(name, scale) for name, scale in scaled if name != "b"]  # its scale follows from the others
        if last.layer.op == "quantize":
            scaled.append(("y", last))
        for name, scale in scaled:
            for part, tensor, identity in zip(
                scale.layer.inputs, scale.layer.inputs.values(), scale.inputs, strict=True
            ):
                if part != "x":
                    operands[f"{name}_{part}"] = tensor
                    identities.append(identity)
        layer = Layer(op, operands, last.layer.outputs, call.layer.attrs)
        self._replace(call, nodes[1:], layer, identities, last.outputs)
        self._absorb(call, sources)

    def _absorb(self, call: Call, sources: Mapping[str, Source]) -> None:
        for name, identity in zip(call.layer.inputs, call.inputs, strict=True):
            if name in sources:
                self._absorbed[identity].add(call.outputs[0])
                self._moved[identity] = sources[name].identity
                self._readers[sources[name].identity].append(call.outputs[0])

    def _replace(
        self, call: Call, after: Sequence[Call], layer: Layer, identities: Sequence[int], outputs: tuple[int, ...]
    ) -> None:
        nodes = [self._recorder.nodes[each.name] for each in (call, *after)]
        produced = [name for each in nodes for name in each.outputs] if len(outputs) > 1 else nodes[-1].outputs
        self.replaced[call.outputs[0]] = call._replace(
            layer=self._recorder.intern(layer),
            name=self._recorder.nodes_key(
                GraphNodes(tuple(name for each in nodes for name in each.names), tuple(produced))
            ),
            inputs=tuple(identities),
            outputs=outputs,
            parameters=tuple(i for i, x in zip(identities, layer.inputs.values(), strict=True) if x.role == "param"),
        )
        self._moved.update(zip(call.outputs, outputs, strict=True))
        self.gone.update((each.outputs[0], each) for each in (call, *after))

    def remove_unread(self) -> None:
        """Remove dequantizations that only folded calls read, quantizations of their weights, and constants."""
        removed: set[int] = set()
        for call in reversed(self._recorder.calls):
            if not call.outputs or call.outputs[0] in self.gone:
                continue
            identity, op = call.outputs[0], call.layer.op
            readers = self._readers.get(identity, ())
            if op == "constant":  # runtimes compute it once
                if self.replaced and 0 not in readers:
                    self.gone[identity] = call
                continue
            is_stored = op in ("quantize", "dequantize") and self._is_stored(call)
            if op not in VIEWS and op != "dequantize" and not is_stored:
                continue
            new_readers = {r for r in readers if is_stored and r in self.gone and identity not in self.gone[r].inputs}
            absorbed = self._absorbed.get(identity, set()) | removed | new_readers
            if all(reader in absorbed for reader in readers) and (readers or is_stored):
                removed.add(identity)
                self.gone[identity] = call

    def _is_stored(self, call: Call) -> bool:
        made = self._producers.get(call.inputs[0])
        is_stored = made is not None and made.layer.op == "quantize" and made.layer["x"].role != "data"
        return call.layer["x"].role != "data" or is_stored

    def kept(self) -> list[Call]:
        """Return the calls that no other call replaces."""
        return [call for call in self._recorder.calls if not call.outputs or call.outputs[0] not in self.gone]

    def is_at_an_end(self, call: Call) -> bool:
        """Return whether a call quantizes an input of the network, or dequantizes an output."""
        if call.layer.op == "quantize":
            return call.inputs[0] in self._recorder.inputs
        return call.layer.op == "dequantize" and call.outputs[0] in self._recorder.returned

    def finish(self) -> None:
        """Write the new calls into the run."""
        calls = []
        for call in self._recorder.calls:
            first = call.outputs[0] if call.outputs else 0
            if first in self.replaced:
                calls.append(self.replaced[first])
            elif first not in self.gone:
                is_shape = call.layer.op in SHAPES
                moved = tuple(self._moved.get(i, i) for i in call.inputs) if is_shape else call.inputs
                calls.append(call._replace(inputs=moved) if moved != call.inputs else call)
        self._recorder.calls[:] = calls


def _is_embedding(layer: Layer) -> bool:
    # As in the rows of the standard: a gather of rows of a learned matrix is an embedding.
    table = layer["x"]
    is_learned = table.role == "param" and len(table.shape) == 2
    return is_learned and layer.attrs.get("axis") == 0 and layer["indices"].role == "data"


# Quantization as in runtimes: once for all readers, and before elements are moved


PASSED = frozenset(("reshape", "transpose", "identity", "slice", "max_pool"))
"""Operators that commute with quantization, so that runtimes can quantize their operand instead of their result."""

SHAPES = frozenset(("shape", "size"))
"""Operators that read no element."""


class Scales:
    """Equality of the scales and zero points of calls.

    Args:
        values: the values of the outermost graph, for the elements of scales.
    """

    def __init__(self, values: Iterable[Value]) -> None:
        self._known: dict[int, Any] = {}
        for value in values:
            identity = value.stored.identity if value.stored is not None else value.identity
            if identity and value.data is not None:
                self._known[identity] = value.data.tolist()

    def are_equal(self, first: Call, second: Call) -> bool:
        """Return whether two calls have the same scale and zero point."""
        pairs = zip(first.inputs[1:], second.inputs[1:], strict=False)
        return len(first.inputs) == len(second.inputs) and all(
            a == b or (a in self._known and self._known[a] == self._known.get(b)) for a, b in pairs
        )


def readers_of(recording: Recording) -> dict[int, list[int]]:
    """Return the calls that read the elements of each value, by id of the value.

    The id of its first output stands for a call, and 0 for any other reader.
    """
    readers: dict[int, list[int]] = defaultdict(list)
    for call in recording.recorder.calls:
        if call.outputs and call.layer.op not in SHAPES:
            for identity in call.inputs:
                readers[identity].append(call.outputs[0])
    for step in recording.dataflow.steps:
        for identity in step.reads:
            readers[identity].append(0 if step.name else step.at)
    for identity in recording.recorder.returned:
        readers[identity].append(0)
    return readers


def loop_context(call: Call) -> tuple[Any, str]:
    """Return the number of executions of a call, and its loop or branch."""
    return call.times, call.region


def quantize_as_runtimes_do(recording: Recording, scales: Scales) -> None:
    """Quantize every value once, and as early as its elements are known."""
    _quantize_once(recording, scales)
    while _quantize_early(recording, scales):
        _quantize_once(recording, scales)


def _quantize_once(recording: Recording, scales: Scales) -> None:
    # Some tools write a quantization for every reader.
    readers = readers_of(recording)
    kept: dict[int, list[Call]] = defaultdict(list)
    joined: dict[int, int] = {}
    calls = []
    for call in recording.recorder.calls:
        if call.layer.op == "quantize":
            earlier = kept[call.inputs[0]]
            same = next((e for e in earlier if _is_same(e, call) and scales.are_equal(e, call)), None)
            if same is not None and 0 not in readers[call.outputs[0]]:
                joined[call.outputs[0]] = same.outputs[0]
                continue
            earlier.append(call)
        calls.append(_with_inputs(call, joined))
    recording.recorder.calls[:] = calls


def _quantize_early(recording: Recording, scales: Scales) -> bool:
    # Moved elements may be quantized before the move, if all readers quantize them alike.
    is_changed = False
    calls, readers = recording.recorder.calls, readers_of(recording)
    at = {call.outputs[0]: k for k, call in enumerate(calls) if call.outputs and call.outputs[0] not in call.inputs}

    def quantized_by(reader: int) -> Call | None:
        # A reader may move the elements before the quantization.
        call = calls[at[reader]] if reader in at else None
        if call is not None and call.layer.op in PASSED and len(readers[reader]) == 1:
            after = readers[reader][0]
            call = calls[at[after]] if after in at and loop_context(calls[at[after]]) == loop_context(call) else None
        return call if call is not None and call.layer.op == "quantize" else None

    for k in range(len(calls) - 1, -1, -1):
        quantize = calls[k]
        if quantize.layer.op != "quantize" or quantize.layer["scale"].size != 1:
            continue
        real = quantize.inputs[0]
        move = calls[at[real]] if real in at else quantize
        if move.layer.op not in PASSED or not at.keys().isdisjoint(quantize.inputs[1:]):
            continue
        source = move.inputs[0]
        made = calls[at[source]] if source in at else None
        if made is None or made.layer.op == "dequantize" or loop_context(made) != loop_context(move):
            continue
        if all(
            (q := quantized_by(reader)) and _is_same(q, quantize) and scales.are_equal(q, quantize)
            for reader in readers[source]
        ):
            calls[at[real]], calls[k] = _exchanged(recording, move, quantize)
            is_changed = True
    return is_changed


def _exchanged(recording: Recording, move: Call, quantize: Call) -> tuple[Call, Call]:
    x, dtype, intern = move.layer["x"], quantize.layer.out.dtype, recording.recorder.intern
    integers = Tensor(x.shape, dtype)
    first = Layer("quantize", {**quantize.layer.inputs, "x": x}, [integers], quantize.layer.attrs)
    moved = [Tensor(move.layer.out.shape, dtype)]
    second = Layer(move.layer.op, {**move.layer.inputs, "x": integers}, moved, move.layer.attrs)
    return (
        quantize._replace(layer=intern(first), inputs=(*move.inputs[:1], *quantize.inputs[1:]), outputs=move.outputs),
        move._replace(layer=intern(second), inputs=(*move.outputs, *move.inputs[1:]), outputs=quantize.outputs),
    )


def _is_same(first: Call, second: Call) -> bool:
    return (first.layer.out.dtype, loop_context(first)) == (second.layer.out.dtype, loop_context(second))


def _with_inputs(call: Call, joined: Mapping[int, int]) -> Call:
    if joined.keys().isdisjoint(call.inputs):
        return call
    return call._replace(inputs=tuple(joined.get(identity, identity) for identity in call.inputs))


# Functions of the model: their call graph, and the number of nodes to which they expand


MOST_EXPANDED = 100_000
"""The maximum number of expanded nodes; beyond, equal function calls are walked once and multiplied."""


class ModelFunctions:
    """The model's own functions by full name.

    Args:
        model: the ``ModelProto``.

    Attributes:
        expanded: number of nodes after expanding all calls.

    Raises:
        CostError: for a duplicate name, or a function that calls itself, directly or not; the message includes the
            functions.
    """

    expanded: int

    def __init__(self, model: Any) -> None:
        self._by_name: dict[str, Any] = {}
        for function in model.functions:
            name = name_of(function.domain, function.name, function.overload)
            if self._by_name.setdefault(name, function) is not function:
                raise CostError(f"several functions are named {name} (expected unique names)")
        self.expanded = 0
        if self._by_name:
            sizes = self._sizes(model.graph.node)
            self.expanded = sum(sizes[key] for key in self._calls(model.graph.node))

    def called_by(self, node: Any) -> Any:
        """Return the ``FunctionProto`` that a node calls, or None."""
        return self._by_name.get(_callee(node)) if self._by_name else None

    def _calls(self, nodes: Any) -> Iterator[str]:
        waiting = [nodes]
        while waiting:
            for node in waiting.pop():
                key = _callee(node)
                if key in self._by_name:
                    yield key
                waiting += [graph.node for graph in inner_graphs(node)]

    def _sizes(self, nodes: Any) -> dict[str, int]:
        # Functions that ``nodes`` reach; a stack of our own, as calls may be deep
        sizes: dict[str, int] = {}
        path: dict[str, Iterator[str]] = {}
        waiting = list(dict.fromkeys(self._calls(nodes)))
        callees: dict[str, list[str]] = {}
        while waiting or path:
            if not path:
                self._enter(waiting.pop(), path, callees, sizes)
                continue
            key = next(reversed(path))
            callee = next((name for name in path[key] if name not in sizes), None)
            if callee is None:
                del path[key]
                sizes[key] = len(self._by_name[key].node) + sum(sizes[name] for name in callees[key])
            elif callee in path:
                cycle = [*list(path)[list(path).index(callee) :], callee]
                shown = cycle if len(cycle) < 12 else [*cycle[:10], "…", callee]
                raise CostError(f"a function calls itself: {' -> '.join(shown)}")
            else:
                self._enter(callee, path, callees, sizes)
        return sizes

    def _enter(
        self, key: str, path: dict[str, Iterator[str]], callees: dict[str, list[str]], sizes: Mapping[str, int]
    ) -> None:
        if key not in sizes:
            callees[key] = list(self._calls(self._by_name[key].node))
            path[key] = iter(dict.fromkeys(callees[key]))


def name_of(domain: str, name: str, overload: str = "") -> str:
    """Return the full name of a function, which may have several overloads."""
    return f"{domain or ONNX}::{name}{f':{overload}' if overload else ''}"


def _callee(node: Any) -> str:
    return name_of(node.domain, node.op_type, node.overload)


# Data flow for plans of memory: sequences, unknown sizes, stored tensors


class DataflowLog(graphs.DataflowLog[Value]):
    """Log of the values that calls read and produce besides the operands of their layers.

    Args:
        recorder: gives new ids.
        dims: named dimensions.
        unranked: the values of unknown rank.
    """

    def __init__(self, recorder: Recorder, dims: Dimensions, unranked: UnrankedValues) -> None:
        super().__init__(recorder)
        self._dims = dims
        self._unranked = unranked

    def identity(self, value: Value) -> int:
        """Return the operand id of a value that is not stored."""
        if not value.identity:
            value.identity = self.new_id()
        return value.identity

    def ids(self, values: Iterable[Value | None]) -> list[int]:
        """Return the ids of the computed values among these; a sequence with known items counts as its items."""
        found: list[int] = []
        for value in values:
            if isinstance(value, Container) and value.items is not None:
                found += self.ids(value.items)
            elif value is not None and value.stored is None:
                found.append(value.identity or self.identity(value))  # most have one already
        return found

    def own_memory(self, value: Value) -> bool:
        """Return whether a value is computed and has its own memory; a sequence refers to the memory of its items."""
        return value.stored is None and not (isinstance(value, Container) and value.items is not None)

    def can_be_continued(self, value: Value) -> bool:
        """Return whether another value may take over the memory of a value; not for sequences, which grow."""
        return value.stored is None and not isinstance(value, Container)

    def made(self, outputs: Sequence[Value | None], results: frozenset[int] | tuple[int, ...]) -> list[Value]:
        """Return the values that a node computes, except the ids ``results``; a sequence counts as its new items."""
        found: list[Value] = []
        for value in outputs:
            if value is None or value.stored is not None:
                continue
            if isinstance(value, Container) and value.items is not None:
                found += [item for item in value.items if not item.identity and item.stored is None]
            elif (value.identity or self.identity(value)) not in results:
                found.append(value)
        return found

    def view(self, value: Value, of: int) -> None:
        """Record that a tensor is a view of the value with the id ``of``."""
        if not isinstance(value, Container):
            super().view(value, of)

    def nbytes(self, value: Value) -> Dim:
        """Return the bytes of a value; a symbol if it is a sequence of unknown items."""
        if isinstance(value, Container):
            if value.items is not None:
                return sum(self.nbytes(item) for item in value.items)
            element = element_of(value)
            if element is not None and has_known_shape(element) and value.length is not None:
                return Tensor(element.known_shape, element.dtype).nbytes * value.length
            return self._dims.fresh(f"{value.kind}_{self.identity(value)}_bytes")
        if value.shape is None:
            self._unranked.add(value, f"value_{self.identity(value)}", "")
            return Tensor((self._unranked[value].size,), value.dtype).nbytes
        dims = (
            self._dims.fresh(f"value_{self.identity(value)}_{i}") if d is None else d for i, d in enumerate(value.shape)
        )
        return Tensor(tuple(dims), value.dtype).nbytes


def stored_sizes(stored: Iterable[StoredTensor]) -> list[Size]:
    """Return the stored tensors that the run reads, with their bytes: 0 if nothing reads their elements."""
    return [
        Size(t.identity, Tensor((t.size,), t.dtype).nbytes if t.uses else 0, t.name)
        for t in stored
        if t.uses or t.identity
    ]


# Values of unknown rank: a symbol stands for the number of elements


class Unranked(NamedTuple):
    """A value of unknown rank: its full name, its number of elements, and the node where it was first seen."""

    name: str
    size: Dim
    node: str


class UnrankedValues:
    """The values of unknown rank of a model.

    Args:
        dims: named dimensions.
        identity: returns the operand id of a value.
    """

    def __init__(self, dims: Dimensions, identity: Callable[[Value], int]) -> None:
        self._dims = dims
        self._identity = identity
        self._found: dict[int, Unranked] = {}
        self._count: dict[str, int] = {}
        """The number of values with the same name, as in the iterations of a loop."""

    def __getitem__(self, value: Value) -> Unranked:
        return self._found[self._identity(value)]

    def add(self, value: Value, name: str, node: str) -> None:
        """Assign a new symbol to a value, unless it has one."""
        identity = self._identity(value)
        if identity not in self._found:
            self._count[name] = count = self._count.get(name, 0) + 1
            symbol = f"{name}_elements" if count == 1 else f"{name}_elements_{count}"
            self._found[identity] = Unranked(name, self._dims.fresh(symbol), node)

    @property
    def names(self) -> list[str]:
        """Full names of the values, in order."""
        return [value.name for value in self._found.values()]


def is_unranked(value: Value | None) -> bool:
    """Return True for a tensor of unknown rank."""
    return value is not None and value.shape is None and not isinstance(value, Container)


def shapes_argument(name: str) -> str:
    """Return an example of the argument that gives the shape of a value."""
    return f"shapes={{{name!r}: ('N', 8)}}"
