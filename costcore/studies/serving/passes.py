"""The passes of a language model at any batch size, number of new tokens and context.

:class:`Runs` captures a few passes and fits formulas. :func:`attended` replaces attention over latent vectors by one of
its variants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

from costcore.analyses.sizes.capture import NamedInputs, limits_of
from costcore.analyses.sizes.fitting import trace_in_sizes
from costcore.counting import Pricer
from costcore.errors import CostError
from costcore.ir import BITS, Layer, Operations, Tensor
from costcore.numbers import Dim, Evaluation, as_dim, is_symbolic, minimum, symbol_of
from costcore.registry import calculators
from costcore.studies.serving.cached_model import (
    STATE,
    CachedModel,
    Latent,
    cached_inputs,
    computes_nothing,
    is_cached,
    is_move,
    times_cached,
    with_marks,
)
from costcore.trace.call import Assumption, Call, with_pairs
from costcore.trace.run import Recorder, Run
from costcore.trace.trace import CallCost, Trace

LONGEST = 32768
"""The maximum length at which formulas are checked; longer sequences are captured."""

MOST_CAPTURED = 8
"""The number of captured passes before formulas are fitted: a fit takes as long as about twenty passes."""

LONGEST_LOOP = 256
"""The maximum length at which formulas are checked for recurrent models, which may loop over tokens."""

LONGEST_MASK = 8192
"""The maximum length at which formulas are checked for models that read mask tensors, with one element per pair."""

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
        windows: the windows of its layers. Beyond such a length, a pass has other calls.
        counts_pairs: whether only the attention pairs that masks allow are counted.

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
        # A pass longer than a window has other calls: formulas hold only between two windows.
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
"""The variants of multi-head latent attention.

* ``expanded``: the latent vector of a token is expanded once, and its keys and values are cached.
* ``absorbed``: latent vectors are cached, and attention runs on them. The matrix that expands keys multiplies the
  queries instead, and the matrix that expands values the results. This takes as many MACs per new token as expansion.
* ``recomputed``: latent vectors are cached, and all of them are expanded in every pass.
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
    sums = {kind: _without_cache(kind, tally, point, how) for kind, tally in by_op.items()}
    new, context = point.batch * point.tokens, point.past + point.tokens
    kept = sum(each.expanded if how == "expanded" else each.cached for each in latents) * bits
    pairs = sum(each.absorbed_macs - each.expanded_macs for each in latents) if how == "absorbed" else 0
    macs, loaded, stored = new * context * pairs, point.batch * context * kept, new * kept
    kind = next(kind for kind, tally in sums.items() if kind.is_latent and tally.cache_macs)
    change = Tally(macs=macs, flops=macs, cache_macs=macs, load_kv=loaded, store_kv=stored, copied=2 * loaded + stored)
    return {**sums, kind: sums[kind].plus(change)}


def _without_cache(kind: Kind, tally: Tally, point: Point, how: str) -> Tally:
    if not kind.is_latent:
        return tally
    # The captured pass expanded all tokens. With cached keys and values, only new tokens are expanded.
    again = 0 if how == "recomputed" else _quotient(tally.expand_macs * point.past, point.past + point.tokens)
    return tally._replace(macs=tally.macs - again, flops=tally.flops - again, load_kv=0, store_kv=0, copied=0)


def _quotient(products: Dim, length: Dim) -> Dim:
    if not is_symbolic(products):
        return products // length
    # The products are a multiple of the length: the quotient is exact.
    from sympy import cancel

    return as_dim(cancel(products / length))


# Sums over the calls of a pass: operations, and bits of weights, activations and cache.
#
# For weights of experts, these sums assume that every row chooses another expert, up to all. :func:`not_expected` and
# :func:`not_needed` return what to subtract for the expected and for the minimum number of experts.

FLOATING = frozenset(name for name in BITS if name.startswith(("float", "bfloat", "complex")))


class Tally(NamedTuple):
    """Sums over calls, with bits in the storage formats of weights, activations and cache.

    Attributes:
        n_calls: number of calls that cost something.
        macs: multiplications in matrix products.
        flops: floating-point operations; a fused multiply-add is one.
        cache_macs: the part of ``macs`` that multiplies by keys and values.
        expand_macs: the part of ``macs`` that expands cached latent vectors by weights.
        load_weight: bits of weights that are read.
        load_act: bits of activations that are read, once per reading call.
        store_act: bits of activations that are written.
        load_kv: bits of the cache that are read.
        store_kv: bits that are added to the cache.
        copied: bits of the cache that calls copy, read and written together.
    """

    n_calls: Dim = 0
    macs: Dim = 0
    flops: Dim = 0
    cache_macs: Dim = 0
    expand_macs: Dim = 0
    load_weight: Any = 0
    load_act: Any = 0
    store_act: Any = 0
    load_kv: Any = 0
    store_kv: Any = 0
    copied: Any = 0

    def plus(self, other: Tally) -> Tally:
        """Return the sums of both."""
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, count: Dim) -> Tally:
        """Return the sums of a number of equal calls."""
        return Tally(*(count * each for each in self))

    def map(self, change: Callable[[Any], Any]) -> Tally:
        """Return the tally with every sum changed."""
        return Tally(*map(change, self))


