"""Limits on the number of nodes that a walk visits."""

from __future__ import annotations

from costcore.errors import CostError

MOST_NODES = 1_000_000
"""Models with more nodes, functions and subgraphs expanded, are refused."""

MOST_UNROLLED = 10_000
"""At most this many nodes are walked for single loop iterations, in all loops of a model together."""


class NodeBudget:
    """How many nodes a walk has visited, and how many it may yet visit.

    Args:
        unroll: whether loop iterations may be walked one by one.

    Attributes:
        visited: nodes visited so far.
        unrollable: nodes that may yet be walked for single loop iterations.
    """

    def __init__(self, unroll: bool = True) -> None:
        self.visited = 0
        self.unrollable = MOST_UNROLLED if unroll else 0

    def visit(self) -> None:
        """Count one node.

        Raises:
            CostError: if the model has too many.
        """
        self.visited += 1
        if self.visited > MOST_NODES:
            raise CostError(f"the model expands to more than {MOST_NODES} nodes")

    def unroll(self, nodes: int) -> bool:
        """Reserve the nodes of one loop iteration; return False if too few are left."""
        self.unrollable -= nodes
        return self.unrollable >= 0
