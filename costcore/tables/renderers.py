"""Tables as text: renderers (CSV, Markdown, boxes, color, HTML), and the columns that fit a terminal."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import IO, Any, NamedTuple

from costcore.errors import CostError, qualified_name, short_repr, unknown
from costcore.plugins import cached, functions_from_plugins, hookimpl, with_plugin_hint
from costcore.tables.columns import is_default, matches
from costcore.text.output import Column, RenderedTable, Renderer, Screen, escaped, latex_cell, printable, shortened


@hookimpl
def costcore_renderers() -> Mapping[str, Renderer]:
    """Return the built-in renderers, by mode."""
    return {"csv": to_csv, "md": to_markdown, "latex": to_latex, "table": to_boxes, "color": to_color}


@cached
def renderers() -> Mapping[str, Renderer]:
    """Return every registered renderer, by mode.

    Raises:
        CostError: if two renderers are registered for the same mode, or if a plug-in fails.
    """
    by_mode: dict[str, Renderer] = {}
    for registered in functions_from_plugins("costcore_renderers"):
        for mode, renderer in registered.items():
            if mode in by_mode:
                raise CostError(
                    f"mode={mode!r} has two renderers, {qualified_name(by_mode[mode])} and {qualified_name(renderer)}"
                )
            by_mode[mode] = renderer
    return by_mode


def renderer_for(mode: str) -> Renderer:
    """Return the renderer of a mode.

    Raises:
        ValueError: if the mode is unknown.
        TypeError: if it is not a string.
    """
    if not isinstance(mode, Hashable):
        raise TypeError(f"mode must be a name (got {mode!r})")
    if mode not in renderers():
        hint = ". For an HTML page use report.to_html()." if mode == "html" else ""
        raise ValueError(with_plugin_hint(unknown("mode", mode, renderers()) + hint))
    return renderers()[mode]


def rendered(table: RenderedTable, mode: str) -> str:
    """Render a table in a mode.

    Raises:
        ValueError: if the mode is unknown.
        CostError: if the renderer of a plug-in fails or does not return a string.
    """
    renderer = renderer_for(mode)
    try:
        text = renderer(table)
    except Exception as error:  # code of a plug-in can raise anything
        raise CostError(f"the renderer {qualified_name(renderer)} fails: {type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise CostError(f"the renderer {qualified_name(renderer)} must return text (got {short_repr(text)})")
    return text if text.endswith("\n") else f"{text}\n"


def to_csv(table: RenderedTable) -> str:
    """Return comma-separated values.

    Text that a spreadsheet would evaluate as a formula gets a leading apostrophe. Control characters, bidirectional
    marks and line breaks are escaped, so that every row is one line; tabs are kept.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([" ".join(filter(None, title)) for title in table.titles])
    for row in table.rows:
        writer.writerow([c if n and c.isprintable() else _plain(c, n) for c, n in zip(row, table.numeric, strict=True)])
    return out.getvalue()


def _plain(cell: str, is_number: bool) -> str:
    cell = cell if is_number else escape_formula(cell)
    return "\t".join(map(printable, cell.split("\t"))) if "\t" in cell else printable(cell)


def to_markdown(table: RenderedTable) -> str:
    """Return a Markdown table (GitHub's dialect)."""
    lines = [" | ".join(escaped(" ".join(filter(None, title))) for title in table.titles)]
    lines.append("|".join("---:" if numeric else ":---" for numeric in table.numeric))
    lines += [" | ".join(escaped(cell) for cell in row) for row in table.rows]
    return "".join(f"|{' ' if i != 1 else ''}{line}{' ' if i != 1 else ''}|\n" for i, line in enumerate(lines))


_NUMBER = re.compile(r"-?\d+(\.\d+)?")

_BRANCHES = re.compile(r"((?:│  |   )*)[├└]─ ")


