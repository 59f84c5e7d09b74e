"""The passes of a model: formulas in batch, tokens and context, from captures at few sizes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from costcore.analyses.sizes.formulas import trace_in_sizes
from costcore.analyses.sizes.inputs import NamedInputs
from costcore.analyses.sizes.limits import limits_of
from costcore.counting.pricing import Pricer
from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.numbers.dims import is_symbolic
from costcore.numbers.evaluation import Evaluation
from costcore.numbers.expressions import symbol_of
from costcore.registry.calculators import calculators
from costcore.studies.serving.cached_model import CachedModel
from costcore.studies.serving.marks import times_cached, with_marks
from costcore.studies.serving.point import SHAPES, Point
from costcore.studies.serving.tally import Tallies, Widths, tallies_of
from costcore.trace.call import Assumption
from costcore.trace.recorder import Recorder
from costcore.trace.run import Run
from costcore.trace.trace import Trace

LONGEST = 32768
"""The longest sequence at which formulas are checked; a longer one is captured by itself."""

MOST_CAPTURED = 8
"""After so many passes of a phase formulas are fitted, which takes as long as about twenty passes."""

LONGEST_LOOP = 256
"""The same of models with a recurrence, which may run in a loop over tokens."""

SHORTEST = 8
"""Formulas are fitted over lengths that differ by so much at least; a shorter range is captured length by length."""


class Piece(NamedTuple):
    """A range of lengths in which the same calls run, with the formulas of a pass there.

    Attributes:
        tallies: the sums as formulas; None if there are none.
        ranges: the smallest and the largest value of every symbol at which they were checked.
        reason: why there are no formulas.
    """

    tallies: Tallies | None
    ranges: Mapping[str, tuple[int, int]]
    reason: str = ""


class _Values:
    """Returns the value of an expression in numbers for its symbols, exactly."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._evaluate = Evaluation({symbol_of(name): value for name, value in values.items()})

    def __call__(self, amount: Any) -> int | Fraction:
        value = self._evaluate(amount) if is_symbolic(amount) else amount
        return Fraction(int(value.p), int(value.q)) if is_symbolic(value) else value


class Runs:
    """The sums of passes of a model at any sizes.

    Args:
        model: the model.
        widths: the bits in which its numbers are stored.
        windows: the windows of its layers; at these lengths other calls run.

    Attributes:
        assumptions: what was assumed about data in any pass.
        uncounted: operators that could not be counted in any pass.
        times_cached: how often a pass writes each new element to the cache.
    """

    def __init__(self, model: CachedModel, widths: Widths, windows: tuple[int, ...]) -> None:
        self._model = model
        self._widths = widths
        self._windows = windows
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
        """Return whether formulas are known, or so many passes were captured around this one that they save time."""
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
        """Return the lengths around one between which no window begins to bind."""
        new = 0 if phase == "prefill" else 1
        longest = LONGEST_LOOP if any(part.fixed for part in self._model.parts) else LONGEST
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
        """Capture one pass, and mark what is in its cache."""
        recorder = Recorder()
        storages = self._model.record(recorder, *point, last_only)
        recorder.flush()
        self.assumptions.update(dict.fromkeys(recorder.assumptions))
        records = tuple(map(self._pricer, recorder.calls))
        self.uncounted.update((record.call.type, None) for record in records if record.cost is None)
        run = Run(assumptions=tuple(recorder.assumptions), frameworks=dict(recorder.frameworks))
        trace = Trace(records, run)
        self.times_cached = max(self.times_cached, times_cached(trace, storages))
        return with_marks(trace, storages, self._pricer)
