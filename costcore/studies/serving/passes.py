"""The passes of a language model at any batch size, number of new tokens and context.

:class:`Runs` captures a few passes and fits formulas. :func:`attended` replaces attention over latent vectors by one of
its variants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from costcore.analyses.sizes.capture import NamedInputs, limits_of
from costcore.analyses.sizes.fitting import trace_in_sizes
from costcore.counting import Pricer
from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.numbers import Dim, Evaluation, as_dim, is_symbolic, symbol_of
from costcore.registry import calculators
from costcore.studies.serving.cached_model import CachedModel, Latent, times_cached, with_marks
from costcore.studies.serving.tallies import Kind, Tallies, Tally, Widths, tallies_of
from costcore.trace.call import Assumption, Call
from costcore.trace.pairs import with_pairs
from costcore.trace.run import Recorder, Run
from costcore.trace.trace import Trace

LONGEST = 32768
"""The maximum length at which formulas are checked; longer sequences are captured."""

MOST_CAPTURED = 8
"""The number of captured passes before formulas are fitted: a fit takes as long as about twenty passes."""

LONGEST_LOOP = 256
"""The same for models with a recurrence: they may loop over tokens."""

LONGEST_MASK = 8192
"""The same if masks are read, which have an element per pair."""

SHORTEST = 8
"""The minimum range of lengths for a fit; a shorter range is captured length by length."""


class Piece(NamedTuple):
    """A range of lengths in which the same calls run, with the formulas of a pass there.

    Attributes:
        tallies: the sums as formulas; None if there are none.
        ranges: minimum and maximum of every symbol in the check of the formulas.
        reason: why there are no formulas.
    """

    tallies: Tallies | None
    ranges: Mapping[str, tuple[int, int]]
    reason: str = ""


class _Values:
    def __init__(self, values: Mapping[str, int]) -> None:
        self._evaluate = Evaluation({symbol_of(name): value for name, value in values.items()})

    def __call__(self, amount: Any) -> int | Fraction:
        value = self._evaluate(amount) if is_symbolic(amount) else amount
        return Fraction(int(value.p), int(value.q)) if is_symbolic(value) else value


class Runs:
    """The sums of passes of a model at any sizes.

    Args:
        model: the model.
        widths: the bits of stored numbers.
        windows: the windows of its layers; at these lengths other calls run.
        counts_pairs: whether the pairs of attention that masks allow count, not all.

    Attributes:
        assumptions: assumptions about data in any pass.
        uncounted: operators that could not be counted in any pass.
        times_cached: how often a pass writes each new element to the cache.
    """

    times_cached: int

    def __init__(
        self, model: CachedModel, widths: Widths, windows: tuple[int, ...], counts_pairs: bool = False
    ) -> None:
        self._model = model
        self._widths = widths
        self._windows = windows
        self._counts_pairs = counts_pairs
        self._pricer = Pricer(calculators())
        self._pieces: dict[tuple[str, int, bool], Piece] = {}
        self._captured: dict[tuple[Point, bool], Tallies] = {}
        self.assumptions: dict[Assumption, None] = {}
        self.uncounted: dict[str, None] = {}
        self.times_cached = 1

    def at(self, point: Point, last_only: bool = False) -> Tallies:
        """Return the sums of a pass: from formulas where these hold, else from a capture of this pass.

        Raises:
            CostError: if the model fails.
        """
        if (point, last_only) in self._captured:
            return self._captured[point, last_only]
        if point.phase != "extend" and self._uses_formulas(point, last_only):
            piece = self.piece(point.phase, point.length, last_only)
            values = point._asdict()
            if piece.tallies is not None and all(low <= values[n] <= high for n, (low, high) in piece.ranges.items()):
                return piece.tallies.map(_Values({name: values[name] for name in piece.ranges}))
        trace = self._trace(point, last_only)
        self._captured[point, last_only] = tallies_of(trace.records, self._widths)
        return self._captured[point, last_only]

    def _uses_formulas(self, point: Point, last_only: bool) -> bool:
        low, high = self._range(point.phase, point.length)
        if (point.phase, low, last_only) in self._pieces:
            return True
        alike = (each for each, last in self._captured if each.phase == point.phase and last == last_only)
        return sum(1 for each in alike if low <= each.length <= high) >= MOST_CAPTURED

    def piece(self, phase: str, length: int, last_only: bool = False) -> Piece:
        """Return the formulas of a phase around a length; they are found when they are first needed.

        Args:
            phase: a key of :data:`SHAPES`.
            length: new tokens of a prefill, else tokens in the cache.
            last_only: whether scores are computed for the last token alone.
        """
        low, high = self._range(phase, length)
        key = phase, low, last_only
        if key not in self._pieces:
            self._pieces[key] = self._fitted(phase, low, high, last_only)
        return self._pieces[key]

    def _range(self, phase: str, length: int) -> tuple[int, int]:
        new = 0 if phase == "prefill" else 1
        longest = LONGEST_MASK if self._counts_pairs else LONGEST
        if self._model.is_recurrent:
            longest = LONGEST_LOOP
        # At a window, other calls run: formulas hold only between two windows.
        limit = min(longest, self._model.most_tokens or longest)
        edges = [1, *(window - new for window in self._windows if 1 < window - new < limit), limit - new + 1]
        return next(((a, b - 1) for a, b in pairwise(edges) if a <= length < b), (edges[-2], edges[-1] - 1))

    def _fitted(self, phase: str, low: int, high: int, last_only: bool) -> Piece:
        if high - low < SHORTEST:
            return Piece(None, {}, f"lengths from {low} to {high} are too few")
        batch, tokens, past = SHAPES[phase]
        inputs = NamedInputs({"tokens": Tensor((batch, tokens), "int64"), "past": Tensor((1, past, 1), "int64")})
        named = inputs if past else NamedInputs({"tokens": Tensor((batch, tokens), "int64")})
        ranges = {symbol: (low, high) for symbol in named.symbols if symbol == ("past" if past else "tokens")}

        def capture(sized: Any) -> Trace:
            n_sequences, n_tokens = sized["tokens"].shape
            n_cached = sized["past"].shape[1] if past else 0
            return self._trace(Point(n_sequences, n_tokens, n_cached), last_only)

        try:
            trace = trace_in_sizes(named, capture, self._pricer, limits_of(named, ranges))
        except CostError as error:
            return Piece(None, {}, str(error))
        return Piece(tallies_of(trace.records, self._widths), trace.run.ranges)

    def _trace(self, point: Point, last_only: bool) -> Trace:
        recorder = Recorder(counts_pairs=self._counts_pairs)
        storages = self._model.record(recorder, *point, last_only)
        recorder.flush()
        self.assumptions.update(dict.fromkeys(recorder.assumptions))
        calls: Sequence[Call] = recorder.calls
        if self._counts_pairs:
            calls, _ = with_pairs(calls, recorder.attention_pairs, recorder.masked_scores)
        records = tuple(map(self._pricer, calls))
        self.uncounted.update((record.call.type, None) for record in records if record.cost is None)
        run = Run(assumptions=tuple(recorder.assumptions), frameworks=dict(recorder.frameworks))
        trace = Trace(records, run)
        self.times_cached = max(self.times_cached, times_cached(trace, storages))
        return with_marks(trace, storages, self._pricer)


# Sizes and phases.


SHAPES: Mapping[str, tuple[Any, ...]] = {
    "prefill": ("batch", "tokens", 0),
    "decode": ("batch", 1, "past"),
    "extend": ("batch", "tokens", "past"),
}
"""Batch, new tokens and cached tokens by phase."""


class Point(NamedTuple):
    """Sizes of a pass: sequences, new tokens of each, tokens of each in the cache. They are names in formulas."""

    batch: int
    tokens: int
    past: int

    @property
    def phase(self) -> str:
        """The name of its phase, a key of :data:`SHAPES`."""
        return "prefill" if not self.past else "decode" if self.tokens == 1 else "extend"

    @property
    def length(self) -> int:
        """The cached tokens; in a prefill the tokens of the prompt."""
        return self.past or self.tokens


# Variants of attention over latent vectors.
#
# DeepSeek-AI, "DeepSeek-V2", arXiv:2405.04434, section 2.1.


WAYS = ("expanded", "absorbed", "recomputed")
"""The variants of latent attention.

