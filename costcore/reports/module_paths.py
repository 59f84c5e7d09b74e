"""Paths of modules: ``layer1.0.conv`` (PyTorch), ``/block/conv`` (Chainer, ONNX scopes)."""

from __future__ import annotations


def path_and_parents(path: str) -> list[str]:
    """The path with every module around it, outermost first; nothing for the root, which is the empty path."""
    found = []
    while path:
        found.append(path)
        path = parent_of(path)
    return found[::-1]


def names_along(path: str) -> list[str]:
    """The names of the modules from the outermost to the path's own, each without those around it."""
    return [part[len(parent_of(part)) :].lstrip("./") or part for part in path_and_parents(path)]


def parent_of(path: str) -> str:
    """The path of the module around; parts are joined by dots, or by slashes where the path starts with one."""
    return path.rpartition("/" if path.startswith("/") else ".")[0]
