"""Rules of operators against explicit sets: every element of a value is followed to the elements of the input."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction

import pytest

from costcore import CostError, Report, Trace
from costcore.ir import Layer, Tensor, is_symbolic, prod
from tests.core.analyses.receptive_field.fields import followed, read_inputs, receptive_fields
from tests.core.traces import Call, CallCost, Run


class Graph:
    """A trace of single layers, and of every element of every value the input elements that it depends on.

    Args:
        shape: the shape of the input.
    """

    def __init__(self, *shape):
        self.calls = []
        self.shapes = {1: shape}
        self.seen = {1: {index: {index} for index in itertools.product(*map(range, shape))}}
        self.inputs = (1,)

    def call(self, op, inputs, *shapes, reads=None, **attrs):
        """Append a call. ``reads`` returns, for an index of output i, pairs of operand number and index read."""
        names = ["x"] if len(inputs) == 1 else [f"x{i}" for i in range(len(inputs))]
        names = attrs.pop("names", names)
        operands = {name: Tensor(self.shapes[i]) for name, i in zip(names, inputs, strict=True)}
        ids = tuple(100 * (len(self.calls) + 1) + i for i in range(len(shapes)))
        layer = Layer(op, operands, [Tensor(shape) for shape in shapes], attrs)
        name = f"{op}-{len(self.calls) + 1}"
        self.calls.append(Call(layer, op, name=name, inputs=tuple(inputs), outputs=ids))
        for i, (identity, shape) in enumerate(zip(ids, shapes, strict=True)):
            self.shapes[identity] = shape
            if reads is not None and all(i in self.seen for i in inputs):
                self.seen[identity] = {
                    index: set().union(*(self.seen[inputs[n]][at] for n, at in reads(i, index)))
                    for index in itertools.product(*map(range, shape))
                }
        return ids if len(ids) > 1 else ids[0]

    @property
    def trace(self):
        return Trace(tuple(CallCost(call, None) for call in self.calls), Run().recording(inputs=self.inputs))

    def fields(self, *axes):
        return receptive_fields(self.trace, axes=axes or None)

    def check(self, identity):
        """Compare the path of a value with what every element depends on; return along how many axes it has one."""
        paths = followed(self.trace)
        call = next(call for call in self.calls if identity in call.outputs)
        dependences = paths.outputs[call.name][call.outputs.index(identity)]
        followed_axes = 0
        for axis, dependence in enumerate(dependences):
            if dependence is None:
                assert not any(self.seen[identity].values())
                continue
            if dependence.path is None or dependence.global_by:
                assert dependence.path is not None or dependence.global_by or dependence.unknown
                continue
            followed_axes += 1
            for index, seen in self.seen[identity].items():
                position = 0
                for factor in dependence.path.factors:
                    position += (index[factor.axis] - factor.start) // factor.unit % factor.size * factor.weight
                expected = {each[axis] for each in seen}
                found = dependence.path.map(position)
                clipped = (
                    None if found is None else range(max(found[0], 0), min(found[1], self.shapes[1][axis] - 1) + 1)
                )
                assert (min(expected), max(expected)) == (clipped[0], clipped[-1]), (axis, index)
        return followed_axes

    def reshape(self, identity, shape):
        old = list(itertools.product(*map(range, self.shapes[identity])))
        new = {index: at for at, index in zip(old, itertools.product(*map(range, shape)), strict=True)}
        return self.call("reshape", [identity], tuple(shape), reads=lambda i, index: [(0, new[index])])

    def transpose(self, identity, axes):
        shape = tuple(self.shapes[identity][axis] for axis in axes)
        at = {axis: i for i, axis in enumerate(axes)}
        return self.call(
            "transpose",
            [identity],
            shape,
            axes=tuple(axes),
            reads=lambda _, index: [(0, tuple(index[at[axis]] for axis in range(len(axes))))],
        )

    def pool(self, identity, kernel):
        """Pool the last axis, without padding."""
        *lead, size = self.shapes[identity]
        return self.call(
            "max_pool",
            [identity],
            (*lead, size - kernel + 1),
            kernel=(kernel,),
            stride=(1,),
            reads=lambda _, index: [(0, (*index[:-1], index[-1] + t)) for t in range(kernel)],
        )

    def reduce(self, identity, axis):
        shape = self.shapes[identity]
        rest = tuple(size for i, size in enumerate(shape) if i != axis)
        return self.call(
            "reduce_sum",
            [identity],
            rest,
            axis=(axis,),
            reads=lambda _, index: [(0, (*index[:axis], i, *index[axis:])) for i in range(shape[axis])],
        )

    def slice(self, identity, axis, start, stop, step):
        shape = list(self.shapes[identity])
        taken = range(shape[axis])[slice(start, stop, step)]
        shape[axis] = len(taken)
        return self.call(
            "slice",
            [identity],
            tuple(shape),
            axis=(axis,),
            start=(start,),
            step=(step,),
            reads=lambda _, index: [(0, tuple(taken[j] if i == axis else j for i, j in enumerate(index)))],
        )

    def index(self, identity, *items):
        """Take an integer, which removes its axis, or a range of every axis; None adds an axis."""
        shape, given = self.shapes[identity], [item for item in items if item is not None]
        taken = [
            range(size)[item] if isinstance(item, slice) else [range(size)[item]]
            for item, size in zip(given, shape, strict=True)
        ]
        numbers = iter(range(len(given)))
        axes = [(item, None if item is None else next(numbers)) for item in items]
        kept = [i for item, i in axes if not isinstance(item, int)]
        bounds = [
            (each.start, each.stop, each.step or 1) if isinstance(each, slice) else (each, None, None) for each in given
        ]

        def reads(_, index):
            at = dict(zip(kept, index, strict=True))
            return [(0, tuple(each[at.get(i, 0)] for i, each in enumerate(taken)))]

        return self.call(
            "slice",
            [identity],
            tuple(1 if i is None else len(taken[i]) for i in kept),
            axis=tuple(range(len(shape))),
            **{name: tuple(each[k] for each in bounds) for k, name in enumerate(("start", "stop", "step"))},
            reads=reads,
        )

    def select(self, identity, axis, index):
        shape = self.shapes[identity]
        at = range(shape[axis])[index]
        return self.call(
            "select",
            [identity],
            (*shape[:axis], *shape[axis + 1 :]),
            axis=axis,
            index=index,
            reads=lambda _, i: [(0, (*i[:axis], at, *i[axis:]))],
        )


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


@pytest.mark.parametrize("seed", range(120))
def test_random_rearrangements_are_followed(seed):
    """Reshapes, transposes, slices, reductions and element-wise unions, against every element's own dependence."""
    rng = random.Random(seed)
    graph = Graph(2, rng.choice((4, 6)), rng.choice((4, 6)))
    value = 1
    for _ in range(rng.randint(2, 6)):
        shape = graph.shapes[value]
        kind = rng.randrange(5)
        if kind == 0:
            total, new = prod(shape), []
            for _ in range(rng.randint(0, 3)):
                new.append(rng.choice(divisors(total)))
                total //= new[-1]
            value = graph.reshape(value, (*new, total))
        elif kind == 1:
            value = graph.transpose(value, rng.sample(range(len(shape)), len(shape)))
        elif kind == 2 and shape[-1] > 2:
            value = graph.slice(value, len(shape) - 1, rng.choice((0, 0, 1)), None, rng.choice((1, 1, 2)))
        elif kind == 3 and len(shape) > 2:
            value = graph.reduce(value, rng.randrange(len(shape)))
        elif shape[-1] > 3:
            value = graph.pool(value, 2)
        graph.check(value)


