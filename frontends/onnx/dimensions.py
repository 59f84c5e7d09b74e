"""Named dimensions: numbers the caller gave, or symbols."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from costcore.dims import Dim, as_dim
from costcore.errors import CostError


class Dimensions:
    """The dimensions of one run by name.

    Args:
        given: numbers (or expressions) for names, as the caller gave them.

    Raises:
        TypeError: where a name is given something that is no integer.
    """

    def __init__(self, given: Mapping[str, Any] | None) -> None:
        self._given = {name: as_dim(number) for name, number in (given or {}).items()}
        for name, number in self._given.items():
            if isinstance(number, int) and number < 0:
                raise CostError(f"dims gives {name!r} the negative length {number}")
        self._known: dict[str, Dim] = {}

    def __call__(self, name: str) -> Dim:
        """The dimension of that name.

        Raises:
            CostError: where the name is no text.
        """
        if not isinstance(name, str):
            raise CostError(f"a dimension has the name {name!r}, which is no text")
        if name not in self._known:
            self._known[name] = self._given[name] if name in self._given else _symbol(name)
        return self._known[name]

    def bind(self, name: str, number: Dim, where: str) -> None:
        """Say what a name stands for, from the shape the caller gave an input.

        Raises:
            CostError: where it stands for something else already.
        """
        known = self._known.get(name, self._given.get(name, number))
        if known != number:
            raise CostError(f"{where}: dimension {name!r} is {known} elsewhere, and {number} here")
        self._known[name] = number

    def check(self) -> None:
        """Refuse names that the model does not have.

        Raises:
            CostError: naming those it has.
        """
        for name in self._given:
            if name not in self._known:
                near = get_close_matches(name, self._known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise CostError(f"dims names {name!r}, but the model's dimensions are {sorted(self._known)[:20]}{hint}")


def _symbol(name: str) -> Dim:
    from sympy import Symbol

    return Symbol(name, integer=True, positive=True)
