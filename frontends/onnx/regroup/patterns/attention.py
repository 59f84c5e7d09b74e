"""Scaled dot-product attention as PyTorch's exporters decompose it for opsets without an Attention operator.

The TorchScript exporter writes boolean and causal masks in float32. In half precision it converts the scores and the
values to float32 and computes on in it: the file attends in another precision than PyTorch, and is not matched.
"""

from __future__ import annotations

from ...reading.exporter_metadata import origin
from ...values.value import Value
from ...walk.history import RecordedNode
from ..matcher import Decomposition, Either, Extension, Group, Match, Named, Number, Op, Operand, last_axis

Q, KT, V, MASK = (Operand(name) for name in ("q", "kt", "v", "mask"))

_SCORES = Op("MatMul", Op("Mul", Q, Number()), Op("Mul", KT, Number()))
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
_REPEATED = Op("Reshape", Named("spread", Op("Expand", Named("apart", Op("Unsqueeze", Operand("head"))))))
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
    rows = q.known_shape[:-1]
    if match.values["weights"].shape != (*rows, kt.known_shape[-1]) or y.shape != (*rows, v.known_shape[-1]):
        return None  # broadcast beyond the queries
    swapped = (*kt.known_shape[:-2], kt.known_shape[-1], kt.known_shape[-2])
    longer = extend(match, kt, _SWAPPED) or extend(match, kt, _FOLDED)
    if longer is not None and _is_key(longer, swapped):
        match, k = longer, longer.values["k"]
    else:
        k = kt.viewed(swapped)
    match, k = _one_head_for_many(match, extend, k)
    match, v = _one_head_for_many(match, extend, v)
    operands, attrs = {"q": q, "k": k, "v": v}, {"causal": False}
    mask = match.values.get("mask")
    if mask is not None:
        causal, masked = extend(match, mask, _CAUSAL), extend(match, mask, _MASKED)
        if causal is not None and mask.known_shape == (q.known_shape[-2], kt.known_shape[-1]):
            match, attrs = causal, {"causal": True}
        elif masked is not None and masked.values["allowed"].dtype == "bool":
            match, operands["mask"] = masked, masked.values["allowed"]
        else:
            operands["mask"] = mask
    guarded = "IsNaN" in {recorded.node.op for recorded in match.nodes}
    if guarded and (mask is None or not (_is_folded(match, mask) or extend(match, mask, _MASKED, shared=True))):
        return None  # only a boolean mask leaves rows without weights
    return Group("attention", "Attention", operands, attrs, match.nodes)


def _is_folded(match: Match, mask: Value) -> bool:
    """Return True for a mask that the exporter folded from a boolean one, which is the only mask that it guards for."""
    return mask.stored is not None and bool(origin(match.nodes[0].node.proto))


def _is_key(match: Match, shape: tuple[object, ...]) -> bool:
    folded = match.values.get("folded")
    return match.values["k"].shape == shape and (folded is None or folded.known_shape[-2:] == shape[-2:])


def _one_head_for_many(match: Match, extend: Extension, value: Value) -> tuple[Match, Value]:
    """Return keys or values as they were before the exporter repeated them for grouped queries."""
    without = {name: v for name, v in match.values.items() if name not in ("head", "apart", "spread")}
    longer = extend(match._replace(values=without), value, _REPEATED)
    if longer is None or not origin(longer.nodes[0].node.proto):
        return match, value  # a program that repeats them itself attends to the repeated ones
    head, apart, spread = (longer.values[name].known_shape for name in ("head", "apart", "spread"))
    if len(head) != 4 or apart != (*head[:2], 1, *head[2:]):
        return match, value
    if spread != (*head[:2], spread[2], *head[2:]) or value.known_shape != (head[0], head[1] * spread[2], *head[2:]):
        return match, value
    return longer, longer.values["head"]


ATTENTION = Decomposition(("MatMul",), _ATTENTION, _build)
"""``softmax((q * s) (k^T * s) + mask) v``."""
