"""The command ``costcore`` in the process of a test."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from costcore.cli.commands import OWN, commands
from costcore.cli.main import main as _main
from costcore.cli.options import parse_arguments
from costcore.cli.views import build_parser

__all__ = ["OWN", "commands", "main", "parse_arguments", "parsers"]


def main(arguments: Sequence[str]) -> int:
    """Run ``costcore ARGUMENTS`` and return its exit code."""
    return _main(arguments)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of every command by its program, ``costcore fit``."""
    found = [getattr(import_module(path.partition(":")[0]), f"{name}_parser")() for name, (*_, path) in OWN.items()]
    return {parser.prog: parser for parser in (*found, build_parser())}
