"""Compute a table of models: skip the rows that a file has, compute the others, and write each as it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from os import PathLike

from costcore.studies.sweeps.engine import rows as computed_rows
from costcore.studies.sweeps.identity import Identity
from costcore.studies.sweeps.model_table import ModelTable
from costcore.studies.sweeps.progress import with_progress
from costcore.studies.sweeps.row import ModelRow, NamedModel, Settings
from costcore.studies.sweeps.row_file import RowFile
from costcore.studies.sweeps.task import Plan


class TableInterrupted(KeyboardInterrupt):
    """Ctrl-C while a table is computed.

    Attributes:
        table: the rows that are there.
    """

    def __init__(self, table: ModelTable) -> None:
        super().__init__(f"interrupted after {len(table.rows)} models")
        self.table = table


def model_table(
    models: Sequence[NamedModel],
    settings: Settings,
    plan: Plan,
    output: str | PathLike[str] | None,
    resume: bool,
) -> ModelTable:
    """Return the table of these models.

    Args:
        models: the models.
        settings: what their rows have in common.
        plan: how the rows are computed.
        output: the file that the rows are written to; None for none.
        resume: whether rows that the file has, and that did not fail, are taken from it.

    Raises:
        CostError, OSError: if the file cannot be read or written.
        ValueError: if the name of the file or of an argument is invalid.
        TableInterrupted: if Ctrl-C was pressed.
    """
    rows: dict[int, ModelRow] = {}
    try:
        if output is None:
            _compute(rows, models, settings, plan)
        else:
            with RowFile(output, argument_names(models), settings.columns) as file:
                keys = [*map(Identity(settings).key, models)]
                rows.update(_found(models, keys, file.earlier() if resume else {}))
                file.start((keys[position], row) for position, row in rows.items())
                _compute(rows, models, settings, plan, lambda position, row: file.add(keys[position], row))
                file.finish((keys[position], rows[position]) for position in sorted(rows))
    except KeyboardInterrupt as error:
        raise TableInterrupted(_in_order(models, rows, settings)) from error
    return _in_order(models, rows, settings)


def _compute(
    rows: dict[int, ModelRow],
    models: Sequence[NamedModel],
    settings: Settings,
    plan: Plan,
    add: Callable[[int, ModelRow], None] | None = None,
) -> None:
    """Compute the rows that are not there, and call ``add`` with each."""
    left = {position: named for position, named in enumerate(models) if position not in rows}
    with closing(computed_rows(left, settings, plan)) as computed:
        for position, row in with_progress(computed, len(left)):
            rows[position] = row
            if add is not None:
                add(position, row)


def argument_names(models: Sequence[NamedModel]) -> tuple[str, ...]:
    """Return the names of the arguments of all models, in order of first use."""
    return tuple(dict.fromkeys(name for named in models for name in named.arguments or ()))


def _found(models: Sequence[NamedModel], keys: Sequence[str], earlier: Mapping[str, ModelRow]) -> dict[int, ModelRow]:
    """Return the rows that an earlier run computed, by position."""
    return {
        position: earlier[key]._replace(arguments=named.arguments)
        for position, (key, named) in enumerate(zip(keys, models, strict=True))
        if key in earlier
    }


def _in_order(models: Sequence[NamedModel], rows: Mapping[int, ModelRow], settings: Settings) -> ModelTable:
    convention = "" if settings.convention is None else str(settings.convention)
    ordered = tuple(rows[position] for position in sorted(rows))
    return ModelTable(ordered, convention, settings.columns, argument_names(models))
