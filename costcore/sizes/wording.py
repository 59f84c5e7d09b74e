"""Formulas as people write them: rounding up where that is shorter, and LaTeX."""

from __future__ import annotations

from typing import Any

from costcore.dims import Dim, is_symbolic


def with_ceilings(formula: Dim) -> Dim:
    """Return a formula with ``ceiling(h/32)`` in place of ``floor(h/32 + 31/32)``."""
    if not is_symbolic(formula):
        return formula
    from sympy import Rational, ceiling, floor

    def rounded(part: Any) -> Any:
        constant, rest = part.args[0].as_coeff_Add()
        number, symbol = rest.as_coeff_Mul()
        is_last = number.is_Rational and number.p == 1 and constant == Rational(number.q - 1, number.q)
        return ceiling(number * symbol, evaluate=False) if is_last and symbol.is_Symbol else part

    expression: Any = formula
    return expression.replace(lambda part: isinstance(part, floor), rounded)


def latex(name: str, formula: Dim) -> str:
    r"""Return an equation in LaTeX: ``\mathrm{macs} = 3072\,\mathrm{seq}^{2}``."""
    from sympy import latex as latex_of

    symbols = getattr(formula, "free_symbols", ())
    names = {symbol: symbol.name if len(symbol.name) == 1 else _upright(symbol.name) for symbol in symbols}
    text = latex_of(with_ceilings(formula), symbol_names=names, mul_symbol=r"\,")
    return f"{_upright(name)} = {text}"


def _upright(name: str) -> str:
    return r"\mathrm{" + name.replace("_", r"\_") + "}"
