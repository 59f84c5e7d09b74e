"""``costcore conventions``: list the conventions."""

from __future__ import annotations

import argparse

from costcore.analyses.conventions.catalog import conventions, named
from costcore.analyses.conventions.convention import Convention
from costcore.cli.listing import add_listing_output, write_list, write_one
from costcore.cli.options import command_parser
from costcore.cli.running import command
from costcore.tables.table import Table
from costcore.text.table import Column

COLUMNS = (
    *(Column("name", "Name"), Column("tool", "Tool"), Column("unit", "Unit"), Column("says", "It says")),
    *(Column("rules", "# Rules", "count"), Column("description", "What it counts")),
)

DROPPED_FIRST = ("says", "rules", "tool", "unit")
"""The columns that a narrow terminal does without, in this order."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore conventions",
        "[NAME]",
        "List the counting conventions that --convention takes, or the rules of one of them.",
        "exit codes: 0 success, 1 a convention cannot be read, 2 usage error",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="a convention, or a .toml file with rules")
    add_listing_output(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    return write_list(_known(), args) if args.name is None else write_one(rules(named(args.name)), args)


def _known() -> Table:
    rows = [
        {
            **{key: getattr(each, key) for key in ("name", "unit", "description")},
            "tool": each.label,
            "says": each.calls_it,
            "rules": each.n_rules,
        }
        for each in conventions().values()
    ]
    return Table("Conventions", COLUMNS, rows, dropped_first=DROPPED_FIRST)


def rules(convention: Convention) -> Table:
    """Return the rules of a convention, one a row."""
    rows = []
    for each in convention.counts:
        others = {} if each.default is None else {"every other": each.default}
        rows += [
            {"by": each.by, "key": key, "rule": expression.text} for key, expression in {**each.rules, **others}.items()
        ]
    columns = [Column("by", "By"), Column("key", "Rule for"), Column("rule", convention.unit)]
    return Table(convention.label, columns, rows)
