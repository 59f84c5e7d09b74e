"""What a frontend states about a language model that runs with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol

from costcore.numbers.dims import Dim
from costcore.trace.recorder import Recorder


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
"""The number of elements by which :attr:`StoredFile.parts` has the mean of a module."""


class StoredPart(NamedTuple):
    """How a file stores a parameter.

    Attributes:
        bits_with_scales: bits of one number, with its part of scales; the mean of several formats.
        bits: bits of one number without scales, in the format of most bytes.
    """

    bits_with_scales: Fraction
    bits: int


class StoredFile(NamedTuple):
    """How a file stores the weights of a model.

    Attributes:
        parts: how parameters are stored, by the path of a module and their number of elements. The paths are those of
            the modules that have them, and of those around, which read weights of their parts.
        nbytes: bytes of all tensors of the file.
        formats: the formats of its tensors, that of most bytes first.
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
    """Attention whose keys and values are made of one latent vector per token.

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
        """The same if the expansion is absorbed into queries and results, and latents are attended to."""
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
    """What the layers of one kind keep of one sequence.

    Attributes:
        per_token: elements that each token adds.
        window: the most tokens that are kept; None for all of them.
        fixed: elements that are kept however long the sequence is, such as the state of a recurrence.
        state_bits: bits of these, in the dtypes that the model gives them; None if they are keys and values, which have
            the format of the cache.
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
        tokens: those of keys, values and latents.
        states: those of the states of recurrences, which are as large however long a sequence is.
    """

    tokens: frozenset[int]
    states: frozenset[int]


class CachedModel(Protocol):
    """A model that can run on new tokens after others that are in its cache.

    Attributes:
        name: name of the class of the model.
        dtype: dtype of its parameters.
        parameters: all parameters but those in ``packed``.
        packed: packed weights by path of their module.
        latents: its attention layers that cache latent vectors.
        parts: what its layers keep of one sequence, by kind of layer.
        most_tokens: longest sequence that the model states; None if it states none.
        file: how the file that it was read from stores its weights; None if it is of no file.
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
