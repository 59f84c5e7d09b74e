"""Tables in color for a terminal. Needs rich: ``pip install rich``."""

from __future__ import annotations

import io

from rich.bar import Bar
from rich.box import ROUNDED
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from costcore.reports.columns import Table

BAR_WIDTH = 20
"""Width of a bar of 100 % (characters)."""

CONSOLE_WIDTH = 100_000
"""Wider than any table, so that rich never wraps lines; the terminal does, as for plain tables (characters)."""


def draw(table: Table) -> str:
    """Return the table with its titles and total in bold, and a bar for each row's share of the FLOPs."""
    drawing = RichTable(box=ROUNDED, header_style="bold cyan")
    for title, numeric in zip(table.titles, table.numeric, strict=True):
        drawing.add_column(Text("\n".join(filter(None, title))), justify="right" if numeric else "left", no_wrap=True)
    if table.shares:
        drawing.add_column(Text("FLOPs\nshare"), width=BAR_WIDTH)
    total = table.total % max(len(table.rows), 1)
    for i, row in enumerate(table.rows):
        share = table.shares[i] if table.shares else None
        bar = [Text("") if share is None else Bar(100, 0, share, width=BAR_WIDTH, color="green")]
        style = "bold" if i == total else None
        last_before_total = total == len(table.rows) - 1 and i == total - 1
        drawing.add_row(*map(Text, row), *(bar if table.shares else []), style=style, end_section=last_before_total)
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=CONSOLE_WIDTH, legacy_windows=False)
    console.print(drawing)
    return "".join(line.rstrip(" ") + "\n" for line in out.getvalue().splitlines())
