"""Writes a report in its view, to standard output or to a file, and its notes to standard error."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from costcore.cli.running import print_message
from costcore.cli.view_flags import DEFAULT_FORMAT, TABLES
from costcore.cli.view_options import asks_for_table
from costcore.cli.views import of_analyses, shown_by
from costcore.ledger.caveats import MODES_WITH_REMARKS, remarks_on_mode
from costcore.reports.exports import by_suffix
from costcore.reports.report import Report
from costcore.tables.quantities import is_quantity
from costcore.text.targets import save_output

if TYPE_CHECKING:
    from costcore.analyses.fusion.view import FusedView


def show_view(
    report: Report, args: argparse.Namespace, options: dict[str, Any], fused: FusedView | None = None
) -> None:
    """Write the report to standard output or to a file, and notes that it does not include to standard error.

    Args:
        report: the report.
        args: the arguments of the command.
        options: the options of the view.
        fused: the view with this report, if its bytes are those after fusion.
    """
    keys, allocator = options.pop("keys"), options.pop("allocator", None)

    def show(ost: IO[str], mode: str) -> None:
        shown = fused if args.view == "fused" else report
        shown_by(args.view).show(shown, *keys, ost=ost, mode=mode, **options)

    if args.output is None:
        show(sys.stdout, args.format or DEFAULT_FORMAT)
        sys.stdout.flush()
    elif (suffix := Path(args.output).suffix) in TABLES:
        save_output(partial(show, mode=suffix[1:]), args.output)
    else:
        further = [name for name in options.get("columns", ()) if is_quantity(name)]
        columns = further
        if fused is not None:
            from costcore.analyses.fusion.group_rows import unfused

            columns = [unfused(fused.original), *further]
        export = by_suffix()[suffix].name
        is_unnamed = export == "page" and not report.tree()["type"]  # a file, whose model has no class
        header = {"made": made_by(args.argv, getattr(args, "usual", ""))} if export == "page" else {}
        header |= {"title": Path(args.model).name} if is_unnamed else {}
        report.export(export, args.output, columns=columns, **header)
    if args.output is not None or args.format not in (None, *MODES_WITH_REMARKS):
        said = remarks_on_mode(report.trace)
        for remark in report.remarks:
            if remark not in said:
                print_message(remark)
    if allocator is not None and report.memory is not None:
        _show_below(report.memory.allocator(allocator).describe(), args)
    for note in _notes(report):
        print_message(f"note: {note}")


def made_by(argv: Sequence[str], usual: str) -> str:
    """Return the command line that writes a page, the usual inputs if it has none, and the date."""
    inputs = [f"usual {usual}"] if usual else []
    return " · ".join([shlex.join(["costcore", *argv]), *inputs, date.today().isoformat()])


def _show_below(line: str, args: argparse.Namespace) -> None:
    """Write a line below the table; to standard error if programs read the output."""
    if args.output is None and args.format in (None, *MODES_WITH_REMARKS):
        print(line)
    else:
        print_message(line)


def show_fused(fused: FusedView, args: argparse.Namespace, options: dict[str, Any]) -> None:
    """Write a report with the bytes after fusion: its groups, or the table or file that the options ask for."""
    if args.convention is not None:
        show_counted(fused.report, args, options)
    else:
        show_view(fused.report, args, options, fused)
    if args.view == "memory":
        _show_below("the memory is that of a run without fusion", args)


def show_counted(report: Report, args: argparse.Namespace, options: dict[str, Any]) -> None:
    """Write a report as a convention counts it: two lines, or the table that the options ask for."""
    counted = report.under(args.convention)
    if asks_for_table(args):
        described = counted.describe(options["unit"], args.digits)
        show_view(counted.report, args, options)
        if args.view in (views := of_analyses()) and views[args.view].without_flops:
            _show_below(described, args)
    else:
        print(counted.describe(options["unit"], args.digits))
        for note in _notes(report):
            print_message(f"note: {note}")
    for note in counted.notes:
        print_message(f"note: {note}")


def _notes(report: Report) -> list[str]:
    """Return the notes of a report, with one line for all regrouped nodes, which can be hundreds of groups."""
    groups = Counter(regrouping.op for regrouping in report.regrouped)
    if groups.total() < 2:
        return report.notes
    counts = ", ".join(f"{op} {n}" for op, n in groups.most_common())
    line = f"regrouped {groups.total()} groups of nodes: {counts}. To list the nodes, use --output report.json."
    return [*report.trace.run.notes, line]
