"""Output in encodings without box drawing, arrows and bars (ASCII, Windows' cp1252): ASCII characters replace them."""

from __future__ import annotations

import codecs
import io
import sys
from typing import IO

from costcore.text.table import TextTable

ASCII = {"├": "|", "└": "`", "│": "|", "─": "-", "→": ">", "−": "-", "×": "x", "·": "*", "±": "+-", "µ": "u", "…": "~"}
"""The replacements of characters that costcore itself writes."""

BARS = range(0x2581, 0x2590)
"""The blocks of bars."""

HANDLER = "costcore.ascii"
"""The name of the error handler, as ``errors=`` of a stream."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join("#" if ord(c) in BARS else ASCII.get(c, "?") for c in characters), error.end


codecs.register_error(HANDLER, _replace)


def never_fail() -> None:
    """Let standard output replace characters that it cannot encode, unless the user chose another error handler."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors=HANDLER)


def encodable(text: str, stream: IO[str] | None = None) -> str:
    """Return ``text`` with replacements for the characters that a stream would raise ``UnicodeEncodeError`` for.

    Args:
        text: the text.
        stream: where it is written; default: standard output.
    """
    stream = sys.stdout if stream is None else stream
    encoding, errors = getattr(stream, "encoding", None), getattr(stream, "errors", None)
    if not isinstance(encoding, str) or errors not in ("strict", HANDLER):
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode(encoding, HANDLER).decode(encoding)
    return text


def encodable_table(table: TextTable, stream: IO[str]) -> TextTable:
    """Return a table with replacements in its cells.

    Markdown escapes cells afterwards: the branches of an ASCII tree contain ``|``, which ends a cell.
    """
    rows = [[encodable(cell, stream) for cell in row] for row in table.rows]
    return table if rows == table.rows else table._replace(rows=rows)
