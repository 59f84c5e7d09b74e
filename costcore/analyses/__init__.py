"""Analyses: what is asked of one trace. Each folder states its own in ``ANALYSES``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from costcore.plugins import hookimpl

if TYPE_CHECKING:
    from costcore.analyses.analysis import Analysis


@hookimpl
def costcore_analyses() -> Iterable[Analysis]:
    """Return the analyses that the folders beside this file state."""
    folders = (import_module(f"{__name__}.{name}") for _, name, is_folder in iter_modules(__path__) if is_folder)
    return [analysis for folder in folders for analysis in getattr(folder, "ANALYSES", ())]


@hookimpl
def costcore_quantities() -> Iterable[Any]:
    """Return the quantities of all analyses, those of plug-ins too."""
    from costcore.analyses.registered import quantities

    return quantities()
