"""Measured time of calls beside their bound: where the time of a run goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import fsum
from typing import Any, NamedTuple

from costcore.analyses.analysis import Analysis
from costcore.errors import CostError
from costcore.ledger.ledger import Ledger
from costcore.tables.quantity import Quantity, measured_seconds, time_of_uncounted
from costcore.trace.call import Call
from costcore.trace.run import CallTime, Profile

# The quantities of measured time: achieved rates, time above the bound, and parts of the span.

PARAMETER = "DEVICE[:DTYPE]"

NEEDS_PROFILE = (
    "needs the trace of a profiler: pass it to estimate, or report.with_profile(estimate('step.pt.trace.json.gz'))"
)


class _Part(NamedTuple):
    seconds: float
    amount: float


def _flops(ledger: Ledger) -> Sequence[Any]:
    from costcore.analyses.measured.measured import work_of

    return [work_of(cost, call)[0] for call, cost in ledger.counted]


def _bytes(ledger: Ledger) -> Sequence[Any]:
    from costcore.analyses.measured.measured import work_of

    return [work_of(cost, call)[1] for call, cost in ledger.counted]


def _bound(device: str) -> Quantity:
    from costcore.tables.quantity import quantity

    return quantity(f"bound_seconds@{device}")


def _limits(device: str) -> Callable[[Ledger], Sequence[Any]]:
    from costcore.analyses.timing import limits

    return limits(device)


def _unknown(bound: Quantity) -> Callable[[Ledger], Sequence[str]]:
    return lambda ledger: (*time_of_uncounted(ledger), *bound.missing(ledger))


def _parts(ledger: Ledger, amounts: Sequence[Any], calls: Iterable[Call]) -> list[_Part]:
    seconds = measured_seconds(ledger)
    found = ((seconds[i], amounts[i]) for i in (ledger.position[call.name] for call in calls))
    return [_Part(time, amount) for time, amount in found if time is not None and amount is not None]


def _rate(
    name: str,
    title: str,
    doc: str,
    amounts: Callable[[Ledger], Sequence[Any]],
    remarks: Callable[[Ledger], Sequence[str]] = lambda _: (),
) -> Quantity:
    def of_group(ledger: Ledger, calls: Sequence[Call]) -> int | None:
        parts = _parts(ledger, ledger.cached((name, "amounts"), lambda: amounts(ledger)), calls)
        seconds = fsum(part.seconds for part in parts)
        return round(sum(part.amount for part in parts) / seconds) if seconds else None

    return Quantity(
        *(name, title, "flops", doc, lambda ledger: [of_group(ledger, [call]) for call in ledger.calls]),
        of_group,
        certainty="measured",
        words=doc,
        remarks=remarks,
        missing=time_of_uncounted,
    )


def _lost(device: str) -> Quantity:
    bound, limit = _bound(device), _limits(device)

    def of_calls(ledger: Ledger) -> Sequence[Any]:
        pairs = zip(measured_seconds(ledger), limit(ledger), strict=True)
        return [None if time is None or least is None else max(0.0, time - least) for time, least in pairs]

    return Quantity(
        *(f"lost_seconds@{device}", f"Lost ({device})", "duration", f"measured time above the limit on {device}"),
        of_calls,
        certainty="bound",
        words=f"above the limit on {device}",
        remarks=bound.remarks,
        missing=_unknown(bound),
    )


def _of_bound(device: str) -> Quantity:
    bound, limit = _bound(device), _limits(device)

    def of_group(ledger: Ledger, calls: Sequence[Call]) -> float | None:
        parts = _parts(ledger, limit(ledger), calls)
        seconds = fsum(part.seconds for part in parts)
        return 100 * fsum(min(part) for part in parts) / seconds if seconds else None

    return Quantity(
        f"of_bound@{device}",
        f"At limit ({device})",
        "percent",
        f"share of the measured time that the bound or the memory of {device} explains",
        lambda ledger: [of_group(ledger, [call]) for call in ledger.calls],
        of_group,
        certainty="bound",
        remarks=bound.remarks,
        missing=_unknown(bound),
    )


def _profile(ledger: Ledger, name: str) -> Profile:
    profile = ledger.trace.run.profile
    if profile is None:
        raise CostError(f"{name} {NEEDS_PROFILE}")
    return profile


def _of_profile(name: str, title: str, kind: str, doc: str, value: Callable[[CallTime], Any]) -> Quantity:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        calls = _profile(ledger, name).calls
        times = [calls.get(i) for i, record in enumerate(ledger.trace) if record.cost is not None]
        return [None if each is None else value(each) for each in times]

    return Quantity(name, title, kind, doc, of_calls, certainty="measured", words=doc, missing=time_of_uncounted)


def _fused_is_two(_: Ledger) -> Sequence[str]:
    from costcore.analyses.measured.measured import FUSED_IS_TWO

    return [FUSED_IS_TWO]


QUANTITIES = (
    _rate("achieved_flops", "FLOP/s", "FLOPs per measured second, a fused multiply-add as two", _flops, _fused_is_two),
    _rate("achieved_bandwidth", "B/s", "bytes read and written per measured second", _bytes),
    Quantity(
        f"lost_seconds@{PARAMETER}",
        *("Lost", "duration", "measured time above the bound and above the time to move all bytes, in seconds"),
        at=_lost,
        certainty="bound",
    ),
    Quantity(
        f"of_bound@{PARAMETER}",
        *("At limit", "percent", "share of the measured time that the bound or main memory explains"),
        at=_of_bound,
        certainty="bound",
    ),
    _of_profile(
        "host_seconds", "Host", "duration", "measured time of the host in a call", lambda each: each.host / 1e9
    ),
    _of_profile(
        *("span_seconds", "In span", "duration", "its part of the span of a profile; no instant counts twice"),
        lambda each: each.alone / 1e9,
    ),
    _of_profile(
        *("n_kernels", "# Kernels", "count", "kernels, copies and fills that the device ran for a call"),
        lambda each: each.n_kernels,
    ),
    Quantity(
        *("idle_seconds", "Idle", "duration", "part of the span of a profile in which nothing ran"),
        of_run=lambda ledger: _profile(ledger, "idle_seconds").idle / 1e9,
        certainty="measured",
    ),
)


ANALYSES = (
    Analysis(
        "measured",
        "measured time of calls beside their bound",
        f"{__name__}.join:measured_of",
        quantities=f"{__name__}:QUANTITIES",
    ),
)
