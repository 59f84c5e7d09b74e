"""The user's program, rebuilt from the operation that ``torch.export``-based exporters write into each node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, TypeAlias

DEEPEST = 16
"""How many nested slices are followed."""

_CALL = re.compile(
    r"%(\w+) : \[[^\]]*\] = call_function\[target=torch\.ops\.aten\.(\w+)\.\w+\]\(args = \((.*)\), kwargs = "
)

OVERWRITES = {"slice_scatter": "slice", "select_scatter": "select"}
"""Operations that replace a part of a tensor, and the operation that takes such a part."""

WRITES = ("copy", "fill")

CREATES = {
    **{f"{new}{name}": "full" for new in ("", "new_") for name in ("zeros", "ones", "full")},
    **{f"{name}_like": "full" for name in ("zeros", "ones", "full")},
    "arange": "arange",
    "fill": "full",
}
"""Operations that create a tensor, and the operators that they are."""

_COPY = re.compile(r"%copy(_\d+)?")
"""Results of copies; an exporter that takes a copy for its source writes no node for it, only names it as operand."""

TensorPart: TypeAlias = "tuple[str, tuple[tuple[str, ...], ...]]"
"""A tensor, and the slices that were taken from it one after another."""


class Operation(NamedTuple):
    """An operation of the program: its result (``%slice_1``), its name (``slice``) and arguments, all as text."""

    result: str
    name: str
    args: tuple[str, ...]


def operation(origin: str) -> Operation | None:
    """Return the operation in the metadata of a node; None if it has another form."""
    found = _CALL.match(origin)
    return None if found is None else Operation(f"%{found[1]}", found[2], tuple(found[3].split(", ")))


class Program:
    """Operations by result.

    The exporter replaces an assignment to a part of a tensor: it slices the part, copies to it or fills it, and
    scatters the result into the tensor at the same place. No other program is exported like this. For an update in
    place (``x[1:] += y``), another operation stands for the copy; a program that calls ``slice_scatter`` itself may be
    exported like that too.

    Args:
        origins: the operations in the metadata of all nodes.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._operations: dict[str, Operation | None] = {}
        for found in filter(None, map(operation, dict.fromkeys(origins))):
            self._operations[found.result] = None if found.result in self._operations else found

    def is_assigned(self, result: str, *, updates: bool = False) -> bool:
        """Return True if an operation that overwrites a part of a tensor was an assignment to that part.

        With ``updates``, it may also have been an operation that updates the part in place, or one that reads it.
        """
        target: TensorPart | None = None
        for _ in range(DEEPEST):
            step = self._operations.get(result)
            if step is None:
                is_left_out = result not in self._operations and _COPY.fullmatch(result) is not None
                return is_left_out and target is not None
            if step.name in WRITES or (updates and step.name not in OVERWRITES):
                return self._part(step.args[0]) == target
            if step.name not in OVERWRITES or len(step.args) < 2:
                break
            base, parts = self._part(step.args[0])
            if target not in (None, (base, parts)):
                break
            target = base, (*parts, (OVERWRITES[step.name], *step.args[2:]))
            result = step.args[1]
        return False

    @cached_property
    def assigned_to(self) -> frozenset[str]:
        """The tensors that the program assigns to in parts."""
        overwrites = (step for step in self._operations.values() if step is not None and step.name in OVERWRITES)
        return frozenset(step.args[0] for step in overwrites if self.is_assigned(step.result))

    def _part(self, result: str) -> TensorPart:
        parts: list[tuple[str, ...]] = []
        step = self._operations.get(result)
        while step is not None and step.name in OVERWRITES.values() and len(parts) < DEEPEST:
            parts.append((step.name, *step.args[1:]))
            result = step.args[0]
            step = self._operations.get(result)
        return result, tuple(reversed(parts))
