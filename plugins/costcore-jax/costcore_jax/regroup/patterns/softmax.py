"""Softmax and its logarithm."""

from __future__ import annotations

from costcore.trace.patterns import Named, Number

from ...capture.recording import Recorded
from ..matcher import Graph, Match, either, op
from .builders import Builder, Decomposition, Group, X, layer_of, reduced_axes

_LARGEST = op("reduce_max", X)
_SHIFTED = op("sub", X, either(op("max", Number(), _LARGEST), _LARGEST))
_POWERS = Named("powers", op("exp", _SHIFTED))
_SHIFT = Named("shifted", _SHIFTED)


def _along_axis(kind: str) -> Builder:
    def build(match: Match, root: Recorded, graph: Graph) -> Group | None:
        axes = reduced_axes(match, graph, "reduce_sum", "reduce_max")
        return None if axes is None else layer_of(kind, {"x": match.values["x"]}, root, {"axis": axes})

    return build


SOFTMAX = Decomposition(op("div", _POWERS, op("reduce_sum", _POWERS)), _along_axis("softmax"))
LOG_SOFTMAX = Decomposition(
    op("sub", _SHIFT, op("log", op("reduce_sum", op("exp", _SHIFT)))), _along_axis("log_softmax")
)
