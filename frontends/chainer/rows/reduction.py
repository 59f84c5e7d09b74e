"""Rows of reductions, and of cumulative sums, products and recurrences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row

from ..arrays import Reshaped
from .arguments import (
    X_DY,
    X,
    attribute,
    axes,
    axis,
    constant,
    input_at,
    row,
    rows_by_name,
)

REDUCTIONS: Mapping[str, str] = {
    "LogSumExp": "reduce_log_sum_exp",
    "Max": "reduce_max",
    "Mean": "reduce_mean",
    "Min": "reduce_min",
    "Prod": "reduce_prod",
    "Sum": "reduce_sum",
}
INDEX_REDUCTIONS: Mapping[str, str] = {"ArgMax": "argmax", "ArgMin": "argmin"}
CUMULATIVE: Mapping[str, str] = {"Cumprod": "cumprod", "Cumsum": "cumsum"}


def summed_axes(args: Arguments) -> tuple[int, ...]:
    """Return the axes that ``F.sum_to``, the reverse of broadcasting, sums over."""
    shape, target = args["inputs"][0].shape, args["function"]._shape
    lead = len(shape) - len(target)
    return (*range(lead), *(lead + i for i, size in enumerate(target) if size == 1 != shape[lead + i]))


def all_but_first_axis(args: Arguments) -> tuple[int, ...]:
    """Return all axes but the first."""
    return tuple(range(1, args["inputs"][0].ndim))


def flattened_without_axis(args: Arguments) -> Any:
    """Return the input, flattened if the function has no axis."""
    x = args["inputs"][0]
    return x if args["function"].axis is not None else Reshaped(x, (x.size,))


ROWS: tuple[Row, ...] = (
    *rows_by_name(REDUCTIONS, X, axis=axes, keepdims=attribute("keepdims")),
    *rows_by_name(INDEX_REDUCTIONS, X, axis=axes, keepdims=constant(False)),
    *rows_by_name(CUMULATIVE, {"x": flattened_without_axis}, axis=lambda args: axis(args) or 0),
    row("SumTo", "reduce_sum", X, axis=summed_axes, keepdims=constant(True)),
    row("BatchL2NormSquared", "reduce_sum_square", X, axis=all_but_first_axis),
    row("Cumprodsum", "linear_recurrence", {"x0": input_at(1), "x1": input_at(0)}, axis=attribute("axis")),
    # gradients
    row("BatchL2NormSquaredGrad", "reduce_sum_square_backward", X_DY),
)