@pytest.mark.parametrize("seed", range(60))
def test_random_indices_are_followed(seed):
    """Integers, ranges, from the front and the end, and new axes, as they are and after a reshape or a transpose."""
    rng = random.Random(seed)
    graph = Graph(4, 6, 4)
    value = 1
    if rng.random() < 0.5:
        value = graph.transpose(value, rng.sample(range(3), 3))
    if rng.random() < 0.5:
        value = graph.reshape(value, rng.choice([(24, 4), (4, 24), (2, 12, 4), (4, 3, 2, 4), (2, 2, 2, 3, 4), (96,)]))
    if rng.random() < 0.5:
        axis = rng.randrange(len(graph.shapes[value]))
        value = graph.select(value, axis, rng.randrange(-graph.shapes[value][axis], graph.shapes[value][axis]))
        graph.check(value)
    items = []
    for size in graph.shapes[value]:
        start, stop = rng.choice((None, 0, 1, 1 - size, -size, -2)), rng.choice((None, None, size - 1, -1))
        taken = slice(start, stop, rng.choice((None, 1, 2)))
        items.append(rng.randrange(-size, size) if rng.random() < 0.3 or not range(size)[taken] else taken)
        items += [None] * (rng.random() < 0.2)
    graph.check(graph.index(value, *items))


