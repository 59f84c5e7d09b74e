"""The columns of all tables of a report, and the table that a renderer receives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from costcore.messages import unknown
from costcore.text.table import Column

NUMERIC = ("flops", "bytes", "count", "percent", "seconds", "duration", "ratio")
"""The kinds of columns that hold numbers."""

FLOPS = Column("flops", "FLOPs", "flops")
COUNTED = ("flops", "flops%", "madd", "flops_fma1")
"""The keys of the columns that show what a convention counts."""

MACS = Column("macs", "MACs", "flops")
PARAMETERS = Column("n_params", "# Params", "count")
BYTES = (
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
RECEPTIVE_FIELD = Column("receptive_field", "Receptive field")
"""The column that follows the first input through the run, which takes as long as the rest of a table."""

SENT = Column("mcomm", "MemSent", "bytes")
"""The bytes that a process sends to others. Tables with default columns show it if the run sends any."""

FUSED_BYTES = Column("fused_mrw", "Fused R+W", "bytes")
"""The column of bytes after fusion at level ``pointwise``, for which the calls of the run are grouped."""

MEASURED = (Column("seconds", "Measured time", "seconds"), Column("seconds%", "Measured time", "percent"))
"""The columns of a run with ``measure_time=True``."""
MEMORY = (
    Column("live", "Live", "bytes"),
    Column("live_peak", "Live peak", "bytes"),
    Column("saved", "Saved", "bytes"),
)
"""The columns of a run with ``memory=True``: bytes alive after a call, most bytes alive while it runs, bytes that it
made and that autograd keeps."""

NODES = (Column("nodes", "Nodes", "names"), Column("outputs", "Outputs", "names"))
"""The columns of a run that read a graph: the names of the nodes of a call, and of the values that they produce."""

OPTIONAL = frozenset(column.key for column in (*MEASURED, *MEMORY, *NODES, RECEPTIVE_FIELD, FUSED_BYTES, SENT))
"""The columns that only some runs have, or that take long; no set of columns includes them."""


def by_key(*columns: Column) -> dict[str, Column]:
    """Return the columns of a table by their keys."""
    return {column.key: column for column in columns}


REPORT = by_key(
    Column("name", "Layer name"),
    FLOPS,
    *BYTES,
    *PERCENT,
    MACS,
    PARAMETERS,
    Column("type", "Layer type"),
    Column("op", "Operator"),
    Column("module", "Module"),
    Column("phase", "Phase"),
    Column("dtype", "Element type"),
    Column("input_shapes", "Input shapes", "shapes"),
    Column("output_shapes", "Output shapes", "shapes"),
    Column("params", "Attributes", "attributes"),
    Column("operations", "Operations", "attributes"),
    Column("traceback", "Traceback"),
    SENT,
    FUSED_BYTES,
    RECEPTIVE_FIELD,
    *MEMORY,
    *NODES,
)
SUMMARY = by_key(
    Column("type", "Layer type"),
    Column("n_layers", "# Layers", "count"),
    FLOPS,
    *BYTES,
    *PERCENT,
    MACS,
    PARAMETERS,
    Column("name", "Layer name"),
    SENT,
    FUSED_BYTES,
)
GROUPS = by_key(
    *(REPORT[key] for key in ("type", "op", "module", "phase", "dtype")),
    Column("native", "Native operator"),
    Column("n_layers", "# Calls", "count"),
    FLOPS,
    *BYTES,
    *PERCENT,
    MACS,
    PARAMETERS,
    Column("n_shared", "# Shared params", "count"),
    SENT,
    FUSED_BYTES,
    *MEASURED,
)
LAYERS = by_key(
    Column("module", "Module"),
    Column("name", "Layer name"),
    Column("type", "Layer type"),
    Column("op", "Operator"),
    Column("phase", "Phase"),
    Column("dtype", "Element type"),
    Column("input_shape", "Input shape", "shape"),
    Column("output_shape", "Output shape", "shape"),
    PARAMETERS,
    Column("memory", "Memory", "bytes"),
    Column("madd", "MAdd", "flops"),
    Column("flops_fma1", "Flops", "flops"),
    MACS,
    *BYTES,
    *PERCENT,
    SENT,
    FUSED_BYTES,
    RECEPTIVE_FIELD,
    *MEASURED,
    *MEMORY,
)
TREE = by_key(
    Column("module", "Module"),
    Column("type", "Type"),
    Column("output_shape", "Output shape", "shape"),
    Column("n_layers", "# Calls", "count"),
    Column("n_unknown", "# Unknown", "count"),
    PARAMETERS,
    Column("n_trainable", "# Trainable", "count"),
    Column("n_frozen", "# Frozen", "count"),
    Column("n_shared", "# Shared", "count"),
    Column("n_buffers", "# Buffers", "count"),
    Column("activations", "Activations", "bytes"),
    FLOPS,
    MACS,
    *BYTES,
    *PERCENT,
    Column("depth", "Depth", "count"),
    SENT,
    FUSED_BYTES,
    RECEPTIVE_FIELD,
    *MEASURED,
    *MEMORY,
)
RECEPTIVE_FIELDS = by_key(
    *(REPORT[key] for key in ("name", "type", "op", "module")),
    Column("output_shape", "Output shape", "shape"),
    Column("size", "Size"),
    Column("stride", "Stride"),
    Column("padding", "Padding"),
    Column("centre", "Centre"),
    Column("remark", "Remark"),
    RECEPTIVE_FIELD,
)


BLOCKS = by_key(
    Column("kind", "Kind"),
    Column("module", "Module"),
    Column("name", "Name"),
    Column("call", "Made by"),
    Column("phase", "Phase"),
    Column("born", "Born"),
    Column("dies", "Dies"),
    Column("shape", "Shape", "shape"),
    Column("dtype", "Element type"),
    Column("nbytes", "Memory", "bytes"),
    Column("nbytes%", "Memory", "percent"),
)
"""The columns of the table of the blocks that are alive at the peak."""


class ReportColumns:
    """Column sets of ``show_report``.

    ``ALL`` omits ``traceback``, ``fused_mrw``, ``receptive_field``, ``live``, ``live_peak`` and ``saved``, which runs
    with ``memory=True`` have, and ``nodes`` and ``outputs``, which runs of a graph have; name them in ``columns`` to
    show them.
    """

    DEFAULT = ("name", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(key for key in REPORT if key not in OPTIONAL and key != "traceback")


class SummaryColumns:
    """Column sets of ``show_summary_report``. ``ALL`` omits ``fused_mrw``, and ``name``, which repeats ``type``.

    ``n_layers``, the number of calls, has the title of chainer-computational-cost here, ``# Layers``.
    """

    DEFAULT = ("type", "n_layers", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = tuple(key for key in SUMMARY if key not in OPTIONAL and key != "name")


class GroupColumns:
    """Column sets of ``show_by``; the columns of the grouping keys come before them."""

    DEFAULT = ("n_layers", "flops", "mread", "mwrite", "mrw")
    DEFAULT_AND_PERCENT = (*DEFAULT, "flops%", "mread%", "mwrite%", "mrw%")
    ALL = (*DEFAULT_AND_PERCENT, "macs", "n_params", "n_shared")


class LayerColumns:
    """Column sets of ``show_layers``. If time was measured, the columns of time follow those of ``DEFAULT``.

    ``ALL`` omits them, ``fused_mrw`` and ``receptive_field``; name them in ``columns`` to show them.
    """

    DEFAULT = (
        *("module", "name", "input_shape", "output_shape", "n_params", "memory", "madd", "flops_fma1"),
        *("mread", "mwrite", "mrw", "flops%"),
    )
    ALL = tuple(key for key in LAYERS if key not in OPTIONAL)


class TreeColumns:
    """Column sets of ``show_tree``. ``ALL`` omits time, memory, ``fused_mrw`` and ``receptive_field``.

    Name them in ``columns`` to show them.
    """

    DEFAULT = (
        *("module", "type", "output_shape", "n_trainable", "n_frozen", "n_shared", "n_buffers", "activations"),
        *("flops", "flops%", "macs", "mread", "mwrite"),
    )
    ALL = tuple(key for key in TREE if key not in OPTIONAL)


class ReceptiveFieldColumns:
    """Column sets of ``show_receptive_field``."""

    DEFAULT = ("name", "module", "output_shape", "size", "stride", "padding", "remark")
    ALL = tuple(key for key in RECEPTIVE_FIELDS if key != RECEPTIVE_FIELD.key)


class MemoryColumns:
    """Column sets of ``show_memory``."""

    DEFAULT = ("kind", "module", "name", "call", "shape", "dtype", "nbytes", "nbytes%")
    ALL = tuple(BLOCKS)


_DEFAULTS = (
    *(ReportColumns.DEFAULT, ReportColumns.DEFAULT_AND_PERCENT, ReportColumns.ALL),
    *(SummaryColumns.DEFAULT, SummaryColumns.DEFAULT_AND_PERCENT, SummaryColumns.ALL),
    *(GroupColumns.DEFAULT, GroupColumns.DEFAULT_AND_PERCENT, GroupColumns.ALL),
    *(LayerColumns.DEFAULT, LayerColumns.ALL, TreeColumns.DEFAULT, TreeColumns.ALL),
    *(MemoryColumns.DEFAULT, MemoryColumns.ALL, ReceptiveFieldColumns.DEFAULT, ReceptiveFieldColumns.ALL),
)


def matches(columns: Sequence[Column], sets: Iterable[Sequence[str]]) -> bool:
    """Return whether the columns are one of some sets."""
    return tuple(column.key for column in columns) in {tuple(names) for names in sets}


def is_default(columns: Sequence[Column]) -> bool:
    """Return whether the columns are, or end with, a set of this module, rather than chosen one by one."""
    keys = tuple(column.key for column in columns if column != SENT)
    return any(keys[-len(names) :] == names for names in _DEFAULTS)


def with_sent(columns: Sequence[Column]) -> list[Column]:
    """Return a set of columns of this module with the bytes sent after the other bytes; any other list as it is."""
    keys = tuple(column.key for column in columns)
    if not is_default(columns):
        return list(columns)
    after = max(i for i, key in enumerate(keys) if key in ("mread", "mwrite", "mrw")) + 1
    return [*columns[:after], SENT, *columns[after:]]


def in_unit(columns: Sequence[Column], unit: str) -> list[Column]:
    """Return the columns with the name of what a convention counts as the title of those that show it.

    Args:
        columns: the columns.
        unit: what it counts, ``MACs (fvcore)``; titles stay if these are FLOPs.
    """
    return [each._replace(title=unit) if each.key in COUNTED and unit != FLOPS.title else each for each in columns]


def choose(columns: Mapping[str, Column], names: Sequence[str]) -> list[Column]:
    """Return the columns with these names.

    Args:
        columns: the columns of the table, by name.
        names: the names to show.

    Raises:
        TypeError: if ``names`` is not a list of names.
        ValueError: if it is empty or contains an unknown name.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"columns must be a list of names (got {names!r})")
    names = list(names)
    if not names:
        raise ValueError(f"columns is empty (expected one or several of {', '.join(columns)})")
    if missing := [name for name in names if name not in columns]:
        raise ValueError(unknown("column", missing, columns))
    return [columns[name] for name in names]
