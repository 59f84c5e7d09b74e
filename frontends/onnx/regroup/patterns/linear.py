"""Linear layers and convolutions as exporters decompose them."""

from __future__ import annotations

from costcore.trace.patterns import Either, Named, Number, Op

from ...reading.exporter_metadata import origin
from ...values.value import Value
from ...walk.history import RecordedNode
from ..exported_program import operation
from ..matcher import B, Decomposition, Extension, Group, Match, W, X
from .checks import is_learned, is_shape


def _is_swap(recorded: RecordedNode) -> bool:
    return bool(recorded.call.layer.attrs.get("axes") == (1, 0))


_TRANSPOSED = Op("Transpose", W, check=_is_swap)
_LINEAR = Either(
    (
        Op("Add", Op("MatMul", X, Either((_TRANSPOSED, W))), B),
        Op("MatMul", X, _TRANSPOSED),
    )
)


def _is_learned_part(value: Value, extend: Extension) -> bool:
    """Return True for a learned tensor or a slice of one, as the projections of attention are."""
    whole = extend.whole(value)
    return is_learned(whole, *(whole.shape or ()))


def _is_written_for_linear(match: Match) -> bool:
    """Return True for nodes that the TorchScript exporter writes for a linear layer: the bias is the first operand."""
    root, b = match.nodes[0], match.values.get("b")
    is_transposed = any(recorded.node.op == "Transpose" for recorded in match.nodes)
    return is_transposed and b is not None and root.node.inputs[0] is b and not origin(root.node.proto)


def _linear(match: Match, extend: Extension) -> Group | None:
    x, w, b = match.values["x"], match.values["w"], match.values.get("b")
    written_for = origin(match.nodes[0].node.proto)
    source = operation(written_for)
    is_linear = (source is not None and source.name == "linear") or _is_written_for_linear(match)
    if w.shape is None or len(w.shape) != 2 or not (is_linear or _is_learned_part(w, extend)) or not x.shape:
        return None
    if not any(recorded.node.op == "Transpose" for recorded in match.nodes):
        w = w.viewed(w.shape[::-1])
    operands = {"x": x, "w": w}
    if b is not None:
        # one operation of the user's program may have a computed bias too
        if not (written_for or _is_learned_part(b, extend)) or not is_shape(b.shape, w.known_shape[:1]):
            return None
        operands["b"] = b
    return Group("linear", "Gemm", operands, {}, match.nodes)


_ZEROS = Either((Number(0.0), Op("Expand", Number(0.0))))


def _unbiased(match: Match, _: Extension) -> Group | None:
    """Build a convolution without its bias, which is computed and zero."""
    recorded = match.nodes[0]
    if match.values["b"].stored is not None or recorded.call.layer.op not in ("conv", "conv_transpose"):
        return None
    operands = {"x": match.values["x"], "w": match.values["w"]}
    return Group(recorded.call.layer.op, recorded.node.op, operands, recorded.call.layer.attrs, match.nodes)


LINEAR = Decomposition(("Add", "MatMul"), _LINEAR, _linear)
CONV = Decomposition(
    ("Conv", "ConvTranspose"),
    Either(tuple(Op(kind, X, W, Named("b", _ZEROS)) for kind in ("Conv", "ConvTranspose"))),
    _unbiased,
)