@pytest.mark.parametrize("padding", [(2, 0), (0, 2), (1, 1), 1])
def test_padding_before_shifts_windows(padding):
    """Windows of 3, 2 apart, of 9 elements with 2 beside them: position i sees 2i - before to 2i - before + 2."""
    graph = Graph(1, 1, 9)
    before = padding[0] if isinstance(padding, tuple) else padding
    seen = [[j for j in range(2 * i - before, 2 * i - before + 3) if 0 <= j < 9] for i in range(5)]
    pooled = graph.call(
        "max_pool",
        [1],
        (1, 1, 5),
        kernel=(3,),
        stride=(2,),
        padding=(padding,),
        reads=lambda _, i: [(0, (*i[:2], j)) for j in seen[i[2]]],
    )
    assert graph.check(pooled) == 3


@pytest.mark.parametrize("axis", [0, -1])
def test_a_vector_behind_another_one(axis):
    """Of a vector of 7, what stands behind another one of 3 that is no part of it."""
    graph = Graph(7)
    graph.shapes[2] = (3,)
    graph.inputs = (1, 2)
    graph.call("concat", [2, 1], (10,), axis=axis)
    graph.call("slice", [100], (7,), axis=(0,), start=(3,), step=(1,))
    (dependence,) = followed(graph.trace, read_inputs(graph.trace).index(1)).outputs["slice-2"][0]
    assert [dependence.path.map(i) for i in range(7)] == [(i, i) for i in range(7)]


@pytest.mark.parametrize(("axis", "shape"), [(-1, (7, 2)), (1, (7, 2)), (0, (2, 7)), (-2, (2, 7))])
def test_vectors_that_are_stacked_along_a_new_axis(axis, shape):
    graph = Graph(7)
    made = [graph.call("relu", [1], (7,), reads=lambda _, i: [(0, i)]) for _ in range(2)]
    at = shape.index(7)
    assert graph.check(graph.call("stack", made, shape, axis=axis, reads=lambda _, i: [(0, (i[at],))])) == 1


def test_a_window_over_the_largest_of_three_parts_of_positions():
    """Position 4a + 2b + c of 12: a window of two values of a spans 5 positions, and those of b and c stay."""
    graph = Graph(12)
    moved = graph.transpose(graph.reshape(1, (3, 2, 2)), (1, 2, 0))
    assert graph.check(graph.pool(moved, 2)) == 1


@pytest.mark.parametrize("kernel", [(1, 1, 3), (2, 1, 1), (2, 1, 2)])
def test_windows_of_one_row_of_each_block_keep_the_others(kernel):
    """12 rows in 3 blocks of 4: a window along the blocks or the columns, and of one element along the other axes."""
    graph = Graph(2, 1, 12, 6)
    blocks = graph.reshape(1, (2, 1, 3, 4, 6))
    shape = tuple(size - k + 1 for size, k in zip((3, 4, 6), kernel, strict=True))
    taps = list(itertools.product(*map(range, kernel)))
    pooled = graph.call(
        "max_pool",
        [blocks],
        (2, 1, *shape),
        kernel=kernel,
        stride=(1, 1, 1),
        reads=lambda _, at: [(0, (*at[:2], *(i + t for i, t in zip(at[2:], tap, strict=True)))) for tap in taps],
    )
    paths = followed(graph.trace).outputs[graph.calls[-1].name][0]
    assert all(each.path is not None and not each.unknown for each in paths)
    if kernel[0] == 1:
        graph.check(pooled)
    assert paths[2].path.map(0) == (0, 4 * (kernel[0] - 1))
    assert paths[3].path.map(0) == (0, kernel[2] - 1)


