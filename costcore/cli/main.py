"""The command line: the dispatch to its commands. It imports little, as an interrupted import has a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from costcore.cli.commands import named
from costcore.cli.encoding import never_fail
from costcore.cli.exit_codes import FAILURE, INTERRUPTED
from costcore.errors import CostError

REPORT = "costcore.cli.report:main"
"""The function that runs ``costcore MODEL``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Invalid input does not cause a traceback."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        never_fail()
        command = named(argv[0]) if argv else None
        module, _, function = (REPORT if command is None else command.path).partition(":")
        return int(getattr(import_module(module), function)(argv if command is None else argv[1:]))
    except CostError as error:  # a broken plug-in: the parser needs the renderers and frontends of plug-ins
        from costcore.cli.running import print_message

        print_message(f"costcore: {error}")
        return FAILURE
    except KeyboardInterrupt:
        print("costcore: interrupted", file=sys.stderr)
        return INTERRUPTED