def to_latex(table: RenderedTable) -> str:
    r"""Return a ``tabular`` for LaTeX, with the rules of booktabs and numbers aligned by siunitx.

    Cells without a number are centered; a tree is indented.
    """
    cells = [
        [cell.replace(",", "") if n else cell for cell, n in zip(row, table.numeric, strict=True)] for row in table.rows
    ]
    titles = [f"{title} ({unit.strip('()')})" if unit else title for title, unit in table.titles]
    for i, (_, unit) in enumerate(table.titles):
        if unit == "(%)":
            cells = [[*row[:i], row[i].removesuffix("%"), *row[i + 1 :]] for row in cells]
    columns = [[row[i] for row in cells] for i in range(len(titles))]
    kinds = [_siunitx(column) if n else "" for column, n in zip(columns, table.numeric, strict=True)]
    form = " ".join(kind or ("r" if n else "l") for kind, n in zip(kinds, table.numeric, strict=True))
    total = None if table.total is None else table.total % max(len(cells), 1)
    lines = ["% \\usepackage{booktabs, siunitx}", f"\\begin{{tabular}}{{{form}}}", "\\toprule"]
    lines += [_latex_row(titles, [True] * len(titles)), "\\midrule"]
    for i, row in enumerate(cells):
        if i == total and i:
            lines.append("\\midrule")
        lines.append(
            _latex_row(row, [bool(kind) and not _NUMBER.fullmatch(c) for c, kind in zip(row, kinds, strict=True)])
        )
        if i == total == 0 and len(cells) > 1:
            lines.append("\\midrule")
    return "".join(f"{line}\n" for line in (*lines, "\\bottomrule", "\\end{tabular}"))


def _siunitx(column: Sequence[str]) -> str:
    numbers = [cell.partition(".") for cell in column if _NUMBER.fullmatch(cell)]
    if not numbers:
        return ""
    whole, decimals = max(len(n[0].lstrip("-")) for n in numbers), max(len(n[2]) for n in numbers)
    sign = "-" * any(n[0].startswith("-") for n in numbers)
    return f"S[table-format={sign}{whole}{f'.{decimals}' if decimals else ''}]"


def _latex_row(row: Sequence[str], in_braces: Sequence[bool]) -> str:
    cells = []
    for cell, is_text in zip(row, in_braces, strict=True):
        branches = _BRANCHES.match(cell)
        indent = f"\\hspace*{{{len(branches[1]) // 3 + 1}em}}" if branches else ""
        text = indent + latex_cell(cell[branches.end() :] if branches else cell)
        cells.append(f"{{{text}}}" if is_text and text else text)
    return " & ".join(cells) + " \\\\"


def to_color(table: RenderedTable) -> str:
    """Return colored boxes with a bar for each row's share of the FLOPs; plain boxes if rich is not installed."""
    try:
        import rich  # noqa: F401
    except ImportError:
        return to_boxes(table)
    return draw(table._replace(rows=_cells(table)))


def to_boxes(table: RenderedTable) -> str:
    """Return a table with lines around the cells; a tree has no lines between rows."""
    from texttable import Texttable

    drawing = Texttable(max_width=0)
    if table.is_tree or not table.has_lines:
        drawing.set_deco(Texttable.BORDER | Texttable.HEADER | Texttable.VLINES)
    drawing.set_cols_dtype(["t"] * len(table.titles))
    drawing.set_header_align(["l"] * len(table.titles))
    drawing.set_cols_align(["r" if numeric else "l" for numeric in table.numeric])
    drawing.header(["\n".join(filter(None, title)) for title in table.titles])
    for row in _cells(table):
        drawing.add_row(row)
    return str(drawing.draw()) + "\n"


def _cells(table: RenderedTable) -> list[list[str]]:
    rows = [[shortened(printable(cell)) for cell in row] for row in table.rows]
    wraps = {**({0: table.wrap} if table.wrap else {}), **table.wraps}
    for i, width in wraps.items():
        rows = [[*row[:i], "\n".join(textwrap.wrap(row[i], width)), *row[i + 1 :]] for row in rows]
    return rows


