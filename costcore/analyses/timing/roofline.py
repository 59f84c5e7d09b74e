"""The roofline plot of a timed run, and the comparison of measured times with the bound.

Each group of calls is a dot under the roofs of the device, in the color of its bottleneck. The plot is SVG for pages,
or drawn by matplotlib. :class:`TimeComparison` matches measured calls with timed groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import atan2, ceil, degrees, floor, fsum, inf, log10, sqrt
from statistics import median
from typing import IO, Any, NamedTuple

from costcore.analyses.analysis import ReportLike
from costcore.analyses.devices.device import TF32, device_named
from costcore.analyses.timing.bound import (
    GroupTime,
    Work,
    arithmetic_dtype,
    engine_of_products,
    highest_rate,
    may_round,
    product_dtype,
)
from costcore.analyses.timing.calibration import signature_of
from costcore.analyses.timing.times import Times, times_of
from costcore.errors import CostError
from costcore.ledger.ledger import MULTIPLY_ADD, flops_of, peak_flops
from costcore.tables.answer import Content, Figure
from costcore.tables.columns import by_key, choose
from costcore.tables.html import key as color_key
from costcore.tables.html import text as html_text
from costcore.tables.pictures import Picture, Theme, add_legend, axes_of, label
from costcore.tables.result import Result, Table
from costcore.text.amounts import duration
from costcore.text.output import Column
from costcore.trace.call import Call
from costcore.trace.trace import Trace

MOST_DRAWN = 1000
"""The maximum number of dots; the largest bounds are drawn."""

LEAST_SHARE = 1e-4
"""Groups with a smaller share of the time have no dot, unless they take at least a tenth of the longest."""

LEAST_OPERATIONS = 0.01
"""Dtypes with a smaller share of the operations of an engine, such as int64 counters, only get a roof if a dot needs
it."""

SMALLEST, LARGEST = 3.0, 14.0
"""The radius in pixels of a dot with no share of the time, and with all of the time."""

STEPS = 40
"""Grid cells per decade; dots in one cell are drawn as one."""

MOST_COUNTS = 12
"""The maximum number of dots with a count label."""

RIGHT_OF_RIDGE = 25.0
"""The minimum factor by which the axis extends beyond the ridge, where memory and an engine limit equally."""

BESIDE_SCALE = 84
"""The x offset, in pixels, of the name of a flat roof that would cover a label of the vertical axis."""

LINE_OF_TEXT = 4.0
"""The height of a text line in percent of the picture."""

ALONG = (0.15, 0.25, 0.35, 0.5, 0.65, 0.8)
"""Candidate positions of the name of a memory along its line; the farthest from all flat roofs is used."""

WIDE = 35.0
"""The minimum x position, in percent, at which the name of a memory fits left of its line."""

BOTTOM = 92.0
"""The height of the plot in percent of the picture; axis labels use the rest."""

BOUND, MEASURED = "FLOP per second of the bound", "measured FLOP per second"
"""Labels of the vertical axis."""

PREFIXES = (("", 0), ("K", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15))


class Dot(NamedTuple):
    """A group with operations and bytes, placed by the bound of its time, so that it lies on or below every roof.

    Attributes:
        group: the group.
        intensity: FLOP per byte from memory. Bytes are capped at bandwidth × time; the rest comes from a cache.
        rate: FLOP per second. A multiply-add is two FLOP; products that a fast algorithm saves do not count.
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
    """The ranges of the axes, as decimal logarithms."""

    x0: int
    x1: int
    y0: int
    y1: int

    def x(self, value: float) -> float:
        """Return the position of an intensity in percent from the left."""
        return 100 * (log10(value) - self.x0) / (self.x1 - self.x0)

    def y(self, value: float) -> float:
        """Return the position of a rate in percent from the top."""
        return BOTTOM * (self.y1 - log10(value)) / (self.y1 - self.y0)


