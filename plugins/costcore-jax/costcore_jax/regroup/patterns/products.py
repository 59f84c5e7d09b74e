"""Linear layers and convolutions with a bias."""

from __future__ import annotations

from costcore.ir import Layer
from costcore.trace.patterns import Operand

from ...capture.recording import Recorded
from ...capture.values import Value
from ..matcher import Graph, Match, either, op, vector
from .builders import B, Decomposition, Group, found_product

_DOT = op("dot_general", Operand("left"), Operand("right"))
_CONV = op("conv_general_dilated", Operand("left"), Operand("right"))
_BIAS = either(op("broadcast_in_dim", B), B)
LINEAR = Decomposition(op("add", _DOT, _BIAS), lambda match, root, graph: _biased(match, root, graph))
CONV = Decomposition(op("add", _CONV, _BIAS), lambda match, root, graph: _biased(match, root, graph))


def _biased(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return a linear layer or convolution with its bias, which has one element per output feature."""
    product = found_product(match, root, graph)
    if product is None:
        return None
    call, bias = product.call, match.values["b"]
    if call.layer.op not in ("linear", "conv", "conv_transpose") or root.outputs[0].size != call.layer.out.size:
        return None
    w = call.layer["w"].shape
    features = w[1] * call.layer.attrs["groups"] if call.layer.op == "conv_transpose" else w[0]
    if bias.size != features or "b" in call.layer:
        return None
    tensor, out = vector(bias).tensor(), root.outputs[0].tensor()
    if tensor is None or out is None:
        return None
    layer = Layer(call.layer.op, {**call.layer.inputs, "b": tensor}, [out], call.layer.attrs)
    return layer, (*_operands(product), bias)


def _operands(recorded: Recorded) -> tuple[Value, ...]:
    """Return the operands of a product in the order of its layer."""
    by_id = {value.identity: value for value in recorded.inputs}
    return tuple(by_id[identity] for identity in recorded.call.inputs)
