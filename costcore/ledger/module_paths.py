"""Paths of modules: names joined by dots, ``layer1.0.conv``, or by slashes if a path starts with one."""

from __future__ import annotations

from collections.abc import Iterable


def parent_of(path: str) -> str:
    """Return the path of the parent module; the separator is a slash if the path starts with one, else a dot."""
    return path.rpartition("/" if path.startswith("/") else ".")[0]


def path_and_parents(path: str) -> list[str]:
    """Return the path and the paths of its parents, outermost first; empty for the root module (the empty path)."""
    paths = []
    while path:
        paths.append(path)
        path = parent_of(path)
    return paths[::-1]


def deepest_that_fit(paths: Iterable[str], most: int) -> list[str]:
    """Return the modules of the deepest level of which all fit, with those above it that contain no other."""
    depths = {path: len(path_and_parents(path)) for path in paths}
    parents = {parent for path in depths for parent in path_and_parents(path)[:-1]}
    shown: list[str] = []
    for level in sorted(set(depths.values())):
        found = [path for path, own in depths.items() if own == level or (own < level and path not in parents)]
        if shown and len(found) > most:
            break
        shown = found
    return shown


def names_along(path: str) -> list[str]:
    """Return the names of the modules along a path, outermost first, each without the path of its parent."""
    return [below(parent_of(part), part) or part for part in path_and_parents(path)]


def below(parent: str, path: str) -> str:
    """Return ``path`` relative to ``parent``; the module's own name if ``parent`` is its direct parent."""
    return path[len(parent) :].lstrip("./")
