"""Branches of Python code that data decides: which side a run takes, and which branches it met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from costcore.errors import CostError
from costcore.trace.source import user_frames

from .data_dependent import CONDITION_IS_TRUE, NUMBERS_ARE_ONE

CONDITION_IS_FALSE = (
    "data-dependent branch: condition assumed False, the more expensive side, because meta tensors hold no values"
)

NUMBERS_ARE_ZERO = "a random number was taken as 0, which makes the pass more expensive"

MAX_READS = 1000
"""How often a run reads the condition of a branch whose other side is tried: more seem to be an endless loop."""

_BETWEEN = ("torch._tensor", "torch.overrides", "torch.utils._device")
"""Modules that pass a call on to the operator."""

Branch: TypeAlias = "tuple[object, int, str | None]"
"""The code that reads a condition, the position in it, and the path of the module; None for every module."""


class EndlessLoopError(CostError):
    """A run on the other side of a branch that does not end."""


class Branches:
    """The branches of one run.

    Args:
        sides: the sides that the run takes, by branch; True for all others.

    Attributes:
        met: how often the condition of each branch, or a number, was read, in the order in which they were met.
    """

    def __init__(self, sides: Mapping[Branch, bool]) -> None:
        self.sides = sides
        self.met: Counter[Branch] = Counter()

    def decide(self, path: str) -> tuple[bool, str]:
        """Return the value of the condition that is read now, and what it assumes.

        Args:
            path: the path of the module that runs.

        Raises:
            EndlessLoopError: if a condition is read too often in a run on another side.
        """
        side = self._side(path)
        return side, CONDITION_IS_TRUE if side else CONDITION_IS_FALSE

    def decide_number(self, path: str) -> tuple[int, str]:
        """Return the random number that is read now, on which a branch may depend, and what it assumes.

        Args:
            path: the path of the module that runs.

        Raises:
            EndlessLoopError: if a number is read too often in a run on another side.
        """
        return (1, NUMBERS_ARE_ONE) if self._side(path) else (0, NUMBERS_ARE_ZERO)

    def _side(self, path: str) -> bool:
        found = next((x for x, _ in user_frames() if x.f_globals.get("__name__") not in _BETWEEN), None)
        code, position = (None, 0) if found is None else (found.f_code, found.f_lasti)
        branch: Branch = (code, position, path)
        self.met[branch] += 1
        if self.sides and self.met[branch] > MAX_READS:
            raise EndlessLoopError(f"module {path!r}: a loop does not end on the other side of a branch")
        return self.sides.get(branch, self.sides.get((code, position, None), True))
