"""What analyses of plug-ins are made of: quantities, columns, tables, figures and pictures."""

from __future__ import annotations

from costcore.analyses.analysis import Analysis, View, analyses, drawn_by
from costcore.tables.answer import Content, Figure
from costcore.tables.pictures import Axis, Picture, draw
from costcore.tables.quantity import Quantity, column_of, needed_options, quantity, registered
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted
from costcore.text.output import Column, RenderedTable

__all__ = [
    "Analysis",
    "Axis",
    "Column",
    "Content",
    "Figure",
    "Formatted",
    "Picture",
    "Quantity",
    "RenderedTable",
    "Result",
    "Table",
    "View",
    "analyses",
    "column_of",
    "draw",
    "drawn_by",
    "needed_options",
    "quantity",
    "registered",
]
