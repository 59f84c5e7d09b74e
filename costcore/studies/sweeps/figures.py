"""The figures of a report that can be columns of a table of models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from costcore.analyses.conventions.catalog import conventions, named
from costcore.analyses.conventions.convention import UNIT_NAMES
from costcore.errors import CostError
from costcore.ledger.ledger import memory
from costcore.messages import unknown
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import expanded_sum
from costcore.reports.report import Report
from costcore.studies.sweeps.least_time import PREFIX, LeastTime
from costcore.tables.columns import SENT
from costcore.text.table import Column

DEFAULT_COLUMNS = ("n_params", "flops", "macs", "mread", "mwrite", "activations")
"""The columns of a table of models if none are chosen."""


class Figure(NamedTuple):
    """A figure of a report.

    Attributes:
        column: its column; ``key`` is the name by which it is chosen.
        value: returns it, a number or an expression, or raises a ``CostError`` if the report does not have it.
        options: the options of :func:`costcore.estimate` that it needs, for models that accept them.
        remarks: returns what the value leaves out.
    """

    column: Column
    value: Callable[[Report], Dim | float]
    options: Mapping[str, Any] = MappingProxyType({})
    remarks: Callable[[Report], Sequence[str]] = lambda _: ()


def _total(key: str) -> Callable[[Report], Dim]:
    return lambda report: report.ledger.total[key]


def _n_params(report: Report) -> Dim:
    """Return the parameters of the model, or of the calls if there is no model."""
    total = report.ledger.total
    return total.get("n_params_model", total["n_params"])


def _activations(report: Report) -> Dim:
    """Return the bytes of the outputs of all counted calls of the forward pass; 0 for views."""
    forward = ((call, cost) for call, cost, *_ in report.trace if call.phase == "forward")
    return expanded_sum(memory(call, cost) for call, cost in forward if cost is not None)


def _peak_memory(report: Report) -> Dim:
    if report.memory is None:
        raise CostError("memory was not recorded, which needs a PyTorch model and integer sizes")
    return report.memory.peak


def _fused_mrw(report: Report) -> Dim:
    """Return the bytes read and written after fusion of the level ``pointwise``."""
    fused: Dim = report.fused("pointwise").total_report["mrw"]
    return fused


def _arena(report: Report) -> Dim:
    return report.arena().size


FIGURES = {
    figure.column.key: figure
    for figure in (
        Figure(Column("n_params", "Params", "flops"), _n_params),
        Figure(Column("flops", "FLOPs", "flops"), _total("flops")),
        Figure(Column("macs", "MACs", "flops"), _total("macs")),
        Figure(Column("mread", "MemRead", "bytes"), _total("mread")),
        Figure(Column("mwrite", "MemWrite", "bytes"), _total("mwrite")),
        Figure(Column("mrw", "MemR+W", "bytes"), _total("mrw")),
        Figure(SENT, lambda report: report.ledger.total.get(SENT.key, 0)),
        Figure(Column("fused_mrw", "MemR+W (pointwise)", "bytes"), _fused_mrw),
        Figure(Column("activations", "Activations", "bytes"), _activations),
        Figure(Column("n_layers", "# Calls", "count"), _total("n_layers")),
        Figure(Column("peak_memory", "Peak memory", "bytes"), _peak_memory, {"memory": True}),
        Figure(Column("arena", "Arena", "bytes"), _arena),
    )
}
"""The figures that are columns by name; so are every convention (:func:`costcore.conventions`) and the least time on a
device (:mod:`costcore.studies.sweeps.least_time`)."""

NAMES = (*FIGURES, f"{PREFIX}DEVICE", f"{PREFIX}DEVICE:DTYPE")
"""The names of columns for messages, without conventions."""


def figure(name: str) -> Figure:
    """Return the figure of that name: one of :data:`FIGURES`, a least time, or the total that a convention counts.

    Raises:
        ValueError: if there is neither a figure nor a device or convention of that name.
        CostError, OSError: if a file with a device or with rules of a convention cannot be read.
    """
    if name in FIGURES:
        return FIGURES[name]
    if least_time := LeastTime.parse(name):
        least_time.check()
        column = Column(name, least_time.title, "duration")
        return Figure(column, least_time.seconds, remarks=least_time.remarks)
    try:
        rules = named(name)
    except ValueError as error:
        if isinstance(error, CostError):
            raise
        raise ValueError(unknown("column", name, [*NAMES, *conventions()])) from error
    column = Column(name, f"{UNIT_NAMES[rules.unit]} ({name})", "flops")
    needs = {"spelled": True} if rules.needs_functions else {}
    return Figure(column, lambda report: report.under(name).total, needs)


def check_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of the columns of a table; default: :data:`DEFAULT_COLUMNS`.

    Raises:
        TypeError: if ``columns`` is not a list of names.
        ValueError: if it is empty, or contains a name twice or an unknown one.
    """
    if columns is None:
        return DEFAULT_COLUMNS
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a list of names (got {columns!r})")
    names = tuple(columns)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"columns must be a list of names (got {names!r})")
    if not names:
        raise ValueError(f"columns is empty (expected one or several of {', '.join(NAMES)}, or a convention)")
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ValueError(f"column {twice[0]!r} is given twice")
    for name in names:
        figure(name)
    return names


def needed_options(columns: Sequence[str]) -> dict[str, Any]:
    """Return the options of :func:`costcore.estimate` that the figures of these names need."""
    return {option: value for name in columns for option, value in figure(name).options.items()}


def figures_of(report: Report, columns: Sequence[str]) -> tuple[dict[str, Dim | float | None], list[str]]:
    """Return the figures of a report by name, None for those that it does not have, and what is unknown of them."""
    values: dict[str, Dim | float | None] = {}
    reasons: list[str] = []
    for name in columns:
        try:
            values[name] = figure(name).value(report)
            reasons += figure(name).remarks(report)
        except CostError as error:
            values[name] = None
            reasons.append(f"{name} is unknown: {error}")
    return values, reasons
