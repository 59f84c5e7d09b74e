"""The modules of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def walk(tree: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every module of ``report.tree()`` with its depth, parents first."""
    stack = [(0, tree)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        stack += [(depth + 1, child) for child in reversed(node["children"])]
