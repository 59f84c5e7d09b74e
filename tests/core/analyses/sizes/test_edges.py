"""Formulas in sizes at and beside limits: where forms rise, what is forgotten, curves without ranges."""

from __future__ import annotations

import pytest
import sympy

from costcore import CostError, Dim, Trace
from costcore.analyses.sizes.capture import Limits, NamedInputs, Samples
from costcore.analyses.sizes.fitting import (
    ONE_TERM,
    RANDOM_POINTS,
    SIZE,
    Forms,
    Term,
    _symbolic_run,
    coefficients,
    exceptions,
    profile_of,
    solve,
    without_constant,
)
from costcore.analyses.sizes.formulas import Code, Formulas
from costcore.ir import ceil_div, ceil_log2, gcd, maximum, minimum
from tests.core import html_reports
from tests.core.analyses.fusion.runs import Calls
from tests.core.traces import ModuleCall, Run
from tests.frameworks import optional
from tests.whole_text import as_json, drawing

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
    with pytest.raises(CostError, match="the network runs otherwise at s=5"):
        runs.at((5,))
    assert len(captured) == 2


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


def test_functions_of_integers_take_no_arrays():
    numpy = optional("numpy")
    made = Formulas([gcd(N, 12) * M, ceil_log2(N + 1)], ["n", "m"])
    assert made(18, 5) == (30, 5)
    assert not made.takes_arrays
    with pytest.raises(TypeError, match="greatest common divisors and logarithms take no arrays"):
        made(numpy.array([1, 2]), 3)


def test_arrays_are_exact_where_they_would_overflow():
    numpy = optional("numpy")
    made = Formulas([N**3, N + M], ["n", "m"], {"n": (1, 10**7)})
    for n, kind in ((2_097_151, "int64"), (2_097_152, "object")):  # 2**63 - 1 is the largest
        cubes, sums = made(numpy.array([3, n]), 5)
        assert (str(cubes.dtype), [*cubes], [*sums]) == (kind, [27, n**3], [8, n + 5])


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


@pytest.mark.parametrize(
    ("shape", "symbols", "ranges"),
    [
        ((Dim("n", 2, 9), "16*h"), ("n", "h"), {"n": (2, 9)}),
        ((Dim("n", None, 9), 4), ("n",), {"n": (None, 9)}),
        ((Dim("n", 2, None), "n"), ("n",), {"n": (2, None)}),
        ((Dim("n"), "a+b"), ("n", "a", "b"), {}),
    ],
)
def test_names_and_ranges_of_inputs(shape, symbols, ranges):
    found = NamedInputs(shape)
    assert (found.symbols, found.ranges) == (symbols, ranges)


def test_sizes_of_named_inputs_are_not_negative():
    found = NamedInputs({"x": ("n-3", 4), "y": [("n", "n")]})
    assert found.at({"n": 3}) == {"x": (0, 4), "y": [(3, 3)]}
    with pytest.raises(CostError, match="is -1 at n=2; state a range"):
        found.at({"n": 2})
    with pytest.raises(ValueError, match="'n' has two ranges"):
        NamedInputs((Dim("n", 1, 2), Dim("n", 1, 3)))
    with pytest.raises(ValueError, match=r"a range needs one symbol \(got a, b\)"):
        NamedInputs((Dim("a+b", 1, 2),))


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
