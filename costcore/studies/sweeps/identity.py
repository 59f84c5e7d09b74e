"""Keys of rows: equal if the model, its inputs, the options and the version are the same."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, entry_points, version
from os import PathLike
from pathlib import Path
from typing import Any

from costcore._version import __version__
from costcore.ir import Tensor
from costcore.registry.frontends import reader_of, specs
from costcore.registry.libraries import is_saved_report, library_target
from costcore.studies.sweeps.row import NamedModel, Settings
from costcore.studies.sweeps.sources import Sources

MOST_ELEMENTS = 1 << 20
"""The most elements of an array whose values are part of a key."""


class NoIdentityError(Exception):
    """A value that cannot be recognized in a later run, such as a model without the code that made it."""


class Identity:
    """Makes the keys of the rows of one run.

    A file counts by its content, a function by the source of its module and of the modules that this imports, installed
    packages by their version.

    Args:
        settings: what all rows have in common.
    """

    def __init__(self, settings: Settings) -> None:
        self._sources = Sources([*settings.python_path, ""])
        self._targets: dict[str, Any] = {}
        try:
            self._common = [_versions(), self._settings(settings)]
        except NoIdentityError:
            self._common = []

    def key(self, named: NamedModel) -> str:
        """Return the key of the row of a model; empty if the model cannot be recognized in a later run."""
        if not self._common:
            return ""
        try:
            model = self._model(named)
            parts = [*self._common, named.name, model, self._value(named.inputs), self._value(named.arguments)]
        except (NoIdentityError, OSError):  # a file that cannot be read is an error of its row
            return ""
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def _settings(self, settings: Settings) -> Any:
        convention = str(settings.convention)
        rules = self._sources.of_file(Path(convention)) if convention.endswith(".toml") else ""
        options = self._value({**settings.options, "mode": settings.mode})
        files = (name.partition("@")[2] or name for name in settings.columns)  # of a device or convention, with a dtype
        paths = [file[: file.rindex(".toml") + 5] for file in files if ".toml" in file]
        return [convention, rules, list(settings.columns), *map(self._sources.of_file, map(Path, paths)), options]

    def _model(self, named: NamedModel) -> Any:
        if not isinstance(named.model, (str, PathLike)):
            if named.arguments is None:
                raise NoIdentityError
            return self._value(named.model)
        target = str(named.model)
        if target not in self._targets:
            self._targets[target] = self._target(target)
        return self._targets[target]

    def _target(self, target: str) -> Any:
        if library_target(target) is not None:
            raise NoIdentityError
        if reader_of(target) or is_saved_report(target):
            return [target, self._sources.of_file(Path(target))]
        module, _, name = target.rpartition(":")
        if not module:
            raise NoIdentityError  # it names no model, as its row says
        return [name, self._sources.of_module(module)]

    def _value(self, value: Any) -> Any:
        """Return a value as JSON, which is equal for equal values of the same type.

        Raises:
            NoIdentityError: if it is of a type without such a form.
        """
        if value is None or isinstance(value, (bool, int, float, str)):
            return [type(value).__name__, repr(value)]
        if isinstance(value, Mapping):
            return ["mapping", [[self._value(key), self._value(each)] for key, each in value.items()]]
        if isinstance(value, (Tensor, range, PathLike)) or type(value).__name__ == "dtype":
            return [type(value).__name__, repr(value)]
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
            return [type(value).__name__, [self._value(each) for each in value]]
        if isinstance(value, partial):
            return ["partial", *map(self._value, (value.func, value.args, value.keywords))]
        if inspect.isroutine(value) or inspect.isclass(value):
            return self._function(value)
        return _array(value)

    def _function(self, function: Any) -> Any:
        """Return a function or class by its name, its source with that of its module, and the values it was made with.

        Raises:
            NoIdentityError: if it has no source file, as in a notebook, or belongs to an object.
        """
        if inspect.ismethod(function) and not inspect.isclass(function.__self__):
            raise NoIdentityError
        try:
            source = inspect.getsource(function)
            code_of_file = self._sources.of_source(Path(inspect.getsourcefile(function) or ""))
        except (OSError, TypeError) as error:
            raise NoIdentityError from error
        cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        made_with = [cells, getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)]
        code = getattr(function, "__code__", None)  # differs between two functions on one line
        parts = [function.__qualname__, source, code_of_file, self._value(made_with)]
        return ["function", *parts, code.co_code.hex() if code else ""]


def _array(value: Any) -> Any:
    """Return dtype, shape and values of an array or tensor."""
    if not hasattr(value, "dtype") or not hasattr(value, "__array__"):
        raise NoIdentityError
    try:
        array = value.__array__()
    except (RuntimeError, TypeError, ValueError) as error:  # values on a device, or of a type that numpy lacks
        raise NoIdentityError from error
    if array.size > MOST_ELEMENTS or array.dtype.hasobject:
        raise NoIdentityError
    return [str(value.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]


def _versions() -> list[str]:
    """Return the versions of costcore, of the frameworks that are installed, and of plug-ins."""
    versions = [__version__]
    for spec in specs().values():
        try:
            versions.append(f"{spec.framework} {version(spec.framework)}")
        except PackageNotFoundError:
            continue
    plugins = [f"{each.dist.name} {each.dist.version}" for each in entry_points(group="costcore") if each.dist]
    return [*versions, *sorted(plugins)]
