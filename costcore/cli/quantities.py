"""``costcore quantities``: list the quantities that --columns takes."""

from __future__ import annotations

import argparse

from costcore.cli.listing import add_listing_output, write_list
from costcore.cli.options import command_parser
from costcore.cli.running import command
from costcore.tables.quantity_table import quantities


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore quantities",
        "",
        "List the quantities that --columns and --sort, budgets and pictures take: name, unit, meaning and parts.",
        "exit codes: 0 success, 1 a plug-in fails, 2 usage error",
    )
    add_listing_output(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    return write_list(quantities(), args)
