"""Meshes of devices that do not exist."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from costcore.frontends.pytorch.parallel.plan import simulated_mesh as _simulated_mesh


def simulated_mesh(sizes: dict[str, int], rank: int = 0) -> AbstractContextManager[Any]:
    """Return a mesh of simulated processes, of which this one is ``rank``."""
    return _simulated_mesh(sizes, rank)
