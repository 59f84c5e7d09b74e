"""The dispatch to commands. It imports little: Ctrl-C during an import would print a traceback."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from costcore.cli import COMPLETING, FAILURE, INTERRUPTED
from costcore.cli.commands import path_of, words_to_complete
from costcore.errors import CostError, CostWarning
from costcore.text.output import never_fail

REPORT = "costcore.cli.views:main"
"""Runs ``costcore MODEL``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Invalid input does not cause a traceback."""
    argv = words_to_complete() if COMPLETING in os.environ else sys.argv[1:] if argv is None else argv
    try:
        never_fail()
        with _warnings_as_lines():
            path = path_of(argv[0]) if argv else None
            module, _, function = (path or REPORT).partition(":")
            return int(getattr(import_module(module), function)(argv if path is None else argv[1:]))
    except CostError as error:  # such as two plug-ins with one name: building a parser loads all plug-ins
        from costcore.cli.running import print_message

        print_message(f"costcore: {error}")
        return FAILURE
    except KeyboardInterrupt:
        print("costcore: interrupted", file=sys.stderr)
        return INTERRUPTED


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if not issubclass(category, CostWarning):
            return show_others(message, category, *place, **options)
        from costcore.cli.running import print_message

        print_message(f"costcore: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", CostWarning)
        show_others, warnings.showwarning = warnings.showwarning, show
        yield
