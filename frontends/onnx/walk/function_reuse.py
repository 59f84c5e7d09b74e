"""Equal calls of the model's functions, walked once: a few functions that call each other twice are 2**30 nodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from costcore.dims import Dim
from costcore.trace.call import Call

from ..graph.node import Node
from ..graph.scope import Place
from ..values.value import Value, seen


class Repeats:
    """What every walked call of a function recorded, so that an equal one need only be added."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[dict[int, tuple[Call, Dim]], list[Value | None]]] = {}
        self._open: list[dict[int, tuple[Call, Dim]]] = [{}]

    def again(self, node: Node, given: Mapping[str, Any], place: Place) -> list[Value | None] | None:
        """The outputs of a call that equals one before, which is counted once more; None for a new one."""
        found = self._known.get(_key(node, given, place))
        if found is None:
            return None
        recorded, outputs = found
        for call, times in recorded.values():
            call.times = call.times + times
        self._add(recorded)
        return [None if value is None else replace(value, identity=0) for value in outputs]

    def enter(self) -> None:
        """Walk a new call from here on."""
        self._open.append({})

    def count(self, call: Call) -> None:
        """A node was recorded."""
        self._add({id(call): (call, call.times)})

    def leave(self, node: Node, given: Mapping[str, Any], place: Place, outputs: list[Value | None]) -> None:
        """The call that was entered last is walked."""
        recorded = self._open.pop()
        self._known[_key(node, given, place)] = recorded, outputs
        self._add(recorded)

    def _add(self, recorded: dict[int, tuple[Call, Dim]]) -> None:
        around = self._open[-1]
        for key, (call, times) in recorded.items():
            before = around.get(key)
            around[key] = call, times if before is None else before[1] + times


def _key(node: Node, given: Mapping[str, Any], place: Place) -> Hashable:
    attributes = tuple(sorted((name, a.SerializeToString(deterministic=True)) for name, a in given.items()))
    return node.key, place.times, attributes, tuple(map(_signature, node.inputs))


def _signature(value: Value | None) -> Hashable:
    if value is None:
        return None
    return seen(value), id(value.stored) if value.stored is not None else 0, value.shape is None and id(value)
