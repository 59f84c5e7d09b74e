"""Means."""

from __future__ import annotations

from costcore.trace.patterns import Number

from ...capture.recording import Recorded
from ..matcher import Graph, Match, either, op
from .builders import Decomposition, Group, X, is_mean, layer_of, reduced_axes

_SUM = op("reduce_sum", X)


def _mean(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return the mean of ``x``; the sum must be divided by the number of its elements."""
    x, axes = match.values["x"], reduced_axes(match, graph, "reduce_sum")
    if not is_mean(match, x.size // root.outputs[0].size):
        return None
    return layer_of("reduce_mean", {"x": x}, root, {"axis": axes})


REDUCE_MEAN = Decomposition(
    either(op("div", _SUM, Number(name="count")), op("mul", _SUM, Number(name="share"))),
    lambda match, root, graph: _mean(match, root, graph),
)
