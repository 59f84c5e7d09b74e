"""The command ``costcore`` in the process of a test."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.cli.main import main as _main


def main(arguments: Sequence[str]) -> int:
    """Run ``costcore ARGUMENTS`` and return its exit code."""
    return _main(arguments)
