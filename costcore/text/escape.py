"""Names that a model chooses, made safe to print."""

from __future__ import annotations

import re
from typing import Any

MAX_CELL_LENGTH = 400
"""The maximum number of characters of a cell of a boxed table, so that all columns stay on the screen."""

_MARKUP = re.compile(r"[|`*$]|(?<=\])\(|(?<=~)~|(?<!\w)_(?=\w)")
"""What Markdown reads as the end of a cell, code, emphasis, mathematics, a link or struck text."""

_COMMAND = re.compile(r"##(?=\[|vso\[)")
"""The beginning of a command, anywhere in a line."""

_LATEX = {
    **{c: "\\" + c for c in "_{}$%#& "},
    "\\": r"\backslash{}",
    **{c: rf"\char{ord(c)}{{}}" for c in "^~\"'`"},
}


def printable(text: str) -> str:
    r"""Return ``text`` with control characters, bidirectional marks and other unprintable characters escaped.

    What a line of output would tell a runner of GitHub Actions or Azure Pipelines to do is escaped too.

    >>> print(printable("::error::a\n::error::b ##[add-mask]c"))
    \x3a:error::a\n::error::b \x23#[add-mask]c
    """
    if text.isprintable():
        if "::" not in text and "##" not in text:
            return text
    else:
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    text = _COMMAND.sub(r"\\x23#", text)
    return text.replace("::", r"\x3a:", 1) if text.lstrip().startswith("::") else text


def json_text(content: Any, indent: int | None = 2) -> str:
    """Return a value as JSON for a stream: what no encoding has, and what a runner reads as a command, is escaped."""
    import json

    text = json.dumps(content, indent=indent, ensure_ascii=False)
    if "##" in text:
        text = _COMMAND.sub(r"\\u0023#", text)
    return text.encode("utf-8", "backslashreplace").decode()


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
