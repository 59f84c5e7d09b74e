"""Kernels that inference engines and compilers launch: mapping rules and formulas for traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from costcore.ir import Calculator
from costcore.plugins import hookimpl
from costcore.translate import Row


@hookimpl
def costcore_rows(frontend: str) -> Iterable[Row]:
    """Return the mapping rules of kernels, for traces of PyTorch."""
    if frontend != "traces":
        return ()
    from .attention import ROWS as ATTENTION
    from .compiled import ROWS as COMPILED
    from .experts import ROWS as EXPERTS
    from .pointwise import ROWS as POINTWISE
    from .quantized import ROWS as QUANTIZED
    from .transformer_engine import ROWS as TRANSFORMER_ENGINE

    return (*POINTWISE, *ATTENTION, *QUANTIZED, *EXPERTS, *TRANSFORMER_ENGINE, *COMPILED)


@hookimpl
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return the formulas of operators that no framework has."""
    from .costs import CALCULATORS

    return CALCULATORS
