"""The plug-in manager: built-in plug-ins first, then those installed in the entry point group ``costcore``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import pluggy

from costcore import hookspecs
from costcore.errors import CostError, CostWarning
from costcore.messages import short_repr, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

hookimpl = pluggy.HookimplMarker(hookspecs.NAME)
"""Marks the hook functions of a plug-in, ``@costcore.hookimpl``."""

BUILTIN = ("costcore.calculators", "costcore.frontends", "costcore.tables.renderers", "costcore.analyses")

DISABLE_VARIABLE = "COSTCORE_DISABLE_PLUGINS"
"""The environment variable that disables installed plug-ins: their names, separated by commas."""

_SUFFIXES = (".dist-info", ".egg-info")
"""How the names of the folders end that describe installed packages."""

Item = TypeVar("Item")
P = ParamSpec("P")

_CACHE_CLEARERS: list[Callable[[], None]] = []
"""The functions that clear the cache of each :func:`cached` function."""

_LEFT_OUT: dict[str, None] = {}
"""What was wrong with installed plug-ins that are left out, as sentences in the order in which it was found."""


def cached(function: Callable[P, Item]) -> Callable[P, Item]:
    """Cache the results of a function until a plug-in is registered or unregistered."""
    cached_function = cache(function)
    _CACHE_CLEARERS.append(cached_function.cache_clear)
    return cast("Callable[P, Item]", cached_function)


def clear_caches() -> None:
    """Discard the results of all :func:`cached` functions."""
    for clear in _CACHE_CLEARERS:
        clear()


@cache
def manager() -> pluggy.PluginManager:
    """Return the plug-in manager, which is created by the first call.

    An installed plug-in that cannot be imported, or has an unknown hook or a hook with an unknown argument, is left out
    with a warning. The environment variable ``COSTCORE_DISABLE_PLUGINS`` disables installed plug-ins: their names,
    separated by commas.
    """
    _LEFT_OUT.clear()
    plugins = pluggy.PluginManager(hookspecs.NAME)
    plugins.add_hookspecs(hookspecs)
    for name in BUILTIN:
        plugins.register(import_module(name), name)
    for name in filter(None, os.environ.get(DISABLE_VARIABLE, "").split(",")):
        plugins.set_blocked(name.strip())
    for point in entry_points(hookspecs.NAME):
        if not plugins.has_plugin(point.name) and not plugins.is_blocked(point.name):
            plugin = None
            with _left_out_if_broken(point.name, "cannot be loaded"):
                plugin = point.load()
            if plugin is not None:
                _add(plugins, plugin, point.name)
    return plugins


def register(plugin: object, name: str | None = None) -> None:
    """Register a plug-in for this process.

    Raises:
        CostError: if it has an unknown hook or a hook with an unknown argument; it is not registered then.
    """
    _add(manager(), plugin, name)
    clear_caches()


def unregister(plugin: object) -> None:
    """Unregister a plug-in of this process."""
    manager().unregister(plugin)
    clear_caches()


def functions_from_plugins(hook: str, lazy_type: type[Mapping[str, Any]] | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the functions by name that each plug-in returns for ``hook``, those of built-in plug-ins first.

    Args:
        hook: the hook.
        lazy_type: type of tables that import functions when they are read; these are not read here.

    An installed plug-in that fails or returns anything else is left out with a warning.

    Raises:
        CostError: if a plug-in that this process registered does; the message includes its name.
    """

    def checked(result: Any) -> Mapping[str, Any]:
        if lazy_type is not None and isinstance(result, lazy_type):
            return result
        if not isinstance(result, Mapping):
            raise TypeError(f"expected a dict of functions by name (got {short_repr(result)})")
        for name, function in result.items():
            if not isinstance(name, str) or not callable(function):
                raise TypeError(f"expected functions by name (got {short_repr(name)}: {short_repr(function)})")
        return dict(result)

    return _results(hook, checked)


def objects_from_plugins(hook: str, item_type: type[Item], **arguments: Any) -> Iterator[list[Item]]:
    """Yield the objects that each plug-in returns for ``hook``, those of built-in plug-ins first.

    An installed plug-in that fails or returns objects of another type is left out with a warning.

    Raises:
        CostError: if a plug-in that this process registered does; the message includes its name.
    """

    def checked(result: Any) -> list[Item]:
        if not isinstance(result, Iterable) or isinstance(result, item_type):
            raise TypeError(f"expected a list of {item_type.__name__} (got {short_repr(result)})")
        items = [*result]
        for item in items:
            if not isinstance(item, item_type):
                raise TypeError(f"expected a list of {item_type.__name__} (got an item {short_repr(item)})")
        return items

    return _results(hook, checked, **arguments)


