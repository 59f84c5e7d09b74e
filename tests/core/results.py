"""What analyses and plug-ins make results of: quantities, columns, tables and figures."""

from __future__ import annotations

from costcore.tables.answer import Content, Figure
from costcore.tables.quantity import Quantity, column_of, needed_options, quantity, registered
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted
from costcore.text.screen import Column, RenderedTable

__all__ = [
    "Column",
    "Content",
    "Figure",
    "Formatted",
    "Quantity",
    "RenderedTable",
    "Result",
    "Table",
    "column_of",
    "needed_options",
    "quantity",
    "registered",
]