def escape_formula(text: str) -> str:
    """Add a leading apostrophe to text that a spreadsheet would evaluate."""
    text = text.replace("\r", "\n").replace("\0", " ")  # some CSV readers reject these characters, even if quoted
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\n", " ")) else text


# Fitting a terminal: columns that do not fit are dropped and named below the table, and long text is shortened.


AMOUNTS = ("flops", "bytes", "seconds", "duration")
"""The kinds of columns with amounts; a table always shows at least one."""

DROPPED_FIRST = (
    *("n_buffers", "n_shared", "n_frozen", "mwrite%", "mread%", "mrw%", "activations", "dtype"),
    *("output_shape", "input_shape", "shape", "kind", "mwrite", "mread", "mcomm", "n_trainable", "memory", "madd"),
    *("at_peak", "phase", "padding", "n_params", "type", "call", "mrw", "macs", "offset", "n_layers", "n_groups"),
    *("stride", "flops_fma1", "module", "checked", "measured%", "bound/measured%", "seconds%"),
)
"""The columns that a narrow terminal may drop, in this order. All other columns are always shown."""


BETWEEN_CELLS = 3
"""The width of the separator between two cells: a line with a space on each side (characters)."""

NOTEBOOK_WIDTH = 100
"""The assumed width of notebook output, which notebooks do not report (characters)."""


SHORTEST, TIGHTEST = 24, 10
"""The minimum length of shortened text (characters); the second if columns that must be shown do not fit."""


MOST_WRAPPED = 8
"""The maximum number of rows of a table whose first column wraps sentences."""


class Fitted(NamedTuple):
    """A table that fits into a width.

    Attributes:
        table: the table.
        dropped: the indices of dropped columns.
    """

    table: RenderedTable
    dropped: list[int]


def terminal_width(stream: IO[str]) -> int | None:
    """Return the width of the terminal or notebook that a stream writes to (characters); None for a file or a pipe."""
    if isinstance(stream, Screen):
        return stream.width
    if type(stream).__module__.startswith("ipykernel."):
        return NOTEBOOK_WIDTH
    return shutil.get_terminal_size().columns if stream.isatty() else None


def fitted(table: RenderedTable, width: int, order: Iterable[int]) -> Fitted:
    """Return the table in lines of ``width`` characters, if possible.

    Columns are dropped until the others fit with text of minimum length. Then text is shortened; in the first column of
    a small table, sentences are wrapped.

    Args:
        table: the table.
        width: the width of the terminal.
        order: the indices of columns that may be dropped, in this order.
    """
    widths = _widths(table)
    least = [w if numeric else min(w, SHORTEST) for w, numeric in zip(widths, table.numeric, strict=True)]
    shown, left_out = [*range(len(widths))], list[int]()
    for i in order:
        if _line([least[j] for j in shown]) <= width:
            break
        shown.remove(i)
        left_out.append(i)
    for i in reversed(left_out):  # a narrow column may fit after a wide one is dropped
        if _line([widths[j] for j in (*shown, i)]) <= width:
            shown = sorted((*shown, i))
    if _line([least[j] for j in shown]) > width:  # wrap formulas after a term
        least = [_longest_term(table, i) if table.numeric[i] else w for i, w in enumerate(least)]
    if _line([least[j] for j in shown]) > width:
        least = [w if numeric else min(w, TIGHTEST) for w, numeric in zip(least, table.numeric, strict=True)]
    new = _narrowed_widths({i: widths[i] for i in shown}, least, width)
    wrap = new[0] if new[0] < widths[0] and _has_sentences(table, new[0]) else None
    wraps = {shown.index(i): new[i] for i in shown if new[i] < widths[i] and table.numeric[i]}
    cut = [i for i in shown if new[i] < widths[i] and (i or wrap is None) and not table.numeric[i]]
    rows = [[_truncated(row[i], new[i]) if i in cut else row[i] for i in shown] for row in table.rows]
    titles, numeric = [table.titles[i] for i in shown], [table.numeric[i] for i in shown]
    dropped = [i for i in range(len(widths)) if i not in shown]
    fits = table._replace(titles=titles, rows=rows, numeric=numeric, width=width, wrap=wrap, wraps=wraps)
    return Fitted(fits, dropped)


