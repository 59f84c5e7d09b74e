"""Rows of reductions, cumulative primitives, sorts and searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costcore.translate import Arguments, Row

from .arguments import X, axes, operand, row

REDUCTIONS: Mapping[str, str] = {
    "reduce_and": "reduce_all",
    "reduce_max": "reduce_max",
    "reduce_min": "reduce_min",
    "reduce_or": "reduce_any",
    "reduce_prod": "reduce_prod",
    "reduce_sum": "reduce_sum",
    "reduce_xor": "reduce_xor",
}

BY_BODY: Mapping[str, str] = {
    "add": "reduce_sum",
    "and": "reduce_all",
    "max": "reduce_max",
    "min": "reduce_min",
    "mul": "reduce_prod",
    "or": "reduce_any",
    "xor": "reduce_xor",
}
"""The reduction that a function of two elements makes, if it is one primitive."""

CUMULATIVE: Mapping[str, str] = {
    "cumlogsumexp": "logcumsumexp",
    "cummax": "cummax",
    "cummin": "cummin",
    "cumprod": "cumprod",
    "cumsum": "cumsum",
}


def body(a: Arguments, name: str = "jaxpr") -> str:
    """Return the one primitive that joins two elements; empty if several do."""
    jaxpr: Any = getattr(a[name], "jaxpr", a[name])
    return jaxpr.eqns[0].primitive.name if len(jaxpr.eqns) == 1 and len(jaxpr.outvars) == 1 else ""


def _counted_axis(name: str) -> Callable[[Arguments], Any]:
    return lambda a: int(a[name]) % a["inputs"][0].ndim


ROWS: tuple[Row, ...] = (
    *(row(name, op, axis=axes("axes")) for name, op in REDUCTIONS.items()),
    *(row(f"arg{kind}", f"arg{kind}", axis=axes("axes")) for kind in ("max", "min")),
    *(row(name, op, axis=axes("axis")) for name, op in CUMULATIVE.items()),
    Row(
        "jax::reduce",
        lambda a: BY_BODY[body(a)],
        X,
        {"axis": axes("dimensions")},
        when=lambda a: len(a["outputs"]) == 1 and body(a) in BY_BODY,
        ops=tuple(BY_BODY.values()),
    ),
    row("sort", "sort", {"x": operand(0), "x*": lambda a: a["inputs"][1:]}, axis=_counted_axis("dimension")),
    row("top_k", "topk", X, axis=lambda a: int(a.get("axis", -1)) % a["inputs"][0].ndim, k=lambda a: a["k"]),
    row("approx_top_k", "topk", X, axis=_counted_axis("reduction_dimension"), k=lambda a: a["k"]),
)
