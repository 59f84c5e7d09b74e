"""The forms of dimensions: which functions fit given values, and which size tells them apart."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costcore.analyses.sizes.fitting import (
    SIZE,
    Forms,
    Term,
    coefficients,
    long_steps,
    next_size,
    profile_of,
    solve,
    without_constant,
)


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
