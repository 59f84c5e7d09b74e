"""The icicle: modules from left to right, each as high as its share of a cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from costcore.reports.data.report_data import ReportData
from costcore.reports.plots.colors import colors_of, keys
from costcore.tables.cells import Cells
from costcore.tables.pictures.amounts import check_numbers, column_of, in_units
from costcore.tables.pictures.picture import Picture
from costcore.tables.pictures.theme import Theme, add_legend, axes_of, label
from costcore.tables.quantities import quantity

DEEPEST = 6
"""The maximum number of levels; a module at the last one is drawn with all that is inside it."""

LEAST_SHARE = 0.002
"""Modules with a smaller share of the total are not drawn: they would be thinner than a line."""

LEAST_LABELED = 0.022
"""Modules with a smaller share of the total have no name: it would not fit."""


class Box(NamedTuple):
    """A module as it is drawn.

    Attributes:
        path, name: of the module.
        depth: its level.
        start, amount: the cost above it in the picture, and its own.
        is_leaf: whether nothing inside it is drawn.
    """

    path: str
    name: str
    depth: int
    start: int
    amount: int
    is_leaf: bool


def modules(report: ReportData, theme: Theme, column: str) -> Picture:
    """Return the modules, parents before children; rows are path, depth and amount of those that are drawn.

    Raises:
        CostError: if sizes are symbolic.
    """
    tree = report.tree()
    Cells([column], tree, report.ledger).add_to_tree(tree)
    tree[column] = quantity(column).of(report.ledger, report.ledger.calls) if column != "n_params" else tree[column]
    check_numbers([tree[column]])
    boxes = [*_boxes(_branching(tree), column)] if tree[column] else []
    rows = [(box.path, box.depth, box.amount) for box in boxes]
    return Picture(("module", "depth", column), rows, lambda: _icicle(report, boxes, column, theme))


def _branching(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first module from here downwards that has several children."""
    while len(node["children"]) == 1:
        node = node["children"][0]
    return node


def _boxes(root: Mapping[str, Any], column: str) -> Iterator[Box]:
    """Yield the boxes of all modules that are large enough; the largest child of a module is drawn first."""
    least = root[column] * LEAST_SHARE
    stack = [(root, 0, 0)]
    while stack:
        node, depth, start = stack.pop()
        children = sorted(node["children"], key=lambda child: -_amount(child, column))
        drawn = [child for child in children if _amount(child, column) >= least] if depth < DEEPEST - 1 else []
        name = node["name"] or node["type"] or "total"
        yield Box(node["path"], name, depth, start, _amount(node, column), not drawn)
        below = []
        for child in drawn:
            below.append((child, depth + 1, start))
            start += _amount(child, column)
        stack += reversed(below)


def _amount(node: Mapping[str, Any], column: str) -> int:
    """Return the cost of a module; parameters that an earlier module holds too are not part of it."""
    shared = node["n_shared"] if column == "n_params" else 0
    return (node[column] or 0) - shared


def _icicle(report: ReportData, boxes: list[Box], column: str, theme: Theme) -> Any:
    colors, mains = colors_of(report, theme), _main_operators(report, column)
    total = boxes[0].amount
    (divided, *_), title = in_units(column_of(column, report.trace.run.unit), [total])
    unit = divided / total
    axes = axes_of(theme, 9, 6)
    drawn = set()
    for box in boxes:
        operator = mains.get(box.path, "")
        drawn |= {operator} if box.is_leaf else set()
        color = colors.get(operator, theme.gray) if box.is_leaf else theme.line
        axes.barh(
            box.start * unit, 1, box.amount * unit, left=box.depth, align="edge", color=color, edgecolor=theme.paper
        )
        if box.amount >= LEAST_LABELED * total:
            text = f"{label(box.name)[-18:]} {box.amount / total:.1%}"
            ink = theme.ink if not box.is_leaf else "#ffffff" if color == "#0072b2" else "#10151b"
            at = (box.depth + 0.03, (box.start + box.amount / 2) * unit)
            axes.text(*at, text, va="center", fontsize=8, color=ink, clip_on=True)
    axes.set(xlim=(0, max(box.depth for box in boxes) + 1), ylim=(divided, 0), ylabel=title, xticks=[])
    axes.spines["bottom"].set_visible(False)
    add_legend(axes, theme, keys(colors, drawn, theme), title_fontproperties={"size": 9})
    return axes.figure


def _main_operators(report: ReportData, column: str) -> dict[str, str]:
    """Return the operator with the largest amount in every module, with all that is inside it."""
    sums: dict[str, dict[str, int]] = {}
    for (module, op), calls in report.ledger.groups("module", "op").items():
        parts = module.split(".") if module else []
        for path in {"", *(".".join(parts[: i + 1]) for i in range(len(parts)))}:
            by_op = sums.setdefault(path, {})
            by_op[op] = by_op.get(op, 0) + (quantity(column).of(report.ledger, calls) or 0)
    return {path: max(by_op, key=lambda op: by_op[op]) for path, by_op in sums.items()}
