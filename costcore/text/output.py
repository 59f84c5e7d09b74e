"""Write text: names of models made safe to print, replacements in narrow encodings, and files replaced atomically."""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeAlias

from costcore.errors import error_text

# Names of models, made safe to print.


MAX_CELL_LENGTH = 400
"""The maximum number of characters of a cell of a boxed table, so that all columns stay on the screen."""

_MARKUP = re.compile(r"[|`*$]|(?<=\])\(|(?<![^\W_])_(?=\w)")
"""Characters that Markdown reads as the end of a cell, code, emphasis, mathematics or a link."""

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
    """Return a value as JSON for a stream; surrogates, and commands of runners, are escaped."""
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
    text = _MARKUP.sub(r"\\\g<0>", text).replace("<", "&lt;")
    return text.replace("~~", "&#126;&#126;")  # struck text, of which not every dialect has the escape


def latex_text(text: str) -> str:
    r"""Return ``text`` as it is written in LaTeX's math mode.

    >>> print(latex_text("a_b^2 {100%}"))
    a\_b\char94{}2\ \{100\%\}
    """
    return "".join(_LATEX.get(c, c) for c in printable(text))


_LATEX_TEXT = {
    **{c: "\\" + c for c in "_{}$%#&"},
    "\\": r"\textbackslash{}",
    **{c: rf"\char{ord(c)}{{}}" for c in '^~"<>|'},
    "×": r"$\times$",
    "…": r"\dots{}",
    "→": r"$\to$",
    "−": "$-$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "µ": r"\textmu{}",
}


def latex_cell(text: str) -> str:
    r"""Return ``text`` as it is written in a cell of a LaTeX table.

    >>> print(latex_cell("a_b 50% → 7"))
    a\_b 50\% $\to$ 7
    """
    return "".join(_LATEX_TEXT.get(c, c) for c in printable(text))


# Encodings without box drawing, arrows and bars (ASCII, Windows' cp1252).


ASCII = {"├": "|", "└": "`", "│": "|", "─": "-", "→": ">", "−": "-", "×": "x", "·": "*", "±": "+-", "µ": "u", "…": "~"}
"""The replacements of characters in costcore's own texts."""

BARS = range(0x2581, 0x2590)
"""The blocks of bars."""

HANDLER = "costcore.ascii"
"""The name of the error handler, as ``errors=`` of a stream."""


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join("#" if ord(c) in BARS else ASCII.get(c, "?") for c in characters), error.end


codecs.register_error(HANDLER, _replace_unencodable)


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


# Files, written atomically, and streams.


Target: TypeAlias = "str | PathLike[str] | IO[str] | None"


def save(text: str, target: Target) -> str:
    """Write ``text`` to a path or a stream, if ``target`` is not None, and return it.

    A file is replaced atomically: a program that reads it meanwhile sees either the old or the new content.

    Raises:
        TypeError: if ``target`` is neither a path nor a stream.
        OSError: if the path cannot be written.
    """
    if isinstance(target, (str, PathLike)):
        _write_file(Path(target).resolve(), text)
    elif target is not None:
        stream = writable(target)
        stream.write(encodable(text, stream))
    return text


def writable(stream: IO[str]) -> IO[str]:
    """Return ``stream``, if it has a method ``write``.

    Raises:
        TypeError: if it does not.
    """
    if not hasattr(stream, "write"):
        raise TypeError(f"expected a path or a stream to write to (got {stream!r})")
    return stream


def _write_file(path: Path, text: str) -> None:
    import secrets  # imports OpenSSL

    is_replaced = path.is_file() or not path.exists()  # a pipe or a terminal cannot be replaced
    written = path.with_name(f".{secrets.token_hex(8)}.tmp") if is_replaced else path
    try:
        written.write_text(text, encoding="utf-8", newline="\n", errors="backslashreplace")
        if is_replaced and path.exists():  # a report that others may not read stays so
            written.chmod(path.stat().st_mode & 0o7777)
        if is_replaced:
            written.replace(path)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error_text(error)}") from error
    finally:
        if is_replaced:
            with suppress(OSError):  # a folder that cannot be written, whose error is above
                written.unlink(missing_ok=True)


def save_output(show: Callable[[IO[str]], None], target: Target) -> str:
    """Return the text that ``show`` writes to a stream, and write it to ``target`` if given."""
    out = StringIO()
    show(out)
    return save(out.getvalue(), target)
