"""Mapping rules and formulas for kernels of inference engines and compilers in PyTorch traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from costcore.ir import Calculator
from costcore.plugins import hookimpl
from costcore.translate import Row


@hookimpl
def costcore_rows(frontend: str) -> Iterable[Row]:
    """Return the mapping rules of kernels in PyTorch traces."""
    if frontend != "traces":
        return ()
    from .rows import ROWS

    return ROWS


@hookimpl
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return the formulas of operators that only these kernels compute."""
    from .costs import CALCULATORS

    return CALCULATORS
