"""The bytes that are alive at every step, and the highest of them; sizes may be symbolic expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from costcore.analyses.memory.lives import Block
from costcore.numbers.dims import Dim, as_dim, is_symbolic
from costcore.numbers.evaluation import Evaluation, symbols_of
from costcore.numbers.symbolic import coefficients, expanded

SAMPLES = (1, 2, 64, 4096)
"""Values of all symbols at which two sums are compared before a proof is tried."""


def live_bytes(blocks: Sequence[Block], n_steps: int) -> list[Dim]:
    """Return the bytes that are alive at every step."""
    if not any(is_symbolic(block.nbytes) for block in blocks):
        changes: list[Any] = [0] * (n_steps + 1)
        for block in blocks:
            changes[block.born] += block.nbytes
            changes[block.dies + 1] -= block.nbytes
        return list(accumulate(changes[:n_steps]))
    return [_expression(terms) for terms in _sums(blocks, n_steps)]


def _sums(blocks: Sequence[Block], n_steps: int) -> Iterable[frozenset[tuple[Any, Any]]]:
    """Yield the sum at every step as coefficients by term."""
    changes: list[list[tuple[Any, int]]] = [[] for _ in range(n_steps + 1)]
    for block in blocks:
        for term, number in coefficients(block.nbytes).items():
            changes[block.born].append((term, number))
            changes[block.dies + 1].append((term, -number))
    live: dict[Any, Any] = {}
    for change in changes[:n_steps]:
        for term, number in change:
            live[term] = live.get(term, 0) + number
        yield frozenset((term, number) for term, number in live.items() if number)


@lru_cache(maxsize=1 << 12)
def _expression(terms: frozenset[tuple[Any, Any]]) -> Dim:
    from sympy import Add, Mul

    return as_dim(Add(*[Mul(number, term) for term, number in terms]))


def highest(amounts: Iterable[Dim]) -> Dim:
    """Return the largest amount; ``Max(…)`` of those expressions that can be the largest for some sizes."""
    distinct = list(dict.fromkeys(amounts))
    if not any(map(is_symbolic, distinct)):
        return max(distinct, default=0)
    samples = [Evaluation({}, default=number) for number in SAMPLES]
    known = {amount: [_sample(evaluate, amount) for evaluate in samples] for amount in distinct}
    kept: list[Any] = []
    for amount in sorted(distinct, key=lambda each: known[each][::-1], reverse=True):
        if not any(_is_at_most(amount, other, known) for other in kept):
            kept = [other for other in kept if not _is_at_most(other, amount, known)]
            kept.append(amount)
    if len(kept) == 1:
        return as_dim(kept[0])
    from sympy import Max

    return as_dim(Max(*kept, evaluate=False))


def _sample(evaluate: Evaluation, amount: Dim) -> int:
    """Return the value of an amount; -1 if it has none, as after a division by zero."""
    if not is_symbolic(amount):
        return int(amount)
    try:
        value = evaluate(amount)
    except (ArithmeticError, ValueError, TypeError):
        return -1
    return value if isinstance(value, int) else -1


def _is_at_most(a: Any, b: Any, known: Mapping[Any, Sequence[Any]]) -> bool:
    """Return True if ``a <= b`` is proved for all positive sizes of their symbols."""
    if any(x > y or x < 0 or y < 0 for x, y in zip(known[a], known[b], strict=True)):
        return False
    difference = expanded(b - a)
    if not is_symbolic(difference):
        return bool(difference >= 0)
    more = {symbol: symbol + 1 for symbol in symbols_of([difference]) if symbol.is_positive}
    if more:
        difference = expanded(difference.xreplace(more))
    terms = coefficients(difference)
    return all(number >= 0 and term.is_nonnegative for term, number in terms.items())


def first_step_of(live: Sequence[Dim], peak: Dim) -> int:
    """Return the first step at which the peak is reached; of a symbolic peak the step with one of its terms."""
    if peak in live:
        return live.index(peak)
    return next(i for i, amount in enumerate(live) if amount in peak.args)  # type: ignore[union-attr]