def test_windows_of_positions_are_followed_exactly():
    """Attention inside windows of 2, as by view, transpose and matrix product: each token sees its window."""
    graph = Graph(1, 8, 3)
    windows = graph.reshape(1, (4, 2, 3))
    mixed = graph.call(
        "matmul",
        [windows, graph.transpose(windows, (0, 2, 1))],
        (4, 2, 2),
        reads=lambda _, i: [(n, at) for c in range(3) for n, at in ((0, (i[0], i[1], c)), (1, (i[0], c, i[2])))],
    )
    summed = graph.call(
        "matmul",
        [mixed, windows],
        (4, 2, 3),
        reads=lambda _, i: [(n, at) for k in range(2) for n, at in ((0, (i[0], i[1], k)), (1, (i[0], k, i[2])))],
    )
    tokens = graph.reshape(summed, (1, 8, 3))
    assert graph.check(tokens) == 2
    field = graph.fields(1).last
    assert (field.size, field.stride, field.region(5), field.is_global) == ((2,), (1,), ((4, 5),), False)


def test_the_product_of_two_vectors_sees_both():
    """Of two rows of 8, one number: it sees both rows, and mixes all columns."""
    graph = Graph(2, 8)
    selected = [graph.call("select", [1], (8,), axis=0, index=row) for row in range(2)]
    graph.call("matmul", selected, (), names=["x0", "x1"])
    rows, columns = (graph.fields(axis).last for axis in range(2))
    assert (rows.size, rows.is_global, columns.is_global, columns.global_by) == ((2,), False, True, ("matmul-3",))


def test_a_patch_merging_has_twice_the_stride():
    graph = Graph(1, 8, 3)
    parts = [graph.slice(1, 1, start, None, 2) for start in (0, 1)]
    merged = graph.call("concat", parts, (1, 4, 6), axis=2, reads=lambda _, i: [(i[2] // 3, (*i[:2], i[2] % 3))])
    field = graph.fields(1).last
    assert (field.size, field.stride, field.region(1)) == ((2,), (2,), ((2, 3),))
    assert merged


def test_a_token_in_front_moves_the_others():
    """A class token is not part of the image: token i + 1 is patch i again after it is cut off."""
    graph = Graph(1, 6, 3)
    graph.shapes[2] = (1, 1, 3)
    graph.seen[2] = {(0, 0, c): set() for c in range(3)}
    graph.inputs = (1, 2)
    joined = graph.call(
        "concat",
        [2, 1],
        (1, 7, 3),
        axis=1,
        reads=lambda _, i: [(0, i)] if i[1] == 0 else [(1, (i[0], i[1] - 1, i[2]))],
    )
    cut = graph.slice(joined, 1, 1, None, 1)
    first = graph.slice(joined, 1, 0, 1, 1)
    graph.call("reshape", [joined], (1, 7, 3, 1))
    trace = graph.trace
    found = receptive_fields(trace, index=read_inputs(trace).index(1), axes=[1])
    assert (found.last.region(3), found.last.axes) == (((2, 2),), (1,))
    assert found["slice-2"].region(3) == ((3, 3),)
    assert found["slice-2"].size == (1,)
    assert "slice-3" not in found
    assert cut and first


@pytest.mark.parametrize("index", range(-4, 4))
def test_one_of_the_tokens_behind_another_input(index):
    """Three patches behind a class token, which depends on none of them: token i is patch i - 1."""
    graph = Graph(1, 3, 5)
    graph.shapes[2] = (1, 1, 5)
    graph.inputs = (1, 2)
    joined = graph.call("concat", [2, 1], (1, 4, 5), axis=1)
    graph.select(joined, 1, index)
    graph.index(joined, slice(None), index, slice(None))
    paths = followed(graph.trace, 1).outputs
    selected, sliced = (paths[name][0][1] for name in ("select-2", "slice-3"))
    if index % 4 == 0:
        assert selected is sliced is None
    else:
        assert selected.path.map(0) == (index % 4 - 1, index % 4 - 1)
        assert sliced.unknown == "slice-3 (cannot slice an axis that merges spatial and other dimensions)"


def conv(graph, x, kernel=3, stride=1, padding=1, channels=4):
    _, _, size = graph.shapes[x]
    new = (size + 2 * padding - kernel) // stride + 1
    graph.shapes[9] = (channels, 4, kernel)
    layer = {"kernel": (kernel,), "stride": (stride,), "padding": (padding,), "dilation": (1,), "groups": 1}
    return graph.call("conv", [x], (1, channels, new), **layer)


def test_a_gate_is_global_beside_its_local_path():
    graph = Graph(1, 4, 16)
    x = conv(graph, 1)
    pooled = graph.call("avg_pool", [x], (1, 4, 1), kernel=(16,), stride=(16,), adaptive=True)
    gate = graph.call("sigmoid", [pooled], (1, 4, 1))
    graph.call("mul", [x, gate], (1, 4, 16))
    found = graph.fields()
    assert found.axes == (2,)
    assert str(found["conv-1"]) == "3" and not found["conv-1"].is_global
    assert str(found["sigmoid-3"]) == "global by avg_pool-2"
    assert str(found.last) == "3, global by avg_pool-2"
    assert (found.last.is_global, found.last.global_by, found.last.region(4)) == (True, ("avg_pool-2",), ((0, 15),))


def test_a_window_of_all_positions_is_global_once_it_is_repeated():
    """The size of a window does not depend on the image: 3 + 15 = 18 positions. Repeated, each position sees it."""
    graph = Graph(1, 4, 16)
    x = conv(graph, 1)
    pooled = graph.call("avg_pool", [x], (1, 4, 1), kernel=(16,), stride=(16,))
    graph.call("mul", [x, pooled], (1, 4, 16))
    found = graph.fields()
    assert (str(found["avg_pool-2"]), found["avg_pool-2"].region(0)) == ("18", ((0, 15),))
    assert str(found.last) == "3, global by mul-3"


@pytest.mark.parametrize(
    ("op", "attributes", "mixed"),
    [
        ("mean_variance_norm", {}, (0, 2, 3)),  # all but channels
        ("mean_variance_norm", {"axis": (3,)}, (3,)),
        ("instance_norm", {}, (2, 3)),
        ("group_norm", {}, (1, 2, 3)),
        ("layer_norm", {"axis": (2, 3)}, (2, 3)),
    ],
)
def test_norms_mix_what_they_take_the_mean_of(op, attributes, mixed):
    graph = Graph(2, 4, 6, 8)
    graph.call(op, [1], (2, 4, 6, 8), **attributes)
    found = [str(graph.fields(axis).last) for axis in range(4)]
    assert [axis for axis in range(4) if found[axis] != "1"] == list(mixed)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 4, 6, 8), (2, 3)), ((2, 4, 6, 8, 3), (2, 3, 4)), ((2, 4, 6), (1,)), ((2, 4), (1,)), ((5,), (0,))],
)
def test_axes_that_nothing_slides_along(shape, axes):
    """Images have channels before their axes; sequences have their features last."""
    graph = Graph(*shape)
    graph.call("relu", [1], shape)
    assert graph.fields().axes == axes


