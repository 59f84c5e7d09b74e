"""A captured inference with 8-bit integers in place of floating-point numbers."""

from __future__ import annotations

from costcore.analyses.timing.retyped import layer_at, replace_tensors
from costcore.analyses.timing.work import NOT_MULTIPLIED
from costcore.ir import Layer, Tensor
from costcore.numbers.dims import Dim
from costcore.trace.call import Call
from costcore.trace.dataflow import Dataflow, Value
from costcore.trace.trace import Trace

BIAS = "b"
"""The operand name of biases, which stay integers of 32 bits: products of 8-bit numbers are added to them."""


def quantized(trace: Trace) -> Trace:
    """Return an inference whose weights and values are int8, and whose biases are int32, as in TensorFlow Lite.

    Scales and zero points are not counted; nor do operators of quantization appear, which a runtime fuses. Only
    memory is that of such a run: costs stay as they are.

    Source: Jacob et al. 2018, arXiv:1712.05877, section 2.4.
    """
    layers: dict[int, Layer] = {}
    sizes: dict[int, Dim] = {}
    records = []
    for record in trace:
        old = record.call.layer
        new = layers[id(old)] if id(old) in layers else layers.setdefault(id(old), _at_int8(old))
        sizes |= _sizes(record.call, new)
        records.append(record._replace(call=record.call._replace(layer=new)))
    flow = trace.run.dataflow
    run = trace.run if flow is None else trace.run.recording(dataflow=_resized(flow, sizes))
    return Trace(tuple(records), run)


def is_quantized(trace: Trace) -> bool:
    """Return whether products run on integers already; what is left real are inputs, results and scales."""
    return any(call.layer.op.startswith("quantized_") for call in trace.calls)


def _at_int8(layer: Layer) -> Layer:
    made = layer_at(layer, "int8")
    scales = {name: tensor for name, tensor in layer.inputs.items() if name.endswith(NOT_MULTIPLIED)}
    if scales:
        made = replace_tensors(made, {**made.inputs, **scales}, made.outputs)
    bias = layer.inputs.get(BIAS)
    if made is layer or bias is None or bias.role != "param":
        return made
    integers = Tensor(bias.shape, "int32", bias.role)
    return replace_tensors(made, {**made.inputs, BIAS: integers}, made.outputs)


def _sizes(call: Call, layer: Layer) -> dict[int, Dim]:
    """Return the new sizes of what a call reads and makes, by id."""
    ids = (*call.inputs, *call.outputs)
    return {i: tensor.nbytes for i, tensor in zip(ids, (*layer.inputs.values(), *layer.outputs), strict=True) if i}


def _resized(flow: Dataflow, sizes: dict[int, Dim]) -> Dataflow:
    def changed(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(value._replace(nbytes=sizes.get(value.id, value.nbytes)) for value in values)

    steps = tuple(step._replace(makes=changed(step.makes)) for step in flow.steps)
    return flow._replace(inputs=changed(flow.inputs), stored=changed(flow.stored), steps=steps)
