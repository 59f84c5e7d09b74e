"""The rows of ``show_tree``: one per module, indented or with paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from costcore.ledger.checks import check_depth
from costcore.ledger.ledger import shares
from costcore.ledger.module_tree import ADDITIVE
from costcore.tables.arrange import in_order, limited
from costcore.tables.cells import Cells
from costcore.text.table import Column

MAX_INDENT = 24
"""The maximum number of levels drawn as indentation; at deeper levels the number of the level is printed instead."""


class TreeLines(NamedTuple):
    """The text from which indentation is built.

    Attributes:
        open: below a module that has further siblings.
        closed: below a module that is the last child.
        branch: before a child that has further siblings.
        last: before the last child.
    """

    open: str
    closed: str
    branch: str
    last: str


PLAIN_LINES = TreeLines("│  ", "   ", "├─ ", "└─ ")
MARKDOWN_LINES = TreeLines("│ ", "· ", "├ ", "└ ")
"""Without repeated spaces, which Markdown collapses."""


def tree_rows(
    tree: dict[str, Any],
    depth: int | None,
    sort: Column | None,
    top: int | None,
    mode: str,
    cells: Cells | None = None,
) -> list[Mapping[str, Any]]:
    """Return the rows of the module tree, parents before children; the first row is the whole model.

    Args:
        tree: the result of :meth:`Report.tree`.
        depth: levels to show below the model; deeper modules are part of the sums of their parents. None for all.
        sort: the column by which the children of each module are sorted; None keeps the order of the model.
        top: the maximum number of children to show per module; a row ``others`` sums the remaining ones.
        mode: name of the renderer: CSV contains paths, every other mode an indented tree.
        cells: the quantities in the nodes beside those that :meth:`Report.tree` has.
    """
    check_depth(depth)
    lines = {"csv": None, "md": MARKDOWN_LINES}.get(mode, PLAIN_LINES)
    rows: list[Mapping[str, Any]] = []
    stack = [(tree, 0, "", "")]
    while stack:
        node, level, before_name, before_children = stack.pop()
        cell = (before_name + _title(node)) if lines else _path(node)
        rows.append({**node, "module": cell, "depth": level})
        children = node["children"] if depth is None or level < depth else []
        if sort is not None:
            children = in_order(children, sort, lambda child: child)
        children = limited(children, top, partial(_others, node, tree, cells))
        below = []
        for child in children:
            is_last = child is children[-1]
            below.append((child, level + 1, *_indentation(lines or PLAIN_LINES, before_children, is_last, level)))
        stack += reversed(below)
    return rows


def _indentation(lines: TreeLines, inherited: str, is_last: bool, level: int) -> tuple[str, str]:
    """Return the text before the name of a child at the next level, and before the children of that child."""
    if level >= MAX_INDENT:
        return f"… {level + 1} levels … ", inherited
    return inherited + (lines.last if is_last else lines.branch), inherited + (lines.closed if is_last else lines.open)


def _title(node: Mapping[str, Any]) -> str:
    name = node["name"] or "total"
    return f"{name} (same as {node['same_as']})" if node["same_as"] else name


def _path(node: Mapping[str, Any]) -> str:
    if node["is_own"]:
        return " ".join(filter(None, (node["path"], node["name"])))
    return node["path"] or "total"


def _others(
    parent: Mapping[str, Any], tree: Mapping[str, Any], cells: Cells | None, children: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a node that sums some children; ``n_shared`` counts a parameter twice if two of them share it."""
    sums: dict[str, Any] = {}
    for key in (*ADDITIVE, "n_params", "n_shared", "seconds"):
        amounts = [child[key] for child in children if key in child]
        if amounts:
            sums[key] = None if None in amounts else sum(amounts)
    blank = {"type": "", "same_as": "", "output_shape": "", "children": []}
    more = cells.of_groups(children) if cells else {}
    return {"name": "others", "path": parent["path"], "is_own": True, **blank, **sums, **shares(sums, tree), **more}
