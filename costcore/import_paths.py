"""What is found by its name: an attribute by its import path, and the files below a package that state something."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def imported(path: str) -> Any:
    """Return what an import path names, an attribute of a module: ``package.module:name`` or ``package.module:A.b``.

    Raises:
        ImportError, AttributeError: if there is no such module or attribute.
    """
    module, _, names = path.partition(":")
    return reduce(getattr, names.split("."), import_module(module))


def modules_with(name: str, package: str, first: Sequence[str] = ()) -> tuple[ModuleType, ...]:
    """Return the modules of a package, and of folders in it, that define ``name``, such as ``ROWS``, by their names.

    A new file is found without being listed. The module that asks does not define the name yet.

    Args:
        name: the name.
        package: the package as it is imported.
        first: the names of modules in it that come before the others.
    """
    folder = Path(import_module(package).__path__[0])
    files = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py") if path.stem != "__init__")
    names = [".".join(file.parts) for file in files]
    modules = (import_module(f"{package}.{each}") for each in [*first, *sorted({*names}.difference(first))])
    return tuple(module for module in modules if hasattr(module, name))
