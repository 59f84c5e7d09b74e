"""Commands that list what there is, or print one of it: ``conventions``, ``devices`` and ``quantities``."""

from __future__ import annotations

import argparse

from costcore.cli.exit_codes import SUCCESS
from costcore.cli.options import add_output, format_of
from costcore.cli.running import write_output, write_text
from costcore.tables.renderers import rendered, renderers
from costcore.tables.table import Table

FILES = (".csv", ".md", ".json")
"""Suffixes of the file of ``--output``."""


def add_listing_output(parser: argparse.ArgumentParser) -> None:
    """Add ``--format`` and ``--output``."""
    add_output(parser, [*renderers(), "json"], "table", FILES)


def write_list(table: Table, args: argparse.Namespace) -> int:
    """Write a table as wide as the terminal, and return the exit code."""
    mode = format_of(args, "table", FILES)
    write_output(lambda out: table.show(out, mode), args.output)
    return SUCCESS


def write_one(table: Table, args: argparse.Namespace) -> int:
    """Write a table with all of its text, and return the exit code."""
    mode = format_of(args, "table", FILES)
    write_text(table.to_json() if mode == "json" else rendered(table.text(), mode), args.output)
    return SUCCESS
