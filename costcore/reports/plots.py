"""Matplotlib plots of a report: bars per operator, an icicle of modules, and arithmetic intensity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import log10
from typing import Any, NamedTuple

from costcore.analyses.analysis import drawn_by
from costcore.errors import unknown
from costcore.ledger.ledger import multiply_add, peak_flops
from costcore.numbers import magnitude
from costcore.plugins import imported, with_plugin_hint
from costcore.reports.data import ReportData
from costcore.tables.columns import Cells
from costcore.tables.pictures import (
    Picture,
    Theme,
    add_legend,
    axes_of,
    check_numbers,
    column_of,
    in_units,
    label,
    theme_of,
)
from costcore.tables.quantity import is_quantity, numeric, quantity, registered
from costcore.text.amounts import per_byte, short

# Kinds of plots, and their arguments.


OWN = {
    "operators": "costcore.reports.plots:operators",
    "modules": "costcore.reports.plots:modules",
    "intensity": "costcore.reports.plots:intensity",
}
"""Functions that draw the costs of a report, by kind; analyses add further kinds."""

OF_A_COST = ("operators", "modules", "sizes")
"""The kinds that show one cost."""


def kinds() -> tuple[str, ...]:
    """Return all kinds of plots: of costs, then of analyses."""
    return (*OWN, *drawn_by())


class Request(NamedTuple):
    """The checked arguments of ``plot``.

    Attributes:
        kind: one of :func:`kinds`.
        column: the cost, for the kinds in :data:`OF_A_COST`.
    """

    kind: str
    column: str


def request(kind: str | None, column: str | None, over: str | None, device: Any = None) -> Request:
    """Check the arguments of ``plot``. The kind may follow from others: ``plot("macs", over="seq")`` is ``sizes``.

    Raises:
        ValueError: if a name is unknown, or two arguments contradict each other.
    """
    if kind is not None and kind not in kinds() and is_quantity(kind) and column is None:
        kind, column = None, kind
    kind = kind or ("operators" if over is None else "sizes")
    if kind not in kinds():
        raise ValueError(with_plugin_hint(unknown("kind of plot", kind, (*kinds(), *registered()))))
    if column is not None:
        adds_up = numeric(column).has_share or column == "n_params"
        if kind != "sizes" and not adds_up:
            raise ValueError(f"kind {kind!r} shows parts of a total, but values of {column} do not add up")
    if column is not None and kind not in OF_A_COST:
        raise ValueError(f"a plot of kind {kind!r} has no column (expected {', '.join(OF_A_COST)})")
    for name, value, of in (("over", over, "sizes"), ("device", device, "roofline")):
        if (value is None) == (kind == of):
            problem = "is needed for" if kind == of else f"is for kind {of!r}, not for"
            typed = {"device": "--device h100", "over": "--over batch=1,2,4"}[name]
            raise ValueError(f"{name}=… {problem} kind {kind!r}" + (f" ({typed})" if kind == of else ""))
    return Request(kind, column or "flops")


def picture_of(report: ReportData, asked: Request, theme: str, options: Mapping[str, Any]) -> Picture:
    """Return the picture of a request.

    Args:
        report: the report.
        asked: the request.
        theme: ``light`` or ``dark``.
        options: further options, for the kinds of analyses.

    Raises:
        TypeError: if the kind has no such option.
        CostError: if sizes are symbolic, or the run lacks the data of the picture.
        ValueError: if the theme is unknown.
    """
    look = theme_of(theme)
    if asked.kind in OWN and options:
        raise TypeError(f"plot has no argument {', '.join(options)}")
    draw = imported(OWN.get(asked.kind) or drawn_by()[asked.kind].pictures[asked.kind])
    cost = {"column": asked.column} if asked.kind in OF_A_COST else {}
    picture: Picture = draw(report, theme=look, **cost, **options)
    return picture.titled(report.trace.run.model)


# Bars: a cost per operator.


MOST_BARS = 15
"""The maximum number of bars; a last bar sums the other operators."""

BAR_HEIGHT = 0.28
"""The height of a bar with its spacing, in inches."""


def operators(report: ReportData, theme: Theme, column: str) -> Picture:
    """Return a bar per operator, largest first; rows are operator and amount.

    Raises:
        CostError: if sizes are symbolic.
    """
    shown = quantity(column)
    sums = [
        (op, (shown.of(report.ledger, calls) or 0) - (entry["n_shared"] if column == "n_params" else 0))
        for (op, calls), entry in zip(report.ledger.groups("op").items(), report.by("op").values(), strict=True)
    ]
    check_numbers([amount for _, amount in sums])
    rows = sorted([row for row in sums if row[1]], key=lambda row: -row[1])
    return Picture(("operator", column), rows, lambda: _bars(report, rows, column, theme))


def _bars(report: ReportData, rows: list[tuple[str, int]], column: str, theme: Theme) -> Any:
    shown, hidden = rows[:MOST_BARS], rows[MOST_BARS:]
    colors = [colors_of(report, theme).get(op, theme.gray) for op, _ in shown]
    if hidden:
        shown, colors = [*shown, (f"{len(hidden)} others", sum(amount for _, amount in hidden))], [*colors, theme.gray]
    total = sum(amount for _, amount in rows)
    lengths, title = in_units(column_of(column, report.trace.run.unit), [amount for _, amount in shown])
    axes = axes_of(theme, height=1 + BAR_HEIGHT * len(shown))
    bars = axes.barh([*range(len(shown))], lengths, color=colors)
    axes.set(yticks=range(len(shown)), yticklabels=[label(name) for name, _ in shown], xlabel=title)
    axes.bar_label(bars, [_share(amount / total) for _, amount in shown], padding=3, color=theme.soft)
    axes.margins(x=0.12, y=0.02)
    axes.invert_yaxis()
    axes.grid(axis="x", color=theme.line)
    return axes.figure


def _share(value: float) -> str:
    return "<0.1%" if 0 < value < 0.0005 else f"{value:.1%}"


# Icicle: modules from left to right; the height of a module is its share of a cost.


DEEPEST = 6
"""The maximum number of levels; a module at the last level includes its children."""

LEAST_SHARE = 0.005
"""Modules with a smaller share of the total are not drawn: they would be thinner than a line."""

LETTERS = 125
"""The characters that fit into the width of the picture."""

TWO_LINES = 0.05
"""The minimum share of a module with room for two lines, if its name and share do not fit into one."""

FOLDED_FROM = 3
"""The minimum number of consecutive equal modules that are drawn as one."""

LEAST_LABELED = 0.022
"""Modules with a smaller share of the total have no name: it would not fit."""


class Box(NamedTuple):
    """A drawn module, or several equal modules drawn as one.

    Attributes:
        path, name: the path and name; for several modules ``layers.0 to 11`` and ``12 × Block``.
        first: the path of the first module.
        depth: its level.
        start, amount: the cost of the modules above it in the picture, and its own cost.
        is_leaf: whether no child is drawn.
    """

    path: str
    first: str
    name: str
    depth: int
    start: int
    amount: int
    is_leaf: bool


def modules(report: ReportData, theme: Theme, column: str) -> Picture:
    """Return an icicle of modules; rows are path, depth and amount of drawn modules, parents before children.

    Raises:
        CostError: if sizes are symbolic.
    """
    tree = report.tree()
    Cells([column], tree, report.ledger).add_to_tree(tree)
    tree[column] = quantity(column).of(report.ledger, report.ledger.calls) if column != "n_params" else tree[column]
    check_numbers([tree[column]])
    boxes = [*_boxes(_first_branching(tree), column)] if tree[column] else []
    rows = [(box.path, box.depth, box.amount) for box in boxes]
    return Picture(("module", "depth", column), rows, lambda: _icicle(report, boxes, column, theme))


def _first_branching(node: Mapping[str, Any]) -> Mapping[str, Any]:
    while len(node["children"]) == 1:
        node = node["children"][0]
    return node


def _boxes(root: Mapping[str, Any], column: str) -> Iterator[Box]:
    least = root[column] * LEAST_SHARE
    stack = [(root, 0, 0)]
    while stack:
        node, depth, start = stack.pop()
        children = sorted(_folded(node["children"], column), key=lambda child: -_amount(child, column))
        drawn = [child for child in children if _amount(child, column) >= least] if depth < DEEPEST - 1 else []
        name = node["name"] or node["type"] or "total"
        name = f"{name} {node['type']}".rstrip() if name.isdigit() else name
        first = own_of(node["path"]) if node["is_own"] else node["path"]
        path = node.get("paths", node["path"])
        yield Box(path, first, name, depth, start, _amount(node, column), not drawn)
        below = []
        for child in drawn:
            below.append((child, depth + 1, start))
            start += _amount(child, column)
        stack += reversed(below)


def _folded(children: Sequence[Mapping[str, Any]], column: str) -> Iterator[Mapping[str, Any]]:
    """Yield the children of a module; consecutive equal children, such as transformer blocks, become one."""
    for _, group in groupby(children, lambda child: (child["type"], child["n_layers"], _amount(child, column))):
        run = list(group)
        first, last, n = run[0], run[-1], len(run)
        if n < FOLDED_FROM or not first["type"] or not first["children"]:
            yield from run
        else:
            paths, name = f"{first['path']} to {last['name']}", f"{n} × {first['type']}"
            yield {**_multiplied(first, column, n), "paths": paths, "name": name}


def _multiplied(node: Mapping[str, Any], column: str, n: int) -> dict[str, Any]:
    amounts = {key: n * node[key] for key in (column, "n_shared") if node.get(key) is not None}
    return {**node, **amounts, "children": [_multiplied(child, column, n) for child in node["children"]]}


def _amount(node: Mapping[str, Any], column: str) -> int:
    # Parameters shared with an earlier module count there.
    shared = node["n_shared"] if column == "n_params" else 0
    return (node[column] or 0) - shared


def _icicle(report: ReportData, boxes: list[Box], column: str, theme: Theme) -> Any:
    colors, mains = colors_of(report, theme), _main_operators(report, column)
    total = boxes[0].amount
    (divided, *_), title = in_units(column_of(column, report.trace.run.unit), [total])
    unit = divided / total
    axes = axes_of(theme, 9, 6)
    most = LETTERS // (max(box.depth for box in boxes) + 1)
    drawn = set()
    for box in boxes:
        operator = mains.get(box.first, "")
        color = theme.line
        if box.is_leaf:
            drawn.add(operator)
            color = colors.get(operator, theme.gray)
        axes.barh(
            box.start * unit, 1, box.amount * unit, left=box.depth, align="edge", color=color, edgecolor=theme.paper
        )
        if box.amount >= LEAST_LABELED * total:
            share = f"{box.amount / total:.1%}"
            name = box.name if len(box.name) <= most else f"{box.name[: most - 1]}…"
            is_wide = len(name) + len(share) > most
            text = (
                label(name) + ("\n" if is_wide and box.amount > TWO_LINES * total else " ") + share if name else share
            )
            ink = theme.ink if not box.is_leaf else "#ffffff" if color == "#0072b2" else "#10151b"
            at = (box.depth + 0.03, (box.start + box.amount / 2) * unit)
            axes.text(*at, text, va="center", fontsize=8, color=ink, clip_on=True)
    axes.set(xlim=(0, max(box.depth for box in boxes) + 1), ylim=(divided, 0), ylabel=title, xticks=[])
    axes.spines["bottom"].set_visible(False)
    add_legend(axes, theme, keys(colors, drawn, theme))
    return axes.figure


def own_of(path: str) -> str:
    """Return the key of the calls that a module makes itself, not in its children."""
    return f"{path}."


def _main_operators(report: ReportData, column: str) -> dict[str, str]:
    sums: dict[str, dict[str, int]] = {}
    for (module, op), calls in report.ledger.groups("module", "op").items():
        parts = module.split(".") if module else []
        for path in {"", own_of(module), *(".".join(parts[: i + 1]) for i in range(len(parts)))}:
            by_op = sums.setdefault(path, {})
            by_op[op] = by_op.get(op, 0) + (quantity(column).of(report.ledger, calls) or 0)
    return {path: max(by_op, key=lambda op: by_op[op]) for path, by_op in sums.items()}


# Intensity: FLOPs against bytes of each call.


MOST_TICKS = 7
"""The maximum number of tick labels on the axis of bytes."""

MOST_COUNTS = 8
"""The maximum number of dots with a count of equal calls; groups with the most total FLOPs get one."""

NEAR = 0.2
"""The minimum distance between dots with counts, in decades."""

MANY = 2000
"""The maximum number of dots drawn as vectors; more dots are rasterized to keep SVG and PDF files small."""

POWERS = range(-2, 6)
"""Decimal logarithms of intensities with a line, in FLOPs per byte."""


def intensity(report: ReportData, theme: Theme) -> Picture:
    """Return a dot per call; rows are name, operator, FLOPs (a multiply-add is two) and bytes.

    Raises:
        CostError: if sizes are symbolic.
    """
    ledger = report.ledger
    check_numbers([entry[key] for entry in ledger.entries.values() for key in ("flops", "mrw")])
    amounts = [(call.name, call.layer.op, peak_flops(call, cost)) for call, cost in ledger.counted]
    rows = [(*each, ledger.entries[each[0]]["mrw"]) for each in amounts]
    rows = [row for row in rows if row[2] > 0 and row[3] > 0]
    return Picture(("name", "op", "peak_flops", "mrw"), rows, lambda: _dots(report, rows, theme))


def _dots(report: ReportData, rows: list[tuple[str, str, int, int]], theme: Theme) -> Any:
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes, colors = axes_of(theme), colors_of(report, theme)
    counts = Counter((float(nbytes), float(flops), op) for _, op, flops, nbytes in rows)
    points = [*counts]
    xs, ys, ops = zip(*points, strict=True)
    unit = report.trace.run.unit
    x_title = f"Bytes read and written (dotted lines: {per_byte(unit)})"
    axes.set(xscale="log", yscale="log", xlabel=x_title, ylabel=unit + multiply_add(report.trace.run.unit))
    size, is_many = max(6, 40 - len(points) // 50), len(points) > MANY
    found = [colors.get(op, theme.gray) for op in ops]
    axes.scatter(xs, ys, s=size, c=found, alpha=0.8, linewidths=0, rasterized=is_many)
    counted: list[tuple[float, float]] = []
    for (x, y, _), n in sorted(counts.items(), key=lambda item: -item[0][1] * item[1]):
        is_near = any(abs(log10(x / a)) < NEAR and abs(log10(y / b)) < NEAR for a, b in counted)
        if n > 1 and not is_near and len(counted) < MOST_COUNTS:
            counted.append((x, y))
            place = {"textcoords": "offset points", "xytext": (5, -9), "fontsize": 7, "color": theme.soft}
            axes.annotate(f"×{n}", (x, y), **place)
    axes.margins(0.08)
    limits = axes.get_xlim(), axes.get_ylim()
    for power in POWERS:
        _intensity_line(axes, 10.0**power, limits, theme)
    axes.set(xlim=limits[0], ylim=limits[1])
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=MOST_TICKS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(round(value), "bytes")))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(round(value), "flops")))
    axes.grid(color=theme.line)
    add_legend(axes, theme, keys(colors, {*ops}, theme))
    return axes.figure


def _intensity_line(axes: Any, ratio: float, limits: Any, theme: Theme) -> None:
    (x0, x1), (y0, y1) = limits
    if not (y0 < ratio * x1 and ratio * x0 < y1):
        return
    axes.plot([x0, x1], [ratio * x0, ratio * x1], color=theme.soft, linewidth=0.7, linestyle=":")
    at_top = ratio * x1 > y1
    x, y = (y1 / ratio, y1) if at_top else (x1, ratio * x1)
    axes.annotate(
        f"{ratio / 1000:g}k" if ratio >= 1000 else f"{ratio:g}",
        (x, y),
        textcoords="offset points",
        xytext=(0, 2) if at_top else (-2, 2),
        ha="center" if at_top else "right",
        fontsize=7,
        color=theme.soft,
    )


# Colors of operators, the same in all plots of a report.


def colors_of(report: ReportData, theme: Theme) -> dict[str, str]:
    """Return the colors of the operators with the most FLOPs or bytes; all others are gray."""
    sums = report.by("op")

    def largest(key: str) -> list[str]:
        return sorted(sums, key=lambda op: -magnitude(sums[op][key]))

    first = dict.fromkeys([*largest("flops")[:4], *largest("mrw"), *largest("flops")])
    return dict(zip(first, theme.colors[:7], strict=False))  # the same colors as on the page


def keys(colors: dict[str, str], drawn: set[str], theme: Theme) -> list[Any]:
    """Return the legend entries: drawn operators with a color, and all others."""
    from matplotlib.lines import Line2D

    found = [(op, color) for op, color in colors.items() if op in drawn]
    found += [("others", theme.gray)] if drawn - {op for op, _ in found} else []
    return [Line2D([], [], linestyle="", marker="s", color=color, label=label(op)) for op, color in found]