def wrapped_last(table: RenderedTable, width: int | None) -> RenderedTable:
    """Return the table with the text of its last column wrapped to lines of ``width`` characters; None: unchanged."""
    *others, last = _widths(table)
    room = 0 if width is None else width - _line([*others, 0])
    return table._replace(wraps={len(others): max(room, SHORTEST)}) if width is not None and last > room else table


def dropped_first(
    columns: Sequence[Column], sets: Iterable[Sequence[str]] = (), labels: int = 1
) -> Sequence[str] | None:
    """Return the keys of columns that may be dropped, in this order; None if the user chose the columns.

    Args:
        columns: the columns.
        sets: the default column sets of the table, in addition to those of :mod:`costcore.tables.columns`.
        labels: the number of leading columns that name a row; they are always shown.
    """
    always = {column.key for column in columns[:labels]}
    is_set = is_default(columns) or matches(columns, sets)
    return [key for key in DROPPED_FIRST if key not in always] if is_set else None


def order_of(names: Sequence[str], dropped_first: Iterable[str]) -> list[int]:
    """Return the indices of columns that may be dropped; the first column names the row and stays.

    Args:
        names: the names of the columns.
        dropped_first: the names of columns that may be dropped, in this order.
    """
    return [names.index(name) for name in dropped_first if name in names[1:]]


def always_shown(columns: Sequence[Column], table: RenderedTable, labels: int = 1) -> set[int]:
    """Return the indices of columns that are never dropped.

    These are the labels, text columns that distinguish rows with equal labels, and the first amount. Rows of a tree
    need no such columns.

    Args:
        columns: the columns.
        table: their cells.
        labels: the number of leading columns that name a row.
    """
    rows = table.rows
    shown = [*range(min(labels, len(columns)))]
    kinds = ("text", "count") if columns[0].kind == "count" else ("text",)
    texts = [i for i, column in enumerate(columns) if i not in shown and column.kind in kinds and not table.is_tree]

    def n_distinct(indices: Sequence[int]) -> int:
        return len({tuple(row[i] for i in indices) for row in rows})

    apart = n_distinct([*shown, *texts])
    for i in texts:
        if n_distinct(shown) == apart:
            break
        if n_distinct([*shown, i]) > n_distinct(shown):
            shown.append(i)
    amounts = [i for i, column in enumerate(columns) if column.kind in AMOUNTS]
    return {*shown, *amounts[:1]}


def remark_on(dropped: Iterable[str], width: int) -> list[str]:
    """Return a line with the names of dropped columns; empty if no column was dropped."""
    names = ", ".join(dropped)
    return [f"columns left out to fit {width} characters: {names}"] if names else []


def line_length(table: RenderedTable) -> int:
    """Return the length of a line of ``table`` (characters)."""
    return _line(_widths(table))


def _narrowed_widths(widths: dict[int, int], least: Sequence[int], width: int) -> dict[int, int]:
    new = dict(widths)
    while (excess := _line(new.values()) - width) > 0:
        wide = sorted((i for i in new if new[i] > least[i]), key=lambda i: -new[i])
        if not wide:
            break
        next_width = max((new[i] for i in wide[1:]), default=0)
        new[wide[0]] = max(least[wide[0]], min(new[wide[0]] - 1, next_width), new[wide[0]] - excess)
    return new


def _has_sentences(table: RenderedTable, width: int) -> bool:
    # Sentences wrap; paths do not.
    long = [row[0] for row in table.rows if len(row[0]) > width]
    return len(table.rows) <= MOST_WRAPPED and not table.is_tree and all(" " in cell for cell in long)


