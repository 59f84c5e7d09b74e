"""Sizes that are rounded up, as text."""

from __future__ import annotations

import pytest

from costcore.ir import ceil_div
from costcore.numbers import as_text, floor_div, symbol_of, with_ceilings

H, W = symbol_of("h"), symbol_of("w")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (floor_div(H + 31, 32) * W, "w*ceiling(h/32)"),
        (floor_div(3 * H + 1, 2), "ceiling(3*h/2)"),
        (floor_div(H * W + 3, 4) ** 2, "ceiling(h*w/4)**2"),
        (floor_div(floor_div(H + 1, 2) * W + 2, 3), "ceiling(w*ceiling(h/2)/3)"),
        (ceil_div(H, 2), "ceiling(h/2)"),
        (5 * W - 3 * ceil_div(H, 2), "5*w - 3*ceiling(h/2)"),
        (floor_div(H + 30, 32), "floor(h/32 + 15/16)"),
        (floor_div(H + 3, 2), "floor(h/2 + 3/2)"),
        (floor_div(H, 2), "floor(h/2)"),
        (7, "7"),
    ],
)
def test_quotients_that_are_rounded_up(size, text):
    assert as_text(size) == text
    for h in (1, 2, 31, 32, 33, 64):
        sizes = {H: h, W: 5}
        assert with_ceilings(size) == size == 7 or with_ceilings(size).subs(sizes) == size.subs(sizes)


def test_the_largest_of_many_sizes_is_written_without_comparing_them_again(monkeypatch):
    """Two hundred terms are 19,900 pairs, each of which takes sympy a few milliseconds."""
    from sympy import Max

    terms = [k * ceil_div(H, 2) * W - 7 * k * k * W for k in range(1, 5)]
    largest = Max(*terms, evaluate=False)
    with monkeypatch.context() as patch:
        patch.setattr(Max, "_is_connected", lambda *_: pytest.fail("two terms are compared"))
        found = with_ceilings(largest)
    assert "ceiling(h/2)" in str(found) and "floor" not in str(found)
    assert found.subs({H: 33, W: 5}) == max(k * 17 * 5 - 35 * k * k for k in range(1, 5))
