"""Pictures: rows with a plot drawn on demand, the style of all plots, bars, and points or lines of two amounts."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from costcore.errors import CostError, import_problem, unknown
from costcore.numbers import is_symbolic
from costcore.tables.quantity import quantity
from costcore.text.amounts import BASES, PREFIXES, Formatted, prefix_for, short, unit_of_time
from costcore.text.output import Column, printable, save, save_bytes

# The result of :meth:`costcore.Report.plot`: rows and their picture.


class Picture(list[Any]):
    """The rows of a plot, as a list of tuples. A notebook displays the plot.

    The plot is drawn on demand, so the rows are available without matplotlib.

    Args:
        columns: the names of the columns of the rows.
        rows: the rows.
        draw: returns the plot as a matplotlib figure.

    Attributes:
        columns: the names of the columns.
    """

    columns: tuple[str, ...]

    def __init__(self, columns: Sequence[str], rows: Iterable[tuple[Any, ...]], draw: Callable[[], Any]) -> None:
        super().__init__(rows)
        self.columns = tuple(columns)
        self._draw = draw

    def titled(self, model: str) -> Picture:
        """Return the picture with the name of a model in its title."""

        def draw() -> Any:
            figure = self._draw()
            axes = figure.axes[0]
            title = ", ".join(filter(None, [label(model), axes.get_title()]))
            axes.set_title("")
            axes.set_title(title, loc="left", fontsize=10, color=axes.title.get_color(), pad=14)
            return figure

        return Picture(self.columns, self, draw) if model else self

    def figure(self) -> Any:
        """Return a new ``matplotlib.figure.Figure``, which you can change and save.

        Raises:
            CostError: if matplotlib is not installed, or if there is nothing to draw.
        """
        if not self:
            raise CostError("there is nothing to draw: no row has numbers")
        return self._draw()

    def save(self, target: str | PathLike[str]) -> None:
        """Write an ``.svg``, ``.png`` or ``.pdf`` image, or the rows as ``.csv``.

        Raises:
            CostError: if matplotlib is not installed, or if there is nothing to draw.
            OSError: if the file cannot be written.
            ValueError: for any other suffix.
        """
        suffix = check_suffix(target, (".csv", *SUFFIXES))
        if suffix == ".csv":
            save(self.to_csv(), target)
        else:
            save_figure(self.figure(), target, suffix)

    def to_csv(self) -> str:
        """Return the rows as CSV, with their columns."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self])
        return text.getvalue()

    def _repr_svg_(self) -> str | None:
        # If the picture cannot be drawn, the notebook shows the rows.
        image = io.BytesIO()
        try:
            save_figure(self.figure(), image, ".svg")
        except CostError:
            return None
        return image.getvalue().decode()


# Style and files of all pictures.


SUFFIXES = (".svg", ".png", ".pdf")
"""Suffixes of images."""

MOST_KEYS = 5
"""The maximum number of entries of a legend in a row."""

MAX_LABEL = 60
"""The maximum length of a name in a picture, in characters."""

DPI = 150
"""The resolution of raster images, in pixels per inch."""

_FONT = {"svg.fonttype": "none", "svg.hashsalt": "costcore", "font.size": 10}
"""Text stays text in SVG files, and equal pictures give equal files."""


class Theme(NamedTuple):
    """The colors of a picture.

    Attributes:
        paper, ink, soft, line: the colors of background, text, secondary text and grid.
        colors: the colors of data: the color-blind safe palette of Okabe and Ito, and violet.
        gray: the color of everything else.
    """

    paper: str
    ink: str
    soft: str
    line: str
    colors: tuple[str, ...]
    gray: str


THEMES = {
    "light": Theme(
        "#ffffff",
        "#1b2129",
        "#596473",
        "#dfe3e9",
        ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#c9bb1d", "#6a3d9a"),
        "#9aa3ad",
    ),
    "dark": Theme(
        "#1a1e25",
        "#e4e8ee",
        "#9aa5b4",
        "#2d333d",
        ("#3a9bd9", "#e9ab26", "#1fb88c", "#e5762a", "#8fd0f5", "#d990b7", "#f0e442", "#b39ddb"),
        "#8d97a4",
    ),
}


