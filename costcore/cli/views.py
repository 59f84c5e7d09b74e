"""The views of a report: what prints each, its columns, and the views of analyses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from costcore.analyses.analysis import View
from costcore.analyses.registered import analyses, table_of_view
from costcore.import_paths import imported
from costcore.reports.report import Report
from costcore.tables.columns import (
    GROUPS,
    LAYERS,
    REPORT,
    SUMMARY,
    TREE,
    GroupColumns,
    LayerColumns,
    ReportColumns,
    SummaryColumns,
    TreeColumns,
)
from costcore.tables.result import Result, arranged
from costcore.text.screen import Screen
from costcore.text.table import Column

if TYPE_CHECKING:
    from costcore.analyses.fusion.view import FusedView


class Shown(NamedTuple):
    """A view of a report.

    Attributes:
        show: the function of the report that prints it.
        columns: its columns by name.
        column_sets: the class with its named column sets.
    """

    show: Callable[..., None]
    columns: Mapping[str, Column]
    column_sets: Any


def _show_groups(fused: FusedView, **options: Any) -> None:
    fused.show_report(**options)


def _show_run(report: Report, *parts: str, ost: IO[str], mode: str, unit: Any, n_digits: Any, **options: Any) -> None:
    report.table(*parts, **options).show(ost, mode, unit, n_digits)


def _show_overview(report: Report, ost: IO[str], mode: str, **options: Any) -> None:
    if isinstance(ost, Screen):
        Result.show(report, ost)
    else:
        ost.write(f"{Result.to_markdown(report) if mode == 'md' else report}\n")


OWN: Mapping[str, Shown] = {
    "report": Shown(Report.show_report, REPORT, ReportColumns),
    "summary": Shown(Report.show_summary_report, SUMMARY, SummaryColumns),
    "layers": Shown(Report.show_layers, LAYERS, LayerColumns),
    "tree": Shown(Report.show_tree, TREE, TreeColumns),
    "by": Shown(Report.show_by, GROUPS, GroupColumns),
    "run": Shown(_show_run, REPORT, ReportColumns),
    "overview": Shown(_show_overview, {}, None),
}
"""The views of every report; analyses have further ones."""


def of_analyses() -> dict[str, View]:
    """Return the views of analyses by name."""
    return {each.name: each.view for each in analyses().values() if each.view is not None}


def shown_by(name: str) -> Shown:
    """Return the view of that name."""
    if name in OWN:
        return OWN[name]
    if name == "fused":
        from costcore.analyses.fusion.group_rows import FUSED, FusedColumns

        return Shown(_show_groups, FUSED, FusedColumns)
    view = of_analyses()[name]

    def show_table(report: Report, ost: IO[str], mode: str, unit: Any, n_digits: Any, **options: Any) -> None:
        table_of_view(report, name, options).write(ost, mode, unit, n_digits)

    def show_result(report: Report, ost: IO[str], mode: str, unit: Any, n_digits: Any, **options: Any) -> None:
        of_table = {key: options.pop(key, None) for key in ("columns", "sort", "top")}
        arranged(report.analysis(name, **options), **of_table).show(ost, mode, unit, n_digits)

    columns, column_sets = (imported(path) if path else None for path in (view.columns, view.column_sets))
    return Shown(show_table if view.table else show_result, columns or {}, column_sets)


OF_PARTS = ("report", "summary", "layers", "tree", "by", "run")
"""The views whose rows are parts of the run: calls, groups of calls, modules."""


COLUMNS_OF_VIEWS: Mapping[str, Sequence[str]] = {
    "calls": ReportColumns.DEFAULT,
    "summary": SummaryColumns.DEFAULT,
    "layers": LayerColumns.DEFAULT,
    "tree": TreeColumns.DEFAULT,
}
"""The columns that the flag of a view chooses beside ``--by``, which chooses the rows."""


def flag_of_view(name: str) -> str:
    """Return the flag of the view of an analysis."""
    return f"--{name.replace('_', '-')}"


def given_flags(args: argparse.Namespace, view: View) -> dict[str, Any]:
    """Return the options of a view that are given, by flag."""
    values = {flag: getattr(args, flag.lstrip("-").replace("-", "_")) for flag in view.arguments}
    return {flag: value for flag, value in values.items() if value is not None and value is not False}
