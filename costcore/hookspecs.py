"""The hooks of plug-ins, which are found through the entry point group ``costcore``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from costcore.frontend import FrontendSpec
    from costcore.ir import Calculator
    from costcore.text.table import Renderer
    from costcore.translate import Row

NAME = "costcore"
hookspec = pluggy.HookspecMarker(NAME)


@hookspec
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return calculators by operator, a canonical name (``conv``) or a framework's own name (``mylib::foo``)."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_frontends() -> Iterable[FrontendSpec]:
    """Return a ``FrontendSpec`` for each frontend of the plug-in."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_rows(frontend: str) -> Iterable[Row]:
    """Return mapping rules (``Row``) for the frontend of that name; they take precedence over its own."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_renderers() -> Mapping[str, Callable[..., str] | Renderer]:
    """Return renderers by the name of their ``mode``; a renderer is a function from a ``TextTable`` to text."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_conventions() -> Iterable[Path]:
    """Return the paths of TOML files with counting conventions."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_devices() -> Iterable[Path]:
    """Return the paths of TOML files with devices."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_caches() -> Mapping[str, Callable[[Any], Any]]:
    """Return functions by name that make an empty cache for a language model: ``make(model) -> cache``."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_commands() -> Iterable[Any]:
    """Return a ``costcore.cli.commands.Command`` for each further command, ``costcore NAME``."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_analyses() -> Iterable[Any]:
    """Return a ``costcore.analyses.analysis.Analysis`` for each further question about a run."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_quantities() -> Iterable[Any]:
    """Return a ``Quantity`` for each number, or text, that tables, budgets and comparisons can show of a run."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_exports() -> Iterable[Any]:
    """Return a ``costcore.reports.exports.Export`` for each further text that a report can be written as."""
    raise AssertionError("a specification is never called")
