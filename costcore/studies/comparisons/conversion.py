"""The changes of a conversion to another framework: operators replaced, folded into others, dropped or added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from costcore.studies.comparisons.comparison_data import ComparisonData
from costcore.studies.comparisons.differences import Delta
from costcore.studies.comparisons.matching import Entry, only_moves

FOLDABLE = {"batch_norm", "mul", "add", "div", "sub"}
"""Operators that a converter can fold into the weights of the preceding matrix product."""

FOLD_INTO = {"conv", "conv_transpose", "linear", "matmul"}
"""Matrix products into whose weights a converter can fold operators."""


class ConversionChange(NamedTuple):
    """One kind of change that a conversion made.

    Attributes:
        what: ``became`` (the operators were replaced by others), ``folded`` (a scale or shift right after a matrix
            product whose MACs are unchanged), ``dropped`` or ``added``.
        old: operators before the conversion.
        new: operators after the conversion.
        times: number of changes of this kind.
        flops, mrw: FLOPs and bytes of all changes of this kind together.
    """

    what: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    times: int
    flops: Delta
    mrw: Delta


def conversion_changes(comparison: ComparisonData) -> list[ConversionChange]:
    """Return the changes of a conversion, one per kind, in order of first appearance.

    A comparison whose calls were matched by module does not compare a conversion: the list is empty.
    """
    if comparison.by != "order":
        return []
    changes: dict[tuple[str, tuple[str, ...], tuple[str, ...]], ConversionChange] = {}
    for what, olds, news in _changes(comparison):
        key = what, tuple(entry["op"] for entry in olds), tuple(entry["op"] for entry in news)
        earlier = changes.get(key, ConversionChange(*key, 0, Delta(0, 0), Delta(0, 0)))
        flops, mrw = (
            Delta(total.old + sum(e[metric] for e in olds), total.new + sum(e[metric] for e in news))
            for metric, total in (("flops", earlier.flops), ("mrw", earlier.mrw))
        )
        changes[key] = ConversionChange(*key, earlier.times + 1, flops, mrw)
    return list(changes.values())


def _changes(comparison: ComparisonData) -> Iterator[tuple[str, Sequence[Entry], Sequence[Entry]]]:
    """Yield every change: its kind, and the entries of the calls before and after.

    A change consists of the added and removed calls between two pairs of matching calls. If the operators of the first
    pair differ, that pair is part of the change.
    """
    olds: list[Entry] = []
    news: list[Entry] = []
    preceding: Entry | None = None
    for old, new in [*comparison.pairs, (None, None)]:
        same_operator = old is not None and new is not None and old["op"] == new["op"]
        is_pair = (old is None) == (new is None)
        if is_pair:
            yield from _classified(preceding, olds, news)
            olds, news = [], []
        if same_operator:
            preceding = new
        else:
            olds += [old] if old is not None else []
            news += [new] if new is not None else []


def _classified(
    preceding: Entry | None, olds: Sequence[Entry], news: Sequence[Entry]
) -> Iterator[tuple[str, Sequence[Entry], Sequence[Entry]]]:
    """Yield the changes that explain one group of removed and added calls.

    Calls that only move data do not become calls that compute, nor the reverse.

    Args:
        preceding: the entry of the last call before the group whose operator is unchanged.
        olds: entries of the calls before the conversion.
        news: entries of the calls after the conversion.
    """
    if olds and news:
        for moves in (False, True):
            some_olds, some_news = ([e for e in entries if only_moves(e) is moves] for entries in (olds, news))
            if some_olds and some_news:
                yield "became", some_olds, some_news
            else:
                yield from _classified(preceding, some_olds, some_news)
        return
    for entry in olds:
        is_folded = preceding is not None and preceding["op"] in FOLD_INTO and entry["op"] in FOLDABLE
        yield "folded" if is_folded else "dropped", [entry], []
        preceding = preceding if is_folded else None
    for entry in news:
        yield "added", [], [entry]
