"""Tables as text: CSV, Markdown, and boxes for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from costcore.errors import CostError
from costcore.messages import place, shortly
from costcore.plugins import cached, hookimpl, mappings
from costcore.reports.columns import Renderer, Table
from costcore.reports.text.escape import escaped, printable, shortened


@hookimpl
def costcore_renderers() -> Mapping[str, Renderer]:
    """The built-in renderers."""
    return {"csv": to_csv, "md": to_markdown, "table": to_boxes, "color": to_color}


@cached
def renderers() -> Mapping[str, Renderer]:
    """Every registered renderer by the word for it.

    Raises:
        CostError: where two plug-ins offer the same word, or one fails; names it.
    """
    table: dict[str, Renderer] = {}
    for part in mappings("costcore_renderers"):
        for mode, renderer in part.items():
            if mode in table:
                raise CostError(f"mode={mode!r} has two renderers, {place(table[mode])} and {place(renderer)}")
            table[mode] = renderer
    return table


def renderer_for(mode: str) -> Renderer:
    """The renderer of that word.

    Raises:
        ValueError: for an unknown one; names the known.
    """
    if mode not in renderers():
        raise ValueError(f"mode={mode!r} is not known; accepted are {', '.join(map(repr, renderers()))}")
    return renderers()[mode]


def rendered(table: Table, mode: str) -> str:
    """``table`` as the renderer of ``mode`` writes it.

    Raises:
        ValueError: for an unknown mode; names the known.
        CostError: where a plug-in's renderer fails, or returns anything but text; names it.
    """
    renderer = renderer_for(mode)
    try:
        text = renderer(table)
    except Exception as error:  # foreign code can fail in any way it likes
        raise CostError(f"the renderer {place(renderer)} fails: {type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise CostError(f"the renderer {place(renderer)} must return text, got {shortly(text)}")
    return text if text.endswith("\n") else f"{text}\n"


def to_csv(table: Table) -> str:
    """Comma-separated values. Text that a spreadsheet would take for a formula is led by an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([" ".join(filter(None, title)) for title in table.titles])
    for row in table.rows:
        writer.writerow([c if n else _no_formula(c) for c, n in zip(row, table.numeric, strict=True)])
    return out.getvalue()


def to_markdown(table: Table) -> str:
    """A Markdown table (GitHub's dialect)."""
    lines = [" | ".join(escaped(" ".join(filter(None, title))) for title in table.titles)]
    lines.append("|".join("---:" if numeric else ":---" for numeric in table.numeric))
    lines += [" | ".join(escaped(cell) for cell in row) for row in table.rows]
    return "".join(f"|{' ' if i != 1 else ''}{line}{' ' if i != 1 else ''}|\n" for i, line in enumerate(lines))


def to_color(table: Table) -> str:
    """Boxes in colour, with a bar for every row's share of the FLOPs; plain ones where rich is not installed."""
    try:
        from costcore.reports.tables.rich_table import draw
    except ImportError:
        return to_boxes(table)
    return draw(table._replace(rows=[[shortened(printable(cell)) for cell in row] for row in table.rows]))


def to_boxes(table: Table) -> str:
    """A table with drawn lines, for a terminal."""
    from texttable import Texttable

    drawing = Texttable(max_width=0)
    drawing.set_cols_dtype(["t"] * len(table.titles))
    drawing.set_header_align(["l"] * len(table.titles))
    drawing.set_cols_align(["r" if numeric else "l" for numeric in table.numeric])
    drawing.header(["\n".join(filter(None, title)) for title in table.titles])
    for row in table.rows:
        drawing.add_row([shortened(printable(cell)) for cell in row])
    return str(drawing.draw()) + "\n"


def _no_formula(text: str) -> str:
    text = text.replace("\r", "\n").replace("\0", " ")  # not every reader takes these, quoted or not
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\n", " ")) else text
