"""Means."""

from __future__ import annotations

from ...capture.recording import Recorded
from ..matcher import Graph, Match, Number, either, op
from .builders import Decomposition, Group, X, layer_of, reduced_axes

_SUM = op("reduce_sum", X)


def _mean(match: Match, root: Recorded, graph: Graph) -> Group | None:
    """Return the mean of ``x``; the sum must be divided by the number of its elements."""
    x, axes = match.values["x"], reduced_axes(match, graph, "reduce_sum")
    length = x.size // root.outputs[0].size
    count, share = match.values.get("count"), match.values.get("share")
    is_mean = (
        count.number == length if count is not None else share is not None and abs(share.number * length - 1) < 1e-3
    )
    return layer_of("reduce_mean", {"x": x}, root, {"axis": axes}) if is_mean else None


REDUCE_MEAN = Decomposition(
    either(op("div", _SUM, Number(name="count")), op("mul", _SUM, Number(name="share"))),
    lambda match, root, graph: _mean(match, root, graph),
)
