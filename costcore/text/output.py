"""Write text: a screen with tables, names made safe to print, narrow encodings, and files replaced atomically."""

from __future__ import annotations

import codecs
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from costcore.errors import error_text

# Names of models, made safe to print.


MAX_CELL_LENGTH = 400
"""The maximum number of characters of a cell of a boxed table, so that all columns stay on the screen."""

_MARKUP = re.compile(r"[|`*$]|(?<=\])\(|(?<![^\W_])_(?=\w)")
"""Characters that Markdown reads as the end of a cell, code, emphasis, mathematics or a link."""

_COMMAND = re.compile(r"##(?=\[|vso\[)")
"""The start of a workflow command, anywhere in a line."""

_LATEX = {
    **{c: "\\" + c for c in "_{}$%#& "},
    "\\": r"\backslash{}",
    **{c: rf"\char{ord(c)}{{}}" for c in "^~\"'`"},
}


def printable(text: str) -> str:
    r"""Return ``text`` with control characters, bidirectional marks and other unprintable characters escaped.

    Workflow commands of GitHub Actions and Azure Pipelines are escaped too.

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
    """Return a value as JSON for a stream; surrogates and workflow commands are escaped."""
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
    return text.replace("~~", "&#126;&#126;")  # strikethrough: not every dialect has an escape for it


def latex_text(text: str) -> str:
    r"""Return ``text`` escaped for LaTeX's math mode.

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
    r"""Return ``text`` escaped for a cell of a LaTeX table.

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


ESCAPED = "surrogateescape"
"""The error handler of standard output in the locale C: it writes undecodable bytes of file names, and raises an error
for all other characters that the encoding lacks."""


def encodable(text: str, stream: IO[str] | None = None) -> str:
    """Return ``text`` with replacements for the characters that a stream cannot encode.

    Args:
        text: the text.
        stream: where it is written; default: standard output.
    """
    stream = sys.stdout if stream is None else stream
    encoding, errors = getattr(stream, "encoding", None), getattr(stream, "errors", None)
    if not isinstance(encoding, str) or errors not in ("strict", ESCAPED, HANDLER):
        return text
    try:
        text.encode(encoding, ESCAPED if errors == ESCAPED else "strict")
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
        save_bytes(text.encode("utf-8", "backslashreplace"), target)
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


def save_bytes(content: bytes, target: str | PathLike[str]) -> None:
    """Replace a file atomically, as :func:`save`.

    Raises:
        OSError: if it cannot be written.
    """
    save_pieces((content,), target)


def save_pieces(pieces: Iterable[bytes], target: str | PathLike[str]) -> None:
    """Replace a file atomically by pieces that are written one after the other, as :func:`save`.

    Raises:
        OSError: if it cannot be written.
    """
    import secrets  # imports OpenSSL

    path = Path(target).resolve()
    is_replaced = path.is_file() or not path.exists()  # a pipe or a terminal cannot be replaced
    written = path.with_name(f".{secrets.token_hex(8)}.tmp") if is_replaced else path
    try:
        with written.open("wb") as file:
            file.writelines(pieces)
        if is_replaced and path.exists():  # keep its permissions: a private report stays private
            written.chmod(path.stat().st_mode & 0o7777)
        if is_replaced:
            written.replace(path)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error_text(error)}") from error
    finally:
        if is_replaced:
            with suppress(OSError):  # if the folder is not writable; that error is raised above
                written.unlink(missing_ok=True)


def save_output(show: Callable[[IO[str]], None], target: Target) -> str:
    """Return the text that ``show`` writes to a stream, and write it to ``target`` if given."""
    out = StringIO()
    show(out)
    return save(out.getvalue(), target)


# Text on a screen of 40 lines, and tables as text.
#
# A :class:`Column` says how values are written; a renderer gets a :class:`RenderedTable`, which is all text.


HEIGHT = 40
"""The maximum number of lines."""

WIDTH = 80
"""The width of a pipe or a file (characters)."""

MOST_COLUMNS = 10_000
"""A larger ``COLUMNS`` is an error."""

NOT_TEXT = ("+", "|", "\x1b", "┏", "┃", "┡", "│", "└", "├", "╭", "╰")
"""The first characters of lines of tables: these are not wrapped, as tables fit themselves to :attr:`Screen.width`."""


class Screen(io.TextIOBase):
    """A stream of at most :data:`HEIGHT` lines that wraps sentences in a terminal.

    In a pipe a sentence stays one line, so that programs find it.

    Attributes:
        width: characters per line: of the terminal; in a pipe ``COLUMNS`` of the environment, or :data:`WIDTH`.
        is_cut: whether a table has shown only some of its rows; :meth:`finish` then says how to see all.

    Args:
        stream: where the lines go.
        hint: how to see all, ``--format table``.
    """

    width: int

    def __init__(self, stream: IO[str], hint: str) -> None:
        super().__init__()
        self._stream, self._hint = stream, hint
        self.width = shutil.get_terminal_size().columns if stream.isatty() else _width_of_pipe()
        self._longest = self.width if stream.isatty() else sys.maxsize
        self.is_cut = False
        self._begun, self._lines, self._written = "", list[str](), 0

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a property of every text stream, a variable in typeshed
        """The encoding of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether the lines go to a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self._stream.fileno()

    @property
    def room(self) -> int:
        """The number of remaining lines."""
        return HEIGHT - self._written - len(self._lines)

    def write(self, text: str) -> int:
        """Buffer text until :meth:`flush` writes its lines."""
        *lines, self._begun = f"{self._begun}{text}".split("\n")
        self._lines += [part for line in lines for part in wrapped(line, self._longest)]
        return len(text)

    def flush(self) -> None:
        """Write the lines so far, except the last that fits: :meth:`finish` may need its place."""
        self._write(HEIGHT - 1 - self._written)

    def finish(self) -> None:
        """Write the remaining lines, or one line that says how to see them."""
        self._lines += wrapped(self._begun, self._longest) if self._begun else []
        hidden = len(self._lines) - self.room_after_hint()
        if hidden > 0:
            self._write(HEIGHT - 1 - self._written)
            self._stream.write(f"… {len(self._lines)} more lines: {self._hint} shows all\n")
        else:
            self._write(len(self._lines))
            if self.is_cut:
                self._stream.write(f"… not all rows are shown: {self._hint} shows all\n")
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: Python closes an unused screen, whose stream may be in use or closed already."""

    def room_after_hint(self) -> int:
        """Return the number of lines that fit, besides the hint if a table needs it."""
        return HEIGHT - self._written - self.is_cut

    def _write(self, n: int) -> None:
        shown = self._lines[: max(n, 0)]
        self._stream.write("".join(f"{line}\n" for line in shown))
        del self._lines[: len(shown)]
        self._written += len(shown)
        self._stream.flush()


def _width_of_pipe() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and 0 < int(given) < MOST_COLUMNS else WIDTH


def wrapped(line: str, width: int) -> list[str]:
    """Wrap a line of text at ``width`` characters; further lines have two more spaces of indentation.

    Lines of tables and longer words are not wrapped.
    """
    if len(line) <= width or line.startswith(NOT_TEXT):
        return [line]
    start = len(line) - len(line.lstrip())
    indent = " " * (start + 2)
    return textwrap.wrap(
        line[start:],
        width,
        initial_indent=line[:start],
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


# Tables for renderers: columns, and cells as text.


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        key: the key of its values in the entries of a report.
        title: the text above it.
        kind: how its values are formatted: ``text``, ``count`` (whole numbers), ``flops`` and ``bytes`` (with a unit
            prefix), ``percent``, ``seconds`` (printed as milliseconds), ``duration`` (seconds, with a unit prefix),
            ``ratio``, ``shape``, ``shapes``, ``attributes`` or ``names``.
        certainty: ``exact``, ``bound``, ``calibrated`` or ``measured``.
        unit: the text below the title; by default, it follows from the kind.
    """

    key: str
    title: str
    kind: str = "text"
    certainty: str = "exact"
    unit: str = ""


class RenderedTable(NamedTuple):
    """A table for a renderer; all cells are text.

    Attributes:
        titles: title and unit of each column; the unit can be empty.
        rows: the cells, row by row.
        numeric: for each column, whether it holds numbers.
        shares: for each row, its share of the total FLOPs in percent; None if it is not a number.
        total: index of the row with the total; None if there is none.
        is_tree: whether rows are nested by indentation, which lines between the rows would interrupt.
        width: the width of the terminal in characters; None if there is none, or if columns were chosen.
        unit: the unit of the amounts behind shares: FLOPs, or the unit of another convention.
        has_lines: whether lines are drawn between the rows of boxes.
        wrap: the width at which sentences in the first column of boxes are wrapped; None to keep them on one line.
        wraps: the width at which formulas are wrapped, by the index of their column.
    """

    titles: list[tuple[str, str]]
    rows: list[list[str]]
    numeric: list[bool]
    shares: Sequence[float | None] = ()
    total: int | None = -1
    is_tree: bool = False
    width: int | None = None
    unit: str = "FLOPs"
    has_lines: bool = False
    wrap: int | None = None
    wraps: Mapping[int, int] = {}


Renderer: TypeAlias = "Callable[[RenderedTable], str]"
