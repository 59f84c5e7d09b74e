"""The passes of a language model: formulas in batch, new tokens and context, fitted from captures at few sizes.

Cached tensors of a capture are marked, so that reads split into weights, activations and cache. Also here: the protocol
of models with a cache, which frontends implement, expected reads of experts, and the variants of latent attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple, Protocol

from costcore.analyses.sizes.capture import NamedInputs, limits_of
from costcore.analyses.sizes.fitting import trace_in_sizes
from costcore.counting import Pricer
from costcore.errors import CostError
from costcore.ir import BITS, Cost, Layer, Operations, Role, Tensor
from costcore.numbers import Dim, Evaluation, as_dim, is_symbolic, minimum, symbol_of
from costcore.registry import calculators
from costcore.trace.call import Assumption, Call
from costcore.trace.run import Recorder, Run
from costcore.trace.trace import CallCost, Trace

LONGEST = 32768
"""The maximum length at which formulas are checked; longer sequences are captured."""

MOST_CAPTURED = 8
"""The number of captured passes before formulas are fitted: a fit takes as long as about twenty passes."""

LONGEST_LOOP = 256
"""The same for models with a recurrence: they may loop over tokens."""

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

    Attributes:
        assumptions: assumptions about data in any pass.
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
        longest = LONGEST_LOOP if any(part.fixed for part in self._model.parts) else LONGEST
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


# Sums over calls: operations, and bits of weights, activations and cache.


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
        load_act: bits of activations that are read, each by every call that reads it.
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
    """A call that reads the matrices of the experts that rows are sent to.

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
        act: bits of the activations that these are multiplied by; 0 if they read none.
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
        act: bits of the activations that it is multiplied by.
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
        """Return the bits of a number of a tensor in the cache: states of recurrences stay as the model has them."""
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
    counts: dict[tuple[Any, ...], tuple[Dim, CallCost]] = {}
    for record in records:
        call, cost = record.call, record.cost
        if cost is not None and not (computes_nothing(cost) and cost.mread == cost.mwrite == 0):
            is_latent = widths.is_latent(call.module)
            key = id(call.layer), id(cost), _weight_widths(call.module, call.layer, widths), is_latent
            before = counts[key][0] if key in counts else 0
            counts[key] = before + call.times, record
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
    # Widest array first: the matrix decides over the bias.
    weights = sorted((x for x in layer.inputs.values() if x.role == "param"), key=lambda x: -x.ndim)
    return tuple(widths.weight(module, x) for x in weights)


def _tally(record: CallCost, widths: Widths) -> Tally:
    layer, cost = record.call.layer, record.cost
    assert cost is not None
    operations = cost.flops
    flops = operations.flops() if isinstance(operations, Operations) else operations
    act = [x for x in layer.inputs.values() if x.role != "param" and not is_cached(x)]
    load_act, kept = sum(_act_bits(x, widths) for x in act), [x for x in layer.outputs if not is_cached(x)]
    store_act = sum(_act_bits(x, widths) for x in kept)
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
    # Without FLOPs, what is not from the cache is appended to it.
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


# Marks of cached operands.


CACHED: Role = "state"
"""The role of cached keys, values and latents. Decoders have no other states."""

STATE: Role = "const"
"""The role of cached recurrent states. No other arrays of a PyTorch model are constants."""

_Key = tuple[int, tuple[bool, ...], tuple[int | None, ...], tuple[Role, ...]]


def with_marks(trace: Trace, storages: CacheStorages, pricer: Callable[[Call], CallCost]) -> Trace:
    """Return the run with :data:`CACHED` or :data:`STATE` for every tensor in the cache, and for copies of these.

    A copy of only cached elements is marked too. A copy that repeats elements, such as the keys of a group for each of
    its heads, counts with the size of its source: an engine reads only that.

    Args:
        trace: the run.
        storages: ids of the storages of the cache, before and after the run.
        pricer: computes the cost of a call.
    """
    marks = _Marks(storages, pricer)
    return Trace(tuple(map(marks.marked, trace.records)), trace.run)


