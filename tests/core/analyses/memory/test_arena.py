"""The arena of a run: peak, layout, bound and order, against definitions executed directly and hand counts."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
import sympy

from costcore import Trace
from costcore.analyses.memory import arena as planner
from costcore.analyses.memory import order
from costcore.analyses.memory.arena import Arena, Life, plan
from costcore.analyses.memory.liveness import lives_of
from costcore.analyses.memory.order import best_order
from costcore.errors import ArenaError, CostError
from costcore.ir import Layer, Tensor
from costcore.trace.trace import ELEMENTWISE, VIEWS
from tests.core.analyses.memory.graphs import Node, least_memory, random_trace, trace
from tests.core.traces import Call, CallCost, Dataflow, Run, Step, Value
from tests.registered import calculators
from tests.work import at_most


@pytest.mark.parametrize("seed", range(28))
def test_the_exact_bound_is_the_least_memory_of_all_orders(seed):
    graph = random_trace(Random(seed), 1 + seed % 7)
    for inplace in (False, True):
        for count_inputs in (False, True):
            arena = Arena(graph, 1, inplace, count_inputs)
            assert arena.is_exact
            assert arena.lower_bound == arena.order_peak == least_memory(graph, inplace, count_inputs)
            assert sorted(arena.order) == sorted(call.name for call in graph.calls)


@pytest.mark.parametrize("seed", range(12))
def test_bound_peak_and_size_are_in_order_and_values_never_overlap(seed):
    graph = random_trace(Random(1000 + seed), 40)
    for inplace in (False, True):
        arena = Arena(graph, 8, inplace)
        assert arena.lower_bound <= arena.order_peak <= arena.peak <= arena.size
        assert all(offset % 8 == 0 for offset in arena.offsets.values())
        for a, b in combinations(arena.slots, 2):
            if a.born <= b.last_use and b.born <= a.last_use and a.nbytes and b.nbytes:
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
        assert max(slot.offset + slot.nbytes for slot in arena.slots) <= arena.size
        alive = [sum(s.nbytes for s in arena.slots if s.born <= i <= s.last_use) for i in range(40)]
        assert [live for _, live in arena.timeline] == alive
        assert max(alive) == arena.peak


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_from_less_search_holds(seed):
    lives = lives_of(random_trace(Random(2000 + seed), 12))
    for inplace in (False, True):
        exact, bound = best_order(lives, inplace, True), best_order(lives, inplace, True, most_states=0)
        assert exact.is_exact
        assert bound.lower_bound <= exact.lower_bound <= bound.peak
        assert bound.is_exact == (bound.lower_bound == bound.peak)


def chains(*parts):
    """Values of these sizes: parts that follow one another, each of chains whose ends are joined to four bytes."""
    nodes, x, made = [], 1, 10
    for part in parts:
        ends = []
        for sizes in part:
            nodes += [Node("conv", (x,), made, sizes[0]), Node("conv", (made,), made + 1, sizes[1])]
            ends.append(made + 1)
            made += 2
        nodes.append(Node("concat", tuple(ends), made, 4))
        x, made = made, made + 1
    return lives_of(trace(nodes, {1: 4}, [x]))


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_all_parts_share_the_search(copies):
    """Three chains of two calls and their concatenation: 3 * 3 * 3 sets may be finished, of which one is none of them.

    With the set of all calls these are 27. Copies follow one another, with one value between them.
    """
    lives = chains(*[((5, 5), (1, 3), (8, 5))] * copies)
    assert best_order(lives, False, True, most_states=27 * copies).is_exact
    assert not best_order(lives, False, True, most_states=27 * copies - 1).is_exact


@pytest.mark.parametrize(("most", "is_exact"), [(27 * 7, True), (27 * 7 - 1, False)])
def test_a_set_has_a_bit_for_each_node(monkeypatch, most, is_exact):
    """27 sets of 7 nodes."""
    monkeypatch.setattr(order, "MOST_BITS", most)
    assert best_order(chains(((5, 5), (1, 3), (8, 5))), False, True).is_exact == is_exact


def test_a_part_that_needs_no_more_than_another_is_not_searched():
    lives = chains(((5, 5), (1, 3), (8, 5)), *[((1, 1), (1, 1), (1, 1))] * 5)
    assert best_order(lives, False, True, most_states=27).is_exact


def test_the_part_that_needs_most_is_searched_first():
    """Four bytes are read by two chains, whose ends are joined to four bytes for two further chains.

    In the given order the first part needs 4 + 5 + 2, but 4 + 1 + 5 if its second chain begins before the first ends.
    The second part needs 4 + 2 + 4 = 10 in the given order, so that no other order can save the run anything, and the
    3 * 3 sets of the first part are all that is searched.
    """
    lives = chains(((5, 2), (1, 1)), ((1, 2), (4, 1)))
    assert best_order(lives, False, True, most_states=9)[:2] == (10, True)


@pytest.mark.parametrize("seed", range(24))
def test_what_is_returned_from_inside_is_never_written_over(seed):
    """Of seven calls, element-wise ones among them, the results of three are returned."""
    random = Random(seed)
    graph = random_trace(random, 7)
    returned = random.sample([call.outputs[0] for call in graph.calls], 3)
    graph = Trace(graph.records, Run().recording(returned=tuple(returned)))
    assert Arena(graph, 1, True).lower_bound == least_memory(graph, True, True)


def test_a_run_without_calls_needs_its_inputs():
    """A graph that returns one of its two inputs, of 8 and 3 bytes: 8 + 4 in multiples of 4."""
    flow = Dataflow((Value(1, 8, "x"), Value(2, 3, "y")), (), (), (), ())
    arena = Arena(Trace((), Run().recording(returned=(1,), dataflow=flow)), 4)
    assert (arena.peak, arena.at, arena.size, arena.lower_bound, arena.order) == (11, "start", 12, 11, [])
    assert arena.timeline == [("start", 11)] and arena.by_call == {}
    rows = [(row["name"], row["born"], row["dies"], row["at_peak"]) for row in arena.entries()]
    assert rows == [("x", "start", "end", "yes"), ("y", "start", "start", "yes")]
    assert repr(arena) == "<Arena: peak 11 bytes at start, arena 12, weights 0>"
    assert Arena(Trace((), Run())).entries() == []


def test_a_value_lives_from_its_call_to_its_last_reader():
    # 1 (4 B) -> conv 10 (8 B) -> relu 11 (8 B) -> add with the input 12 (4 B)
    nodes = [Node("conv", (1,), 10, 8), Node("relu", (10,), 11, 8), Node("conv", (11, 1), 12, 4)]
    arena = Arena(trace(nodes, {1: 4}, [12]))
    assert arena.timeline == [("conv-0", 4 + 8), ("relu-1", 4 + 8 + 8), ("conv-2", 4 + 8 + 4)]
    assert arena.by_call == dict(arena.timeline)
    assert (arena.peak, arena.at) == (20, "relu-1")
    assert Arena(trace(nodes, {1: 4}, [12]), inplace=True).peak == 4 + 8 + 4, "the relu writes over its operand"
    assert Arena(trace(nodes, {1: 4}, [12]), inplace=True, count_inputs=False).peak == 8 + 4


def test_what_is_written_over_is_never_an_input_or_has_another_reader():
    def inplace(nodes, inputs, returned):
        return Arena(trace(nodes, inputs, returned), inplace=True).peak

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
    assert [live for _, live in Arena(trace(nodes, {1: 1}, [10, 13])).timeline] == [9, 10, 14, 13]
    assert [live for _, live in Arena(trace(nodes, {1: 1}, [13])).timeline] == [9, 10, 6, 5]


def test_chains_of_views_take_no_memory():
    nodes = [Node("conv", (1,), 10, 8), *(Node("identity", (i,), i + 1, 8) for i in range(10, 40))]
    arena = Arena(trace([*nodes, Node("conv", (40,), 41, 1)], {1: 4}, [41]))
    assert arena.peak == 12
    assert list(arena.offsets) == ["input 1", "conv-0", "conv-31"]


def test_a_better_order_finishes_one_branch_before_the_other():
    # s 8 -> two branches of 64 -> 8 each -> 8: side by side 8 + 64 + 64, one after the other 8 + 64 + 8
    nodes = [
        *(Node("conv", (1,), 10, 8), Node("conv", (10,), 11, 64), Node("conv", (10,), 12, 64)),
        *(Node("conv", (11,), 13, 8), Node("conv", (12,), 14, 8), Node("add", (13, 14), 15, 8)),
    ]
    arena = Arena(trace(nodes, {1: 8}, [15]))
    assert arena.peak == 8 + 64 + 64
    assert arena.lower_bound == arena.order_peak == 8 + 64 + 8
    first, second = (arena.order.index(name) for name in ("conv-3", "conv-4"))
    assert min(first, second) < max(arena.order.index("conv-1"), arena.order.index("conv-2"))


def test_one_hundred_thousand_calls_are_planned_with_work_that_grows_with_their_number():
    def residual(blocks: int) -> Arena:
        nodes, x, made = [], 1, 10
        for _ in range(blocks):
            a, b, c, y = range(made, made + 4)
            nodes += [Node("conv", (x,), a, 4), Node("relu", (a,), b, 4), Node("conv", (b,), c, 4)]
            nodes.append(Node("add", (c, x), y, 4))
            x, made = y, made + 4
        return Arena(trace(nodes, {1: 4}, [x]))

    small, large = residual(20), residual(200)
    work = []
    for arena in (small, large):
        with at_most(2_000_000) as counted:
            assert (arena.peak, arena.size, arena.lower_bound) == (12, 3 * 64, 12)
        work.append(counted.calls)
    assert work[1] < 11 * work[0]


def test_a_call_may_write_over_a_value_that_it_does_not_read():
    """Memory 50 has 8 B of one product, then 4 B of the next, and 8 again; calls that write there keep their order."""
    nodes = [
        Node("conv", (1,), 10, 8),
        Node("conv", (1,), 11, 4),
        Node("conv", (11,), 12, 2),
        Node("conv", (1,), 13, 8),
        Node("conv", (12, 13), 14, 1),
    ]
    storages = [(40, 50), (40, 50), (50, 51), (40, 50), (51, 50, 52)]
    graph = trace(nodes, {1: 1}, [14])
    records = [
        record._replace(call=record.call._replace(storages=places))
        for record, places in zip(graph.records, storages, strict=True)
    ]
    lives = lives_of(Trace(tuple(records), graph.run))
    assert [(block.name, block.nbytes, block.born, block.last_use) for block in lives.blocks] == [
        ("input 1", 1, 0, 3),
        ("conv-0", 8, 0, 4),
        ("conv-2", 2, 2, 4),
        ("conv-4", 1, 4, 4),
    ]
    assert [moment.reads for moment in lives.moments] == [[0], [0, 1], [1], [0, 1], [2, 1]]
    assert [sorted(moment.after) for moment in lives.moments] == [[], [0], [1], [2], [2, 3]]


def test_what_a_graph_says_beside_its_calls():
    """The second of two products also makes a state of 16 B, which is viewed; 3 is stored, 4 comes from nowhere."""
    nodes = [Node("conv", (1,), 10, 8), Node("conv", (10, 3, 4), 20, 2), Node("conv", (22, 20), 30, 1)]
    steps = (Step(20, (1,), (Value(21, 16, "state"),)), Step(25, (), (), views=((22, 21),), name="loop: end"))
    flow = Dataflow((Value(1, 4, "x"),), (Value(3, 100, "w"),), steps)
    lives = lives_of(trace(nodes, {1: 4, 3: 100, 4: 6, 22: 16}, [30], flow))
    assert [moment.name for moment in lives.moments] == ["conv-0", "conv-1", "loop: end", "conv-2"]
    assert [(block.name, block.nbytes, block.born, block.last_use, block.kind) for block in lives.blocks] == [
        ("x", 4, 0, 1, "input"),
        ("conv-0", 8, 0, 1, "value"),
        ("input 2", 6, 0, 1, "input"),
        ("conv-1", 2, 1, 3, "value"),
        ("state", 16, 1, 3, "value"),
        ("conv-2", 1, 3, 3, "output"),
    ]
    assert lives.weights == 100
    assert lives.notes == ("values of unknown origin, which count from the start: 1",)


def test_an_arena_of_symbolic_sizes_says_what_it_needs():
    """n + 2n bytes in the first call, and 3n in the second."""
    n = sympy.Symbol("n", integer=True, positive=True)
    x, y, z = Tensor((n,), "int8"), Tensor((2 * n,), "int8"), Tensor((n,), "int8")
    calls = [
        Call(Layer("conv", {"x": x}, [y]), "conv", name="a", inputs=(1,), outputs=(2,)),
        Call(Layer("conv", {"x": y}, [z]), "conv", name="b", inputs=(2,), outputs=(3,)),
    ]
    arena = Arena(Trace(tuple(CallCost(call, None) for call in calls), Run().recording(returned=(3,))))
    assert arena.remarks == [
        "flash (weights and constants): 0 B",
        "peak, in execution order: 3*n B, at a",
        "a layout needs numbers for n: subs(…), or --dim",
    ]
    assert [row["offset"] for row in arena.entries()] == [None] * 3
    assert [(row["nbytes"], row["at_peak"]) for row in arena.entries()] == [(n, "yes"), (2 * n, "yes"), (n, "no")]
    assert arena.total_entry() == {"name": "peak", "nbytes": 3 * n}


def test_planner_places_by_hand():
    # three values of 4, 6 and 4 bytes; the first and the last never live together
    plan_of = plan([Life(4, 0, 1), Life(6, 1, 2), Life(4, 2, 3)], 1)
    assert (plan_of.size, plan_of.offsets) == (10, [6, 0, 6])
    aligned = plan([Life(4, 0, 1), Life(6, 1, 2), Life(4, 2, 3)], 16)
    assert (aligned.size, aligned.offsets) == (32, [16, 0, 16]) or aligned.offsets == [0, 16, 0]
    # the one of 4 bytes is at 0; of those of 3, the one born at 2 is beside it at 4, the last one born at 1 beside both
    # at 7, the one before it at 0, and the first one beside that at 3, as nothing is at 4 until 2
    lives = [Life(3, 1, 1), Life(3, 2, 3), Life(4, 3, 4), Life(3, 1, 2), Life(3, 1, 4)]
    assert (plan(lives, 1).sizes["micro"], plan(lives, 1).offsets) == (10, [3, 4, 0, 0, 7])
    assert plan([], 16).size == 0
    assert plan([Life(0, 0, 5)], 16).offsets == [0]


def test_the_smallest_layout_of_all_strategies_wins():
    random = Random(7)
    for _ in range(200):
        lives = []
        for _ in range(random.randint(1, 30)):
            born = random.randint(0, 20)
            lives.append(Life(random.randint(0, 40), born, born + random.randint(0, 8)))
        found = plan(lives, 4)
        assert found.size == min(found.sizes.values()) == found.sizes[found.strategy]
        assert set(found.sizes) == {"size", "conflicts", "birth", "micro"}
        peak = max(sum(-(-x.nbytes // 4) * 4 for x in lives if x.born <= i <= x.last_use) for i in range(30))
        assert found.size >= peak


def test_elementwise_operators_and_views_are_supported_operators():
    assert not (ELEMENTWISE | VIEWS) - calculators().keys()


def test_arguments_are_checked():
    graph = trace([Node("relu", (1,), 10, 4)], {1: 4}, [10])
    with pytest.raises(TypeError, match="align must be an integer"):
        Arena(graph, align=1.5)
    with pytest.raises(ArenaError, match="align must be at least 1"):
        Arena(graph, align=0)
    with pytest.raises(TypeError, match="inplace must be True or False"):
        Arena(graph, inplace=1)
    assert issubclass(ArenaError, CostError)


def test_a_training_step_is_refused():
    graph = trace([Node("relu", (1,), 10, 4)], {1: 4}, [10])
    record = graph.records[0]
    backward = record._replace(call=record.call._replace(phase="backward"))
    with pytest.raises(ArenaError, match=r"inference only.*backward.*memory=True"):
        Arena(type(graph)((record, backward), graph.run))


def test_a_call_without_operand_ids_is_refused():
    graph = trace([Node("relu", (1,), 10, 4)], {1: 4}, [10])
    record = graph.records[0]._replace(call=graph.calls[0]._replace(inputs=()))
    with pytest.raises(ArenaError, match="relu-0 has no operand ids"):
        Arena(type(graph)((record,), graph.run))


def test_a_run_whose_outputs_are_unknown_keeps_what_is_never_read():
    nodes = [Node("conv", (1,), 10, 8), Node("conv", (1,), 11, 2), Node("conv", (11,), 12, 4)]
    arena = Arena(trace(nodes, {1: 1}, []))
    assert [live for _, live in arena.timeline] == [9, 11, 8 + 2 + 4]
    assert "values without a reader are assumed to be returned" in arena.notes[0]


@pytest.mark.parametrize(("dtype", "nbytes", "is_named"), [("string", 0, True), ("int8", 4, False)])
def test_strings_are_named_where_they_count_as_nothing(dtype, nbytes, is_named):
    layer = Layer("cast", {"x": Tensor((4,), "int8")}, [Tensor((4,), dtype)])
    call = Call(layer, "cast", name="cast", inputs=(1,), outputs=(2,))
    lives = lives_of(Trace((CallCost(call, None),), Run().recording(returned=(2,))))
    assert any("strings count as 0 bytes" in note for note in lives.notes) is is_named
    assert [block.nbytes for block in lives.blocks] == [4, nbytes]


def placed_by_definition(lives, order):
    """Return the extent if every block gets the lowest offset that no placed block has while both live."""
    offsets = {}
    for i in order:
        others = [
            range(offset, offset + lives[j].nbytes)
            for j, offset in offsets.items()
            if lives[j].born <= lives[i].last_use and lives[i].born <= lives[j].last_use
        ]
        offset = 0
        while any(offset < other.stop and other.start < offset + lives[i].nbytes for other in others):
            offset += 1
        offsets[i] = offset if lives[i].nbytes else 0
    return max(offset + lives[i].nbytes for i, offset in offsets.items())


@pytest.mark.parametrize("seed", range(40))
def test_every_strategy_places_by_its_definition(seed):
    random = Random(seed)
    lives = [Life(random.randrange(5), born := random.randrange(8), born + random.randrange(4)) for _ in range(9)]
    met = [
        sum(
            i != j and bool(a.nbytes and b.nbytes) and a.born <= b.last_use and b.born <= a.last_use
            for j, b in enumerate(lives)
        )
        for i, a in enumerate(lives)
    ]
    keys = {
        "size": lambda i: (-lives[i].nbytes, lives[i].born, i),
        "conflicts": lambda i: (-met[i], -lives[i].nbytes, lives[i].born, i),
        "birth": lambda i: (lives[i].born, -lives[i].nbytes, i),
        "micro": lambda i: (-lives[i].nbytes, -lives[i].born, -i),
    }
    expected = {name: placed_by_definition(lives, sorted(range(9), key=key)) for name, key in keys.items()}
    found = plan(lives, 1)
    assert found.sizes == expected
    assert found.size == min(expected.values()) == expected[found.strategy]


@pytest.mark.parametrize("seed", range(10))
def test_only_birth_is_tried_with_too_many_conflicts(monkeypatch, seed):
    """Pairs of blocks that live at the same time are counted, those without bytes too."""
    random = Random(seed)
    lives = [Life(random.randrange(5), born := random.randrange(8), born + random.randrange(4)) for _ in range(9)]
    pairs = sum(a.born <= b.last_use and b.born <= a.last_use for a, b in combinations(lives, 2))
    for most, strategies in ((pairs, {"size", "conflicts", "birth", "micro"}), (pairs - 1, {"birth"})):
        monkeypatch.setattr(planner, "MOST_CONFLICTS", most)
        assert set(plan(lives, 1).sizes) == strategies
