"""Functions: of the ONNX standard, of the model, and the ``Gradient`` operator.

Below are notes on stored tensors that may not be parameters, and the values whose shapes ONNX Runtime does not know
before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from onnx import FunctionProto, helper

from costcore.ir import Layer, Tensor
from costcore.numbers import Dim, is_symbolic
from costcore.trace.call import Call
from costcore.trace.run import Recorder
from costcore.translate import Row, role_of

from ..node import GraphContext, Node, Scope, joined
from ..reading import QUANTIZED
from ..schema import ONNX
from ..values import DTYPES, Container, StoredTensor, Value
from .walker import NodeWalk, Walker, function_call_key

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


# Functions of the standard


class SchemaFunctions:
    """Walks operators by the functions that define them, unless a row maps them.

    Args:
        rows: the mapping rules by full name of the operator.
    """

    def __init__(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._rows = rows

    def __call__(self, walker: Walker, node: Node, scope: Scope, context: GraphContext) -> NodeWalk | None:
        """Return the walk over the nodes that define ``node``; None if it is recorded itself."""
        if node.key == GRADIENT:
            return gradient(walker, node, scope, context)
        if any(row.when is None or row.when(node.args) for row in self._rows.get(node.key, ())):
            return None
        function = definition(node, context)
        return None if function is None else _walk_definition(walker, node, function, context)


def definition(node: Node, context: GraphContext) -> Any:
    """Return the function (``FunctionProto``) by which the standard defines an operator; None if there is none."""
    schema = node.schema
    if schema is None:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    types = [_type_bytes(value) for value in node.inputs]
    if any(written is None for written in types):
        return None
    domain = node.key.partition("::")[0]
    imported = context.opsets
    version = max(
        (v for v in schema.context_dependent_function_opset_versions if v <= imported.get(domain, v)), default=None
    )
    if version is None:
        return None
    body = schema.get_context_dependent_function_with_opset_version(version, node.proto.SerializeToString(), types)
    function = FunctionProto()
    function.ParseFromString(body)
    return function if function.node else None


def _type_bytes(value: Value | None) -> bytes | None:
    # Empty for an omitted input, None if its type is unknown
    if value is None:
        return b""
    if isinstance(value, Container) or value.shape is None or value.dtype not in NUMBERS:
        return None
    shape = [d if isinstance(d, int) and d < 1 << 63 else str(d) for d in value.shape]
    written: bytes = helper.make_tensor_type_proto(NUMBERS[value.dtype], shape).SerializeToString()
    return written


def _walk_definition(walker: Walker, node: Node, function: Any, context: GraphContext) -> NodeWalk:
    # The region of its calls ends in ``.definition``.
    scope, inner = function_scope(function, node.inputs), context.of_subgraph(node, "definition")
    attributes = node.schema.attributes if node.schema is not None else {}
    defaults = {name: a.default_value for name, a in attributes.items() if a.default_value.type}
    inside = GraphContext(
        opsets={entry.domain or ONNX: entry.version for entry in function.opset_import} or context.opsets,
        module=context.module,
        prefix=inner.prefix,
        times=context.times,
        region=inner.region,
        call_attributes={**defaults, **context.attributes_of(node.proto)},
        expanding=(*context.expanding, node.key),
        source=inner.source,
    )
    if node.key in context.expanding:
        raise node.error("is defined by a function that uses it")
    yield walker.walk_nodes(function.node, scope, inside, function.output)
    return [scope.find(name) for name in function.output][: len(node.proto.output)]


# Functions of the model


def call_function(walker: Walker, node: Node, function: Any, context: GraphContext) -> NodeWalk:
    """Walk a call of a model function (``FunctionProto``): by its formula if it has one, else by its nodes."""
    has_formula = walker.recording.has_formula(node.key)
    return (_with_formula if has_formula else _with_nodes)(walker, node, function, context)


def _with_formula(walker: Walker, node: Node, function: Any, context: GraphContext) -> NodeWalk:
    # The nodes of the function give only the shapes of its outputs.
    mark = walker.recording.checkpoint()
    node.outputs = yield _walk_function(walker, node, function, context)
    walker.recording.rollback(mark)
    walker.record(node, context)
    return node.outputs


def _with_nodes(walker: Walker, node: Node, function: Any, context: GraphContext) -> NodeWalk:
    # If functions expand to very many nodes, equal calls outside loops and branches are walked once and multiplied.
    if walker.function_cache is None or context.region:
        expanded: list[Value | None] = yield _walk_function(walker, node, function, context)
        return expanded
    key = function_call_key(node, context.attributes_of(node.proto), context)
    replayed = walker.function_cache.replay(key)
    if replayed is not None:
        return replayed
    walker.recording.note(
        f"the model's functions expand to {walker.functions.expanded} nodes: calls of one function with equal "
        "inputs are counted together, in the module of the first"
    )
    walker.function_cache.enter()
    outputs: list[Value | None] = yield _walk_function(walker, node, function, context)
    walker.function_cache.leave(key, outputs)
    return outputs


def _walk_function(walker: Walker, node: Node, function: Any, context: GraphContext) -> NodeWalk:
    scope = function_scope(function, node.inputs)
    scope.declared = {entry.name: entry.type for entry in function.value_info}
    inside = GraphContext(
        opsets={entry.domain or ONNX: entry.version for entry in function.opset_import} or context.opsets,
        module=walker.recording.modules.of_call(node.proto, context.module),
        prefix=f"{context.prefix}{node.proto.name or node.op}/",
        times=context.times,
        region=context.region,
        call_attributes={**{a.name: a for a in function.attribute_proto}, **context.attributes_of(node.proto)},
        expanding=(node.key,),
        source=node.key,
    )
    yield walker.walk_nodes(function.node, scope, inside, function.output)
    outputs = [scope.find(name) for name in function.output]
    walker.user_shapes.apply(node, context.prefix, outputs)
    return outputs


def function_scope(function: Any, inputs: Sequence[Value | None]) -> Scope:
    """Return the scope of a function's nodes: its inputs; the last ones may be omitted."""
    scope = Scope()
    scope.values.update((name, value) for name, value in zip(function.input, inputs, strict=False) if value is not None)
    scope.absent = frozenset(name for name in function.input if name not in scope.values)
    return scope