def dots_of(times: Times) -> list[Dot]:
    """Return the dots of groups with operations, bytes and a share of the time, longest last.

    The FLOPs of a dot are capped at the number that the busiest engine can execute in the bound, because Winograd's
    algorithm, causal masks and padding save some.
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
    profile = times.trace.run.profile
    # Measured times only apply to the same device and dtype.
    is_comparable = profile is not None and device_named(profile.device) == times.device.name and times.dtype is None
    if profile is None or profile.clock != "device" or profile.no_bound or not is_comparable:
        return {}
    by_call = {times.trace.calls[position].name: each.device / 1e9 for position, each in profile.calls.items()}
    return {group.name: fsum(by_call.get(call.name, 0.0) for call in group.calls) for group in times.groups}


def _flops_needed(group: GroupTime, times: Times) -> float:
    flops = float(sum(peak_flops(call, cost) for call, cost, *_ in group.records if cost is not None))
    seconds = Work.sum(group.work).by_engine()
    busiest = max(seconds, key=seconds.__getitem__)
    if group.missing and not seconds[busiest]:
        return flops  # no known rate, so no roof either
    rate = max(highest_rate(busiest, call.layer, times.device, times.tf32) for call in group.calls)
    return min(flops, group.times * seconds[busiest] * rate)


def roofs_of(times: Times) -> list[Roof]:
    """Return the roofs of engines by dtype, most operations first, then the roofs of memories.

    Memories with the same name, such as levels of cache, have one roof with the lowest rate.
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
        *_roofs_of_engine("matrix", products, times),
        *_roofs_of_engine("vector", others, times),
        *(Roof(name, f"{amount(rate)}B/s", rate, True) for name, rate in memories.items()),
    ]


def _roofs_of_engine(name: str, operations: Counter[tuple[str, float]], times: Times) -> Iterator[Roof]:
    # A dtype with few operations only gets a roof if a dot is above all other roofs.
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
    """Format a number with three significant digits and a prefix, ``1.07 P``."""
    prefix, power = next((each for each in reversed(PREFIXES) if value >= 10 ** each[1]), PREFIXES[0])
    return f"{value / 10**power:.3g} {prefix}"


def picture(times: Times) -> str:
    """Return the plot with its legend; empty if no group has operations and bytes."""
    dots = dots_of(times)
    if not dots:
        return ""
    drawn, roofs = spots_of(dots)[-MOST_DRAWN:], roofs_of(times)
    items = "".join(color_key(*item) for item in legend(times, roofs))
    return (
        f"<figure class='picture'><svg id='roofline' role='img' aria-label='{label_of(dots)}'>{shapes(drawn, roofs)}"
        f"</svg><figcaption class='note'>{items}<br>{_note(times, dots, drawn)}</figcaption></figure>"
    )


class Spot(NamedTuple):
    """Dots at one position, such as dots of equal layers, longest last."""

    dots: list[Dot]

    @property
    def first(self) -> Dot:
        """The dot with the longest time."""
        return self.dots[-1]

    @property
    def seconds(self) -> float:
        """The time of all its dots."""
        return fsum(dot.seconds for dot in self.dots)


def spots_of(dots: Iterable[Dot]) -> list[Spot]:
    """Group dots with one bottleneck and nearly one position into spots, longest last."""
    found: dict[tuple[str, int, int], list[Dot]] = {}
    for dot in sorted(dots, key=lambda dot: dot.seconds):
        place = round(STEPS * log10(dot.intensity)), round(STEPS * log10(dot.rate))
        found.setdefault((dot.group.binds, *place), []).append(dot)
    return sorted(map(Spot, found.values()), key=lambda spot: spot.seconds)


def label_of(dots: Sequence[Dot]) -> str:
    """Return the title of the plot."""
    return f"Roofline of {len(dots)} groups: {rate_of(dots)} against FLOP per byte, both logarithmic"


def rate_of(dots: Sequence[Dot]) -> str:
    """Return the label of the vertical axis."""
    return BOUND if dots[0].measured is None else MEASURED


