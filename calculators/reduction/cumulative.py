"""Cumulative operators along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.ir import Cost, Layer, Operations, covers, maximum, pattern, prod

from .reduce import ADD, CMP, MUL


class Running(NamedTuple):
    """One step of a cumulative operator, and its definition."""

    operations: Operations
    definition: str


CUMULATIVE: Mapping[str, Running] = {
    "cumsum": Running(ADD, "y[i] = y[i-1] + x[i]"),
    "cumprod": Running(MUL, "y[i] = y[i-1] * x[i]"),
    "cummax": Running(CMP, "y[i] = max(y[i-1], x[i])"),
    "cummin": Running(CMP, "y[i] = min(y[i-1], x[i])"),
}


@pattern("opaque")
@covers(CUMULATIVE)
def calc_cumulative(layer: Layer) -> Cost:
    """Cumulative sum, product or extremum along an axis: n - 1 operations per row of length n.

    ``exclusive`` omits the last element of a row: n - 2 operations. The direction does not matter. Without ``axis`` (if
    it is data) the input counts as one row, the maximum.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x, axis = layer["x"], layer.attrs.get("axis")
    rows = 1 if axis is None else prod(size for i, size in enumerate(x.shape) if i != axis)
    steps = x.size - rows
    if layer.attrs.get("exclusive", False):
        steps = maximum(steps - rows, 0)
    return Cost(steps * CUMULATIVE[layer.op].operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_logcumsumexp(layer: Layer) -> Cost:
    """Logarithm of a cumulative sum of exponentials: 2 special per element, n - 1 add per row of length n.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x, axis = layer["x"], layer.attrs["axis"]
    rows = prod(size for i, size in enumerate(x.shape) if i != axis)
    return Cost(Operations(add=x.size - rows, special=2 * x.size), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_linear_recurrence(layer: Layer) -> Cost:
    """Linear recurrence along ``axis``, y_0 = x0_0 and y_i = x1_i y_(i-1) + x0_i.

    One fma per step of a row.

    Shapes: x0[N, T], x1[N, T-1] -> y[N, T]
    Settings: axis=1
    """
    return Cost(Operations(fma=layer["x1"].size), layer.read, layer.written, layer.attrs)
