"""The ways to attend to latent vectors, with small sizes by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costcore.studies.serving.cached_model import Latent
from costcore.studies.serving.passes import Point, attended
from costcore.studies.serving.tallies import Kind, Tally

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
