"""What a result says, without a format: exact figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costcore.numbers.dims import is_symbolic
from costcore.numbers.symbolic import as_text
from costcore.tables.table_data import TableData
from costcore.text.amounts import exact, readable
from costcore.text.durations import duration
from costcore.text.values import Shown
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

    def texts(self, n_digits: int | None = 3) -> tuple[str, str]:
        """Return the value with its unit, and the note: with the exact value, if that is not what is shown.

        Args:
            n_digits: digits after the decimal point; None for exact amounts.
        """
        value, kind, note = self.value, self.kind, self.note
        if isinstance(value, Shown):
            return value.text, note
        if kind == "duration":
            return duration(value, 3 if n_digits is None else n_digits), note
        if kind not in ("flops", "bytes", "count"):
            return as_text(value), note
        full = exact(value) + " B" * (kind == "bytes" and not self.title.startswith("Bytes"))
        if n_digits is None or kind == "count" or is_symbolic(value):
            return full, note
        shown = readable(value, kind, n_digits)
        own = [] if shown.removesuffix(" B") == full.removesuffix(" B") else [full]
        return shown, "; ".join([*own, *filter(None, [note])])


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

    def texts(self, unit: str | None = "auto", n_digits: int | None = None) -> list[tuple[str, str, str]]:
        """Return title, value and note of every figure; arguments as for :meth:`Result.show`."""
        digits = None if unit is None else self.n_digits if n_digits is None else n_digits
        return [(each.title, *each.texts(digits)) for each in self.figures]
