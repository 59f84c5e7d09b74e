"""All probes."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from . import kinds
from .probe import Probe

__all__ = ["all_probes", "file_of", "find"]


@cache
def _read() -> tuple[dict[str, Probe], dict[str, str]]:
    found: dict[str, Probe] = {}
    files: dict[str, str] = {}
    for module in sorted(info.name for info in iter_modules(kinds.__path__)):
        for probe in import_module(f"{kinds.__name__}.{module}").PROBES:
            if probe.id in found:
                raise ValueError(f"two probes have the id {probe.id}")
            found[probe.id], files[probe.id] = probe, f"{module}.py"
    return found, files


def all_probes() -> dict[str, Probe]:
    """Return every probe by its id, from the list ``PROBES`` of every file of ``kinds/``.

    Raises:
        ValueError: if two probes have the same id.
    """
    return _read()[0]


def file_of(id: str) -> str:
    """Return the name of the file of ``kinds/`` that has a probe."""
    return _read()[1][id]


def find(id: str) -> Probe:
    """Return the probe with this id.

    Raises:
        ValueError: if there is no such probe; the message lists the probes of its kind.
    """
    probes = all_probes()
    if id not in probes:
        kind = id.partition(".")[0]
        near = [name for name in probes if name.startswith(f"{kind}.")] or sorted({p.kind for p in probes.values()})
        raise ValueError(f"there is no probe {id!r}; expected one of {', '.join(near)}")
    return probes[id]
