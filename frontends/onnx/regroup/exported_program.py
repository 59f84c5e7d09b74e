"""The user's program, as far as PyTorch's newer exporter notes for which of its operations it wrote each node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, TypeAlias

DEEPEST = 16
"""Parts of parts are followed so far."""

_CALL = re.compile(
    r"%(\w+) : \[[^\]]*\] = call_function\[target=torch\.ops\.aten\.(\w+)\.\w+\]\(args = \((.*)\), kwargs = "
)

OVERWRITES = {"slice_scatter": "slice", "select_scatter": "select"}
"""What replaces a part of a tensor, and what takes such a part."""

WRITES = ("copy", "fill")

Place: TypeAlias = "tuple[str, tuple[tuple[str, ...], ...]]"
"""A tensor, and which part of which part of it."""


class Operation(NamedTuple):
    """An operation as notes tell it: what it makes (``%slice_1``), its name (``slice``) and arguments, all as text."""

    result: str
    name: str
    args: tuple[str, ...]


def operation(origin: str) -> Operation | None:
    """The operation that is noted at a node; None where the note is another one."""
    found = _CALL.match(origin)
    return None if found is None else Operation(f"%{found[1]}", found[2], tuple(found[3].split(", ")))


class Program:
    """Operations by what they make.

    Exporting leaves no assignment to a part of a tensor. The part is taken, copied to or filled, and what that makes is
    scattered into the tensor, at the same place. No other program looks like this: had it copied to a part or filled
    one by itself, it would have assigned to the tensor.

    Args:
        origins: the notes of all nodes.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._operations: dict[str, Operation | None] = {}
        for found in filter(None, map(operation, dict.fromkeys(origins))):
            self._operations[found.result] = None if found.result in self._operations else found

    def is_assigned(self, result: str) -> bool:
        """Whether an operation that overwrites a part of a tensor was an assignment to that part."""
        place: Place | None = None
        for _ in range(DEEPEST):
            made = self._operations.get(result)
            if made is None:
                break
            if made.name in WRITES:
                return self._place(made.args[0]) == place
            if made.name not in OVERWRITES or len(made.args) < 2:
                break
            base, parts = self._place(made.args[0])
            if place not in (None, (base, parts)):
                break
            place = base, (*parts, (OVERWRITES[made.name], *made.args[2:]))
            result = made.args[1]
        return False

    @cached_property
    def assigned_to(self) -> frozenset[str]:
        """What is assigned to in parts."""
        overwrites = (made for made in self._operations.values() if made is not None and made.name in OVERWRITES)
        return frozenset(made.args[0] for made in overwrites if self.is_assigned(made.result))

    def _place(self, result: str) -> Place:
        parts: list[tuple[str, ...]] = []
        made = self._operations.get(result)
        while made is not None and made.name in OVERWRITES.values() and len(parts) < DEEPEST:
            parts.append((made.name, *made.args[1:]))
            result = made.args[0]
            made = self._operations.get(result)
        return result, tuple(reversed(parts))
