"""Parts of serving by hand: formats, latents, marks of the cache, passes, ranges of formulas, weights, tables."""

from __future__ import annotations

from fractions import Fraction
from io import StringIO
from math import isclose
from types import SimpleNamespace
from typing import Any

import pytest

from costcore import Trace
from costcore.analyses.devices.device import Device
from costcore.counting import Pricer
from costcore.ir import BITS, Cost, Layer, Operations, Tensor
from costcore.studies.serving.cached_model import (
    ALL,
    CachedPart,
    CacheStorages,
    PackedWeight,
    Parameter,
    StoredFile,
    StoredPart,
    computes_nothing,
    is_move,
)
from costcore.studies.serving.passes import (
    LONGEST,
    LONGEST_LOOP,
    MOST_CAPTURED,
    Experts,
    Kind,
    Latent,
    Point,
    Runs,
    StoredWeight,
    Tallies,
    Tally,
    Widths,
    attended,
    expected_experts,
    fewest_experts,
    not_expected,
    not_needed,
    tallies_of,
    times_cached,
    with_marks,
)
from costcore.studies.serving.phase import (
    INSIDE,
    STORED_BITS,
    Phase,
    PhaseTime,
    least_time,
    pairs_before,
    published_rates,
    reached,
)
from costcore.studies.serving.report import (
    COLUMNS,
    FORMATS,
    Row,
    StoredWeights,
    dtype_of,
    format_of,
    remarks,
    serving_rows,
    serving_table,
)
from tests.core.analyses.timing.toy_device import Memory, device, find_device
from tests.core.studies.serving.toy_decoder import ToyDecoder
from tests.core.traces import Call, CallCost, Run
from tests.registered import calculators


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("int4", 4.125),  # a float16 for 128 weights
        ("int4:32", 4.5),
        ("4bit", 4.125),
        ("8-bit", 8),
        ("BF16", 16),
        ("Q4_K", 4.5),  # a block of 256 weights in 144 bytes, as ggml-common.h lays it out
        ("q4_K_M", 4.5),
        ("Q2_K", 2.625),  # 84 bytes
        ("q3_k_l", 3.4375),  # 110 bytes
        ("Q5_K_S", 5.5),  # 176 bytes
        ("Q6_K", 6.5625),  # 210 bytes
        ("q4_1", 5),  # 32 weights in 20 bytes
        ("q5_1", 6),  # 24 bytes
        ("fp8:32", 8.5),  # of a format without scales, a float16 too
        ("nf4:32", 5),
        ("nf4", 4.5),  # a float32 for 64
        ("q4_0", 4.5),  # 18 bytes for 32 weights
        ("q8_0", 8.5),  # 34 bytes for 32
        ("mxfp4", 4.25),  # 17 bytes for 32
        ("mxfp6", 6.25),
        ("mxfp8", 8.25),
        ("int3", 3.125),
        ("int2", 2.125),
        ("q5_0", 5.5),
        ("int8", 8),
        ("fp16", 16),
        ("bf16", 16),
        ("fp32", 32),
        ("nvfp4", 4.5),  # 9 bytes for 16
        ("fp8", 8),
        ("bfloat16", 16),
        ("float32", 32),
    ],
)
def test_bits_of_a_number_with_its_part_of_a_scale(name, bits):
    assert format_of(name, "weights").bits_with_scales == Fraction(bits)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_dtype(name):
    assert dtype_of(name, "dtype")


@pytest.mark.parametrize("name", ["int4:0", "int4:-1", "int4:x", "in4", "", "string"])
def test_names_that_are_refused(name):
    with pytest.raises(ValueError, match="weights"):
        format_of(name, "weights")


LATENT = Latent("attention", heads=2, rank=4, rope=1, key=3, value=2)
"""Keys and values of a token are 2 * (3 + 2) = 10 numbers, its latent vector 4 + 1 = 5.

A query and a key need 10 products if expanded, and 2 * (4 + 4 + 1) = 18 if absorbed.
"""

