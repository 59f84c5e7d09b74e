"""Tables as text: CSV, Markdown, boxes for a terminal, and the renderers of plug-ins."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Hashable, Mapping

from costcore.errors import CostError
from costcore.messages import qualified_name, short_repr, unknown
from costcore.plugins import cached, functions_from_plugins, hookimpl, with_left_out
from costcore.text.escape import escaped, printable, shortened
from costcore.text.table import Renderer, TextTable


@hookimpl
def costcore_renderers() -> Mapping[str, Renderer]:
    """Return the built-in renderers, by mode."""
    return {"csv": to_csv, "md": to_markdown, "table": to_boxes, "color": to_color}


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
        ValueError: if there is none.
        TypeError: if it is not a name.
    """
    if not isinstance(mode, Hashable):
        raise TypeError(f"mode must be a name (got {mode!r})")
    if mode not in renderers():
        hint = ". For an HTML page use report.to_html()." if mode == "html" else ""
        raise ValueError(with_left_out(unknown("mode", mode, renderers()) + hint))
    return renderers()[mode]


def rendered(table: TextTable, mode: str) -> str:
    """Return ``table`` as text, rendered in ``mode``.

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


def to_csv(table: TextTable) -> str:
    """Return comma-separated values.

    An apostrophe precedes text that a spreadsheet would evaluate as a formula. Control characters and bidirectional
    marks are escaped, line breaks too, so that every row is one line; tabs are kept.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([" ".join(filter(None, title)) for title in table.titles])
    for row in table.rows:
        writer.writerow([c if n and c.isprintable() else _plain(c, n) for c, n in zip(row, table.numeric, strict=True)])
    return out.getvalue()


def _plain(cell: str, is_number: bool) -> str:
    cell = cell if is_number else _escape_formula(cell)
    return "\t".join(map(printable, cell.split("\t"))) if "\t" in cell else printable(cell)


def to_markdown(table: TextTable) -> str:
    """Return a Markdown table (GitHub's dialect)."""
    lines = [" | ".join(escaped(" ".join(filter(None, title))) for title in table.titles)]
    lines.append("|".join("---:" if numeric else ":---" for numeric in table.numeric))
    lines += [" | ".join(escaped(cell) for cell in row) for row in table.rows]
    return "".join(f"|{' ' if i != 1 else ''}{line}{' ' if i != 1 else ''}|\n" for i, line in enumerate(lines))


def to_color(table: TextTable) -> str:
    """Return boxes in color, with a bar for each row's share of the FLOPs; plain boxes if rich is not installed."""
    from costcore.tables.rich_table import draw

    try:
        import rich  # noqa: F401
    except ImportError:
        return to_boxes(table)
    return draw(table._replace(rows=_cells(table)))


def to_boxes(table: TextTable) -> str:
    """Return a table with lines drawn around the cells; a tree without lines between its rows."""
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


def _cells(table: TextTable) -> list[list[str]]:
    """Return the cells of boxes, without unprintable characters."""
    rows = [[shortened(printable(cell)) for cell in row] for row in table.rows]
    wraps = {**({0: table.wrap} if table.wrap else {}), **table.wraps}
    for i, width in wraps.items():
        rows = [[*row[:i], "\n".join(textwrap.wrap(row[i], width)), *row[i + 1 :]] for row in rows]
    return rows


def _escape_formula(text: str) -> str:
    text = text.replace("\r", "\n").replace("\0", " ")  # some CSV readers reject these characters, even if quoted
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\n", " ")) else text
