"""Import paths, ``package.module:name``: what is registered by its path is imported when it is used."""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from typing import Any


def imported(path: str) -> Any:
    """Return what an import path names, an attribute of a module: ``package.module:name`` or ``package.module:A.b``.

    Raises:
        ImportError, AttributeError: if there is no such module or attribute.
    """
    module, _, names = path.partition(":")
    return reduce(getattr, names.split("."), import_module(module))
