"""Names that a model chooses, made safe to print."""

from __future__ import annotations

import re

MAX_CELL_LENGTH = 400
"""The maximum number of characters of a cell of a boxed table, so that all columns stay on the screen."""

_MARKUP = re.compile(r"[|`*$]|(?<=\])\(|(?<=~)~|(?<!\w)_(?=\w)")
"""What Markdown reads as the end of a cell, code, emphasis, mathematics, a link or struck text."""

_LATEX = {
    **{c: "\\" + c for c in "_{}$%#& "},
    "\\": r"\backslash{}",
    **{c: rf"\char{ord(c)}{{}}" for c in "^~\"'`"},
}


def printable(text: str) -> str:
    """Return ``text`` with control characters, bidirectional marks and other unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str) -> str:
    """Return ``text`` truncated to :data:`MAX_CELL_LENGTH` characters."""
    return text if len(text) <= MAX_CELL_LENGTH else text[: MAX_CELL_LENGTH - 1] + "…"


def escaped(text: str) -> str:
    """Return ``text`` escaped for a table cell or a list item of Markdown."""
    text = printable(text.replace("\n", " ").replace("\r", " ").replace("\\", "\\\\"))
    return _MARKUP.sub(r"\\\g<0>", text).replace("<", "&lt;")


def latex_text(text: str) -> str:
    r"""Return ``text`` as it is written in LaTeX's math mode.

    >>> print(latex_text("a_b^2 {100%}"))
    a\_b\char94{}2\ \{100\%\}
    """
    return "".join(_LATEX.get(c, c) for c in printable(text))
