"""Equal calls of a model function, walked once and multiplied: a few functions that call each other are 2**30 nodes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from costcore.numbers.dims import Dim
from costcore.trace.call import Call

from ..graph.node import Node
from ..graph.scope import GraphContext
from ..values.value import Value, value_signature


class FunctionCallCache:
    """The calls that every walked function call recorded, so that an equal one only multiplies them."""

    def __init__(self) -> None:
        self._finished: dict[Hashable, tuple[dict[int, tuple[Call, Dim]], list[Value | None]]] = {}
        self._open: list[dict[int, tuple[Call, Dim]]] = [{}]
        self._multiplied: dict[int, tuple[Call, Dim]] = {}

    def replay(self, key: Hashable) -> list[Value | None] | None:
        """Return the outputs of a function call equal to an earlier one and count it again; None for a new one."""
        finished = self._finished.get(key)
        if finished is None:
            return None
        recorded, outputs = finished
        for identity, (call, times) in recorded.items():
            self._multiplied[identity] = call, self.times(call) + times
        self._add(recorded)
        return [None if value is None else replace(value, identity=0) for value in outputs]

    def enter(self) -> None:
        """Start a new function call."""
        self._open.append({})

    def add(self, call: Call) -> None:
        """Note a call that was recorded."""
        self._add({id(call): (call, call.times)})

    def leave(self, key: Hashable, outputs: list[Value | None]) -> None:
        """Finish the function call that was entered last."""
        recorded = self._open.pop()
        self._finished[key] = recorded, outputs
        self._add(recorded)

    def times(self, call: Call) -> Dim:
        """Return how often a call runs, replays included."""
        return self._multiplied.get(id(call), (call, call.times))[1]

    def multiplied(self, call: Call) -> Call:
        """Return the call with replays counted in its ``times``."""
        return call._replace(times=self.times(call)) if id(call) in self._multiplied else call

    def _add(self, recorded: dict[int, tuple[Call, Dim]]) -> None:
        around = self._open[-1]
        for key, (call, times) in recorded.items():
            before = around.get(key)
            around[key] = call, times if before is None else before[1] + times


def function_call_key(node: Node, attributes: Mapping[str, Any], context: GraphContext) -> Hashable:
    """Return what two function calls must have in common to record the same calls."""
    written = tuple(sorted((name, a.SerializeToString(deterministic=True)) for name, a in attributes.items()))
    return node.key, context.times, written, tuple(map(_input_key, node.inputs))


def _input_key(value: Value | None) -> Hashable:
    if value is None:
        return None
    return (
        value_signature(value),
        id(value.stored) if value.stored is not None else 0,
        value.shape is None and id(value),
    )