@pytest.mark.parametrize(("n", "more"), [(2, ""), (3, ""), (4, "and 1 more output"), (5, "and 2 more outputs")])
def test_three_outputs_are_shown(n, more):
    graph = Graph(1, 4, 16)
    for _ in range(n):
        graph.call("relu", [1], (1, 4, 16))
    text = str(graph.fields(2))
    assert sum(f"Output relu-{i + 1}" in text or f"output relu-{i + 1}" in text for i in range(n)) == min(n, 3)
    assert (more in text) and ("more output" in text) == bool(more)
    assert ("…" in repr(graph.fields(2))) == bool(more)


def test_a_gather_by_constant_indices_keeps_the_other_axes():
    graph = Graph(2, 4, 6)
    graph.shapes[2] = (3, 5)
    graph.call("gather", [1, 2], (2, 3, 5, 6), names=["x", "index"], axis=1)
    graph.inputs = (1, 2)
    at = read_inputs(graph.trace).index(1)
    fields = [receptive_fields(graph.trace, index=at, axes=[axis]).last for axis in (0, 2)]
    assert [(str(field), field.axes) for field in fields] == [("1", (0,)), ("1", (3,))]
    graph.shapes[3] = (3,)
    graph.call("gather", [2, 1], (2, 4, 6, 5), names=["x", "index"], axis=0)
    assert "depend on the input" in str(receptive_fields(graph.trace, index=at, axes=[0]).last)


