"""A pause of the garbage collector while many objects are created."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from costcore.trace.interrupts import WholeEnds

LEAST_FROZEN = 1000
"""The least number of objects that ``gc.freeze`` freezes. Python 3.12 itself freezes some hundreds when it starts."""


@contextmanager
def collector_off() -> Iterator[None]:
    """Disable the garbage collector while many long-lived objects are created, as its repeated scans would be slow.

    Objects of modules that were imported meanwhile live as long as the process: they are never scanned as new ones.
    """
    with WholeEnds(_collector_off()):
        yield


@contextmanager
def _collector_off() -> Iterator[None]:
    was_on = gc.isenabled()
    n_modules = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > n_modules:
            _move_to_oldest_generation()
        if was_on:
            gc.enable()


def _move_to_oldest_generation() -> None:
    """Move all objects into the oldest generation, without a scan, unless the user has frozen objects."""
    if gc.get_freeze_count() < LEAST_FROZEN:
        gc.freeze()
        gc.unfreeze()
