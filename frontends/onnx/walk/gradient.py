"""The ``Gradient`` operator: the backward pass of a part of the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from costcore.ir import Layer, Tensor
from costcore.trace.call import Call
from costcore.trace.recorder import Recorder

from ..graph.node import Node
from ..graph.scope import GraphContext, Scope
from ..values.value import Value
from .walker import Outputs, Walker

GRADIENT = "ai.onnx.preview.training::Gradient"


def gradient(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs:
    """Record the backward pass of every call between the variables and the output.

    The gradient of a sum is an alias, that of a product is a product. Any other operator has a backward layer named
    after the forward one, with its operands and the gradient ``dy``; without a calculator it is listed as unsupported.
    The gradients of a value that is used several times are added.

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
    """Return the value that an attribute names."""
    value = scope.find(name)
    if value is None:
        raise node.error(f"names {name!r} in its attribute {attribute}, but no input or node output has this name")
    return value


class _Piece(NamedTuple):
    """One layer of a backward pass: the operand ids it reads, and the values whose gradients it produces."""

    layer: Layer | None
    inputs: tuple[int, ...]
    targets: tuple[int, ...]


def _backward(recorder: Recorder, call: Call, reached: set[int], gradients: dict[int, int]) -> None:
    """Record the backward pass of one call, for those of its inputs that depend on the variables."""
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
    """Return the sum over the axes along which an operand was broadcast."""
    missing = flowing.ndim - wanted.ndim
    shape = (1,) * missing + wanted.shape
    axes = tuple(i for i, (a, b) in enumerate(zip(flowing.shape, shape, strict=True)) if a != b or i < missing)
    layer = Layer("reduce_sum", {"x": flowing}, [Tensor(wanted.shape, wanted.dtype)], {"axis": axes, "keepdims": True})
    return layer, (identity,), (recorder.new_id(),)


def _record(recorder: Recorder, call: Call, layer: Layer, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> int:
    """Record a layer of the backward pass of ``call`` and return the id of its first output."""
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
