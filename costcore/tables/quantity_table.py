"""The table of all quantities."""

from __future__ import annotations

from costcore.tables.quantities import registered
from costcore.tables.quantity import Quantity
from costcore.tables.table import Table
from costcore.text.table import Column

COLUMNS = (
    Column("name", "Quantity"),
    Column("kind", "Kind"),
    Column("doc", "What it is"),
    Column("of", "Known of"),
    Column("needs", "Needs"),
    Column("certainty", "Certainty"),
)


def quantities() -> Table:
    """Return what reports know of a run: a table of the quantities, built in and of plug-ins.

    ``flops@CONVENTION`` stands for ``flops@fvcore`` and so on.

    Raises:
        CostError: if a plug-in fails, or if two quantities have the same name.
    """
    rows = [
        {
            **{key: getattr(each, key) for key in ("name", "kind", "doc", "certainty")},
            "of": _known_of(each),
            "needs": ", ".join(f"{option}={value}" for option, value in each.needs.items()),
        }
        for each in registered().values()
    ]
    dropped = ("certainty", "kind", "needs", "of")
    return Table("Quantities", COLUMNS, rows, most=len(rows), dropped_first=dropped)


def _known_of(quantity: Quantity) -> str:
    """Return what has the quantity; with a parameter, what has that of the same name without one."""
    plain = registered().get(quantity.name.partition("@")[0], quantity)
    return "run" if plain.is_of_run_only and not (plain is quantity and quantity.at) else "calls, groups, run"
