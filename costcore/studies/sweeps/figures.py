"""The columns of a table of models: totals of quantities, and of conventions by their name alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from costcore.errors import CostError
from costcore.messages import unknown
from costcore.numbers.dims import Dim
from costcore.plugins import with_left_out
from costcore.reports.report import Report
from costcore.tables.quantities import is_quantity, numbers, numeric, quantity
from costcore.tables.quantity import Quantity

DEFAULT_COLUMNS = ("n_params", "flops", "macs", "mread", "mwrite", "activations")
"""The columns of a table of models if none are chosen."""

TITLES: Mapping[str, str] = {"n_params": "Params"}
"""The titles that differ from those of other tables."""


def figure(name: str) -> Quantity:
    """Return the quantity of a column; ``n_params`` are those of the model here, ``fvcore`` is ``flops@fvcore``.

    Raises:
        ValueError: if there is neither a quantity nor a convention of that name, or if its values are text.
        CostError, OSError: if a file that the name has as parameter cannot be read.
    """
    if not is_quantity(name):
        from costcore.analyses.conventions.catalog import conventions, named

        try:
            named(name)
        except ValueError as error:
            if isinstance(error, CostError):
                raise
            raise ValueError(with_left_out(unknown("column", name, [*numbers(), *conventions()]))) from error
    found = numeric(name if is_quantity(name) else f"flops@{name}")
    if name == "n_params":
        found = quantity("n_params_model")._replace(kind="flops")
    return found._replace(name=name, title=TITLES.get(name, found.title))


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
    chosen = tuple(columns)
    if not all(isinstance(name, str) for name in chosen):
        raise TypeError(f"columns must be a list of names (got {chosen!r})")
    if not chosen:
        raise ValueError(f"columns is empty (expected one or several of {', '.join(numbers())}, or a convention)")
    if twice := [name for i, name in enumerate(chosen) if name in chosen[:i]]:
        raise ValueError(f"column {twice[0]!r} is given twice")
    for name in chosen:
        figure(name)
    return chosen


def figures_of(report: Report, columns: Sequence[str]) -> tuple[dict[str, Dim | float | None], list[str]]:
    """Return the figures of a report by name, None for those that it does not have, and what is unknown of them."""
    values: dict[str, Dim | float | None] = {}
    reasons: list[str] = []
    for name in columns:
        found = figure(name)
        try:
            values[name] = found.total(report.ledger)
            missing = found.missing(report.ledger)
            reasons += [f"{name} is unknown: {'; '.join(missing)}"] if values[name] is None else missing
        except CostError as error:
            values[name] = None
            reasons.append(f"{name} is unknown: {error}")
    return values, reasons