* ``expanded``: every token is expanded once, and its keys and values are kept.
* ``absorbed``: queries are multiplied by the expansion of keys, and results by that of values, with as many products
  per new token as its expansion needs; attention is to latents, which are kept.
* ``recomputed``: latents are kept, and all are expanded in every pass.
"""


def attended(
    by_op: Mapping[Kind, Tally], latents: Sequence[Latent], point: Point, how: str, bits: Fraction
) -> dict[Kind, Tally]:
    """Return the sums of a pass with one of the variants of latent attention.

    Args:
        by_op: the sums as they were captured.
        latents: the attention layers with latent vectors.
        point: the sizes of the pass.
        how: one of :data:`WAYS`.
        bits: bits of a number in the cache.
    """
    sums = {kind: _as_kept(kind, tally, point, how) for kind, tally in by_op.items()}
    new, context = point.batch * point.tokens, point.past + point.tokens
    kept = sum(each.expanded if how == "expanded" else each.cached for each in latents) * bits
    pairs = sum(each.absorbed_macs - each.expanded_macs for each in latents) if how == "absorbed" else 0
    macs, loaded, stored = new * context * pairs, point.batch * context * kept, new * kept
    kind = next(kind for kind, tally in sums.items() if kind.is_latent and tally.cache_macs)
    change = Tally(macs=macs, flops=macs, cache_macs=macs, load_kv=loaded, store_kv=stored, copied=2 * loaded + stored)
    return {**sums, kind: sums[kind].plus(change)}


def _as_kept(kind: Kind, tally: Tally, point: Point, how: str) -> Tally:
    if not kind.is_latent:
        return tally
    # Kept keys and values are expanded once per new token, not again for cached ones.
    again = 0 if how == "recomputed" else _part(tally.expand_macs * point.past, point.past + point.tokens)
    return tally._replace(macs=tally.macs - again, flops=tally.flops - again, load_kv=0, store_kv=0, copied=0)


def _part(products: Dim, length: Dim) -> Dim:
    if not is_symbolic(products):
        return products // length
    # The products are a multiple of the length: the quotient is exact.
    from sympy import cancel

    return as_dim(cancel(products / length))
