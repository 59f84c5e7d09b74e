"""Output in an encoding that lacks the characters of trees, bars and figures: ASCII ones are written instead."""

from __future__ import annotations

import codecs
import io
import sys

ASCII = {"├": "|", "└": "`", "│": "|", "─": "-", "→": ">", "−": "-", "×": "x", "·": "*", "±": "+-", "µ": "u", "…": "~"}
"""The characters that replace those of tables."""

BARS = range(0x2581, 0x2590)
"""The blocks of which bars consist."""

HANDLER = "costcore.ascii"


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Return what is written in place of the characters that cannot be encoded, and the position after them."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join("#" if ord(c) in BARS else ASCII.get(c, "?") for c in characters), error.end


def never_fail() -> None:
    """Let standard output write every character, unless the user chose what happens to those that it lacks."""
    codecs.register_error(HANDLER, _replace)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors=HANDLER)
