"""The values of quantities in the rows of tables: of calls, of groups of calls, and of modules."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from costcore.ledger.ledger import Ledger
from costcore.tables.quantities import chosen
from costcore.tables.quantity import Quantity
from costcore.trace.call import Call


class TableRow(NamedTuple):
    """An entry of a report, and the calls whose costs it sums."""

    entry: Mapping[str, Any]
    calls: Sequence[Call]


class Cells:
    """The quantities that a table shows beside what its entries have.

    Args:
        names: the names of all columns, and of that by which rows are sorted; or quantities.
        known: the names that the entries have.
        ledger: the ledger of the report.

    Raises:
        ValueError, CostError, OSError: if there is no quantity of a name.
    """

    def __init__(self, names: Iterable[str | Quantity], known: Container[str], ledger: Ledger) -> None:
        added = [name for name in names if isinstance(name, Quantity) or name not in known]
        self.quantities = chosen(added)
        self._shares = {name for name in added if isinstance(name, str) and name.endswith("%")}
        self._ledger = ledger

    @property
    def remarks(self) -> list[str]:
        """What the values mean or leave out, each line once."""
        of = [(*each.remarks(self._ledger), *each.missing(self._ledger)) for each in self.quantities]
        return [*dict.fromkeys(line for lines in of for line in lines)]

    def of(self, calls: Sequence[Call]) -> dict[str, Any]:
        """Return the values of a group of calls; empty texts for quantities of the whole run."""
        return self._values(lambda each: each.of(self._ledger, calls))

    def total(self, with_texts: bool = False) -> dict[str, Any]:
        """Return the values of the whole run; empty for what describes single calls, unless asked for."""
        shown = [each for each in self.quantities if with_texts or each.is_number or callable(each.combine)]
        return self._with_shares({each.name: each.total(self._ledger) for each in shown})

    def of_rows(self, rows: Iterable[TableRow]) -> list[TableRow]:
        """Return the rows with their values."""
        return [TableRow({**entry, **self.of(calls)}, calls) for entry, calls in rows] if self.quantities else [*rows]

    def of_groups(self, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the values of several groups together from those of each."""
        return self._values(lambda each: each.of_values([entry[each.name] for entry in entries]))

    def add_to_tree(self, tree: dict[str, Any]) -> None:
        """Add the values to every node of :meth:`Report.tree`."""
        if not self.quantities:
            return
        from costcore.ledger.module_tree import walk

        nodes = [node for _, node in walk(tree)]
        by_path = {node["path"]: node for node in reversed(nodes)} | {n["path"]: n for n in nodes if n["is_own"]}
        below: dict[int, list[Call]] = {id(node): [] for node in nodes}
        for call in self._ledger.calls:
            below[id(by_path[call.module])].append(call)
        for node in reversed(nodes):
            calls = below[id(node)]
            for child in node["children"]:
                calls += below.pop(id(child))
            calls.sort(key=lambda call: self._ledger.position[call.name])
            node.update(self.total(with_texts=True) if node is tree else self.of(calls))

    def _values(self, value: Callable[[Quantity], Any]) -> dict[str, Any]:
        values = {each.name: "" if each.is_of_run_only else value(each) for each in self.quantities}
        return self._with_shares(values)

    def _with_shares(self, values: dict[str, Any]) -> dict[str, Any]:
        shares = {
            f"{each.name}%": each.share(values[each.name], self._ledger)
            for each in self.quantities
            if f"{each.name}%" in self._shares and each.name in values
        }
        return {**values, **shares}