# ``Gradient``: the backward pass of a part of the graph


GRADIENT = "ai.onnx.preview.training::Gradient"


def gradient(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> NodeWalk:
    """Record the backward pass of every call between the variables and the output.

    The gradient of a sum is an alias, the gradient of a product is a product. Any other operator has a backward layer
    named after the forward one, with its operands and the gradient ``dy``; without a calculator it is listed as
    unsupported. Gradients of a value with several uses are added.

    Raises:
        CostError: if an attribute names a value that does not exist.
    """
    variables = [_named(node, scope, "xs", name) for name in node.args.get("xs") or ()]
    target = _named(node, scope, "y", node.args.get("y") or "")
    recorder = walker.recording.recorder
    reached = {walker.recording.identity(value) for value in variables}
    path: list[Call] = []
    for call in walker.calls():
        if call.phase == "forward" and reached.intersection(call.inputs):
            reached.update(call.outputs)
            path.append(call)
    key = walker.recording.nodes_key(node.proto.name, tuple(node.proto.output), context.prefix)
    gradients = {walker.recording.identity(target): recorder.new_id()}
    for call in reversed(path):
        if call.outputs and call.outputs[0] in gradients:
            _backward(recorder, call._replace(name=key), reached, gradients)
    yield from ()
    return [Value(value.shape, value.dtype) for value in variables]


def _named(node: Node, scope: Scope, attribute: str, name: str) -> Value:
    value = scope.find(name)
    if value is None:
        raise node.error(f"names {name!r} in its attribute {attribute}, but no input or node output has this name")
    return value


class _Piece(NamedTuple):
    # A layer of a backward pass, the ids of its operands, and the ids of the values whose gradients it computes.
    # Without a layer, these gradients are aliases of ``dy``.
    layer: Layer | None
    inputs: tuple[int, ...]
    targets: tuple[int, ...]


def _backward(recorder: Recorder, call: Call, reached: set[int], gradients: dict[int, int]) -> None:
    given = gradients[call.outputs[0]]
    for piece in _pieces(call, reached, given):
        produced = tuple(recorder.new_id() for _ in piece.targets) if piece.layer is not None else (given,)
        if piece.layer is not None:
            _record(recorder, call, piece.layer, piece.inputs, produced)
        for target, identity in zip(piece.targets, produced, strict=True):
            tensor = next(t for t, i in zip(call.layer.inputs.values(), call.inputs, strict=True) if i == target)
            flowing = call.layer.out if piece.layer is None or len(piece.targets) == 1 else tensor
            if call.layer.op in ARITHMETIC and flowing.shape != tensor.shape:
                identity = _record(recorder, call, *_summed(recorder, flowing, tensor, identity))
            if target in gradients:
                both = Layer("add", {"x0": tensor, "x1": tensor}, [tensor])
                ids = (gradients[target], identity)
                identity = _record(recorder, call, both, ids, (recorder.new_id(),))
            gradients[target] = identity


ARITHMETIC = ("add", "sub", "mul")


def _pieces(call: Call, reached: set[int], given: int) -> Iterable[_Piece]:
    layer, y = call.layer, call.layer.out
    dy = Tensor(y.shape, y.dtype)
    operands = list(zip(layer.inputs.items(), call.inputs, strict=True))
    wanted = [(name, identity) for (name, _), identity in operands if identity in reached]
    if layer.op not in ARITHMETIC or len(operands) > 2:
        attrs = {**layer.attrs, "needs": tuple(name for name, _ in wanted)}
        outputs = [Tensor(layer[name].shape, layer[name].dtype) for name, _ in wanted]
        whole = Layer(f"{layer.op}_backward", {"dy": dy, **layer.inputs}, outputs, attrs)
        yield _Piece(whole, (given, *call.inputs), tuple(identity for _, identity in wanted))
        return
    for k, ((_, _), identity) in enumerate(operands):
        if identity not in reached:
            continue
        (_, other), other_id = operands[1 - k]
        if layer.op == "mul":
            yield _Piece(Layer("mul", {"x0": dy, "x1": other}, [dy]), (given, other_id), (identity,))
        elif layer.op == "sub" and k == 1:
            yield _Piece(Layer("neg", {"x": dy}, [dy]), (given,), (identity,))
        else:
            yield _Piece(None, (), (identity,))


def _summed(
    recorder: Recorder, flowing: Tensor, wanted: Tensor, identity: int
) -> tuple[Layer, tuple[int, ...], tuple[int, ...]]:
    # The gradient of a broadcast operand is summed over the axes of the broadcast.
    missing = flowing.ndim - wanted.ndim
    shape = (1,) * missing + wanted.shape
    axes = tuple(i for i, (a, b) in enumerate(zip(flowing.shape, shape, strict=True)) if a != b or i < missing)
    layer = Layer("reduce_sum", {"x": flowing}, [Tensor(wanted.shape, wanted.dtype)], {"axis": axes, "keepdims": True})
    return layer, (identity,), (recorder.new_id(),)


def _record(recorder: Recorder, call: Call, layer: Layer, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> int:
    recorder.record(
        Call(
            layer=recorder.intern(layer),
            type=f"{call.type}Gradient",
            native=f"{call.native}.backward",
            name=call.name,
            module=call.module,
            phase="backward",
            times=call.times,
            region=call.region,
            inputs=inputs,
            outputs=outputs,
        )
    )
    return outputs[0]


# Notes on stored tensors: unmarked buffers, folded constants


LEARNED_NAMES = frozenset(("weight", "bias", "in_proj_weight", "in_proj_bias"))
"""Names of learned tensors in the modules of PyTorch."""

FACTORS = (("matmul", "x1"), ("quantized_matmul", "x1"))
"""Operands that are learned if they are stored."""


def unmarked_note(stored: Iterable[StoredTensor], calls: Iterable[Call], is_rewritten: bool = False) -> str:
    """Return a note on the tensors that count as parameters and may be buffers; ``""`` if there are none.

    The older exporter of PyTorch stores parameters and buffers alike, and tools drop the marks of the newer one. A
    tensor that is read as a weight or a bias, or is the right factor of a matrix product, is learned; one that is added
    to data may be a mask.

    Args:
        stored: the stored tensors of the model.
        calls: all calls of the run.
        is_rewritten: whether a tool that drops exporter metadata wrote the file.
    """
    candidates = {
        tensor.identity: tensor
        for tensor in stored
        if tensor.identity
        and tensor.is_unmarked
        and tensor.is_parameter
        and str(tensor.name).removesuffix(QUANTIZED).rpartition(".")[2] not in LEARNED_NAMES
    }
    for call in calls if candidates else ():
        for identity, operand in zip(call.inputs, call.layer.inputs, strict=True):
            if role_of(operand) == "param" or (call.layer.op, operand) in FACTORS:
                candidates.pop(identity, None)
    if not candidates:
        return ""
    count, elements = len(candidates), sum(tensor.size for tensor in candidates.values())
    counts = "counts as a parameter, but may be a buffer" if count == 1 else "count as parameters, but may be buffers"
    advice = (
        "The original file may mark them: count that one"
        if is_rewritten
        else "torch.onnx.export(…, dynamo=True) marks them"
    )
    return (
        f"the file does not mark which tensors are learned: {joined([repr(t.name) for t in candidates.values()])} "
        f"({elements} elements) {counts}. {advice}"
    )


def folded_note(stored: Iterable[StoredTensor]) -> str:
    """Return a note on the parameters that the exporter replaced by constants computed from them; ``""`` if none.

    A gathered, repeated or sliced parameter has another number of elements than the parameter of the module.
    """
    folded = [tensor for tensor in stored if tensor.folded_from and tensor.is_parameter]
    if not folded:
        return ""
    each = [f"{tensor.name!r} ({tensor.size} elements, from {tensor.folded_from})" for tensor in folded]
    counts = "counts as a parameter" if len(each) == 1 else "count as parameters"
    return (
        f"the exporter folded constants: {joined(each)} {counts} "
        "with the number of elements in the file, which may differ from that of the module. "
        "torch.onnx.export(…, optimize=False) keeps the parameters"
    )


# Computed shapes, which ONNX Runtime does not know before the run


DYNAMIC = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))
"""Operators whose output shape depends on the values of operands."""

