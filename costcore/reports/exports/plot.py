"""Numbers over other numbers, as an image."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.reports.columns import Column
from costcore.reports.text.durations import unit_of_time
from costcore.reports.text.units import BASES, PREFIXES, prefix_for

SUFFIXES = (".svg", ".png", ".pdf")
"""Suffixes of images."""


class Axis(NamedTuple):
    """A column with its value for each point; a point without a number, such as None or text, is left out."""

    column: Column
    values: Sequence[Any]


def draw(x: Axis, y: Axis, target: str | PathLike[str], line: bool = False) -> None:
    """Write an image with a point for each pair of numbers, or with a line through them.

    Raises:
        CostError: if matplotlib is not installed, or if there are no numbers.
        OSError: if the file cannot be written.
        ValueError: if the suffix is not one of :data:`SUFFIXES`.
    """
    if Path(target).suffix not in SUFFIXES:
        raise ValueError(f"{str(target)!r} has an unknown suffix (expected one of {', '.join(SUFFIXES)})")
    pairs = [pair for pair in zip(x.values, y.values, strict=True) if all(map(_is_number, pair))]
    if not pairs:
        raise CostError(f"nothing has numbers for both {x.column.key} and {y.column.key}")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CostError(
            f"a plot needs matplotlib, which cannot be imported ({error}). Run pip install matplotlib."
        ) from error
    figure = Figure(layout="constrained")
    axes = figure.add_subplot()
    (xs, x_title), (ys, y_title) = (_scaled(axis.column, [pair[i] for pair in pairs]) for i, axis in enumerate((x, y)))
    if line:
        axes.plot(xs, ys)
    else:
        axes.scatter(xs, ys, s=max(4, 36 - len(pairs) // 50), alpha=0.7)
    axes.set(xlabel=x_title, ylabel=y_title)
    axes.grid(alpha=0.3)
    figure.savefig(target, metadata={"Date": None} if Path(target).suffix == ".svg" else None)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _scaled(column: Column, values: Sequence[Any]) -> tuple[list[float], str]:
    """Return the values in units of a prefix that suits the largest, and the title of the axis."""
    if column.kind == "duration":
        name, per_second = unit_of_time(values)
        return [value * per_second for value in values], f"{column.title} ({name})"
    if column.kind not in BASES:
        return [*values], column.title
    prefix = prefix_for(values, column.kind)
    divisor = BASES[column.kind] ** PREFIXES.index(prefix)
    unit = f"{prefix}iB" if prefix and column.kind == "bytes" else "B" if column.kind == "bytes" else ""
    title = f"{column.title} ({unit})" if unit else prefix + column.title
    return [value / divisor for value in values], title
