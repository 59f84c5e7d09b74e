"""Plug-ins: their hooks, and the manager with built-in plug-ins first, then the entry point group ``costcore``.

A broken installed plug-in is left out with a warning. Also here: :class:`Command`, which a plug-in adds to the command
line, and imports by path or by a name that modules define.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, reduce
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

import pluggy

from costcore.errors import CostError, CostWarning, short_repr, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from costcore.frontend import FrontendSpec
    from costcore.ir import Calculator
    from costcore.text.output import Renderer
    from costcore.translate import Row


# Hook specifications.


NAME = "costcore"

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker(NAME)


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
    """Return renderers by the name of their ``mode``; a renderer is a function from a ``RenderedTable`` to text."""
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
    """Return functions by name for empty caches of a language model: ``make(model) -> cache``."""
    raise AssertionError("a specification is never called")


@hookspec
def costcore_commands() -> Iterable[Any]:
    """Return a ``costcore.plugins.Command`` for each further command, ``costcore NAME``."""
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
    """Return a ``costcore.reports.exports.Export`` for each further text format of a report."""
    raise AssertionError("a specification is never called")


# Commands of the command line, and the manager.


class Command(NamedTuple):
    """A command, ``costcore NAME``.

    Attributes:
        name: its name, one word.
        arguments: its arguments in the help, ``MODEL``; may be empty.
        summary: what it does, in one phrase.
        path: the import path of its function, ``package.module:main``. It takes the remaining arguments and returns the
            exit code, and is imported when the command runs.
    """

    name: str
    arguments: str
    summary: str
    path: str


hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker(NAME)
"""Marks the hook functions of a plug-in, ``@costcore.hookimpl``."""

BUILTIN = ("costcore.calculators", "costcore.frontends", "costcore.tables.renderers", "costcore.analyses")

DISABLE_VARIABLE = "COSTCORE_DISABLE_PLUGINS"
"""The environment variable that disables installed plug-ins: their names, separated by commas."""

_SUFFIXES = (".dist-info", ".egg-info")
"""Suffixes of folders with metadata of installed packages."""

Item = TypeVar("Item")

P = ParamSpec("P")

_CACHE_CLEARERS: list[Callable[[], None]] = []
"""The functions that clear the cache of each :func:`cached` function."""

_LEFT_OUT: dict[str, None] = {}
"""Reasons for left-out plug-ins, as sentences in the order of discovery."""


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
    plugins = pluggy.PluginManager(NAME)
    plugins.add_hookspecs(sys.modules[__name__])
    for name in BUILTIN:
        plugins.register(import_module(name), name)
    for name in filter(None, os.environ.get(DISABLE_VARIABLE, "").split(",")):
        plugins.set_blocked(name.strip())
    for point in entry_points(NAME):
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
    """Yield the functions by name from each plug-in for ``hook``, built-in plug-ins first.

    Args:
        hook: the hook.
        lazy_type: type of tables that import functions on demand; these are not read here.

    An installed plug-in that fails or returns anything but functions by name is left out with a warning.

    Raises:
        CostError: for a plug-in that this process registered, instead of the warning; the message includes its name.
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
    """Yield the objects from each plug-in for ``hook``, built-in plug-ins first.

    An installed plug-in that fails or returns objects of another type is left out with a warning.

    Raises:
        CostError: for a plug-in that this process registered, instead of the warning; the message includes its name.
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
    plugins = manager()
    for name, plugin in {i.plugin_name: i.plugin for i in getattr(plugins.hook, hook).get_hookimpls()}.items():
        # Called one plug-in at a time, so that only the failing one is left out.
        all_others = [other for other in plugins.get_plugins() if other is not plugin]
        results: list[Item] = []
        with _left_out_if_broken(name, f"failed in {hook}"):
            results = [checked(result) for result in plugins.subset_hook_caller(hook, all_others)(**arguments)]
        # pluggy calls the last registered plug-in first.
        yield from reversed(results)


def _add(plugins: pluggy.PluginManager, plugin: Any, name: str | None) -> None:
    was_registered = plugins.is_registered(plugin)
    shown_name = name or str(getattr(plugin, "__name__", type(plugin).__name__))
    with _left_out_if_broken(shown_name, "cannot be registered"):
        try:
            plugins.register(plugin, name)
            _check_hooks(plugins, plugin)
        except Exception:
            # pluggy keeps a plug-in that it refused.
            if plugins.is_registered(plugin) and not was_registered:
                plugins.unregister(plugin)
            raise


def _check_hooks(plugins: pluggy.PluginManager, plugin: Any) -> None:
    for caller in plugins.get_hookcallers(plugin) or ():
        if not caller.has_spec() and not all(hook.optionalhook for hook in caller.get_hookimpls()):
            expected = [name for name in globals() if name.startswith(f"{NAME}_")]
            raise pluggy.PluginValidationError(plugin, unknown("hook", caller.name, expected))


@contextmanager
def _left_out_if_broken(name: str, problem: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:
        reason = f"plug-in {name!r} {problem}: {type(error).__name__}: {' '.join(str(error).split())}"
        point = next((each for each in entry_points(NAME) if each.name == name), None)
        if point is None:
            raise CostError(reason) from error
        if reason not in _LEFT_OUT:
            uninstall = f" uninstall it (pip uninstall {point.dist.name}) or" if point.dist else ""
            how = f"To silence this warning,{uninstall} set {DISABLE_VARIABLE}={name}."
            warnings.warn(f"{reason} (entry point {name} = {point.value}). It is left out. {how}", CostWarning, 1)
            _LEFT_OUT[reason] = None


def with_plugin_hint(message: str) -> str:
    """Append the left-out plug-ins to a message that something does not exist: they may have it."""
    if not _LEFT_OUT:
        return message
    sentences = [message if message.endswith((".", "?")) else f"{message}."]
    return " ".join([*sentences, *(f"{reason[0].upper()}{reason[1:]}; it is left out." for reason in _LEFT_OUT)])


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group.

    ``importlib.metadata`` imports dozens of modules and parses a file of every installed package. It is called only if
    one of these files has the name of the group, for packages in archives, and for other finders.
    """
    if not _may_have(group):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_have(group: str) -> bool:
    # Other finders may know packages without files.
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_distributions"))
    return any(finder is not PathFinder for finder in finders) or any(_is_named_in(group, path) for path in sys.path)


