"""The frontends that a test run covers: those that COSTCORE_TEST_FRONTENDS requests, else those installed."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.registered import specs

VARIABLE = "COSTCORE_TEST_FRONTENDS"
"""Names of frontends, separated by commas; a requested frontend that is missing is a failure, never a skip."""


def requested() -> tuple[str, ...]:
    """Return the frontends that this run must test."""
    return tuple(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


def installed(name: str) -> bool:
    """Return True if the framework of the frontend ``name`` is installed; does not import it."""
    return name in specs() and find_spec(specs()[name].framework) is not None


def available() -> tuple[str, ...]:
    """Return the frontends to test: those requested, else those whose framework is installed.

    One that only reads recorded files (``reads``), or whose models another one runs (``is_run``), has no operators.
    """
    own = [name for name, spec in specs().items() if spec.reads is None and not spec.is_run]
    return requested() or tuple(name for name in own if installed(name))


def optional(module: str) -> Any:
    """Return a module of an optional package; if it is missing, a run that requests frontends fails, others skip."""
    return import_module(module) if requested() else pytest.importorskip(module)


def with_chainer() -> Any:
    """Return Chainer, imported by its frontend, which makes it run on today's numpy."""
    optional("costcore.frontends.chainer")
    return optional("chainer")


def missing() -> tuple[str, ...]:
    """Return the requested frontends that cannot be tested here."""
    return tuple(name for name in requested() if not installed(name))
