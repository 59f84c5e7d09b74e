"""The columns of reports: what each holds, and what stands above it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from costcore.reports.text.units import check_digits, check_unit, prefix_for, rounded, scaled
from costcore.symbolic import written


class Column(NamedTuple):
    """One column: ``kind`` tells how its cells are written.

    Kinds: ``text``, ``count`` (whole numbers), ``flops`` and ``bytes`` (scaled by the unit), ``percent``, ``seconds``
    (written as milliseconds), ``shape``, ``shapes`` and ``settings``.
    """

    key: str
    title: str
    kind: str = "text"


NUMERIC = ("flops", "bytes", "count", "percent", "seconds")
"""The kinds that hold numbers."""

COSTS = (
    Column("flops", "FLOPs", "flops"),
    Column("mread", "MemRead", "bytes"),
    Column("mwrite", "MemWrite", "bytes"),
    Column("mrw", "MemR+W", "bytes"),
)
PERCENT = (
    Column("flops%", "FLOPs", "percent"),
    Column("mread%", "MemRead", "percent"),
    Column("mwrite%", "MemWrite", "percent"),
    Column("mrw%", "MemR+W", "percent"),
)
MORE = (Column("macs", "MACs", "flops"), Column("n_params", "# Params", "count"))
MEASURED = (Column("seconds", "Measured time", "seconds"), Column("seconds%", "Measured time", "percent"))
"""What only a run with ``measure_time=True`` has."""

REPORT = {
    column.key: column
    for column in (
        Column("name", "Layer name"),
        *COSTS,
        *PERCENT,
        *MORE,
        Column("type", "Layer type"),
        Column("op", "Operator"),
        Column("module", "Module"),
        Column("phase", "Phase"),
        Column("dtype", "Element type"),
        Column("input_shapes", "Input shapes", "shapes"),
        Column("output_shapes", "Output shapes", "shapes"),
        Column("params", "Function parameters", "settings"),
        Column("operations", "Operations", "settings"),
        Column("traceback", "Traceback"),
    )
}
SUMMARY = {
    column.key: column
    for column in (
        Column("type", "Layer type"),
        Column("n_layers", "# Layers", "count"),
        *COSTS,
        *PERCENT,
        *MORE,
        Column("name", "Layer name"),
    )
}


class ReportColumns:
    """Column sets for ``show_report``. ``ALL`` leaves out only ``traceback``, which may be asked for by name."""

    DEFAULT = ("name", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(key for key in REPORT if key != "traceback")


class SummaryColumns:
    """Column sets for ``show_summary_report``. ``ALL`` leaves out only ``name``, which repeats ``type``."""

    DEFAULT = ("type", "n_layers", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(key for key in SUMMARY if key != "name")


def choose(known: Mapping[str, Column], names: Sequence[str]) -> list[Column]:
    """The columns of those names.

    Raises:
        TypeError: where ``names`` is no list of names.
        ValueError: for an unknown name; lists the known ones.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"columns must be a list of names, got {names!r}")
    names = list(names)
    if not names:
        raise ValueError(f"columns is empty; known are {', '.join(known)}")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown column {', '.join(map(repr, unknown))}; known are {', '.join(known)}")
    return [known[name] for name in names]


class Table(NamedTuple):
    """A report ready to be rendered: two-part titles, and cells as text.

    Attributes:
        titles: title and unit of each column; the unit may be empty.
        rows: the cells.
        numeric: whether each column holds numbers.
        shares: share of the total's FLOPs of each row (percent), None where not known.
        total: which row is the total.
    """

    titles: list[tuple[str, str]]
    rows: list[list[str]]
    numeric: list[bool]
    shares: Sequence[float | None] = ()
    total: int = -1


def tabulate(
    columns: Sequence[Column],
    entries: Sequence[Mapping[str, Any]],
    unit: str | None,
    n_digits: int | None,
    fixed: bool,
    total: int = -1,
) -> Table:
    """Write ``entries`` as text under ``columns``; ``total`` is the entry that the others sum up to.

    Raises:
        TypeError, ValueError: for a unit or a number of digits that is not known.
    """
    check_unit(unit)
    digits = check_digits(n_digits)
    titles, cells = [], []
    for column in columns:
        values = [entry.get(column.key, "") for entry in entries]
        numbers = [v for v in values if v != ""]
        suffix, texts = "", []
        if column.kind in ("flops", "bytes"):
            prefix = prefix_for(numbers, column.kind) if unit == "autoaligned" else (unit or "")
            suffix = "" if unit == "auto" else _unit_name(prefix, column.kind)
            texts = [
                _automatic(v, column.kind, digits, fixed)
                if unit == "auto"
                else scaled(v, prefix, column.kind, digits, fixed)
                for v in values
            ]
        else:
            texts = [_cell(value, column.kind, digits) for value in values]
        titles.append(_title(column, suffix))
        cells.append(texts)
    numeric = [column.kind in NUMERIC for column in columns]
    shares = [entry.get("flops%") for entry in entries]
    return Table(titles, [list(row) for row in zip(*cells, strict=True)], numeric, shares, total)


def _title(column: Column, suffix: str) -> tuple[str, str]:
    if column.kind == "flops":
        return suffix + column.title, ""
    return column.title, {"percent": "(%)", "seconds": "ms"}.get(column.kind, suffix)


def _unit_name(prefix: str, kind: str) -> str:
    return prefix if kind == "flops" else f"{prefix}iB" if prefix else "B"


def _automatic(value: Any, kind: str, digits: int, fixed: bool) -> str:
    prefix = prefix_for([value], kind)
    return f"{scaled(value, prefix, kind, digits, fixed)} {_unit_name(prefix, kind)}".rstrip()


def _cell(value: Any, kind: str, digits: int) -> str:
    if value == "" or value is None:
        return "-" if value is None else ""
    if kind == "percent":
        return rounded(Fraction(value), digits) + "%"
    if kind == "seconds":
        return rounded(1000 * Fraction(value), digits)
    if kind == "shape":
        return written(tuple(value))
    if kind == "shapes":
        return written([tuple(shape) for shape in value])
    if kind == "settings":
        return ", ".join(f"{name}={setting(v)}" for name, v in value.items())
    return written(value)


def setting(value: Any) -> str:
    """A setting as people write it: ``(3, 3)`` is 3."""
    alike = isinstance(value, tuple) and value and all(v == value[0] for v in value)
    return written(value[0] if alike else value)


Renderer: TypeAlias = "Callable[[Table], str]"