def times_cached(trace: Trace, storages: CacheStorages) -> int:
    """Return how often a pass writes each new element to the cache: several times if the model repeats heads first."""
    copies: dict[int, int] = {}
    times = 1
    for record in trace:
        call = record.call
        inputs = [*zip(call.layer.inputs.values(), call.storages, strict=False)]
        written = call.storages[len(inputs) :]
        if storages.tokens.intersection(written):
            times = max(times, *(copies.get(storage, 1) for _, storage in inputs))
        elif len(inputs) == 1 and is_move(record) and inputs[0][0].stored_size != 0:
            copies[written[0]] = int(call.layer.out.size // inputs[0][0].stored_size)
    return times


class _Marks:
    def __init__(self, storages: CacheStorages, pricer: Callable[[Call], CallCost]) -> None:
        self._price = pricer
        self._states = set(storages.states)
        # Values: for copies that repeat elements, the number of different ones.
        self._cached: dict[int, int | None] = dict.fromkeys((*storages.tokens, *storages.states))
        self._layers: dict[_Key, tuple[Layer, Layer]] = {}

    def marked(self, record: CallCost) -> CallCost:
        call = record.call
        flags = tuple(storage in self._cached for storage in call.storages)
        if not any(flags):
            return record
        n_inputs = len(call.layer.inputs)
        arrays = [x.size != 0 and not x.is_scalar for x in call.layer.inputs.values()]
        copies_cache = all(flag for flag, is_array in zip(flags, arrays, strict=False) if is_array)
        if any(flags[:n_inputs]) and copies_cache and not all(flags[n_inputs:]) and is_move(record):
            self._cached.update(dict.fromkeys(call.storages[n_inputs:], _distinct(call, flags)))
            if self._states.intersection(call.storages[:n_inputs]):
                self._states.update(call.storages[n_inputs:])
            flags = (*flags[:n_inputs], *(True for _ in flags[n_inputs:]))
        return self._price(call._replace(layer=self._layer(call, flags)))

    def _layer(self, call: Call, flags: tuple[bool, ...]) -> Layer:
        repeated = tuple(self._cached.get(storage) for storage in call.storages)
        roles = tuple(STATE if storage in self._states else CACHED for storage in call.storages)
        key = id(call.layer), flags, repeated, roles
        if key not in self._layers:
            tensors = [*call.layer.inputs.values(), *call.layer.outputs]
            made = [_marked(*each) for each in zip(tensors, flags, repeated, roles, strict=True)]
            inputs = dict(zip(call.layer.inputs, made, strict=False))
            layer = Layer(call.layer.op, inputs, made[len(inputs) :], call.layer.attrs)
            self._layers[key] = call.layer, layer  # holding the first keeps its id valid
        return self._layers[key][1]


def _marked(tensor: Tensor, is_cached: bool, distinct: int | None, role: Role) -> Tensor:
    if not is_cached or tensor.is_scalar:
        return tensor
    stored = distinct if distinct is not None and distinct < tensor.size else tensor.stored
    return replace(tensor, role=role, stored=stored)


def _distinct(call: Call, flags: tuple[bool, ...]) -> int | None:
    sizes = [x.stored_size for x, is_cached in zip(call.layer.inputs.values(), flags, strict=False) if is_cached]
    distinct: Dim = sum(sizes)
    return int(distinct) if distinct < call.layer.out.size else None


def is_move(record: CallCost) -> bool:
    """Return whether a call only copies elements: it reads or writes, and computes nothing."""
    cost = record.cost
    return cost is not None and computes_nothing(cost) and bool(cost.mread != 0 or cost.mwrite != 0)


def computes_nothing(cost: Cost) -> bool:
    """Return whether there are no operations."""
    return cost.flops in (0, Operations())


def cached_inputs(layer: Layer) -> list[Tensor]:
    """Return the operands that are in the cache."""
    return [tensor for tensor in layer.inputs.values() if is_cached(tensor)]


def is_cached(tensor: Tensor) -> bool:
    """Return whether a tensor is in the cache."""
    return tensor.role in (CACHED, STATE) and not tensor.is_scalar


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


# Models with a KV cache, as a frontend describes them.


class Parameter(NamedTuple):
    """A learned parameter; tied ones are listed once.

    Attributes:
        module: path of the module that owns it.
        size: number of elements.
        ndim: number of axes.
        dtype: dtype in which the model has it.
    """

    module: str
    size: int
    ndim: int
    dtype: str


class PackedWeight(NamedTuple):
    """The weight of a linear layer that the model has in a packed storage.

    Attributes:
        size: number of weights.
        nbytes: bytes of the storage, with its scales and zero points.
        bits: bits of one weight without them.
        kind: class of the module or of the tensor that packs it.
        act_dtype: dtype to which the layer quantizes its input before the product; empty if it does not.
    """

    size: int
    nbytes: int
    bits: int
    kind: str
    act_dtype: str = ""


ALL = -1
"""The key of the mean of a module in :attr:`StoredFile.parts`, instead of a number of elements."""


class StoredPart(NamedTuple):
    """How a file stores a parameter.

    Attributes:
        bits_with_scales: bits of one number, with its part of scales; the mean of several formats.
        bits: bits of one number without scales, in the most common format by bytes.
    """

    bits_with_scales: Fraction
    bits: int


class StoredFile(NamedTuple):
    """How a file stores the weights of a model.

    Attributes:
        parts: how parameters are stored, by module path and number of elements, for the modules that own them and
            all modules around them, which may read them.
        nbytes: bytes of all tensors of the file.
        formats: the formats of its tensors, by bytes in descending order.
        others: names of tensors that hold no parameter of the model, which ``nbytes`` has too.
    """

    parts: Mapping[tuple[str, int], StoredPart]
    nbytes: int
    formats: Sequence[str]
    others: Sequence[str]

    def part(self, module: str, size: Dim) -> StoredPart | None:
        """Return how a weight is stored that a module reads; None if the file has no such weight.

        Args:
            module: the path of the module.
            size: elements of the weight; of a slice the mean of all weights of the module is returned.
        """
        exact = self.parts.get((module, size)) if isinstance(size, int) else None
        return exact or self.parts.get((module, ALL))


class Latent(NamedTuple):
    """Attention with keys and values expanded from one latent vector per token.

    DeepSeek-AI, "DeepSeek-V2", arXiv:2405.04434, section 2.1.

    Attributes:
        module: path of the attention module.
        heads: number of heads.
        rank: elements of the latent vector.
        rope: elements of the rotary key that all heads share.
        key: elements of the key of a head, with the rotary ones.
        value: elements of the value of a head.
    """

    module: str
    heads: int
    rank: int
    rope: int
    key: int
    value: int

    @property
    def expanded_macs(self) -> int:
        """MACs of one query and one key of all heads, if keys and values are expanded."""
        return self.heads * (self.key + self.value)

    @property
    def absorbed_macs(self) -> int:
        """The same if the expansion is absorbed into queries and results."""
        return self.heads * (2 * self.rank + self.rope)

    @property
    def cached(self) -> int:
        """Elements that one token adds to a cache of latents."""
        return self.rank + self.rope

    @property
    def expanded(self) -> int:
        """Elements of the keys and values of one token, of all heads."""
        return self.heads * (self.key + self.value)


class CachedPart(NamedTuple):
    """The cache of one sequence in the layers of one kind.

    Attributes:
        per_token: elements that each token adds.
        window: the maximum number of tokens kept; None for all.
        fixed: elements kept whatever the length, such as a recurrent state.
        state_bits: bits of these in the dtypes of the model; None if they are keys and values in the format of the
            cache.
    """

    per_token: int
    window: int | None
    fixed: int
    state_bits: int | None = None

    def elements(self, length: int) -> int:
        """Return the elements of keys and values that are kept of a sequence of this length."""
        kept = self.per_token * (length if self.window is None else min(length, self.window))
        return kept + (self.fixed if self.state_bits is None else 0)


class CacheStorages(NamedTuple):
    """The ids of the storages of a cache, before and after a pass.

    Attributes:
        tokens: ids for keys, values and latents.
        states: ids for recurrent states: their size does not depend on the length.
    """

    tokens: frozenset[int]
    states: frozenset[int]


class CachedModel(Protocol):
    """A model that can run on new tokens after cached ones.

    Attributes:
        name: name of the class of the model.
        dtype: dtype of its parameters.
        parameters: all parameters but those in ``packed``.
        packed: packed weights by path of their module.
        latents: its attention layers that cache latent vectors.
        parts: the cache of one sequence, by kind of layer.
        most_tokens: maximum sequence length of the model; None if it has none.
        file: how its file stores the weights; None without a file.
    """

    name: str
    dtype: str
    parameters: Sequence[Parameter]
    packed: Mapping[str, PackedWeight]
    latents: Sequence[Latent]
    parts: Sequence[CachedPart]
    most_tokens: int | None
    file: StoredFile | None

    def record(self, recorder: Recorder, batch: int, tokens: int, past: int, last_only: bool) -> CacheStorages:
        """Record a pass, and return the ids of the storages of the cache before and after it.

        Args:
            recorder: receives the calls.
            batch: number of sequences.
            tokens: new tokens of each sequence.
            past: tokens of each sequence that are in the cache.
            last_only: whether scores are computed for the last token alone.

        Raises:
            CostError: if the model fails, or takes no such argument.
        """


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
