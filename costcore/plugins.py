"""The plug-in manager: the built-in rooms, then whatever is installed under the entry point group ``costcore``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ParamSpec, TypeVar, cast

import pluggy

from costcore import hookspecs
from costcore.errors import CostError
from costcore.messages import shortly

hookimpl = pluggy.HookimplMarker(hookspecs.NAME)
"""Marks a plug-in's functions, ``@costcore.hookimpl``."""

BUILTIN = ("costcore.calculators", "costcore.frontends", "costcore.reports.tables.renderers")

DISABLE = "COSTCORE_DISABLE_PLUGINS"

Item = TypeVar("Item")
P = ParamSpec("P")

_CACHES: list[Callable[[], None]] = []
"""Clear the caches of all tables that are merged from plug-ins."""


def cached(function: Callable[P, Item]) -> Callable[P, Item]:
    """Cache a function of what plug-ins offer, until a plug-in is registered or unregistered."""
    kept = cache(function)
    _CACHES.append(kept.cache_clear)
    return cast("Callable[P, Item]", kept)


def clear_caches() -> None:
    """Forget every result of a :func:`cached` function."""
    for clear in _CACHES:
        clear()


@cache
def manager() -> pluggy.PluginManager:
    """The plug-in manager, made at first use.

    The environment variable ``COSTCORE_DISABLE_PLUGINS`` names installed plug-ins to leave out, separated by commas.

    Raises:
        CostError: for a plug-in that cannot be imported, or has a hook or an argument that no specification knows.
    """
    plugins = pluggy.PluginManager(hookspecs.NAME)
    plugins.add_hookspecs(hookspecs)
    for name in BUILTIN:
        plugins.register(import_module(name), name)
    for name in filter(None, os.environ.get(DISABLE, "").split(",")):
        plugins.set_blocked(name.strip())
    for point in entry_points(group=hookspecs.NAME):
        if not plugins.has_plugin(point.name) and not plugins.is_blocked(point.name):
            with _blamed(point.name, "cannot be loaded"):
                plugin = point.load()
            _add(plugins, plugin, point.name)
    return plugins


def register(plugin: object, name: str | None = None) -> None:
    """Register a plug-in of this process (a module or object with ``@hookimpl`` functions).

    Raises:
        CostError: where it has a hook or an argument that no specification knows; it is left out then.
    """
    _add(manager(), plugin, name)
    clear_caches()


def unregister(plugin: object) -> None:
    """Take a plug-in of this process out again."""
    manager().unregister(plugin)
    clear_caches()


def mappings(hook: str) -> Iterator[Mapping[str, Any]]:
    """What each plug-in returns for ``hook``: functions by name, the built-in ones first.

    Raises:
        CostError: where one fails, or returns anything else; names it.
    """

    def checked(result: Any) -> dict[str, Any]:
        if not isinstance(result, Mapping):
            raise TypeError(f"expected a dict of functions by name, got {shortly(result)}")
        for name, function in result.items():
            if not isinstance(name, str) or not callable(function):
                raise TypeError(f"expected functions by name, got {shortly(name)}: {shortly(function)}")
        return dict(result)

    return _returned(hook, checked)


def lists(hook: str, kind: type[Item], **arguments: Any) -> Iterator[list[Item]]:
    """What each plug-in returns for ``hook``: objects of a kind, the built-in ones first.

    Raises:
        CostError: where one fails, or returns anything else; names it.
    """

    def checked(result: Any) -> list[Item]:
        if not isinstance(result, Iterable) or isinstance(result, kind):
            raise TypeError(f"expected a list of {kind.__name__}, got {shortly(result)}")
        items = [*result]
        for item in items:
            if not isinstance(item, kind):
                raise TypeError(f"expected a list of {kind.__name__}, got {shortly(item)} in it")
        return items

    return _returned(hook, checked, **arguments)


def _returned(hook: str, checked: Callable[[Any], Item], **arguments: Any) -> Iterator[Item]:
    """The checked results of every plug-in that has ``hook``, in the order in which they were registered."""
    plugins = manager()
    for name, plugin in {i.plugin_name: i.plugin for i in getattr(plugins.hook, hook).get_hookimpls()}.items():
        others = [other for other in plugins.get_plugins() if other is not plugin]
        with _blamed(name, f"fails in {hook}"):
            results = [checked(result) for result in plugins.subset_hook_caller(hook, others)(**arguments)]
        yield from reversed(results)


def _add(plugins: pluggy.PluginManager, plugin: Any, name: str | None) -> None:
    """Register ``plugin``, or leave no trace of it where it is refused."""
    was_there = plugins.is_registered(plugin)
    called = name or str(getattr(plugin, "__name__", type(plugin).__name__))
    try:
        with _blamed(called, "cannot be registered"):
            plugins.register(plugin, name)
            _check_hooks(plugins, plugin)
    except CostError:
        if plugins.is_registered(plugin) and not was_there:
            plugins.unregister(plugin)
        raise


def _check_hooks(plugins: pluggy.PluginManager, plugin: Any) -> None:
    for caller in plugins.get_hookcallers(plugin) or ():
        if not caller.has_spec() and not all(found.optionalhook for found in caller.get_hookimpls()):
            known = [name for name in vars(hookspecs) if name.startswith(f"{hookspecs.NAME}_")]
            near = get_close_matches(caller.name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise pluggy.PluginValidationError(plugin, f"unknown hook {caller.name!r}; {hint}")


@contextmanager
def _blamed(name: str, what: str) -> Iterator[None]:
    """Turn whatever a plug-in raises into a sentence that names it: foreign code can fail in any way it likes."""
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise CostError(f"the plug-in {name!r} {what}: {reason}{_way_out(name)}") from error


def _way_out(name: str) -> str:
    """How an installed plug-in is left out; one that this process registered itself needs no telling."""
    points = {point.name: point for point in entry_points(group=hookspecs.NAME)}
    if name not in points:
        return ""
    return f" (entry point {name} = {points[name].value}; {DISABLE}={name} leaves it out)"
