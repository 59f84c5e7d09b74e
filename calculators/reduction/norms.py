"""The p-norm as a reduction, for distances, losses and lists of tensors."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Dim, Operations

from .reduce import REDUCTIONS, lp_reduction

NORMS: Mapping[object, str] = {
    0: "count_nonzero",
    1: "reduce_l1",
    2: "reduce_l2",
    float("inf"): "reduce_linf",
    float("-inf"): "reduce_linf",
}
"""The reduction that a p-norm is, by p; any other p is :func:`.reduce.lp_reduction`."""


def norm_operations(p: object, elements: Dim, count: Dim) -> Operations:
    """Return the operations of the p-norms of ``count`` rows with ``elements`` elements in all."""
    reduction = REDUCTIONS[NORMS[p]] if p in NORMS else lp_reduction(p)
    return elements * reduction.each + (elements - count) * reduction.combine + count * reduction.final
