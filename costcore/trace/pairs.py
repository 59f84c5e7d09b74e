"""Pairs of queries and keys: of attention, and of the products and the softmax that a model writes in its place."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from costcore.ir import Layer, prod
from costcore.numbers import Dim, floor_div, maximum
from costcore.trace.call import Call

ATTENTION = frozenset(("attention", "attention_backward", "token_major_attention"))
"""The operators whose cost is proportional to the pairs of queries and keys."""


def check_attention(attention: object) -> None:
    """Check the option ``attention``.

    Raises:
        ValueError: if it is neither "all" nor "computed".
    """
    if attention not in ("all", "computed"):
        raise ValueError(f"attention must be 'all' or 'computed' (got {attention!r})")


PRODUCTS = frozenset(("matmul", "einsum"))
"""Products that models write of queries and keys, and of weights and values."""

_REDUCING = ("reduce_", "linear", "conv", "embedding")


def with_pairs(
    calls: Sequence[Call], known: Mapping[int, int], masked: Mapping[int, int]
) -> tuple[Sequence[Call], list[str]]:
    """Return calls in which attention has the attribute ``pairs``, and notes on their share of all pairs.

    So have the products and the softmax of attention that a model writes itself: a softmax of masked scores.

    Args:
        calls: the calls.
        known: the pairs of a call, by its position; otherwise a causal mask of a square of scores states them.
        masked: the scores that a call masks, by its position.
    """
    made: dict[tuple[Layer, Dim, str], Layer] = {}
    found = [*calls]

    def replace(i: int, pairs: Dim, scores: str = "") -> None:
        layer = calls[i].layer
        key = layer, pairs, scores
        if key not in made:
            attrs = {**layer.attrs, "pairs": pairs, **({"scores": scores} if scores else {})}
            if "allowed" in attrs:
                attrs["total"] = layer.attrs["pairs"]
            made[key] = Layer(layer.op, layer.inputs, layer.outputs, attrs)
        found[i] = calls[i]._replace(layer=made[key])

    for i, call in enumerate(calls):
        if is_attention(call.layer):
            pairs = known.get(i, masked_pairs(call.layer))
            if pairs is not None:
                replace(i, pairs)
    for i, scores, skipped in _MaskedScores(masked).of([*found]):
        layer = calls[i].layer
        if layer.op in ("attention", "attention_backward"):
            replace(i, pairs_of(layer) - skipped)
        else:
            total = (layer.out if scores == "y" else layer[scores]).size
            replace(i, total - skipped, scores if layer.op in PRODUCTS else "")
    totals = [
        (
            all_pairs(before.layer if is_attention(before.layer) else after.layer),
            computed_pairs(after.layer),
            after.times,
        )
        for before, after in zip(calls, found, strict=True)
    ]
    unknown = sum(1 for call in found if call.layer.op == "attention" and _has_unknown_mask(call.layer))
    notes = [_note(totals, COMPUTED), UNKNOWN.format(unknown) if unknown else ""]
    return found, [note for note in notes if note]


def _has_unknown_mask(layer: Layer) -> bool:
    return "mask" in layer and "pairs" not in layer.attrs


UNKNOWN = "attention: all pairs count where the values of a mask are unknown (calls: {})"

COMPUTED = "attention counts {allowed} of {all} pairs of queries and keys: those that masks allow"

ALL = "attention counts all {all} pairs of queries and keys; causal masks and windows allow {allowed}"


def _note(totals: Iterable[tuple[Dim, Dim, Dim]], text: str) -> str:
    n_all: Dim = 0
    n_allowed: Dim = 0
    for total, allowed, times in totals:
        n_all += total * times
        n_allowed += allowed * times
    shown = [f"{n:,}" if isinstance(n, int) else n for n in (n_all, n_allowed)]
    return "" if n_all == n_allowed else text.format(all=shown[0], allowed=shown[1])


def notes_in_sizes(notes: Sequence[str], calls: Sequence[Call]) -> list[str]:
    """Return notes with the pairs of symbolic calls in place of those of a capture."""
    made = []
    for note in notes:
        text = next((text for text in (ALL, COMPUTED) if note.startswith(text.partition("{")[0])), "")
        if text == ALL:
            made.append(note_on_masks(calls, {call.layer for call in calls}))
        elif text:
            totals = [(all_pairs(call.layer), computed_pairs(call.layer), call.times) for call in calls]
            made.append(_note(totals, text))
        else:
            made.append(note)
    return [note for note in made if note]


def is_attention(layer: Layer) -> bool:
    """Return whether a layer is attention, or the backward pass of a kernel of attention that has a mask."""
    if layer.op not in ATTENTION:
        return "allowed" in layer.attrs
    # A damaged model may have other operands, which its calculator refuses.
    return layer.op == "token_major_attention" or all(x in layer and layer[x].ndim > 1 for x in ("q", "k"))


def computed_pairs(layer: Layer) -> Dim:
    """Return the pairs of attention, or of a product of queries and keys, that masks allow; 0 of any other layer."""
    if is_attention(layer):
        return layer.attrs["pairs"] if "pairs" in layer.attrs else pairs_of(layer)
    return layer.attrs["pairs"] if layer.attrs.get("scores") == "y" else 0


def all_pairs(layer: Layer) -> Dim:
    """Return all pairs of attention, or of a product of queries and keys with a mask; 0 of any other layer."""
    if is_attention(layer):
        return pairs_of(layer)
    return layer.out.size if layer.attrs.get("scores") == "y" else 0


def note_on_masks(calls: Sequence[Call], layers: Collection[Layer]) -> str:
    """Return a note on pairs that count although attributes of attention leave them out; empty if there are none.

    Args:
        calls: the calls, without computed pairs.
        layers: their layers, each once.
    """
    if ATTENTION.isdisjoint(map(attrgetter("op"), layers)):
        return ""
    found = {id(layer) for layer in layers if layer.op in ATTENTION}
    totals = []
    for call in [call for call in calls if id(call.layer) in found or "allowed" in call.layer.attrs]:
        if is_attention(call.layer):
            total, allowed = pairs_of(call.layer), masked_pairs(call.layer)
            totals.append((total, total if allowed is None else allowed, call.times))
    return _note(totals, ALL)


class _Scores(NamedTuple):
    # A value with an element per pair: its size, how many elements are masked, the products that made it, and whether
    # they are weights. A mask that waits for its scores has no producers.
    size: Dim
    skipped: Dim = 0
    producers: tuple[int, ...] = ()
    is_weights: bool = False

    def joined(self, other: _Scores) -> _Scores:
        if other.size != self.size and not other.producers:  # a mask of other rank, or of one sample for all
            other = other._replace(skipped=floor_div(other.skipped * self.size, other.size))
        return self._replace(skipped=maximum(self.skipped, other.skipped))


class _MaskedScores:
    # Finds products and softmax of masked scores. Values are followed by their memory, as the views that autograd
    # saves have ids of their own.
    def __init__(self, masked: Mapping[int, int]) -> None:
        self._masked = masked
        self._known: dict[int, _Scores] = {}
        self._attention: dict[str, list[_Scores]] = {}
        self._unsourced: dict[tuple[str, Dim], int] = {}

    def of(self, calls: Sequence[Call]) -> Iterator[tuple[int, str, Dim]]:
        """Yield calls by position, with the operand that has the scores, and how many of them are masked."""
        for i, call in enumerate(calls):
            n_inputs = len(call.inputs)
            written, op = call.storages[n_inputs : n_inputs + 1], call.layer.op
            read = dict(zip(call.layer.inputs, call.storages, strict=False))
            given = {name: self._known[storage] for name, storage in read.items() if storage in self._known}
            if not written:
                continue
            if op in ("attention", "attention_backward") and is_attention(call.layer):
                yield from self._of_attention(i, call, given.get("mask"))
            elif op in PRODUCTS:
                yield from self._product(i, call, written[0], given, read)
            elif op == "softmax":
                scores = given.get("x", _Scores(call.layer.out.size))
                yield from self._softmax(i, "x", scores.producers, scores.skipped)
                self._known[written[0]] = scores._replace(producers=(), is_weights=scores.skipped != 0)
            elif op == "softmax_backward":
                weights = given.get("y")
                if weights is None or not weights.is_weights:
                    weights = yield from self._weights_inside(call)
                if weights is not None:
                    yield from self._softmax(i, "dy", given["dy"].producers if "dy" in given else (), weights.skipped)
                    self._known[written[0]] = weights
            elif not op.startswith(_REDUCING):
                self._pass_on(i, call, written[0], [*given.values()], written[0] in read.values())

    def _of_attention(self, i: int, call: Call, mask: _Scores | None) -> Iterator[tuple[int, str, Dim]]:
        total, waiting = pairs_of(call.layer), self._attention.setdefault(call.module, [])
        scores = _Scores(total, total - call.layer.attrs.get("pairs", total), is_weights=True)
        if call.layer.op == "attention_backward":
            made = waiting.pop() if waiting and waiting[-1].size == total else scores
            if made.skipped != scores.skipped:
                yield i, "", made.skipped
            return
        if mask is not None and scores.skipped == 0:
            scores = scores.joined(mask)
            if scores.skipped != 0:
                yield i, "", scores.skipped
        waiting.append(scores)

    def _product(
        self, i: int, call: Call, written: int, given: Mapping[str, _Scores], read: Mapping[str, int]
    ) -> Iterator[tuple[int, str, Dim]]:
        weights = next((name for name, scores in given.items() if scores.is_weights), None)
        if weights is not None:
            yield i, weights, given[weights].skipped
            self._known.pop(written, None)
            return
        if any(tensor.role == "param" for tensor in call.layer.inputs.values()):
            return  # a layer
        self._known[written] = _Scores(call.layer.out.size, producers=(i,))
        if call.phase == "backward" and "x0" in read and "x0" not in given:
            self._unsourced.setdefault((call.module, call.layer["x0"].size), i)

    @staticmethod
    def _softmax(i: int, operand: str, producers: Sequence[int], skipped: Dim) -> Iterator[tuple[int, str, Dim]]:
        if skipped != 0:
            yield i, operand, skipped
            for producer in producers:
                yield producer, "y", skipped

    def _weights_inside(self, call: Call) -> Generator[tuple[int, str, Dim], None, _Scores | None]:
        # The backward pass of attention as products: its weights were made inside of it, and first multiply dy.
        waiting = self._attention.get(call.module, [])
        if not waiting or waiting[-1].size != call.layer["dy"].size:
            return None
        weights = waiting.pop()
        first = self._unsourced.pop((call.module, weights.size), None)
        if first is not None:
            yield first, "x0", weights.skipped
        return weights

    def _pass_on(self, i: int, call: Call, written: int, given: Sequence[_Scores], is_in_place: bool) -> None:
        mask = self._masked.get(i, 0)
        if not given and not mask:
            if not is_in_place:
                self._known.pop(written, None)
            return
        scores, *others = sorted(given, key=lambda each: (each.is_weights, len(each.producers)), reverse=True) or [
            _Scores(call.layer.out.size)
        ]
        for other in (*others, _Scores(call.layer.out.size, mask)):
            scores = scores.joined(other)
        self._known[written] = scores


def pairs_of(layer: Layer) -> Dim:
    """Return the pairs of queries and keys of attention, over all heads and samples."""
    if "allowed" in layer.attrs or layer.op == "token_major_attention":
        return layer.attrs.get("total", layer.attrs["pairs"])  # packed sequences attend each to itself
    y = layer.inputs.get("dy") or layer.out
    return prod(y.shape[:-1]) * layer["k"].shape[-2]


def masked_pairs(layer: Layer) -> Dim | None:
    """Return the pairs that attributes of attention allow; None if they allow all, or if keys precede the queries."""
    if "allowed" in layer.attrs or layer.op == "token_major_attention":
        return layer.attrs.get("allowed")
    queries, keys = layer["q"].shape[-2], layer["k"].shape[-2]
    if not layer.attrs.get("causal") or queries != keys:
        return None
    return floor_div(pairs_of(layer) * (keys + 1), 2 * keys)
