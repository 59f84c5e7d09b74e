"""The rates of steps as text."""

from __future__ import annotations

from fractions import Fraction

from costcore.studies.meter.rates import Rates
from costcore.text.durations import duration
from costcore.text.units import BASES, PREFIXES, rounded


def described(last: Rates, total: Rates, dtype: str) -> str:
    """Return one line: utilization, FLOP/s, tokens or samples per second, duration of a step, number of steps."""
    if last.flops_per_second is None or last.seconds_per_step is None:
        return "no step was measured"
    parts = [f"{_amount(last.flops_per_second)}FLOP/s"]
    if last.mfu is not None and last.hfu is not None and last.peak is not None:
        peak = f"{_amount(last.peak * last.devices)}FLOP/s" + f" in {dtype}" * bool(dtype)
        parts = [f"MFU {last.mfu:.1%}", f"HFU {last.hfu:.1%} of {peak}", *parts]
    if last.tokens_per_second is not None:
        parts.append(f"{last.tokens_per_second:,.0f} tokens/s")
    elif last.samples_per_second is not None:
        parts.append(f"{last.samples_per_second:,.1f} samples/s")
    parts.append(f"{duration(last.seconds_per_step)} per step")
    return f"{', '.join(parts)} (last {last.steps} of {total.steps} steps)"


def _amount(value: float) -> str:
    """Return a rate with the prefix that suits it: ``408.1 T``."""
    base = BASES["flops"]
    power = max((i for i in range(len(PREFIXES)) if value >= base**i), default=0)
    return f"{rounded(Fraction(value) / base**power, 1)} {PREFIXES[power]}"
