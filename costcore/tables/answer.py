"""What a result says, without a format: exact figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costcore.tables.table_data import TableData
from costcore.trace.run import FLOPS


class Figure(NamedTuple):
    """A number, or a text, of a result.

    Attributes:
        name: its name in ``to_dict``.
        title: what it is, for people.
        value: the exact value; a :class:`costcore.text.values.Shown` has a text of its own.
        kind: the kind of the value, as of a :class:`costcore.text.table.Column`.
        note: what the value means; can be empty.
        certainty: ``exact``, ``bound``, ``calibrated`` or ``measured``.
    """

    name: str
    title: str
    value: Any
    kind: str = "text"
    note: str = ""
    certainty: str = "exact"


class Answer(NamedTuple):
    """What a result says, without a format.

    Attributes:
        title: the heading: what was counted, and the status.
        figures: the totals; each has another name.
        tables: the tables. ``print`` and notebooks show the rows of each, data formats those of its ``whole``.
        remarks: what is not counted, and what the numbers assume.
        tree: the module hierarchy as :meth:`costcore.Report.tree` returns it, which notebooks fold; None without one.
        unit: what the modules of the tree count.
        n_digits: digits of figures after the decimal point.
    """

    title: str
    figures: Sequence[Figure] = ()
    tables: Sequence[TableData] = ()
    remarks: Sequence[str] = ()
    tree: Mapping[str, Any] | None = None
    unit: str = FLOPS
    n_digits: int = 3
