"""Sizes at which networks are captured: limits, alignment of runs, ends of ranges, named inputs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from costcore import CostError, Dim, Tensor, Trace
from costcore.analyses.sizes.capture import (
    LAST_COMPUTED,
    MOST_CAPTURES,
    Limits,
    NamedInputs,
    OtherOperatorsError,
    Samples,
    assumed_above,
    folded,
    limits_of,
    matched,
    multiple_that_works,
    note_of,
    sample_of,
    start,
)
from costcore.analyses.sizes.fitting import (
    AxisFit,
    Fit,
    _verify_costs,
    ends_of,
)
from costcore.ir import Cost, Layer
from costcore.numbers import symbol_of
from costcore.trace.trace import has_names
from tests.core.analyses.fusion.runs import Calls
from tests.core.traces import Assumption, Run


class Function:
    """A network with one dimension that is a function of the symbols, which runs at some points.

    Attributes:
        points: the dimension by the points at which it was captured, as a row of one integer.
        failed: the points at which it was tried in vain.
    """

    def __init__(self, symbols, function, runs=lambda *point: True):
        self.symbols = tuple(symbols)
        self.function = function
        self.runs = runs
        self.points = {}
        self.failed = {}
        self.base = SimpleNamespace(trace=[SimpleNamespace(call=SimpleNamespace(name="conv-1", module="body"))])

    def at(self, point):
        if not self.runs(*point):
            self.failed[point] = CostError(f"does not run at {point}")
            raise self.failed[point]
        return self.points.setdefault(point, [(self.function(*point),)])

    def named(self, point):
        return dict(zip(self.symbols, point, strict=True))


def axis(function, limits, runs=lambda size: True):
    return AxisFit(Function("s", function, runs), (limits.low,), 0, limits)


FREE = Limits(16, 4096, 1, False)


@pytest.mark.parametrize(
    ("limits", "fails_from", "expected"),
    [
        (FREE, 9999, [16, 17, 18, 19, 16 + 257]),  # two of the longest period of 128, and one
        (FREE, 270, [16, 17, 18, 19, 16 + 128]),
        (FREE, 140, [16, 17, 18, 19, 16 + 64]),
        (FREE, 70, [16, 17, 18, 19, 16 + 32]),
        (FREE._replace(high=40), 9999, [16, 17, 18, 19, 40]),
        (FREE._replace(high=18), 9999, [16, 17, 18]),
        (Limits(5, 700, 5, True), 9999, [5, 6, 7, 8, 700]),
    ],
)
def test_a_network_is_captured_at_four_sizes_and_far_away(limits, fails_from, expected):
    found = axis(lambda size: 3 * size + 1, limits, lambda size: size < fails_from)
    assert found.sizes == expected


@pytest.mark.parametrize(("period", "offset"), [(2, 1), (127, 3), (128, 127), (4096, 5)])
def test_quotients_are_found_up_to_the_longest_period(period, offset):
    """From 128 on where the dimension first rises shows the period; in a range that has more."""
    found = axis(lambda size: (size + offset) // period, Limits(16, 9000, 16, True))
    (form,) = found.forms.values()
    (term,) = form
    assert (term.period, (term.offset - offset) % period, term.power) == (period, 0, 1)


def test_the_message_has_the_first_five_values_and_the_last_each_once():
    with pytest.raises(CostError, match=r"which is 8 at 2, 27 at 3, 64 at 4, 125 at 5, 27000 at 30\. "):
        axis(lambda size: size**3, Limits(2, 30, 2, True))
    with pytest.raises(CostError, match=r"which is 0 at 2, 0 at 3, 0 at 4, 0 at 5, 0 at 6, 17 at 100\. "):
        axis(lambda size: size // 7 + size // 31, Limits(2, 100, 2, True))


@pytest.mark.parametrize("step", [2, 3, 4, 7, 8, 14, 16, 32, 64, 128, 224, 256])
def test_a_multiple_at_which_the_network_runs_is_recommended(step):
    runs = Function("ab", lambda a, b: b, lambda a, b: (b - 5) % step == 0)
    assert multiple_that_works(runs, (9, 5), 1) == step


def test_unusual_multiples_are_not_recommended():
    for step in (9, 100, 512):
        assert multiple_that_works(Function("a", lambda a: a, lambda a, step=step: a % step == 0), (0,), 0) is None
    only_once = Function("a", lambda a: a, lambda a: a in (0, 3, 7, 14))
    assert multiple_that_works(only_once, (0,), 0) == 7  # at 7 and 14, whereas 6 fails


def fitted(symbols, function):
    samples = Function(symbols, function)
    limits = [Limits(2, 8, 2, True)] * len(symbols)
    return Fit(samples, (2,) * len(symbols), limits), samples


def test_products_of_four_symbols_are_found():
    found, samples = fitted("abcd", lambda a, b, c, d: 3 * a * b * c * d + b * c + 7)
    (values,) = {tuple(samples.points[point][0][0] for point in found.points)}
    assert str(found.formula(values).of(samples.symbols).expand()) == "3*a*b*c*d + b*c + 7"


def test_of_five_symbols_only_products_of_two_are_found():
    found, samples = fitted("abcde", lambda a, b, c, d, e: a * b + c * e + d)
    values = tuple(samples.points[point][0][0] for point in found.points)
    assert str(found.formula(values).of(samples.symbols).expand()) == "a*b + c*e + d"
    assert max(sum(size != 2 for size in point) for point in found.points) == 2


def test_a_capture_beyond_the_limit_is_refused():
    calls = Calls()
    calls("relu", calls.given(2, 3))
    trace = Trace(calls.trace().records, Run())
    samples = Samples(NamedInputs(("s", 3)), lambda inputs: trace)
    for size in range(MOST_CAPTURES):
        samples.at((size,)) if size else samples.restart((size,))
    with pytest.raises(
        CostError, match=f"no formula was found with {MOST_CAPTURES} captures; use fewer symbols, or integers"
    ):
        samples.at((MOST_CAPTURES,))
    assert samples.count == MOST_CAPTURES
    samples.at((59,))  # which is known


@pytest.mark.parametrize(("length", "calls_left"), [(256, 256), (257, 2 * 257)])
def test_bodies_of_up_to_256_calls_are_folded(length, calls_left):
    calls = Calls()
    inputs = [calls.given(size) for size in range(1, length + 1)]
    for _ in range(2):
        for each in inputs:
            calls("relu", each)
    found = folded(calls.trace(), keeps_ids=False)
    assert len(found) == calls_left
    assert sum(call.times for call in found.calls) == 2 * length


@pytest.mark.parametrize(
    ("inputs", "expected", "computed"),
    [
        (("n", 3, 8, 8), (2, 512), (2, 8)),  # a batch
        ((1, 3, "n", 8), (64, 2048), (64, 256)),  # an axis of an image
        ((1, 3, "16*n", 8), (4, 128), (4, 16)),  # its multiples
        ((1, 3, "64*n", 8), (2, 32), (2, 6)),  # no size is below 2, and the last is at least 4 more than the first
        ((1, "n"), (16, 4096), (16, 256)),  # a sequence
        ((1, "n", 8), (16, 4096), (16, 256)),
        ((("n", 4), (1, 3, "n", 8)), (2, 512), (2, 8)),  # a batch somewhere is one everywhere
    ],
)
def test_limits_of_symbols_without_a_range(inputs, expected, computed):
    """As docs/formulas_in_sizes.md states them."""
    for last, (low, high) in ((None, expected), (LAST_COMPUTED, computed)):
        (found,) = limits_of(NamedInputs(inputs), {}, *([] if last is None else [last]))
        assert found == Limits(low, high, 1, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [((1, 50), Limits(2, 50, 1, True)), ((7, 50), Limits(7, 50, 7, True)), ((1, 2), Limits(1, 2, 1, True))],
)
def test_stated_limits_are_kept_but_sizes_of_one_are_left_for_later(given, expected):
    assert limits_of(NamedInputs(("n", 3)), {"n": given}) == [expected]


def test_limits_change_with_what_is_special():
    assert FREE.nearer(8) == FREE._replace(high=512)
    assert FREE.nearer(1000) == FREE._replace(high=20)  # 4 more than the first
    assert FREE.from_at_least(3) == FREE
    assert FREE._replace(high=18).from_at_least(17) == Limits(17, 21, 1, False)
    stated = Limits(2, 5, 2, True)
    assert stated.from_at_least(3) == stated._replace(high=6)


class Tried:
    """A network without integers, which runs at some points, and the points at which it was tried."""

    def __init__(self, runs_at, is_loop=False):
        self.runs_at = runs_at
        self.tried = []
        self.trace = SimpleNamespace(run=SimpleNamespace(unfolded=() if is_loop else None))

    def at(self, point):
        self.tried.append(point)
        if not self.runs_at(*point):
            raise CostError(f"fails at {point}")

    def columns(self, points):
        for point in points:
            self.at(point)
        return []

    def forget(self, point):
        pass


def fit(*points):
    """Formulas whose axes run through the first of some points: up to 32 along each."""

    def axis(i):
        return SimpleNamespace(sizes=(16, 24, 32), point=lambda size: (*points[:i], size, *points[i + 1 :]))

    return SimpleNamespace(points=[], axes=[axis(i) for i in range(len(points))])


@pytest.mark.parametrize(
    ("least", "is_loop", "low"), [(1, False, 1), (3, False, 3), (4, False, 16), (5, True, 5), (6, True, 16)]
)
def test_formulas_may_hold_from_one_two_or_three_and_of_a_loop_up_to_five(least, is_loop, low):
    runs = Tried(lambda size: size >= least, is_loop)
    assert ends_of(runs, fit(16), [Limits(16, 64, 1, False)]) == [(low, 64)]
    last = 5 if is_loop else 3
    assert runs.tried == [(64,), *((size,) for size in range(1, min(least, last) + 1)), (low,) if low < 16 else (16,)]


def test_sizes_from_the_first_on_are_not_tried_again():
    runs = Tried(lambda size: size >= 2)
    assert ends_of(runs, fit(2), [Limits(2, 64, 1, False)]) == [(2, 64)]
    assert runs.tried == [(64,), (1,), (2,)]


def test_sizes_that_hold_alone_may_not_hold_together():
    runs = Tried(lambda a, b: a + b > 4)
    limits = [Limits(4, 64, 1, False), Limits(6, 64, 1, False)]
    assert ends_of(runs, fit(4, 6), limits) == [(4, 64), (6, 64)]  # 1 beside 6 runs, and 1 beside 4, but not 1 beside 1


@pytest.mark.parametrize(
    ("most", "is_stated", "high"),
    [(100, False, 100), (99, False, 50), (50, False, 50), (49, False, 32), (20, True, 100)],
)
def test_the_largest_size_is_halved_down_to_the_last_that_ran(most, is_stated, high):
    runs = Tried(lambda size: size <= max(most, 32))
    assert ends_of(runs, fit(16), [Limits(1, 100, 1, is_stated)]) == [(1, high)]


def test_costs_are_compared_at_a_point():
    """A call of 3 * n multiplications, one without a cost, and a free one that the run at n = 5 lacks."""
    n = symbol_of("n")
    costs = [Cost(3 * n, 4 * n, 8, {}), None, Cost(0, 0, 0, {})]
    records = [(i, SimpleNamespace(cost=c, call=SimpleNamespace(name=f"call-{i}"))) for i, c in enumerate(costs)]

    def compared(flops):
        amounts = [(flops, 20, 8, 0, 0), (), None]
        runs = SimpleNamespace(symbols=("n",), amounts_at=lambda point: amounts, text=lambda point: f"n={point[0]}")
        _verify_costs(runs, records, (5,))

    compared(15)
    with pytest.raises(CostError, match=r"call-0 has no formula: .*\(15, 20, 8, 0, 0\) at n=5, where it is \(16, "):
        compared(16)


STATED, DOUBLED = Limits(5, 50, 5, True), Limits(16, 64, 1, False)


class Restarted:
    """A network that runs from the given sizes on, and the points at which it was tried."""

    symbols = ("a", "b")

    def __init__(self, *smallest):
        self.smallest = smallest
        self.failed = []

    def restart(self, point):
        if any(size < least for size, least in zip(point, self.smallest, strict=True)):
            self.failed.append(point)
            raise CostError(f"too small: {point}")

    def text(self, point):
        return str(point)


def test_sizes_without_a_range_are_doubled():
    runs = Restarted(5, 60)
    point, limits = start(runs, [STATED, DOUBLED])
    assert point == (5, 64)  # 16, 32, 64
    assert runs.failed == [(5, 16), (5, 32)]
    assert [each.low for each in limits] == [5, 64]


def test_a_network_that_needs_more_is_tried_at_three_doublings():
    runs = Restarted(5, 129)
    with pytest.raises(CostError, match=r"too small: \(5, 16\).*state a range"):
        start(runs, [STATED, DOUBLED])
    assert runs.failed == [(5, 16), (5, 32), (5, 64), (5, 128)]


def test_sizes_in_stated_ranges_are_tried_once():
    runs = Restarted(6, 6)
    with pytest.raises(CostError, match=r"^too small: \(5, 5\)$"):
        start(runs, [STATED, STATED])
    assert runs.failed == [(5, 5)]


def run(*steps):
    """A run of operators by name, and of views by their two sizes."""
    calls = Calls()
    x = calls.given(1, 12)
    for step in steps:
        x = calls("view", x, shape=step) if isinstance(step, tuple) else calls(step, x)
    return sample_of(calls.trace(x))


A, B, C = (2, 6), (3, 4), (4, 3)


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ((A, "relu", B), (A, "relu", B), [0, 1, 2]),
        ((A, B, C, "relu"), (A, B, "relu"), [0, 1, None, 2]),
        ((A, B, C, "relu"), (B, C, "relu"), [None, 0, 1, 2]),
        (
            (A, B, C, "relu"),
            (A, C, "relu"),
            [0, 1, None, 2],
        ),  # from A to C is neither from A to B nor from B to C
        ((A, B, "relu"), (A, B, C, "relu"), [0, 1, 3]),
        (("exp", A, B, C, "relu", A), ("exp", A, B, "relu", A, B), [0, 1, 2, None, 3, 4]),
        ((A, "relu"), (B, B, "relu"), [0, 2]),  # no view has the same sizes: the first are the same
        ((A, "relu", A), ("relu",), [None, 0, None]),
    ],
)
def test_views_that_a_run_lacks(base, other, expected):
    """Numbers are the positions in the other run."""
    assert matched(run(*base), run(*other), {"n": 3}, {"n": 2}) == expected


@pytest.mark.parametrize(
    ("base", "other", "words"),
    [
        (("relu", "exp"), ("relu", "tanh"), "at n=2, m=5 call 2 of 2 is exp, at n=3, m=5 call 2 of 2 is tanh. "),
        ((A, "relu", "exp"), ("relu",), "at n=2, m=5 call 3 of 3 is exp, at n=3, m=5 it ends there. "),
        (("relu",), ("relu", B, "exp"), "at n=2, m=5 it ends there, at n=3, m=5 call 3 of 3 is exp. "),
    ],
)
def test_runs_of_other_operators(base, other, words):
    with pytest.raises(OtherOperatorsError) as raised:
        matched(run(*base), run(*other), {"n": 3, "m": 5}, {"n": 2, "m": 5})
    message = str(raised.value)
    assert message.startswith(f"the network runs other operators at other sizes: {words}")
    assert 'ranges={"n": (smallest, largest)} in estimate' in message  # of the size that differs
    assert message.endswith("If it pads to a multiple, write the size as one, such as '16*n'.")


N, M = symbol_of("n"), symbol_of("m")
MADE = Assumption("scores are balanced", "net.py:3")


def elements_above(made, *tensors):
    """Return which elements decide over an assumption, of runs at n = 1, 256 and 257, and m = 3."""
    points = [(1, 3), (256, 3), (257, 3)]
    samples = SimpleNamespace(symbols=("n", "m"), points=points, assumed={MADE: {points[i] for i in made}})
    layer = Layer("relu", {"x": tensors[0]}, list(tensors[1:]))
    return [
        elements for _, elements, _ in assumed_above(samples, SimpleNamespace(calls=[SimpleNamespace(layer=layer)]))
    ]


SCORES, TWICE, SMALL, OFTEN = (Tensor(shape) for shape in ((4096, N), (4096, N, 1 + M // 4), (N, 4000), (8192, N)))
"""At n = 257 and not at 256, the first two have more than 2**20 elements; of the others none, and that at 256 too."""


@pytest.mark.parametrize(
    ("made", "tensors", "expected"),
    [
        ([2], (SCORES, SMALL, OFTEN), [4096 * N]),
        ([2], (TWICE, SCORES), [4096 * N]),  # the shorter formula
        ([2], (SCORES, Tensor(TWICE.shape, "int64")), [4096 * N * (1 + M // 4)]),  # indices, if there are any
        ([2], (SCORES, Tensor(TWICE.shape, "bool")), [4096 * N * (1 + M // 4)]),
        ([2], (SCORES, Tensor(OFTEN.shape, "int64")), [4096 * N]),  # but not indices that are large elsewhere
        ([1, 2], (SCORES, OFTEN), [8192 * N]),
        ([0, 2], (SCORES, OFTEN), []),
        ([0, 1, 2], (SCORES, SMALL), []),
    ],
)
def test_the_tensor_that_is_large_where_an_assumption_is_made_decides(made, tensors, expected):
    assert elements_above(made, *tensors) == expected


def test_the_note_states_the_condition():
    assert note_of((MADE, 4096 * N, 2**20)) == (
        f"assumed where 4096*n exceeds 1,048,576, because larger tensors have no values: {MADE}"
    )


@pytest.mark.parametrize(
    ("inputs", "symbols", "expected"),
    [
        (("batch", 3, "height", "width"), ("batch", "height", "width"), (2, 3, 5, 7)),
        (("batch", 3, "16*height", 224), ("batch", "height"), (2, 3, 80, 224)),
        (["batch", 3], ("batch",), (2, 3)),
        ({"ids": Tensor(("batch", "seq+1"), "int64")}, ("batch", "seq"), {"ids": Tensor((2, 12), "int64")}),
        ({"ids": Tensor(("batch", 4), "int64")}, ("batch",), {"ids": Tensor((2, 4), "int64")}),
        ([("batch", 4), (1, 2)], ("batch",), [(2, 4), (1, 2)]),
        (("batch", Dim("height", 64, 512)), ("batch", "height"), (2, 5)),
        (("batch", symbol_of("seq") * 2), ("batch", "seq"), (2, 22)),
        ((("batch", 4), {"mode": "train"}), ("batch",), ((2, 4), {"mode": "train"})),
    ],
)
def test_inputs_at_sizes(inputs, symbols, expected):
    named = NamedInputs(inputs)
    assert has_names(inputs)
    assert named.symbols == symbols
    assert named.at({"batch": 2, "height": 5, "width": 7, "seq": 11}) == expected


@pytest.mark.parametrize("inputs", [(1, 3), {"x": (1, 2)}, ["a photo of a cat", "a dog"], None, {"mode": "train"}, 3])
def test_inputs_without_names(inputs):
    assert not has_names(inputs)


def test_the_ranges_of_dimensions():
    assert NamedInputs((Dim("batch"), Dim("16*height", 4, 32))).ranges == {"height": (4, 32)}
    with pytest.raises(ValueError, match="a range needs one symbol"):
        NamedInputs((Dim("height*width", 4, 32),))
    assert NamedInputs((Dim("n", None, 9), 4)).ranges == {"n": (None, 9)}
    assert NamedInputs((Dim("seq", 4, 32), Dim("seq", 4, 32), "seq")).ranges == {"seq": (4, 32)}
    with pytest.raises(ValueError, match=r"'seq' has two ranges, \(4, 32\) and \(4, 33\)"):
        NamedInputs((Dim("seq", 4, 32), Dim("seq", 4, 33)))


def test_a_dtype_is_no_size():
    with pytest.raises(ValueError, match="'int64' in a shape is the name of a dtype"):
        NamedInputs(("batch", "int64"))
    with pytest.raises(TypeError, match="sum or product of names"):
        NamedInputs(("batch", "two words"))


def test_a_negative_size():
    with pytest.raises(CostError, match="the size seq-4 is -2 at seq=2"):
        NamedInputs(("seq-4",)).at({"seq": 2})


def samples(captured=None):
    def capture(inputs):
        calls = Calls()
        calls("relu", calls.given(*inputs))
        if captured is not None:
            captured.append(inputs)
        return Trace(calls.trace().records, Run())

    return Samples(NamedInputs(("s", 3)), capture)


def test_a_size_that_is_forgotten_is_not_captured_again():
    captured = []
    runs = samples(captured)
    runs.restart((4,))
    runs.at((5,))
    assert (runs.count, len(captured)) == (2, 2)
    runs.forget((5,))
    assert (runs.count, [*runs.points]) == (2, [(4,)])
    with pytest.raises(CostError, match="the network runs other operators at s=5"):
        runs.at((5,))
    assert len(captured) == 2


def test_sizes_of_named_inputs_are_not_negative():
    found = NamedInputs({"x": ("n-3", 4), "y": [("n", "n")]})
    assert found.at({"n": 3}) == {"x": (0, 4), "y": [(3, 3)]}
    with pytest.raises(CostError, match="is -1 at n=2; state a range"):
        found.at({"n": 2})
    with pytest.raises(ValueError, match="'n' has two ranges"):
        NamedInputs((Dim("n", 1, 2), Dim("n", 1, 3)))
    with pytest.raises(ValueError, match=r"a range needs one symbol \(got a, b\)"):
        NamedInputs((Dim("a+b", 1, 2),))