@pytest.mark.parametrize(
    ("op", "settings", "out", "expected"),
    [
        ("crelu", {}, (2, 12, 8), ["1", "unknown", "1"]),  # both signs are joined along channels
        ("crelu", {"axis": 2}, (2, 6, 16), ["1", "1", "unknown"]),
        ("glu", {}, (2, 6, 4), ["1", "1", "unknown"]),
        ("multi_head_attention", {"names": ["q"], "heads": 2}, (2, 6, 8), ["1", "1, global", "global"]),
        ("transformer_encoder_layer", {"heads": 2}, (2, 6, 8), ["1", "1, global", "global"]),
    ],
)
def test_axes_that_are_mixed_or_joined(op, settings, out, expected):
    graph = Graph(2, 6, 8)
    graph.call(op, [1], out, **settings)
    for axis, text in enumerate(expected):
        assert str(graph.fields(axis).last).startswith(text)


def test_a_rotation_mixes_the_features_of_a_token():
    graph = Graph(1, 2, 6, 8)
    graph.call("rotary_embedding", [1], (1, 2, 6, 8))
    assert [str(graph.fields(axis).last) for axis in (2, 3)] == ["1", "global by rotary_embedding-1"]


def test_an_operator_without_a_rule_is_unknown_and_stays_so():
    graph = Graph(1, 4, 16)
    x = conv(graph, 1)
    lost = graph.call("cross", [x], (1, 4, 16))
    graph.call("add", [lost, x], (1, 4, 16))
    last = graph.fields(2).last
    assert str(last) == "unknown since cross-2 (no rule for 'cross')"
    assert (last.is_known, last.size, last.region(3)) == (False, (None,), (None,))


def test_a_layer_that_no_framework_runs_is_unknown():
    """Saved reports state layers, and files of other people state any."""
    graph = Graph(1, 4, 16)
    graph.call("matmul", [1], (1, 4, 16), names=["q"])
    assert str(graph.fields(2).last) == "unknown since matmul-1 (its tensors and settings do not fit the operator)"


def test_a_scalar_depends_on_everything():
    graph = Graph(1, 4, 16)
    graph.call("mse_loss", [conv(graph, 1)], ())
    assert str(graph.fields().last) == "global by mse_loss-2"


def test_branches_of_different_strides_are_misaligned():
    graph = Graph(1, 4, 16)
    graph.call("add", [conv(graph, 1, stride=2), graph.slice(1, 2, 0, 8, 1)], (1, 4, 8))
    last = graph.fields(2).last
    assert str(last) == "misaligned by add-3"
    assert (last.is_known, last.size) == (False, (None,))
    graph.call("relu", [300], (1, 4, 8))
    assert str(graph.fields(2).last) == "misaligned by add-3"


def test_parts_joined_along_the_axis_are_bounded():
    """Position o is o of the first part, o - 1 to o + 1, or o - 16 of the second: o - 18 to o - 14. 20 positions."""
    graph = Graph(1, 4, 16)
    graph.call("concat", [conv(graph, 1), conv(graph, 1, 5, 1, 2)], (1, 4, 32), axis=2)
    last = graph.fields(2).last
    assert (str(last), last.bounded_by, last.maps[0](20)) == ("at most 20", "concat-3", (2, 21))
    graph = Graph(1, 4, 16)
    graph.call("concat", [conv(graph, 1), conv(graph, 1, stride=2)], (1, 4, 24), axis=2)
    assert str(graph.fields(2).last) == "misaligned by concat-3"


def test_parts_that_change_places_are_a_cyclic_shift():
    """As exporters write ``roll(x, -3)``: from index 3 on, then the first three."""
    graph = Graph(1, 4, 16)
    x = conv(graph, 1)
    parts = [graph.slice(x, 2, 3, None, 1), graph.slice(x, 2, 0, 3, 1)]
    graph.call("concat", parts, (1, 4, 16), axis=2)
    last = graph.fields(2).last
    assert (str(last), last.maps[0](0), last.wrapped_by) == ("3", (2, 4), "concat-4")


def test_a_value_that_no_call_produces_is_unknown():
    graph = Graph(1, 4, 16)
    graph.shapes[7] = (1, 4, 16)
    graph.call("add", [conv(graph, 1), 7], (1, 4, 16))
    assert "reads a value that no recorded call produces" in str(graph.fields(2).last)
    graph.inputs = ()  # without recorded inputs, the first such value is taken, and the origin of others is unknown
    found = graph.fields(2)
    assert str(found["conv-1"]) == "3" and not found.last.is_known


