"""The roofline of a timed run: a dot per group of calls, the roofs of the device, the color of what binds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, fsum, inf, log10, sqrt
from typing import NamedTuple

from costcore.analyses.devices.device import TF32
from costcore.analyses.devices.runtime_names import device_named
from costcore.analyses.timing.group_time import GroupTime
from costcore.analyses.timing.times import Times
from costcore.analyses.timing.work import (
    Work,
    arithmetic_dtype,
    engine_of_products,
    highest_rate,
    may_round,
    product_dtype,
)
from costcore.ledger.intensity import MULTIPLY_ADD, peak_flops
from costcore.ledger.ledger import flops_of
from costcore.tables.html import text
from costcore.text.durations import duration

MOST_DRAWN = 1000
"""The maximum number of dots; those with the largest bounds are drawn."""

LEAST_SHARE = 1e-4
"""Groups with less of the time have no dot, as they would stretch the axes, but those near the largest always have."""

LEAST_OPERATIONS = 0.01
"""Dtypes with less of the operations of an engine have no roof, as counters of type int64, unless a dot needs it."""

SMALLEST, LARGEST = 3.0, 14.0
"""Radius of a dot with nearly no share of the time, and of one with all of it, in pixels."""

BOTTOM = 92.0
"""Height of the plot in percent of the picture; the rest is for the labels of the axis."""

BOUND, MEASURED = "FLOP per second of the bound", "measured FLOP per second"
"""What the axis upwards shows."""

PREFIXES = (("", 0), ("K", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15))


class Dot(NamedTuple):
    """A group with operations and bytes, placed by what its time allows, so that it lies on or below every roof.

    Attributes:
        group: the group.
        intensity: FLOP per byte from memory. In its time memory delivers so many bytes at most; the others are in a
            cache.
        rate: FLOP per second; a multiply-add is two FLOP, and products that a fast algorithm saves do not count.
        measured: the measured seconds of the group; None if the time is the bound.
    """

    group: GroupTime
    intensity: float
    rate: float
    measured: float | None = None

    @property
    def seconds(self) -> float:
        """The time of the dot."""
        return self.group.bound_seconds if self.measured is None else self.measured


class Roof(NamedTuple):
    """A limit of the device: FLOP per second of an engine, or bytes per second of a memory."""

    binds: str
    label: str
    rate: float
    is_memory: bool


class Frame(NamedTuple):
    """The decimal logarithms that the axes cover."""

    x0: int
    x1: int
    y0: int
    y1: int

    def x(self, value: float) -> float:
        """Return the place of an intensity, in percent from the left."""
        return 100 * (log10(value) - self.x0) / (self.x1 - self.x0)

    def y(self, value: float) -> float:
        """Return the place of a rate, in percent from the top."""
        return BOTTOM * (self.y1 - log10(value)) / (self.y1 - self.y0)


def dots_of(times: Times) -> list[Dot]:
    """Return the dots of groups with operations, bytes and a share of the time, those with the longest times last.

    The FLOPs of a dot are those that the bound counts: of the definition, but no more than the busiest engine executes
    in its seconds, as Winograd's algorithm, a causal mask or padding save some, and engines work at the same time.
    """
    measured, slowest = _measured_seconds(times), min((rate for *_, rate in times.device.levels()), default=inf)
    seconds = [measured[group.name] if measured else group.bound_seconds for group in times.groups]
    total = fsum(seconds) if measured else times.least_seconds
    least = min(LEAST_SHARE * total, max([0.0, *seconds]) / 10)
    found = []
    for group, took in zip(times.groups, seconds, strict=True):
        flops = _flops_needed(group, times)
        nbytes = min(group.read + group.written, slowest * took)
        if flops and nbytes and took > least:
            found.append(Dot(group, flops / nbytes, flops / took, took if measured else None))
    return sorted(found, key=lambda dot: dot.seconds)


def _measured_seconds(times: Times) -> Mapping[str, float]:
    """Return the seconds that every group took, by name; empty unless its kernels were measured on this device."""
    profile = times.trace.run.profile
    is_this = profile is not None and device_named(profile.device) == times.device.name and times.dtype is None
    if profile is None or profile.clock != "device" or profile.no_bound or not is_this:
        return {}
    by_call = {times.trace.calls[position].name: each.device / 1e9 for position, each in profile.calls.items()}
    return {group.name: fsum(by_call.get(call.name, 0.0) for call in group.calls) for group in times.groups}


def _flops_needed(group: GroupTime, times: Times) -> float:
    flops = float(sum(peak_flops(call, cost) for call, cost, *_ in group.records if cost is not None))
    seconds = Work.sum(group.work).by_engine()
    busiest = max(seconds, key=seconds.__getitem__)
    if group.missing and not seconds[busiest]:
        return flops  # no rate of its engines is known, and there is no roof of theirs
    rate = max(highest_rate(busiest, call.layer, times.device, times.tf32) for call in group.calls)
    return min(flops, group.times * seconds[busiest] * rate)


def roofs_of(times: Times) -> list[Roof]:
    """Return the roofs of the engines at the dtypes of the run, that of the most operations first, and of the memories.

    Of several caches it is the slowest.
    """
    device = times.device
    products: Counter[tuple[str, float]] = Counter()
    others: Counter[tuple[str, float]] = Counter()
    for group in times.groups:
        for call, cost in zip(group.calls, group.costs(), strict=True):
            dtype = product_dtype(call.layer)
            engine, rate = engine_of_products(call.layer, device, times.tf32)
            macs, flops = int(cost.macs) * group.times, int(flops_of(cost, True)) * group.times
            if engine == "matrix":
                is_rounded = dtype == "float32" and may_round(call.layer, times.tf32)
                has_tf32 = TF32 in device.peak.get("matrix", {})
                products[TF32 if is_rounded and has_tf32 else dtype, rate or 0.0] += macs
            else:
                others[dtype, rate or 0.0] += macs
            dtype = arithmetic_dtype(call.layer)
            others[dtype, device.vector_rate(dtype) or 0.0] += flops
    memories: dict[str, float] = {}
    for name, _, rate in device.levels():
        memories[name] = min(rate, memories.get(name, rate))
    return [
        *_engine("matrix", products, times),
        *_engine("vector", others, times),
        *(Roof(name, f"{amount(rate)}B/s", rate, True) for name, rate in memories.items()),
    ]


def _engine(name: str, operations: Counter[tuple[str, float]], times: Times) -> Iterator[Roof]:
    """Yield the roofs of the dtypes with a share of the operations, and of others only if a dot lies that high."""
    drawn: set[float] = set()
    known = [(dtype, rate) for (dtype, rate), n in operations.items() if n > 0 and rate]
    for (dtype, rate), n in operations.most_common():
        if n > 0 and rate and (not drawn or (n >= LEAST_OPERATIONS * operations.total() and rate not in drawn)):
            drawn.add(rate)
            yield Roof(name, f"{amount(rate)}FLOP/s, {dtype}", rate, False)
    above = sorted({(rate, dtype) for dtype, rate in known if rate > max(drawn)})
    highest = max((dot.rate for dot in dots_of(times) if dot.group.binds == name), default=0.0) if above else 0.0
    for lower, (rate, dtype) in zip([max(drawn, default=0.0), *(rate for rate, _ in above)], above, strict=False):
        if highest > lower:
            yield Roof(name, f"{amount(rate)}FLOP/s, {dtype}", rate, False)


def amount(value: float) -> str:
    """Return three significant digits with a prefix, ``1.07 P``."""
    prefix, power = next((each for each in reversed(PREFIXES) if value >= 10 ** each[1]), PREFIXES[0])
    return f"{value / 10**power:.3g} {prefix}"


def picture(times: Times) -> str:
    """Return the plot with its legend; empty if no group has operations and bytes."""
    dots = dots_of(times)
    if not dots:
        return ""
    drawn, roofs = dots[-MOST_DRAWN:], roofs_of(times)
    items = "".join(f"<li>{_swatch(name)}{text(label)}</li>" for name, label in legend(times, roofs))
    return (
        f"<svg id='roofline' role='img' aria-label='{label_of(drawn)}'>{shapes(drawn, roofs)}</svg>"
        f"<ul class='roofline-key'>{items}</ul><p class='note'>{_note(times, dots, drawn)}</p>"
    )


def label_of(dots: Sequence[Dot]) -> str:
    """Return what the plot shows, as text."""
    return f"Roofline of {len(dots)} groups: {rate_of(dots)} against FLOP per byte, both logarithmic"


def rate_of(dots: Sequence[Dot]) -> str:
    """Return what the axis upwards shows."""
    return BOUND if dots[0].measured is None else MEASURED


def axes_of(dots: Sequence[Dot]) -> str:
    """Return what the axes show, as a sentence."""
    return f"Across: FLOP per byte from memory. Upwards: {rate_of(dots)}; {MULTIPLY_ADD}."


def shapes(dots: Sequence[Dot], roofs: Sequence[Roof]) -> str:
    """Return the content of the plot; all places are percentages, so that it fits into a picture of any size."""
    frame = _frame(dots, roofs)
    largest = dots[-1].seconds
    grid, labels = _grid(frame)
    circles = "".join(_circle(dot, frame, largest) for dot in reversed(dots))  # small dots lie above large ones
    return grid + "".join(_roof(roof, frame) for roof in roofs) + labels + circles


def _frame(dots: Sequence[Dot], roofs: Sequence[Roof]) -> Frame:
    """Return whole powers of ten around all dots and the roofs of engines."""
    xs = [log10(dot.intensity) for dot in dots]
    ys = [log10(dot.rate) for dot in dots] + [log10(roof.rate) for roof in roofs if not roof.is_memory]
    x0, y0 = floor(min(xs) - 0.3), floor(min(ys) - 0.2)
    return Frame(x0, max(ceil(max(xs) + 0.2), x0 + 2), y0, max(ceil(max(ys) + 0.2), y0 + 2))


def _grid(frame: Frame) -> tuple[str, str]:
    """Return the lines of the axes, and their labels, which stand inside the plot, as it has no margin."""
    lines, labels = [], []
    for power in range(frame.x0 + 1, frame.x1):
        x = _percent(frame.x(10.0**power))
        lines.append(f"<line class='grid' x1='{x}' x2='{x}' y1='0%' y2='{BOTTOM:g}%'/>")
        labels.append(f"<text x='{x}' y='98%' text-anchor='middle'>{_power(power)}</text>")
    for power in range(frame.y0 + 1, frame.y1):
        y = _percent(frame.y(10.0**power))
        lines.append(f"<line class='grid' x1='0%' x2='100%' y1='{y}' y2='{y}'/>")
        labels.append(f"<text x='4' y='{y}' dy='-4'>{amount(10.0**power)}FLOP/s</text>")
    return "".join(lines), "".join(labels)


def _power(power: int) -> str:
    return f"{10.0**power:,.{max(-power, 0)}f}"


def _roof(roof: Roof, frame: Frame) -> str:
    """Return a roof as a line: horizontal, or rate times intensity from one side of the plot to the other."""
    if roof.is_memory:
        ends = [_inside(roof.rate * 10.0**power, roof.rate, frame) for power in (frame.x0, frame.x1)]
    else:
        ends = [(10.0**frame.x0, roof.rate), (10.0**frame.x1, roof.rate)]
    (x1, y1), (x2, y2) = ends
    places = f"x1='{_percent(frame.x(x1))}' y1='{_percent(frame.y(y1))}' "
    places += f"x2='{_percent(frame.x(x2))}' y2='{_percent(frame.y(y2))}'"
    return f"<line class='roof {roof.binds}' {places}><title>{roof.binds}: {text(roof.label)}</title></line>"


def _inside(rate: float, bandwidth: float, frame: Frame) -> tuple[float, float]:
    """Return the point of a diagonal roof nearest to its end, at this rate, inside the plot."""
    rate = min(max(rate, 10.0**frame.y0), 10.0**frame.y1)
    return rate / bandwidth, rate


def _circle(dot: Dot, frame: Frame, largest: float) -> str:
    group = dot.group
    radius = SMALLEST + (LARGEST - SMALLEST) * sqrt(dot.seconds / largest)
    names = " + ".join(call.name for call in group.calls)
    took = "" if dot.measured is None else f"measured {duration(dot.measured)}, "
    least = f"at least {duration(group.bound_seconds)}, bound by {group.binds or 'nothing'}"
    label = f"{names}: {took}{least}, {dot.intensity:.3g} FLOP per byte"
    return (
        f"<circle class='{group.binds}' cx='{_percent(frame.x(dot.intensity))}' cy='{_percent(frame.y(dot.rate))}' "
        f"r='{radius:.1f}'><title>{text(label)}</title></circle>"
    )


def legend(times: Times, roofs: Sequence[Roof]) -> list[tuple[str, str]]:
    """Return what each color means: what binds, and it with the rates of its roofs and its share of the time."""
    labels: dict[str, list[str]] = {}
    for roof in roofs:
        labels.setdefault(roof.binds, []).append(roof.label)
    seconds = seconds_by(times)
    items = []
    for name in dict.fromkeys([*labels, *seconds]):
        share = f", binds {seconds[name] / times.least_seconds:.0%} of the time" if seconds.get(name) else ""
        rates = f" {' and '.join(labels[name])}" if name in labels else ""
        items.append((name, name + rates + share))
    return items


def _swatch(name: str) -> str:
    return f"<svg viewBox='0 0 2 2' aria-hidden='true'><circle class='{name}' cx='1' cy='1' r='1'/></svg>"


def seconds_by(times: Times) -> dict[str, float]:
    """Return the seconds of the bound by what they come from, those of the whole run included."""
    seconds: dict[str, float] = {}
    for group in times.groups:
        seconds[group.binds] = seconds.get(group.binds, 0.0) + group.bound_seconds
    memory = times.whole_run.binds
    seconds[memory] = seconds.get(memory, 0.0) + times.beyond_groups
    return {name: amount for name, amount in seconds.items() if amount > 0}


def _note(times: Times, dots: Sequence[Dot], drawn: Sequence[Dot]) -> str:
    shown = f"The {len(drawn)} largest of {len(dots)} dots are drawn. " if len(drawn) < len(dots) else ""
    omitted = len(times.groups) - len(dots)
    groups = f"{omitted} group{'s' * (omitted != 1)}"
    without = f" No dot: {groups} without operations or bytes, or with hardly any time." if omitted else ""
    return (
        f"{axes_of(drawn)} Area: share of the time. {shown}Operations that a fast algorithm saves do not count, nor do "
        f"bytes that memory cannot deliver in the time: they are in a cache.{without}"
    )


def _percent(value: float) -> str:
    return f"{value:.2f}%"