def theme_of(name: str) -> Theme:
    """Return a theme by name.

    Raises:
        ValueError: if the name is unknown.
    """
    if name not in THEMES:
        raise ValueError(unknown("theme", name, THEMES))
    return THEMES[name]


def axes_of(theme: Theme, width: float = 7, height: float = 4.2) -> Any:
    """Return the axes of a new figure (size in inches); ``axes.figure`` is the figure.

    Raises:
        CostError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CostError(import_problem("a plot", "matplotlib", error)) from error
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=theme.paper)
    axes = figure.add_subplot(facecolor=theme.paper)
    axes.tick_params(which="both", colors=theme.soft, labelcolor=theme.ink)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(theme.ink)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.line)
    axes.set_axisbelow(True)
    return axes


def add_legend(axes: Any, theme: Theme, handles: Any = None, **options: Any) -> None:
    """Add a legend below the axes, for some handles or for everything with a label."""
    handles = axes.get_legend_handles_labels()[0] if handles is None else handles
    if not handles:
        return
    columns = min(len(handles), MOST_KEYS)
    axes.figure.legend(
        handles=handles[:: -1 if options.pop("reverse", False) else 1],
        frameon=False,
        labelcolor=theme.ink,
        loc="outside lower center",
        ncols=columns,
        fontsize=9,
        handletextpad=0.4,
        columnspacing=1.4,
        **options,
    )


def label(name: str) -> str:
    """Return a name as text in a picture: ``$`` is escaped, and only the end of a long name is kept."""
    text = printable(name).replace("$", r"\$")
    text = text if len(text) <= MAX_LABEL else f"…{text[1 - MAX_LABEL :]}"
    return f" {text}" if text.startswith("_") else text  # matplotlib omits names with ``_`` from legends


def check_suffix(target: str | PathLike[str], suffixes: tuple[str, ...] = SUFFIXES) -> str:
    """Return the suffix of a file.

    Raises:
        ValueError: if it is not one of ``suffixes``.
    """
    suffix = Path(target).suffix
    if suffix not in suffixes:
        raise ValueError(f"{str(target)!r} has an unknown suffix (expected one of {', '.join(suffixes)})")
    return suffix


def save_figure(figure: Any, target: Any, suffix: str) -> None:
    """Write a picture to a path or a binary stream. An SVG file has no date.

    Raises:
        OSError: if the path cannot be written.
    """
    from matplotlib import rc_context

    metadata = {"Date": None} if suffix == ".svg" else {"CreationDate": None} if suffix == ".pdf" else None
    image = io.BytesIO()
    with rc_context(_FONT):
        figure.savefig(image, format=suffix[1:], metadata=metadata, dpi=DPI)
    if isinstance(target, (str, PathLike)):
        save_bytes(image.getvalue(), target)
    else:
        target.write(image.getvalue())


# Bars: one number per row of a table, and stacked bars of memory.


MOST_BARS = 20
"""The maximum number of bars; the title says if rows are omitted."""

BAR_HEIGHT = 0.28
"""The height of a bar with its spacing, in inches."""

MEASURED = ("flops", "bytes", "duration", "seconds", "ratio", "percent", "count")
"""The kinds of numbers that bars can show."""

AMOUNTS = ("flops", "bytes", "duration", "seconds")
"""The preferred kinds for bars: the first such column of a table; if there is none, the first in MEASURED."""


def bars_of(
    titles: Sequence[str], columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], theme: Theme
) -> Picture:
    """Return a bar for each row of a table, with the first amount as length.

    Args:
        titles: the title of the table, and of the result if it differs.
        columns: its columns; the columns before the amount name the rows.
        rows: the values by column key.
        theme: the colors.

    Raises:
        CostError: if no column has a number in a row.
    """
    amount = next(iter(amounts_in(columns, rows)), None)
    if amount is None:
        raise CostError(f"there is nothing to draw: {titles[0] or titles[-1]} has no numbers")
    check_numbers([value_in(row, amount) for row in rows])
    labels = [each for each in columns[: columns.index(amount)] if each.kind in ("text", "count")] or columns[:1]
    pairs = [
        (", ".join(filter(None, (_word(value_in(row, each)) for each in labels[:3]))), value)
        for row in rows
        if _is_number(value := value_in(row, amount))
    ]
    return Picture(("name", amount.key), pairs, lambda: _draw_bars(titles, amount, pairs, theme))


def amounts_in(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the columns with numbers in some row, preferred columns first."""
    order = {**dict.fromkeys(AMOUNTS, 0), "ratio": 1, "percent": 2, "count": 3}
    found = sorted([column for column in columns[1:] if column.kind in order], key=lambda column: order[column.kind])
    return [each for each in found if any(_is_number(value_in(row, each)) for row in rows)]


