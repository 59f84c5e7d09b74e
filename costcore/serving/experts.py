"""How many experts of a mixture are read."""

from __future__ import annotations

from fractions import Fraction

from costcore.serving.tally import Experts

MOST_TOKENS = 1 << 20
"""With more tokens, every expert is expected."""


def expected_experts(experts: int, chosen: int | Fraction, tokens: int) -> Fraction:
    """Return how many experts are expected to be chosen at all: E (1 - (1 - k / E) ** tokens).

    Every token chooses k of E experts, all with the same probability, and independently of the others.

    Args:
        experts: the number of experts, E.
        chosen: how many of them a token chooses, k.
        tokens: the number of tokens.
    """
    missed = 1 - Fraction(chosen) / experts
    if tokens > MOST_TOKENS:
        return Fraction(experts)
    return experts * (1 - Fraction(float(missed) ** tokens))


def not_expected(call: Experts, tokens: int) -> Fraction:
    """Return the bits of experts that a call reads at most, but is not expected to read.

    Args:
        call: the call.
        tokens: the tokens that are sent to experts.
    """
    experts, rows = int(call.experts), int(call.rows)
    expected = expected_experts(experts, Fraction(rows, tokens), tokens)
    return Fraction(call.calls * call.bits) * (min(experts, rows) - expected) / experts
