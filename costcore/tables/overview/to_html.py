"""A result as HTML for a notebook, which strips scripts and may strip style sheets: plain elements that fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from costcore.ledger.module_tree import walk
from costcore.tables.answer import Answer
from costcore.tables.html_table import looks_of
from costcore.tables.overview.figures import figures_of
from costcore.tables.table_data import TableData
from costcore.tables.tree_rows import tree_rows
from costcore.text.amounts import exact, readable
from costcore.text.escape import printable
from costcore.text.table import TextTable

MOST_MODULES = 300
"""The maximum number of modules in the tree; levels below are part of the sums of the level above."""

MOST_CHILDREN = 40
"""The maximum number of children of one module; a row sums the others."""

DEEPEST = 24
"""The maximum number of levels, as deep as browsers and notebooks nest elements with ease."""

INDENT = "margin-left:1.4em"


def to_html(answer: Answer) -> str:
    """Return one element with the title, the figures, the tables, the remarks and the tree of modules.

    Names appear as text, never as markup, and there is no script, style sheet or link. Colors are those of the page
    around it, so that it is readable in light and dark themes.
    """
    figures = "".join(_figure(*each) for each in figures_of(answer))
    blocks = [
        f"<p><strong>{_text(answer.title)}</strong></p>",
        f"<table><tbody>{figures}</tbody></table>" if figures else "",
        *(_part(each.in_print()) for each in answer.tables),
        _remarks(answer.remarks),
        _tree(answer.tree, answer.unit) if answer.tree is not None and answer.tree["children"] else "",
    ]
    return f"<div>{''.join(blocks)}</div>"


def _text(value: str) -> str:
    return escape(printable(value))


def _figure(title: str, value: str, note: str) -> str:
    cells = f"<td style='text-align:right'>{_text(value)}</td><td>{_text(note)}</td>"
    return f"<tr><th scope='row' style='text-align:left'>{_text(title)}</th>{cells}</tr>"


def _part(table: TableData) -> str:
    if not table.rows:
        return ""
    summary = f"<summary>{_text(table.title)}</summary>"
    return f"<details{' open' * table.is_open}>{summary}{_table(table.shown())}</details>"


def _table(table: TextTable) -> str:
    looks = looks_of(table, is_styled=False)
    titles = [" ".join(filter(None, title)) for title in table.titles]
    body = "".join(f"<tr>{_cells('td', row, looks)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{_cells('th', titles, looks)}</tr></thead><tbody>{body}</tbody></table>"


def _cells(tag: str, cells: Sequence[str], looks: Sequence[str]) -> str:
    return "".join(f"<{tag}{look}>{_text(cell)}</{tag}>" for cell, look in zip(cells, looks, strict=True))


def _remarks(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>" if lines else ""


def _tree(tree: Mapping[str, Any], unit: str) -> str:
    """Return the modules as nested elements that fold; the model and its children are open."""
    depth, n = _depth_of(tree)
    rows = tree_rows(dict(tree), depth, None, MOST_CHILDREN, "csv")
    hidden = f" (modules below level {depth} are part of their sums)" if n > len(rows) else ""
    return f"<p>Modules{hidden}:</p>{''.join(_nested(rows, unit))}"


def _depth_of(tree: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of levels with at most :data:`MOST_MODULES` modules, and the number of all modules."""
    counts: dict[int, int] = {}
    for level, _ in walk(dict(tree)):
        counts[level] = counts.get(level, 0) + 1
    shown, depth = 1, 0
    while depth + 1 in counts and depth < DEEPEST and shown + counts[depth + 1] <= MOST_MODULES:
        depth += 1
        shown += counts[depth]
    return max(depth, 1), sum(counts.values())


def _nested(rows: Sequence[Mapping[str, Any]], unit: str) -> Iterator[str]:
    """Yield one element per module, inside that of its parent; rows have a ``depth``, parents before children."""
    total = rows[0]["flops"]
    is_open: list[int] = []
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        while is_open and is_open[-1] >= row["depth"]:
            is_open.pop()
            yield "</details>"
        if after is not None and after["depth"] > row["depth"]:
            is_open.append(row["depth"])
            yield f"<details{' open' * (row['depth'] == 0)}{_indent(row)}><summary>{_line(row, total, unit)}</summary>"
        else:
            yield f"<div{_indent(row)}>{_line(row, total, unit)}</div>"
    yield "</details>" * len(is_open)


def _indent(row: Mapping[str, Any]) -> str:
    return f" style='{INDENT}'" if row["depth"] else ""


def _line(row: Mapping[str, Any], total: Any, unit: str) -> str:
    """Return a module in one line: name, type, amount and its share, and parameters."""
    name = f"<strong>{_text(row['name'] or row['type'] or 'total')}</strong>"
    kind = f" {_text(row['type'])}" if row["type"] and row["name"] else ""
    same = f" (same as {_text(row['same_as'])})" if row["same_as"] else ""
    share = f", {_share(float(row['flops%']))}" if isinstance(row.get("flops%"), (int, float)) and total else ""
    flops, n_params = readable(row["flops"], "flops"), exact(row["n_params"])
    unknown = f", {row['n_unknown']} not counted" if row.get("n_unknown") else ""
    return f"{name}{kind}{same}: {_text(flops)} {_text(unit)}{_text(share)}, {_text(n_params)} parameters{unknown}"


def _share(percent: float) -> str:
    return "<0.1%" if 0 < percent < 0.05 else f"{percent:.1f}%"
