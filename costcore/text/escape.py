"""Names that a model chooses, made safe to print."""

from __future__ import annotations

MAX_CELL_LENGTH = 400
"""The maximum number of characters of a cell of a boxed table, so that all columns stay on the screen."""


def printable(text: str) -> str:
    """Return ``text`` with control characters, bidirectional marks and other unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str) -> str:
    """Return ``text`` truncated to :data:`MAX_CELL_LENGTH` characters."""
    return text if len(text) <= MAX_CELL_LENGTH else text[: MAX_CELL_LENGTH - 1] + "…"


def escaped(text: str) -> str:
    """Return ``text`` escaped for a table cell or a list item of Markdown."""
    text = printable(text.replace("\n", " ").replace("\r", " ").replace("\\", "\\\\"))
    return text.replace("|", "\\|").replace("`", "\\`").replace("*", "\\*").replace("<", "&lt;")
