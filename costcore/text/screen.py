"""Text on a screen of 40 lines, and tables as text.

A :class:`Column` says how values are written; a renderer gets a :class:`RenderedTable`, which is all text.
"""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple, TypeAlias

HEIGHT = 40
"""The maximum number of lines."""

WIDTH = 80
"""The width of a pipe or a file (characters)."""

NOT_TEXT = ("+", "|", "\x1b", "┏", "┃", "┡", "│", "└", "├", "╭", "╰")
"""The first characters of lines of tables: these are not wrapped, as tables fit themselves to :attr:`Screen.width`."""


class Screen(io.TextIOBase):
    """A stream of at most :data:`HEIGHT` lines that wraps sentences in a terminal.

    In a pipe a sentence stays one line, so that programs find it.

    Attributes:
        width: characters per line: that of the terminal, or :data:`WIDTH`.
        is_cut: whether a table has shown only some of its rows; :meth:`finish` then says how to see all.

    Args:
        stream: where the lines go.
        hint: how to see all, ``--format table``.
    """

    width: int

    def __init__(self, stream: IO[str], hint: str) -> None:
        super().__init__()
        self._stream, self._hint = stream, hint
        self.width = shutil.get_terminal_size().columns if stream.isatty() else WIDTH
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
        """How many lines are left."""
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
        """Leave the stream as it is: Python closes a screen that is no longer used, when the stream may be closed."""

    def room_after_hint(self) -> int:
        """Return how many lines fit besides the hint, if a table needs it."""
        return HEIGHT - self._written - self.is_cut

    def _write(self, n: int) -> None:
        shown = self._lines[: max(n, 0)]
        self._stream.write("".join(f"{line}\n" for line in shown))
        del self._lines[: len(shown)]
        self._written += len(shown)
        self._stream.flush()


def wrapped(line: str, width: int) -> list[str]:
    """Return a line of text in lines of ``width`` characters, the further ones below its first word.

    Lines of tables, and words that are longer, stay whole.
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
        unit: what is written below the title; by default, what follows from the kind.
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
        unit: what the shares are of: FLOPs, or what another convention counts.
        has_lines: whether lines are drawn between the rows of boxes.
        wrap: the width at which sentences in the first column of boxes go on in the next line; None if they do not.
        wraps: the same of formulas, by the index of their column.
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
