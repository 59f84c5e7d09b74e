"""``costcore conformance BUILDERS``: check a frontend against layers and networks of known cost."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from costcore.api.load_model import check_target, load_object
from costcore.api.user_code import module_search_path
from costcore.cli.exit_codes import FAILURE, SUCCESS
from costcore.cli.listing import add_listing_output, write_list
from costcore.cli.options import add_python_path, command_parser
from costcore.cli.running import command, print_message
from costcore.errors import CostError
from costcore.studies.conformance.kit import DIFFERS, EQUAL, MISSING, Conformance

EPILOG = """example:
  costcore conformance tests/layers.py:BUILDERS

BUILDERS is a mapping of names of rows to functions without arguments that return the report of this layer or network,
{"relu": lambda: estimate(relu, (2, 3, 4, 4))}. Rows without a builder are listed as not built.

exit codes: 0 all rows that are built are equal, 1 some differ, or an error, 2 usage error"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of the command."""
    parser = command_parser(
        "costcore conformance",
        "BUILDERS",
        "Compare the layers and networks that a frontend builds with costs worked out by hand, and those of PyTorch.",
        EPILOG,
    )
    parser.add_argument("builders", metavar="BUILDERS", help="package.module:BUILDERS or file.py:BUILDERS")
    add_python_path(parser)
    add_listing_output(parser)
    return parser


@command(build_parser)
def main(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    with module_search_path(args.python_path, args.builders):
        check_target(args.builders)
        builders = load_object(args.builders)
        if not isinstance(builders, Mapping):
            raise CostError(f"{args.builders} is not a mapping of names to functions (got {type(builders).__name__})")
        found = Conformance(builders)
    write_list(found.table, args)
    counts = (f"{sum(each.state == state for each in found.outcomes)} {state}" for state in (EQUAL, DIFFERS, MISSING))
    print_message(f"costcore: {', '.join(counts)}")
    return FAILURE if found.differences else SUCCESS
