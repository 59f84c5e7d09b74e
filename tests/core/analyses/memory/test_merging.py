"""Values that take over the memory of others, in a part of a run and in all of it, by hand."""

from __future__ import annotations

import pytest

from costcore.analyses.memory.liveness import lives_of, merged
from tests.core.analyses.memory.graphs import Node, trace
from tests.core.traces import Dataflow, Step, Value


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
    return [(block.name, block.born, block.last_use) for block in merged(lives, inplace, *part)]


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


def in_loop(first, last):
    """The values of four products, the second and third of which are in a loop."""
    nodes = [
        Node("conv", (1,), 10, 8),
        Node("conv", (10, 2), 11, 4),
        Node("conv", (11,), 12, 4),
        Node("conv", (12,), 13, 1),
    ]
    flow = Dataflow((Value(1, 2, "x"), Value(2, 3, "y")), (), (), (), ((first, last),))
    return lives_of(trace(nodes, {1: 2, 2: 3}, [13], flow))


@pytest.mark.parametrize(
    ("loop", "last_use"),
    [
        ((11, 12), {"x": 0, "y": 2, "conv-0": 2, "conv-1": 2}),  # what it reads from outside, to its end
        ((10, 12), {"x": 2, "y": 2, "conv-0": 1, "conv-1": 2}),  # conv-0 is inside, and inputs are always outside
        ((11, 13), {"x": 0, "y": 3, "conv-0": 3, "conv-1": 2}),
        ((11, 11), {"x": 0, "y": 1, "conv-0": 1, "conv-1": 2}),
    ],
)
def test_a_loop_keeps_what_it_reads_from_outside_until_it_ends(loop, last_use):
    lives = in_loop(*loop)
    assert lives.spans == [(loop[0] - 10, loop[1] - 10)]
    assert {name: end for name, _, end in found(lives, False)} == {**last_use, "conv-2": 3, "conv-3": 3}


@pytest.mark.parametrize(
    ("nbytes", "last_reads", "blocks"),
    [
        (8, 17, [("x", 0, 0), ("conv-0", 0, 2), ("conv-1", 2, 3), ("conv-2", 3, 3)]),
        (8, 10, [("x", 0, 0), ("conv-0", 0, 3), ("carried", 1, 2), ("conv-1", 2, 2), ("conv-2", 3, 3)]),  # needed later
        (6, 17, [("x", 0, 0), ("conv-0", 0, 1), ("carried", 1, 2), ("conv-1", 2, 3), ("conv-2", 3, 3)]),
    ],
)
def test_a_carried_value_continues_what_nothing_else_needs_if_it_is_as_large(nbytes, last_reads, blocks):
    """After the first product of 8 B a loop starts with its result; 2 and 1 B follow. The option decides nothing."""
    nodes = [Node("conv", (1,), 10, 8), Node("conv", (16,), 17, 2), Node("conv", (last_reads,), 18, 1)]
    start = Step(15, (10,), (Value(16, nbytes, "carried"),), ((16, 10),), name="loop: start")
    lives = lives_of(trace(nodes, {1: 2}, [18], Dataflow((Value(1, 2, "x"),), (), (start,))))
    assert found(lives, False) == found(lives, True) == blocks
