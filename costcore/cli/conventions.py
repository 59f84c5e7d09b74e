"""``costcore conventions``: the known counting conventions, or the rules of one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from costcore.analyses.conventions.catalog import conventions, named
from costcore.analyses.conventions.convention import Convention
from costcore.cli.exit_codes import SUCCESS
from costcore.cli.options import add_output, command_parser, format_of
from costcore.cli.running import run_command, write_output, write_text
from costcore.tables.renderers import rendered, renderers
from costcore.tables.show import show_text
from costcore.text.table import TextTable

FILES = (".csv", ".md")
"""Suffixes of the file of ``--output``."""

DROPPED_FIRST = ("It says", "# Rules", "Tool", "Unit")
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
    add_output(parser, [*renderers()], "table", FILES)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(build_parser(), argv, _list)


def _list(args: argparse.Namespace) -> int:
    mode = format_of(args, "table", FILES)
    if args.name is None:
        write_output(lambda out: show_text(_known(), out, mode, DROPPED_FIRST), args.output)
    else:
        write_text(rendered(rules(named(args.name)), mode), args.output)
    return SUCCESS


def _known() -> TextTable:
    """Return all conventions, one a row."""
    titles = ["Name", "Tool", "Unit", "It says", "# Rules", "What it counts"]
    rows = [
        [each.name, each.label, each.unit, each.calls_it, str(each.n_rules), each.description]
        for each in conventions().values()
    ]
    return TextTable([(title, "") for title in titles], rows, [title == "# Rules" for title in titles])


def rules(convention: Convention) -> TextTable:
    """Return the rules of a convention, one a row."""
    rows = []
    for each in convention.counts:
        rows += [[each.by, key, expression.text] for key, expression in each.rules.items()]
        if each.default is not None:
            rows.append([each.by, "every other", each.default.text])
    return TextTable([("By", ""), ("Rule for", ""), (convention.unit, "")], rows, [False] * 3)
