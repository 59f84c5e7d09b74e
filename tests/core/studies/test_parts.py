"""Parts of studies: areas of a map, suggested options, inputs and search of a batch, rates of steps."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import pytest

from costcore import CostError, Tensor
from costcore.analyses.memory.allocator import Envelope
from costcore.cli.comparing import suggestion
from costcore.studies import meter
from costcore.studies.batch_inputs import MAX_VALUES, inputs_of_batch, largest_batch, make_limit
from costcore.studies.comparisons.comparison import areas_of
from costcore.studies.meter import PassCost, Rates, StepLog, across, described, sum_of
from tests.core.given_costs import Step, dense, net, relu


def test_areas_are_in_proportion_and_fill_the_frame():
    """8, 4, 2 and 2 of a frame of 4 by 4: half of it, a quarter, and two eighths."""
    areas = [*areas_of([("a", 8), ("b", 4), ("c", 2), ("d", 2)], (0, 0, 4, 4))]
    assert [(area.path, area.width * area.height) for area in areas] == [("a", 8), ("b", 4), ("c", 2), ("d", 2)]
    assert all(each.left >= 0 and each.left + each.width <= 4 and each.top + each.height <= 4 for each in areas)


def test_many_small_modules_beside_a_large_one():
    areas = [*areas_of([("large", 90), *((f"small.{i}", 1) for i in range(10))], (0, 0, 100, 10))]
    assert [round(area.width * area.height) for area in areas] == [900, *[10] * 10]


TRANSPOSE = Step("transpose", mread=16, mwrite=16)
GELU = Step("gelu", add=20, mread=16, mwrite=16)
ERF = [Step(op, add=4, mread=16, mwrite=16) for op in ("div", "erf", "add", "mul", "mul")]
NET = net(dense("a"), GELU, dense("b"))


def never():
    raise AssertionError("no file needs to be read again")


def test_equal_reports_need_no_option():
    assert suggestion((NET, NET), never) == ""


def test_data_movement_that_differs_is_free_with_layout_free():
    moved = net(dense("a"), TRANSPOSE, GELU, dense("b"))
    assert suggestion((NET, moved), never) == "counted with --layout free, MACs, FLOPs and bytes are equal"
    assert suggestion((moved, NET), never) == "counted with --layout free, MACs, FLOPs and bytes are equal"


def test_an_operator_in_pieces_is_regrouped():
    pieces = net(dense("a"), *ERF, dense("b"))
    assert suggestion((NET, pieces), lambda: (NET, NET)) == "counted with --regroup, MACs, FLOPs and bytes are equal"
    assert suggestion((NET, pieces), None) == "", "neither side is a file that can be regrouped"


def test_both_options_may_be_needed():
    pieces, regrouped = net(dense("a"), TRANSPOSE, *ERF, dense("b")), net(dense("a"), TRANSPOSE, GELU, dense("b"))
    found = suggestion((NET, pieces), lambda: (NET, regrouped))
    assert found == "counted with --regroup --layout free, MACs, FLOPs and bytes are equal"


def test_nothing_is_suggested_where_no_option_helps():
    other = net(dense("a"), relu("a"), dense("b"))
    assert suggestion((NET, other), lambda: (NET, other)) == ""


def test_options_that_are_given_are_not_suggested():
    moved = net(dense("a"), TRANSPOSE, GELU, dense("b"), layout="free")
    free = net(dense("a"), GELU, dense("b"), layout="free")
    assert suggestion((free, moved), None) == "", "the given costs do not follow the layout"


class Pair(NamedTuple):
    image: object
    scale: object


class Array:
    """An array that is indexed by a list of rows."""

    def __init__(self, rows, dtype="int64"):
        self.rows, self.dtype = rows, dtype
        self.shape = (len(rows), len(rows[0])) if rows else (0, 4)

    def __getitem__(self, indices):
        return Array([self.rows[i] for i in indices])

    def __eq__(self, other):
        return self.rows == other.rows


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (("batch", 3, 224, 224), (5, 3, 224, 224)),
        ((3, "n", 8), (3, 5, 8)),
        ((1, 3, 224, 224), (5, 3, 224, 224)),
        ([1, 3], (5, 3)),
        (("batch",), (5,)),
        ((("batch", 128), "int64"), Tensor((5, 128), "int64")),
        (((2, 128), "int64"), Tensor((5, 128), "int64")),
        (Tensor(("batch", 128), "int64"), Tensor((5, 128), "int64")),
        (Tensor((1, 128), "int64"), Tensor((5, 128), "int64")),
        (((1, 8), (1, 16)), ((5, 8), (5, 16))),
        ((("batch", 8), (16, 4)), ((5, 8), (16, 4))),
        ({"ids": (("batch", 8), "int64"), "n": (8, 8)}, {"ids": Tensor((5, 8), "int64"), "n": (8, 8)}),
        ([("batch", 4), None, "greedy search"], [(5, 4), None, "greedy search"]),
        (Pair(("batch", 3, 8, 8), 2.0), Pair((5, 3, 8, 8), 2.0)),
        (Array([[1, 2], [3, 4]]), Array([[1, 2], [3, 4], [1, 2], [3, 4], [1, 2]])),
        ((("batch", 2), Array([[1, 2], [3, 4]])), ((5, 2), Array([[1, 2], [3, 4]]))),
        (lambda batch: [(3, 8, 8)] * batch, [(3, 8, 8)] * 5),
    ],
)
def test_the_batch_takes_the_place_of_the_name_or_of_first_dimensions(inputs, expected):
    assert inputs_of_batch(inputs)(5) == expected


def test_a_tensor_is_cut_off():
    assert inputs_of_batch(Array([[1], [2], [3]]))(2) == Array([[1], [2]])


def test_a_tensor_whose_values_would_not_be_known_becomes_a_shape():
    batch = MAX_VALUES // 2
    assert len(inputs_of_batch(Array([[1, 2]]))(batch).rows) == batch
    assert inputs_of_batch(Array([[1, 2]], "torch.int64"))(batch + 1) == Tensor((batch + 1, 2), "int64")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (("batch", 3, "height", "width"), "several dimensions, 'batch', 'height', 'width': name only the batch"),
        (None, "expected the shapes of inputs with a batch dimension"),
        ({"n": 3}, "expected the shapes of inputs with a batch dimension"),
    ],
)
def test_inputs_without_one_batch_are_refused(inputs, message):
    with pytest.raises(ValueError, match=message):
        inputs_of_batch(inputs)


def test_no_samples_cannot_be_repeated():
    with pytest.raises(ValueError, match="cannot be repeated: there are none"):
        inputs_of_batch(Array([]))(3)


class Peaks:
    """The peak of a batch by a function, and the batches that were asked for."""

    def __init__(self, function):
        self.function = function
        self.asked = []

    def __call__(self, batch):
        self.asked.append(batch)
        return self.function(batch)


def test_exact_lines_need_two_captures():
    peaks = Peaks(lambda batch: max(200, 100 + 7 * batch))
    assert largest_batch(peaks, Envelope([(200, 0), (100, 7)]), 1000) == 128  # 100 + 7 * 128 = 996
    assert peaks.asked == [128, 129]


@pytest.mark.parametrize("room", [0, 99, 100, 106, 107, 108, 150, 5_000, 10**6, 10**9])
@pytest.mark.parametrize(
    "function",
    [
        lambda b: 100 + 7 * b,
        lambda b: 100 + 7 * b + b * b,  # a product of all pairs of samples
        lambda b: -(-(100 + 9 * b) // 512) * 512,  # rounded by an allocator
        lambda b: 100 + 7 * b + (1000 if b > 17 else 0),  # another algorithm for larger batches
        lambda b: 100 + b // 3,
    ],
    ids=["line", "square", "rounded", "jump", "slow"],
)
def test_the_answer_fits_and_the_next_batch_does_not(function, room):
    """The envelope is the line 100 + 7 B, whatever the peak is."""
    peaks = Peaks(function)
    batch = largest_batch(peaks, Envelope([(100, 7)]), room)
    assert batch == 0 or function(batch) <= room
    assert function(batch + 1) > room
    assert len(peaks.asked) == len(set(peaks.asked)) <= 50


def test_a_peak_that_does_not_grow():
    with pytest.raises(CostError, match="do the inputs have a batch dimension"):
        largest_batch(lambda batch: 100, Envelope([(100, 0)]), 100)
    with pytest.raises(CostError, match="the peak does not grow with the batch"):
        largest_batch(lambda batch: 100, Envelope([(100, 1)]), 1000)
    assert largest_batch(lambda batch: 100, Envelope([(100, 0)]), 99) == 0


def test_the_terms_of_a_limit():
    limit = make_limit("1 GiB", "24 MiB", "1000 MB", 0.25)
    # 1,073,741,824 - 25,165,824 - 1,000,000,000 = 48,576,000, of which the peak may be 1 / 1.25.
    assert limit.room == 38_860_800
    assert limit.needed(38_860_800) == 2**30
    assert limit.needed(38_860_801) > 2**30
    assert limit.describe() == (
        "1 GiB - context 24 MiB - workspace 953.7 MiB = 46.33 MiB for tensors, fragmentation 25 %"
    )
    assert make_limit("1 GiB").describe().startswith("1 GiB - context 500 MiB (assumed) - workspace 0 B")
    measured = make_limit("h100").describe()
    assert measured.startswith("74.51 GiB - context 534 MiB (measured on h100-sxm5-80gb) - workspace 0 B")


def test_a_decimal_share_is_exact():
    assert make_limit(1100, 0, 0, 0.1).room == 1000  # 1100 / 1.1 in binary numbers is 999.99…
    assert make_limit(1100, 0, 0, 0.1).fragmentation == Fraction(1, 10)


def test_what_exceeds_the_memory_leaves_no_room():
    assert make_limit("100 MiB").room == -400 * 2**20


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        (("24 G",), ValueError, "memory must be an integer or a string such as \"100 MiB\""),
        ((None,), TypeError, "memory must be an integer"),
        ((-1,), ValueError, "memory cannot be negative"),
        (("24 GiB", "a lot"), ValueError, "context must be an integer"),
        (("24 GiB", 0, 0, -0.1), ValueError, "fragmentation must be a share of the peak"),
        (("24 GiB", 0, 0, "5%"), ValueError, "fragmentation must be a share of the peak"),
        (("nope",), ValueError, "unknown device 'nope'"),
        (("4090",), ValueError, "Did you mean 'rtx4090'"),
        (("epyc-9654",), CostError, "the size of the memory of epyc-9654 is unknown: state it"),
        (("24 GiB", 0, 0, 0, "gpu"), ValueError, "unknown allocator 'gpu' \\(expected tensors, cuda\\)"),
    ],
)  # fmt: skip
def test_invalid_terms_of_a_limit(terms, error, message):
    with pytest.raises(error, match=message):
        make_limit(*terms)


@pytest.fixture
def clock(monkeypatch):
    """A clock in nanoseconds, whose time is ``clock[0]``."""
    now = [10**9]
    monkeypatch.setattr(meter, "perf_counter_ns", lambda: now[0])
    return now


def test_windows_and_totals(clock):
    log = StepLog(2)
    for milliseconds, flops in ((10, 100), (20, 200), (40, 300)):
        clock[0] += milliseconds * 10**6
        log.end_step(PassCost(flops, 2 * flops, 7, 1, "float32"))
    assert log.last == (2, 60 * 10**6, PassCost(500, 1000, 14, 2, "float32"))
    assert log.all == (3, 70 * 10**6, PassCost(600, 1200, 21, 3, "float32"))


def test_more_steps_than_are_kept(clock, monkeypatch):
    monkeypatch.setattr(meter, "MOST_NEW", 4)
    log = StepLog(3)
    for _ in range(10):
        clock[0] += 5
        log.end_step(PassCost(1, 1))
    assert log.last[:2] == (3, 15)
    assert log.all == (10, 50, PassCost(10, 10))


def test_time_that_does_not_count(clock):
    log = StepLog(5)
    clock[0] += 10
    with pytest.raises(KeyError), log.stopped():
        clock[0] += 1000
        raise KeyError
    clock[0] += 20
    log.end_step(PassCost(1, 1))
    clock[0] += 500
    log.leave_out_step(PassCost(9, 9))
    clock[0] += 40
    log.end_step(PassCost(1, 1))
    assert log.all[:2] == (2, 70)
    assert log.untimed == PassCost(9, 9)


def test_rates_of_steps():
    # 4e12 model FLOPs in 2 s on 2 devices of 2e12 FLOP/s: half of 4e12 FLOP/s. Hardware: 6e12 / 2 / 4e12.
    rates = Rates(4, 2.0, PassCost(4 * 10**12, 6 * 10**12, 1000, 10, "bfloat16"), 2, 2e12)
    assert (rates.mfu, rates.hfu) == (0.5, 0.75)
    assert rates.scalars() == {
        "mfu": 0.5,
        "hfu": 0.75,
        "flops_per_second": 2e12,
        "tokens_per_second": 500.0,
        "samples_per_second": 5.0,
        "seconds_per_step": 0.5,
    }
    assert described(rates, rates, "bfloat16") == (
        "MFU 50.0%, HFU 75.0% of 4.0 TFLOP/s in bfloat16, 2.0 TFLOP/s, 500 tokens/s, 500.0 ms per step "
        "(last 4 of 4 steps)"
    )


def test_what_is_unknown_is_left_out():
    assert Rates(0, 0.0, sum_of(())).scalars() == {}
    assert Rates(1, 0.5, PassCost(10, 10)).scalars() == {"flops_per_second": 20.0, "seconds_per_step": 0.5}
    assert described(Rates(0, 0.0, sum_of(())), Rates(0, 0.0, sum_of(())), "") == "no step was measured"


def test_rates_of_several_processes():
    # 300 FLOPs in the 2 s of the slower process, on 1 + 2 devices of 50 FLOP/s: 150 of 150 FLOP/s.
    first = Rates(10, 1.0, PassCost(100, 100, 5, 1, "float32"), 1, 50.0)
    second = Rates(10, 2.0, PassCost(200, 200, 5, 1, "float32"), 2, 50.0)
    together = across([first, second])
    assert together == Rates(10, 2.0, PassCost(300, 300, 10, 2, "float32"), 3, 50.0)
    assert together.mfu == 1.0
    assert across([first, second._replace(peak=None)]).mfu is None
