"""Rows of random numbers."""

from __future__ import annotations

from costcore.translate import Row

from .arguments import row

KEYS = ("random_clone", "random_fold_in", "random_seed", "random_split", "random_unwrap", "random_wrap")
"""Primitives on keys, which are bookkeeping."""

BITS = (
    *("random_bits", "rng_bit_generator", "rng_uniform", "threefry2x32", "threefry4x32"),
    *("philox2x32", "philox4x32"),
)
"""Primitives that make random bits, which costs no operations."""

ROWS: tuple[Row, ...] = (
    *(row(name, "empty", {}) for name in KEYS),
    *(row(name, "random", {}) for name in BITS),
    row("random_gamma", "sample", {"x": lambda a: a["inputs"][1]}),
)
