"""The order in which nodes can run."""

from __future__ import annotations

import pytest

from costcore import CostError
from costcore.graphs import in_order


@pytest.mark.parametrize(
    ("before", "order"),
    [
        ([], []),
        ([[], [0], [0, 1]], [0, 1, 2]),
        ([[2], [], []], [1, 2, 0]),  # the first reads from the last
        ([[3], [0], [], [2]], [2, 3, 0, 1]),
    ],
)
def test_each_node_comes_after_those_it_reads_from(before, order):
    assert [*in_order(before, str)] == order


def test_a_cycle_is_named_by_its_nodes():
    """0 reads from 2, 2 from 1, and 1 from 0; 3 is outside."""
    with pytest.raises(CostError, match=r"the graph has a cycle: n1 -> n2 -> n0 -> n1|n0 -> n1 -> n2 -> n0"):
        in_order([[2], [0], [1], [0]], lambda i: f"n{i}")
