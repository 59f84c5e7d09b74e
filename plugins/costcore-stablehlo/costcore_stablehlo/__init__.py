"""The StableHLO frontend of costcore: counts exported programs with the mapping rules of the JAX plug-in."""

from __future__ import annotations

from collections.abc import Iterable

from costcore.frontend import FrontendSpec
from costcore.plugins import hookimpl
from costcore.translate import Row

OPTIONS = {
    "function": "the function of the program to count",
    "params": "arguments that are learned parameters: positions, or prefixes of their names",
    "trips": "iterations of each loop with a data-dependent trip count",
    "regroup": "count decomposed layers as one operator",
}

PORTABLE = b"ML\xefR"
"""The first bytes of a portable artifact."""


def reads(head: bytes) -> bool:
    """Return whether a file that starts with these bytes is a portable artifact."""
    return head.startswith(PORTABLE)


def positions_or_names(text: str) -> list[int | str]:
    """Parse the option ``params``: ``0,1`` are positions, ``w,b`` prefixes of names."""
    return [int(part) if part.isdecimal() else part for part in text.split(",")]


@hookimpl
def costcore_frontends() -> tuple[FrontendSpec, ...]:
    """Return the frontend, which imports JAX when it is used."""
    return (
        FrontendSpec(
            "stablehlo",
            "jaxlib",
            "costcore_stablehlo.estimate",
            suffixes=(".mlir", ".stablehlo", ".mlirbc"),
            options=OPTIONS,
            values={"function": str, "params": positions_or_names, "trips": int},
            models=("a StableHLO program (.mlir, .stablehlo, .mlirbc)",),
            reads=reads,
            is_run=True,  # it may have open sizes with names
        ),
    )


@hookimpl
def costcore_rows(frontend: str) -> Iterable[Row]:
    """Return the rules of operators that JAX lacks. StableHLO programs are recorded as JAX primitives."""
    if frontend != "jax":
        return ()
    from .operators import ROWS

    return ROWS