@pytest.mark.parametrize(
    ("mode", "size", "new", "coordinates", "first", "last"),
    [
        # linear: sample o is at (o + 1/2) * size / new - 1/2, between two elements unless that is whole
        ("linear", 8, 16, "half_pixel", [-1, 0, 0, 1], [0, 1, 1, 2]),  # -1/4, 1/4, 3/4, 5/4
        ("linear", 16, 8, "half_pixel", [0, 2, 4, 6], [1, 3, 5, 7]),  # 1/2, 5/2, ...
        ("linear", 6, 2, "half_pixel", [1, 4, 7, 10], [1, 4, 7, 10]),  # 1, 4, ...
        ("linear", 8, 16, "asymmetric", [0, 0, 1, 1], [0, 1, 1, 2]),  # 0, 1/2, 1, 3/2
        ("nearest", 8, 12, "asymmetric", [0, 0, 1, 2], [0, 0, 1, 2]),  # 0, 2/3, 4/3, 2
        ("cubic", 8, 16, "half_pixel", [-2, -1, -1, 0], [1, 2, 2, 3]),  # four elements around -1/4, 1/4, ...
    ],
)
def test_resizes_read_the_elements_around_each_sample(mode, size, new, coordinates, first, last):
    graph = Graph(1, 1, size)
    graph.call("resize", [1], (1, 1, new), mode=mode, coordinates=coordinates)
    field = graph.fields(2).last
    assert [field.maps[0](o) for o in range(4)] == list(zip(first, last, strict=True))
    assert (field.stride, field.bounded_by) == ((Fraction(size, new),), "")


@pytest.mark.parametrize(("size", "new"), [(8, 16), (5, 9), (16, 8), (9, 5), (7, 3), (3, 7), (32, 48)])
def test_aligned_corners_are_bounded(size, new):
    graph = Graph(1, 1, size)
    graph.call("resize", [1], (1, 1, new), mode="linear", align_corners=True)
    field = graph.fields(2).last
    for o in range(new):
        exact, rest = divmod(o * (size - 1), new - 1)
        low, high = field.maps[0](o)
        assert low <= exact <= exact + (rest > 0) <= high
        assert high - low <= 2 + size // new
    assert field.bounded_by == "resize-1" and str(field).startswith("at most ")
    assert field.stride == (Fraction(size, new),)


def test_aligned_corners_of_cubic_kernels_are_bounded():
    """Four elements are around a sample, the aligned one is at most one away: no more than 6 + 8 / 16."""
    graph = Graph(1, 1, 8)
    graph.call("resize", [1], (1, 1, 16), mode="cubic", align_corners=True)
    field = graph.fields(2).last
    for o in range(16):
        exact, rest = divmod(o * 7, 15)
        low, high = field.maps[0](o)
        assert low <= exact - (rest > 0) <= exact + 2 * (rest > 0) <= high
        assert high - low <= 4


def test_what_is_resized_along_other_axes_is_not_asked():
    """Corners of one sample cannot be aligned: that matters along columns, which only the second question follows."""
    graph = Graph(1, 1, 4, 8)
    graph.call("resize", [1], (1, 1, 8, 1), mode="linear", align_corners=True)
    assert graph.fields(2).last.stride == (Fraction(1, 2),)
    assert str(graph.fields(3).last) == "unknown since resize-1 (aligned corners of one sample)"


