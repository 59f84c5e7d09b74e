"""Where the rules of TorchInductor begin and end: how many values a loop reads, and how long a row is."""

from __future__ import annotations

import pytest
import sympy

from tests.core.analyses.fusion.runs import Calls, groups_of


def last_of(trace, op):
    """The group of the last call of an operator."""
    positions = [i for i, call in enumerate(trace.calls) if call.layer.op == op]
    return next(group for group in groups_of(trace, "pointwise") if positions[-1] in group.calls)


@pytest.mark.parametrize(
    ("moved", "plain", "then", "is_moved"),
    [
        (2, 2, "moved", True),  # 3 of 5
        (4, 1, "plain", False),  # a sum of five counts as one value: 1 of 2
        (3, 1, "plain", True),  # 3 of 5
    ],
)
def test_most_values_decide_the_layout_of_a_sum_of_up_to_four(moved, plain, then, is_moved):
    """Four columns of 513 elements, which a moved value has beside each other in memory.

    Columns across memory are reduced in 5 parts of at most 128, which do not divide 513: they are read again.
    """
    calls = Calls()

    def value(kind):
        if kind == "plain":
            return calls.given(513, 4)
        return calls("view", calls.given(4, 513), shape=(513, 4), axes=(1, 0))

    total = value("moved")
    for kind in [*["moved"] * (moved - 1), *["plain"] * plain, then]:
        total = calls("add", total, value(kind))
    trace = calls.trace(calls("softmax", total, axis=0))
    assert last_of(trace, "softmax").read_again == (0 if is_moved else 4 * 513 * 4)


def test_a_product_writes_its_result_as_it_is_named():
    """Columns of a product lie across memory also if those of its operand do not: 5 parts of 513 rows are uneven."""
    calls = Calls()
    moved = calls("view", calls.given(8, 513), shape=(513, 8), axes=(1, 0))
    trace = calls.trace(calls("softmax", calls("linear", moved, calls.given(8, 8, role="param")), axis=0))
    assert last_of(trace, "softmax").read_again == 4 * 513 * 8


def sum_of(calls, *values):
    total, *others = values
    for each in others:
        total = calls("add", total, each)
    return total


def padded_and_added(calls, x):
    """The end of a run in which one loop pads x of [4, 8] to [4, 10], and a later one adds it to a product."""
    padded = calls("pad", x, shape=(4, 10), pads=((0, 0), (1, 1)))
    return calls("add", calls("linear", padded, calls.given(8, 10, role="param"), shape=(4, 8)), x)


def names(trace):
    """The names of the operators of every group."""
    return [" ".join(trace.calls[i].layer.op for i in group.calls) for group in groups_of(trace, "pointwise")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [(4, ["add add", "add pad"]), (5, ["add add add add", "pad"]), (6, ["add add add add add", "pad"])],
)
def test_two_loops_compute_a_sum_of_up_to_four_values_again(values, expected):
    """The last addition is in the loop that pads the sum, and in the one that adds it; of five values it is written."""
    calls = Calls()
    end = padded_and_added(calls, sum_of(calls, *(calls.given(4, 8) for _ in range(values))))
    assert names(calls.trace(end)) == [*expected, "linear", "add"]


@pytest.mark.parametrize(("others", "expected"), [(2, ["add", "add pad"]), (3, ["add add add", "pad"])])
def test_a_product_with_a_bias_is_two_values_of_a_sum(others, expected):
    """With two other values it is a sum of four, which two loops compute again."""
    calls = Calls()
    w, b = calls.given(8, 8, role="param"), calls.given(8, role="param")
    total = sum_of(calls, calls("linear", calls.given(4, 8), w, b), *(calls.given(4, 8) for _ in range(others)))
    assert names(calls.trace(padded_and_added(calls, total))) == ["linear", *expected, "linear", "add"]


def test_a_sum_that_is_written_is_one_value_of_the_next():
    """A sum of five values, which two loops read, is one of four values of a second sum, which is computed again."""
    calls = Calls()
    first = sum_of(calls, *(calls.given(4, 8) for _ in range(5)))
    second = sum_of(calls, first, *(calls.given(4, 8) for _ in range(3)))
    padded = calls("pad", first, shape=(4, 10), pads=((0, 0), (1, 1)))
    end = padded_and_added(calls, second)
    assert names(calls.trace(padded, end)) == ["add add add add add add", "add pad", "pad", "linear", "add"]


def test_groups_are_formed_again_without_a_sum_that_is_computed_late():
    """Nothing but the sum connects the two loops that compute its operands, which are written anyway."""
    calls = Calls()
    first, second = (calls("relu", calls.given(8, 8)) for _ in range(2))
    total = calls("add", first, second)
    end = calls("add", calls("linear", first, second), total)
    assert names(calls.trace(first, second, end)) == ["relu", "relu", "add add", "linear"]


def test_a_dropout_whose_mask_is_written_is_not_computed_again():
    calls = Calls()
    end = padded_and_added(calls, calls("dropout", calls.given(4, 8), training=True))
    assert names(calls.trace(end)) == ["dropout", "pad", "linear", "add"]


