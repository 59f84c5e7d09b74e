"""The arena of a run: peak, layout, bound and order, against definitions executed directly and hand counts."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest
import sympy

from costcore import Trace
from costcore.errors import ArenaError, CostError
from costcore.ir import Layer, Tensor
from tests.core.analyses.memory.graphs import Node, arena_of, least_memory, random_trace, trace
from tests.core.traces import Call, CallCost, Dataflow, Run, Value
from tests.work import at_most


@pytest.mark.parametrize("seed", range(28))
def test_the_exact_bound_is_the_least_memory_of_all_orders(seed):
    graph = random_trace(Random(seed), 1 + seed % 7)
    for inplace in (False, True):
        for count_inputs in (False, True):
            arena = arena_of(graph, 1, inplace=inplace, count_inputs=count_inputs)
            assert arena.is_exact
            assert arena.lower_bound == arena.order_peak == least_memory(graph, inplace, count_inputs)
            assert sorted(arena.order) == sorted(call.name for call in graph.calls)


@pytest.mark.parametrize("seed", range(12))
def test_bound_peak_and_size_are_in_order_and_values_never_overlap(seed):
    graph = random_trace(Random(1000 + seed), 40)
    for inplace in (False, True):
        arena = arena_of(graph, 8, inplace=inplace)
        assert arena.lower_bound <= arena.order_peak <= arena.peak <= arena.size
        assert all(offset % 8 == 0 for offset in arena.offsets.values())
        for a, b in combinations(arena.slots, 2):
            if a.born <= b.last_use and b.born <= a.last_use and a.nbytes and b.nbytes:
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
        assert max(slot.offset + slot.nbytes for slot in arena.slots) <= arena.size
        alive = [sum(s.nbytes for s in arena.slots if s.born <= i <= s.last_use) for i in range(40)]
        assert [live for _, live in arena.timeline] == alive
        assert max(alive) == arena.peak


@pytest.mark.parametrize("seed", range(24))
def test_what_is_returned_from_inside_is_never_written_over(seed):
    """Of seven calls, element-wise ones among them, the results of three are returned."""
    random = Random(seed)
    graph = random_trace(random, 7)
    returned = random.sample([call.outputs[0] for call in graph.calls], 3)
    graph = Trace(graph.records, Run().recording(returned=tuple(returned)))
    assert arena_of(graph, 1, inplace=True).lower_bound == least_memory(graph, True, True)


def test_a_run_without_calls_needs_its_inputs():
    """A graph that returns one of its two inputs, of 8 and 3 bytes: 8 + 4 in multiples of 4."""
    flow = Dataflow((Value(1, 8, "x"), Value(2, 3, "y")), (), (), (), ())
    arena = arena_of(Trace((), Run().recording(returned=(1,), dataflow=flow)), 4)
    assert (arena.peak, arena.at, arena.size, arena.lower_bound, arena.order) == (11, "start", 12, 11, [])
    assert arena.timeline == [("start", 11)] and arena.by_call == {}
    rows = [(row["name"], row["born"], row["dies"], row["at_peak"]) for row in arena.entries()]
    assert rows == [("x", "start", "end", "yes"), ("y", "start", "start", "yes")]
    assert repr(arena) == "<Arena: peak 11 bytes at start, arena 12, weights 0>"
    assert arena_of(Trace((), Run())).entries() == []


def test_a_value_lives_from_its_call_to_its_last_reader():
    # 1 (4 B) -> conv 10 (8 B) -> relu 11 (8 B) -> add with the input 12 (4 B)
    nodes = [Node("conv", (1,), 10, 8), Node("relu", (10,), 11, 8), Node("conv", (11, 1), 12, 4)]
    arena = arena_of(trace(nodes, {1: 4}, [12]))
    assert arena.timeline == [("conv-0", 4 + 8), ("relu-1", 4 + 8 + 8), ("conv-2", 4 + 8 + 4)]
    assert arena.by_call == dict(arena.timeline)
    assert (arena.peak, arena.at) == (20, "relu-1")
    assert arena_of(trace(nodes, {1: 4}, [12]), inplace=True).peak == 4 + 8 + 4, "the relu writes over its operand"
    assert arena_of(trace(nodes, {1: 4}, [12]), inplace=True, count_inputs=False).peak == 8 + 4


def test_what_is_written_over_is_never_an_input_or_has_another_reader():
    def inplace(nodes, inputs, returned):
        return arena_of(trace(nodes, inputs, returned), inplace=True).peak

    assert inplace([Node("relu", (1,), 10, 4)], {1: 4}, [10]) == 8, "an input of the model"
    twice = [Node("conv", (1,), 10, 4), Node("relu", (10,), 11, 4), Node("conv", (10, 11), 12, 1)]
    assert inplace(twice, {1: 1}, [12]) == 4 + 4 + 1, "the last convolution reads the operand of the relu"
    returned = [Node("conv", (1,), 10, 4), Node("relu", (10,), 11, 4)]
    assert inplace(returned, {1: 1}, [10, 11]) == 8, "the caller gets the operand"
    view = [Node("conv", (1,), 10, 4), Node("reshape", (10,), 11, 4), Node("relu", (11,), 12, 4)]
    assert inplace(view, {1: 1}, [12]) == 5, "nothing reads the viewed value later"
    assert inplace([*view, Node("conv", (10, 12), 13, 1)], {1: 1}, [13]) == 9, "the last convolution reads it"
    twice = [Node("conv", (1,), 10, 4), Node("add", (10, 10), 11, 4)]
    assert inplace(twice, {1: 1}, [11]) == 5, "one operand twice is one value"


def test_an_output_that_is_also_read_inside_lives_to_the_end():
    made = zip(range(10, 14), (8, 2, 4, 1), strict=True)
    nodes = [Node("conv", (max(i - 1, 9) if i > 10 else 1,), i, size) for i, size in made]
    assert [live for _, live in arena_of(trace(nodes, {1: 1}, [10, 13])).timeline] == [9, 10, 14, 13]
    assert [live for _, live in arena_of(trace(nodes, {1: 1}, [13])).timeline] == [9, 10, 6, 5]


def test_chains_of_views_take_no_memory():
    nodes = [Node("conv", (1,), 10, 8), *(Node("identity", (i,), i + 1, 8) for i in range(10, 40))]
    arena = arena_of(trace([*nodes, Node("conv", (40,), 41, 1)], {1: 4}, [41]))
    assert arena.peak == 12
    assert list(arena.offsets) == ["input 1", "conv-0", "conv-31"]


def test_a_better_order_finishes_one_branch_before_the_other():
    # s 8 -> two branches of 64 -> 8 each -> 8: side by side 8 + 64 + 64, one after the other 8 + 64 + 8
    nodes = [
        *(Node("conv", (1,), 10, 8), Node("conv", (10,), 11, 64), Node("conv", (10,), 12, 64)),
        *(Node("conv", (11,), 13, 8), Node("conv", (12,), 14, 8), Node("add", (13, 14), 15, 8)),
    ]
    arena = arena_of(trace(nodes, {1: 8}, [15]))
    assert arena.peak == 8 + 64 + 64
    assert arena.lower_bound == arena.order_peak == 8 + 64 + 8
    first, second = (arena.order.index(name) for name in ("conv-3", "conv-4"))
    assert min(first, second) < max(arena.order.index("conv-1"), arena.order.index("conv-2"))


def test_one_hundred_thousand_calls_are_planned_with_work_that_grows_with_their_number():
    def residual(blocks: int) -> Any:
        nodes, x, made = [], 1, 10
        for _ in range(blocks):
            a, b, c, y = range(made, made + 4)
            nodes += [Node("conv", (x,), a, 4), Node("relu", (a,), b, 4), Node("conv", (b,), c, 4)]
            nodes.append(Node("add", (c, x), y, 4))
            x, made = y, made + 4
        return arena_of(trace(nodes, {1: 4}, [x]))

    small, large = residual(20), residual(200)
    work = []
    for arena in (small, large):
        with at_most(2_000_000) as counted:
            assert (arena.peak, arena.size, arena.lower_bound) == (12, 3 * 64, 12)
        work.append(counted.calls)
    assert work[1] < 11 * work[0]


def test_an_arena_of_symbolic_sizes_says_what_it_needs():
    """n + 2n bytes in the first call, and 3n in the second."""
    n = sympy.Symbol("n", integer=True, positive=True)
    x, y, z = Tensor((n,), "int8"), Tensor((2 * n,), "int8"), Tensor((n,), "int8")
    calls = [
        Call(Layer("conv", {"x": x}, [y]), "conv", name="a", inputs=(1,), outputs=(2,)),
        Call(Layer("conv", {"x": y}, [z]), "conv", name="b", inputs=(2,), outputs=(3,)),
    ]
    arena = arena_of(Trace(tuple(CallCost(call, None) for call in calls), Run().recording(returned=(3,))))
    assert arena.remarks == [
        "flash (weights and constants): 0 B",
        "peak, in execution order: 3*n B, at a",
        "a layout needs numbers for n: subs(…), or --dim",
    ]
    assert [row["offset"] for row in arena.entries()] == [None] * 3
    assert [(row["nbytes"], row["at_peak"]) for row in arena.entries()] == [(n, "yes"), (2 * n, "yes"), (n, "no")]
    assert arena.total_entry() == {"name": "peak", "nbytes": 3 * n}


def test_arguments_are_checked():
    graph = trace([Node("relu", (1,), 10, 4)], {1: 4}, [10])
    with pytest.raises(TypeError, match="align must be an integer"):
        arena_of(graph, align=1.5)
    with pytest.raises(ArenaError, match="align must be at least 1"):
        arena_of(graph, align=0)
    with pytest.raises(TypeError, match="inplace must be True or False"):
        arena_of(graph, inplace=1)
    assert issubclass(ArenaError, CostError)


def test_a_training_step_is_refused():
    graph = trace([Node("relu", (1,), 10, 4)], {1: 4}, [10])
    record = graph.records[0]
    backward = record._replace(call=record.call._replace(phase="backward"))
    with pytest.raises(ArenaError, match=r"inference only.*backward.*memory=True"):
        arena_of(type(graph)((record, backward), graph.run))


def test_a_call_without_operand_ids_is_refused():
    graph = trace([Node("relu", (1,), 10, 4)], {1: 4}, [10])
    record = graph.records[0]._replace(call=graph.calls[0]._replace(inputs=()))
    with pytest.raises(ArenaError, match="relu-0 has no operand ids"):
        arena_of(type(graph)((record,), graph.run))


def test_a_run_whose_outputs_are_unknown_keeps_what_is_never_read():
    nodes = [Node("conv", (1,), 10, 8), Node("conv", (1,), 11, 2), Node("conv", (11,), 12, 4)]
    arena = arena_of(trace(nodes, {1: 1}, []))
    assert [live for _, live in arena.timeline] == [9, 11, 8 + 2 + 4]
    assert "assuming that values without a reader are returned" in arena.notes[0]
