"""Groups of varied runs as a whole; ``--overwrite`` regenerates tests/golden/fusion.

Every run also has what :func:`check_groups` asserts of any; what each rule does is worked out by hand in other files.
Sizes lie at, below and above the limits of the rules: rows of 7, 8 and 9 values, 263 and 264 rows, 9 operands.
"""

from __future__ import annotations

from io import StringIO
from random import Random
from typing import Any

import pytest

from costcore import Report, Trace
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.analyses.fusion.properties import check_groups
from tests.core.analyses.fusion.runs import Calls, groups_of
from tests.core.results import quantity
from tests.core.traces import Call, CallCost, Dataflow, Run, Step
from tests.whole_text import as_json

COLUMNS = (
    "group",
    "names",
    "n_layers",
    "op",
    "module",
    "flops",
    "macs",
    "mread",
    "mwrite",
    "mrw",
    "unfused_mrw",
    "n_params",
)

ROWS = (
    *((4, 6), (4, 7), (4, 8), (4, 9), (3, 20_000), (9000, 3), (130, 90_000)),
    *((263, 8193), (264, 8193), (263, 8192)),  # rows along neighbors
    *((128, 100), (129, 100), (200, 8447), (200, 8448)),  # rows across them
)
PLACES: tuple[dict[str, Any], ...] = (
    *({},) * 9,
    {"region": "loop", "times": 3},
    {"phase": "backward"},
    {"phase": "recompute"},
)


