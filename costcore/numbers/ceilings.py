"""Sizes that are rounded up, written as such: ``ceiling(h/32)`` in place of ``floor(h/32 + 31/32)``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from costcore.numbers.dims import Dim, is_integral, is_symbolic


def with_ceilings(formula: Dim) -> Dim:
    """Return a formula in which a quotient that is rounded up is a ceiling, where that is shorter."""
    return _rewritten(formula) if is_symbolic(formula) else formula


@lru_cache(maxsize=1 << 14)
def _rewritten(part: Any) -> Any:
    if part.is_Atom:
        return part
    args = [_rewritten(each) for each in part.args]
    if any(new is not old for new, old in zip(args, part.args, strict=True)):
        is_chosen = type(part).__name__ in ("Max", "Min")  # comparing all pairs again takes long, and changes nothing
        part = part.func(*args, evaluate=False) if is_chosen else part.func(*args)
    return _rounded_up(part) if type(part).__name__ == "floor" else part


def _rounded_up(part: Any) -> Any:
    """Return ``ceiling(n/q)`` for ``floor(n/q + (q - 1)/q)`` of an integer n, and ``-ceiling(x)`` for ``floor(-x)``."""
    from sympy import ceiling

    constant, quotient = part.args[0].as_coeff_Add()
    if not constant and not quotient.is_Add and quotient.could_extract_minus_sign():
        return -ceiling(-quotient, evaluate=False)
    is_last = constant.is_Rational and constant.q > 1 and constant.p == constant.q - 1
    return ceiling(quotient, evaluate=False) if is_last and is_integral((constant.q * quotient).expand()) else part