ATTENTION, OTHER = Kind("matmul", 16, 16, True), Kind("linear", 16, 16, False)
POINT = Point(batch=2, tokens=3, past=9)
"""6 new tokens, each of which sees 12; 18 of the 24 tokens of both sequences are expanded again as captured."""

CAPTURED = Tally(n_calls=1, macs=1000, flops=1100, cache_macs=600, expand_macs=240, load_kv=7, store_kv=8, copied=9)
KEPT = Tally(n_calls=2, macs=50, flops=60, load_kv=1, store_kv=2, copied=3)


@pytest.mark.parametrize(
    ("how", "macs", "numbers"),
    [
        ("expanded", 1000 - 240 * 9 // 12, 10),
        ("absorbed", 1000 - 240 * 9 // 12 + 6 * 12 * (18 - 10), 5),
        ("recomputed", 1000, 5),
    ],
)
def test_what_is_read_and_kept(how, macs, numbers):
    """A number in the cache has 16 bits: of every sequence 12 tokens are read, and 3 are written."""
    sums = attended({OTHER: KEPT, ATTENTION: CAPTURED}, [LATENT], POINT, how, Fraction(16))
    assert sums[OTHER] == KEPT
    found = sums[ATTENTION]
    assert (found.macs, found.flops) == (macs, macs + 100)
    assert found.cache_macs == 600 + (macs - 820 if how == "absorbed" else 0)
    loaded, stored = 2 * 12 * numbers * 16, 6 * numbers * 16
    assert (found.load_kv, found.store_kv, found.copied) == (loaded, stored, 2 * loaded + stored)


def test_several_layers_add_up():
    once, twice = (
        attended({ATTENTION: CAPTURED}, [LATENT] * n, POINT, "absorbed", Fraction(8))[ATTENTION] for n in (1, 2)
    )
    assert (twice.load_kv, twice.store_kv) == (2 * once.load_kv, 2 * once.store_kv)
    assert twice.macs - once.macs == 6 * 12 * 8


PRICER = Pricer(calculators())
CACHE = CacheStorages(frozenset({1}), frozenset())
WIDTHS = Widths(16, Fraction(8), lambda _, tensor: StoredWeight(Fraction(16), BITS[tensor.dtype], 16))


def trace(*calls: tuple[str, list[tuple[tuple[int, ...], int]], tuple[int, ...], int]) -> Trace:
    """Calls by operator, shape and storage of each input, shape and storage of the output."""
    records = []
    for op, inputs, shape, storage in calls:
        tensors = {
            f"x{i}" if len(inputs) > 1 else "x": Tensor(size, "float16", role="const" if size == () else "data")
            for i, (size, _) in enumerate(inputs)
        }
        layer = Layer(op, tensors, [Tensor(shape, "float16")])
        records.append(PRICER(Call(layer, op, storages=(*(each for _, each in inputs), storage))))
    return Trace(tuple(records), Run())


@pytest.mark.parametrize(
    ("cost", "is_nothing", "moves"),
    [
        (Cost(Operations(), 3, 5, {}), True, True),
        (Cost(0, 3, 5, {}), True, True),
        (Cost(Operations(), 3, 0, {}), True, True),
        (Cost(Operations(), 0, 5, {}), True, True),
        (Cost(Operations(), 1, 0, {}), True, True),
        (Cost(Operations(), 0, 1, {}), True, True),
        (Cost(Operations(), 0, 0, {}), True, False),
        (Cost(1, 3, 5, {}), False, False),
        (Cost(Operations(add=1), 3, 5, {}), False, False),
        (None, None, False),
    ],
)
def test_a_move_reads_or_writes_and_computes_nothing(cost, is_nothing, moves):
    record = CallCost(Call(Layer("copy", {}, []), "copy"), cost)
    assert is_move(record) == moves
    assert cost is None or computes_nothing(cost) == is_nothing
    assert bool(tallies_of([record], WIDTHS).by_op) == (cost is not None and (moves or not is_nothing))


@pytest.mark.parametrize(
    ("first", "times"),
    [
        (("copy", [((1, 4), 7)], (3, 4), 8), 3),  # each element three times
        (("copy", [((1,), 7)], (5,), 8), 5),
        (("copy", [((3, 4), 7)], (3, 4), 8), 1),
        (("copy", [((0, 4), 7)], (3, 4), 8), 1),
        (("relu", [((1, 4), 7)], (3, 4), 8), 1),  # computes
        (("concat", [((1, 4), 7), ((2, 4), 9)], (3, 4), 8), 1),
    ],
)
def test_copies_before_the_cache_count_how_often_it_has_each_element(first, times):
    found = trace(first, ("concat", [((6, 4), 1), ((3, 4), 8)], (9, 4), 1))
    assert times_cached(found, CACHE) == times


@pytest.mark.parametrize(
    ("inputs", "shape", "stored"),
    [
        ([((2, 4), 1)], (2, 4), 8),
        ([((2, 4), 1)], (6, 4), 8),  # repeated
        ([((2, 4), 1), ((0, 4), 5)], (2, 4), 8),  # of nothing else
        ([((2, 4), 1), ((), 5)], (2, 4), 8),
        ([((2, 4), 1), ((3, 4), 1)], (5, 4), 20),
        ([((2, 4), 1), ((1,), 5)], (2, 4), None),  # one element that is not cached
        ([((2, 4), 1), ((1, 4), 5)], (3, 4), None),
        ([((2, 4), 5)], (2, 4), None),
    ],
)
def test_copies_of_the_cache_are_in_it(inputs, shape, stored):
    (record,) = with_marks(trace(("concat", inputs, shape, 9)), CACHE, PRICER)
    out = record.call.layer.out
    assert (out.role == "state", out.stored_size) == (stored is not None, out.size if stored is None else stored)


def test_what_copies_and_products_of_the_cache_cost():
    """Numbers of the cache have 8 bits, others 16; a copy of 8 cached and 4 other numbers is no cache itself.

    A copy of 4 numbers into a cache of 12 reads 8 cached ones, and writes 12.
    """
    joined, appended, product, scaled = with_marks(
        trace(
            ("concat", [((2, 4), 1), ((1, 4), 5)], (3, 4), 9),
            ("concat", [((2, 4), 1), ((1, 4), 5)], (3, 4), 1),
            ("matmul", [((5, 4), 6), ((4, 3), 1)], (5, 3), 7),
            ("mul", [((5, 4), 6), ((5, 4), 6)], (5, 4), 7),
        ),
        CACHE,
        PRICER,
    )
    at = Kind("concat", 0, 0, False)
    found = tallies_of([joined], WIDTHS).by_op[at]
    assert (found.n_calls, found.load_act, found.store_kv, found.copied) == (1, 4 * 16, 0, 8 * 8 + 4 * 16)
    assert (found.load_kv, found.store_act) == (0, 0)
    found = tallies_of([appended], WIDTHS).by_op[at]
    assert (found.load_act, found.store_kv, found.copied) == (4 * 16, 4 * 8, 8 * 8 + 12 * 8 + 4 * 16)
    found = tallies_of([product], WIDTHS).by_op[Kind("matmul", 0, 0, False)]
    assert (found.macs, found.cache_macs, found.expand_macs) == (60, 60, 0)
    assert (found.load_act, found.load_kv, found.store_act) == (20 * 16, 12 * 8, 15 * 16)
    found = tallies_of([scaled, scaled], WIDTHS).by_op[Kind("mul", 0, 0, False)]
    assert (found.n_calls, found.flops, found.load_act, found.load_kv) == (2, 2 * 20, 2 * 40 * 16, 0)


@pytest.mark.parametrize(
    ("experts", "chosen", "tokens", "expected"),
    [
        (8, 2, 1, 2),
        (8, 2, 2, Fraction(7, 2)),  # 8 (1 - (3/4)^2) = 8 * 7/16
        (4, 4, 3, 4),
        (2, 1, 64, 2 * (1 - Fraction(1, 2**64))),
        (2, 1, (1 << 20) + 1, 2),
        (2**20, 1, 1 << 20, 2**20 * (1 - Fraction(float(1 - Fraction(1, 2**20)) ** 2**20))),
    ],
)
def test_each_token_chooses_its_experts(experts, chosen, tokens, expected):
    assert expected_experts(experts, chosen, tokens) == expected


def test_a_third_of_many_tokens_has_few_digits():
    """(2/3)^64 is a fraction of 64 factors of 3; (2/3)^65 is the double next to it, whose denominator is a power of 2.

    They differ by less than a part in 10^15.
    """
    exact, rounded = (expected_experts(3, 1, tokens) for tokens in (64, 65))
    assert exact == 3 * (1 - Fraction(2, 3) ** 64)
    assert rounded.denominator & (rounded.denominator - 1) == 0
    assert isclose(3 - rounded, 3 * (2 / 3) ** 65, rel_tol=1e-15)


def test_bits_of_experts_that_are_not_read():
    """3 calls, 8 experts of 10 bits each. 6 rows of 3 tokens: 2 experts per token, at most 6 experts.

    Expected are 8 (1 - (3/4)^3) = 8 * 37/64 = 37/8: 6 - 37/8 = 11/8 of 8 experts are not. If all tokens choose the
    same 2, then 4 of 8 are not.
    """
    call = Experts("moe", 80, 8, 6, 3)
    assert fewest_experts(call, 3) == 2
    assert not_expected(call, 3) == Fraction(3 * 80 * 11, 8 * 8)
    assert not_needed(call, 3) == 3 * 80 * 4 // 8
    many = call._replace(rows=20)  # of 10 tokens: at most all 8, and 5 rows of 2 tokens are 3 experts each, rounded up
    assert fewest_experts(many, 10) == 2 and not_needed(many, 10) == 3 * 80 * 6 // 8
    assert fewest_experts(call._replace(rows=5), 2) == 3
    assert fewest_experts(call._replace(rows=50), 2) == 8


def test_the_larger_of_arithmetic_and_bytes_binds():
    l4 = find_device("l4")
    rate, memory = l4.matrix_rate("bfloat16"), 1e9 * l4.memory.dram_gbs
    time = least_time("l4", "bfloat16", macs=10**9, nbytes=10**9, tokens=4, least=5 * 10**8)
    assert time.compute_seconds == 2e9 / rate
    assert (time.memory_seconds, time.least_memory_seconds) == (1e9 / memory, 5e8 / memory)
    assert (time.binds, time.bound_seconds, time.least_seconds) == ("memory", 1e9 / memory, 5e8 / memory)
    assert time.tokens_per_second == 4 / time.bound_seconds
    assert time.cached_share == max(size for _, size, _ in l4.levels()) / 10**9


@pytest.mark.parametrize(
    ("times", "binds", "bound", "least", "words"),
    [
        ((3.0, 2.0, 1.0, 0.1), "compute", 3, 3, []),
        ((2.0, 2.0, 2.0, 0.1), "memory", 2, 2, []),
        ((0.5, 2.0, 1.0, 0.1), "memory", 2, 1, ["with experts"]),
        ((None, 0.25, 0.25, 0.1), "memory", 0.25, 0.25, ["the peak of it"]),
        ((3.0, 2.0, 2.0, 0.25), "compute", 3, 3, ["caches of it hold 25% of"]),
        ((3.0, 2.0, 2.0, 2.5), "compute", 3, 3, ["caches of it hold 100% of"]),
    ],
)
def test_what_a_bound_says(times, binds, bound, least, words):
    compute, memory, fewest, share = times
    time = PhaseTime("it", compute, memory, 6, share, fewest)
    assert (time.binds, time.bound_seconds, time.least_seconds) == (binds, bound, least)
    assert time.tokens_per_second == 6 / bound
    assert len(time.remarks) == 1 + len(words)
    assert all(remark.startswith(word) for remark, word in zip(time.remarks[1:], words, strict=True))


@pytest.mark.parametrize("window", [None, 1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize(("new", "past"), [(1, 0), (4, 0), (3, 2), (2, 7), (5, 5)])
def test_pairs_of_a_window(new, past, window):
    """Token t of all, counted from 0, sees itself and those before it, no more than the window has."""
    assert pairs_before(new, past, window) == sum(min(t + 1, window or 99) for t in range(past, past + new))


def test_a_table_for_people_has_giga_and_milliseconds():
    row = Row("l4", "decode", 4, 1.25e9, 26_000_000_000, 1_500_000_000, 3.456, "memory", 0.0917, 0.09, 43.6, 7)
    tables = [serving_table([row]), serving_table([row._replace(price_per_million=0.12345, sequences=None)])]
    stream = StringIO()
    tables[1].write(stream, "csv", None, None)
    assert [column.key for column in tables[0].columns] == [
        column.key for column in COLUMNS if column.key != "price_per_million"
    ]
    assert stream.getvalue().splitlines()[1] == "l4,decode,4,1.25,24.21,1.40,3.46,memory,91.70,44,0.1235,"


needs_sympy = pytest.mark.frontend("onnx")
WIDE = Widths(16, Fraction(16), lambda _, tensor: StoredWeight(Fraction(16), BITS[tensor.dtype], 16))


class Counted(ToyDecoder):
    """A model that counts its passes."""

    passes = 0

    def record(self, *arguments):
        self.passes += 1
        return super().record(*arguments)


def runs(windows=(), **options):
    model = Counted(window=windows[0] if windows else None, **options)
    return model, Runs(model, WIDE, windows)


@needs_sympy
@pytest.mark.parametrize(
    ("phase", "length", "expected"),
    [
        ("prefill", 2, (1, 2)),
        ("prefill", 19, (3, 19)),
        ("prefill", 20, (20, 69)),  # of so many tokens the window leaves all, and of one more not
        ("prefill", 70, (70, 100)),
        ("prefill", 100, (70, 100)),
        ("prefill", 500, (70, 100)),  # a longer one is near the last range
        ("decode", 18, (2, 18)),  # with the new token these are 19
        ("decode", 19, (19, 68)),
        ("decode", 69, (69, 99)),
        ("decode", 1, (1, 1)),
        ("decode", 2, (2, 18)),
        ("extend", 99, (69, 99)),
        ("extend", 100, (69, 99)),
    ],
)
def test_windows_and_the_longest_sequence_end_ranges(phase, length, expected):
    """Windows of 3, 20 and 70 tokens, 100 positions; one of 1 and one of 300 end none."""
    _, found = runs((1, 3, 20, 70, 300), most_tokens=100)
    assert found._range(phase, length) == expected


@needs_sympy
@pytest.mark.parametrize(("state", "most", "longest"), [(0, None, LONGEST), (3, None, LONGEST_LOOP), (3, 99, 99)])
def test_lengths_at_which_formulas_are_checked(state, most, longest):
    assert (LONGEST, LONGEST_LOOP) == (1 << 15, 1 << 8)
    _, found = runs(state=state, most_tokens=most)
    assert found._range("prefill", 5) == (1, longest)
    assert found._range("decode", 5) == (1, longest - 1)


@needs_sympy
@pytest.mark.parametrize(("most", "reason"), [(9, ""), (8, "lengths from 1 to 8 are too few")])
def test_few_lengths_have_no_formulas(most, reason):
    """Of 9 lengths there are formulas; of 8 not."""
    model, found = runs(most_tokens=most)
    piece = found.piece("prefill", 3)
    assert (piece.reason, piece.tallies is None, model.passes == 0) == (reason, bool(reason), bool(reason))


@needs_sympy
def test_after_eight_passes_formulas_are_found():
    assert MOST_CAPTURED == 8
    model, found = runs(windows=(50,))
    _other, captured = runs(windows=(50,))
    for length in range(1, 9):
        found.at(Point(1, 1, length))
        found.at(Point(1, 1, length))
        assert model.passes == length  # each of them once
    found.at(Point(1, 1, 60))
    assert model.passes == 9  # beyond the window, where none was captured
    found.at(Point(1, 10, 0), last_only=True)
    found.at(Point(1, 2, 9))
    assert model.passes == 11  # of other phases
    found.at(Point(2, 1, 9))
    fitted = model.passes
    assert fitted > 12
    for batch, length in ((3, 11), (5, 48), (7, 9), (1, 1), (1, 48)):
        point = Point(batch, 1, length)
        assert found.at(point) == captured.at(point)
    assert model.passes == fitted
    found.at(Point(3, 1, 49))  # the window binds
    assert model.passes == fitted + 1


@needs_sympy
def test_passes_of_another_phase_do_not_count():
    model, found = runs()
    for tokens in range(1, 9):
        found.at(Point(1, tokens, 0))
    found.at(Point(1, 1, 5))
    found.at(Point(1, 9, 0), last_only=True)
    assert model.passes == 10


@needs_sympy
def test_passes_without_formulas_are_captured():
    model, found = runs(most_tokens=8)
    for length in range(1, 8):
        for batch in (1, 2):
            found.at(Point(batch, 1, length))
    assert model.passes == 14


@needs_sympy
def test_only_scores_of_the_last_token_have_formulas_of_their_own():
    _, found = runs()
    all_scores, last = (found.piece("prefill", 20, last_only) for last_only in (False, True))
    assert all_scores is found.piece("prefill", 90)
    assert all_scores is not last
    assert str(sum(tally.macs for tally in last.tallies.by_op.values()).expand()) == (
        "12*batch*tokens**2 + 192*batch*tokens + 78*batch"
    )
    assert last.ranges["tokens"] == (1, 4000)


def stored(parameters, packed=(), weights=None, keep=(), file=None):
    model: Any = SimpleNamespace(parameters=parameters, packed=dict(packed), file=file)
    return StoredWeights(model, "float16", None if weights is None else format_of(weights, "weights"), None, keep)


MATRIX, VECTOR = Parameter("a", 7, 2, "float32"), Parameter("b", 2, 1, "float32")
PACKED = {"c": PackedWeight(size=32, nbytes=20, bits=4, kind="Packed")}


@pytest.mark.parametrize(
    ("weights", "keep", "nbytes"),
    [
        (None, (), 2 * (7 + 2)),
        ("int4", (), 8),  # 7 x 4.125 + 2 x 16 = 60.875 bits, 7.6 bytes
        ("int4", ("a",), 2 * (7 + 2)),
        ("q8_0", (), 12),  # 7 x 8.5 + 2 x 16 = 91.5 bits, 11.4 bytes
    ],
)
def test_bytes_are_rounded_up(weights, keep, nbytes):
    assert stored([MATRIX, VECTOR], weights=weights, keep=keep).nbytes == nbytes


def test_packed_weights_add_the_bytes_of_their_storage():
    both = stored([MATRIX, VECTOR], PACKED, "q8_0")
    assert both.nbytes == 12 + 20
    assert both.n_params == 7 + 2 + 32


def test_a_file_states_the_bytes_of_its_weights():
    parts = {("a", 7): StoredPart(Fraction(9, 2), 4), ("b", 2): StoredPart(Fraction(32), 32)}
    parts |= {("b", ALL): StoredPart(Fraction(20), 8)}
    file = StoredFile(parts, 130, ("Q4_K", "F32"), ["rope_freqs.weight", *"abc"])
    found = stored([MATRIX, VECTOR], file=file)
    assert (found.nbytes, found.format) == (130, "Q4_K, F32")
    assert found.width("a", MATRIX)[:2] == (Fraction(9, 2), 4)
    assert found.width("b", VECTOR)[:2] == (32, 32)
    assert found.width("b", MATRIX)[:2] == (20, 8)  # a slice: the mean of the module
    assert found.width("c", MATRIX)[:2] == (16, 16)  # no weight of the file: the dtype of the model
    assert "rope_freqs.weight, a, b and 1 more" in found.notes[0]


def test_another_format_replaces_that_of_a_file():
    file = StoredFile({("a", 7): StoredPart(Fraction(9, 2), 4)}, 130, ("Q4_K",), ())
    found = stored([MATRIX, VECTOR], weights="int4", file=file)
    assert (found.nbytes, found.format, found.notes) == (8, "int4", ())  # 7 x 4.125 + 2 x 16 = 60.875 bits


def test_vectors_beside_packed_weights_have_the_dtype_of_the_model():
    found = stored([MATRIX, VECTOR], PACKED, "q8_0")
    assert found.width("c", Parameter("c", 8, 1, "float32"))[:2] == (16, 16)
    assert found.width("c", Parameter("c", 32, 2, "float32"))[:2] == (5, 4)  # 20 bytes for 32 weights


@pytest.mark.parametrize(("others", "listed"), [("abc", "a, b, c,"), ("abcd", "a, b, c and 1 more,")])
def test_three_other_tensors_are_listed(others, listed):
    assert f"the file also stores {listed}" in stored([], file=StoredFile({}, 1, (), [*others])).notes[0]


def test_elements_of_a_cache():
    assert CachedPart(10, None, 3).elements(7) == 73
    assert CachedPart(10, 4, 3, 8).elements(7) == 40


def shown(result) -> str:
    out = StringIO()
    result.show(out)
    return out.getvalue()


def test_texts_and_tables(served, golden):
    serving = served()
    rows = serving_rows(serving, [find_device("l4"), find_device("h100-sxm5-80gb")], [1, 3], 9, price=2.5)
    latents = served(ToyDecoder(latents=True, unknown=True, most_tokens=8))
    found = serving_rows(latents, [find_device("l4")], [2], 9, share=0.5, memory="60 KB", last_only=True)
    phases = [latents.prefill(9), latents.decode(context=5)]
    out = StringIO()
    for table in (serving_table(rows), serving_table(found)):
        table.write(out, "table", None, None)
    texts = [*map(shown, (serving.prefill(7), serving.decode(batch=2), latents, latents.decode()))]
    texts += [shown(serving.decode(batch=3).time("l4")), shown(serving.speculative(serving, drafts=3, acceptance=0.75))]
    texts.append(shown(serving.speculative(serving, drafts=1, acceptance=1, batch=2)))
    texts += remarks(latents, phases, [find_device("l4")])
    golden("serving/texts.txt", "\n".join([out.getvalue(), *map(str, rows), *map(str, found), *texts, ""]))


def test_a_batch_that_does_not_fit_has_no_rate(served):
    """Beside the weights the caches of two sequences fit, and not those of three."""
    serving = served()
    room = serving.weight_bytes + 2 * serving.cache_bytes(9)
    _, two, three = serving_rows(serving, [find_device("l4")], [2, 3], 9, share=1.0, memory=room, price=2.0)
    assert two.tokens_per_second > 0 and two.price_per_million > 0 and two.sequences == 2
    assert three.tokens_per_second is None and three.price_per_million is None and three.bound_seconds > 0
    out = StringIO()
    serving_table([two, three]).show(out, "md")
    assert out.getvalue().count("no room") == 1


def test_a_remark_on_positions_needs_more_tokens_than_these(served):
    for most, is_stated in ((9, False), (8, True), (None, False)):
        serving = served(ToyDecoder(most_tokens=most))
        found = remarks(serving, [serving.decode(context=9)], [find_device("l4")])
        assert any("has positions for" in remark for remark in found) == is_stated


def test_sequences_of_a_device_without_memory(served):
    serving, unknown = served(), device(memory=Memory(1000.0, (), dram_gb=None))
    assert [row.sequences for row in serving_rows(serving, [unknown], [1], 9)] == [None, None]
    rows = serving_rows(serving, [unknown], [1], 9, memory=10_000, share=1)
    assert [row.sequences for row in rows] == [(10_000 - serving.weight_bytes) // (9 * 12)] * 2
    assert serving.decode(context=9).time(unknown).cached_share == 0


def test_a_pass_of_nothing():
    phase = Phase(Point(1, 1, 0), Tallies({}, ()), "float16", 16, Fraction(16), None, "static")
    assert (phase.intensity, phase.memory_bytes, phase.by_op(), phase.bops) == (0, 0, {}, 0)


def test_eight_operators_are_shown():
    """The others are summed: of 10 operators of 1 to 10 bytes the last two have 3."""
    by_op = {Kind(f"op{n}", 0, 0, False): Tally(n_calls=1, load_act=8 * n) for n in range(1, 11)}
    phase = Phase(Point(1, 1, 0), Tallies(by_op, ()), "float16", 16, Fraction(16), None, "static")
    lines = [line.split("|") for line in shown(phase).splitlines() if line.startswith("| ")]
    assert [line[1].strip() for line in lines[1:9]] == [f"op{n}" for n in range(10, 2, -1)]
    assert len(lines) == 10 and lines[9][5].strip() == "3 B"


# Published rates: Llama 3 8B has 8,030,261,248 parameters, 128,256 x 4,096 of them in the table of tokens and 266,240
# in norms, 32 layers of 32 heads of 128, and 131,072 bytes of keys and values per token in float16. Its file in q4_k_m
# has 4.58 GiB, with 4.5 bits for a number of the table. Llama 2 7B has 6,607,343,616 numbers beside its table, and
# 524,288 bytes of keys and values per token.
TABLE, NORMS, KV = 128_256 * 4096, 266_240, 131_072
READ = 2 * (8_030_261_248 - TABLE)
QUANTIZED = 4.58 * 2**30 - TABLE * 4.5 / 8
SMALLER = 6_607_343_616 * 4.5 / 8 + 64 * 524_288


def test_bounds_of_published_rates():
    rates = {(each.device, each.model, each.weights, each.phase, each.tokens): each for each in published_rates()}
    decode = rates["rtx4090", "Llama 3 8B", "f16", "decode", 256]
    assert decode.bound == pytest.approx(1008e9 / (READ + 256 * KV), rel=1e-3)
    assert decode.share == pytest.approx(54.84 / decode.bound, rel=1e-3)
    prefill = rates["h100-pcie-80gb", "Llama 3 8B", "q4_k_m", "prefill", 512]
    macs = 512 * (8_030_261_248 - 2 * TABLE - NORMS) + TABLE + 32 * 32 * 2 * 128 * 512 * 513 / 2
    assert prefill.bound == pytest.approx(
        512 * find_device("h100-pcie-80gb").matrix_rate("float16") / 2 / macs, rel=1e-3
    )
    assert all(0 < each.share < 1 for each in published_rates())
    assert len(published_rates()) == 320


@pytest.mark.parametrize("phase", INSIDE)
def test_the_rates_of_a_device_are_in_the_range_of_others(phase):
    inside = []
    for each in published_rates():
        others = [other for other in published_rates() if other.device != each.device]
        vendor = Device(each.device, "gpu", each.vendor)
        found = reached(vendor, phase, STORED_BITS[each.weights], each.bound, others) if each.phase == phase else None
        inside += [] if found is None else [found.low <= each.share <= found.high]
    assert sum(inside) / len(inside) == pytest.approx(INSIDE[phase], abs=0.005)


@pytest.mark.parametrize(
    ("device", "phase", "bits", "bound", "low", "high"),
    [
        ("rtx4090", "decode", 16, 67, 50.52 * (READ + 4096 * KV) / 2039e9, 32.84 * (READ + 256 * KV) / 576e9),
        ("apple-m4-max-40", "decode", 4, 120, 26.84 * (QUANTIZED + 4096 * KV) / 400e9, 56.58 * SMALLER / 300e9),
        ("rtx4090", "decode", 4, 5000, None, None),  # no step is as short
        ("rtx4090", "decode", 8, 67, None, None),  # no run of NVIDIA has 8 bits
        ("mi300x", "decode", 16, 67, None, None),
        ("mi300x", "requests", 8, 0, 3062.72 / 9494.9, 27854.4 / 8 / 9494.9),
        ("l4", "requests", 8, 0, None, None),
    ],
)
def test_published_runs_near_a_pass(device, phase, bits, bound, low, high):
    found = reached(find_device(device), phase, bits, bound)
    assert (found is None) == (low is None)
    if found is not None:
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-3)
        assert f"{100 * found.low:.0f}–{100 * found.high:.0f} %" in str(found)