def of_rows(random: Random, n: int, **options: Any) -> Trace:
    """A run of ``n`` calls on matrices of one size, and on parts and joins of them."""
    calls = Calls()
    rows, length = random.choice(ROWS)
    same = [calls.given(rows, length) for _ in range(2)]
    beside: list[Step] = []
    vector, column = calls.given(length, role="param"), calls.given(rows, 1)
    square, bias = calls.given(length, length, role="param"), calls.given(length, role="param")
    for _ in range(n):
        x, y = random.choice(same[-4:]), random.choice(same)
        place = random.choice(PLACES)
        kind = random.randrange(19)
        if kind < 3:
            made = calls("add", x, y, **place)
        elif kind == 3:
            made = calls(random.choice(("relu", "gelu", "exp")), x, **place)
        elif kind == 4:
            of = calls("full", shape=(rows, length)) if random.random() < 0.2 else x
            made = calls("softmax", of, axis=random.choice((0, 1)), **place)
        elif kind == 5:
            made = calls("layer_norm", x, vector, names=("x", "w"), axis=(1,), **place)
        elif kind == 6:
            axis = random.choice((0, 1))
            mean = calls("reduce_mean", x, shape=(rows, 1) if axis else (1, length), axis=axis, **place)
            made = calls("sub", x, calls("sqrt", mean) if random.random() < 0.5 else mean, **place)
        elif kind == 7:
            made = calls("linear", x, square, *random.choice(((), (bias,))), **place)
        elif kind == 8:
            several = vector  # of more values than a loop computes again
            for _ in range(random.choice((0, 5))):
                several = calls("add", several, calls.given(length))
            made = calls("mul", x, random.choice((several, column, calls("square", several))), **place)
        elif kind == 9:
            made = calls("dropout", x, p=0.5, training=True, **place)
        elif kind == 10:  # half of a sum, and a view of another half
            whole = calls(random.choice(("add", "mul")), x, random.choice((y, vector, column)))
            half = calls("slice", whole, shape=(rows, length // 2), **place)
            part = calls("view", y, shape=(rows, length // 2))
            made = calls("concat", calls("relu", half), part, shape=(rows, 2 * (length // 2)), axis=1)
            made = calls("pad", made, shape=(rows, length), **place)
        elif kind == 11:
            turned = calls("view", x, shape=(length, rows), axes=(1, 0))
            made = calls(
                "view", calls(random.choice(("relu", "softmax")), turned, axis=1), shape=(rows, length), axes=(1, 0)
            )
        elif kind == 12:
            count = random.choice((2, 8, 9))
            parts = [random.choice((x, y, calls("exp", x))) for _ in range(count)]
            joined = calls(
                "concat", *parts, names=[f"x{i}" for i in range(count)], shape=(rows, length * count), axis=1
            )
            made = calls("slice", joined, shape=(rows, length), **place)
        elif kind == 13:
            made = calls("embedding", calls.given(rows), square, shape=(rows, length), names=("x", "w"), **place)
        elif kind == 14:
            made = calls("sort", x, **place)
        elif kind == 17:  # without a calculator
            made = calls("nothing_known", calls("exp", x), **place)
        elif kind == 18 and not place:  # another value that a call reads, or that is read between two calls
            made = calls("relu", x)
            beside.append(Step(made if random.random() < 0.5 else 5000, (y,), name="" if len(beside) % 2 else "if"))
        elif kind == 15:
            made = calls("add", x, calls("full", shape=(rows, length)) if random.random() < 0.5 else x, **place)
        else:
            made = calls("view", x, **place)
        same.append(made)
    if random.random() < 0.4:
        _write_over(random, calls, same)
    trace = calls.trace(*random.sample(same[2:], 2), **options)
    return Trace(trace.records, trace.run.recording(dataflow=Dataflow(steps=tuple(beside))))


def _write_over(random: Random, calls: Calls, values: list[int]) -> None:
    """Let some calls write over the memory of a value, which is then read under its name."""
    storage = {each: 1000 + each for each in values}
    for i, call in enumerate(calls.calls):
        own = [storage.get(each, 5000 + each) for each in (*call.inputs, *call.outputs)]
        if call.layer.op in ("add", "exp") and random.random() < 0.5:
            own[-1] = own[0]
            storage[call.outputs[0]] = own[0]
        calls.calls[i] = call._replace(storages=tuple(own))


def of_images(random: Random, n: int) -> Trace:
    """A run of ``n`` calls on images: convolutions with biases and norms, windows, interpolations and borders."""
    calls = Calls()
    x = calls.given(2, 8, 12, 10)
    values = {(12, 10): [x]}
    weight, bias = calls.given(8, 8, 3, 3, role="param"), calls.given(8, role="param")
    statistics = [calls.given(8, role="param") for _ in range(4)]
    for _ in range(n):
        size = random.choice([*values])
        x, y = random.choice(values[size][-3:]), random.choice(values[size])
        kind = random.randrange(10)
        after = size
        if kind < 2:
            made = calls("add", x, y)
        elif kind == 2:
            made = calls("relu", x)
        elif kind < 5:
            made = calls("conv", x, weight, *random.choice(((), (bias,))), padding=(1, 1))
        elif kind == 5:
            made = calls("batch_norm", x, *statistics, names=("x", "w", "b", "mean", "var"))
        elif kind == 6:
            after = (size[0] // 2, size[1] // 2)
            pool = random.choice(("max_pool", "avg_pool"))
            made = calls(pool, x, shape=(2, 8, *after), kernel=(2, 2), stride=(2, 2))
        elif kind == 7:
            after = (size[0] * 2, size[1] * 2)
            made = calls("resize", x, shape=(2, 8, *after), mode=random.choice(("linear", "nearest")))
        elif kind == 8:
            after = (size[0] + 2, size[1] + 2)
            made = calls("pad", x, shape=(2, 8, *after))
        else:
            made = calls("reduce_mean", x, shape=(2, 8, 1, 1), axis=(2, 3))
            made = calls("mul", x, calls("sigmoid", made))
        values.setdefault(after, []).append(made)
    every = [value for each in values.values() for value in each]
    return calls.trace(*random.sample(every[1:], 2))


def of_heads(random: Random, n: int) -> Trace:
    """A run of ``n`` layers of attention, whose axes are turned in memory before products."""
    calls = Calls()
    batch, length, heads, width = 2, 16, 4, 8
    x = calls.given(batch, length, heads * width)
    square, bias = calls.given(heads * width, heads * width, role="param"), calls.given(heads * width, role="param")
    for _ in range(n):
        x = calls("layer_norm", x, bias, names=("x", "w"), axis=(2,))
        made = []
        for name in "qkv":
            each = calls("linear", x, square, *random.choice(((), (bias,))))
            if random.random() < 0.4:
                each = calls("mul", each, bias)
            each = calls("view", each, shape=(batch, length, heads, width))
            axes = (0, 2, 3, 1) if name == "k" else (0, 2, 1, 3)
            each = calls("view", each, shape=tuple((batch, length, heads, width)[i] for i in axes), axes=axes)
            if random.random() < 0.4:
                each = calls(random.choice(("relu", "softmax")), each, axis=3)
            made.append(each)
        q, k, v = made
        scores = calls("softmax", calls("matmul", q, k, shape=(batch, heads, length, length)), axis=3)
        if random.random() < 0.5:
            y = calls("matmul", scores, v, shape=(batch, heads, length, width))
            y = calls("view", y, shape=(batch, length, heads, width), axes=(0, 2, 1, 3))
        else:
            equation = "bhqk,bhkd->bqhd"
            y = calls("einsum", scores, v, shape=(batch, length, heads, width), names=("x0", "x1"), equation=equation)
            y = calls("relu", y)
        y = calls("view", y, shape=(batch, length, heads * width))
        x = calls("add", x, calls("linear", calls("gelu", y) if random.random() < 0.5 else y, square))
    return calls.trace(x)


def written(trace: Trace) -> dict[str, list[str]]:
    """The groups of both levels: positions, bytes read and written, and the parts of these that are not needed."""
    found = {}
    for level, groups in check_groups(trace).items():
        if level != "none":
            found[level] = [
                f"{'+'.join(map(str, group.calls))}: {group.read} {group.written} x{group.times} "
                f"{group.read_again} {group.copied}"
                for group in groups
            ]
    return found


@pytest.mark.parametrize("kind", ["rows", "images", "heads"])
def test_groups(golden, kind):
    made = {"rows": lambda random: of_rows(random, 14), "images": lambda random: of_images(random, 14)}
    make = made.get(kind, lambda random: of_heads(random, 2))
    golden(
        f"fusion/{kind}.json",
        as_json({str(seed): written(make(Random(seed))) for seed in range(60 if kind == "rows" else 20)}),
    )


def test_groups_where_moving_data_is_free(golden):
    golden(
        "fusion/free.json",
        as_json({str(seed): written(of_rows(Random(seed), 14, layout="free")) for seed in range(12)}),
    )


@pytest.mark.parametrize(("n_operands", "groups"), [(3, [(0, 1), (2,)]), (4, [(0,), (1,), (2,)])])
def test_two_loops_compute_a_result_again_if_that_reads_no_more(n_operands, groups):
    """Of 3 operands they read 6 times as much; else the first loop reads 3 and writes 1, and they read 2."""
    calls = Calls()
    operands = [calls.given(4, 8) for _ in range(n_operands)]
    made = calls("where", *operands, names=[f"x{i}" for i in range(n_operands)])
    trace = calls.trace(*(calls("pad", made, shape=(4, 8 + width)) for width in (2, 4)))
    assert [group.calls for group in groups_of(trace, "pointwise")] == groups


@pytest.mark.parametrize(
    ("mread", "mwrite", "read", "written"),
    [
        (400, 200, 400, 200),
        (400, 70, 400, 70),  # of 120 and 80 bytes 130 are not written: all of the first and 10 of the second
        (90, 200, 90, 200),  # of 240 and 160 bytes 310 are not read
        (450, 260, 450, 260),  # 50 and 60 bytes beside operands and results
    ],
)
def test_bytes_that_are_not_moved_are_taken_off_the_largest_operands(mread, mwrite, read, written):
    """The second result is read, in the same loop, and nobody else needs it."""
    x, y = Tensor((60,)), Tensor((40,))
    layer = Layer("topk", {"x0": x, "x1": y}, [Tensor((30,)), Tensor((20,))])
    call = Call(layer, "topk", name="topk", inputs=(1, 2), outputs=(3, 4))
    trace = Trace((CallCost(call, Cost(Operations(add=1), mread, mwrite, {})),), Run().recording(returned=(3, 4)))
    (group,) = groups_of(trace, "pointwise")
    assert (group.read, group.written) == (read, written)


@pytest.mark.parametrize(("name", "at"), [("", 3), ("", 2), ("if", 3)])
def test_a_value_that_is_read_beside_operands_or_between_calls_is_written(name, at):
    """Of two calls in one loop, the first is read by a third, which is none of the loop, or by control flow."""
    calls = Calls()
    x = calls.given(4, 8)
    first = calls("exp", x)
    last = calls("relu", first)
    other = calls("sort", calls.given(4, 8))
    trace = calls.trace(last, other)
    step = Step({3: other, 2: 5000}[at], (first,), name=name)
    trace = Trace(trace.records, trace.run.recording(dataflow=Dataflow(steps=(step,))))
    loop, _ = groups_of(trace, "pointwise")
    assert (loop.calls, loop.read, loop.written) == ((0, 1), 128, 2 * 128)


def test_operands_without_an_id_are_read():
    x, y = Tensor((60,)), Tensor((40,))
    layer = Layer("opaque::add", {"x0": x, "x1": y}, [x])
    for inputs in ((1, 0), (0, 2), (0, 0), (1, 2)):
        call = Call(layer, "add", name="add", inputs=inputs, outputs=(3,))
        record = CallCost(call, Cost(Operations(add=60), 400, 240, {}))
        (group,) = groups_of(Trace((record,), Run()), "pointwise")
        assert (group.read, group.written) == (400, 240)


def test_parts_of_a_value_are_read_as_far_as_the_whole():
    """Two parts of 24 of 32 elements overlap: a loop that reads both reads 32."""
    calls = Calls()
    x = calls.given(4, 8)
    left, right = (calls("view", x, shape=(4, 6)) for _ in range(2))
    trace = calls.trace(calls("add", left, right))
    assert sum(group.read for group in groups_of(trace, "pointwise")) == 4 * 32


def test_a_fused_view_has_no_private_names_of_its_report():
    view = Report(Calls().trace()).fused()
    with pytest.raises(AttributeError, match="'FusedView' object has no attribute '_nothing'"):
        _ = view._nothing


def test_a_free_call_without_operands_is_no_name_of_another_value():
    calls = Calls()
    x = calls.given(4, 8)
    made = calls("relu", x)
    free = Call(Layer("view", {}, [Tensor((4, 8))]), "view", name="view", outputs=(9,))
    trace = calls.trace(made)
    records = (*trace.records, CallCost(free, Cost(Operations(), 0, 0, {})))
    assert [group.calls for group in groups_of(Trace(records, trace.run), "pointwise")] == [(0,), (1,)]


def shown(method, **options) -> str:
    stream = StringIO()
    method(stream, **options)
    return stream.getvalue()


def test_tables(golden):
    report = Report(of_rows(Random(2), 14))
    parts = []
    for level in ("none", "pointwise", "compiler"):
        view = report.fused(level)
        total = {key: view.total_report[key] for key in ("n_groups", "unfused_mrw", "mread", "mwrite", "flops")}
        parts += [
            repr(view),
            as_json(total),
            shown(view.show_report, mode="csv", columns=COLUMNS, unit=None),
            shown(view.show_report, mode="table", sort="mrw", top=3),
            as_json([[*group] for group in groups_of(report.trace, level)]),
        ]
        parts.append(f"groups: {quantity(f'n_groups@{level}').total(report.ledger)}")
        names = [f"{name}@{level}" for name in ("fused_mread", "fused_mwrite", "fused_mrw")]
        parts.append(shown(report.show_report, mode="csv", columns=["name", *names], unit=None))
    golden("fusion/tables.txt", "\n".join(parts))
