"""The seams: everything a plug-in may offer. Entry point group and project name: ``costcore``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from costcore.frontend import FrontendSpec
    from costcore.ir import Calculator
    from costcore.reports.columns import Renderer
    from costcore.translate import Row

NAME = "costcore"
hookspec = pluggy.HookspecMarker(NAME)


@hookspec
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return calculators by the operator each is for, a neutral name (``conv``) or a framework's (``mylib::foo``)."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_frontends() -> Iterable[FrontendSpec]:
    """Return the frontends offered: name, framework module, import path, file suffixes, options of those files."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_rows(frontend: str) -> Iterable[Row]:
    """Return translation rows for the frontend of that name, tried before its own."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_renderers() -> Mapping[str, Callable[..., str] | Renderer]:
    """Return renderers by the word users choose them with, ``mode="…"``."""
    raise AssertionError("a specification is never called")
