"""Which call of one report is which call of another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeAlias

Entry: TypeAlias = "Mapping[str, Any]"
Pair: TypeAlias = "tuple[int | None, int | None]"
"""Positions in the old and in the new report; None where there is no counterpart."""


def is_free(entry: Entry) -> bool:
    """Whether a call costs nothing."""
    return bool(entry["flops"] == 0 and entry["mrw"] == 0)


def by_module(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    """Pairs of calls of the same operator in the same module and phase, in order of the model.

    Where a module has more calls of an operator on one side, those that cost and shape alike belong together. What is
    left then is paired where it is the same work under another path (a module was renamed or moved), and where the
    same module does as many things as before, but others.
    """
    pairs: list[tuple[int, int]] = []

    def take(key: Callable[[Entry], Hashable], choose: Callable[[list[int], list[int]], Iterator[Pair]]) -> None:
        """Pair, within groups of equal ``key``, what no earlier step has paired."""
        used_old, used_new = {i for i, _ in pairs}, {j for _, j in pairs}
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for side, entries, used in ((0, old, used_old), (1, new, used_new)):
            for position, entry in enumerate(entries):
                if position not in used:
                    groups.setdefault(key(entry), ([], []))[side].append(position)
        for olds, news in groups.values():
            pairs.extend((i, j) for i, j in choose(olds, news) if i is not None and j is not None)

    def in_order(olds: list[int], news: list[int]) -> Iterator[Pair]:
        if len(olds) == len(news):
            return zip(olds, news, strict=True)
        return aligned(old, new, olds, news, _work, pair_replaced=True)

    def renamed(olds: list[int], news: list[int]) -> Iterator[Pair]:
        return aligned(old, new, olds, news, lambda entry: (entry["op"], *_work(entry)))

    def replaced(olds: list[int], news: list[int]) -> Iterator[Pair]:
        inside = olds and old[olds[0]]["module"]
        return zip(olds, news, strict=True) if inside and len(olds) == len(news) else iter(())

    take(lambda entry: (entry["module"], entry["op"], entry["phase"]), in_order)
    take(lambda entry: entry["phase"], renamed)
    take(lambda entry: (entry["module"], entry["phase"]), replaced)
    return _in_model_order(pairs, len(old), len(new))


def by_order(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    """Pairs of calls in the order of execution, whatever modules and types are called.

    Matrix products of equal macs are matched first; between them stand the same few other operators, or what a
    conversion made of them. Free calls are left out: views here are reshapes, constants and shapes there.
    """
    kept_old = [i for i, entry in enumerate(old) if not is_free(entry)]
    kept_new = [j for j, entry in enumerate(new) if not is_free(entry)]
    pairs = _ordered([old[i] for i in kept_old], [new[j] for j in kept_new])
    return [(None if i is None else kept_old[i], None if j is None else kept_new[j]) for i, j in pairs]


def _ordered(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    """What :func:`by_order` says, of calls that all cost something."""
    olds, news = ([i for i, entry in enumerate(entries) if entry["macs"] != 0] for entries in (old, new))
    fixed: list[tuple[int, int]] = [
        (i, j)
        for i, j in aligned(old, new, olds, news, lambda entry: (entry["macs"], entry["phase"]))
        if i is not None and j is not None
    ]
    pairs: list[Pair] = []
    last_old, last_new = -1, -1
    for i, j in [*fixed, (len(old), len(new))]:
        pairs += _between(old, new, list(range(last_old + 1, i)), list(range(last_new + 1, j)))
        pairs.append((i, j))
        last_old, last_new = i, j
    return pairs[:-1]


def aligned(
    old: Sequence[Entry],
    new: Sequence[Entry],
    olds: Sequence[int],
    news: Sequence[int],
    key: Callable[[Entry], Hashable],
    pair_replaced: bool = False,
) -> Iterator[Pair]:
    """Pairs of the given positions, in order, where ``key`` agrees; with ``pair_replaced`` also what stands opposite.

    Every position comes once, without a counterpart where it has none.
    """
    left, right = [key(old[i]) for i in olds], [key(new[j]) for j in news]
    start = _alike(left, right)
    end = _alike(left[start:][::-1], right[start:][::-1])
    yield from zip(olds[:start], news[:start], strict=True)
    inner_olds, inner_news = olds[start : len(olds) - end], news[start : len(news) - end]
    yield from _matched(left[start:], right[start:], inner_olds, inner_news, pair_replaced)
    yield from zip(olds[len(olds) - end :], news[len(news) - end :], strict=True)


def _alike(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """How many of the first are equal."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def _matched(
    left: Sequence[Hashable], right: Sequence[Hashable], olds: Sequence[int], news: Sequence[int], pair_replaced: bool
) -> Iterator[Pair]:
    """Pairs where equal keys stand in the same order; the ends, which are alike, are matched already."""
    matcher = SequenceMatcher(None, left[: len(olds)], right[: len(news)], autojunk=False)
    for tag, i0, i1, j0, j1 in matcher.get_opcodes():
        both = min(i1 - i0, j1 - j0) if tag == "equal" or pair_replaced else 0
        yield from zip(olds[i0 : i0 + both], news[j0 : j0 + both], strict=True)
        yield from ((i, None) for i in olds[i0 + both : i1])
        yield from ((None, j) for j in news[j0 + both : j1])


def _between(old: Sequence[Entry], new: Sequence[Entry], olds: list[int], news: list[int]) -> Iterator[Pair]:
    """Pairs between two matrix products: by operator and work, then by operator, then one that stands for one.

    Of several alike the last ones are taken: what a product is spelled out into, a bias for one, comes right behind it.
    """

    def work(entry: Entry) -> Hashable:
        return entry["op"], entry["phase"], entry["flops"], _shapes(entry["output_shapes"])

    def operator(entry: Entry) -> Hashable:
        return entry["op"], entry["phase"]

    from_the_end = [*aligned(old, new, olds[::-1], news[::-1], work)]
    for part_old, part_new in _runs(reversed(from_the_end)):
        alone = len(part_old) == len(part_new) == 1
        if alone and _shapes(old[part_old[0]]["output_shapes"]) == _shapes(new[part_new[0]]["output_shapes"]):
            yield part_old[0], part_new[0]
            continue
        yield from aligned(old, new, part_old, part_new, operator)


def _runs(pairs: Iterator[Pair]) -> Iterator[tuple[list[int], list[int]]]:
    """Every pair by itself, and what lies between two pairs together."""
    olds: list[int] = []
    news: list[int] = []
    for i, j in pairs:
        if i is not None and j is not None:
            yield olds, news
            yield [i], [j]
            olds, news = [], []
        elif i is not None:
            olds.append(i)
        elif j is not None:
            news.append(j)
    yield olds, news


def _in_model_order(pairs: list[tuple[int, int]], n_old: int, n_new: int) -> list[Pair]:
    """All positions, a call that is only new after the one it follows in the new model."""
    old_of = {j: i for i, j in pairs}
    placed: list[tuple[tuple[int, int, int], Pair]] = []
    paired = dict(pairs)
    placed += [((i, 0, 0), (i, paired.get(i))) for i in range(n_old)]
    last = -1
    for j in range(n_new):
        last = old_of.get(j, last)
        if j not in old_of:
            placed.append(((last, 1, j), (None, j)))
    return [pair for _, pair in sorted(placed)]


def _work(entry: Entry) -> tuple[Hashable, ...]:
    return entry["macs"], entry["flops"], _shapes(entry["input_shapes"]), _shapes(entry["output_shapes"])


def _shapes(shapes: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(shape) for shape in shapes)
