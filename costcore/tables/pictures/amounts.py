"""Amounts in a picture: numbers in units of a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.errors import CostError
from costcore.numbers.dims import is_symbolic
from costcore.tables.quantities import quantity
from costcore.text.durations import unit_of_time
from costcore.text.table import Column
from costcore.text.units import BASES, PREFIXES, prefix_for


def column_of(metric: str, unit: str = "FLOPs") -> Column:
    """Return the column of a quantity, with its name in sentences as title; FLOPs have the name ``unit``."""
    found = quantity(metric)
    if metric == "flops":
        return Column(metric, unit, found.kind)
    if found.kind == "count":  # the prefix precedes it: GMACs, but M parameters
        return Column(metric, f" {found.in_words}", "flops")
    return Column(metric, found.in_words[:1].upper() + found.in_words[1:], found.kind)


def check_numbers(values: Sequence[Any]) -> None:
    """Check that no amount is symbolic.

    Raises:
        CostError: if one is.
    """
    if any(map(is_symbolic, values)):
        raise CostError("this picture needs numbers, but sizes are symbolic: use report.subs(batch=8), or over=…")


def in_units(column: Column, values: Sequence[Any]) -> tuple[list[float], str]:
    """Return the values in units of a prefix that suits the largest, and the title of the axis."""
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
