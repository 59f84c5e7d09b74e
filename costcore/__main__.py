"""The command line as a process of its own, ``costcore`` or ``python -m costcore``."""

import gc
import sys

from costcore.isolated import isolated_path

TYPE_CHECKING = False  # importing `typing` could import it from the current folder
if TYPE_CHECKING:
    from collections.abc import Sequence

NEW_OBJECTS = 200_000
"""New objects before the garbage collector looks for cycles among them; Python's 700 would scan imports repeatedly."""

REPORTS_LEAKS = "triton"
"""A module that prints a warning of every object of its own that is left when the process ends."""


def run(argv: "Sequence[str] | None" = None) -> int:
    """Run the command of this process, whose arguments are ``argv``, and return its exit code."""
    gc.set_threshold(NEW_OBJECTS)
    from costcore.cli.main import main  # its imports make many objects

    try:
        return main(argv)
    finally:
        if REPORTS_LEAKS not in sys.modules:
            gc.freeze()  # the process ends: Python would search all its objects for cycles once more


if __name__ == "__main__":
    # `python -m` searches the current folder first, where files of other people may be. A target of code adds it again.
    sys.path[:] = isolated_path()
    sys.exit(run())
