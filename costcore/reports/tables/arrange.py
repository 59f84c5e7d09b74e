"""Reports as tables: which rows, in which order, written where."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from costcore.reports.caveats import foot
from costcore.reports.columns import COSTS, MEASURED, MORE, NUMERIC, PERCENT, REPORT, Column, choose, tabulate
from costcore.reports.ledger import Ledger
from costcore.reports.serialization.targets import writable
from costcore.reports.tables.renderers import rendered
from costcore.symbolic import magnitude
from costcore.trace.call import Call

GROUPS = {
    column.key: column
    for column in (
        *(REPORT[key] for key in ("type", "op", "module", "phase", "dtype")),
        Column("native", "Native operator"),
        Column("n_layers", "# Layers", "count"),
        *COSTS,
        *PERCENT,
        *MORE,
        Column("n_shared", "# Shared params", "count"),
        *MEASURED,
    )
}
LAYERS = {
    column.key: column
    for column in (
        Column("module", "Module"),
        Column("name", "Layer name"),
        Column("type", "Layer type"),
        Column("op", "Operator"),
        Column("phase", "Phase"),
        Column("dtype", "Element type"),
        Column("input_shape", "Input shape", "shape"),
        Column("output_shape", "Output shape", "shape"),
        Column("n_params", "# Params", "count"),
        Column("memory", "Memory", "bytes"),
        Column("madd", "MAdd", "flops"),
        Column("flops_fma1", "Flops", "flops"),
        *MORE[:1],
        *COSTS[1:],
        *PERCENT,
        *MEASURED,
    )
}


class GroupColumns:
    """Column sets for ``show_by``, besides the columns of what is grouped by."""

    DEFAULT = ("n_layers", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = (*DEFAULT_AND_PERCENT, "macs", "n_params", "n_shared")


class LayerColumns:
    """Column sets for ``show_layers``; where time was measured, both columns of it come behind those of the default."""

    DEFAULT = (
        *("module", "name", "input_shape", "output_shape", "n_params", "memory", "madd", "flops_fma1"),
        *("mread", "mwrite", "mrw", "flops%"),
    )
    ALL = tuple(key for key in LAYERS if key not in {column.key for column in MEASURED})


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


class TableOptions(NamedTuple):
    """How a table is written; the arguments that all ``show_…`` methods of a report share.

    Attributes:
        stream: where to; None is the standard output at the time of the call.
        mode: the renderer.
        unit: the prefix of FLOPs and bytes, ``auto`` or ``autoaligned``.
        n_digits: digits after the decimal point; None is 10.
    """

    stream: IO[str] | None
    mode: str
    unit: str | None
    n_digits: int | None


def show(
    entries: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    options: TableOptions,
    remarks: Sequence[str],
    total: int = -1,
) -> None:
    """Write a table.

    Args:
        entries: the rows, the total among them.
        columns: what is shown of each.
        options: where and in which form.
        remarks: lines under the table.
        total: the position of the row that the others sum up to.
    """
    stream, mode, unit, n_digits = options
    stream = writable(stream or sys.stdout)
    table = tabulate(columns, entries, unit, n_digits, mode in ("table", "color"), total)
    text = rendered(table, "table" if mode == "color" and not has_colour(stream) else mode)
    stream.write(text + foot(remarks, mode))


def one_stream(ost: IO[str] | None, dst: IO[str] | None) -> IO[str] | None:
    """Return the stream given under either name.

    Raises:
        TypeError: if both are given.
    """
    if ost is not None and dst is not None:
        raise TypeError("ost and dst are two names for one argument; give only one")
    return ost or dst


def has_colour(stream: IO[str]) -> bool:
    """Whether a stream is a terminal whose user did not ask for no colour (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
