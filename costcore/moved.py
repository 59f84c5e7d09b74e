"""Modules by the documented names that they had before; importing one says once what its name is now."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

from costcore.errors import MissingPartError

MOVED = {
    "costcore.dims": "costcore.numbers.dims",
    "costcore.expressions": "costcore.numbers.expressions",
    "costcore.meter.rates": "costcore.studies.meter.rates",
    "costcore.symbolic": "costcore.numbers.symbolic",
}
"""The names of today by the former ones, which the documentation named; they work until version 0.3."""

PARTS = ("costcore.analyses.", "costcore.studies.")
"""What analyses and studies begin with; all else works without any one of them."""


class Alias(Loader):
    """Loads a module that has another name now: it is the same module under both.

    Args:
        name: the name of today.
    """

    def __init__(self, name: str) -> None:
        self._module = import_module(name)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Restore what the import system set of the module, which has run."""
        module.__spec__ = self._spec


def spec_of(name: str) -> ModuleSpec | None:
    """Return how to import a module by a former name, or a folder of such names; None if it is neither.

    Raises:
        MissingPartError: if it is a folder of analyses or studies that is not there.
    """
    if any(former.startswith(f"{name}.") for former in MOVED):
        return ModuleSpec(name, None, is_package=True)
    if name.count(".") == 2 and name.startswith(PARTS):
        raise MissingPartError(name)
    if name not in MOVED:
        return None
    now = MOVED[name]
    warnings.warn(f"{name} is now {now}; the old name works until version 0.3", DeprecationWarning, stacklevel=3)
    return ModuleSpec(name, Alias(now))
