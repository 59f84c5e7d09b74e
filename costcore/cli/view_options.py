"""Which view the flags ask for, whether they belong together, and the options of the view."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from costcore.analyses.registered import analyses
from costcore.cli.models import record_needed
from costcore.cli.options import (
    format_of,
    names_in,
    unit_of,
)
from costcore.cli.view_flags import DEFAULT_DIGITS, DEFAULT_FORMAT, DEFAULT_UNIT, suffixes
from costcore.cli.views import COLUMNS_OF_VIEWS, OF_PARTS, flag_of_view, given_flags, of_analyses, shown_by
from costcore.ledger.checks import check_depth, check_top
from costcore.messages import unknown
from costcore.reports.data.table_of_report import check_parts
from costcore.tables.columns import (
    choose,
    with_quantities,
)
from costcore.tables.quantities import is_quantity, needed_options, quantity
from costcore.text.units import check_digits

MODES_OF_OVERVIEW = ("color", "md", "table")
"""The formats of an overview: Markdown, and the same text for both others."""


def options_of_view(args: argparse.Namespace) -> dict[str, Any]:
    """Check the arguments for the output before a model is loaded, and return the options of the view.

    Raises:
        TypeError, ValueError: if an argument is invalid.
    """
    name = args.view = _view(args)
    _check_flags(args, name)
    keys = _keys(args) if name in ("by", "run") else []
    options: dict[str, Any] = {"keys": keys, "top": args.top, "n_digits": args.digits, "unit": unit_of(args)}
    view = of_analyses().get(name)
    if view is None or not view.order:
        options["sort"] = args.sort
    if name in ("tree", "by"):
        options["depth"] = args.depth
    if view is not None:
        options |= {flag.lstrip("-").replace("-", "_"): value for flag, value in given_flags(args, view).items()}
        options["top"] = view.top if args.top is None else args.top
    beside = {**COLUMNS_OF_VIEWS, **{each: found.beside for each, found in of_analyses().items()}}
    if args.columns not in (None, ["default"]):
        options["columns"] = _columns(args.columns, name)
    elif args.by is not None and (chosen := next((each for each in beside if getattr(args, each)), None)):
        options["columns"] = beside[chosen]
    if args.top is not None and args.sort is None and name in (*OF_PARTS, "fused"):
        options["sort"] = _usual_order(args, options.get("columns", ()))
    return options


def _usual_order(args: argparse.Namespace, columns: Sequence[str]) -> str:
    """Return the column that the first rows are the largest by: the first amount of those asked for, else FLOPs."""
    amounts = (name for name in columns if is_quantity(name) and quantity(name).is_number)
    return next(amounts, "flops" if args.fusion is None else "mrw")


def _keys(args: argparse.Namespace) -> list[str]:
    return [key.strip() for key in args.by.split(",")]


def record_what_columns_need(args: argparse.Namespace, options: Mapping[str, Any]) -> None:
    """Turn on what the quantities in the columns need of the run, if its frontend has it."""
    names = [*options.get("columns", ()), *([] if args.sort is None else [args.sort])]
    known = shown_by(args.view).columns
    needs = needed_options(name for name in names if name not in known and (known or is_quantity(name)))
    needs |= analyses()[args.view].needs if args.view in of_analyses() else {}
    record_needed(args, needs, args.model)


def _check_flags(args: argparse.Namespace, name: str) -> None:
    """Check that every flag applies to the view of that name, and its value.

    Raises:
        TypeError, ValueError: if one does not.
    """
    views = of_analyses()
    for other, view in views.items():
        if other != name and (given := [*given_flags(args, view)]):
            raise ValueError(f"{given[0]} requires {flag_of_view(other)}")
    if args.by is not None:
        _check_parts(args)
    elif args.depth is not None and name != "tree":
        raise ValueError("--depth requires --tree or --by module: rows of other views are not nested")
    if args.fusion is not None and name in views and views[name].is_of_original:
        raise ValueError(f"--fusion cannot be used with {flag_of_view(name)}, which fusion does not change")
    if name == "overview":
        _check_flags_of_overview(args)
    if args.sort is not None and name in views and views[name].order:
        raise ValueError(f"--sort cannot be used with {flag_of_view(name)}, {views[name].order}")
    if args.sort is not None:
        _check_columns(name, [args.sort])
    check_depth(args.depth)
    check_top(args.top)
    check_digits(args.digits)
    format_of(args, DEFAULT_FORMAT, suffixes())


def _check_parts(args: argparse.Namespace) -> None:
    """Check the parts of ``--by``, and that the view has columns for them.

    Raises:
        ValueError: if one is unknown, or if the rows of the view are something else.
    """
    reasons = {"overview": "it shows totals and types; leave out one of them"}
    for view, rows in {**reasons, **{name: each.rows for name, each in of_analyses().items()}}.items():
        if rows and getattr(args, view):
            raise ValueError(f"{flag_of_view(view)} cannot be used with --by: {rows}")
    try:
        check_parts(_keys(args), args.depth)
    except ValueError as error:
        raise ValueError(f"--by: {error}") from error


def _check_columns(view: str, names: Sequence[str]) -> None:
    """Check the names of columns of a view: rows that are parts of a run have all quantities.

    Raises:
        ValueError: if a name is unknown. A view that states no columns knows them when its result is there.
    """
    columns = shown_by(view).columns
    if view in OF_PARTS:
        with_quantities(columns, names)
    elif columns:
        choose(columns, names)


def _check_flags_of_overview(args: argparse.Namespace) -> None:
    """Check that no option is given that changes a table.

    Raises:
        ValueError: if one is.
    """
    flags = ("columns", "sort", "top", "fusion", "convention", "output")
    if given := [f"--{flag}" for flag in flags if getattr(args, flag) is not None]:
        raise ValueError(f"{', '.join(given)} cannot be used with --overview")
    if args.format not in (None, *MODES_OF_OVERVIEW):
        raise ValueError(f"--overview: {unknown('format', args.format, MODES_OF_OVERVIEW)}")


def _columns(texts: Sequence[str], view: str) -> list[str]:
    """Return the names of the columns that ``--columns`` asks for.

    Raises:
        ValueError: if a name is unknown.
    """
    names, sets = names_in(texts), shown_by(view).column_sets
    if sets is None:
        return names
    percent = getattr(sets, "DEFAULT_AND_PERCENT", sets.DEFAULT)
    by_name = {"default": sets.DEFAULT, "percent": percent, "all": sets.ALL}
    columns = [*dict.fromkeys(column for name in names for column in by_name.get(name, [name]))]
    _check_columns(view, columns)
    return columns


def _view(args: argparse.Namespace) -> str:
    if args.by is not None:
        return {"call": "report", "tree": "tree", "run": "run"}.get(args.by.strip(), "by")
    names = ("overview", "summary", "layers", "tree", *of_analyses())
    for name in names:
        if getattr(args, name):
            return name
    if args.calls or args.convention is not None:
        return "report"
    if args.fusion is not None:
        return "fused"
    is_plain = (args.unit, args.digits) == (DEFAULT_UNIT, DEFAULT_DIGITS) and not _has_table_options(args)
    return "overview" if sys.stdout.isatty() and is_plain else "report"


def asks_for_table(args: argparse.Namespace) -> bool:
    """Return whether an option asks for a table: its rows, columns, format or file."""
    return args.view != "report" or args.calls or _has_table_options(args)


def _has_table_options(args: argparse.Namespace) -> bool:
    """Return whether an option is for the rows, the columns, the format or the file of a table."""
    given = (args.columns, args.sort, args.top, args.format, args.output)
    return any(value is not None for value in given)