@pytest.mark.parametrize(
    ("length", "bias", "is_kept"), [(6, False, False), (7, False, True), (3, True, False), (4, True, True)]
)
def test_rows_of_more_than_six_values_keep_two_sums(length, bias, is_kept):
    """Each element of a softmax over fewer than eight elements sums its row again: it reads ``length`` values.

    The bias of a product is one value more for each. A kernel that keeps maximum and sum of 16 rows reads them once
    more, and writes and reads two numbers per row.
    """
    calls = Calls()
    x = calls.given(16, length)
    if bias:
        x = calls(
            "linear",
            calls.given(16, 9),
            calls.given(length, 9, role="param"),
            calls.given(length, role="param"),
            shape=(16, length),
        )
    group = last_of(calls.trace(calls("softmax", x, axis=1)), "softmax")
    assert group.read_again == is_kept * 4 * (16 * length + 2 * 2 * 16)


def test_a_pooled_product_with_a_bias_is_written_once():
    """Only an interpolation is finished by the loops that read it; both have 2 * 4 * 16 elements, padded 2 * 4 * 18."""
    calls = Calls()
    w, b = calls.given(4, 4, 1, role="param"), calls.given(4, role="param")
    pooled = calls("max_pool", calls("conv", calls.given(2, 4, 16), w, b), kernel=(3,), stride=(1,), padding=(1,))
    trace = calls.trace(calls("pad", pooled, shape=(2, 4, 18), pads=((0, 0), (0, 0), (1, 1))))
    _, pool, pad = groups_of(trace, "pointwise")
    assert (pool.read, pool.written, pad.read, pad.written) == (4 * 128, 4 * 128, 4 * 128, 4 * 144)


def test_loops_of_other_sizes_finish_an_interpolation_of_a_product_with_a_bias():
    """It writes two values for each of 2 * 4 * 32 elements; the loop that pads them reads these, and the product."""
    calls = Calls()
    w, b = calls.given(4, 4, 1, role="param"), calls.given(4, role="param")
    product = calls("conv", calls.given(2, 4, 16), w, b)
    larger = calls("resize", product, shape=(2, 4, 32), mode="linear")
    trace = calls.trace(calls("pad", larger, shape=(2, 4, 34), pads=((0, 0), (0, 0), (1, 1))))
    _, resize, pad = groups_of(trace, "pointwise")
    assert (resize.read, resize.written) == (4 * 128, 2 * 4 * 256)
    assert (pad.read, pad.written) == (2 * 4 * 256 + 4 * 128, 4 * 272)


def test_an_interpolation_is_finished_inside_a_concatenation():
    """As in a U-Net: the skip of 2 * 4 * 32 elements is pooled too, so that each loop writes its half."""
    calls = Calls()
    w, b = calls.given(4, 4, 1, role="param"), calls.given(4, role="param")
    skip = calls("relu", calls.given(2, 4, 32))
    pooled = calls("max_pool", skip, kernel=(2,), stride=(2,), padding=(0,))
    product = calls("conv", pooled, w, b, shape=(2, 4, 16))
    larger = calls("resize", product, shape=(2, 4, 32), mode="linear")
    trace = calls.trace(calls("concat", skip, larger, shape=(2, 8, 32), axis=1))
    by_name = {trace.records[group.calls[-1]].call.layer.op: group for group in groups_of(trace, "pointwise")}
    assert (by_name["resize"].read, by_name["resize"].written) == (4 * 2 * 4 * 16, 0)
    assert (by_name["concat"].read, by_name["concat"].written) == (0, 4 * 2 * 8 * 32)


def test_loops_of_other_sizes_read_an_interpolated_input_once():
    """Nothing computes the input of 2 * 4 * 16 elements: a loop writes 2 * 4 * 32, and the next reads these."""
    calls = Calls()
    larger = calls("resize", calls.given(2, 4, 16), shape=(2, 4, 32), mode="linear")
    trace = calls.trace(calls("pad", larger, shape=(2, 4, 34), pads=((0, 0), (0, 0), (1, 1))))
    resize, pad = groups_of(trace, "pointwise")
    assert (resize.read, resize.written, pad.read, pad.written) == (4 * 128, 4 * 256, 4 * 256, 4 * 272)


def test_short_rows_whose_result_has_another_size_by_name():
    """As in a saved report that was edited: a norm of four numbers, whose result is n * h * w times as many."""
    n, h, w = sympy.symbols("n h w", integer=True, positive=True)
    calls = Calls()
    operands = [calls.given(4) for _ in range(5)]
    names = ("x", "w", "b", "mean", "var")
    trace = calls.trace(calls("batch_norm", *operands, shape=(n, 4, h, w), names=names, training=True, eps=1e-5))
    (group,) = groups_of(trace, "pointwise")
    assert group.calls == (0,)


@pytest.mark.parametrize(
    ("operands", "expected"), [(8, [" ".join(["relu"] * 8 + ["concat"])]), (9, ["relu"] * 9 + ["concat"])]
)
def test_a_loop_concatenates_up_to_eight_operands(operands, expected):
    """Nine are written into the result by the loops that compute them."""
    calls = Calls()
    parts = [calls("relu", calls.given(4, 8)) for _ in range(operands)]
    end = calls("concat", *parts, shape=(4, 8 * operands), names=[f"x{i}" for i in range(operands)])
    assert names(calls.trace(end)) == expected


@pytest.mark.parametrize("between", [7, 8])
def test_a_loop_looks_for_eight_others_that_read_the_same(between):
    """``relu`` and ``exp`` read x, and so do products between them, of which the loop of ``relu`` tries the latest."""
    calls = Calls()
    x, w = calls.given(4, 8), calls.given(8, 8, role="param")
    ends = [calls("exp", x), *(calls("linear", x, w) for _ in range(between)), calls("relu", x)]
    products = ["linear"] * between
    expected = ["exp relu", *products] if between == 7 else ["exp", *products, "relu"]
    assert names(calls.trace(*ends)) == expected