def _is_named_in(group: str, path: str) -> bool:
    # Archives are left to importlib.metadata.
    if os.fspath(path).lower().endswith(".egg"):
        return True
    section = f"[{group}]".encode()
    try:
        with os.scandir(path or ".") as entries:
            folders = [entry.path for entry in entries if entry.name.lower().endswith(_SUFFIXES)]
    except NotADirectoryError:
        return True
    except OSError:  # missing, or not readable
        return False
    return any(section in _entry_point_file(folder) for folder in folders)


def _entry_point_file(folder: str) -> bytes:
    try:
        with open(f"{folder}/entry_points.txt", "rb", 0) as file:  # noqa: PTH123 (a Path for each of many takes long)
            return file.read()
    except OSError:  # few packages have one
        return b""


# Attributes by import path, and modules by a name that they define.


def imported(path: str) -> Any:
    """Import an attribute of a module: ``package.module:name`` or ``package.module:A.b``.

    Raises:
        ImportError, AttributeError: if there is no such module or attribute.
    """
    module, _, names = path.partition(":")
    return reduce(getattr, names.split("."), import_module(module))


def modules_with(name: str, package: str) -> tuple[ModuleType, ...]:
    """Return the modules of a package and its folders that define ``name``, such as ``ROWS``, in order of their names.

    New files need no registration.

    Args:
        name: the name.
        package: the import path of the package.
    """
    folder = Path(import_module(package).__path__[0])
    files = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py") if path.stem != "__init__")
    modules = (import_module(f"{package}.{each}") for each in sorted(".".join(file.parts) for file in files))
    return tuple(module for module in modules if hasattr(module, name))
