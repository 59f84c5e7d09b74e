"""Scaled dot-product attention."""

from __future__ import annotations

from typing import NamedTuple

from costcore.ir import Layer, Tensor, prod
from costcore.numbers import Dim
from costcore.trace.patterns import Named, Number, Operand

from ...capture.recording import Recorded
from ...capture.values import Value
from ...rows.matmul import Axes, axes_of
from ..matcher import Graph, Match, either, op
from .builders import Decomposition, Group, found_product, layer_of

_LEFT = Operand("left")
_SCALED_LEFT = Named("scaled", either(op("mul", _LEFT, Number()), op("div", _LEFT, Number())))
_DOT_QK = op("dot_general", either(_SCALED_LEFT, _LEFT), Operand("right"))
_SCALED_SCORES = either(op("mul", _DOT_QK, Number()), op("div", _DOT_QK, Number()), _DOT_QK)
_MASK = either(op("broadcast_in_dim", Operand("mask")), Operand("mask"))
_MASKED = either(
    op("add", _SCALED_SCORES, _MASK),
    op("select_n", _MASK, Number(), _SCALED_SCORES),
    _SCALED_SCORES,
)
_SOFTMAX_X = Named("x", _MASKED, moved=True)
_LARGEST_SCORE = op("reduce_max", _SOFTMAX_X)
_SHIFTED_SCORES = op("sub", _SOFTMAX_X, either(op("max", Number(), _LARGEST_SCORE), _LARGEST_SCORE))
_POWERS_OF_SCORES = Named("powers", op("exp", _SHIFTED_SCORES))
_WEIGHTS = Named("weights", op("div", _POWERS_OF_SCORES, op("reduce_sum", _POWERS_OF_SCORES)))
ATTENTION = Decomposition(
    either(op("dot_general", _WEIGHTS, Operand("v")), op("dot_general", Operand("v"), _WEIGHTS)),
    lambda match, root, graph: _attention(match, root, graph),
)


class Side(NamedTuple):
    """One operand of a product.

    Attributes:
        value: the operand.
        batch: sizes of its batch axes.
        steps: elements of its free axes.
        contracted: elements of the axes that are summed over.
    """

    value: Value
    batch: tuple[Dim, ...]
    steps: Dim
    contracted: Dim

    @property
    def batch_size(self) -> Dim:
        """The number of products."""
        return prod(self.batch)


def _sides(recorded: Recorded) -> tuple[Side, Side]:
    """Return both operands of ``dot_general``."""
    left, right = axes_of({**recorded.params, "inputs": list(recorded.inputs)})
    return _side(recorded.inputs[0], left), _side(recorded.inputs[1], right)


def _side(value: Value, axes: Axes) -> Side:
    batch, free, contracted = ([value.shape[i] for i in found] for found in (axes.batch, axes.free, axes.contracted))
    return Side(value, tuple(batch), prod(free), prod(contracted))


def _attention(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return attention of ``q``, ``k`` and ``v`` as [batch and heads, steps, features]."""
    scores = found_product(match, root, graph)
    if scores is None:
        return None
    pair = _sides(scores)
    values = next((side for side in _sides(root) if side.value.identity == match.values["v"].identity), None)
    if values is None or not pair[0].batch or values.batch_size != pair[0].batch_size:
        return None
    # both have as many features; the keys have as many steps as the values
    q, k = pair if pair[1].steps == values.contracted else pair[::-1]
    if k.steps != values.contracted or not _is_over(k.steps, match, graph):
        return None
    if "scaled" in match.values:
        q, k = (side._replace(value=_unscaled(side.value, match)) for side in (q, k))
    batch = q.batch
    operands = {
        "q": q.value.viewed(*batch, q.steps, q.contracted),
        "k": k.value.viewed(*batch, k.steps, k.contracted),
        "v": values.value.viewed(*batch, values.contracted, values.steps),
    }
    if "mask" in match.values:
        operands["mask"] = match.values["mask"]
    y = Tensor((*batch, q.steps, values.steps), root.outputs[0].dtype)
    layer, found = layer_of("attention", operands, root, {})
    return Layer("attention", layer.inputs, [y]), found


def _is_over(keys: Dim, match: Match, graph: Graph) -> bool:
    """Return whether the softmax is over one axis, that of the keys."""
    reductions = [graph.history[i] for i in match.nodes if graph.history[i].primitive in ("reduce_max", "reduce_sum")]
    axes = [(each.inputs[0].shape, each.params["axes"]) for each in reductions]
    return all(len(reduced) == 1 and shape[int(reduced[0])] == keys for shape, reduced in axes)


def _unscaled(value: Value, match: Match) -> Value:
    """Return the operand that was scaled before the product."""
    is_scaled = value.identity == match.values["scaled"].identity
    return match.values["left"].viewed(*value.shape) if is_scaled else value
