"""Rules of conventions in words: ``2 per input element``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from costcore.analyses.conventions.quantities import Quantities
from costcore.errors import CostError
from costcore.numbers.dims import Dim, is_symbolic
from costcore.trace.trace import CallCost

_PHRASES: Mapping[str, str] = {
    "y": "output element",
    "x": "input element",
    "q": "element of the queries",
    "scores": "attention score",
    "params": "parameter",
}
"""Quantities in whose multiples an amount is expressed, in the order of preference."""

MOST_PER_ELEMENT = 64
"""A larger multiple of elements is a coincidence, unless a rule names them."""

MOST_CASES = 3
"""The maximum number of wordings that one rule with conditions may have."""

_AMOUNTS = {"macs": "MACs", "flops": "all operations"}

NOT_COUNTED = "not counted"

MINUS = "\N{MINUS SIGN}"


def rule_in_words(amounts: Sequence[tuple[CallCost, Dim]], expressions: Iterable[str]) -> str:
    """Return how calls of one operator are counted.

    It is a multiple of MACs or elements, or of MACs with a number per output element, where that holds for every call,
    else the expressions of the rules.

    Args:
        amounts: calls with the amount of one execution.
        expressions: the expressions that gave these amounts; empty for calls without a rule.
    """
    texts = [*dict.fromkeys(expressions)]
    words = _words(amounts, texts)
    if words is None and len(texts) == 1:
        each = {_words([one], texts) for one in amounts}
        words = " or ".join(sorted(filter(None, each))) if None not in each and len(each) <= MOST_CASES else None
    return words or ", or ".join(re.sub(r"\b(macs|flops)\b", lambda match: _AMOUNTS[match[0]], text) for text in texts)


def _words(amounts: Sequence[tuple[CallCost, Dim]], texts: Sequence[str]) -> str | None:
    """Return how calls are counted, if one wording holds for all of them."""
    if all(amount == 0 for _, amount in amounts):
        return NOT_COUNTED
    for n_per_mac in (1, 2) if all(_quantity(record, "macs") for record, _ in amounts) else ():
        rest = [(record, amount - n_per_mac * _quantity(record, "macs")) for record, amount in amounts]
        products = "MACs" if n_per_mac == 1 else "2 per MAC"
        if all(amount == 0 for _, amount in rest):
            return products
        factor = _common_factor(rest, "y")
        if factor is not None and abs(factor) <= 2:
            return f"{products} {'+' if factor > 0 else MINUS} {abs(factor)} per output element"
    named = {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}
    for name in sorted(_PHRASES, key=lambda name: name not in named):
        factor = _common_factor(amounts, name)
        if factor is not None and (name in named or 0 < factor <= MOST_PER_ELEMENT):
            return f"{factor} per {_PHRASES[name]}"
    return None


def _common_factor(amounts: Sequence[tuple[CallCost, Dim]], name: str) -> int | None:
    """Return the integer that all amounts are a multiple by of one quantity; None if there is none."""
    factors = set()
    for record, amount in amounts:
        quantity = _quantity(record, name)
        if is_symbolic(quantity) or is_symbolic(amount) or not quantity or amount % quantity:
            return None
        factors.add(amount // quantity)
    return factors.pop() if len(factors) == 1 else None


def _quantity(record: CallCost, name: str) -> Dim:
    try:
        return Quantities(record.call.layer, record.cost)(name)
    except CostError:  # there are scores in attention only
        return 0
