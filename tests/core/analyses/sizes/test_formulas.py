"""Formulas in sizes, of parts and of networks; ``--overwrite`` writes tests/golden/sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy
import pytest
import sympy
from sympy import Rational, floor

from costcore import CostError, CostWarning, Dim, Report, Trace
from costcore.analyses.sizes.capture import Limits, NamedInputs, folded, limits_of
from costcore.analyses.sizes.fitting import (
    ONE_TERM,
    RANDOM_POINTS,
    SIZE,
    Forms,
    Term,
    _symbolic_run,
    coefficients,
    exceptions,
    long_steps,
    next_size,
    profile_of,
    solve,
    trace_in_sizes,
    without_constant,
)
from costcore.analyses.sizes.formulas import Code, Formulas, latex, parse_sizes, sizes_between
from costcore.counting import Pricer
from costcore.ir import ceil_div, ceil_log2, gcd, maximum, minimum
from costcore.numbers import Evaluation, floor_div, symbol_of
from tests.core import html_reports
from tests.core.analyses.fusion.runs import Calls
from tests.core.traces import Assumption, ModuleCall, Run
from tests.frameworks import optional
from tests.registered import calculators
from tests.whole_text import as_json, drawing

B, S, H = map(symbol_of, ("batch", "seq", "h"))
NAMES = ("batch", "seq", "h")
EXPRESSIONS = {
    "number": 7,
    "polynomial": 3 * B * S**2 - 2 * S + 5,
    "triangle": B * S * (S + 1) / 2,
    "rounded": B * floor_div(H + 31, 32) ** 2 * floor_div(S - 3, 4),
    "rounded up": ceil_div(S * B, 7) + H,
    "extremes": minimum(S, 128) * maximum(B, H),
    "divisor": gcd(B, H) * 2,
    "logarithm": ceil_log2(S) * B,
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_are_those_of_the_expression(name):
    function = Formulas([EXPRESSIONS[name]], NAMES)
    for sizes in ((1, 5, 64), (3, 128, 33), (17, 1000, 224)):
        expected = Evaluation(dict(zip((B, S, H), sizes, strict=True)))(EXPRESSIONS[name]) if name != "number" else 7
        assert function(*sizes) == expected
        assert type(function(*sizes)) is int


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_arrays_have_the_values_of_their_elements(name):
    function = Formulas([EXPRESSIONS[name], B + S], NAMES)
    if name in ("divisor", "logarithm"):
        with pytest.raises(TypeError, match="one size at a time"):
            function(2, numpy.array([5]), 64)
        return
    lengths = numpy.arange(5, 300, 7)
    found, sums = function(2, lengths, 64)
    assert [int(value) for value in numpy.broadcast_to(found, lengths.shape)] == [
        function(2, int(length), 64)[0] for length in lengths
    ]
    assert list(sums) == [2 + length for length in lengths]


def test_arrays_do_not_overflow():
    # 2**21 cubed is 2**63, one more than int64 holds.
    function = Formulas([S**3], ("seq",))
    assert function(numpy.array([2**20])).dtype == numpy.int64
    assert list(function(numpy.array([2**20, 2**21]))) == [2**60, 2**63]
    assert list(function(numpy.array([10**30], dtype=object))) == [10**90]


def test_arrays_of_quotients_do_not_overflow():
    # ⌊n/7 + n/11 + n/13⌋ is ⌊311 n / 1001⌋, whose numerator needs 9 bits more than n.
    quotients = floor(B * Rational(1, 7) + S * Rational(1, 11) + H * Rational(1, 13))
    for size in (2**40, 2**56, 2**58):
        assert Formulas([quotients], NAMES)(*[numpy.array([size])] * 3) == [311 * size // 1001]


def test_sizes_by_name_and_wrong_sizes():
    function = Formulas([B * S], ("batch", "seq"))
    assert function(2, seq=3) == function(seq=3, batch=2) == 6
    for sizes, names, message in (
        ((2,), {}, "expected 2 sizes, batch, seq"),
        ((2,), {"length": 3}, "unknown or repeated size length"),
        ((), {"seq": 3}, "no value for batch"),
        ((2, 1.5), {}, "seq needs an integer or an array of integers"),
    ):
        with pytest.raises(TypeError, match=message):
            function(*sizes, **names)


def test_sizes_outside_the_checked_ones_warn_once():
    function = Formulas([B * S], ("batch", "seq"), {"seq": (2, 64)})
    assert function(1, 64) == 64
    with pytest.warns(CostWarning, match="seq is outside the sizes at which the formulas were checked, 2 to 64"):
        function(1, numpy.array([3, 65]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(1, 70)


def test_formulas_in_latex():
    assert latex("n_params", 3 * B * H**2) == r"\mathrm{n\_params} = 3\,\mathrm{batch}\,h^{2}"


def forms_of(function, sizes):
    return Forms(sizes, profile_of([function(size) for size in sizes]))


def decided(function, sizes, largest=300):
    """Return the form that is left, and the sizes at which the function had to be known."""
    sizes = list(sizes)
    forms = forms_of(function, sizes)
    while not forms.is_decided:
        size = next_size([forms], range(sizes[0], largest), lambda size: size not in sizes)
        if size is None:
            break
        sizes.append(size)
        forms = forms.extended(size, profile_of([function(size) for size in sizes]))
    return next(iter(forms.forms), None), sizes


FUNCTIONS = {
    "constant": (lambda s: 7, ()),
    "affine": (lambda s: 3 * s - 2, (SIZE,)),
    "halves": (lambda s: (s + 1) // 2, (Term(2, 1),)),
    "five strided layers": (lambda s: 64 * ((s + 31) // 32), (Term(32, 31),)),
    "patches": (lambda s: s // 14 + 1, (Term(14, 0),)),
    "padding to a multiple": (lambda s: -s % 7, (SIZE, Term(7, 6))),
    "square": (lambda s: s * s, (SIZE, Term(1, 0, 2))),
    "triangle": (lambda s: s * (s + 1) // 2, (SIZE, Term(1, 0, 2))),
    "square of patches": (lambda s: (s // 16) ** 2 + 1, (Term(16, 0), Term(16, 0, 2))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_form_is_found_from_few_sizes(name):
    function, expected = FUNCTIONS[name]
    form, sizes = decided(function, (64, 65, 66, 67, 321))
    assert form == expected
    assert len(sizes) <= 16


def test_a_function_without_a_form_has_none():
    form, _ = decided(lambda s: s**3, (4, 5, 6, 7, 50))
    assert form is None


def test_the_next_size_tells_most_forms_apart():
    # Between a period of 2 and one of 4 with equal values at 0 and 4, size 2 decides: 1 or 0 (of 2 and 1 in all).
    forms = Forms((0, 4), (0, 1))
    forms.forms = {(Term(2, 0),): (Fraction(1, 2),), (Term(4, 0),): (Fraction(1),)}
    assert next_size([forms], range(4), lambda size: size != 0) in (2, 3)
    assert next_size([forms], [4], lambda size: True) is None


def test_the_constant_moves_into_the_term():
    # s // 2 - 1 == (s - 2) // 2, and 6 * (s // 2) - 3 is no multiple of a quotient.
    assert without_constant((Term(2, 0),), {4: 1, 6: 2}) == (Term(2, -2),)
    assert without_constant((Term(2, 0),), {4: 9, 6: 15}) == (Term(2, 0),)


def test_long_quotients_rise_at_one_size():
    """(200 + 58) // 129 is 2, and (199 + 58) // 129 is 1."""
    terms = [term for (term,) in long_steps(200)]
    assert (terms[0], terms[-1]) == (Term(129, 58), Term(4096, 4096 - 200))
    assert all(term.at(200) == term.at(199) + 1 for term in terms)


