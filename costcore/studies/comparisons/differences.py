"""The change of one cost, and the differences between two matching calls."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.symbolic import share
from costcore.studies.comparisons.matching import Entry
from costcore.tables.costs import AMOUNTS

COMPARED = tuple(name for name in AMOUNTS if name != "mrw")
"""The costs that are always compared; ``mcomm`` only if a run communicates."""


class Delta(NamedTuple):
    """A cost before and after."""

    old: Dim
    new: Dim

    @property
    def difference(self) -> Dim:
        """New minus old, exact."""
        return self.new - self.old

    @property
    def ratio(self) -> float | None:
        """New divided by old; None if old is 0, or if the ratio depends on the values of symbolic dimensions."""
        return None if self.old == 0 else share(self.new, self.old)

    @property
    def equal(self) -> bool:
        """Whether nothing changed."""
        difference = self.difference
        return bool((cast(Any, difference).expand() if is_symbolic(difference) else difference) == 0)


class Difference(NamedTuple):
    """A call that was added, removed or changed.

    Attributes:
        change: ``added``, ``removed`` or ``changed``.
        old: its entry in the old ``layer_report``; None if it was added.
        new: its entry in the new ``layer_report``; None if it was removed.
        compared: the names of the costs that are compared.
    """

    change: str
    old: Entry | None
    new: Entry | None
    compared: tuple[str, ...] = COMPARED

    @property
    def entry(self) -> Entry:
        """The new entry, or the old one if the call was removed."""
        entry = self.new if self.new is not None else self.old
        return entry if entry is not None else {}

    @property
    def costs(self) -> dict[str, Delta]:
        """The costs that differ, by name."""
        deltas = {key: Delta(_cost(self.old, key), _cost(self.new, key)) for key in self.compared}
        return {key: delta for key, delta in deltas.items() if not delta.equal}

    @property
    def settings(self) -> dict[str, tuple[Any, Any]]:
        """Operator, dtype, shapes and attributes that differ in a changed call: old and new value by name."""
        if self.old is None or self.new is None:
            return {}
        changed = {}
        for key in ("op", "dtype", "input_shapes", "output_shapes"):
            if self.old[key] != self.new[key]:
                changed[key] = (self.old[key], self.new[key])
        old, new = self.old["params"], self.new["params"]
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                changed[key] = (old.get(key), new.get(key))
        return changed


class BlockDelta(NamedTuple):
    """The blocks of one kind, module and name (or operator, if they have no name) in two runs.

    Attributes:
        kind: their kind.
        module: path of the module that made or owns them, in the new report.
        what: the name of a parameter, its gradient or its state, else the operator that made them.
        n_blocks: how many there are.
        nbytes: the sum of their sizes.
    """

    kind: str
    module: str
    what: str
    n_blocks: Delta
    nbytes: Delta

    @property
    def change(self) -> str:
        """``added``, ``removed`` or ``changed``."""
        return "added" if self.n_blocks.old == 0 else "removed" if self.n_blocks.new == 0 else "changed"


def _cost(entry: Entry | None, key: str) -> Dim:
    return 0 if entry is None else entry.get(key) or 0