class Experts(NamedTuple):
    """A call that reads the weights of the experts to which its rows are routed.

    Attributes:
        op: the operator.
        bits: bits of the matrices of all experts.
        experts: number of experts.
        rows: rows that are sent to experts.
        calls: how many such calls there are.
    """

    op: str
    bits: Any
    experts: Dim
    rows: Dim
    calls: Dim


class Kind(NamedTuple):
    """The key of a sum of calls.

    Attributes:
        op: the operator.
        bits: bits of the weights that they read, without scales; 0 if they read none.
        act: bits of the activations that these weights multiply; 0 if they read no weights.
        is_latent: whether they are part of attention over latent vectors.
    """

    op: str
    bits: int
    act: int
    is_latent: bool


class Tallies(NamedTuple):
    """The sums of a pass.

    Attributes:
        by_op: the sums of the calls of every kind.
        experts: the calls that read experts.
    """

    by_op: dict[Kind, Tally]
    experts: tuple[Experts, ...]

    def map(self, change: Callable[[Any], Any]) -> Tallies:
        """Return the tallies with every sum changed."""
        experts = tuple(
            Experts(each.op, *(change(value) for value in each[1:]))  # the operator is a text
            for each in self.experts
        )
        return Tallies({key: tally.map(change) for key, tally in self.by_op.items()}, experts)


class StoredWeight(NamedTuple):
    """How a weight is stored and multiplied.

    Attributes:
        stored: bits in storage, with its part of a scale.
        bits: bits without scales.
        act: bits of the activations that multiply it.
    """

    stored: Fraction
    bits: int
    act: int


class Widths(NamedTuple):
    """The bits of stored numbers.

    Attributes:
        act: bits of an activation.
        cache: bits of a number of keys and values, with its scales.
        weight: returns how a weight is stored by the module that reads it and its tensor.
        latents: paths of the modules with attention over latent vectors.
    """

    act: int
    cache: Fraction
    weight: Callable[[str, Tensor], StoredWeight]
    latents: tuple[str, ...] = ()

    def cached(self, tensor: Tensor) -> Fraction:
        """Return the bits of a number of a tensor in the cache: states of recurrences keep their dtype."""
        return Fraction(BITS[tensor.dtype]) if tensor.role == STATE else self.cache

    def is_latent(self, module: str) -> bool:
        """Return whether a module is part of attention over latent vectors."""
        return any(module == path or module.startswith(f"{path}.") for path in self.latents)


def tallies_of(records: Iterable[CallCost], widths: Widths) -> Tallies:
    """Return the sums of a captured pass with marked cached tensors.

    Args:
        records: the calls, with numbers or formulas for all sizes.
        widths: the bits of stored numbers.
    """
    alike: dict[tuple[int, int, str], tuple[Dim, CallCost]] = {}
    for record in records:
        call = record.call
        place = id(call.layer), id(record.cost), call.module
        before = alike.get(place)
        alike[place] = (call.times if before is None else before[0] + call.times), record
    counts: dict[tuple[Any, ...], tuple[Dim, CallCost]] = {}
    for count, record in alike.values():
        call, cost = record.call, record.cost
        if cost is not None and not (computes_nothing(cost) and cost.mread == cost.mwrite == 0):
            is_latent = widths.is_latent(call.module)
            key = id(call.layer), id(cost), _weight_widths(call.module, call.layer, widths), is_latent
            counts[key] = (counts[key][0] if key in counts else 0) + count, record
    by_op: dict[Kind, Tally] = {}
    experts: list[Experts] = []
    for (*_, weights, is_latent), (count, record) in counts.items():
        call = record.call
        bits, act = weights[0][1:] if weights else (0, 0)
        at = Kind(call.layer.op, bits, act, is_latent)
        by_op[at] = by_op.get(at, Tally()).plus(_tally(record, widths).times(count))
        experts += _experts(call, widths, count)
    return Tallies(by_op, tuple(experts))


def _weight_widths(module: str, layer: Layer, widths: Widths) -> tuple[StoredWeight, ...]:
    # Matrices before biases, as callers take the first.
    weights = sorted((x for x in layer.inputs.values() if x.role == "param"), key=lambda x: -x.ndim)
    return tuple(widths.weight(module, x) for x in weights)