def test_coefficients_are_exact():
    assert coefficients((SIZE,), {1: 5, 2: 8, 10: 32}) == (3,)
    assert coefficients((SIZE,), {1: 5, 2: 8, 10: 33}) is None
    # s * (s + 1) / 2
    assert coefficients((SIZE, Term(1, 0, 2)), {1: 1, 2: 3, 3: 6, 9: 45}) == (Fraction(1, 2), Fraction(1, 2))


def test_linear_equations():
    assert solve([[1, 1], [1, 2], [1, 3]], [3, 5, 7]) == [1, 2]
    assert solve([[1, 1], [1, 2], [1, 3]], [3, 5, 8]) is None
    assert solve([[1, 1], [2, 2]], [1, 2]) is None


N, M = (sympy.Symbol(name, integer=True, positive=True) for name in "nm")


@pytest.mark.parametrize(
    ("sizes", "values", "step"),
    [
        ((5, 6, 7, 9), (3, 4, 4, 4), (5, 6)),
        ((5, 6, 7, 9), (3, 3, 3, 4), (7, 9)),
        ((9, 5, 7, 6), (8, 3, 8, 3), (6, 7)),
    ],
)
def test_the_first_step_is_after_the_last_equal_value(sizes, values, step):
    assert Forms(sizes, profile_of(values)).first_step == step


