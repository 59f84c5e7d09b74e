"""Rows of windows that slide over an operand, and of their gradients."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .arguments import X, operand, row, sizes
from .reduction import body


def _padding(a: Arguments) -> Any:
    return tuple((int(before), int(after)) for before, after in a["padding"])


WINDOW = {
    "kernel": sizes("window_dimensions"),
    "stride": sizes("window_strides"),
    "padding": _padding,
}

JOINS = ("add", "max", "min", "mul")
"""Primitives that join two elements of a window."""

ROWS: tuple[Row, ...] = (
    Row("jax::reduce_window_max", "max_pool", X, WINDOW),
    Row("jax::reduce_window_min", "window_reduction", X, {**WINDOW, "by": lambda a: "min"}),
    Row("jax::reduce_window_sum", "window_reduction", X, {**WINDOW, "by": lambda a: "add"}),
    Row(
        "jax::reduce_window",
        "window_reduction",
        X,
        {**WINDOW, "by": body},
        when=lambda a: len(a["outputs"]) == 1 and body(a) in JOINS,
    ),
    row("select_and_scatter_add", "jax::select_and_scatter_add", {"dy": operand(0), "x": operand(1)}, **WINDOW),
    Row(
        "jax::select_and_scatter",
        "jax::select_and_scatter_add",
        {"dy": operand(1), "x": operand(0)},
        WINDOW,
        when=lambda a: body(a, "scatter_jaxpr") == "add",
    ),
    row("select_and_gather_add", "jax::select_and_gather_add", {"dy": operand(0), "x": operand(1)}, **WINDOW),
)
