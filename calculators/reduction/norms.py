"""The p-norm as a reduction, for distances, losses and lists of tensors."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Dim, Operations

from .reduce import REDUCTIONS

NORMS: Mapping[object, str] = {
    0: "count_nonzero",
    1: "reduce_l1",
    2: "reduce_l2",
    float("inf"): "reduce_linf",
    float("-inf"): "reduce_linf",
}
"""The reduction that a p-norm is, by p; any other p is ``reduce_lp``."""


def norm_operations(p: object, elements: Dim, count: Dim) -> Operations:
    """Return the operations of the p-norms of ``count`` rows with ``elements`` elements in all."""
    reduction = REDUCTIONS[NORMS.get(p, "reduce_lp")]
    return elements * reduction.each + (elements - count) * reduction.combine + count * reduction.final
