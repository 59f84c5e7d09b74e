"""Code of the user: where it is looked for, how it is imported, and what its errors say."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from costcore.errors import CostError
from costcore.registry.frontends import reader_of
from costcore.registry.libraries import is_saved_report, library_target


def runs_code(model: object) -> bool:
    """Return whether a model is code of the user, an object or ``module:factory``, and not a file or a library's."""
    if not isinstance(model, str):
        return not isinstance(model, os.PathLike)
    return not (library_target(model) or is_saved_report(model) or reader_of(model))


@contextmanager
def module_search_path(folders: Sequence[str], target: object) -> Iterator[None]:
    """Add ``folders`` to the module search path, and the current folder too if ``target`` names Python code.

    For a file, or a model that a library makes of its configuration, the current folder is not added.
    """
    path = sys.path
    sys.path = [*folders, *([""] if isinstance(target, str) and runs_code(target) else []), *path]
    try:
        yield
    finally:
        sys.path = path


def run_user_code(problem: str, action: Any, near: str = "") -> Any:
    """Run code of the user, and turn any exception into a ``CostError`` with the location of the failure.

    ``near`` ends the message if a module is not found.
    """
    try:
        return action()
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = next((f for f in reversed(frames) if f.filename != __file__ and "importlib" not in f.filename), None)
        message = f"{problem}: {type(error).__name__}: {error}"
        if last:
            message += f" at {last.filename}:{last.lineno}"
        if isinstance(error, ModuleNotFoundError):
            message += ". Use --python-path DIR to search for modules in DIR as well as in the current folder" + (
                near or "."
            )
        raise CostError(message) from error


_imported_files: dict[tuple[Path, int, int], ModuleType] = {}
"""Imported source files by path, time of modification and size, so that a file with several models is run once."""


def import_source(source: str) -> ModuleType:
    """Return the module that ``source`` names, ``package.module`` or ``file.py``, whose code is run.

    Raises:
        ImportError: if it is not found; also whatever its code raises.
    """
    if not source.endswith(".py"):
        return import_module(source)
    path = Path(source)
    stat = path.stat()
    key = path.resolve(), stat.st_mtime_ns, stat.st_size
    if key in _imported_files:
        return _imported_files[key]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    _imported_files[key] = module
    return module
