"""Values that take over the memory of others, in a part of a run and in all of it, by hand."""

from __future__ import annotations

import pytest

from costcore.analyses.memory.liveness import lives_of
from costcore.analyses.memory.merging import merged
from tests.core.analyses.memory.graphs import Node, trace


@pytest.fixture(scope="module")
def lives():
    """A product of input 1, twice a relu, another product, and the sum of both products."""
    nodes = [
        Node("conv", (1,), 10, 8),
        Node("relu", (10,), 11, 8),
        Node("relu", (11,), 12, 8),
        Node("conv", (12,), 13, 4),
        Node("conv", (13,), 14, 4),
    ]
    return lives_of(trace(nodes, {1: 2}, [14]))


def found(lives, inplace, *part):
    return [(block.name, block.born, block.dies) for block in merged(lives, inplace, *part)]


def test_all_of_a_run(lives):
    assert found(lives, False) == [
        ("input 1", 0, 0),
        ("conv-0", 0, 1),
        ("relu-1", 1, 2),
        ("relu-2", 2, 3),
        ("conv-3", 3, 4),
        ("conv-4", 4, 4),
    ]
    assert found(lives, True) == [("input 1", 0, 0), ("conv-0", 0, 3), ("conv-3", 3, 4), ("conv-4", 4, 4)]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ((0, 1), [("conv-0", 0, 2)]),
        ((0, 3), [("conv-0", 0, 3), ("conv-3", 3, 4)]),
        ((2, 4), [("relu-2", 2, 3), ("conv-3", 3, 4), ("conv-4", 4, 4)]),  # relu-1 is of before
        ((3,), [("conv-3", 3, 4), ("conv-4", 4, 4)]),
    ],
)
def test_a_part_has_what_its_steps_make(lives, part, expected):
    assert found(lives, True, *part) == expected


def test_a_result_that_is_written_over_its_operand_is_the_output():
    nodes = [
        Node("conv", (1,), 10, 8),
        Node("relu", (10,), 11, 8),
        Node("conv", (11,), 12, 8),
        Node("relu", (12,), 13, 8),
    ]
    blocks = merged(lives_of(trace(nodes, {1: 2}, [13])), True)
    assert [(block.name, block.kind, block.is_kept) for block in blocks] == [
        ("input 1", "input", False),
        ("conv-0", "value", False),
        ("conv-2", "output", True),
    ]
