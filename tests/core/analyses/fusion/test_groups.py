"""Groups of calls, and their bytes, worked out by hand."""

from __future__ import annotations

from random import Random

import pytest

from costcore import Trace
from tests.core.analyses.fusion.properties import check_groups
from tests.core.analyses.fusion.runs import Calls, groups_of, random_run


def grouped(trace, level="pointwise"):
    """The names of the operators of every group."""
    groups = check_groups(trace)[level]
    return [" ".join(trace.calls[i].layer.op for i in group.calls) for group in groups]


def test_a_chain_of_maps_is_one_loop():
    calls = Calls()
    x, y = calls.given(4, 8), calls.given(4, 8)
    end = calls("relu", calls("add", calls("exp", x), y))
    trace = calls.trace(end)
    assert grouped(trace) == ["exp add relu"]
    (group,) = groups_of(trace, "pointwise")
    assert group.calls == (0, 1, 2)
    assert group.read == 2 * 4 * 32  # x and y, 32 elements of four bytes each
    assert group.written == 4 * 32  # the last output


def test_a_value_that_somebody_else_needs_is_written():
    calls = Calls()
    x = calls.given(4, 8)
    middle = calls("exp", x)
    trace = calls.trace(middle, calls("relu", middle))
    (group,) = groups_of(trace, "pointwise")
    assert (group.read, group.written) == (4 * 32, 2 * 4 * 32)  # exp and relu are both returned


def test_a_reduction_shares_the_loop_of_its_rows():
    calls = Calls()
    x, y, w = calls.given(4, 8), calls.given(4, 8), calls.given(8, role="param")
    total = calls("add", x, y)
    normed = calls("layer_norm", total, w, names=("x", "w"), axis=(1,))
    trace = calls.trace(total, normed)
    assert grouped(trace) == ["add layer_norm"]
    (group,) = groups_of(trace, "pointwise")
    assert group.read == 4 * (32 + 32 + 8)
    assert group.written == 4 * (32 + 32)


def test_reductions_over_different_rows_are_two_loops():
    calls = Calls()
    x = calls.given(4, 8)
    trace = calls.trace(calls("softmax", calls("softmax", x, axis=1), axis=0))
    assert grouped(trace) == ["softmax", "softmax"]


def test_a_map_on_reduced_rows_joins_the_reduction():
    calls = Calls()
    x = calls.given(4, 8)
    mean = calls("reduce_mean", x, shape=(4, 1))
    root = calls("sqrt", mean)
    trace = calls.trace(calls("div", x, root))
    assert grouped(trace) == ["reduce_mean sqrt div"]
    (group,) = groups_of(trace, "pointwise")
    assert (group.read, group.written) == (4 * 32, 4 * 32)


@pytest.mark.parametrize("is_returned", [False, True])
def test_a_map_on_rows_joins_the_reduction_over_them_that_comes_before_its_reader(is_returned):
    """``softmax(x) + exp(v)`` with one v for each of the four rows."""
    calls = Calls()
    x, v = calls.given(4, 8), calls.given(4, 1)
    power = calls("exp", v)
    trace = calls.trace(calls("add", calls("softmax", x, axis=1), power), *([power] if is_returned else []))
    assert grouped(trace) == ["exp softmax add"]
    (group,) = groups_of(trace, "pointwise")
    assert (group.read, group.written) == (4 * (32 + 4), 4 * (32 + 4 * is_returned))


def test_a_map_over_other_elements_than_the_rows_is_a_loop_of_its_own():
    """``softmax(x) + exp(v)`` with one v for each of the eight columns, of a softmax over four rows."""
    calls = Calls()
    x, v = calls.given(4, 8), calls.given(1, 8)
    power = calls("exp", v)
    trace = calls.trace(calls("add", calls("softmax", x, axis=1), power), power)
    assert grouped(trace) == ["exp", "softmax add"]


