"""Values whose memory a later call wrote over under another name, as ``buffer[0] = x`` does."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.trace.call import Call


class Overwrites:
    """The memory of the calls so far: who wrote over it last, and which value has the result.

    Storage ids identify memory. ``x.add_(1)`` gives a new value in the memory of x, and calls that read x afterwards
    read this value. After ``x[0].add_(1)`` they read x itself, which no call produced as it then is.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._last: dict[int, tuple[int, int]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no call wrote over anything."""
        return not self._last

    def writer(self, storage: int, value: int) -> int | None:
        """Return the position of the call that wrote over the memory of a value after it was produced; None if none."""
        last = self._last.get(storage)
        return None if last is None or last[1] == value else last[0]

    def note(self, position: int, call: Call, values: Mapping[int, int]) -> list[int]:
        """Note what a call reads, and where it writes over memory; return the calls that wrote over it before.

        Args:
            position: the position of the call.
            call: the call; its outputs have memory of their own unless it writes over something.
            values: the value that an operand id is another name of.
        """
        count, before = len(call.inputs), []
        self._known.update(call.storages[:count])
        for identity, storage in zip(call.outputs, call.storages[count:], strict=False):
            if storage in self._known and storage:
                before += [self._last[storage][0]] if storage in self._last else []
                self._last[storage] = position, values.get(identity, identity)
        self._known.update(call.storages[count:])
        return before
