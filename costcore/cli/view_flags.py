"""The flags of ``costcore MODEL`` for its view: rows, columns, numbers and the file."""

from __future__ import annotations

import argparse

from costcore.cli.options import (
    add_convention,
    add_digits,
    add_fusion,
    add_unit,
)
from costcore.cli.views import flag_of_view, of_analyses
from costcore.reports.data.table_of_report import PARTS
from costcore.reports.exports import by_suffix
from costcore.tables.renderers import renderers

TABLES = (".csv", ".md")
"""The suffixes of ``--output`` that write the table of the view; those of the exports write the complete report."""


DEFAULT_FORMAT, DEFAULT_UNIT, DEFAULT_DIGITS = "color", "autoaligned", 3


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the view of the report."""
    view = parser.add_mutually_exclusive_group()
    view.add_argument(
        "--overview",
        action="store_true",
        help="the totals and the types of operators with the most FLOPs; the default in a terminal",
    )
    view.add_argument("--calls", action="store_true", help="one row per operator call; the default elsewhere")
    view.add_argument("--summary", action="store_true", help="one row per type of operator")
    view.add_argument("--layers", action="store_true", help="one row per operator call, in torchstat's format")
    view.add_argument("--tree", action="store_true", help="the module hierarchy, one row per module")
    for name, each in of_analyses().items():
        view.add_argument(flag_of_view(name), action="store_true", help=each.help)
    parser.add_argument(
        "--by",
        metavar="PARTS",
        help=f"what the rows are: {', '.join(PARTS)}, or several keys (module,op); a view then chooses the columns",
    )
    parser.add_argument(
        "--depth", type=int, metavar="N", help="maximum depth of --tree or of --by module; default: no limit"
    )
    for name, each in of_analyses().items():
        for flag, how in each.arguments.items():
            parser.add_argument(flag, **{**how, "help": f"{flag_of_view(name)}: {how['help']}"})


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the rows, columns, numbers and format of the view."""
    parser.add_argument(
        "--sort",
        metavar="COLUMN",
        help="sort by a column, numbers from the largest, text alphabetically; default: execution order; with --top "
        "the first amount in --columns, else FLOPs",
    )
    parser.add_argument(
        "--top", type=int, metavar="N", help="maximum number of rows (in --tree: per module); the others are summed"
    )
    parser.add_argument(
        "--columns",
        action="append",
        metavar="NAMES",
        help="quantities separated by commas, such as macs,flops@fvcore,bound_seconds@l4 (costcore.quantities() lists "
        "them), or default, percent, all",
    )
    add_convention(parser)
    add_fusion(parser)
    add_unit(parser)
    add_digits(parser, DEFAULT_DIGITS)
    parser.add_argument(
        "--format",
        choices=sorted(renderers()),
        help="with all rows; default: a table of at most 40 lines, in color if the terminal supports it",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help=f"write to FILE, in the format of its suffix: {', '.join(suffixes())} (.json, .html: the complete report)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a call is not counted, or if something is assumed"
    )


def suffixes() -> list[str]:
    """Return the suffixes of the files that ``--output`` writes."""
    return [*by_suffix(), *TABLES]
