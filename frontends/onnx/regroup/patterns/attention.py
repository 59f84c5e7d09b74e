"""Scaled dot-product attention as PyTorch's exporters decompose it for opsets without an Attention operator.

The TorchScript exporter writes boolean and causal masks in float32. In half precision it converts the scores and the
values to float32 and computes on in it: the file attends in another precision than PyTorch, and is not matched.
"""

from __future__ import annotations

from costcore.numbers.dims import Dim
from costcore.trace.patterns import Either, Named, Number, Op, Operand, Pattern

from ...reading.exporter_metadata import origin
from ...values.value import Value
from ...walk.history import RecordedNode
from ..exported_program import operation
from ..matcher import Decomposition, Extension, Group, Match, last_axis
from .checks import is_shape

Q, KT, V, MASK = (Operand(name) for name in ("q", "kt", "v", "mask"))

_SCORES = Either(
    (Op("MatMul", Op("Mul", Q, Number()), Op("Mul", KT, Number())), Named("unscaled", Op("MatMul", Q, KT)))
)
_SOFTMAX = Named("weights", Op("Softmax", Either((Op("Add", _SCORES, MASK), _SCORES)), check=last_axis))
_WEIGHTS = Either((_SOFTMAX, Op("Where", Op("IsNaN", _SOFTMAX), Number(0.0), _SOFTMAX)))
_ATTENTION = Op(
    "MatMul", Either((_WEIGHTS, Op("Dropout", _WEIGHTS, check=lambda recorded: _is_inactive_dropout(recorded)))), V
)


def _swaps_last(recorded: RecordedNode) -> bool:
    rank = recorded.call.layer.out.ndim
    return bool(rank > 1 and recorded.call.layer.attrs.get("axes") == (*range(rank - 2), rank - 1, rank - 2))


_SWAPPED = Op("Transpose", Operand("k"), check=_swaps_last)
_FOLDED = Op(
    "Reshape", Op("Transpose", Named("folded", Op("Reshape", Operand("k"))), check=_swaps_last)
)  # with all axes before the last two merged
_SPREAD = Named("spread", Op("Expand", Named("apart", Op("Unsqueeze", Operand("head")))))
_REPEATED = Op("Reshape", _SPREAD)
_FOLDED_AND_REPEATED = Op("Reshape", Op("Transpose", Named("folded", _REPEATED), check=_swaps_last))
_TIMES = Op("Mul", Operand("factor"), Number())
_LOWEST = Either(tuple(Number(x) for x in (float("-inf"), -3.4028234663852886e38, -65504.0, -3.3895313892515355e38)))
_MASKED = Op("Where", Operand("allowed"), Number(0.0), _LOWEST)
_CAUSAL = Op(
    "Where",
    Op("Equal", Op("Trilu", Op("Expand", Number(1.0)), check=lambda recorded: _is_lower(recorded)), Number(0.0)),
    _LOWEST,
    Number(0.0),
)


def _is_inactive_dropout(recorded: RecordedNode) -> bool:
    """Return True for a dropout that is not in training mode."""
    return not recorded.call.layer.attrs.get("training")


def _is_lower(recorded: RecordedNode) -> bool:
    return recorded.node.args.get("upper") == 0 and recorded.node.args.get("k") is None


