"""Which frameworks a test run is about: those asked for by COSTCORE_TEST_FRONTENDS, else those installed."""

from __future__ import annotations

import os
from importlib.util import find_spec

from costcore.registry.frontends import specs

VARIABLE = "COSTCORE_TEST_FRONTENDS"
"""Names of frontends, separated by commas; what is asked for and missing is a failure, never a skip."""


def asked() -> tuple[str, ...]:
    """The frontends this run must test."""
    return tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


def installed(name: str) -> bool:
    """Whether the framework of the frontend ``name`` is there; asks without importing it."""
    return name in specs() and find_spec(specs()[name].framework) is not None


def available() -> tuple[str, ...]:
    """The frontends to test: those asked for, else those whose framework is installed."""
    return asked() or tuple(name for name in specs() if installed(name))


def missing() -> tuple[str, ...]:
    """The frontends asked for that cannot be tested here."""
    return tuple(name for name in asked() if not installed(name))
