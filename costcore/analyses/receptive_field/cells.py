"""The column ``receptive_field`` of the tables of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costcore.analyses.receptive_field.fields import ReceptiveFields
from costcore.ledger.module_paths import path_and_parents
from costcore.tables.arrange import TableRow
from costcore.tables.columns import RECEPTIVE_FIELD
from costcore.trace.trace import Trace

KEY = RECEPTIVE_FIELD.key


def in_rows(rows: Iterable[TableRow], fields: ReceptiveFields) -> list[TableRow]:
    """Return the rows of single calls with the column."""
    return [TableRow({**row.entry, KEY: _text(fields, row.calls[0].name)}, row.calls) for row in rows]


def in_tree(tree: dict[str, Any], trace: Trace, fields: ReceptiveFields) -> dict[str, Any]:
    """Add the column to every node of :meth:`Report.tree`: the field of the last forward call below."""
    below: dict[str, str] = {}
    own: dict[str, str] = {}
    for call in trace.calls:
        if call.name in fields:
            text = own[call.module] = _text(fields, call.name)
            below.update(dict.fromkeys(("", *path_and_parents(call.module)), text))
    stack = [tree]
    while stack:
        node = stack.pop()
        texts: Mapping[str, str] = own if node["is_own"] else below
        node[KEY] = texts.get(node["path"], "")
        stack += node["children"]
    return tree


def _text(fields: ReceptiveFields, name: str) -> str:
    return str(fields[name]) if name in fields else ""
