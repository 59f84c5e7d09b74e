"""Match the calls of two reports, and compare the calls of a pair.

Calls of two versions of a model are matched by module; calls of a model and its conversion by order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeAlias, cast

from costcore.ir import prod
from costcore.numbers import Dim, is_symbolic, share
from costcore.tables.quantity import AMOUNTS

Entry: TypeAlias = "Mapping[str, Any]"

Pair: TypeAlias = "tuple[int | None, int | None]"
"""Indices in the old and in the new report; None stands for a missing counterpart."""


def is_free(entry: Entry) -> bool:
    """Return whether a call costs nothing: neither FLOPs nor memory traffic."""
    return bool(entry["flops"] == 0 and entry["mrw"] == 0)


def only_moves(entry: Entry) -> bool:
    """Return whether a call computes nothing: it copies, transposes, casts or looks up."""
    return bool(entry["flops"] == 0)


def are_related(old: Entry, new: Entry) -> bool:
    """Return whether one call may replace the other: equal output sizes, and both compute or both only move data."""
    return only_moves(old) == only_moves(new) and _output_size(old) == _output_size(new)


def by_module(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    """Return the matching calls of two versions of a model, in order of the model.

    Calls are matched in three steps. Each step considers the calls that are still without a counterpart:

    1. The same operator, quantized or not, in the same module and phase. If one report has more such
       calls than the other, calls with equal costs and shapes are matched first.
    2. The same operator with equal costs and shapes in another module, because modules can be renamed or moved.
    3. Different operators in the same phase and module (not the root), by position, if both reports have equally many
       unmatched calls there and the two calls are related, see :func:`are_related`.
    """
    pairs: list[tuple[int, int]] = []

    def match(key: Callable[[Entry], Hashable], match_group: Callable[[list[int], list[int]], Iterator[Pair]]) -> None:
        used_old, used_new = {i for i, _ in pairs}, {j for _, j in pairs}
        groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        for side, entries, used in ((0, old, used_old), (1, new, used_new)):
            for index, entry in enumerate(entries):
                if index not in used:
                    groups.setdefault(key(entry), ([], []))[side].append(index)
        for olds, news in groups.values():
            pairs.extend((i, j) for i, j in match_group(olds, news) if i is not None and j is not None)

    def in_order(olds: list[int], news: list[int]) -> Iterator[Pair]:
        if len(olds) == len(news):
            return zip(olds, news, strict=True)
        return aligned(old, new, olds, news, _work, pair_replaced=True)

    def in_another_module(olds: list[int], news: list[int]) -> Iterator[Pair]:
        return aligned(old, new, olds, news, lambda entry: (entry["op"], *_work(entry)))

    def replaced_in_place(olds: list[int], news: list[int]) -> Iterator[Pair]:
        is_in_module = olds and old[olds[0]]["module"]
        pairs = zip(olds, news, strict=True) if is_in_module and len(olds) == len(news) else ()
        return ((i, j) for i, j in pairs if are_related(old[i], new[j]))

    match(lambda entry: (entry["module"], _unquantized(entry["op"]), entry["phase"]), in_order)
    match(lambda entry: entry["phase"], in_another_module)
    match(lambda entry: (entry["module"], entry["phase"]), replaced_in_place)
    return _in_model_order(pairs, len(old), len(new))


def _unquantized(op: str) -> str:
    return op.removeprefix("dynamic_").removeprefix("quantized_")


def by_order(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    """Return the matching calls of a model and its conversion, in order of execution, regardless of module paths.

    Matrix products with equal MACs are matched first, then the calls between two consecutive matches; these may
    include the operators into which a conversion decomposed a product. Zero-cost calls are not matched, because
    frameworks represent them differently: as views, reshapes, constants or shape operators.
    """
    kept_old = [i for i, entry in enumerate(old) if not is_free(entry)]
    kept_new = [j for j, entry in enumerate(new) if not is_free(entry)]
    pairs = _matched_by_order([old[i] for i in kept_old], [new[j] for j in kept_new])
    return [(None if i is None else kept_old[i], None if j is None else kept_new[j]) for i, j in pairs]


def _matched_by_order(old: Sequence[Entry], new: Sequence[Entry]) -> list[Pair]:
    olds, news = ([i for i, entry in enumerate(entries) if entry["macs"] != 0] for entries in (old, new))
    products: list[tuple[int, int]] = [
        (i, j)
        for i, j in aligned(old, new, olds, news, lambda entry: (entry["macs"], entry["phase"]))
        if i is not None and j is not None
    ]
    pairs: list[Pair] = []
    last_old, last_new = -1, -1
    for i, j in [*products, (len(old), len(new))]:
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
    """Yield pairs of calls with equal keys, without changing the order on either side.

    Every call is yielded once, with None if it has no counterpart.

    Args:
        old: entries of the old report.
        new: entries of the new report.
        olds: indices of the calls in the old report to match.
        news: indices of the calls in the new report to match.
        key: returns the value to match by.
        pair_replaced: also pair, by position, calls with different keys between two consecutive matches.
    """
    left, right = [key(old[i]) for i in olds], [key(new[j]) for j in news]
    # SequenceMatcher is quadratic, so the common prefix and suffix, usually most of the calls, are matched first.
    start = _common_prefix(left, right)
    end = _common_prefix(left[start:][::-1], right[start:][::-1])
    yield from zip(olds[:start], news[:start], strict=True)
    inner_olds, inner_news = olds[start : len(olds) - end], news[start : len(news) - end]
    yield from _aligned_between(left[start:], right[start:], inner_olds, inner_news, pair_replaced)
    yield from zip(olds[len(olds) - end :], news[len(news) - end :], strict=True)


def _common_prefix(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def _aligned_between(
    left: Sequence[Hashable], right: Sequence[Hashable], olds: Sequence[int], news: Sequence[int], pair_replaced: bool
) -> Iterator[Pair]:
    matcher = SequenceMatcher(None, left[: len(olds)], right[: len(news)], autojunk=False)
    for tag, i0, i1, j0, j1 in matcher.get_opcodes():
        n_pairs = min(i1 - i0, j1 - j0) if tag == "equal" or pair_replaced else 0
        yield from zip(olds[i0 : i0 + n_pairs], news[j0 : j0 + n_pairs], strict=True)
        yield from ((i, None) for i in olds[i0 + n_pairs : i1])
        yield from ((None, j) for j in news[j0 + n_pairs : j1])


def _between(old: Sequence[Entry], new: Sequence[Entry], olds: list[int], news: list[int]) -> Iterator[Pair]:
    def work(entry: Entry) -> Hashable:
        return entry["op"], entry["phase"], entry["flops"], _shapes(entry["output_shapes"])

    def operator(entry: Entry) -> Hashable:
        return entry["op"], entry["phase"], _output_size(entry)

    # Among equal calls the last ones match, because the first ones can be parts of a decomposed product, e.g. its bias.
    last_first = [*aligned(old, new, olds[::-1], news[::-1], work)]
    for some_olds, some_news in _split_at_pairs(reversed(last_first)):
        if len(some_olds) == len(some_news) == 1:
            before, after = old[some_olds[0]], new[some_news[0]]
            are_equal = _shapes(before["output_shapes"]) == _shapes(after["output_shapes"])
            if are_equal and are_related(before, after):
                yield some_olds[0], some_news[0]
                continue
        yield from aligned(old, new, some_olds, some_news, operator)


def _split_at_pairs(pairs: Iterator[Pair]) -> Iterator[tuple[list[int], list[int]]]:
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


def _output_size(entry: Entry) -> Dim:
    shapes = entry["output_shapes"]
    return prod(shapes[0]) if shapes else 0


# Changes of costs, calls and memory blocks.


COMPARED = tuple(name for name in AMOUNTS if name != "mrw")
"""The costs that are always compared; ``mcomm`` only if a run communicates."""


class Delta(NamedTuple):
    """A cost before and after."""

    old: Dim
    new: Dim

    @property
    def difference(self) -> Dim:
        """New minus old, exact."""
        return self.new - self.old

    @property
    def ratio(self) -> float | None:
        """New divided by old; None if old is 0, or if the ratio depends on the values of symbolic dimensions."""
        return None if self.old == 0 else share(self.new, self.old)

    @property
    def equal(self) -> bool:
        """Whether nothing changed."""
        difference = self.difference
        return bool((cast(Any, difference).expand() if is_symbolic(difference) else difference) == 0)


class Difference(NamedTuple):
    """A call that was added, removed or changed.

    Attributes:
        change: ``added``, ``removed`` or ``changed``.
        old: its entry in the old ``layer_report``; None if it was added.
        new: its entry in the new ``layer_report``; None if it was removed.
        compared: the names of the costs that are compared.
    """

    change: str
    old: Entry | None
    new: Entry | None
    compared: tuple[str, ...] = COMPARED

    @property
    def entry(self) -> Entry:
        """The new entry, or the old one if the call was removed."""
        entry = self.new if self.new is not None else self.old
        return entry if entry is not None else {}

    @property
    def costs(self) -> dict[str, Delta]:
        """The costs that differ, by name."""
        deltas = {key: Delta(_cost(self.old, key), _cost(self.new, key)) for key in self.compared}
        return {key: delta for key, delta in deltas.items() if not delta.equal}

    @property
    def settings(self) -> dict[str, tuple[Any, Any]]:
        """Operator, dtype, shapes and attributes that differ in a changed call: old and new value by name."""
        if self.old is None or self.new is None:
            return {}
        changed = {}
        for key in ("op", "dtype", "input_shapes", "output_shapes"):
            if self.old[key] != self.new[key]:
                changed[key] = (self.old[key], self.new[key])
        old, new = self.old["params"], self.new["params"]
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                changed[key] = (old.get(key), new.get(key))
        return changed


def _cost(entry: Entry | None, key: str) -> Dim:
    return 0 if entry is None else entry.get(key) or 0
