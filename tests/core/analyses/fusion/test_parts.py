"""Parts of fusion: patterns of operators, layouts of views, overwritten memory, and paths between groups."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from costcore.analyses.fusion.groups import Cluster, Partition
from costcore.analyses.fusion.traffic import (
    PATTERNS,
    Graph,
    order_of_view,
    pattern_of,
    rows_of,
    stated_pattern,
    work_of,
)
from costcore.errors import CostError
from costcore.ir import Cost, Layer, Tensor, pattern
from tests.calculators.layer_costs import CALCULATORS
from tests.core.analyses.fusion.runs import Calls
from tests.core.traces import Call

X = Tensor((2, 8, 6, 6))
VECTOR = Tensor((8,), role="param")


def layer(op: str, *outputs: Tensor, **attrs: object) -> Layer:
    return Layer(op, {"x": X}, outputs or (X,), attrs)


def test_every_operator_states_a_pattern():
    without = [op for op, calculator in CALCULATORS.items() if not hasattr(calculator, "pattern")]
    assert without == []


def test_every_stated_pattern_is_one_of_the_eight():
    stated = {
        each
        for calculator in CALCULATORS.values()
        for each in (calculator.pattern, *getattr(calculator, "pattern_by_op", {}).values())  # type: ignore[attr-defined]
        if not callable(each)
    }
    assert stated == set(PATTERNS)


def test_exceptions_name_operators_that_the_calculator_covers():
    table = CALCULATORS
    for calculator in set(table.values()):
        covered = {op for op, other in table.items() if other is calculator}
        assert covered.issuperset(getattr(calculator, "pattern_by_op", {}))


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("add", {}, "map"),
        ("cast", {}, "map"),
        ("concat", {}, "move"),
        ("view", {}, "free"),
        ("shape", {}, "make"),
        ("softmax", {"axis": 1}, "reduce"),
        ("conv", {}, "product"),
        ("sort", {}, "opaque"),
        ("batch_norm", {"training": False}, "map"),
        ("batch_norm", {"training": True}, "reduce"),
        ("dropout", {"training": False}, "free"),
        ("dropout", {"training": True}, "map"),
        ("mse_loss", {"reduction": "none"}, "map"),
        ("mse_loss", {}, "reduce"),
        ("no_such_operator", {}, "opaque"),
    ],
)
def test_patterns(op, attrs, expected):
    assert pattern_of(layer(op, **attrs)) == expected


@pytest.mark.parametrize("inputs", [{"x": X}, {"x": Tensor((0, 8))}, {"x": Tensor(())}, {}])
def test_operators_without_outputs_are_fused_with_nothing(inputs):
    """``torch.equal`` answers the program, and in-place operators on lists of tensors return nothing."""
    for op in CALCULATORS:
        silent = Layer(op, inputs)
        work = work_of(silent, Cost(0, 0, 0, {}), pattern_of(silent))
        assert (work.pattern, work.rows, work.writes) == ("opaque", None, ()), op


@pytest.mark.parametrize(
    ("op", "size", "attrs", "expected"),
    [
        ("avg_pool", (1, 1), {"kernel": (6, 6)}, "reduce"),
        ("avg_pool", (1, 1), {"kernel": (5, 5)}, "window"),
        ("max_pool", (3, 3), {"kernel": (2, 2)}, "window"),
        ("adaptive_avg_pool", (1, 1), {}, "reduce"),
        ("adaptive_avg_pool", (6, 1), {}, "reduce"),
        ("adaptive_avg_pool", (2, 2), {}, "window"),
    ],
)
def test_only_global_pooling_is_a_reduction(op, size, attrs, expected):
    assert pattern_of(layer(op, Tensor((2, 8, *size)), **attrs)) == expected


@pytest.mark.parametrize(
    ("equation", "expected"), [("ij->ji", "move"), ("ij->i", "reduce"), ("i,j->ij", "map"), ("ij,jk->ik", "product")]
)
def test_an_einsum_is_what_its_equation_says(equation, expected):
    shapes = [Tensor((4,) * len(term)) for term in equation.partition("->")[0].split(",")]
    assert pattern_of(Layer("einsum", dict(zip(("x0", "x1"), shapes, strict=False)), [X], {"equation": equation})) == (
        expected
    )


@pytest.mark.parametrize(
    ("op", "out", "attrs", "expected"),
    [
        ("softmax", X.shape, {"axis": 1}, 2 * 6 * 6),
        ("layer_norm", X.shape, {"axis": (2, 3)}, 2 * 8),
        ("group_norm", X.shape, {"groups": 4}, 2 * 4),
        ("instance_norm", X.shape, {}, 2 * 8),
        ("batch_norm", X.shape, {"training": True}, 8),
        ("reduce_sum", (2, 1, 6, 6), {}, 2 * 6 * 6),
        ("adaptive_avg_pool", (2, 8, 1, 1), {}, 2 * 8),
        ("softmax_backward", X.shape, {}, None),
    ],
)
def test_rows_of_reductions(op, out, attrs, expected):
    assert rows_of(layer(op, Tensor(out), **attrs)) == expected


def test_a_calculator_of_a_user_states_a_pattern():
    @pattern(lambda layer: "map" if layer.attrs.get("flat") else "move", other="make")
    def calc_mine(layer):
        raise AssertionError

    assert stated_pattern(calc_mine, layer("mine", flat=True)) == "map"
    assert stated_pattern(calc_mine, layer("mine")) == "move"
    assert stated_pattern(calc_mine, layer("other")) == "make"
    assert stated_pattern(lambda layer: None, layer("mine")) == "opaque"


def test_an_invalid_pattern_is_an_error_that_names_the_calculator():
    @pattern("maps")  # type: ignore[arg-type]
    def calc_mine(layer):
        raise AssertionError

    with pytest.raises(CostError, match=r"calc_mine states for 'mine' is 'maps' \(expected one of free, map"):
        stated_pattern(calc_mine, layer("mine"))

    @pattern(lambda layer: layer["absent"])
    def calc_broken(layer):
        raise AssertionError

    with pytest.raises(CostError, match=r"calc_broken states for 'mine' raised MissingOperandError: .* no 'absent'"):
        stated_pattern(calc_broken, layer("mine"))


def view(before, after, **attrs):
    return Layer("view", {"x": Tensor(before)}, [Tensor(after)], attrs)


TURNED = [0, 2, 1]
"""The order of [2, 3, 4] that lies as [2, 4, 3]."""


@pytest.mark.parametrize(
    ("before", "after", "attrs", "order", "expected"),
    [
        ((2, 3, 4), (2, 4, 3), {"axes": (0, 2, 1)}, None, [0, 2, 1]),
        ((2, 3, 4), (4, 2, 3), {"axes": (2, 0, 1)}, None, [1, 2, 0]),  # axis 0 is now the second, 1 the third
        ((2, 3, 4), (2, 4, 3), {"axes": (0, 2, 1)}, TURNED, [0, 1, 2]),
        ((2, 3, 4), (2, 3, 2), {}, TURNED, TURNED),  # a part along one axis
        ((2, 3, 4), (3, 4), {"axis": 0}, TURNED, [1, 0]),  # one element of an axis
        ((2, 3, 4), (2, 4), {"axis": 1}, TURNED, [0, 1]),
        ((2, 3, 4), (2, 3), {"axis": 2}, TURNED, [0, 1]),
        ((2, 3, 4), (6, 4), {}, None, None),
        ((2, 3, 4), (6, 4), {}, [2, 0, 1], [1, 0]),  # neighbors are joined
        ((6, 4), (2, 3, 4), {}, [1, 0], [2, 0, 1]),  # and parted
        ((2, 3, 4), (6, 4), {}, TURNED, None),  # axes that are not neighbors cannot be joined
        ((2, 3, 4), (2, 1, 3, 4), {}, TURNED, [1, 0, 3, 2]),  # an axis of one element lies anywhere: first
        ((2, 1, 4), (2, 4), {}, [2, 1, 0], [1, 0]),
        ((2, 3, 4), (5, 5), {}, TURNED, None),
        ((2, 3), (3, 2), {}, [1, 0, 2], None),  # an order of another shape
    ],
)
def test_order_of_views(before, after, attrs, order, expected):
    assert order_of_view(view(before, after, **attrs), order) == expected


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
@pytest.mark.parametrize("after", [(6, 4), (2, 12), (24,), (2, 3, 2, 2), (2, 3, 4, 1), (3, 2, 4)])
def test_reshapes_that_numpy_makes_without_a_copy(order, after):
    numpy = pytest.importorskip("numpy")
    shape = (2, 3, 4)
    memory = numpy.zeros([shape[axis] for axis in order])
    value = memory.transpose([order.index(axis) for axis in range(3)])
    found = order_of_view(view(shape, after), order)
    reshaped = value.reshape(after)
    if found is None:
        assert not numpy.shares_memory(reshaped, value)
        return
    assert sorted(found) == list(range(len(after)))
    if numpy.shares_memory(reshaped, value):
        strides = [reshaped.strides[axis] for axis in found if after[axis] != 1]
        assert strides == sorted(strides, reverse=True)


def call(inputs, outputs, storages):
    return Call(Layer("add"), "add", "f", "add", inputs=inputs, outputs=outputs, storages=storages)


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


def reachable(partition):
    """Return which groups depend on which, directly or through others, as the calls say."""
    groups = {id(group): group for group in partition.of.values()}
    follows = {key: {id(each) for each in group.before} for key, group in groups.items()}
    found = {key: set(before) for key, before in follows.items()}
    for middle, key in product(groups, groups):
        found[key] |= found[middle] if middle in found[key] else set()
    return groups, follows, found


@pytest.mark.parametrize("seed", range(30))
def test_paths_are_those_of_the_calls(seed):
    """Groups of a random run are merged where no path through a third group connects them, until none are left."""
    random, partition, follows = Random(seed), Partition(), {}
    for position in range(9):
        follows[position] = frozenset(each for each in range(position) if random.random() < 0.25)
        partition.add(position, Cluster("", 8, None, {"map"}, [position]), follows[position])
    for _ in range(6):
        groups, direct, before = reachable(partition)
        for late, early in product(groups, groups):
            if late == early or late in before[early]:
                continue
            third = any(early in before[middle] for middle in before[late])
            assert partition.has_indirect_path(groups[early], groups[late]) == third
            assert partition.depends(groups[late], groups[early]) == (early in before[late])
        for key, group in groups.items():
            assert group.before == {partition.of[each] for call in group.calls for each in follows[call]} - {group}
            assert all(groups[each].rank < group.rank and group in groups[each].after for each in direct[key])
        free = [
            (groups[early], groups[late])
            for late, early in product(groups, groups)
            if late != early
            and late not in before[early]
            and not partition.has_indirect_path(groups[early], groups[late])
        ]
        if free:
            partition.merge(*random.choice(free), 8, None)


def test_a_search_that_is_too_long_assumes_a_path():
    """The search has both ends and 499 groups behind the first: more than 500. With one group less it ends."""
    for n, expected in ((500, True), (499, False)):
        partition = Partition()
        partition.add(0, Cluster("", 8, None, {"map"}, [0]), frozenset())
        for position in range(1, n):
            partition.add(position, Cluster("", 8, None, {"map"}, [position]), frozenset([position - 1]))
        partition.add(n, Cluster("", 8, None, {"map"}, [n]), frozenset([0]))
        partition.of[n].rank = n
        assert partition.has_indirect_path(partition.of[0], partition.of[n]) is expected
