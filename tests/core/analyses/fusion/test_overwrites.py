"""Which call wrote over memory last, by storage ids."""

from __future__ import annotations

from costcore.analyses.fusion.traffic import Graph, Overwrites
from costcore.ir import Layer
from tests.core.analyses.fusion.runs import Calls
from tests.core.traces import Call


def call(inputs, outputs, storages):
    return Call(Layer("add"), "add", "f", "add", inputs=inputs, outputs=outputs, storages=storages)


def test_a_second_write_follows_the_first():
    found = Overwrites()
    assert found.note(4, call((1,), (2,), (70, 70)), {}) == []  # value 2 in the memory of value 1
    assert not found.is_empty
    assert found.note(6, call((2,), (3,), (70, 70)), {}) == [4]
    assert found.writer(70, 1) == 6
    assert found.writer(70, 3) is None  # what call 6 wrote itself


def test_a_call_follows_every_earlier_writer():
    found = Overwrites()
    found.note(4, call((1,), (2,), (70, 70)), {})
    found.note(5, call((11,), (12,), (80, 80)), {})
    assert found.note(6, call((2, 12), (3, 13), (70, 80, 70, 80)), {}) == [4, 5]


def test_results_in_memory_of_their_own_write_over_nothing():
    found = Overwrites()
    assert found.note(0, call((1,), (2,), (70, 71)), {}) == []
    assert found.note(1, call((2,), (3,), (71, 0)), {}) == []  # an unknown storage
    assert found.note(2, call((0,), (4,), (0, 0)), {}) == []  # two unknown ones are not the same memory
    assert found.is_empty


def test_a_value_under_another_name_is_the_one_that_was_written():
    found = Overwrites()
    found.note(4, call((1,), (2,), (70, 70)), {2: 1})  # 2 is another name of 1
    assert found.writer(70, 1) is None
    assert found.writer(70, 2) == 4


def graph_of(*places):
    """The graph of maps on one operand: each is an operator with what it reads, what it makes, and their memory."""
    calls = Calls()
    for op, *_ in places:
        calls(op, calls.given(4, 8))
    for i, (_, read, made, storages) in enumerate(places):
        calls.calls[i] = calls.calls[i]._replace(inputs=(read,), outputs=(made,), storages=storages)
    return Graph(calls.trace())


def test_who_reads_an_overwritten_value_by_its_old_name_follows_the_writer():
    """neg writes over what exp made: relu reads the memory under the old name, and sqrt under the new one."""
    graph = graph_of(
        ("exp", 51, 52, (70, 71)), ("neg", 52, 53, (71, 71)), ("relu", 52, 54, (71, 72)), ("sqrt", 53, 55, (71, 73))
    )
    assert [node.operands[0].value for node in graph.nodes] == [51, 52, -2, 53]
    assert [set(node.follows) for node in graph.nodes] == [set(), {0}, {1}, {1}]
    assert graph.overwriting == {1} and 52 in graph.kept


def test_a_view_without_an_id_names_nothing():
    """neg writes over the memory of exp, and nothing says what its result is called: relu reads what it wrote."""
    graph = graph_of(
        ("exp", 51, 52, (70, 71)), ("view", 52, 0, (71, 71)), ("neg", 52, 0, (71, 71)), ("relu", 52, 54, (71, 72))
    )
    assert graph.nodes[3].operands[0].value == -3
    assert set(graph.nodes[3].follows) == {2}


def test_memory_of_a_result_that_nobody_has_read_is_written_over():
    """Memory 50 has value 2, and then, without its having been read, value 3."""
    overwrites = Overwrites()
    assert overwrites.note(0, call((1,), (2,), (49, 50)), {}) == []
    assert overwrites.is_empty
    assert overwrites.note(1, call((1,), (3,), (49, 50)), {}) == []
    assert (overwrites.writer(50, 2), overwrites.writer(50, 3)) == (1, None)
    assert overwrites.note(2, call((1,), (4,), (49, 50)), {}) == [1]
