"""The tree of modules as lines of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from costcore.reports.columns import Column
from costcore.reports.ledger import shares
from costcore.reports.module_tree import ADDED
from costcore.reports.tables.arrange import check_top, in_order

DEEPEST = 24
"""Levels that are drawn as indentation; deeper ones are told by their number."""


class Style(NamedTuple):
    """What indentation is made of: a level above that goes on, one that has ended, and the two kinds of branches."""

    on: str
    ended: str
    branch: str
    last: str


DRAWN = Style("│  ", "   ", "├─ ", "└─ ")
MARKDOWN = Style("│ ", "· ", "├ ", "└ ")
"""Markdown makes one space of several."""


def check_depth(depth: object) -> None:
    """Refuse anything but None and a number of levels.

    Raises:
        TypeError, ValueError: saying what is accepted.
    """
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool)):
        raise TypeError(f"depth must be a number of levels or None (all), got {depth!r}")
    if depth is not None and depth < 0:
        raise ValueError(f"depth must be at least 0 (the model alone), got {depth}")


def lines(
    tree: dict[str, Any], depth: int | None, sort: Column | None, top: int | None, mode: str
) -> list[Mapping[str, Any]]:
    """The lines of a tree, the whole model first.

    Args:
        tree: what :meth:`Report.tree` says.
        depth: levels below the model; what lies deeper is in the sums of what is shown.
        sort: what the children of each module are sorted by; None keeps the order of the model.
        top: children of each module that are shown; the rest is summed as ``others``.
        mode: the renderer's word: CSV gets paths, all others indentation.
    """
    check_depth(depth)
    check_top(top)
    style = {"csv": None, "md": MARKDOWN}.get(mode, DRAWN)
    found: list[Mapping[str, Any]] = []
    stack = [(tree, 0, "", "")]
    while stack:
        node, level, mark, lead = stack.pop()
        cell = (mark + _title(node)) if style else _path(node)
        found.append({**node, "module": cell, "depth": level})
        children = node["children"] if depth is None or level < depth else []
        if sort is not None:
            children = in_order(children, sort, lambda child: child)
        if top is not None and len(children) > top:
            children = [*children[:top], _others(node, children[top:], tree)]
        below = []
        for child in children:
            is_last = child is children[-1]
            below.append((child, level + 1, *_indented(style or DRAWN, lead, is_last, level)))
        stack += reversed(below)
    return found


def _indented(style: Style, lead: str, is_last: bool, level: int) -> tuple[str, str]:
    """What stands before a child of the given level, and before the children of that."""
    if level >= DEEPEST:
        return f"… {level + 1} levels … ", lead
    return lead + (style.last if is_last else style.branch), lead + (style.ended if is_last else style.on)


def _title(node: Mapping[str, Any]) -> str:
    name = node["name"] or "total"
    return f"{name} (same as {node['same_as']})" if node["same_as"] else name


def _path(node: Mapping[str, Any]) -> str:
    if node["is_own"]:
        return " ".join(filter(None, (node["path"], node["name"])))
    return node["path"] or "total"


def _others(parent: Mapping[str, Any], rest: list[dict[str, Any]], tree: Mapping[str, Any]) -> dict[str, Any]:
    """A node that sums some children; one parameter shared by two of them is twice in its ``n_shared``."""
    sums: dict[str, Any] = {}
    for key in (*ADDED, "n_params", "n_shared", "seconds"):
        amounts = [child[key] for child in rest if key in child]
        if amounts:
            sums[key] = None if None in amounts else sum(amounts)
    blank = {"type": "", "same_as": "", "output_shape": "", "children": []}
    return {"name": "others", "path": parent["path"], "is_own": True, **blank, **sums, **shares(sums, tree)}
