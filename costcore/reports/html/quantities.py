"""Further quantities on the page: columns of its table and, if they add up, of its charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from costcore.ledger.ledger import Ledger
from costcore.numbers.dims import is_symbolic
from costcore.tables.cells import Cells
from costcore.tables.quantity import Quantity
from costcore.tables.tabulate import cell_text
from costcore.text.escape import printable
from costcore.trace.call import Call

KINDS = {"flops": "flops", "count": "flops", "bytes": "bytes", "duration": "seconds", "seconds": "seconds"}
KINDS |= {"ratio": "intensity", "percent": "intensity"}
"""How the page shows a kind of quantity; all others are text."""

AMOUNTS = ("flops", "bytes")
"""The kinds of the page that are exact numbers, which its charts can show."""


class Added:
    """The quantities that the page shows beside those that every page has.

    Args:
        columns: names of quantities, or quantities.
        known: the names of those that every page has.
        ledger: the ledger of the report.
        exact: returns an exact number as text.

    Raises:
        ValueError, CostError, OSError: if there is no quantity of a name, or if the report does not have it.
    """

    def __init__(
        self,
        columns: Iterable[str | Quantity],
        known: Sequence[str],
        ledger: Ledger,
        exact: Callable[[Any], str | None],
    ) -> None:
        self._ledger, self._exact = ledger, exact
        self._cells = Cells(columns, known, ledger)
        self._quantities = self._cells.quantities
        self._by_call = [
            {} if each.is_of_run_only else {call.name: each.of(ledger, [call]) for call in ledger.calls}
            for each in self._quantities
        ]

    @property
    def keys(self) -> list[str]:
        """The keys of the columns."""
        return [each.name for each in self._quantities]

    @property
    def summed(self) -> list[str]:
        """The keys of the columns whose values add up exactly, which charts show."""
        return [
            each.name
            for each, values in zip(self._quantities, self._by_call, strict=True)
            if each.has_share and KINDS.get(each.kind) in AMOUNTS and None not in values.values()
        ]

    def columns(self) -> list[dict[str, Any]]:
        """Return what the page's script reads of each: key, title, kind, and whether charts show it."""
        return [
            {
                "key": each.name,
                "title": each.title,
                "kind": KINDS.get(each.kind, "text"),
                "adds": each.name in self.summed,
            }
            for each in self._quantities
        ]

    def add_to_tree(self, tree: dict[str, Any]) -> None:
        """Add the values to every module."""
        self._cells.add_to_tree(tree)

    def of_node(self, node: Mapping[str, Any]) -> list[Any]:
        """Return the values of a module."""
        return [self._value(each, node.get(each.name)) for each in self._quantities]

    def of_call(self, name: str) -> list[Any]:
        """Return the values of a call."""
        pairs = zip(self._quantities, self._by_call, strict=True)
        return [self._value(each, values.get(name)) for each, values in pairs]

    def of_calls(self, calls: Sequence[Call]) -> list[Any]:
        """Return the values of a group of calls that charts show."""
        return [self._exact(each.of(self._ledger, calls)) for each in self._quantities if each.name in self.summed]

    def _value(self, quantity: Quantity, value: Any) -> Any:
        kind = KINDS.get(quantity.kind, "text")
        if kind == "text":
            return printable(cell_text("" if value is None else value, quantity.kind, 3, fixed=False))
        if value is None or value == "":
            return None
        if kind in AMOUNTS:
            return self._exact(value)
        return None if is_symbolic(value) else float(value)
