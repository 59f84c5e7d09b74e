"""Formulas in LaTeX."""

from __future__ import annotations

from costcore.numbers.ceilings import with_ceilings
from costcore.numbers.dims import Dim
from costcore.text.escape import latex_text


def latex(name: str, formula: Dim) -> str:
    r"""Return an equation in LaTeX: ``\mathrm{macs} = 3072\,\mathrm{seq}^{2}``."""
    from sympy import latex as latex_of

    symbols = getattr(formula, "free_symbols", ())
    names = {
        symbol: symbol.name if symbol.name.isalpha() and len(symbol.name) == 1 else _upright(symbol.name)
        for symbol in symbols
    }
    text = latex_of(with_ceilings(formula), symbol_names=names, mul_symbol=r"\,")
    return f"{_upright(name)} = {text}"


def _upright(name: str) -> str:
    return rf"\mathrm{{{latex_text(name)}}}"
