"""Tables in color for a terminal. Needs rich: ``pip install rich``."""

from __future__ import annotations

import io

from costcore.tables.fit import BETWEEN_CELLS, line_length
from costcore.text.table import TextTable

BAR_WIDTH = 20
"""Width of a bar of 100 % (characters)."""

CONSOLE_WIDTH = 100_000
"""Wider than any table, so that rich never wraps lines (characters)."""


def has_room_for_bars(table: TextTable) -> bool:
    """Return whether the terminal is wide enough for the column of bars."""
    return table.width is None or line_length(table) + BETWEEN_CELLS + BAR_WIDTH <= table.width


def draw(table: TextTable) -> str:
    """Return the table with its titles and total in bold, and a bar for each row's share of the total."""
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