def test_a_product_is_alone_until_the_compiler_level():
    calls = Calls()
    x, w = calls.given(4, 8), calls.given(16, 8, role="param")
    hidden = calls("linear", x, w, shape=(4, 16))
    trace = calls.trace(calls("mul", calls("gelu", hidden), calls.given(4, 16)))
    assert grouped(trace) == ["linear", "gelu mul"]
    assert grouped(trace, "compiler") == ["linear gelu mul"]
    (group,) = groups_of(trace, "compiler")
    assert group.read == 4 * (32 + 128 + 64)  # x, w and the other factor
    assert group.written == 4 * 64


def test_one_product_per_group():
    """A sum of two branches, as in a residual block with a convolution in its shortcut."""
    calls = Calls()
    x, w = calls.given(4, 8), calls.given(8, 8, role="param")
    trace = calls.trace(calls("relu", calls("add", calls("linear", x, w), calls("linear", x, w))))
    assert grouped(trace, "compiler") == ["linear", "linear add relu"]


def test_a_reduction_does_not_continue_a_product():
    calls = Calls()
    x, w = calls.given(4, 8), calls.given(8, 8, role="param")
    trace = calls.trace(calls("softmax", calls("linear", x, w), axis=1))
    assert grouped(trace, "compiler") == ["linear", "softmax"]


def test_siblings_read_their_operand_once():
    calls = Calls()
    x = calls.given(4, 8)
    trace = calls.trace(calls("exp", x), calls("relu", x))
    (group,) = groups_of(trace, "pointwise")
    assert (group.read, group.written) == (4 * 32, 2 * 4 * 32)


def test_no_group_waits_for_itself():
    """The sum needs exp directly and through the product, which runs in between."""
    calls = Calls()
    x, w = calls.given(4, 8), calls.given(8, 8, role="param")
    early = calls("exp", x)
    trace = calls.trace(calls("add", early, calls("linear", early, w)))
    assert grouped(trace) == ["exp", "linear", "add"]
    assert grouped(trace, "compiler") == ["exp", "linear add"]


def test_a_view_is_its_operand_by_another_name():
    calls = Calls()
    x = calls.given(4, 8)
    flat = calls("view", calls("exp", x), shape=(32,))
    trace = calls.trace(calls("relu", flat))
    assert grouped(trace) == ["exp view relu"]
    (group,) = groups_of(trace, "pointwise")
    assert (group.read, group.written) == (4 * 32, 4 * 32)


def test_parts_of_a_value_add_up_to_the_whole_at_most():
    """Two halves are read, as gated units do; then one of them again in another shape, and everything once more."""
    calls = Calls()
    x = calls.given(4, 8)
    left, right = calls("view", x, shape=(4, 4)), calls("view", x, shape=(4, 4))
    product = calls("mul", calls("sigmoid", left), right)
    groups = [group for group in groups_of(calls.trace(product), "pointwise") if group.read]
    assert [(group.read, group.written) for group in groups] == [(4 * 32, 4 * 16)]
    again = calls("add", product, calls("view", left, shape=(4, 4)))
    groups = [group for group in groups_of(calls.trace(again), "pointwise") if group.read]
    assert [(group.read, group.written) for group in groups] == [(4 * 32, 4 * 16)]


def test_rows_of_a_table_are_not_the_table():
    calls = Calls()
    ids, table = calls.given(5), calls.given(1000, 8, role="param")
    rows = calls("embedding", ids, table, shape=(5, 8), names=("x", "w"))
    trace = calls.trace(calls("relu", rows))
    (group,) = groups_of(trace, "pointwise")
    assert group.read == 4 * (5 + 40)  # the indices, and five rows of eight
    assert group.written == 4 * 40


def norms(length: int, *readers: str) -> Calls:
    """A norm over 8 rows after a product, and what reads it."""
    calls = Calls()
    w = calls.given(length, 4, role="param")
    value = calls("layer_norm", calls("linear", calls.given(8, 4), w, shape=(8, length)), axis=(1,))
    for reader in readers:
        value = calls(reader, value)
    return calls


def test_few_long_rows_are_read_twice():
    """Up to 8192 elements are one block. The loop after the norm reads what the product wrote a second time."""
    for length, times in ((8192, 1), (8193, 2)):
        trace = norms(length, "relu").trace()
        assert grouped_loosely(trace) == ["linear", "layer_norm relu"]
        assert groups_of(trace, "pointwise")[1].read == times * 4 * 8 * length
        assert groups_of(trace, "pointwise")[1].written == 4 * 8 * length


