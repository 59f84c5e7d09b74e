"""Pairs of query and key: how many a causal mask, a window or the borders of packed documents allow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from costcore.ir import Layer

PAIRS = ("all", "causal", "packed")
"""How pairs are counted: all of them, those that causal flags and windows allow, or those within one document too."""


@lru_cache(maxsize=1024)
def allowed_pairs(queries: int, keys: int, left: int | None, right: int | None) -> int:
    """Return the pairs in which the key is at most ``left`` before and ``right`` behind the query; None for no limit.

    The first query is at the position of the first key, as in PyTorch and ONNX.

    >>> allowed_pairs(4, 4, None, 0)  # causal: 1 + 2 + 3 + 4
    10
    """
    first = [0 if left is None else max(0, query - left) for query in range(queries)]
    last = [keys - 1 if right is None else min(keys - 1, query + right) for query in range(queries)]
    return sum(max(0, end - start + 1) for start, end in zip(first, last, strict=True))


def limits_of(layer: Layer, is_causal: bool = False) -> tuple[int | None, int | None]:
    """Return how far before and behind a query its keys may be, by the attributes of an attention; None for no limit.

    Args:
        layer: the attention.
        is_causal: whether it is causal even if no attribute states it.
    """
    window: Any = layer.attrs.get("window")
    sides = window if isinstance(window, Sequence) else (None if window is None else window - 1, None)
    left, right = (None if side is None or side < 0 else int(side) for side in sides)
    return left, 0 if is_causal or layer.attrs.get("causal") else right


@lru_cache(maxsize=1024)
def within_documents(
    lengths: tuple[int, ...], limits: tuple[int | None, int | None], queries: int, keys: int
) -> tuple[int, int]:
    """Return the share of pairs that are within one document and within the limits, as numerator and denominator.

    Documents fill sequences. Attention whose queries and keys differ in number is not packed.
    """
    if queries != keys:
        return allowed_pairs(queries, keys, *limits), queries * keys
    allowed = tokens = 0
    for length in lengths:
        allowed, tokens = allowed + allowed_pairs(length, length, *limits), tokens + length
    return allowed, tokens * keys


def check_documents(lengths: Sequence[int], sequence: int) -> None:
    """Check that documents can fill sequences of so many tokens.

    Raises:
        TypeError: if a length is not an integer.
        ValueError: if a length is not positive or longer than a sequence, or if the lengths fill no whole number of
            sequences.
    """
    for length in lengths:
        if isinstance(length, bool) or not isinstance(length, int):
            raise TypeError(f"document_lengths must be integers (got {length!r})")
        if not 0 < length <= sequence:
            raise ValueError(f"document_lengths must be between 1 and the sequence of {sequence} (got {length})")
    if (total := sum(lengths)) % sequence or not total:
        raise ValueError(
            f"document_lengths must fill whole sequences of {sequence} tokens (got {total} in all). "
            "Give padding as a document too."
        )
