"""The module tree of a model, rebuilt from what its nodes and stored tensors say of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from costcore.numbers.dims import Dim
from costcore.trace.call import Module

DEEPEST_MODULE = 100
"""The most modules inside each other that names of a file make."""


class Stored(Protocol):
    """A tensor that the file stores."""

    @property
    def size(self) -> Dim:
        """The number of its elements."""

    @property
    def is_parameter(self) -> bool:
        """Whether it is learned."""

    @property
    def is_state(self) -> bool:
        """Whether the model holds it without learning it, as running statistics."""


S = TypeVar("S", bound=Stored)


class ModuleTree(Generic[S]):
    """The modules of one model. Nodes are added in the order they run in.

    Args:
        owner: returns the module in the name of a stored tensor, ``""`` if it has none.
    """

    def __init__(self, owner: Callable[[S], str] = lambda _: "") -> None:
        self._owner = owner
        self._types: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self._readers: dict[S, dict[str, None]] = {}

    def enter(self, path: str, kind: str = "") -> None:
        """Add the module of that path, of class ``kind`` if that is known."""
        if not self._types.get(path):
            self._types[path] = kind

    def enter_within(self, path: str) -> str:
        """Add the module of that path after the modules around it; return its path, shortened if it is too deep."""
        if path and path not in self._types:
            parts = path.split(".")[:DEEPEST_MODULE]
            for end in range(1, len(parts) + 1):
                path = ".".join(parts[:end])
                self.enter(path)
        return path

    def knows(self, path: str) -> bool:
        """Return whether the class of a module is known."""
        return bool(self._types.get(path))

    def read(self, path: str, stored: Iterable[S]) -> None:
        """Note that a node of the module reads stored tensors, and add the module."""
        for tensor in stored:
            owner = self._owner(tensor)
            if owner:
                self._owners.setdefault(owner, path)
            self._readers.setdefault(tensor, {})[path] = None
        if path and path not in self._types:
            self.enter(path)

    def readers(self, tensor: S) -> Iterable[str]:
        """Return the modules that have read a stored tensor so far."""
        return self._readers.get(tensor, ())

    def tree(self, stored: Iterable[S], identify: Callable[[S], int]) -> dict[str, Module]:
        """Return the modules by path; empty if no node has a module.

        A stored tensor belongs to the module in its name and, if that reads it, to other modules that read it; one
        without a module in its name belongs to all modules that read it.

        Args:
            stored: the stored tensors of the model.
            identify: returns the id of a learned parameter.
        """
        if not self._types:
            return {}
        types = self._in_order()
        parameters: dict[str, list[int]] = {path: [] for path in types}
        buffers: dict[str, Dim] = dict.fromkeys(types, 0)
        for tensor in stored:
            holders = self._holders(tensor)
            if tensor.is_parameter:
                for path in holders:
                    parameters.setdefault(path, []).append(identify(tensor))
            elif tensor.is_state:
                buffers[holders[0]] = buffers.get(holders[0], 0) + tensor.size
        return {
            path: Module(types.get(path, ""), tuple(parameters.get(path, ())), buffers=buffers.get(path, 0))
            for path in {**types, **parameters, **buffers}
        }

    def _in_order(self) -> dict[str, str]:
        """Return classes by path; a module known only by its tensors comes before the first module that reads them."""
        types: dict[str, str] = {"": ""}
        before: dict[str, list[str]] = {}
        for owner, reader in self._owners.items():
            if owner not in self._types:
                before.setdefault(reader, []).append(owner)
        for path, kind in {**types, **self._types}.items():
            types.update(dict.fromkeys(before.get(path, ()), ""))
            types[path] = kind
        return types

    def _holders(self, tensor: S) -> list[str]:
        """Return the modules that hold a tensor."""
        owner, readers = self._owner(tensor), self._readers.get(tensor, {})
        if not owner:
            return [*readers] or [""]
        if owner not in readers:
            return [owner]
        return [owner, *(path for path in readers if not _are_nested(path, owner))]


def _are_nested(a: str, b: str) -> bool:
    """Return True if one of two modules is the other, or is inside it."""
    return f"{a}.".startswith(f"{b}." if b else "") or f"{b}.".startswith(f"{a}." if a else "")