def _tally(record: CallCost, widths: Widths) -> Tally:
    layer, cost = record.call.layer, record.cost
    assert cost is not None
    operations = cost.flops
    flops = operations.flops() if isinstance(operations, Operations) else operations
    act = [x for x in layer.inputs.values() if x.role != "param" and not is_cached(x)]
    load_act = sum(_act_bits(x, widths) for x in act)
    store_act = sum(_act_bits(x, widths) for x in layer.outputs if not is_cached(x))
    stored = [x for x in layer.outputs if is_cached(x)]
    reads = cached_inputs(layer)
    load_weight = _weight_bits(record, widths)
    if is_move(record) and (stored or reads):
        return _copy(reads, act, stored, load_act, widths)
    return Tally(
        n_calls=1,
        macs=cost.macs,
        flops=flops,
        cache_macs=cost.macs if layer.op == "attention" or (reads and not load_weight) else 0,
        expand_macs=cost.macs if reads and load_weight else 0,
        load_weight=load_weight,
        load_act=load_act,
        store_act=store_act,
        load_kv=sum(x.stored_size * widths.cached(x) for x in reads),
        store_kv=sum(x.size * widths.cached(x) for x in stored),
    )


def _copy(reads: list[Tensor], act: list[Tensor], stored: list[Tensor], load_act: Any, widths: Widths) -> Tally:
    width = widths.cached(stored[0]) if stored else 0
    # A call without FLOPs that writes to the cache appends the activations that it reads.
    new = sum(x.size for x in act if x.dtype in FLOATING) * width
    copied = sum(x.stored_size * widths.cached(x) for x in reads) + sum(x.size * widths.cached(x) for x in stored)
    return Tally(n_calls=1, load_act=load_act, store_kv=new, copied=copied + load_act)


def _act_bits(tensor: Tensor, widths: Widths) -> Any:
    return tensor.stored_size * widths.act if tensor.dtype in FLOATING and not tensor.is_scalar else 8 * tensor.nbytes


def _weight_bits(record: CallCost, widths: Widths) -> Any:
    layer, cost = record.call.layer, record.cost
    weights = {name: x for name, x in layer.inputs.items() if x.role == "param"}
    if not weights or cost is None:
        return 0
    stored = {name: widths.weight(record.call.module, x).stored for name, x in weights.items()}
    largest = max(weights, key=lambda name: weights[name].ndim)
    width = BITS[weights[largest].dtype]
    held = weights[largest].stored_size * width
    # A call that reads less than its operands skips part of the largest weight (rows of experts or of a table).
    read = minimum(held, held - 8 * (layer.read - cost.mread))
    others = sum(x.stored_size * stored[name] for name, x in weights.items() if name != largest)
    return others + read * (stored[largest] / width)


def _experts(call: Call, widths: Widths, count: Dim) -> Iterable[Experts]:
    layer = call.layer
    if layer.op == "grouped_matmul" and layer["x1"].ndim == 3 and layer["x0"].ndim == 2:
        stacked = layer["x1"]
        bits = stacked.size * widths.weight(call.module, stacked).stored
        yield Experts(layer.op, bits, stacked.shape[0], layer["x0"].shape[0], count)


# Experts read by a mixture.


MOST_TOKENS = 1 << 20
"""With more tokens, all experts are expected."""

MOST_EXACT = 64
"""With more tokens, the exact fraction would have too many digits."""


def expected_experts(experts: int, chosen: int | Fraction, tokens: int) -> Fraction:
    """Return the expected number of experts that at least one token chooses: E (1 - (1 - k / E) ** tokens).

    Every token chooses k of E experts, all with the same probability, and independently of the others.

    Args:
        experts: the number of experts, E.
        chosen: how many of them a token chooses, k.
        tokens: the number of tokens.
    """
    missed = 1 - Fraction(chosen) / experts
    if tokens > MOST_TOKENS:
        return Fraction(experts)
    unread = missed**tokens if tokens <= MOST_EXACT else Fraction(float(missed) ** tokens)
    return experts * (1 - unread)


def fewest_experts(call: Experts, tokens: int) -> int:
    """Return the minimum number of experts of a call: all tokens choose the same."""
    return min(int(call.experts), ceil(Fraction(int(call.rows), tokens)))


def not_expected(call: Experts, tokens: int) -> Fraction:
    """Return the difference of maximum and expected bits of experts of a call.

    Args:
        call: the call.
        tokens: the tokens that are sent to experts.
    """
    experts, rows = int(call.experts), int(call.rows)
    return _bits_between(call, expected_experts(experts, Fraction(rows, tokens), tokens))


def not_needed(call: Experts, tokens: int) -> Fraction:
    """Return the difference of maximum and minimum bits of experts of a call.

    Args:
        call: the call.
        tokens: the tokens that are sent to experts.
    """
    return _bits_between(call, Fraction(fewest_experts(call, tokens)))


def _bits_between(call: Experts, read: Fraction) -> Fraction:
    experts, rows = int(call.experts), int(call.rows)
    return Fraction(call.calls * call.bits) * (min(experts, rows) - read) / experts
