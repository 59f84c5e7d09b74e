"""The frontends that a test run covers: those that COSTCORE_TEST_FRONTENDS requests, else those installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

from costcore.registry.frontends import specs

VARIABLE = "COSTCORE_TEST_FRONTENDS"
"""Names of frontends, separated by commas; a requested frontend that is missing is a failure, never a skip."""


def requested() -> tuple[str, ...]:
    """Return the frontends that this run must test."""
    return tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


def installed(name: str) -> bool:
    """Return True if the framework of the frontend ``name`` is installed; does not import it."""
    return name in specs() and find_spec(specs()[name].framework) is not None


def available() -> tuple[str, ...]:
    """Return the frontends to test: those requested, else those whose framework is installed."""
    return requested() or tuple(name for name in specs() if installed(name))


def missing() -> tuple[str, ...]:
    """Return the requested frontends that cannot be tested here."""
    return tuple(name for name in requested() if not installed(name))