@pytest.mark.parametrize(
    ("values", "profile"),
    [((7, 7, 7), (0, 0, 0)), ((7, 9, 13), (0, 1, 3)), ((9, 7, 13), (0, -1, 2)), ((0, 6, 4), (0, 3, 2)), ((5,), (0,))],
)
def test_profiles_are_rises_without_their_common_factor(values, profile):
    assert profile_of(values) == profile


def test_special_sizes_are_noted_only_in_stated_ranges():
    limits = [Limits(2, 9, 1, True), Limits(2, 9, 2, True), Limits(2, 9, 1, False), Limits(2, 9, 1, True)]
    notes = exceptions("abcd", limits, [(3, 9), (2, 9), (2, 9), (1, 9)])
    assert notes == ["the network is special at a=1: its formulas hold from 3"]
    assert RANDOM_POINTS == 3  # as docs/formulas_in_sizes.md says


@pytest.mark.parametrize(
    ("rows", "values", "expected"),
    [
        ([[2]], [6], [3]),
        ([[0, 2], [3, 0]], [8, 9], [3, 4]),
        ([[2, 1], [4, 3], [6, 7]], [7, 17, 33], [2, 3]),
        ([[2, 1], [4, 3], [6, 7]], [7, 17, 34], None),
        ([[1, 2], [2, 4], [3, 6]], [1, 2, 3], None),
    ],
)
def test_equations_are_solved_exactly(rows, values, expected):
    assert solve(rows, values) == expected


def test_a_plane_through_three_rises():
    """3 * s + 2 * (s // 4) from sizes at which the quotient rises, and values that are in no plane."""
    form = (SIZE, Term(4, 0))
    values = {size: 3 * size + 2 * (size // 4) + 5 for size in (2, 3, 4, 9, 14)}
    assert coefficients(form, values) == (3, 2)
    assert coefficients(form, {**values, 14: values[14] + 1}) is None
    assert coefficients(form, {2: 1, 3: 2}) is None  # several pairs fit
    assert coefficients((Term(4, 0),), {2: 5, 3: 6}) is None


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ((Term(3, 1),), {2: 12, 5: 18}, (Term(3, 4),)),  # 6 * ((s + 1) // 3) + 6
        ((Term(3, 1),), {2: -6, 5: 0}, (Term(3, -5),)),  # minus 12
        ((Term(3, 1, 2),), {2: 12, 5: 30}, (Term(3, 1, 2),)),
        ((SIZE, Term(3, 1)), {2: 12, 5: 30}, (SIZE, Term(3, 1))),
        ((Term(3, 1),), {2: 8, 5: 14}, (Term(3, 1),)),  # plus 2
    ],
)
def test_constants_move_into_quotients(form, values, expected):
    assert without_constant(form, values) == expected


