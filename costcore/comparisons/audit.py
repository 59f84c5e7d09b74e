"""What a conversion made of a model: operators of another kind, rewritten, folded, dropped, added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from costcore.comparisons.comparison_data import ComparisonData
from costcore.comparisons.differences import Delta
from costcore.comparisons.matching import Entry

FOLDABLE = {"batch_norm", "mul", "add", "div", "sub"}
"""What a converter can work into the weights of the matrix product before it."""

FOLD_INTO = {"conv", "conv_transpose", "linear", "matmul"}


class Rewrite(NamedTuple):
    """One kind of change that a conversion made, and how often.

    Attributes:
        what: ``became`` (another operator or several of them), ``folded`` (scale and shift right after a matrix
            product that kept its macs), ``dropped`` or ``added``.
        old: operators before.
        new: operators after.
        times: how often.
        flops, mrw: FLOPs and bytes of all of them together.
    """

    what: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    times: int
    flops: Delta
    mrw: Delta


def audit(comparison: ComparisonData) -> list[Rewrite]:
    """Return the changes of a conversion, one per kind, in order of first appearance.

    A comparison whose calls were matched by module does not compare a conversion: the list is empty.
    """
    if comparison.by != "order":
        return []
    found: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Rewrite] = {}
    for what, olds, news in _changes(comparison):
        key = what, tuple(entry["op"] for entry in olds), tuple(entry["op"] for entry in news)
        known = found.get(key, Rewrite(*key, 0, Delta(0, 0), Delta(0, 0)))
        flops, mrw = (
            Delta(before.old + sum(e[name] for e in olds), before.new + sum(e[name] for e in news))
            for name, before in (("flops", known.flops), ("mrw", known.mrw))
        )
        found[key] = Rewrite(*key, known.times + 1, flops, mrw)
    return list(found.values())


def _changes(comparison: ComparisonData) -> Iterator[tuple[str, Sequence[Entry], Sequence[Entry]]]:
    """Every change with the entries it is made of."""
    olds: list[Entry] = []
    news: list[Entry] = []
    before: Entry | None = None
    for old, new in [*comparison.pairs, (None, None)]:
        same = old is not None and new is not None and old["op"] == new["op"]
        is_pair = (old is None) == (new is None)
        if is_pair:
            yield from _named(before, olds, news)
            olds, news = [], []
        if same:
            before = new
        else:
            olds += [old] if old is not None else []
            news += [new] if new is not None else []


def _named(
    before: Entry | None, olds: Sequence[Entry], news: Sequence[Entry]
) -> Iterator[tuple[str, Sequence[Entry], Sequence[Entry]]]:
    if olds and news:
        yield "became", olds, news
        return
    for entry in olds:
        folds = before is not None and before["op"] in FOLD_INTO and entry["op"] in FOLDABLE
        yield "folded" if folds else "dropped", [entry], []
        before = before if folds else None
    for entry in news:
        yield "added", [], [entry]
