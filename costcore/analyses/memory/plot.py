"""Live memory over the calls of a run, by kind."""

from __future__ import annotations

from typing import Any

from costcore.analyses.analysis import Analyzed
from costcore.analyses.memory.picture import STACK, Moment, columns_of
from costcore.analyses.memory.report import Memory, memory_of
from costcore.tables.pictures.amounts import in_units
from costcore.tables.pictures.picture import Picture
from costcore.tables.pictures.theme import Theme, add_legend, axes_of, label
from costcore.text.table import Column

COLORS = {"parameter": 0, "buffer": 4, "optimizer": 2, "gradient": 3, "output": 6, "saved": 1, "temporary": 5}
"""The color of each kind, as on the page; inputs are gray."""


def memory(report: Analyzed, theme: Theme) -> Picture:
    """Return a stacked area per kind; rows are the index of the call, the live bytes, and those of every kind.

    Raises:
        CostError: if memory was not recorded.
    """
    found = memory_of(report)
    moments = columns_of(found, report.trace.calls)
    kinds = [kind for kind in STACK if any(kind in moment.by_kind for moment in moments)]
    rows = [(each.call, each.live, *(each.by_kind.get(kind, 0) for kind in kinds)) for each in moments]
    return Picture(("call", "live", *kinds), rows, lambda: _areas(found, moments, kinds, theme))


def _areas(found: Memory, moments: list[Moment], kinds: list[str], theme: Theme) -> Any:
    (top,), title = in_units(Column("live", "Live memory", "bytes"), [found.peak])
    unit = top / max(found.peak, 1)
    axes = axes_of(theme)
    places = [*range(len(moments) + 1)]
    stacks = [[moment.by_kind.get(kind, 0) * unit for moment in moments] for kind in kinds]
    colors = [theme.colors[COLORS[kind]] if kind in COLORS else theme.gray for kind in kinds]
    axes.stackplot(places, [[*stack, stack[-1]] for stack in stacks], step="post", colors=colors, labels=kinds)
    peak = max(range(len(moments)), key=lambda i: moments[i].live)
    axes.axvline(peak + 0.5, color=theme.ink, linewidth=1, linestyle="--", label="peak")
    axes.set(xlabel=f"Calls in order of execution\npeak {label(found.where)}", ylabel=title, xticks=[])
    axes.margins(x=0)
    axes.grid(axis="y", color=theme.line)
    add_legend(axes, theme, reverse=True)
    return axes.figure