def _longest_term(table: RenderedTable, i: int) -> int:
    cells = [row[i] for row in table.rows]
    parts = (part for cell in cells for part in (cell.split(" ") if "*" in cell else [cell]))
    return max(map(len, (*table.titles[i], *parts)))


def _truncated(cell: str, width: int) -> str:
    # Sentences are cut at the end, paths at the beginning.
    if len(cell) <= width:
        return cell
    return f"{cell[: width - 1]}…" if " " in cell else f"…{cell[1 - width :]}"


def _line(widths: Iterable[int]) -> int:
    return sum(width + BETWEEN_CELLS for width in widths) + 1


def _widths(table: RenderedTable) -> list[int]:
    titles = [max(map(len, title)) for title in table.titles]
    return [max(cells) for cells in zip(titles, *([*map(len, row)] for row in table.rows), strict=True)]


# Streams: terminals and color.


DRAWN = ("table", "color")
"""The modes of terminals."""


def in_terminal(
    table: RenderedTable,
    columns: Sequence[Column],
    mode: str,
    width: int | None,
    dropped_first: Sequence[str],
    labels: int = 1,
) -> tuple[RenderedTable, list[str]]:
    """Return a table that fits a terminal, and a line with the names of dropped columns.

    Args:
        table: the table.
        columns: its columns.
        mode: name of the renderer.
        width: the width of the terminal; None if there is none.
        dropped_first: the keys of columns that may be dropped, in this order.
        labels: the number of leading columns that are always shown.
    """
    if mode not in DRAWN or width is None:
        return table, []
    keys, always = [column.key for column in columns], always_shown(columns, table, labels)
    shown, dropped = fitted(table, width, [i for i in order_of(keys, dropped_first) if i not in always])
    return shown, remark_on((keys[i] for i in dropped), width)


def one_stream(ost: IO[str] | None, dst: IO[str] | None) -> IO[str] | None:
    """Return the stream that was passed as ``ost`` or ``dst``.

    Raises:
        TypeError: if both are given.
    """
    if ost is not None and dst is not None:
        raise TypeError("ost and dst are two names of the same argument. Pass only one of them.")
    return ost or dst


def in_color(mode: str, stream: IO[str]) -> str:
    """Return the mode, but ``table`` instead of ``color`` if the stream does not show colors.

    ``NO_COLOR`` disables colors (https://no-color.org). Otherwise ``FORCE_COLOR`` also enables them in a pipe or a file
    (https://force-color.org), such as the log of a CI runner.
    """
    wants, is_refused = (os.environ.get(name) for name in ("FORCE_COLOR", "NO_COLOR"))
    has_color = not is_refused and bool(wants or (os.environ.get("TERM") != "dumb" and stream.isatty()))
    return "table" if mode == "color" and not has_color else mode


# Notebooks: HTML instead of text.


