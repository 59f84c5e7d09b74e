"""Arithmetic intensity: FLOPs per byte read and written, with a multiply-add as two FLOPs.

So the peaks of devices count it, whatever a report counts: an intensity is a place on a roofline. A report of another
convention has the amounts of that convention.
"""

from __future__ import annotations

from fractions import Fraction

from costcore.ir import Cost
from costcore.ledger.ledger import Ledger, flops_of, multiplied
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.symbolic import expanded_sum
from costcore.trace.call import Call
from costcore.trace.run import FLOPS

MULTIPLY_ADD = "a multiply-add is two FLOPs"
"""What every axis and figure of intensities states."""


def intensity(flops: Dim, nbytes: Dim) -> Fraction | None:
    """Return operations per byte; None without bytes, and if an amount is symbolic."""
    return None if is_symbolic(flops) or is_symbolic(nbytes) or not nbytes else Fraction(int(flops), int(nbytes))


def peak_flops(call: Call, cost: Cost) -> Dim:
    """Return the FLOPs of all executions of a call as peaks count them: a multiply-add is two."""
    return multiplied(flops_of(cost, False), call.times)


def total_peak_flops(ledger: Ledger) -> Dim:
    """Return the sum over all counted calls."""
    return expanded_sum(peak_flops(call, cost) for call, cost in ledger.counted)


def multiply_add(unit: str) -> str:
    """Return :data:`MULTIPLY_ADD` in parentheses; empty for another convention, which has one price."""
    return f" ({MULTIPLY_ADD})" if unit == FLOPS else ""
