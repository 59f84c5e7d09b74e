"""Models with a KV cache, as a frontend describes them, and the cached operands of a captured pass.

A frontend implements :class:`CachedModel`. :func:`with_marks` gives cached tensors a role, so that reads split into
weights, activations and cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple, Protocol

from costcore.ir import Cost, Layer, Operations, Role, Tensor
from costcore.numbers import Dim
from costcore.trace.call import Call
from costcore.trace.run import Recorder
from costcore.trace.trace import CallCost, Trace


class Parameter(NamedTuple):
    """A learned parameter; tied ones are listed once.

    Attributes:
        module: path of the module that owns it.
        size: number of elements.
        ndim: number of axes.
        dtype: its dtype in the model.
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
        parts: how parameters are stored, by module path and number of elements. Enclosing modules have entries too,
            because they may read the parameters of their children.
        nbytes: bytes of all tensors of the file.
        formats: the formats of its tensors, by bytes in descending order.
        others: names of tensors that are not parameters of the model; ``nbytes`` includes them.
    """

    parts: Mapping[tuple[str, int], StoredPart]
    nbytes: int
    formats: Sequence[str]
    others: Sequence[str]

    def part(self, module: str, size: Dim) -> StoredPart | None:
        """Return how the file stores a weight that a module reads; None if it has no such weight.

        Args:
            module: the path of the module.
            size: elements of the weight. For a size that no weight has, such as a slice, the result is the mean of all
                weights of the module.
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
        """MACs of one query and one key of all heads, if the expansion is absorbed into queries and results."""
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
        state_bits: bits of the ``fixed`` elements in the dtypes of the model; None if they are keys and values in the
            format of the cache.
    """

    per_token: int
    window: int | None
    fixed: int
    state_bits: int | None = None

    def elements(self, length: int) -> int:
        """Return the elements of keys and values that are kept of a sequence of this length."""
        kept = self.per_token * (length if self.window is None else min(length, self.window))
        return kept + (self.fixed if self.state_bits is None else 0)


class Blocks(NamedTuple):
    """The layers of a decoder that tensor parallelism splits.

    Attributes:
        n_layers: number of layers.
        width: elements of the activations of a token between layers.
        kv_heads: heads of keys and values.
    """

    n_layers: int
    width: int
    kv_heads: int


class ExpertLayers(NamedTuple):
    """The mixture-of-experts layers. Shared experts, which process every token, are not counted.

    Attributes:
        n_layers: number of these layers.
        experts: experts of a layer.
        chosen: how many of them a token chooses.
        nbytes: bytes of the weights of all experts of all layers.
    """

    n_layers: int
    experts: int
    chosen: Fraction
    nbytes: int


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
        most_tokens: the maximum sequence length of the model; None if unlimited.
        file: how its file stores the weights; None without a file.
        blocks: its layers; None if its configuration does not state them.
        is_recurrent: whether it has states of a fixed size, so that it may loop over tokens.
        scores_all: whether it computes the scores of all tokens, and cannot leave out those before the last one.
    """

    name: str
    dtype: str
    parameters: Sequence[Parameter]
    packed: Mapping[str, PackedWeight]
    latents: Sequence[Latent]
    parts: Sequence[CachedPart]
    most_tokens: int | None
    file: StoredFile | None
    blocks: Blocks | None
    is_recurrent: bool
    scores_all: bool

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


# Marks of cached operands.


CACHED: Role = "state"
"""The role of cached keys, values and latents. Decoders have no other states."""

STATE: Role = "const"
"""The role of cached recurrent states. No other arrays of a PyTorch model are constants."""

_Key = tuple[int, tuple[bool, ...], tuple[int | None, ...], tuple[Role, ...]]


def with_marks(trace: Trace, storages: CacheStorages, pricer: Callable[[Call], CallCost]) -> Trace:
    """Return the run with the role :data:`CACHED` or :data:`STATE` on tensors in the cache and on copies of them.

    A copy that repeats elements, such as the keys of a group for each of its heads, counts with the size of its source,
    because an engine reads only the source.

    Args:
        trace: the run.
        storages: ids of the storages of the cache, before and after the run.
        pricer: computes the cost of a call.
    """
    marks = _Marks(storages, pricer)
    return Trace(tuple(map(marks.marked, trace.records)), trace.run)


def times_cached(trace: Trace, storages: CacheStorages) -> int:
    """Return how often a pass writes each new element to the cache: several times if the model first repeats heads."""
    copies: dict[int, int] = {}
    copied: dict[tuple[int, int], int] = {}
    times = 1
    for record in trace:
        call, n_inputs = record.call, len(record.call.layer.inputs)
        if not storages.tokens.isdisjoint(call.storages[n_inputs:]):
            times = max(times, *(copies.get(storage, 1) for storage in call.storages[:n_inputs]))
        elif n_inputs == 1:
            key = id(call.layer), id(record.cost)
            if key not in copied:
                copied[key] = _times_copied(record)
            if copied[key]:
                copies[call.storages[1]] = copied[key]
    return times


def _times_copied(record: CallCost) -> int:
    (x,) = record.call.layer.inputs.values()
    return int(record.call.layer.out.size // x.stored_size) if is_move(record) and x.stored_size != 0 else 0


class _Marks:
    def __init__(self, storages: CacheStorages, pricer: Callable[[Call], CallCost]) -> None:
        self._price = pricer
        self._states = set(storages.states)
        # By id: for a copy that repeats elements, the number of distinct ones.
        self._cached: dict[int, int | None] = dict.fromkeys((*storages.tokens, *storages.states))
        self._layers: dict[_Key, tuple[Layer, Layer]] = {}

    def marked(self, record: CallCost) -> CallCost:
        call = record.call
        if self._cached.keys().isdisjoint(call.storages):
            return record
        flags = tuple(storage in self._cached for storage in call.storages)
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