def _results(hook: str, checked: Callable[[Any], Item], **arguments: Any) -> Iterator[Item]:
    """Yield the checked results of every plug-in that has ``hook``, in the order of registration."""
    plugins = manager()
    for name, plugin in {i.plugin_name: i.plugin for i in getattr(plugins.hook, hook).get_hookimpls()}.items():
        all_others = [other for other in plugins.get_plugins() if other is not plugin]
        results: list[Item] = []
        with _left_out_if_broken(name, f"failed in {hook}"):
            results = [checked(result) for result in plugins.subset_hook_caller(hook, all_others)(**arguments)]
        yield from reversed(results)


def _add(plugins: pluggy.PluginManager, plugin: Any, name: str | None) -> None:
    """Register ``plugin``. If it is refused, remove it from the manager again."""
    was_registered = plugins.is_registered(plugin)
    shown_name = name or str(getattr(plugin, "__name__", type(plugin).__name__))
    with _left_out_if_broken(shown_name, "cannot be registered"):
        try:
            plugins.register(plugin, name)
            _check_hooks(plugins, plugin)
        except Exception:
            if plugins.is_registered(plugin) and not was_registered:
                plugins.unregister(plugin)
            raise


def _check_hooks(plugins: pluggy.PluginManager, plugin: Any) -> None:
    """Raise a ``PluginValidationError`` if the plug-in has a hook without a specification."""
    for caller in plugins.get_hookcallers(plugin) or ():
        if not caller.has_spec() and not all(hook.optionalhook for hook in caller.get_hookimpls()):
            expected = [name for name in vars(hookspecs) if name.startswith(f"{hookspecs.NAME}_")]
            raise pluggy.PluginValidationError(plugin, unknown("hook", caller.name, expected))


@contextmanager
def _left_out_if_broken(name: str, problem: str) -> Iterator[None]:
    """Warn of an installed plug-in that raises any exception, which is left out.

    Raises:
        CostError: if this process registered the plug-in itself; the message includes its name.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        reason = f"plug-in {name!r} {problem}: {type(error).__name__}: {' '.join(str(error).split())}"
        point = next((each for each in entry_points(hookspecs.NAME) if each.name == name), None)
        if point is None:
            raise CostError(reason) from error
        if reason not in _LEFT_OUT:
            uninstall = f" uninstall it (pip uninstall {point.dist.name}) or" if point.dist else ""
            how = f"To be rid of this warning,{uninstall} set {DISABLE_VARIABLE}={name}."
            warnings.warn(f"{reason} (entry point {name} = {point.value}). It is left out. {how}", CostWarning, 1)
            _LEFT_OUT[reason] = None


def with_left_out(message: str) -> str:
    """Return a message that something does not exist, with the plug-ins that are left out and may have it."""
    if not _LEFT_OUT:
        return message
    sentences = [message if message.endswith((".", "?")) else f"{message}."]
    return " ".join([*sentences, *(f"{reason[0].upper()}{reason[1:]}; it is left out." for reason in _LEFT_OUT)])


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group, as ``importlib.metadata`` does.

    That imports dozens of modules and parses a file of every installed package, so these are first searched for the
    name of the group. Packages in archives, and those that other finders know, are left to it.
    """
    if not _may_have(group):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_have(group: str) -> bool:
    """Return False only if no installed package has entry points of a group."""
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_distributions"))
    return any(finder is not PathFinder for finder in finders) or any(_is_named_in(group, path) for path in sys.path)


def _is_named_in(group: str, path: str) -> bool:
    """Return whether a package of a folder may have entry points of a group; True for anything but a folder."""
    if os.fspath(path).lower().endswith(".egg"):
        return True
    section = f"[{group}]".encode()
    try:
        with os.scandir(path or ".") as entries:
            folders = [entry.path for entry in entries if entry.name.lower().endswith(_SUFFIXES)]
    except NotADirectoryError:
        return True
    except OSError:  # it is missing, or may not be read
        return False
    return any(section in _entry_point_file(folder) for folder in folders)


def _entry_point_file(folder: str) -> bytes:
    try:
        return Path(folder, "entry_points.txt").read_bytes()
    except OSError:  # few packages have one
        return b""
