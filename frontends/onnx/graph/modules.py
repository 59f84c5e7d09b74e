"""The module tree of a model, rebuilt from names and metadata of its nodes and initializers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from costcore.trace.call import Module

from ..reading.exporter_metadata import classes, has_folded_norm, scopes
from ..values.value import StoredTensor

_REPEATED = re.compile(r"(/.+)_\d+$")


class Modules:
    """The modules of one model. Nodes are added in the order they run in."""

    def __init__(self) -> None:
        self._types: dict[str, str] = {}
        self._is_found = False
        self._by_scope: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        self._readers: dict[StoredTensor, dict[str, None]] = {}

    def enter(self, path: str, kind: str = "") -> None:
        """Add the module of that path, of class ``kind`` if that is known."""
        if not self._types.get(path):
            self._types[path] = kind
        self._is_found = True

    def around(self, node: Any, outer: str, read: Sequence[StoredTensor] = ()) -> str:
        """Return the path of the module around a node (``NodeProto``), ``layer1.0.conv1``; ``""`` if unknown.

        Args:
            node: the node.
            outer: path of the module around the function it is in.
            read: the stored tensors it reads.
        """
        listed = scopes(node) if node.metadata_props else None
        kinds = classes(node) if listed else []
        if listed and has_folded_norm(node) and (owner := next(filter(None, map(_owner, read)), "")):
            listed, kinds = [*listed[:-1], owner], kinds[:-1]
        if listed is None:
            inner = self._of_name(node.name, read)
            path = f"{outer}.{inner}" if outer and inner else outer or inner
        else:
            path = (listed[-1] if listed else "") or outer
        for stored in read:
            owner = named_owner(stored.name)
            if owner:
                self._owners.setdefault(owner, path)
            self._readers.setdefault(stored, {})[path] = None
        if listed and not self._types.get(path):
            for scope, kind in zip(listed, kinds, strict=False):
                self.enter(scope, kind.rpartition(".")[2])
        if path and path not in self._types:
            self.enter(path)
        return path

    def of_call(self, node: Any, outer: str) -> str:
        """Return the path of a call of a model function; without metadata the function counts as a module."""
        if node.metadata_props and scopes(node) is not None:
            return self.around(node, outer)
        path = ".".join(filter(None, (outer, (node.name or node.op_type).strip("/").replace("/", "."))))
        self.enter(path, node.op_type)
        return path

    def _of_name(self, name: str, read: Iterable[StoredTensor]) -> str:
        """Return the path in the name of a node, ``/layer1/layer1.0/conv1/Conv``."""
        scope = name.rpartition("/")[0]
        path = self._by_scope.get(scope)
        if path is None:
            path = self._by_scope[scope] = self._of_scope(scope, read)
        return path

    def _of_scope(self, scope: str, read: Iterable[StoredTensor]) -> str:
        """Return the path of a scope; the TorchScript exporter writes ``act_1`` if the module ``act`` runs again."""
        again = _REPEATED.match(scope)
        before = self._by_scope.get(again[1]) if again else None
        weights = (stored for stored in read if "param" in stored.uses)
        if before is not None and all(before in self._readers.get(stored, ()) for stored in weights):
            return before
        return _path(scope)

    def tree(self, stored: Iterable[StoredTensor], identify: Callable[[StoredTensor], int]) -> dict[str, Module]:
        """Return the modules by path; empty if no node has a module.

        A stored tensor belongs to the module in its name and to other modules that read it; one without a module in
        its name belongs to all modules that read it.

        Args:
            stored: the stored tensors of the model.
            identify: returns the id of a learned parameter.
        """
        if not self._is_found:
            return {}
        types = self._in_order()
        parameters: dict[str, list[int]] = {path: [] for path in types}
        buffers = dict.fromkeys(types, 0)
        for tensor in stored:
            holders = self._holders(tensor)
            if tensor.is_parameter:
                for path in holders:
                    parameters.setdefault(path, []).append(identify(tensor))
            elif tensor.is_buffer or "state" in tensor.uses:
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

    def _holders(self, tensor: StoredTensor) -> list[str]:
        """Return the modules that hold a tensor."""
        owner, readers = named_owner(tensor.name), self._readers.get(tensor, {})
        if not owner:
            return [*readers] or [""]
        if owner not in readers:
            return [owner]
        return [owner, *(path for path in readers if not _are_nested(path, owner))]


def named_owner(name: str) -> str:
    """Return the module in the name of a stored tensor, ``layer1.0.conv1`` for ``layer1.0.conv1.weight``, or ``""``.

    Names with slashes or colons have none.
    """
    owner = name.rpartition(".")[0]
    return "" if "/" in name or ":" in name or not all(owner.split(".")) else owner


def _owner(stored: StoredTensor) -> str:
    return named_owner(stored.name)


def _are_nested(a: str, b: str) -> bool:
    """Return True if one of two modules is the other, or is inside it."""
    return f"{a}.".startswith(f"{b}." if b else "") or f"{b}.".startswith(f"{a}." if a else "")


def _path(scope: str) -> str:
    """Return a scope as a path: PyTorch repeats the name of a Sequential in its children, ``/layer1/layer1.0``."""
    parts: list[str] = []
    for part in filter(None, scope.split("/")):
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part
        else:
            parts.append(part)
    return ".".join(parts)
