"""The built-in analyses of a trace. Each folder lists its analyses in ``ANALYSES``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from os import scandir
from typing import TYPE_CHECKING, Any

from costcore.plugins import hookimpl

if TYPE_CHECKING:
    from costcore.analyses.analysis import Analysis


@hookimpl
def costcore_analyses() -> Iterable[Analysis]:
    """Return the analyses of the folders beside this file."""
    with scandir(__path__[0]) as entries:
        names = sorted(entry.name for entry in entries if entry.name.isidentifier() and entry.is_dir())
    folders = (import_module(f"{__name__}.{name}") for name in names if name != "__pycache__")
    return [analysis for folder in folders for analysis in getattr(folder, "ANALYSES", ())]


@hookimpl
def costcore_quantities() -> Iterable[Any]:
    """Return the quantities of all analyses, including those of plug-ins."""
    from costcore.analyses.analysis import quantities

    return quantities()
