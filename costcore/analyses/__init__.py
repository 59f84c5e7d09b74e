"""Analyses: what is asked of one trace."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from costcore.plugins import hookimpl

if TYPE_CHECKING:
    from costcore.tables.quantity import Quantity

WITH_QUANTITIES = (
    "conventions.convention_quantities",
    "fusion.quantities",
    "measured.quantities",
    "memory.quantities",
    "receptive_field.quantities",
    "timing.quantities",
)
"""The files with the quantities of an analysis. They import the analysis itself when a value is asked for."""


@hookimpl
def costcore_quantities() -> Iterable[Quantity]:
    """Return the quantities of all analyses."""
    return [each for name in WITH_QUANTITIES for each in import_module(f"{__name__}.{name}").QUANTITIES]
