"""What a model can change for all models that run after it in the same process."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from costcore.errors import CostError
from costcore.registry.frontends import ability, loaded, specs


class ProcessState(NamedTuple):
    """The state of this process at one time.

    Attributes:
        folder: the current folder; empty if it was removed.
        environment: the environment variables.
        path: where modules are searched.
        settings: the settings of each framework that is imported.
    """

    folder: str
    environment: Mapping[str, str]
    path: tuple[str, ...]
    settings: Mapping[str, object]

    @classmethod
    def now(cls) -> ProcessState:
        """Return the present state."""
        folder = ""
        with suppress(OSError):
            folder = str(Path.cwd())
        return cls(folder, dict(os.environ), tuple(sys.path), {name: _settings_of(name) for name in loaded()})

    def is_changed(self) -> bool:
        """Return whether anything of this state is different now; what was added since changes nothing for others."""
        now = ProcessState.now()
        return (
            now.folder != self.folder
            or not set(self.path) <= set(now.path)
            or any(now.environment.get(name) != value for name, value in self.environment.items())
            or any(now.settings.get(name) != value for name, value in self.settings.items())
        )


def _settings_of(name: str) -> object:
    """Return what a frontend says of the settings of its framework; None if it knows none."""
    with suppress(CostError):
        settings = ability(specs()[name], "process_settings")
        return None if settings is None else settings()
    return None
