"""The columns of reports: what each holds, and what stands above it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias


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
TREE = {
    column.key: column
    for column in (
        Column("module", "Module"),
        Column("type", "Type"),
        Column("output_shape", "Output shape", "shape"),
        Column("n_layers", "# Layers", "count"),
        Column("n_unknown", "# Unknown", "count"),
        Column("n_params", "# Params", "count"),
        Column("n_trainable", "# Trainable", "count"),
        Column("n_frozen", "# Frozen", "count"),
        Column("n_shared", "# Shared", "count"),
        Column("n_buffers", "# Buffers", "count"),
        Column("activations", "Activations", "bytes"),
        *COSTS[:1],
        *MORE[:1],
        *COSTS[1:],
        *PERCENT,
        Column("depth", "Depth", "count"),
        *MEASURED,
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


class TreeColumns:
    """Column sets for ``show_tree``. ``ALL`` leaves out measured times: ask for these by name."""

    DEFAULT = (
        *("module", "type", "output_shape", "n_trainable", "n_frozen", "n_shared", "n_buffers", "activations"),
        *("flops", "macs", "mread", "mwrite", "flops%"),
    )
    ALL = tuple(key for key in TREE if key not in {column.key for column in MEASURED})


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


Renderer: TypeAlias = "Callable[[Table], str]"
