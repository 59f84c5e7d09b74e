"""Layers in which samples of one batch depend on each other, so that micro-batches do not give the same result."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.ir import Layer
from costcore.reports.report import Report

BATCH_STATISTICS = "batch_norm"
"""The operator that in training uses statistics of the batch."""


def couplings(first: Report, second: Report) -> list[str]:
    """Return which layers couple the samples of a batch, as sentences.

    Args:
        first: the report of a batch.
        second: the report of another one.
    """
    notes = []
    n_norms = sum(map(_uses_batch_statistics, _forward(first)))
    if n_norms:
        notes.append(
            f"{n_norms} {BATCH_STATISTICS} layer{'s' * (n_norms > 1)} in training normalize{'s' * (n_norms == 1)} with "
            "the statistics of a micro-batch: the result is not that of one large batch"
        )
    pairs = [layer.op for layer in _pairwise(_forward(first), _forward(second))]
    if pairs:
        notes.append(
            f"samples of a batch are compared with each other (by {pairs[0]}), as in a contrastive loss: micro-batches "
            "compare fewer pairs"
        )
    return notes


def _forward(report: Report) -> list[Layer]:
    return [call.layer for call in report.calls if call.phase == "forward"]


def _uses_batch_statistics(layer: Layer) -> bool:
    return layer.op == BATCH_STATISTICS and bool(layer.attrs.get("training"))


def _pairwise(first: Sequence[Layer], second: Sequence[Layer]) -> list[Layer]:
    """Return the layers with an output of which two dimensions or more depend on the batch."""
    if [layer.op for layer in first] != [layer.op for layer in second]:
        return []
    return [a for a, b in zip(first, second, strict=True) if _varying(a, b) > 1]


def _varying(a: Layer, b: Layer) -> int:
    """Return the largest number of dimensions of an output that differ in two layers."""
    pairs = [(x.shape, y.shape) for x, y in zip(a.outputs, b.outputs, strict=False) if len(x.shape) == len(y.shape)]
    return max((sum(m != n for m, n in zip(x, y, strict=True)) for x, y in pairs), default=0)
