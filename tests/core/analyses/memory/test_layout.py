"""Lifetimes, orders and places of values, and the peak over all batches, against definitions and by hand."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
import sympy

from costcore import Trace
from costcore.analyses.memory import arena as planner
from costcore.analyses.memory import order
from costcore.analyses.memory.allocator import Envelope, difference, envelope_of
from costcore.analyses.memory.arena import Lifetime, smallest_layout
from costcore.analyses.memory.liveness import lifetimes_of, merged
from costcore.analyses.memory.order import best_order, first_step_of, highest
from costcore.ir import Layer, Tensor
from tests.core.analyses.memory.graphs import Node, random_trace, trace
from tests.core.analyses.memory.test_whole_outputs import with_loops
from tests.core.traces import Block, Call, CallCost, Dataflow, MemoryLedger, Run, Step, Value
from tests.whole_text import as_json


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_from_less_search_holds(seed):
    lives = lifetimes_of(random_trace(Random(2000 + seed), 12))
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
    return lifetimes_of(trace(nodes, {1: 4}, [x]))


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
    lives = lifetimes_of(Trace(tuple(records), graph.run))
    assert [(block.name, block.nbytes, block.born, block.last_use) for block in lives.blocks] == [
        ("input 1", 1, 0, 3),
        ("conv-0", 8, 0, 4),
        ("conv-2", 2, 2, 4),
        ("conv-4", 1, 4, 4),
    ]
    assert [moment.reads for moment in lives.steps] == [[0], [0, 1], [1], [0, 1], [2, 1]]
    assert [sorted(moment.after) for moment in lives.steps] == [[], [0], [1], [2], [2, 3]]


def test_what_a_graph_says_beside_its_calls():
    """The second of two products also makes a state of 16 B, which is viewed; 3 is stored, 4 comes from nowhere."""
    nodes = [Node("conv", (1,), 10, 8), Node("conv", (10, 3, 4), 20, 2), Node("conv", (22, 20), 30, 1)]
    steps = (Step(20, (1,), (Value(21, 16, "state"),)), Step(25, (), (), views=((22, 21),), name="loop: end"))
    flow = Dataflow((Value(1, 4, "x"),), (Value(3, 100, "w"),), steps)
    lives = lifetimes_of(trace(nodes, {1: 4, 3: 100, 4: 6, 22: 16}, [30], flow))
    assert [moment.name for moment in lives.steps] == ["conv-0", "conv-1", "loop: end", "conv-2"]
    assert [(block.name, block.nbytes, block.born, block.last_use, block.kind) for block in lives.blocks] == [
        ("x", 4, 0, 1, "input"),
        ("conv-0", 8, 0, 1, "value"),
        ("input 2", 6, 0, 1, "input"),
        ("conv-1", 2, 1, 3, "value"),
        ("state", 16, 1, 3, "value"),
        ("conv-2", 1, 3, 3, "output"),
    ]
    assert lives.weights == 100
    assert lives.notes == ("values of unknown origin, assumed alive from the start: 1",)


def test_planner_places_by_hand():
    # three values of 4, 6 and 4 bytes; the first and the last never live together
    plan_of = smallest_layout([Lifetime(4, 0, 1), Lifetime(6, 1, 2), Lifetime(4, 2, 3)], 1)
    assert (plan_of.size, plan_of.offsets) == (10, [6, 0, 6])
    aligned = smallest_layout([Lifetime(4, 0, 1), Lifetime(6, 1, 2), Lifetime(4, 2, 3)], 16)
    assert (aligned.size, aligned.offsets) == (32, [16, 0, 16]) or aligned.offsets == [0, 16, 0]
    # the one of 4 bytes is at 0; of those of 3, the one born at 2 is beside it at 4, the last one born at 1 beside both
    # at 7, the one before it at 0, and the first one beside that at 3, as nothing is at 4 until 2
    lives = [Lifetime(3, 1, 1), Lifetime(3, 2, 3), Lifetime(4, 3, 4), Lifetime(3, 1, 2), Lifetime(3, 1, 4)]
    assert (smallest_layout(lives, 1).sizes["micro"], smallest_layout(lives, 1).offsets) == (10, [3, 4, 0, 0, 7])
    assert smallest_layout([], 16).size == 0
    assert smallest_layout([Lifetime(0, 0, 5)], 16).offsets == [0]


def test_the_smallest_layout_of_all_strategies_wins():
    random = Random(7)
    for _ in range(200):
        lives = []
        for _ in range(random.randint(1, 30)):
            born = random.randint(0, 20)
            lives.append(Lifetime(random.randint(0, 40), born, born + random.randint(0, 8)))
        found = smallest_layout(lives, 4)
        assert found.size == min(found.sizes.values()) == found.sizes[found.strategy]
        assert set(found.sizes) == {"size", "conflicts", "birth", "micro"}
        peak = max(sum(-(-x.nbytes // 4) * 4 for x in lives if x.born <= i <= x.last_use) for i in range(30))
        assert found.size >= peak


@pytest.mark.parametrize(("dtype", "nbytes", "is_named"), [("string", 0, True), ("int8", 4, False)])
def test_strings_are_named_where_they_count_as_nothing(dtype, nbytes, is_named):
    layer = Layer("cast", {"x": Tensor((4,), "int8")}, [Tensor((4,), dtype)])
    call = Call(layer, "cast", name="cast", inputs=(1,), outputs=(2,))
    lives = lifetimes_of(Trace((CallCost(call, None),), Run().recording(returned=(2,))))
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
    lives = [Lifetime(random.randrange(5), born := random.randrange(8), born + random.randrange(4)) for _ in range(9)]
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
    found = smallest_layout(lives, 1)
    assert found.sizes == expected
    assert found.size == min(expected.values()) == expected[found.strategy]


@pytest.mark.parametrize("seed", range(10))
def test_only_birth_is_tried_with_too_many_conflicts(monkeypatch, seed):
    """Pairs of blocks that live at the same time are counted, those without bytes too."""
    random = Random(seed)
    lives = [Lifetime(random.randrange(5), born := random.randrange(8), born + random.randrange(4)) for _ in range(9)]
    pairs = sum(a.born <= b.last_use and b.born <= a.last_use for a, b in combinations(lives, 2))
    for most, strategies in ((pairs, {"size", "conflicts", "birth", "micro"}), (pairs - 1, {"birth"})):
        monkeypatch.setattr(planner, "MOST_CONFLICTS", most)
        assert set(smallest_layout(lives, 1).sizes) == strategies


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
    return lifetimes_of(trace(nodes, {1: 2}, [14]))


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
    blocks = merged(lifetimes_of(trace(nodes, {1: 2}, [13])), True)
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
    return lifetimes_of(trace(nodes, {1: 2, 2: 3}, [13], flow))


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
    lives = lifetimes_of(trace(nodes, {1: 2}, [18], Dataflow((Value(1, 2, "x"),), (), (start,))))
    assert found(lives, False) == found(lives, True) == blocks


n = sympy.Symbol("n", integer=True, positive=True)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([], 0),
        ([3, 9, 5], 9),
        ([n, 2 * n], 2 * n),  # 2 n - n = n
        ([2 * n, n], 2 * n),
        ([n + 3, n], n + 3),  # the difference is 3 at every n
        ([n, n**2], n**2),  # n^2 - n = (n - 1) n; with m = n - 1 it is m^2 + m
        ([n * (n + 1), n**2 + n], n**2 + n),  # equal, although they are written differently
    ],
)
def test_one_amount_is_the_highest_at_every_size(amounts, expected):
    assert sympy.expand(highest(amounts)) == expected
    assert not isinstance(highest(amounts), sympy.Max)


@pytest.mark.parametrize(
    "amounts",
    [
        [7, n],  # 7 > 1 at n = 1, 7 < 64 at n = 64
        # n^2 - 66 n + 128 = (n - 2) (n - 64) is 63, 0, 0 and > 0 at 1, 2, 64 and 4096, but -432 at 10
        [66 * n, n**2 + 128],
        [1, 1 + sympy.floor(8 / (n - 1))],  # has no value at n = 1
    ],
)
def test_amounts_that_cannot_be_compared_are_a_maximum(amounts):
    found = highest(amounts)
    assert isinstance(found, sympy.Max)
    assert set(found.args) == set(map(sympy.sympify, amounts))


def test_a_number_below_another_one_is_left_out_of_a_maximum():
    assert set(highest([3, 9, n]).args) == {9, n}


def test_the_first_step_at_the_peak():
    assert first_step_of([n, 2 * n, n, 2 * n], 2 * n) == 1
    assert first_step_of([1, n, 7], sympy.Max(7, n, evaluate=False)) == 1  # n is one of its terms


LINES = ((100, 5), (90, 10), (60, 15), (0, 20), (100, 0))
"""100 + 5 B is the highest at B = 1, with 105. 90 + 10 B and 100 + 5 B meet at 2, 60 + 15 B and 90 + 10 B at 6, and
0 + 20 B and 60 + 15 B at 12. 100 + 0 B is never the highest."""


def test_every_line_holds_from_where_it_meets_the_one_before():
    envelope = Envelope(LINES)
    assert envelope.lines == [(1, 100, 5), (2, 90, 10), (6, 60, 15), (12, 0, 20)]
    # 100 + 5, 90 + 50, 90 + 60 = 60 + 90, 60 + 105, 60 + 165, 60 + 180 = 240
    assert [envelope.peak(batch) for batch in (1, 5, 6, 7, 11, 12)] == [105, 140, 150, 165, 225, 240]


def test_a_line_that_is_the_highest_between_two_batches_only_is_not_listed():
    # 7 + 4 B meets 12 + 0 B at 1.25, and 0 + 8 B at 1.75: the bytes are 12, 11 and 8 at 1, and 12, 15 and 16 at 2.
    assert Envelope([(12, 0), (7, 4), (0, 8)]).lines == [(1, 12, 0), (2, 0, 8)]


def test_the_lines_from_a_batch_on():
    envelope = Envelope(LINES)
    assert envelope.lines_from(2) == [(2, 90, 10), (6, 60, 15), (12, 0, 20)]
    assert envelope.lines_from(7) == [(7, 60, 15), (12, 0, 20)]
    assert envelope.lines_from(1) == envelope.lines


@pytest.mark.parametrize("batch", range(1, 40))
def test_the_peak_is_the_highest_of_all_lines(batch):
    assert Envelope(LINES).peak(batch) == max(nbytes + per_sample * batch for nbytes, per_sample in LINES)


@pytest.mark.parametrize(
    ("nbytes", "batch"),
    [(104, 0), (105, 1), (109, 1), (110, 2), (149, 5), (150, 6), (239, 11), (240, 12), (259, 12), (2000, 100)],
)
def test_the_largest_batch(nbytes, batch):
    assert Envelope(LINES).largest(nbytes) == batch


def test_what_does_not_depend_on_the_batch_can_be_too_much():
    # 200 bytes whatever the batch, although 100 + 20 B has room for four samples.
    assert Envelope([(200, 0), (100, 20)]).largest(180) == 0
    assert Envelope([(200, 0), (100, 20)]).largest(200) == 5


def test_a_peak_that_does_not_grow_has_no_largest_batch():
    assert Envelope([(200, 0)]).largest(200) is None
    assert Envelope([(200, 0)]).largest(199) == 0


def ledger(batch, more=0, calls=(0, 1, 1)):
    """A weight of 100 bytes and an input of 4 B; call 0 makes 16 B, call 1 makes 8 B + 50 and frees the result of 0."""
    blocks = (
        Block(1, 100, "parameter", 0, None, -1, (25,), "float32"),
        Block(2, 4 * batch, "input", 0, None, -1, (batch,), "float32"),
        Block(3, 16 * batch, "temporary", 1, 3, 0, (batch, 4), "float32"),
        Block(4, 8 * batch + 50 + more, "output", 2, None, 1, (batch, 2), "float32"),
    )
    return MemoryLedger(blocks, calls)


def test_two_ledgers_give_the_line_of_every_event():
    # Live bytes: 100 + 4 B, 100 + 20 B, 150 + 28 B, 150 + 12 B. The third is the highest for every batch.
    assert difference(ledger(2), ledger(3)) == ""
    envelope = envelope_of(ledger(2), ledger(3), 2)
    assert envelope.lines == [(1, 150, 28)]
    assert envelope.peak(1000) == max(ledger(1000).live()) == 28_150


def test_events_that_differ_are_found():
    assert "3 times, the other 2 times" in difference(ledger(2), ledger(3, calls=(0, 1)))
    assert difference(ledger(2), ledger(3, more=7)) == ""  # only sizes differ
    first = ledger(2)
    changed = first._replace(blocks=(*first.blocks[:2], first.blocks[2]._replace(died=None), first.blocks[3]))
    assert difference(first, changed) == "they differ in the block of shape (2, 4) in one and (2, 4) in the other"
    assert difference(first, first._replace(blocks=first.blocks[:3])) == "one has more blocks than the other"


def test_orders_with_less_search(golden):
    found = {}
    for seed in range(30):
        random = Random(seed)
        lives = lifetimes_of(random_trace(random, 16) if seed % 2 else with_loops(random, 12))
        for most in (0, 30):
            bound, is_exact, ordered, peak = best_order(lives, seed % 3 == 0, seed % 4 > 0, most_states=most)
            found[f"{seed} {most}"] = [bound, is_exact, peak, *ordered]
    golden("memory/orders.json", as_json(found))