@pytest.mark.parametrize(("size", "new"), [(7, 3), (10, 4), (12, 5), (6, 6), (5, 7)])
def test_adaptive_poolings_read_their_windows(size, new):
    graph = Graph(1, 1, size)
    graph.call("adaptive_avg_pool", [1], (1, 1, new))
    field = graph.fields(2).last
    for i in range(new):
        assert field.maps[0](i) == (i * size // new, -(-(i + 1) * size // new) - 1)


def test_symbolic_sizes_have_the_same_fields():
    sympy = pytest.importorskip("sympy")
    height = sympy.Symbol("height", integer=True, positive=True)
    graph = Graph(1, 4, 16)
    graph.shapes[1] = (1, 4, height)
    x = graph.call("conv", [1], (1, 4, height // 2), kernel=(3,), stride=(2,), padding=(1,), dilation=(1,), groups=1)
    up = graph.call("resize", [x], (1, 4, 2 * (height // 2)), mode="nearest", coordinates="asymmetric")
    flat = graph.call("reshape", [up], (1, 8 * (height // 2)))
    graph.call("reduce_mean", [up], (1, 4), axis=(2,))
    found = graph.fields(2)
    # nearest x2 repeats the field of 3 of a convolution with stride 2, so that positions are 1 apart
    assert (str(found["resize-2"]), found["resize-2"].stride, found["resize-2"].padding) == ("3", (1,), (1,))
    assert found["resize-2"].region(9) == ((7, 9),)
    assert str(found["reshape-3"]) == "3"
    assert str(found.last) == "global by reduce_mean-4"
    assert found.last.region(0) == (None,)
    assert is_symbolic(found.input_shape[2]) and json.dumps(found.to_dict())
    assert flat


def test_a_report_shows_fields_in_its_tables(capsys):
    graph = Graph(1, 4, 16)
    graph.call("relu", [conv(graph, 1)], (1, 4, 16))
    report = Report(graph.trace)
    columns = ["name", "output_shape", "size", "stride", "padding", "centre", "remark"]
    report.show_receptive_field(mode="csv", columns=columns)
    assert capsys.readouterr().out.splitlines()[:3] == [
        "Layer name,Output shape,Size,Stride,Padding,Centre,Remark",
        'conv-1,"(1, 4, 16)",3,1,1,0,',
        'relu-2,"(1, 4, 16)",3,1,1,0,',
    ]
    assert report.receptive_field().outputs.keys() == {"relu-2"}


def test_wrong_arguments_are_explained():
    graph = Graph(1, 4, 16)
    conv(graph, 1)
    report = Report(graph.trace)
    with pytest.raises(CostError, match="no input 3: the calls read 1 input"):
        report.receptive_field(input=3)
    with pytest.raises(CostError, match="axes"):
        report.receptive_field(axes=[5])
    for position, error, message in ((-1, ValueError, "positions from 0"), (0.5, TypeError, "as integers")):
        with pytest.raises(error, match=message):
            report.receptive_field().last.region(position)
    with pytest.raises(TypeError, match="axes must be integers"):
        report.receptive_field(axes="h")
    with pytest.raises(ValueError, match="region expects 1 or 1 numbers"):
        report.receptive_field().last.region(1, 2, 3)
    with pytest.raises(CostError, match="no call reads an input"):
        Report(Trace((), Run())).receptive_field()


def test_axes_and_inputs_count_from_either_end():
    graph = Graph(2, 3, 4)
    graph.call("relu", [1], (2, 3, 4))
    assert graph.fields(-3, 2, -1).axes == (0, 2, 2)
    report = Report(graph.trace)
    assert report.receptive_field(input=-1).input_shape == report.receptive_field(input=0).input_shape == (2, 3, 4)
    for wrong in (-4, 3):
        with pytest.raises(CostError, match="of an input of 3 axes"):
            report.receptive_field(axes=[wrong])
    for odd in (True, "0", 0.0):
        with pytest.raises(TypeError, match="input must be the number of an input"):
            report.receptive_field(input=odd)
    with pytest.raises(CostError, match="no input -2: the calls read 1 input"):
        report.receptive_field(input=-2)


@pytest.mark.parametrize(
    ("shapes", "chosen"),
    [
        (((3,), (3, 4), (2, 3, 4), (2, 3, 4, 5)), 2),  # the first of three axes or more
        (((3,), (3, 4), (5, 6)), 1),  # else the first of two
        (((3,), (4,)), 0),
    ],
)
def test_the_input_is_the_first_image_or_sequence(shapes, chosen):
    graph = Graph(*shapes[0])
    graph.shapes |= {i + 1: shape for i, shape in enumerate(shapes)}
    graph.inputs = (*range(1, len(shapes) + 1),)
    for i, shape in zip(graph.inputs, shapes, strict=True):
        graph.call("relu", [i], shape)
    assert receptive_fields(graph.trace).input_shape == shapes[chosen]


def test_outputs_are_what_the_model_returns():
    graph = Graph(1, 4, 16)
    x = conv(graph, 1)
    graph.call("relu", [x], (1, 4, 16))
    assert receptive_fields(graph.trace).outputs.keys() == {"relu-2"}
    trace = Trace(graph.trace.records, Run().recording(inputs=(1,), returned=(x, 200)))
    assert receptive_fields(trace).outputs.keys() == {"conv-1", "relu-2"}
