"""The functions that a model defines: which calls which, and how many nodes they expand to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from costcore.errors import CostError

from ..graph.topological_sort import inner_graphs
from ..schema.signature import ONNX

MOST_EXPANDED = 100_000
"""If the functions of a model expand to more nodes, equal calls are walked once and multiplied."""


class ModelFunctions:
    """The model's own functions by full name.

    Args:
        model: the ``ModelProto``.

    Attributes:
        expanded: number of nodes that all calls expand to.

    Raises:
        CostError: for a duplicate name, or a function that calls itself, directly or not; the message includes the
            functions.
    """

    def __init__(self, model: Any) -> None:
        self._by_name: dict[str, Any] = {}
        for function in model.functions:
            name = name_of(function.domain, function.name, function.overload)
            if self._by_name.setdefault(name, function) is not function:
                raise CostError(f"several functions are named {name} (expected unique names)")
        self.expanded = 0
        if self._by_name:
            sizes = self._sizes(model.graph.node)
            self.expanded = sum(sizes[key] for key in self._calls(model.graph.node))

    def called_by(self, node: Any) -> Any:
        """Return the ``FunctionProto`` that a node calls, or None."""
        return self._by_name.get(_callee(node)) if self._by_name else None

    def _calls(self, nodes: Any) -> Iterator[str]:
        """Yield the functions that nodes and their subgraphs call, once for every call."""
        waiting = [nodes]
        while waiting:
            for node in waiting.pop():
                key = _callee(node)
                if key in self._by_name:
                    yield key
                waiting += [graph.node for graph in inner_graphs(node)]

    def _sizes(self, nodes: Any) -> dict[str, int]:
        """Return the number of nodes that one call of each function expands to, for the functions ``nodes`` reach."""
        sizes: dict[str, int] = {}
        path: dict[str, Iterator[str]] = {}
        waiting = list(dict.fromkeys(self._calls(nodes)))
        callees: dict[str, list[str]] = {}
        while waiting or path:
            if not path:
                self._enter(waiting.pop(), path, callees, sizes)
                continue
            key = next(reversed(path))
            callee = next((name for name in path[key] if name not in sizes), None)
            if callee is None:
                del path[key]
                sizes[key] = len(self._by_name[key].node) + sum(sizes[name] for name in callees[key])
            elif callee in path:
                cycle = [*list(path)[list(path).index(callee) :], callee]
                shown = cycle if len(cycle) < 12 else [*cycle[:10], "…", callee]
                raise CostError(f"a function calls itself: {' -> '.join(shown)}")
            else:
                self._enter(callee, path, callees, sizes)
        return sizes

    def _enter(
        self, key: str, path: dict[str, Iterator[str]], callees: dict[str, list[str]], sizes: Mapping[str, int]
    ) -> None:
        if key not in sizes:
            callees[key] = list(self._calls(self._by_name[key].node))
            path[key] = iter(dict.fromkeys(callees[key]))


def name_of(domain: str, name: str, overload: str = "") -> str:
    """Return the full name of a function, which may have several overloads."""
    return f"{domain or ONNX}::{name}{f':{overload}' if overload else ''}"


def _callee(node: Any) -> str:
    return name_of(node.domain, node.op_type, node.overload)
