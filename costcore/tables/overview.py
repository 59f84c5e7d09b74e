"""The overview of a result: figures, tables and remarks, as text for ``print``, HTML for notebooks, and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costcore.ledger.ledger import footer
from costcore.ledger.modules import walk
from costcore.numbers import as_text, is_symbolic
from costcore.tables.answer import Content, Figure, ReportTable
from costcore.tables.columns import COMPARED, folded_tree, tree_rows
from costcore.tables.renderers import html_text, looks_of, rendered
from costcore.tables.renderers import to_markdown as table_to_markdown
from costcore.text.amounts import Formatted, duration, exact, readable, short
from costcore.text.output import RenderedTable, escaped, printable

# Plain text, for ``print``.


def to_text(
    answer: Content,
    mode: str = "table",
    unit: str | None = "auto",
    n_digits: int | None = None,
    is_whole: bool = True,
) -> str:
    """Return the title, one line per figure, the tables that are open, and the remarks.

    Args:
        answer: what is shown.
        mode: name of the renderer of the tables.
        unit: the prefix of amounts; ``auto`` for that of each table.
        n_digits: digits after the decimal point; None for as many as the answer and each table have.
        is_whole: whether long tables have all of their rows.
    """
    shown = answer.tables if is_whole else [each.in_print() for each in answer.tables]
    tables = [
        f"{printable(each.title)}:\n{rendered(each.shown(unit, n_digits), mode)}".rstrip("\n")
        for each in shown
        if each.is_open and each.rows
    ]
    figures = figures_text(answer, unit, n_digits)
    blocks = [printable(answer.title), figures, *tables, "\n".join(map(printable, answer.remarks))]
    return "\n".join(filter(None, blocks))


def table_to_text(table: RenderedTable, mode: str, remarks: Sequence[str]) -> str:
    """Return a table, and the remarks below it."""
    return (rendered(table, mode) + footer(remarks, mode)).rstrip("\n")


def figures_text(answer: Content, unit: str | None = "auto", n_digits: int | None = None) -> str:
    """Return one line per figure: title, value and note; arguments as for :func:`to_text`."""
    figures = figures_of(answer, unit, n_digits)
    titles = max((len(title) for title, _, _ in figures), default=0)
    values = max((len(value) for _, value, note in figures if note), default=0)
    return "\n".join(
        f"  {title:<{titles}}  {printable(value):>{values}}{printable(f'  {note}' if note else '')}"
        for title, value, note in figures
    )


# HTML for notebooks, which strip scripts: elements that fold, and a tree with columns by click.


MOST_MODULES = 300
"""The maximum number of modules in the tree; levels below are part of the sums of the level above."""

MOST_CHILDREN = 40
"""The maximum number of children of one module; a row sums the others."""

FIRST_ROWS = 25
"""The maximum number of rows that are open at first."""

DEEPEST = 24
"""The maximum number of levels, as deep as browsers and notebooks nest elements with ease."""


def to_html(answer: Content) -> str:
    """Return one element with the title, the figures, the tables, the remarks and the tree of modules.

    Names appear as text, never as markup, and there is no script or link. Colors are those of the page around it, so
    that it is readable in light and dark themes.
    """
    figures = "".join(_figure(*each) for each in figures_of(answer))
    blocks = [
        f"<p><strong>{html_text(answer.title)}</strong></p>",
        f"<table><tbody>{figures}</tbody></table>" if figures else "",
        *(_part(each.in_print()) for each in answer.tables),
        _remarks(answer.remarks),
        _tree(answer.tree, answer.unit) if answer.tree is not None and answer.tree["children"] else "",
    ]
    return f"<div>{''.join(blocks)}</div>"


def _figure(title: str, value: str, note: str) -> str:
    cells = f"<td style='text-align:right'>{html_text(value)}</td><td>{html_text(note)}</td>"
    return f"<tr><th scope='row' style='text-align:left'>{html_text(title)}</th>{cells}</tr>"


def _part(table: ReportTable) -> str:
    if not table.rows:
        return ""
    summary = f"<summary>{html_text(table.title)}</summary>"
    return f"<details{' open' * table.is_open}>{summary}{_table(table.shown())}</details>"


def _table(table: RenderedTable) -> str:
    looks = looks_of(table, is_styled=False)
    titles = [" ".join(filter(None, title)) for title in table.titles]
    body = "".join(f"<tr>{_cells('td', row, looks)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{_cells('th', titles, looks)}</tr></thead><tbody>{body}</tbody></table>"


def _cells(tag: str, cells: Sequence[str], looks: Sequence[str]) -> str:
    return "".join(f"<{tag}{look}>{html_text(cell)}</{tag}>" for cell, look in zip(cells, looks, strict=True))


def _remarks(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html_text(line)}</li>' for line in lines)}</ul>" if lines else ""


COLUMNS: tuple[tuple[str, str, str, bool], ...] = (
    ("flops", "", "flops", True),
    ("flops%", "Share", "percent", True),
    ("n_params", "Parameters", "flops", True),
    ("macs", "MACs", "flops", False),
    ("mread", "Read", "bytes", False),
    ("mwrite", "Written", "bytes", False),
    ("output_shape", "Output shape", "shape", False),
)
"""The columns of the tree: key, title (of FLOPs the unit), kind, and whether it is shown at first."""

STYLE = """
.costcore-tree { max-width: 68em; font-variant-numeric: tabular-nums; }
.costcore-tree label { margin-right: 1em; }
.costcore-tree details, .costcore-tree .leaf { margin-left: 1.2em; }
.costcore-tree summary { list-style-position: outside; cursor: pointer; }
.costcore-row { display: flex; gap: 0.8em; border-bottom: 1px solid #8883; }
.costcore-row > span { white-space: nowrap; }
.costcore-row > :first-child { flex: 1; min-width: 8em; overflow: hidden; text-overflow: ellipsis; }
.costcore-row > :not(:first-child) { flex: none; width: 6.4em; text-align: right; }
.costcore-row > .v6 { width: 11em; }
"""
"""The style sheet of the tree. Where it is removed, a row is its texts in a line."""


def _tree(tree: Mapping[str, Any], unit: str) -> str:
    tree = folded_tree(tree, COMPARED)
    depth, n = _shown_depth(tree)
    rows = tree_rows(dict(tree), depth, None, MOST_CHILDREN, "csv")
    hidden = f" (modules below level {depth} are part of their sums)" if n > len(rows) else ""
    titles = [title or unit for _, title, _, _ in COLUMNS]
    choices = "".join(
        f"<label><input type='checkbox' class='c{i}'{' checked' * is_shown} /> {html_text(title)}</label>"
        for i, (title, (*_, is_shown)) in enumerate(zip(titles, COLUMNS, strict=True))
    )
    hiding = "".join(
        f".costcore-tree:has(.c{i}:not(:checked)) .v{i} {{ display: none; }}\n" for i in range(len(COLUMNS))
    )
    head = f"<div class='leaf'><strong>{_row('Module', titles)}</strong></div>"
    return (
        f"<div class='costcore-tree'><style>{STYLE}{hiding}</style><p>Modules{hidden}. Columns: {choices}</p>"
        f"{head}{''.join(_nested(rows, _open_depth(rows)))}</div>"
    )


def _shown_depth(tree: Mapping[str, Any]) -> tuple[int, int]:
    # As many levels as have at most MOST_MODULES modules together.
    counts: dict[int, int] = {}
    for level, _ in walk(dict(tree)):
        counts[level] = counts.get(level, 0) + 1
    shown, depth = 1, 0
    while depth + 1 in counts and depth < DEEPEST and shown + counts[depth + 1] <= MOST_MODULES:
        depth += 1
        shown += counts[depth]
    return max(depth, 1), sum(counts.values())


def _open_depth(rows: Sequence[Mapping[str, Any]]) -> int:
    # Modules above this level are open at first.
    depth, deepest = 1, max(row["depth"] for row in rows)
    while depth < deepest and sum(row["depth"] <= depth + 1 for row in rows) <= FIRST_ROWS:
        depth += 1
    return depth


def _nested(rows: Sequence[Mapping[str, Any]], open_depth: int) -> Iterator[str]:
    # Parents come before children, so that a stack of open elements suffices.
    total = rows[0]["flops"]
    is_open: list[int] = []
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        while is_open and is_open[-1] >= row["depth"]:
            is_open.pop()
            yield "</details>"
        if after is not None and after["depth"] > row["depth"]:
            is_open.append(row["depth"])
            yield f"<details{' open' * (row['depth'] < open_depth)}><summary>{_line(row, total)}</summary>"
        else:
            yield f"<div class='leaf'>{_line(row, total)}</div>"
    yield "</details>" * len(is_open)


def _line(row: Mapping[str, Any], total: Any) -> str:
    name = f"<strong>{html_text(row['name'] or row['type'] or 'total')}</strong>"
    kind = f" {html_text(row['type'])}" if row["type"] and row["name"] else ""
    same = f" (same as {html_text(row['same_as'])})" if row["same_as"] else ""
    unknown = f", {row['n_unknown']} not counted" if row.get("n_unknown") else ""
    return _row(f"{name}{kind}{same}{unknown}", [_cell(row, key, shown, total) for key, _, shown, _ in COLUMNS])


def _row(name: str, cells: Sequence[str]) -> str:
    spans = "".join(f" <span class='v{i}'>{html_text(cell)}</span>" for i, cell in enumerate(cells))
    return f"<span class='costcore-row'><span>{name}</span>{spans}</span>"


def _cell(row: Mapping[str, Any], key: str, kind: str, total: Any) -> str:
    value = row.get(key)
    if kind == "percent":
        return _share(float(value)) if isinstance(value, (int, float)) and total else ""
    if value is None or value == "":
        return ""
    return " × ".join(map(as_text, value)) if kind == "shape" else short(value, kind, fixed=True)


def _share(percent: float) -> str:
    return "<0.1%" if 0 < percent < 0.05 else f"{percent:.1f}%"


# Markdown, for notebooks and editors that show no HTML.


def to_markdown(answer: Content, is_whole: bool = True) -> str:
    """Return the title, a list of the figures, the tables that are open, and a list of the remarks.

    Long tables have all of their rows if it ``is_whole``.
    """
    figures = [f"{title}: **{escaped(value)}**{_note(note)}" for title, value, note in figures_of(answer)]
    blocks = [f"**{escaped(answer.title)}**", _list(figures)]
    for table in answer.tables if is_whole else [each.in_print() for each in answer.tables]:
        if table.is_open and table.rows:
            blocks += [f"{escaped(table.title)}:", table_to_markdown(table.shown())]
    blocks.append(_list([escaped(line) for line in answer.remarks]))
    return "\n\n".join(block.rstrip("\n") for block in blocks if block) + "\n"


def _note(note: str) -> str:
    return f" ({escaped(note)})" if note else ""


def _list(lines: list[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


# Texts of figures.


class FigureText(NamedTuple):
    """Title, value with its unit, and note of a figure, which can be empty."""

    title: str
    value: str
    note: str


def figures_of(answer: Content, unit: str | None = "auto", n_digits: int | None = None) -> list[FigureText]:
    """Return the texts of the figures; arguments as for :meth:`Result.show`."""
    digits = None if unit is None else answer.n_digits if n_digits is None else n_digits
    return [FigureText(each.title, *_value_and_note(each, digits)) for each in answer.figures]


def _value_and_note(figure: Figure, digits: int | None) -> tuple[str, str]:
    value, kind, note = figure.value, figure.kind, figure.note
    if isinstance(value, Formatted):
        return value.text, note
    if kind == "duration":
        return duration(value, 3 if digits is None else digits), note
    if kind == "percent":
        return f"{value:.{3 if digits is None else digits}f}%", note
    if kind not in ("flops", "bytes", "count"):
        return as_text(value), note
    full = exact(value) + " B" * (kind == "bytes" and not figure.title.startswith("Bytes"))
    if digits is None or kind == "count" or is_symbolic(value):
        return full, note
    shown = readable(value, kind, digits)
    # The note has the exact value where a rounded one is shown.
    own = [] if shown.removesuffix(" B") == full.removesuffix(" B") else [full]
    return shown, "; ".join([*own, *filter(None, [note])])