def test_few_rows_across_memory_are_read_twice_above_128_elements():
    """Rows of 129 elements that are neighbors are one block; those of a turned matrix are split."""
    for length, times in ((128, 1), (129, 2)):
        calls = Calls()
        turned = calls("view", calls.given(length, 8), shape=(8, length), axes=(1, 0))
        ends = [calls("layer_norm", x, axis=(1,)) for x in (turned, calls.given(8, length))]
        groups = groups_of(calls.trace(*ends), "pointwise")
        assert [group.read for group in groups] == [0, times * 4 * 8 * length, 4 * 8 * length]


def test_what_needs_a_long_row_does_not_share_its_loop():
    """The second norm reads the result of the first twice: parts of 10,001 are unequal, so no loop reduces them."""
    trace = norms(10_001, "exp").trace()
    calls = norms(10_001)
    last = calls.calls[-1].outputs[0]
    calls("layer_norm", last, axis=(1,))
    assert grouped_loosely(trace) == ["linear", "layer_norm exp"]
    assert grouped_loosely(calls.trace()) == ["linear", "layer_norm", "layer_norm"]
    second = groups_of(calls.trace(), "pointwise")[2]
    assert second.read == 2 * 4 * 8 * 10_001


def test_equal_parts_of_rows_are_reduced_where_they_are_produced():
    calls = norms(16_384)
    calls("layer_norm", calls.calls[-1].outputs[0], axis=(1,))
    second = groups_of(calls.trace(), "pointwise")[2]
    assert second.read == 4 * 8 * 16_384  # two parts of 8192 each: only the last loop reads


def test_many_long_rows_need_no_help():
    calls = Calls()
    calls("softmax", calls.given(264, 10_000), axis=1)
    (group,) = groups_of(calls.trace(), "pointwise")
    assert group.read == 4 * 264 * 10_000
    calls = Calls()
    calls("softmax", calls.given(263, 10_000), axis=1)
    (group,) = groups_of(calls.trace(), "pointwise")
    assert group.read == 2 * 4 * 263 * 10_000


def grouped_loosely(trace):
    """As :func:`grouped`, without what holds of the bytes of runs whose rows are short."""
    return [" ".join(trace.calls[i].layer.op for i in group.calls) for group in groups_of(trace, "pointwise")]


def test_a_sum_is_computed_again_where_it_is_padded():
    """exp is not written: the loop that pads reads x, and so does the sum."""
    calls = Calls()
    x, w = calls.given(4, 8), calls.given(8, 10, role="param")
    y = calls("exp", x)
    padded = calls("pad", y, shape=(4, 10), pads=((0, 0), (1, 1)))
    trace = calls.trace(calls("add", calls("linear", padded, w, shape=(4, 8)), y))
    assert grouped(trace) == ["exp pad", "linear", "add"]
    assert [(group.read, group.written) for group in groups_of(trace, "pointwise")] == [
        (4 * 32, 4 * 40),
        (4 * (40 + 80), 4 * 32),
        (4 * (32 + 32), 4 * 32),
    ]


def test_a_window_of_as_many_elements_needs_its_neighbors():
    """Windows of 3 with a stride of 1 read what other positions of the loop compute; a map beside them does not."""
    calls = Calls()
    added = calls("add", calls.given(2, 4, 16), calls.given(2, 4, 16))
    pooled = calls("max_pool", added, kernel=(3,), stride=(1,), padding=(1,))
    assert grouped(calls.trace(calls("relu", added), pooled)) == ["add relu", "max_pool"]


def test_a_small_operand_is_computed_where_it_is_needed():
    calls = Calls()
    x, scale = calls.given(4, 8), calls.given(8, role="param")
    trace = calls.trace(calls("mul", x, calls("exp", scale)))
    assert grouped(trace) == ["exp mul"]
    calls = Calls()
    x, scale = calls.given(4, 8), calls.given(8, role="param")
    shared = calls("exp", scale)
    assert grouped(calls.trace(calls("mul", x, shared), shared)) == ["exp", "mul"]


