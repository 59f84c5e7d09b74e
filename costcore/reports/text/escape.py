"""Names that a model chooses, made safe to print."""

from __future__ import annotations

LONGEST_CELL = 400
"""Longer text is truncated in boxed tables, so that it does not push the other columns off the screen (characters)."""


def printable(text: str) -> str:
    """Return ``text`` with control characters, bidirectional marks and other unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str) -> str:
    """Return ``text`` truncated to :data:`LONGEST_CELL` characters."""
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def escaped(text: str) -> str:
    """Return ``text`` escaped for a table cell or a list item of Markdown."""
    text = printable(text.replace("\n", " ").replace("\r", " ").replace("\\", "\\\\"))
    return text.replace("|", "\\|").replace("`", "\\`").replace("*", "\\*").replace("<", "&lt;")