DECIDING: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Expand", "OneHot", "Reshape", "Split", "Squeeze", "Tile", "TopK", "Unsqueeze", "Upsample"), (1,)),
    "ConstantOfShape": (0,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Resize": (2, 3),
    "Slice": (1, 2, 3, 4),
    **{
        f"Reduce{kind}": (1,)
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}
"""Positions of the operands whose values determine the output shape."""

DEPENDENT = DYNAMIC | DECIDING.keys()

PARTS = frozenset(("Cast", "Gather", "Squeeze", "Unsqueeze"))
"""Operators through which ONNX Runtime propagates the values of ``Shape`` in shape inference, besides ``Concat``."""

FOLLOWED = frozenset(("Concat", "Shape", *PARTS))

SIZES = ("Shape", "Size")
"""Operators whose output shape does not depend on the shape of their operand."""

SHAPED = frozenset(("ConstantOfShape", "Expand", "Reshape"))
"""Operators whose shape inference uses propagated values; other operators use stored values only."""

BROADCAST = frozenset(
    (
        *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min"),
        *("Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"),
    )
)
"""Operators that broadcast their operands."""

_op_type = attrgetter("op_type")

Known = tuple[bool, ...]
"""For each dimension whether it is known before the run."""


def unplanned(graph: Any, values: Mapping[str, Value]) -> tuple[int, ...]:
    """Return the operand ids of values whose shapes ONNX Runtime does not know before the run.

    Args:
        graph: the graph of the model.
        values: its values by name, with the shapes of this run.
    """
    if DEPENDENT.isdisjoint(map(_op_type, graph.node)):
        return ()
    nodes = [node for node in graph.node if node.op_type in DEPENDENT]
    stored = {tensor.name for tensor in graph.initializer}
    stored.update(node.output[0] for node in graph.node if node.op_type == "Constant")
    if not any(node.op_type in DYNAMIC or not stored.issuperset(filter(None, _deciding(node))) for node in nodes):
        return ()
    return _Planning(graph, values, stored).run()


def _deciding(node: Any) -> list[str]:
    positions = DECIDING.get(node.op_type)
    return [node.input[i] for i in positions if i < len(node.input)] if positions else []


def _of_indices(node: Any, read: Sequence[Known], rank: int, values: Mapping[str, Value]) -> Known:
    return read[1] if len(read) > 1 else (False,) * rank


def _reshaped(node: Any, read: Sequence[Known], rank: int, values: Mapping[str, Value]) -> Known:
    target = values.get(node.input[1])
    if target is None or target.data is None or len(target.data) != rank:
        return (False,) * rank
    keeps = [axis < len(read[0]) and read[0][axis] for axis in range(rank)]
    return tuple(keeps[axis] if dim == 0 else dim != -1 for axis, dim in enumerate(target.data))


def _transposed(node: Any, read: Sequence[Known], rank: int, values: Mapping[str, Value]) -> Known:
    orders = [attribute.ints for attribute in node.attribute if attribute.name == "perm"]
    order = [*orders[0]] if orders else [*reversed(range(rank))]
    if sorted(order) != [*range(len(read[0]))]:  # the operand is of another graph: a damaged file uses its name twice
        return (False,) * rank
    return tuple(read[0][axis] for axis in order)


def _product(node: Any, read: Sequence[Known], rank: int, values: Mapping[str, Value]) -> Known:
    first, second = read if len(read) == 2 else ((), ())
    if len(first) == rank > 1 and len(second) > 1:
        rows = all(second[:-2])
        return (*(flag and rows for flag in first[:-2]), first[-2], second[-1])
    return (False,) * rank


RULES: Mapping[str, Callable[[Any, Sequence[Known], int, Mapping[str, Value]], Known]] = {
    "GatherElements": _of_indices,
    "MatMul": _product,
    "Reshape": _reshaped,
    "Transpose": _transposed,
}
"""Functions ``(node, operands, rank, values)`` that return the known dimensions of the result of a node.

``operands`` are the known dimensions of its operands, ``rank`` is the rank of the result, ``values`` are all values."""


class _Planning:
    # Source: ``onnxruntime/core/graph/graph.cc`` and its ``data_propagation``, and the inference functions of onnx.
    def __init__(self, graph: Any, values: Mapping[str, Value], stored: set[str]) -> None:
        self._graph = graph
        self._values = values
        self._partly_known: dict[str, Known] = {}
        """The known dimensions of each value that also has unknown ones."""
        self._stored = stored
        self._sizes: set[str] = set()
        """Values whose elements are known sizes of other values."""
        self._elements = set(self._stored)
        """Values whose elements are known before the run."""
        self._numbers = set(self._stored)
        """Values whose shapes are numbers that are known before the run."""
        self._declared: set[str] = set()
        for entry in (*graph.value_info, *graph.output, *graph.input):
            dims = entry.type.tensor_type.shape.dim
            if all(dim.HasField("dim_value") or dim.dim_param for dim in dims):
                self._declared.add(entry.name)
                if all(dim.HasField("dim_value") for dim in dims):
                    self._numbers.add(entry.name)

    def run(self) -> tuple[int, ...]:
        """Return the operand ids of values with an unknown dimension."""
        found: list[int] = []
        for node in self._graph.node:
            op, inputs, outputs = node.op_type, [*filter(None, node.input)], [*filter(None, node.output)]
            has_numbers = op in SIZES or self._numbers.issuperset(inputs)
            if op in FOLLOWED:
                self._follow_sizes(op, inputs, outputs)
            is_plain = op not in DEPENDENT and self._partly_known.keys().isdisjoint(inputs)
            for name in outputs:
                value = self._values.get(name)
                if value is None or value.shape is None:
                    continue
                if (
                    is_plain
                    or name in self._declared
                    or all(known := self._known_dims_of_output(node, op, inputs, value.shape))
                ):
                    if has_numbers:
                        self._numbers.add(name)
                    continue
                self._partly_known[name] = known
                if value.identity and value.stored is None:
                    found.append(value.identity)
        return tuple(found)

    def _follow_sizes(self, op: str, inputs: list[str], outputs: list[str]) -> None:
        is_size = [name in self._sizes for name in inputs]
        if (
            (op == "Shape" and inputs[0] in self._numbers)
            or (op == "Concat" and all(is_size))
            or (op in PARTS and is_size[0] and self._stored.issuperset(inputs[1:]))
        ):
            self._sizes.update(outputs)
            self._elements.update(outputs)

    def _known_dims_of_output(self, node: Any, op: str, inputs: list[str], shape: tuple[Dim, ...]) -> Known:
        rank, read = len(shape), inputs
        if op in DYNAMIC:
            return (False,) * rank
        if op in DECIDING:
            elements = self._elements if op in SHAPED else self._stored
            if not elements.issuperset(filter(None, _deciding(node))):
                return (False,) * rank
            read = [name for i, name in enumerate(node.input) if name and i not in DECIDING[op]]
        if op in SIZES or self._partly_known.keys().isdisjoint(read):
            return (True,) * rank
        if op in BROADCAST:
            return self._broadcast(read, shape)
        if op in RULES:
            return RULES[op](node, [self._known_dims(name) for name in read], rank, self._values)
        operand = self._values.get(read[0])
        if operand is not None and operand.shape == shape and self._partly_known.keys().isdisjoint(read[1:]):
            return self._known_dims(read[0])
        return (False,) * rank

    def _broadcast(self, read: list[str], shape: tuple[Dim, ...]) -> Known:
        rank, distinct = len(shape), set(map(self._known_dims, read))
        if len(distinct) == 1:
            return distinct.pop()
        return tuple(
            any(self._determines(name, axis - rank, shape[axis]) for name in read)
            or all(self._is_known(name, axis - rank) for name in read)
            for axis in range(rank)
        )

    def _known_dims(self, name: str) -> Known:
        value = self._values.get(name)
        rank = 0 if value is None or value.shape is None else len(value.shape)
        return self._partly_known.get(name, (True,) * rank)

    def _is_known(self, name: str, axis: int) -> bool:
        known = self._known_dims(name)
        return -axis > len(known) or known[axis]

    def _determines(self, name: str, axis: int, dim: Dim) -> bool:
        # Whether this operand determines the dimension alone: it is known and not 1, so all others are broadcast to it.
        known, value = self._known_dims(name), self._values.get(name)
        if value is None or value.shape is None or -axis > len(known) or not known[axis]:
            return False
        return not is_symbolic(dim) and value.shape[axis] == dim and bool(dim != 1)
