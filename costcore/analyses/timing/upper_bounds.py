"""Operators whose formula counts more operations than some algorithm needs.

The work of a sort, a decomposition or a search depends on the data or on the algorithm, so that its formula is an upper
bound or that of one algorithm among several. A lower bound of time can only count the bytes of such an operator.
"""

from __future__ import annotations

from costcore.ir import Cost, Layer
from costcore.ledger.ledger import flops_of
from costcore.registry.calculators import calculators

OTHER_ALGORITHMS = frozenset(
    {
        *("classical_ml", "linalg", "random", "resampling", "signal", "text"),  # families
        *("ctc", "hierarchical_softmax", "histogram", "masked", "regions", "renorm", "segments", "sort_search"),
    }
)
"""Families and files of calculators whose operators may need fewer operations than their formulas count: a radix sort
compares nothing, an interpolation can go axis by axis, a suppressed box is not compared again."""

POOLING = "pooling"
"""The family of poolings: overlapping windows may share partial results, and every element takes part at least once."""


def needed_part(layer: Layer, cost: Cost) -> float:
    """Return the part of the operations of a layer that every algorithm needs, judged by its family.

    Args:
        layer: the layer.
        cost: its cost, with numbers.
    """
    places = set(getattr(calculators().get(layer.op), "__module__", "").split("."))
    if places & OTHER_ALGORITHMS:
        return 0.0
    if POOLING in places:
        operations = flops_of(cost, True)
        elements = max((tensor.size for tensor in (*layer.inputs.values(), *layer.outputs)), default=0)
        return min(1.0, elements / operations) if operations else 1.0
    return 1.0
