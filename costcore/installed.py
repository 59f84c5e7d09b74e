"""The entry points of installed packages, without reading those of every package if none has any for a group."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_SUFFIXES = (".dist-info", ".egg-info")
"""How the names of the folders end that describe installed packages."""


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group, as ``importlib.metadata`` does.

    That imports dozens of modules and parses a file of every installed package, so these are first searched for the
    name of the group. Packages in archives, and those that other finders know, are left to it.
    """
    if not _may_have(group):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_have(group: str) -> bool:
    """Return False only if no installed package has entry points of a group."""
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_distributions"))
    return any(finder is not PathFinder for finder in finders) or any(_is_named_in(group, path) for path in sys.path)


def _is_named_in(group: str, path: str) -> bool:
    """Return whether a package of a folder may have entry points of a group; True for anything but a folder."""
    if os.fspath(path).lower().endswith(".egg"):
        return True
    section = f"[{group}]".encode()
    try:
        with os.scandir(path or ".") as entries:
            folders = [entry.path for entry in entries if entry.name.lower().endswith(_SUFFIXES)]
    except NotADirectoryError:
        return True
    except OSError:  # it is missing, or may not be read
        return False
    return any(section in _entry_point_file(folder) for folder in folders)


def _entry_point_file(folder: str) -> bytes:
    try:
        return Path(folder, "entry_points.txt").read_bytes()
    except OSError:  # few packages have one
        return b""
