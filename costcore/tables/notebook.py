"""Tables in a notebook: HTML in place of text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape

from costcore.text.table import TextTable


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask is not None and hasattr(ask(), "kernel")


def display_table(table: TextTable, remarks: Sequence[str]) -> None:
    """Show a table as HTML below the cell that runs, with a line per remark."""
    from IPython.display import HTML, display

    from costcore.tables.html_table import table_of

    lines = "".join(f"<p>{escape(remark)}</p>" for remark in remarks)
    display(HTML(f"{table_of(table, is_styled=False)}{lines}"))