def roofline_axes(dots: Sequence[Dot]) -> str:
    """Return the description of the axes, as a sentence."""
    return f"Across: FLOP per byte from memory. Upwards: {rate_of(dots)}; {MULTIPLY_ADD}."


def shapes(spots: Sequence[Spot], roofs: Sequence[Roof]) -> str:
    """Return the SVG elements of the plot. All positions are percentages, so that it scales to any size."""
    frame = _frame([spot.first for spot in spots], roofs)
    largest = spots[-1].seconds
    grid, labels = _grid(frame)
    counted = _counted(spots)
    # Draw small dots above large ones.
    circles = "".join(_circle(spot, frame, largest, spot in counted) for spot in reversed(spots))
    return grid + "".join(_roof(roof, roofs, frame) for roof in roofs) + labels + circles


def _frame(dots: Sequence[Dot], roofs: Sequence[Roof]) -> Frame:
    xs = [log10(dot.intensity) for dot in dots]
    ys = [log10(dot.rate) for dot in dots] + [log10(roof.rate) for roof in roofs if not roof.is_memory]
    engines, memories = ([roof.rate for roof in roofs if roof.is_memory == each] for each in (False, True))
    ridges = [log10(engine / memory) for engine in engines for memory in memories]
    # leave room left of the ridges for names of roofs
    x0, y1 = floor(min([min(xs) - 0.3, *(ridge - 1.5 for ridge in ridges)])), ceil(max(ys) + 0.2)
    return Frame(
        x0,
        max([ceil(max(xs) + 0.2), x0 + 2, *(ceil(ridge + 0.2) for ridge in ridges)]),
        min(floor(min(ys) - 0.2), y1 - 2),
        y1,
    )


def _grid(frame: Frame) -> tuple[str, str]:
    # The plot has no margin, so labels are inside.
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


def _roof(roof: Roof, roofs: Sequence[Roof], frame: Frame) -> str:
    # An engine limits right of its ridge; its name is on a thin line left of the ridge, where no dot can be.
    (x1, y1), (x2, y2) = limits(roof, roofs, (10.0**frame.x0, 10.0**frame.x1), (10.0**frame.y0, 10.0**frame.y1))
    left, right, top, bottom = (_percent(each) for each in (frame.x(x1), frame.x(x2), frame.y(y2), frame.y(y1)))
    name = f"{roof.binds} {html_text(roof.label)}"
    line = (
        f"<line class='roof {roof.binds}' x1='{left}' y1='{bottom}' x2='{right}' y2='{top}'>"
        f"<title>{roof.binds}: {html_text(roof.label)}</title></line>"
    )
    if not roof.is_memory:
        before = f"<line class='before {roof.binds}' x1='0%' y1='{top}' x2='{left}' y2='{top}'/>"
        scale = [frame.y(10.0**power) for power in range(frame.y0 + 1, frame.y1)]
        is_beside = any(abs(frame.y(roof.rate) - y) < LINE_OF_TEXT for y in scale)
        dx = BESIDE_SCALE if is_beside else 4
        return f"{line}{before}<text class='label' x='0' dx='{dx}' y='{top}' dy='-5'>{name}</text>"
    flat = [frame.y(each.rate) for each in roofs if not each.is_memory]
    at = max(
        (x1 * (x2 / x1) ** part for part in ALONG),
        key=lambda x: min((abs(frame.y(x * roof.rate) - y) for y in flat), default=0.0),
    )
    x, y = frame.x(at), _percent(frame.y(at * roof.rate))
    side = "dx='-8' dy='-4' text-anchor='end'" if x > WIDE else "dx='8' dy='12'"
    return f"{line}<text class='label' x='{_percent(x)}' y='{y}' {side}>{name}</text>"