@pytest.mark.parametrize("place", [{"phase": "backward"}, {"region": "body", "times": 5}])
def test_parts_of_a_program_that_are_compiled_apart_are_not_fused(place):
    calls = Calls()
    early = calls("exp", calls.given(4, 8))
    trace = calls.trace(calls("relu", early, **place))
    assert grouped(trace) == ["exp", "relu"]


def test_what_is_computed_again_is_fused_with_the_backward_pass():
    calls = Calls()
    again = calls("exp", calls.given(4, 8), phase="recompute")
    trace = calls.trace(calls("mul", again, again, phase="backward"))
    assert grouped(trace) == ["exp mul"]


def test_a_group_of_a_loop_runs_as_often_as_the_loop():
    calls = Calls()
    x = calls.given(4, 8)
    calls("relu", calls("exp", x, region="body", times=5), region="body", times=5)
    (group,) = groups_of(calls.trace(), "pointwise")
    assert (group.read, group.written, group.times) == (4 * 32, 4 * 32, 5)


def test_a_call_without_a_cost_is_alone():
    calls = Calls()
    trace = calls.trace(calls("relu", calls("unknown", calls("exp", calls.given(4, 8)))))
    assert grouped(trace) == ["exp", "unknown", "relu"]


def test_with_a_free_layout_transposes_are_views():
    calls = Calls()
    turned = calls("transpose", calls("exp", calls.given(4, 8)), shape=(8, 4))
    end = calls("relu", turned)
    assert grouped(calls.trace(end, layout="free")) == ["exp transpose relu"]
    assert groups_of(calls.trace(end, layout="free"), "pointwise")[0].read == 4 * 32


def test_calls_without_ids_keep_their_bytes():
    calls = Calls()
    calls("relu", calls("exp", calls.given(4, 8)))
    calls("embedding", calls.given(5), calls.given(1000, 8), shape=(5, 8), names=("x", "w"))
    calls.calls = [call._replace(inputs=(), outputs=()) for call in calls.calls]
    groups = groups_of(calls.trace(), "pointwise")
    assert [(group.read, group.written) for group in groups] == [(128, 128), (128, 128), (4 * 45, 4 * 40)]


@pytest.mark.parametrize("seed", range(30))
def test_random_runs(seed):
    random = Random(seed)
    check_groups(random_run(random, random.randrange(2, 60)))


def dense_block(calls: Calls, width: int, *others: int) -> int:
    """A product whose output is concatenated with values that other loops read."""
    w = calls.given(width, width, role="param")
    feature = calls("linear", calls("relu", others[0]), w)
    return calls("concat", feature, *others, shape=(4, width * (1 + len(others))), names=("x0", "x1", "x2"))


def test_operands_that_others_need_are_written_into_the_concatenation():
    """A dense block: relu reads the operand that the concatenation repeats, so no loop computes the result at once.

    The sum writes its 32 elements into the result beside those of relu, and the product's 32 are copied into it.
    """
    calls = Calls()
    x = calls("exp", calls.given(4, 8))
    trace = calls.trace(calls("neg", dense_block(calls, 8, x)))
    assert grouped(trace) == ["exp relu", "linear", "concat", "neg"]
    loop, product, concat, last = groups_of(trace, "pointwise")
    assert (loop.read, loop.written) == (4 * 32, 4 * 32)  # what exp writes is part of the result of concat
    assert (product.read, product.written) == (4 * (32 + 64), 4 * 32)
    assert (concat.read, concat.written) == (4 * 32, 4 * 64)
    assert (last.read, last.written) == (4 * 64, 4 * 64)


def test_a_concatenation_of_private_operands_is_one_loop():
    calls = Calls()
    w = calls.given(8, 8, role="param")
    left, right = (calls("relu", calls("linear", calls.given(4, 8), w)) for _ in range(2))
    trace = calls.trace(calls("concat", left, right, shape=(4, 16), names=("x0", "x1")))
    assert grouped(trace) == ["linear", "relu relu concat", "linear"]
    assert [group.read + group.written for group in groups_of(trace, "pointwise")][1] == 4 * (64 + 64)


