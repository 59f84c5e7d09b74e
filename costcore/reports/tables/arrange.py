"""Reports as tables: which rows, in which order, written where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from costcore.reports.columns import NUMERIC, Column, choose
from costcore.reports.ledger import Ledger
from costcore.symbolic import magnitude
from costcore.trace.call import Call


class Line(NamedTuple):
    """A row, and the calls it sums."""

    entry: Mapping[str, Any]
    calls: Sequence[Call]


def in_order(entries: Iterable[Any], column: Column, entry_of: Callable[[Any], Mapping[str, Any]]) -> list[Any]:
    """Largest numbers first, texts by the alphabet; equals stay in order.

    Formulas are ranked by :func:`costcore.symbolic.magnitude`, shares as what they are shares of, and what was not
    measured stands behind all numbers.
    """
    key = column.key.removesuffix("%")

    def rank(item: Any) -> tuple[int, Any]:
        value = entry_of(item).get(key, "")
        if column.kind not in NUMERIC:
            return 0, str(value)
        return (1, 0) if value is None or isinstance(value, str) else (0, -magnitude(value))

    return sorted(entries, key=rank)


def check_top(top: object) -> int | None:
    """Refuse anything but None and a number of rows.

    Raises:
        TypeError, ValueError: saying what is accepted.
    """
    if top is None:
        return None
    if not isinstance(top, int) or isinstance(top, bool):
        raise TypeError(f"top must be a number of rows or None (all), got {top!r}")
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    return top


def arrange(
    lines: Sequence[Line],
    known: Mapping[str, Column],
    sort: str | None,
    top: int | None,
    ledger: Ledger,
    label: str = "name",
    extra: Sequence[str] = (),
) -> list[Mapping[str, Any]]:
    """The entries in order of the column ``sort``, at most ``top`` of them, and a row ``others`` that sums the rest.

    Args:
        lines: the rows in their own order.
        known: the columns that can be sorted by.
        sort: name of a column; None keeps the order.
        top: number of rows; None for all.
        ledger: makes the sum.
        label: the column that says ``others``.
        extra: columns to be summed which the ledger does not know.
    """
    if sort is not None:
        lines = in_order(lines, choose(known, [sort])[0], lambda line: line.entry)
    check_top(top)
    kept, rest = (lines, ()) if top is None else (lines[:top], lines[top:])
    entries = [line.entry for line in kept]
    if rest:
        others = {"name": "others", "type": "others", **ledger.sum(call for line in rest for call in line.calls)}
        others |= {label: "others", **{key: sum(line.entry[key] for line in rest) for key in extra}}
        if all("n_shared" in line.entry for line in rest):
            own = sum(line.entry["n_params"] - line.entry["n_shared"] for line in rest)
            others["n_shared"] = others["n_params"] - own
        entries.append(others)
    return entries