def limits(
    roof: Roof, roofs: Sequence[Roof], xs: tuple[float, float], ys: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of the drawn part of a roof: memories end at the highest engine, engines begin at a ridge.

    Args:
        roof: the roof.
        roofs: all roofs.
        xs: the ends of the horizontal axis, in FLOP per byte.
        ys: the ends of the vertical axis, in FLOP per second.
    """
    if roof.is_memory:
        highest = max((each.rate for each in roofs if not each.is_memory), default=ys[1])
        ends = [min(max(x * roof.rate, ys[0]), ys[1], highest) for x in xs]
        return (ends[0] / roof.rate, ends[0]), (ends[1] / roof.rate, ends[1])
    ridge = min((roof.rate / each.rate for each in roofs if each.is_memory), default=xs[0])
    return (max(ridge, xs[0]), roof.rate), (xs[1], roof.rate)


def _counted(spots: Sequence[Spot]) -> list[Spot]:
    # Adjacent counts would overlap.
    counted: list[Spot] = []
    for spot in reversed(spots):
        is_free = not any(_are_near(spot.first, other.first) for other in counted)
        if len(spot.dots) > 1 and len(counted) < MOST_COUNTS and is_free:
            counted.append(spot)
    return counted


def _are_near(dot: Dot, other: Dot) -> bool:
    return abs(log10(dot.intensity / other.intensity)) < 0.2 and abs(log10(dot.rate / other.rate)) < 0.2


def _circle(spot: Spot, frame: Frame, largest: float, is_counted: bool) -> str:
    dot, n = spot.first, len(spot.dots)
    group = dot.group
    radius = SMALLEST + (LARGEST - SMALLEST) * sqrt(spot.seconds / largest)
    names = " + ".join(call.name for call in group.calls)
    took = "" if dot.measured is None else f"measured {duration(dot.measured)}, "
    least = f"at least {duration(group.bound_seconds)}, bound by {group.binds or 'nothing'}"
    label = f"{names}: {took}{least}, {dot.intensity:.3g} FLOP per byte"
    label += f"; {n} dots here, {duration(spot.seconds)} together" if n > 1 else ""
    count = ""
    if is_counted:
        place = f"x='{_percent(frame.x(dot.intensity))}' y='{_percent(frame.y(dot.rate))}'"
        count = f"<text class='count' {place} dx='{radius + 3:.0f}' dy='14'>×{n}</text>"
    return (
        f"<circle class='{group.binds}' cx='{_percent(frame.x(dot.intensity))}' cy='{_percent(frame.y(dot.rate))}' "
        f"r='{radius:.1f}'><title>{html_text(label)}</title></circle>{count}"
    )


def legend(times: Times, roofs: Sequence[Roof]) -> list[tuple[str, str]]:
    """Return pairs of color and meaning: the bottleneck with its share of the time."""
    seconds, drawn = seconds_of_run(times), {roof.binds for roof in roofs}
    shares = {name: took / times.least_seconds if took else 0.0 for name, took in seconds.items()}
    names = dict.fromkeys([*(roof.binds for roof in roofs), *seconds])
    return [
        (name, f"{name} binds {shares[name]:.0%} of the time" if shares.get(name, 0.0) >= 0.005 else name)
        for name in names
        if name in drawn or shares[name] >= 0.005
    ]


def seconds_by(groups: Iterable[GroupTime]) -> dict[str, float]:
    """Return the seconds of the bounds of groups by bottleneck."""
    seconds: dict[str, float] = {}
    for group in groups:
        seconds[group.binds] = seconds.get(group.binds, 0.0) + group.bound_seconds
    return seconds


def seconds_of_run(times: Times) -> dict[str, float]:
    """Return the seconds of the bound by bottleneck, including the excess of the whole run."""
    seconds, memory = seconds_by(times.groups), times.beyond_binds
    seconds[memory] = seconds.get(memory, 0.0) + times.beyond_groups
    return {name: amount for name, amount in seconds.items() if amount > 0}


def _note(times: Times, dots: Sequence[Dot], drawn: Sequence[Spot]) -> str:
    n_drawn = sum(len(spot.dots) for spot in drawn)
    shown = f"The {n_drawn} largest of {len(dots)} dots are drawn. " if n_drawn < len(dots) else ""
    omitted = len(times.groups) - len(dots)
    groups = f"{omitted} group{'s' * (omitted != 1)}"
    without = f" No dot: {groups} without operations or bytes, or with hardly any time." if omitted else ""
    return (
        f"{roofline_axes(dots)} Area: share of the time. {shown}Operations that a fast algorithm saves do not count, "
        f"nor do bytes that memory cannot deliver in the time: they are in a cache.{without}"
    )


def _percent(value: float) -> str:
    return f"{value:.2f}%"


# The roofline as a picture.


DECADES = 1000.0
"""The minimum ratio of the ends of both axes, so that slopes and flat roofs are visible."""

COLORS = {"matrix": 0, "vector": 1, "special": 5, "dram": 2, "cache": 4}
"""Color indices of bottlenecks, as on the page."""


def roofline_of(report: ReportLike, theme: Theme, device: Any, **options: Any) -> Picture:
    """Return the roofline of a report on a device; options as for :meth:`costcore.Report.time`."""
    return roofline(times_of(Times, report.trace, device, **options), theme)


def roofline(times: Times, theme: Theme) -> Picture:
    """Return the roofline picture. Rows: name, FLOP per byte, FLOP per second, bottleneck, seconds; longest first."""
    dots = dots_of(times)[::-1]
    rows: list[tuple[Any, ...]] = [
        (dot.group.name, dot.intensity, dot.rate, dot.group.binds, dot.group.bound_seconds) for dot in dots
    ]
    columns = ["name", "flop_per_byte", "flop_per_second", "binds", "bound_seconds"]
    if dots and dots[0].measured is not None:
        rows = [(*row, dot.measured) for row, dot in zip(rows, dots, strict=True)]
        columns.append("measured_seconds")
    return Picture(columns, rows, lambda: _drawn(times, dots, theme))


def _drawn(times: Times, dots: list[Dot], theme: Theme) -> Any:
    from matplotlib.ticker import EngFormatter

    axes = axes_of(theme, height=4.6)
    axes.set(xscale="log", yscale="log", xlabel=f"FLOP per byte from memory ({MULTIPLY_ADD})", ylabel=rate_of(dots))
    spots = spots_of(dots)
    longest = spots[-1].seconds
    for binds in dict.fromkeys(spot.first.group.binds for spot in reversed(spots)):
        some = [spot for spot in reversed(spots) if spot.first.group.binds == binds]
        sizes = [12 + 240 * sqrt(spot.seconds / longest) for spot in some]
        xs, ys = [spot.first.intensity for spot in some], [spot.first.rate for spot in some]
        axes.scatter(
            xs, ys, s=sizes, color=_color(binds, theme), alpha=0.75, linewidths=0, zorder=3, label=f"bound by {binds}"
        )
    for spot in _counted(spots):
        at = (spot.first.intensity, spot.first.rate)
        below = {"textcoords": "offset points", "xytext": (8, -11), "fontsize": 8, "color": theme.ink}
        axes.annotate(f"×{len(spot.dots)}", at, **below, zorder=4)
    axes.margins(0.1)
    _draw_roofs(axes, times, theme)
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.set_title(label(times.device.name), fontsize=10)
    axes.grid(color=theme.line)
    add_legend(axes, theme)
    _name_roofs(axes, times, theme)
    return axes.figure


def _draw_roofs(axes: Any, times: Times, theme: Theme) -> None:
    roofs = roofs_of(times)
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    engines = [roof.rate for roof in roofs if not roof.is_memory]
    y1 = max([y1, *(2.5 * rate for rate in engines)])
    # all ridges and dots, with room on the right for names of roofs
    x1 = max([x1, *(RIGHT_OF_RIDGE * rate / roof.rate for roof in roofs if roof.is_memory for rate in engines)])
    x0, y0 = min(x0, x1 / DECADES), min(y0, y1 / DECADES)
    axes.set(xlim=(x0, x1), ylim=(y0, y1))
    for roof in roofs:
        ends = limits(roof, roofs, (x0, x1), (y0, y1))
        axes.plot(*zip(*ends, strict=True), color=_color(roof.binds, theme), linewidth=1.5)


def _name_roofs(axes: Any, times: Times, theme: Theme) -> None:
    # Names of engines are above the right end of their roof, names of memories along the lower part of the slope.
    axes.figure.draw_without_rendering()  # the layout determines the slopes of lines
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    roofs = roofs_of(times)
    highest = min(y1, max((roof.rate for roof in roofs if not roof.is_memory), default=y1))
    style = {"fontsize": 8, "color": theme.ink, "textcoords": "offset points", "parse_math": False}
    for roof in roofs:
        name = f"{roof.binds} {roof.label}"
        if not roof.is_memory:
            axes.annotate(name, (x1, roof.rate), xytext=(-4, 3), ha="right", **style)
            continue
        start, end = max(x0, y0 / roof.rate), highest / roof.rate
        places = [start * (end / start) ** part for part in (0.25, 0.5)]
        (ax, ay), (bx, by) = axes.transData.transform([(x, roof.rate * x) for x in places])
        turned = {"rotation": degrees(atan2(by - ay, bx - ax)), "rotation_mode": "anchor"}
        axes.annotate(name, (places[0], roof.rate * places[0]), xytext=(-3, 4), **style, **turned)


def _color(binds: str, theme: Theme) -> str:
    return theme.colors[COLORS[binds]] if binds in COLORS else theme.gray


# Comparison of measured time with the bound and the calibrated time.


COLUMNS = by_key(
    Column("name", "Layer name"),
    Column("type", "Layer type"),
    Column("family", "Family"),
    Column("module", "Module"),
    Column("n_groups", "# Groups", "count"),
    Column("measured", "Measured", "duration"),
    Column("measured%", "Measured", "percent"),
    Column("predicted", "Calibrated", "duration"),
    Column("predicted/measured%", "Of measured", "percent"),
    Column("bound", "Bound", "duration"),
    Column("bound/measured%", "Of measured", "percent"),
)

CALLS = ("name", "family", "measured", "predicted", "predicted/measured%", "bound", "bound/measured%")

BY_FAMILY = ("family", "n_groups", "measured", "measured%", *CALLS[3:])
"""The columns of the two tables; without a calibration, there are no columns of calibrated time."""


class TimeComparison(Result):
    """Comparison of measured time with the bound and the calibrated time.

    Args:
        times: the bound and the calibrated time.
        measured: runs of the same model with measured calls. For several runs, the median of each call counts.

    Attributes:
        groups: the measured groups of calls, in order of execution.
        unmatched: names of calls without a measured time, or with another operator, shape or dtype in the measured run.
        unexpected: names of measured calls that the timed report lacks.

    Raises:
        CostError: if no time was measured, or if no call has the same name.
    """

    unexpected: list[str]

    def __init__(self, times: Times, measured: Sequence[Trace]) -> None:
        self.times = times
        seconds = seconds_by_call(measured)
        if not seconds:
            raise CostError(
                "the measured report has no times. Measure a run: ComputationalCostHook(measure_time=True)."
            )
        self.groups: list[TimedGroup] = []
        self.unmatched: list[str] = []
        expected: set[str] = set()
        for group in times.groups:
            keys = [key_of(call) for call in group.calls]
            expected.update(call.name for call in group.calls)
            if all(key in seconds for key in keys):
                self.groups.append(timed_group(group, fsum(seconds[key] for key in keys)))
            else:
                self.unmatched += [call.name for call, key in zip(group.calls, keys, strict=True) if key not in seconds]
        self.unexpected = [name for name, _ in seconds if name not in expected]
        if not self.groups:
            raise CostError("no call of the measured report has the name, operator, shapes and dtypes of a timed call")

    def __repr__(self) -> str:
        measured, bound = duration(self.total.measured), duration(self.total.bound)
        return f"<TimeComparison on {self.times.device.name}: measured {measured}, bound {bound}>"

    def _content(self) -> Content:
        total = self.total
        figures = [Figure("measured", "Measured", total.measured, "duration", f"{len(self.groups)} groups of calls")]
        if total.predicted is not None:
            share = self._share(total.predicted)
            figures.append(Figure("predicted", "Calibrated", total.predicted, "duration", share, "calibrated"))
        figures.append(Figure("bound", "At least", total.bound, "duration", self._share(total.bound), "bound"))
        title = f"Measured and expected time on {self.times.device.name}"
        return Content(title, figures, [self._table("family", 0)], self.remarks)

    def _share(self, seconds: float | None) -> str:
        measured = self.total.measured
        return f"{seconds / measured:.1%} of that" if measured and seconds is not None else ""

    def _columns(self, names: Sequence[str]) -> Sequence[str]:
        if self.total.predicted is not None:
            return names
        return [name for name in names if not name.startswith("predicted")]

    @property
    def violations(self) -> list[TimedGroup]:
        """The groups with a measured time below their bound, which is an error of the bound or of the device file."""
        return [group for group in self.groups if group.is_below_bound]

    @property
    def total(self) -> TimedGroup:
        """The sum of all measured groups. If all calls were measured, its bound is the bound of the whole run."""
        total = sum_of("total", self.groups)
        return total if self.unmatched else total._replace(bound=self.times.bound_seconds)

    def worst(self, n: int = 10) -> list[TimedGroup]:
        """Return the ``n`` groups with the largest errors in seconds."""
        return sorted(self.groups, key=lambda group: -group.error)[:n]

    def by_family(self) -> dict[str, TimedGroup]:
        """Return sums by family, longest measured time first."""
        members: dict[str, list[TimedGroup]] = {}
        for group in self.groups:
            members.setdefault(group.family, []).append(group)
        sums = {family: sum_of(family, each) for family, each in members.items()}
        return dict(sorted(sums.items(), key=lambda item: -item[1].measured))

    @property
    def remarks(self) -> list[str]:
        """The lines below a table: calls below their bound, unmatched calls, and the certainty of the estimate."""
        calibrated = () if self.times.calibrated is None else self.times.calibrated.remarks
        lines = [*calibrated, *map(_violation, self.violations)]
        if self.total.is_below_bound and not self.violations:
            lines.append(_violation(self.total))
        for names, text in (
            (self.unmatched, "not measured, or with another operator, other shapes or dtypes"),
            (self.unexpected, "measured, but not among the timed calls"),
        ):
            if names:
                more = f" and {len(names) - 5} more" if len(names) > 5 else ""
                lines.append(f"{text}: {', '.join(names[:5])}{more}")
        return lines

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "auto",
        n_digits: int | None = None,
        *,
        by: str | None = None,
        top: int = 10,
    ) -> None:
        """Write the output of ``print``, or one table: by family, or of the calls with the largest errors.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: as for every result.
            unit: None for exact seconds; otherwise as for every result.
            n_digits: digits after the decimal point; default: as in ``print``.
            by: ``family`` or ``call`` for one table; default: the whole result.
            top: the number of calls.

        Raises:
            ValueError: if an argument is invalid.
        """
        if by is None:
            super().show(ost, mode, unit, n_digits)
            return
        if by not in ("family", "call"):
            raise ValueError(f"by must be 'family' or 'call' (got {by!r})")
        table = self._table(by, top)
        table.remarks = self.remarks
        table.show(ost, mode, unit, n_digits)

    def _table(self, by: str, top: int) -> Table:
        names = self._columns(BY_FAMILY if by == "family" else CALLS)
        title = "By family, longest first" if by == "family" else "Calls with the largest errors"
        rows = self.by_family().values() if by == "family" else self.worst(top)
        entries, total = [*map(self._entry, rows)], self._entry(self.total)
        return Table(title, choose(COLUMNS, names), entries, total=total, prefix="autoaligned", n_digits=3)

    def to_dict(self) -> dict[str, Any]:
        """Return the total, the sums by family and all groups in plain JSON types; times are in seconds."""
        return {
            **super().to_dict(),
            "device": self.times.device.name,
            "total": self._entry(self.total),
            "families": [self._entry(each) for each in self.by_family().values()],
            "groups": [self._entry(each) for each in self.groups],
            "below_bound": [group.name for group in self.violations],
            "unmatched": self.unmatched,
            "unexpected": self.unexpected,
            "remarks": self.remarks,
        }

    def _entry(self, group: TimedGroup) -> dict[str, Any]:
        entry: dict[str, Any] = {key: value for key, value in group._asdict().items() if value is not None}
        whole = fsum(each.measured for each in self.groups)
        entry["measured%"] = 100 * group.measured / whole if whole else 0.0
        for key in ("predicted", "bound"):
            if key in entry:
                entry[f"{key}/measured%"] = 100 * entry[key] / group.measured if group.measured else 0.0
        return entry


def _violation(group: TimedGroup) -> str:
    return f"below the bound: {group.name} took {duration(group.measured)}, the bound is {duration(group.bound)}"


# Measured groups, matched by name.


CallKey = tuple[str, tuple[Any, ...]]
"""The key that matches calls of two reports: name, and operator with shapes and dtypes of outputs."""


class TimedGroup(NamedTuple):
    """A measured group of calls, or a sum of such groups.

    Attributes:
        name: the name of its main call.
        type: the type of its main call.
        family: its family in calibrations.
        module: the module path of its main call.
        measured: the measured seconds of its calls.
        predicted: the calibrated seconds; None if the device is not calibrated.
        bound: the minimum seconds; None if the device file lacks all rates that the calls need.
        n_groups: the number of groups in the sum.
    """

    name: str
    type: str
    family: str
    module: str
    measured: float
    predicted: float | None
    bound: float | None
    n_groups: int = 1

    @property
    def is_below_bound(self) -> bool:
        """Whether the measured time is below the bound: then the bound, the device file or the clock is wrong."""
        return self.measured < (self.bound or 0.0)

    @property
    def error(self) -> float:
        """The error of the prediction in seconds; without a prediction, the seconds above the bound."""
        return abs(((self.bound or 0.0) if self.predicted is None else self.predicted) - self.measured)


def key_of(call: Call) -> CallKey:
    """Return the key that matches a call in another report."""
    return call.name, (call.layer.op, *((tensor.shape, tensor.dtype) for tensor in call.layer.outputs))


def seconds_by_call(measured: Iterable[Trace]) -> dict[CallKey, float]:
    """Return the median measured seconds of every call."""
    found: dict[CallKey, list[float]] = {}
    for trace in measured:
        for record in trace:
            if record.seconds is not None:
                found.setdefault(key_of(record.call), []).append(record.seconds)
    return {key: median(each) for key, each in found.items()}


def timed_group(group: GroupTime, measured: float) -> TimedGroup:
    """Return a group with its measured seconds."""
    main = group.main
    cost = next(record.cost for record in group.records if record.call is main)
    assert cost is not None  # all calls of a group have a cost
    family = signature_of(main, cost).family
    bound = group.bound_seconds if group.is_bounded else None
    return TimedGroup(group.name, main.type, family, main.module, measured, group.seconds, bound)


def sum_of(name: str, groups: Iterable[TimedGroup]) -> TimedGroup:
    """Return the sum of groups under a name; its prediction is None if any group has no prediction."""
    groups = list(groups)
    predicted = [group.predicted for group in groups if group.predicted is not None]
    bounds = [group.bound for group in groups if group.bound is not None]
    return TimedGroup(
        name,
        name,
        name,
        "",
        fsum(group.measured for group in groups),
        fsum(predicted) if len(predicted) == len(groups) else None,
        fsum(bounds) if bounds else None,
        len(groups),
    )