def test_a_convolution_copies_an_image_of_tokens():
    """Tokens [2, 16, 8], read as an image [2, 8, 4, 4], are copied: 4 * 256 bytes are read, written and read again.

    The kernel of 9 * 8 weights is depthwise, and the result as large as the image. A loop that computes the tokens
    writes them in that layout itself: nothing is copied after relu.
    """
    for is_computed in (False, True):
        calls = Calls()
        tokens = calls.given(2, 16, 8)
        w = calls.given(8, 1, 3, 3, role="param")
        if is_computed:
            tokens = calls("relu", tokens)
        image = calls("view", calls("view", tokens, shape=(2, 8, 16), axes=(0, 2, 1)), shape=(2, 8, 4, 4))
        end = calls("conv", image, w)
        group = groups_of(calls.trace(end), "pointwise")[-1]
        copied = 0 if is_computed else 4 * 256
        assert (group.read, group.written) == (4 * (256 + 72) + copied, 4 * 256 + copied)
        assert (group.read_again, group.copied) == (copied, copied)


def test_parts_of_tokens_are_copied_beside_a_loop():
    """Half of what relu computes is read as an image: nobody else writes it so. It has 2 * 8 * 8 elements."""
    calls = Calls()
    tokens, w = calls("relu", calls.given(2, 16, 8)), calls.given(8, 1, 3, 3, role="param")
    turned = calls("view", tokens, shape=(2, 8, 16), axes=(0, 2, 1))
    half = calls("view", turned, shape=(2, 8, 8))
    end = calls("conv", calls("view", half, shape=(2, 8, 2, 4)), w)
    assert groups_of(calls.trace(end), "pointwise")[-1].copied == 4 * 2 * 8 * 8


def test_a_norm_writes_an_image_of_tokens():
    """It reads its 32 rows of 8 again, after it has written two values of each, which it reads then.

    That is 4 * 256 + 2 * (4 * 2 * 32) bytes more than one read and one write. If a linear layer reads the norm first,
    it is written as it is named, and the convolution copies it.
    """
    for reads_linear in (False, True):
        calls = Calls()
        x, w = calls.given(2, 16, 8), calls.given(8, 1, 3, 3, role="param")
        normed = calls("layer_norm", x, shape=(2, 16, 8), axis=2)
        ends = [calls("linear", normed, calls.given(8, 8, role="param"))] if reads_linear else []
        turned = calls("view", normed, shape=(2, 8, 16), axes=(0, 2, 1))
        ends.append(calls("conv", calls("view", turned, shape=(2, 8, 4, 4)), w))
        groups = groups_of(calls.trace(*ends), "pointwise")
        again = 0 if reads_linear else 4 * 256 + 2 * 4 * 2 * 32
        assert (groups[0].read, groups[0].written, groups[0].read_again) == (4 * 256 + again, 4 * 256, again)
        assert groups[-1].copied == (4 * 256 if reads_linear else 0)


def test_heads_between_tokens_are_copied():
    """A batch of heads must be one axis: with two examples, positions lie between examples and heads.

    Queries [B, 4, 16, 8] lie as [B, 16, 4, 8]. Of one example, the heads are a batch as they are.
    """
    for examples in (1, 2):
        calls = Calls()
        q, k = calls.given(examples, 16, 4, 8), calls.given(examples, 4, 8, 16)
        heads = calls("view", q, shape=(examples, 4, 16, 8), axes=(0, 2, 1, 3))
        end = calls("matmul", heads, k, shape=(examples, 4, 16, 16), names=("x0", "x1"))
        group = groups_of(calls.trace(end), "pointwise")[-1]
        copied = 4 * 2 * 16 * 4 * 8 if examples == 2 else 0
        assert (group.copied, group.read) == (copied, 2 * 4 * examples * 16 * 4 * 8 + copied)