def in_notebook() -> bool:
    """Return whether the code runs in a notebook kernel."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask is not None and hasattr(ask(), "kernel")


COUNTS: dict[str, tuple[int, int | None]] = {}
"""The progress of loops without a bar, by description: finished items, and their total."""


def _counted(items: Iterable[Any], description: str, total: int | None) -> Iterator[Any]:
    n = len(items) if total is None and isinstance(items, Sized) else total
    try:
        for done, item in enumerate(items):
            COUNTS[description] = done, n
            yield item
    finally:
        COUNTS.pop(description, None)


def progress(items: Iterable[Any], description: str, total: int | None = None, delay: float = 1.0) -> Any:
    """Show a progress bar on standard error, in a terminal or notebook, for work of more than ``delay`` seconds.

    Returns an iterable of the items, which has ``set_postfix`` if there is a bar. Without a bar, :data:`COUNTS` has the
    progress.
    """
    if not (sys.stderr.isatty() or in_notebook()):
        return _counted(items, description, total)
    from tqdm import tqdm

    return tqdm(items, desc=description, total=total, delay=delay, leave=False, file=sys.stderr)


def display_table(table: RenderedTable, remarks: Sequence[str]) -> None:
    """Show a table as HTML in the output of the current cell, with a line per remark."""
    from IPython.display import HTML, display

    lines = "".join(f"<p>{html_text(remark)}</p>" for remark in remarks)
    display(HTML(f"{table_of(table, is_styled=False)}{lines}"))


# HTML.


_CLASSES = {"text": "", "tree": " class='tree'", "number": " class='n'"}

_INLINE = {
    "text": " style='text-align:left'",
    "tree": " style='text-align:left;white-space:pre'",
    "number": " style='text-align:right'",
}


def table_of(table: RenderedTable, is_styled: bool = True) -> str:
    """Return a table as HTML; for ``is_styled`` see :func:`looks_of`."""
    looks = looks_of(table, is_styled)
    titles = zip(table.titles, looks, strict=True)
    head = "".join(f"<th scope='col'{look}>{html_text(' '.join(filter(None, title)))}</th>" for title, look in titles)
    body = "".join(_rows(table.rows, looks))
    return f"<table class='plain'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def looks_of(table: RenderedTable, is_styled: bool) -> list[str]:
    """Return, for each column, the HTML attribute that aligns its cells.

    Args:
        table: the table.
        is_styled: whether the style sheet of costcore's pages applies. The style of notebooks aligns cells to the right
            and collapses spaces, so both must be overridden for a tree.
    """
    first = "tree" if table.is_tree or any(row[0].startswith(" ") for row in table.rows) else "text"
    kinds = ["number" if n else "text" if i else first for i, n in enumerate(table.numeric)]
    return [(_CLASSES if is_styled else _INLINE)[kind] for kind in kinds]


def _rows(rows: Sequence[Sequence[str]], looks: Sequence[str]) -> Iterator[str]:
    # A row with an empty first cell continues the row above, so there is no line between them.
    for row in rows:
        cells = "".join(f"<td{look}>{html_text(cell)}</td>" for cell, look in zip(row, looks, strict=True))
        yield f"<tr>{cells}</tr>" if row[0] else f"<tr class='continued'>{cells}</tr>"


def html_text(value: str) -> str:
    """Return text for HTML, with its special and unprintable characters escaped."""
    from html import escape  # slow: loads the names of all entities

    return escape(printable(value))


# Color, which needs rich: ``pip install rich``.


BAR_WIDTH = 20
"""The width of a bar for 100 % (characters)."""

CONSOLE_WIDTH = 100_000
"""A width larger than any table, so that rich never wraps lines (characters)."""


def has_room_for_bars(table: RenderedTable) -> bool:
    """Return whether the terminal is wide enough for the column of bars."""
    return table.width is None or line_length(table) + BETWEEN_CELLS + BAR_WIDTH <= table.width


def draw(table: RenderedTable) -> str:
    """Return the table with bold titles and total, and a bar for each row's share of the total."""
    from rich.bar import Bar
    from rich.box import ROUNDED
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawing = RichTable(box=ROUNDED, header_style="bold cyan")
    for title, numeric in zip(table.titles, table.numeric, strict=True):
        drawing.add_column(Text("\n".join(filter(None, title))), justify="right" if numeric else "left", no_wrap=True)
    shares = table.shares if has_room_for_bars(table) else ()
    if shares:
        drawing.add_column(Text(f"{table.unit}\nshare"), width=BAR_WIDTH)
    total = None if table.total is None else table.total % max(len(table.rows), 1)
    for i, row in enumerate(table.rows):
        share = shares[i] if shares else None
        bar = [Text("") if share is None else Bar(100, 0, share, width=BAR_WIDTH, color="green")]
        style = "bold" if i == total else None
        last_before_total = total == len(table.rows) - 1 == i + 1
        drawing.add_row(*map(Text, row), *(bar if shares else []), style=style, end_section=last_before_total)
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=CONSOLE_WIDTH, legacy_windows=False)
    console.print(drawing)
    return "".join(line.rstrip(" ") + "\n" for line in out.getvalue().splitlines())
