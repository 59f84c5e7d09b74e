"""A command of the command line."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command, ``costcore NAME``.

    Attributes:
        name: its name, one word.
        arguments: what follows the name in the help, ``MODEL``; may be empty.
        summary: what it does, in one phrase.
        path: the import path of the function that runs it, ``package.module:main``. It takes the remaining arguments
            and returns the exit code, and is imported when the command runs.
    """

    name: str
    arguments: str
    summary: str
    path: str