@pytest.mark.parametrize("reader", ["relu", "conv"])
def test_a_bias_that_no_loop_adds(reader):
    """A convolution writes 2 * 8 * 16 elements. A loop that reads them adds the bias; otherwise a kernel does first."""
    calls = Calls()
    w, b = calls.given(8, 8, 1, role="param"), calls.given(8, role="param")
    first = calls("conv", calls.given(2, 8, 16), w, b)
    end = calls("relu", first) if reader == "relu" else calls("conv", first, calls.given(8, 8, 1, role="param"))
    assert groups_of(calls.trace(end), "pointwise")[0].copied == (0 if reader == "relu" else 4 * 2 * 8 * 16)


def test_a_linear_layer_over_another_axis_adds_its_bias_afterwards():
    """PyTorch multiplies tokens as a batch then: the product is read and written again for a reader that is no loop."""
    for is_turned in (False, True):
        calls = Calls()
        w, b, v = (calls.given(*shape, role="param") for shape in ((4, 16), (4,), (8, 8)))
        x = (
            calls.given(2, 8, 16)
            if not is_turned
            else calls("view", calls.given(2, 16, 8), shape=(2, 8, 16), axes=(0, 2, 1))
        )
        y = calls("linear", x, w, b, shape=(2, 8, 4))
        end = calls("linear", calls("view", y, shape=(2, 4, 8), axes=(0, 2, 1)), v)
        product = next(each for each in groups_of(calls.trace(end), "pointwise") if each.written)
        assert product.copied == (4 * 2 * 8 * 4 if is_turned else 0)


def test_a_result_is_computed_where_a_later_loop_reads_it():
    """The square of a is added to a convolution of a: its loop reads a, which is in memory for the convolution anyway.

    The first loop reads and writes 256 elements, and the last reads the 256 of the convolution and of a. If relu is
    for the square alone, the first loop has both, and the last reads the square.
    """
    for is_alone in (False, True):
        calls = Calls()
        x, w = calls.given(2, 8, 16), calls.given(8, 8, 1, role="param")
        a = calls("relu", x)
        square = calls("square", a)
        product = calls("conv", calls("exp", x) if is_alone else a, w)
        trace = calls.trace(calls("add", product, square))
        end = len(trace) - 1
        groups = check_groups(trace)["pointwise"]
        first, last = groups[0], next(each for each in groups if end in each.calls)
        assert (first.read, first.written) == (4 * 256, 4 * 256 * (2 if is_alone else 1))
        assert (last.read, last.written) == (4 * 512, 4 * 256)
        assert last.calls == ((end,) if is_alone else (1, end))


def test_a_product_that_writes_the_value_it_reads():
    """As in a saved report in which the id of an output was edited."""
    calls = Calls()
    end = calls("linear", calls.given(4, 8), calls.given(8, 8, role="param"))
    trace = calls.trace(end)
    call = trace.records[0].call._replace(outputs=trace.records[0].call.inputs[:1])
    same = Trace((trace.records[0]._replace(call=call),), trace.run)
    (group,) = groups_of(same, "pointwise")
    assert group.calls == (0,)


@pytest.mark.parametrize(
    ("length", "groups"), [(1 << 14, ["relu reduce_sum", "exp"]), (1 << 10, ["relu reduce_sum exp"])]
)
def test_one_long_row_is_summed_in_parts(length, groups):
    """A row of 2^14 elements is split between multiprocessors: what reads its sum runs after all of them."""
    calls = Calls()
    total = calls("reduce_sum", calls("relu", calls.given(1, length)), shape=(1,), axis=(0, 1))
    assert grouped(calls.trace(calls("exp", total)), "compiler") == groups


def test_an_operand_of_half_the_size_is_read_whole():
    """A row of a sum of (2, 64) and (1, 64): 64 elements of the first operand, and all 64 of the second."""
    calls = Calls()
    whole = calls("add", calls.given(2, 64), calls.given(1, 64), shape=(2, 64))
    row = calls("view", whole, shape=(1, 64), axis=(0,), start=(0,), stop=(1,), step=(1,))
    (group,) = groups_of(calls.trace(calls("relu", row)), "pointwise")
    assert (group.read, group.written) == (4 * (64 + 64), 4 * 64)
