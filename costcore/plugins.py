"""The plug-in manager: the built-in rooms, then whatever is installed under the entry point group ``costcore``."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

import pluggy

from costcore import hookspecs

hookimpl = pluggy.HookimplMarker(hookspecs.NAME)
"""Marks a plug-in's functions, ``@costcore.hookimpl``."""

BUILTIN = ("costcore.calculators", "costcore.frontends", "costcore.renderers")


@cache
def manager() -> pluggy.PluginManager:
    """The plug-in manager, made at first use.

    The environment variable ``COSTCORE_DISABLE_PLUGINS`` names installed plug-ins to leave out, separated by commas.

    Raises:
        pluggy.PluginValidationError: for a plug-in with a hook or an argument that no specification knows.
    """
    plugins = pluggy.PluginManager(hookspecs.NAME)
    plugins.add_hookspecs(hookspecs)
    for name in BUILTIN:
        plugins.register(import_module(name), name)
    for name in filter(None, os.environ.get("COSTCORE_DISABLE_PLUGINS", "").split(",")):
        plugins.set_blocked(name.strip())
    plugins.load_setuptools_entrypoints(hookspecs.NAME)
    plugins.check_pending()
    return plugins


def register(plugin: object, name: str | None = None) -> None:
    """Register a plug-in of this process (a module or object with ``@hookimpl`` functions)."""
    manager().register(plugin, name)
    manager().check_pending()
    _forget()


def unregister(plugin: object) -> None:
    """Take a plug-in of this process out again."""
    manager().unregister(plugin)
    _forget()


def _forget() -> None:
    """Make every table that was merged from plug-ins be merged anew."""
    from costcore import frontend, registry, renderers

    registry.calculators.cache_clear()
    frontend.specs.cache_clear()
    frontend.rows.cache_clear()
    renderers.renderers.cache_clear()