def _word(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def value_in(row: Mapping[str, Any], column: Column) -> Any:
    """Return the exact value of a row in a column; an empty string if it does not apply."""
    value = row.get(column.key, "")
    return value.value if isinstance(value, Formatted) else value


def _draw_bars(titles: Sequence[str], amount: Column, pairs: Sequence[tuple[str, float]], theme: Theme) -> Any:
    shown = pairs[:MOST_BARS]
    values = [each for _, each in shown]
    if amount.kind in ("duration", "seconds"):
        lengths, title = in_units(amount._replace(kind="duration"), values)
    elif amount.kind in ("count", "ratio") and (prefix := prefix_for([int(max(values, key=abs))], "flops")):
        lengths, title = [each / 1000 ** PREFIXES.index(prefix) for each in values], f"{amount.title} ({prefix})"
    else:
        lengths, title = in_units(amount, values)
        title = f"{title} ({amount.unit})" if amount.unit else f"{title} (%)" if amount.kind == "percent" else title
    axes = axes_of(theme, height=1.1 + BAR_HEIGHT * len(shown))
    places = [*range(len(shown))]
    colors = [theme.gray if name.startswith("others") else theme.colors[0] for name, _ in shown]
    axes.barh(places, lengths, color=colors, height=0.7)
    for place, value in zip(places, lengths, strict=True):
        axes.annotate(f"{value:.4g}", (value, place), (4, 0), textcoords="offset points", va="center", fontsize="small")
        axes.texts[-1].set_color(theme.soft)
    axes.set_yticks(places, [label(name) for name, _ in shown])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.margins(x=0.12, y=0.02)
    axes.grid(axis="x", color=theme.line)
    axes.set_xlabel(title.strip())
    more = f" (the first {MOST_BARS} of {len(pairs)})" if len(pairs) > MOST_BARS else ""
    axes.set_title(label(": ".join(dict.fromkeys(filter(None, reversed(titles)))) + more), fontsize=10, color=theme.ink)
    return axes.figure


MEMORY = Column("nbytes", "Memory", "bytes")

Filled: TypeAlias = "Mapping[str, tuple[Mapping[str, float], float | None]]"
"""For each bar by name: its parts, and its limit (None if there is none)."""


def filled_bars(
    bars: Filled,
    title: str,
    theme: Theme,
    names: tuple[str, str] = ("memory", "kind"),
    amount: Column = MEMORY,
) -> Picture:
    """Return a stacked bar for each memory (or other total), with a line at its limit.

    Args:
        bars: the bars.
        title: the heading.
        theme: the colors.
        names: the columns of the names of bars and parts.
        amount: the column of the amounts.
    """
    parts = [(name, kind, value) for name, (each, _) in bars.items() for kind, value in each.items()]
    rows = [part for part in parts if part[2] > 0]
    return Picture((*names, amount.key), rows, lambda: _draw_filled(bars, title, theme, amount))


def _draw_filled(memories: Filled, title: str, theme: Theme, amount: Column) -> Any:
    sums = {name: sum(parts.values()) for name, (parts, _) in memories.items()}
    most = max(*sums.values(), *(limit or 0 for _, limit in memories.values())) or 1
    (top,), axis = in_units(amount, [most])
    unit = top / most
    kinds = [*dict.fromkeys(kind for parts, _ in memories.values() for kind, nbytes in parts.items() if nbytes > 0)]
    axes = axes_of(theme, 9, 1.6 + 0.6 * len(memories))
    for i, kind in enumerate(kinds):
        color = theme.colors[i] if i < len(theme.colors) else theme.gray
        for place, (parts, _) in enumerate(memories.values()):
            before = sum(parts.get(each, 0) for each in kinds[:i]) * unit
            axes.barh(place, parts.get(kind, 0) * unit, left=before, color=color, height=0.6, label=kind * (not place))
    for place, (_, limit) in enumerate(memories.values()):
        if limit is None:
            continue
        axes.plot([limit * unit] * 2, [place - 0.4, place + 0.4], color=theme.ink, label="limit" * (not place))
    axes.set_yticks([*range(len(memories))], [label(name) for name in memories])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlabel(axis)
    axes.grid(axis="x", color=theme.line)
    axes.set_title(label(title), fontsize=10, color=theme.ink)
    handles = [each for each in axes.get_legend_handles_labels()[0] if each.get_label()]
    add_legend(axes, theme, handles)
    return axes.figure


# Points or lines of numbers over other numbers.


class Axis(NamedTuple):
    """A column with one value per point. Points without a number (None or text) are omitted."""

    column: Column
    values: Sequence[Any]


MOST_NAMED = 20
"""The maximum number of points with names; more names would overlap."""


def draw(
    x: Axis,
    y: Axis,
    line: bool = False,
    theme: Theme = THEMES["light"],
    names: Sequence[str] | None = None,
    color: Axis | None = None,
    best: Sequence[int] = (),
    title: str = "",
) -> Any:
    """Return a figure with a point for each pair of numbers, or with a line through them.

    An axis of points is logarithmic if its numbers are positive and differ by a factor of at least :data:`LOGARITHMIC`.

    Args:
        x: the numbers of the horizontal axis.
        y: the numbers of the vertical axis.
        line: whether to draw a line instead of points.
        theme: the colors.
        names: the names of the points, in order; shown for at most :data:`MOST_NAMED` points.
        color: the numbers that color the points; a point without a number is gray.
        best: the positions of points on the Pareto front; they are joined by a line, and have names.
        title: the title of the picture.

    Raises:
        CostError: if matplotlib is not installed, or if there are no numbers.
    """
    found = [i for i, pair in enumerate(zip(x.values, y.values, strict=True)) if all(map(_is_number, pair))]
    if not found:
        raise CostError(f"nothing has numbers for both {x.column.key} and {y.column.key}")
    axes = axes_of(theme)
    numbers = [[axis.values[i] for i in found] for axis in (x, y)]
    logs = [not line and min(each) > 0 and max(each) >= LOGARITHMIC * min(each) for each in numbers]
    (xs, x_title), (ys, y_title) = (
        (each, axis.column.title.strip()) if is_log else in_units(axis.column, each)
        for axis, each, is_log in zip((x, y), numbers, logs, strict=True)
    )
    axes.set(xlabel=x_title, ylabel=y_title)
    axes.set_title(label(title), loc="left", fontsize=10, color=theme.ink)
    axes.grid(color=theme.line)
    if line:
        axes.plot(xs, ys, color=theme.colors[0])
        return axes.figure
    for axis, of_axes, name, is_log in zip((x, y), (axes.xaxis, axes.yaxis), "xy", logs, strict=True):
        if is_log:
            getattr(axes, f"set_{name}scale")("log", base=2 if axis.column.kind == "bytes" else 10)
            of_axes.set_major_formatter(partial(_tick, axis.column.kind))
            of_axes.set_minor_formatter("")
    _draw_points(axes, xs, ys, [color.values[i] for i in found] if color is not None else None, color, theme)
    of_front = sorted((xs[at], ys[at]) for at, i in enumerate(found) if i in set(best))
    if len(of_front) > 1:
        axes.plot(*zip(*of_front, strict=True), color=theme.colors[3], linewidth=1.2, label="Pareto front")
        axes.legend(frameon=False, labelcolor=theme.ink, fontsize=9)
    if names:
        named = [at for at, i in enumerate(found) if len(found) <= MOST_NAMED or i in set(best)]
        _write_names(axes, [(xs[at], ys[at], names[found[at]]) for at in named], theme)
    return axes.figure


def _tick(kind: str, value: float, _: Any) -> str:
    return short(round(value) if kind in (*BASES, "count") and value >= 1 else value, kind)


LOGARITHMIC = 10
"""The minimum ratio of maximum to minimum on a logarithmic axis."""


def _draw_points(
    axes: Any, xs: Sequence[float], ys: Sequence[float], values: Sequence[Any] | None, color: Axis | None, theme: Theme
) -> None:
    size = max(4, 36 - len(xs) // 50)
    known = [at for at in range(len(xs)) if values is not None and _is_number(values[at])]
    if color is None or values is None or not known:
        axes.scatter(xs, ys, s=size, alpha=0.7, color=theme.colors[0])
        return
    rest = [at for at in range(len(xs)) if at not in set(known)]
    axes.scatter([xs[at] for at in rest], [ys[at] for at in rest], s=size, color=theme.gray)
    shades, title = in_units(color.column, [values[at] for at in known])
    drawn = axes.scatter([xs[at] for at in known], [ys[at] for at in known], s=size, c=shades, cmap="viridis")
    bar = axes.figure.colorbar(drawn, ax=axes, label=title)
    bar.ax.tick_params(colors=theme.soft, labelcolor=theme.ink)
    bar.ax.yaxis.label.set_color(theme.ink)
    bar.outline.set_edgecolor(theme.line)


def _write_names(axes: Any, points: Sequence[tuple[float, float, str]], theme: Theme) -> None:
    # On the free side of each point; a name without room is omitted.
    axes.margins(x=0.12, y=0.08)
    axes.figure.draw_without_rendering()  # the layout determines the positions of points
    places = axes.transData.transform([(x, y) for x, y, _ in points])
    per_point = axes.figure.dpi / 72
    frame = axes.get_window_extent()
    taken = [(x - 3, x + 3, y - 3, y + 3) for x, y in places]
    for (x, y, name), (left, bottom) in zip(points, places, strict=True):
        text = printable(name)[:MAX_LABEL]
        wide, high = LETTER * per_point * len(text), 10 * per_point
        for dx, dy in ((5, 4), (5, -11), (-5, 4), (-5, -11)):
            start = left + dx * per_point - (wide if dx < 0 else 0)
            low = bottom + dy * per_point
            box = (start, start + wide, low, low + high)
            is_inside = frame.x0 <= box[0] and box[1] <= frame.x1 and frame.y0 <= box[2] and box[3] <= frame.y1
            if is_inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                look = {"fontsize": "small", "color": theme.ink, "parse_math": False}
                side = "right" if dx < 0 else "left"
                axes.annotate(text, (x, y), (dx, dy), textcoords="offset points", ha=side, **look)
                break


LETTER = 5.4
"""The width of a letter of a name, in points."""


def _overlap(box: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# Amounts with a unit prefix.


def column_of(metric: str, unit: str = "FLOPs") -> Column:
    """Return the column of a quantity, with its name in running text as title; ``unit`` is the name of FLOPs."""
    found = quantity(metric)
    if metric == "flops":
        return Column(metric, unit, found.kind)
    if found.kind == "count":  # the prefix precedes it: GMACs, but M parameters
        return Column(metric, f" {found.in_words}", "flops")
    return Column(metric, found.in_words[:1].upper() + found.in_words[1:], found.kind)


def check_numbers(values: Sequence[Any]) -> None:
    """Check that no amount is symbolic.

    Raises:
        CostError: if an amount is symbolic.
    """
    if any(map(is_symbolic, values)):
        raise CostError("this picture needs numbers, but sizes are symbolic: use report.subs(batch=8), or over=…")


def in_units(column: Column, values: Sequence[Any]) -> tuple[list[float], str]:
    """Scale the values by the unit prefix of the largest value; also return the title of the axis."""
    if column.kind == "duration":
        name, per_second = unit_of_time(values)
        return [value * per_second for value in values], f"{column.title} ({name})"
    if column.kind not in BASES:
        return [*values], column.title
    prefix = prefix_for(values, column.kind)
    divisor = BASES[column.kind] ** PREFIXES.index(prefix)
    unit = f"{prefix}iB" if prefix and column.kind == "bytes" else "B" if column.kind == "bytes" else ""
    title = f"{column.title} ({unit})" if unit else f"{prefix}{column.title}".strip()
    return [value / divisor for value in values], title