def _build(match: Match, extend: Extension) -> Group | None:
    q, kt, v = (match.values[name] for name in ("q", "kt", "v"))
    y = match.nodes[0].call.layer.out
    if any(x.shape is None or len(x.shape) != len(y.shape) for x in (q, kt, v)) or len(y.shape) < 3:
        return None
    rows, weights, keys = q.known_shape[:-1], match.values["weights"].shape, kt.known_shape[-1]
    if weights is not None and v.known_shape[-2] == keys:
        weights = (*weights[:-1], keys)  # the product with the values requires it, whatever the mask's size is called
    if not is_shape(weights, (*rows, keys)) or not is_shape(y.shape, (*rows, v.known_shape[-1])):
        return None  # broadcast beyond the queries
    if "unscaled" in match.values and not _is_scaled_by_one(match, extend):
        return None
    swapped = (*kt.known_shape[:-2], kt.known_shape[-1], kt.known_shape[-2])
    grouped = _one_head_for_many(match, extend, kt, _FOLDED_AND_REPEATED, swapped)
    longer = extend(match, kt, _SWAPPED) or extend(match, kt, _FOLDED)
    if grouped is not None:
        match, k = grouped
    elif longer is not None and _is_key(longer, swapped):
        match, k = longer, longer.values["k"]
        match, k = _one_head_for_many(match, extend, k) or (match, k)
    else:
        k = kt.viewed(swapped)
    match, v = _one_head_for_many(match, extend, v) or (match, v)
    operands, attrs = {"q": q, "k": k, "v": v}, {"causal": False}
    mask = match.values.get("mask")
    if mask is not None:
        causal, masked = extend(match, mask, _CAUSAL), extend(match, mask, _MASKED)
        if causal is not None and mask.known_shape == (q.known_shape[-2], kt.known_shape[-1]):
            match, attrs = causal, {"causal": True}
        elif masked is not None and masked.values["allowed"].dtype == "bool":
            match, allowed = masked, masked.values["allowed"]
            if not _allows_all(allowed, extend):
                operands["mask"] = allowed
        else:
            operands["mask"] = mask
    guarded = "IsNaN" in {recorded.node.op for recorded in match.nodes}
    if guarded and (mask is None or not (_is_folded(match, mask) or extend(match, mask, _MASKED, shared=True))):
        return None  # only a boolean mask leaves rows without weights
    return Group("attention", "Attention", operands, attrs, match.nodes)


def _is_scaled_by_one(match: Match, extend: Extension) -> bool:
    """Return True if the user's program attends with the scale 1, whose products the exporter removes."""
    written_for = origin(match.nodes[0].node.proto)
    source = operation(written_for)
    if source is None or source.name != "scaled_dot_product_attention":
        return False
    scaled = (extend(match, match.values[name], _TIMES, shared=True) for name in ("q", "kt"))
    return all(longer is None or origin(longer.nodes[-1].node.proto) != written_for for longer in scaled)


def _allows_all(mask: Value, extend: Extension) -> bool:
    """Return True for a constant mask that masks nothing: PyTorch's models leave it out unless they are exported."""
    made = extend.producer(mask)
    source = made.node.inputs[0] if made is not None and made.node.op == "Expand" else mask
    return source is not None and source.role == "const" and source.data is not None and bool(all(source.data.flat))


def _is_folded(match: Match, mask: Value) -> bool:
    """Return True for a mask that the exporter folded from a boolean one, which is the only mask that it guards for."""
    return mask.stored is not None and bool(origin(match.nodes[0].node.proto))


def _is_key(match: Match, shape: tuple[Dim, ...]) -> bool:
    folded = match.values.get("folded")
    return is_shape(match.values["k"].shape, shape) and (folded is None or folded.known_shape[-2:] == shape[-2:])


def _one_head_for_many(
    match: Match, extend: Extension, value: Value, pattern: Pattern = _REPEATED, shape: tuple[Dim, ...] | None = None
) -> tuple[Match, Value] | None:
    """Return keys or values as they were before the exporter repeated them for grouped queries; None if it did not.

    Args:
        match: the match so far.
        extend: extends it.
        value: the keys, transposed keys or values.
        pattern: how they are repeated.
        shape: the shape of the repeated keys; default: that of ``value``.
    """
    without = {name: v for name, v in match.values.items() if name not in ("head", "apart", "spread", "folded")}
    longer = extend(Match(without, match.nodes), value, pattern)
    if longer is None or not origin(longer.nodes[0].node.proto):
        return None  # a program that repeats them itself attends to the repeated ones
    head, apart, spread = (longer.values[name].known_shape for name in ("head", "apart", "spread"))
    if len(head) != 4 or apart != (*head[:2], 1, *head[2:]):
        return None
    repeated = (head[0], head[1] * spread[2], *head[2:])
    if spread != (*head[:2], spread[2], *head[2:]) or not is_shape(shape or value.known_shape, repeated):
        return None
    folded = longer.values.get("folded")
    return (longer, longer.values["head"]) if folded is None or folded.known_shape[-2:] == head[2:] else None


ATTENTION = Decomposition(("MatMul",), _ATTENTION, _build)
"""``softmax((q * s) (k^T * s) + mask) v``."""
