"""Paths of modules: names joined by dots, ``layer1.0.conv``, or by slashes if a path starts with one."""

from __future__ import annotations


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


def names_along(path: str) -> list[str]:
    """Return the names of the modules along a path, outermost first, each without the path of its parent."""
    return [below(parent_of(part), part) or part for part in path_and_parents(path)]


def below(parent: str, path: str) -> str:
    """Return ``path`` relative to ``parent``; the module's own name if ``parent`` is its direct parent."""
    return path[len(parent) :].lstrip("./")
