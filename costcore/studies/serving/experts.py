"""How many experts of a mixture are read."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from costcore.studies.serving.tally import Experts

MOST_TOKENS = 1 << 20
"""With more tokens, every expert is expected."""

MOST_EXACT = 64
"""With more tokens, the exact fraction would have too many digits."""


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
    unread = missed**tokens if tokens <= MOST_EXACT else Fraction(float(missed) ** tokens)
    return experts * (1 - unread)


def fewest_experts(call: Experts, tokens: int) -> int:
    """Return how many experts a call reads at least: those of one token, if all tokens choose the same."""
    return min(int(call.experts), ceil(Fraction(int(call.rows), tokens)))


def not_expected(call: Experts, tokens: int) -> Fraction:
    """Return the bits of experts that a call reads at most, but is not expected to read.

    Args:
        call: the call.
        tokens: the tokens that are sent to experts.
    """
    experts, rows = int(call.experts), int(call.rows)
    return _bits_between(call, expected_experts(experts, Fraction(rows, tokens), tokens))


def not_needed(call: Experts, tokens: int) -> Fraction:
    """Return the bits of experts that a call reads at most, but not if all tokens choose the same.

    Args:
        call: the call.
        tokens: the tokens that are sent to experts.
    """
    return _bits_between(call, Fraction(fewest_experts(call, tokens)))


def _bits_between(call: Experts, read: Fraction) -> Fraction:
    """Return the bits of the experts between those that are read and as many as rows can need."""
    experts, rows = int(call.experts), int(call.rows)
    return Fraction(call.calls * call.bits) * (min(experts, rows) - read) / experts
