"""Reductions whose rows are split: few long ones, which several blocks share, and short ones, which are written out."""

from __future__ import annotations

from costcore.analyses.fusion.patterns import reduced_axes
from costcore.ir import Layer
from costcore.numbers.dims import Dim, ceil_div
from costcore.numbers.symbolic import is_negative

MULTIPROCESSORS = 132
"""Multiprocessors of the device that is compiled for, as an H100 has them: what TorchInductor's rule depends on."""

INNER, OUTER = (2, 8192), (64, 128)
"""Rows per multiprocessor from which on none is split, and the longest row that one block reduces.

The first pair is for rows whose elements are neighbors in memory, the second for rows across them. These are the limits
of TorchInductor (``InductorChoices.reduction_split_factor`` of PyTorch 2.13, for compute capabilities below 10).
"""

SHORT = 8
"""The length from which on a reduction is a loop, as in TorchInductor. Shorter rows are written out, one per thread."""


def parts_of_rows(
    layer: Layer, elements: Dim, rows: Dim | None, last: int | None = None, multiprocessors: int = MULTIPROCESSORS
) -> Dim:
    """Return into how many parts each row of a reduction is split.

    It is 1 unless there are provably few and long rows, and 0 if they are so short that they are written out.

    Args:
        layer: the reduction.
        elements: the number of elements that it reads.
        rows: the number of its rows.
        last: the axis whose elements are neighbors in memory; None for the last one.
        multiprocessors: the number of multiprocessors of the device.
    """
    if rows is None or rows == 0:
        return 1
    enough, longest = INNER if _is_inner(layer, last) else OUTER
    length = elements // rows
    if is_negative(length - SHORT):
        return 0
    if is_negative(rows - enough * multiprocessors) and is_negative(longest - length):
        return ceil_div(length, longest)
    return 1


def _is_inner(layer: Layer, last: int | None) -> bool:
    """Return whether the elements of a row are neighbors in memory."""
    shape, axes = next(iter(layer.inputs.values())).shape, reduced_axes(layer)
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    return axes is None or not kept or (kept[-1] if last is None else last) in axes
