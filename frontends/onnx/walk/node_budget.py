"""Limits on the number of nodes that a walk visits."""

from __future__ import annotations

from typing import Any

from costcore.errors import CostError

from ..graph.topological_sort import inner_graphs

MOST_NODES = 100_000
"""Functions, loops and branches may expand to this many nodes more than the model stores, by default."""

MOST_STORED = 100_000
"""A file may store at most this many nodes, by default; language models have up to 50,000."""

MOST_UNROLLED = 10_000
"""At most this many nodes are walked for single loop iterations, in all loops of a model together."""


class NodeBudget:
    """How many nodes a walk has visited, and how many it may yet visit.

    Args:
        model: the ``ModelProto``.
        most: how many nodes more than the model stores may be visited, default: :data:`MOST_NODES`; if larger than
            :data:`MOST_STORED`, the model may store as many.

    Attributes:
        visited: nodes visited so far.
        unrollable: nodes that may yet be walked for single loop iterations.

    Raises:
        TypeError, ValueError: if ``most`` is not a positive int.
        CostError: if the graph of the model has too many nodes.
    """

    def __init__(self, model: Any, most: int | None = None) -> None:
        if most is not None and (isinstance(most, bool) or not isinstance(most, int)):
            raise TypeError(f"max_nodes must be an int (got {most!r})")
        if most is not None and most < 1:
            raise ValueError(f"max_nodes must be at least 1 (got {most})")
        self.visited = 0
        self.unrollable = MOST_UNROLLED
        self._model = model
        self._most = self._limit = MOST_NODES if most is None else most
        self._most_stored = max(MOST_STORED, most or 0)
        self._check_stored(len(model.graph.node))
        self._has_counted_stored = False

    def visit(self) -> None:
        """Count one node.

        Raises:
            CostError: if the model expands to too many.
        """
        self.visited += 1
        if self.visited > self._limit:
            self._check()

    def unroll(self, nodes: int) -> bool:
        """Reserve the nodes of one loop iteration; return False if too few are left."""
        self.unrollable -= nodes
        return self.unrollable >= 0

    def _check(self) -> None:
        """Add the nodes that the model stores to the limit, once; refuse more nodes."""
        if not self._has_counted_stored:
            self._has_counted_stored = True
            stored = _stored_nodes(self._model)
            self._check_stored(stored)
            self._limit += stored
        if self.visited > self._limit:
            raise CostError(
                f"its functions, loops and branches expand to more than {self._most} nodes, besides the "
                f"{self._limit - self._most} that the model stores. If that is right, raise the limit: "
                f"max_nodes={10 * self._most} (--max-nodes)"
            )

    def _check_stored(self, count: int) -> None:
        if count > self._most_stored:
            raise CostError(
                f"it stores {count:,} nodes (limit {self._most_stored:,}). If that is right, raise the limit: "
                f"max_nodes={count} (--max-nodes)"
            )


def _stored_nodes(model: Any) -> int:
    """Return the number of nodes in the graph of a model, in its functions, and in graphs inside these."""
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    count = 0
    while waiting:
        nodes = waiting.pop()
        count += len(nodes)
        waiting += [graph.node for node in nodes for graph in inner_graphs(node)]
    return count
