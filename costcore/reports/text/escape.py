"""Text of a model made safe to print."""

from __future__ import annotations

LONGEST_CELL = 400
"""Longer text is cut in boxes, where it would push everything else off the screen (characters)."""


def printable(text: str) -> str:
    """``text`` with control characters, direction marks and other unprintables spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str) -> str:
    """``text`` as far as a box takes it."""
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def escaped(text: str) -> str:
    """``text`` as it can stand in a cell or a line of Markdown."""
    text = printable(text.replace("\n", " ").replace("\r", " ").replace("\\", "\\\\"))
    return text.replace("|", "\\|").replace("`", "\\`").replace("*", "\\*").replace("<", "&lt;")