FORMULAS = {
    "sum": N + 3 * M - 7,
    "product": 5 * N**3 * M / 1,
    "quotient": ceil_div(N + 1, 4) + (N // 3) * M,
    "fraction": N * (N + 1) / 2 + sympy.Rational(3, 2) * M * (M - 1),
    "remainder": (2 * N + 1) % 5,
    "extremes": maximum(N, 2 * M) - minimum(N - 9, minimum(M, 4)),
    "negative": -N * M,
    "rounded up": M * sympy.ceiling(N / 3) - 2 * sympy.ceiling(M / 4),
    "positive": maximum(0, N - 9) * M,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_code_has_the_values_of_formulas(golden, name):
    formula = FORMULAS[name]
    made = Formulas([formula], ["n", "m"])
    for n, m in ((1, 1), (2, 5), (7, 3), (10, 11), (40, 9)):
        assert made(n, m) == made(m=m, n=n) == formula.subs({N: n, M: m})
    code = Code({"n": "a", "m": "b"})
    golden(f"sizes/code_{name.replace(' ', '_')}.json", as_json({"source": made.source, "bound": code.bound(formula)}))


def test_sizes_beyond_the_checked_ones_warn_once():
    made = Formulas([N], ["n"], {"n": (3, 9)})
    assert [made(3), made(9)] == [3, 9]
    with pytest.warns(UserWarning, match="n is outside the sizes at which the formulas were checked, 3 to 9"):
        made(10)
    assert made(11) == 11
    low = Formulas([N], ["n"], {"n": (3, 9)})
    with pytest.warns(UserWarning, match="3 to 9"):
        low(2)


def test_a_curve_without_sizes_needs_a_range(golden):
    calls = [html_reports.call("linear", "fc", 10 * N + 3, 4 * N, 2 * M)]
    unknown = html_reports.report(calls)
    with pytest.raises(ValueError, match="sizes are needed: nothing is known of the values of n"):
        unknown.plot("sizes", over="n", column="flops", at={"m": 2})
    assert unknown.plot("sizes", over="n", column="flops", at={"m": 2}, sizes=[2, 5]) == [(2, 23), (5, 53)]
    ranged = html_reports.report(calls, ranges={"n": (2, 90)})
    picture = ranged.plot("sizes", over="n", column="flops", at={"m": 2})
    assert (picture[0], picture[-1]) == ((2, 23), (90, 903))
    for wrong, message in (("q", "unknown symbol 'q'"), ("n", "no value for m")):
        with pytest.raises(ValueError, match=message):
            ranged.plot("sizes", column="flops", sizes=[2], over=wrong)
    if optional("matplotlib"):
        (axes,) = picture.figure().axes
        golden("sizes/plot.json", as_json({"columns": picture.columns, "axes": drawing(axes)}))


@pytest.mark.parametrize(("values", "is_waiting"), [((1, 1, 2), True), ((2, 2, 1), True), ((1, 1, 2, 1), False)])
def test_a_step_up_or_down_may_be_long(values, is_waiting):
    """The first rise is somewhere after the size 5."""
    forms = Forms((2, 5, 9, 14)[: len(values)], values)
    forms._family = ONE_TERM + 1
    assert forms.is_waiting == is_waiting


def test_what_a_run_returns_is_kept_unless_its_ids_have_formulas():
    """Sizes of module calls come first; what follows are the ids that a folded run returns."""
    run = Run().recording(module_calls=(ModuleCall("body", -1, ((4, 3),), ((8,),)),), returned=(7,))
    for ids, returned in (((), (7,)), ((N + 9,), (N + 9,))):
        found = _symbolic_run(run, (N, 3, 2 * N, *ids))
        assert found.module_calls == (ModuleCall("body", -1, ((N, 3),), ((2 * N,),)),)
        assert found.returned == returned


Network = Callable[..., Trace]


def chain(n: int, side: int) -> Trace:
    """Three convolutions with strides of 2, 1 and 3, and a product."""
    calls = Calls()
    x, weights = calls.given(n, 4, side, side), calls.given(4, 4, 3, 3, role="param")
    for stride in (2, 1, 3):
        side = (side - 3) // stride + 1
        x = calls("conv", x, weights, shape=(n, 4, side, side), stride=(stride, stride), padding=(0, 0))
    flat = calls("view", x, shape=(n, 4 * side * side))
    return calls.trace(calls("relu", flat))


def tokens(batch: int, seq: int) -> Trace:
    """Scores of all pairs of tokens, and a part of a table of 77 positions, of which PyTorch slices no whole."""
    calls = Calls()
    x, weights = calls.given(batch, seq, 6), calls.given(6, 6, role="param")
    table = calls.given(77, 6)
    part = table if seq == 77 else calls("view", table, shape=(seq, 6))
    x = calls("add", calls("linear", x, weights), part)
    scores = calls("matmul", x, calls("view", x, shape=(batch, 6, seq)), shape=(batch, seq, seq))
    return calls.trace(calls("softmax", scores, axis=2))


def steps(seq: int) -> Trace:
    """A loop over the sequence, whose first step differs, with views; its outputs are stacked."""
    calls = Calls()
    x, weights = calls.given(seq, 5), calls.given(5, 5, role="param")
    state, states = calls("linear", calls("view", x, shape=(1, 5)), weights), []
    for _ in range(seq - 1):
        part = calls("view", x, shape=(1, 5))
        state = calls("tanh", calls("add", part, calls("linear", state, weights)))
        states.append(state)
    names = [f"x{i}" for i in range(len(states))]
    return calls.trace(calls("stack", *states, names=names, shape=(seq - 1, 1, 5), axis=0))


def two_loops(seq: int) -> Trace:
    """Two loops, of which the second has a view in every other step, so that its steps are not equal."""
    calls = Calls()
    x = calls.given(3, 7)
    for _ in range(seq):
        x = calls("exp", calls("relu", x))
    for i in range(2 * seq):
        x = calls("view", x, shape=(3, 7)) if i % 2 else x
        x = calls("tanh", x)
    return calls.trace(calls("gelu", x))


def ends(seq: int) -> Trace:
    """A loop of a view and a call with which the run ends."""
    calls = Calls()
    x = calls.given(3, 7)
    for _ in range(seq):
        x = calls("relu", calls("view", x, shape=(3, 7)))
    return calls.trace(x)


def odd_ids(seq: int) -> Trace:
    """A loop behind as many inputs as the size has binary ones, so that ids have no formula."""
    calls = Calls()
    given = [calls.given(3, 7) for _ in range(bin(seq).count("1"))]
    x = calls("add", given[-1], calls.given(7))
    for _ in range(seq):
        x = calls("exp", calls("relu", x))
    return calls.trace(x)


def quotients(a: int) -> Trace:
    """A dimension that is a rounded quotient, and one that is the square of another and the quotient itself."""
    calls = Calls()
    calls("relu", calls.given((a + 1) // 3, 2))
    return calls.trace(calls("relu", calls.given((a // 5) ** 2 + a // 5, 3)))


def sums(a: int) -> Trace:
    """Two rounded quotients, and a dimension that is their sum."""
    calls = Calls()
    calls("relu", calls.given(a // 3, 2))
    calls("relu", calls.given(a // 5, 2))
    return calls.trace(calls("relu", calls.given(a // 3 + a // 5, 3)))


def long_stepping(a: int) -> Trace:
    """A dimension that rises at every 200th size."""
    calls = Calls()
    return calls.trace(calls("relu", calls.given(1 + (a + 3) // 200, 4)))


def products(a: int, b: int, c: int) -> Trace:
    calls = Calls()
    last = calls("relu", calls.given(a * b + c, b // 2 + 1, c))
    return calls.trace(calls("exp", last))


def of_modules(n: int) -> Trace:
    """A run whose module calls have sizes of their own."""
    calls = Calls()
    trace = calls.trace(calls("relu", calls.given(n, 3)))
    return Trace(trace.records, trace.run.recording(module_calls=(ModuleCall("body", -1, ((n, 3),), ((2 * n + 1,),)),)))


def failing(n: int, runs: Callable[[int], bool]) -> Trace:
    if not runs(n):
        raise CostError(f"does not run at {n}.")
    calls = Calls()
    return calls.trace(calls("relu", calls.given(n, 3)))


def further_views(n: int) -> Trace:
    """A run that takes a view at sizes beyond three."""
    calls = Calls()
    x = calls.given(n, 3)
    return calls.trace(calls("relu", calls("view", x, shape=(n, 3)) if n > 3 else x))


def assuming(n: int) -> Trace:
    """Above 2**20 elements, with more than 256 rows, an assumption is made; another one is always."""
    calls = Calls()
    trace = calls.trace(calls("relu", calls.given(n, 4096)))
    made = (Assumption("it is always true", "net.py:1"), *([Assumption("it is large", "net.py:2")] * (n > 256)))
    return Trace(trace.records, replace(trace.run, assumptions=made))


def special(n: int) -> Trace:
    """A size of one is special."""
    calls = Calls()
    return calls.trace(calls("relu", calls.given(n, 3 + (n == 1))))


def other_above(n: int) -> Trace:
    calls = Calls()
    return calls.trace(calls("exp" if n > 100 else "relu", calls.given(n, 3)))


CASES: dict[str, tuple[Network, Any, dict[str, tuple[int, int]]]] = {
    "chain": (lambda s: chain(s[0], s[2]), ("n", 4, "side", "side"), {}),
    "chain in a range": (lambda s: chain(s[0], s[2]), (3, 4, "side", "side"), {"side": (30, 200)}),
    "tokens": (lambda s: tokens(s[0], s[1]), ("batch", "seq", 6), {}),
    "tokens in a range": (lambda s: tokens(s[0], s[1]), ("batch", "seq", 6), {"seq": (2, 77), "batch": (1, 9)}),
    "steps": (lambda s: steps(s[0]), (("t", 5)), {}),
    "steps in a range": (lambda s: steps(s[0]), (("t", 5)), {"t": (2, 60)}),
    "two loops": (lambda s: two_loops(s[1]), (1, "t"), {}),
    "ends": (lambda s: ends(s[1]), (1, "t"), {"t": (3, 40)}),
    "odd ids": (lambda s: odd_ids(s[1]), (1, "t"), {"t": (3, 40)}),
    "quotients": (lambda s: quotients(s[1]), (1, "a"), {"a": (16, 90)}),
    "sums": (lambda s: sums(s[1]), (1, "a"), {"a": (16, 90)}),
    "two values": (lambda s: products(1 + s[1] // 64, 2, 3), (1, "a"), {"a": (16, 100)}),
    "a joint quotient": (lambda s: products((s[0] + s[1]) // 2, 2, 3), ("a", "b"), {"a": (2, 9), "b": (3, 7)}),
    "further views": (lambda s: further_views(s[1]), (1, "n"), {"n": (2, 9)}),
    "multiples of 4 and any": (lambda s: failing(s[1], lambda n: n % 4 == 0), ("a", "n", "b"), {}),
    "long steps": (lambda s: long_stepping(s[1]), (1, "a"), {"a": (16, 3000)}),
    "products": (lambda s: products(*s), ("a", "b", "c"), {}),
    "sums of names": (lambda s: products(s[0], s[1] + 1, s[2]), ("2*a", "a+b", 5), {"b": (1, 40)}),
    "modules": (lambda s: of_modules(s[0]), ("n", 3), {}),
    "a cube": (lambda s: products(s[0], s[0], s[0]), ("n", 3), {}),
    "large fails": (lambda s: failing(s[1], lambda n: n < 300), (1, "n"), {}),
    "larger fails": (lambda s: failing(s[1], lambda n: n < 25), (1, "n"), {}),
    "small fails": (lambda s: failing(s[1], lambda n: n >= 50), (1, "n"), {}),
    "all fail": (lambda s: failing(s[1], lambda n: n > 9000), (1, "n"), {}),
    "a range fails": (lambda s: failing(s[1], lambda n: n > 9), (1, "n"), {"n": (3, 20)}),
    "multiples of 4": (lambda s: failing(s[1], lambda n: n % 4 == 0), (1, "n"), {}),
    "assuming": (lambda s: assuming(s[0]), ("n", 10), {}),
    "special": (lambda s: special(s[0]), ("n", 3), {"n": (1, 50)}),
    "special without a range": (lambda s: special(s[0]), ("n", 3), {}),
    "other above": (lambda s: other_above(s[0]), ("n", 3), {}),
    "other above in a range": (lambda s: other_above(s[0]), ("n", 3), {"n": (2, 150)}),
    "a stated size": (lambda s: special(s[0]), (Dim("n", 7, 90), 3), {"n": (7, 90)}),
}


def said(name: str) -> dict[str, Any]:
    network, shape, ranges = CASES[name]
    captured: list[Any] = []

    def capture(inputs: Any) -> Trace:
        captured.append(list(inputs))
        return network(inputs)

    inputs = NamedInputs(shape)
    try:
        trace = trace_in_sizes(inputs, capture, Pricer(calculators(), "framework"), limits_of(inputs, ranges))
    except CostError as error:
        return {"captured": captured, "error": str(error)}
    report = Report(trace)
    run = trace.run
    total = report.total_report
    return {
        "captured": captured,
        "calls": [
            [call.name, str(call.times), *(str(each.shape) for each in (*call.layer.inputs.values(), call.layer.out))]
            for call in trace.calls
        ],
        "totals": {key: str(total[key]) for key in ("macs", "flops", "mread", "mwrite", "n_layers")},
        "notes": [*run.notes],
        "ranges": {key: [*value] for key, value in run.ranges.items()},
        "assumed": [*map(str, run.assumptions), *map(str, run.assumed_above)],
        "modules": str(run.module_calls),
        "unfolded": str(run.unfolded)[:400],
    }


@pytest.mark.parametrize("name", CASES)
def test_a_network(golden, name):
    golden(f"sizes/{name.replace(' ', '_')}.json", as_json(said(name)))


@pytest.mark.parametrize("name", ["chain", "tokens", "two loops", "products"])
def test_formulas_hold_beyond_all_captures(name):
    network, shape, ranges = CASES[name]
    inputs = NamedInputs(shape)
    trace = trace_in_sizes(inputs, network, Pricer(calculators(), "framework"), limits_of(inputs, ranges))
    values = dict(zip(inputs.symbols, (41, 83, 29), strict=False))
    sizes = [values[each] if isinstance(each, str) else each for each in shape]
    expected = Report(network(sizes)).total_report
    found = Report(trace).subs(values).total_report
    assert {key: found[key] for key in ("macs", "flops", "mread", "mwrite")} == {
        key: expected[key] for key in ("macs", "flops", "mread", "mwrite")
    }


def test_folded_runs(golden):
    found = {}
    networks = {"steps": steps, "two loops": two_loops, "ends": ends, "odd ids": odd_ids}
    for name, network in networks.items():
        for seq in (1, 2, 3, 4, 9):
            for keeps_ids in (True, False):
                trace = folded(network(seq), keeps_ids)
                calls = [f"{call.name} x{call.times} {call.inputs} {call.layer.out.shape}" for call in trace.calls]
                found[f"{name} {seq} {keeps_ids}"] = [*calls, str(trace.run.unfolded), *trace.run.notes]
    golden("sizes/folded.json", as_json(found))


def test_sizes_of_curves(golden):
    texts = ("1,2,9", "3:20:5", "3:23:5", "3:100:log2", "5:80:log2", "7:7:1", "7:7:log2")
    found = {text: parse_sizes(text) for text in texts}
    limits = ((1, 3), (2, 4096), (0, 9), (5, 70), (9, 9))
    golden("sizes/curves.json", as_json({**found, **{str(each): sizes_between(*each) for each in limits}}))


@pytest.mark.parametrize("text", ["", "3:2:1", "0:5:1", "1:5:0", "1:5:log3", "1:5", "1:1000001:1", "a,b", "1,2:5:1"])
def test_texts_that_are_no_sizes(text):
    with pytest.raises(ValueError, match=r"is invalid|is more than"):
        parse_sizes(text)


def test_a_million_sizes_are_the_most():
    assert len(parse_sizes("1:1000000:1")) == 1_000_000
