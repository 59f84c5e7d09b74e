"""The report of a language model that is served."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from costcore.api.target import model_of
from costcore.errors import CostError
from costcore.ir import BITS
from costcore.messages import unknown
from costcore.numbers.dims import Dim
from costcore.numbers.evaluation import Evaluation
from costcore.numbers.expressions import symbol_of
from costcore.registry.frontends import needed_ability
from costcore.renamed import named, renamed
from costcore.studies.serving.cached_model import CachedModel, Latent
from costcore.studies.serving.capacity import Capacity, memory_of
from costcore.studies.serving.formats import dtype_of, format_of
from costcore.studies.serving.latents import WAYS
from costcore.studies.serving.phase import CACHES, Phase
from costcore.studies.serving.point import SHAPES, Point
from costcore.studies.serving.runs import Runs
from costcore.studies.serving.stored_weights import StoredWeights
from costcore.studies.serving.tally import Tallies, Widths
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.text.amounts import parse_bytes
from costcore.trace.call import Assumption

if TYPE_CHECKING:
    from costcore.analyses.devices.device import Device
    from costcore.studies.serving.speculative import Speculation

FORMULA_COLUMNS = ("macs", "flops", "load_weight", "load_act", "store_act", "load_kv", "store_kv")
"""The amounts that have formulas; those of bytes are in bits."""


class ServingReport(Result):
    """What prefill and decode of a language model cost, and how many sequences fit beside it.

    The model runs on the meta device, on new tokens after others that are in its cache, at few sizes; what it computes,
    reads and writes then follows from formulas in the number of sequences, of new tokens and of cached ones, or from a
    run at just these sizes where no formula holds. The model is not changed.

    Args:
        model: a language model of transformers, or a module that takes ``input_ids`` and a cache; or the path of a GGUF
            file, or of a folder of safetensors files with the configuration of transformers.
        dtype: dtype of activations and products, ``"bfloat16"``; default: that of the weights of the model.
        weights: format in which matrices are stored, ``"int4"``; default: as the model or its file has them. Vectors,
            such as those of norms, are stored in ``dtype``. Weights that the model has in packed storages stay as they
            are.
        kv: format of keys and values; default: ``dtype``. States of recurrences stay as the model has them.
        activations: dtype to which inputs of products with weights are quantized, ``"int8"``, ``"fp8"``; default: as
            the packed weights of the model have it, else ``dtype``.
        cache: how the cache grows: ``"static"`` (in memory that is there), ``"paged"`` (in blocks) or ``"dynamic"`` (by
            a copy of all of it); or the name of a cache that a plug-in registers by the hook ``costcore_caches``.
        block: tokens of a block of a paged cache.
        keep: patterns of modules whose weights are stored in ``dtype``, ``["lm_head", "*.gate"]``.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if the model takes no cache, or fails.
    """

    def __init__(
        self,
        model: Any,
        *,
        dtype: str | None = None,
        weights: str | None = None,
        kv: str | None = None,
        activations: str | None = None,
        cache: str = "static",
        block: int = 16,
        keep: Iterable[str] = (),
    ) -> None:
        _check_count("block", block)
        if not isinstance(cache, str):
            raise TypeError(f"cache must be a name such as 'static' (got {cache!r})")
        if isinstance(keep, str):
            raise TypeError(f"keep must be a list of patterns of modules (got {keep!r})")
        for name, value in {"dtype": dtype, "weights": weights, "kv": kv, "activations": activations}.items():
            if value is not None:
                format_of(value, name)
        self._model = _cached_model(model, cache, None if dtype is None else dtype_of(dtype, "dtype"))
        self.dtype = self._model.dtype if dtype is None else dtype_of(dtype, "dtype")
        quantized = next((each.act_dtype for each in self._model.packed.values() if each.act_dtype), self.dtype)
        self._activations = None if activations is None else dtype_of(activations, "activations")
        self.compute_dtype = self._activations or quantized
        self._weights = None if weights is None else format_of(weights, "weights")
        self._kv = format_of(self.dtype if kv is None else kv, "kv")
        self._stored = StoredWeights(self._model, self.dtype, self._weights, self._activations, tuple(keep))
        self.cache, self.block = cache, block
        parts = self._model.parts
        self._latents: Sequence[Latent] = self._model.latents
        self._windows = tuple(sorted({part.window for part in parts if part.window}))
        self._capacity = Capacity(parts, self._latents, self._kv, block if cache == "paged" else 1)
        act = BITS[self.dtype]
        latents = tuple(each.module for each in self._latents)
        widths = Widths(act, self._kv.bits_with_scales, self._stored.width, latents)
        self._runs = Runs(self._model, widths, self._windows)

    @named("batch", first=2)
    def prefill(
        self, tokens: int, *, batch: int = 1, cached: int = 0, last_only: bool = False, latent: str = "expanded"
    ) -> Phase:
        """Return the pass over a prompt.

        Args:
            tokens: tokens of the prompt of each sequence.
            batch: number of sequences.
            cached: how many of them are in the cache already, as a prefix that another sequence had: they need no pass,
                but attention reads them.
            last_only: whether the model computes scores for the last token alone (``logits_to_keep=1``).
            latent: see :meth:`decode`.

        Raises:
            TypeError, ValueError: if a number is invalid.
            CostError: if the model fails.
        """
        _check_count("tokens", tokens)
        if not isinstance(cached, int) or not 0 <= cached < tokens:
            raise ValueError(f"cached must be a number of tokens, 0 to {tokens - 1} (got {cached!r})")
        return self._phase(batch, tokens - cached, cached, last_only, latent)

    @named("batch", "context")
    def decode(self, *, batch: int = 1, context: int = 1024, tokens: int = 1, latent: str = "expanded") -> Phase:
        """Return one step: new tokens of each sequence after those in the cache.

        Args:
            batch: number of sequences.
            context: tokens of each sequence that the last new token attends to, itself included.
            tokens: new tokens of each sequence: 1, or more if drafts are verified.
            latent: how attention over latent vectors (DeepSeek) works: ``"expanded"``, on keys and values that are made
                once per token and kept; ``"absorbed"``, on the latents, as engines decode; ``"recomputed"``, on keys
                and values that every pass makes of all latents, as transformers 5 does. Other attention has no choice.

        Raises:
            TypeError, ValueError: if a number is invalid.
            CostError: if the model fails.
        """
        _check_count("context", context)
        _check_count("tokens", tokens)
        if context < tokens:
            raise ValueError(f"context must contain the new tokens, at least {tokens} (got {context})")
        return self._phase(batch, tokens, context - tokens, False, latent)

    def _phase(self, batch: int, tokens: int, past: int, last_only: bool, latent: str) -> Phase:
        _check_count("batch", batch)
        point = Point(batch, tokens, past)
        return self._made(point, self._runs.at(point, last_only), latent)

    def _made(self, point: Point, tallies: Tallies, latent: str) -> Phase:
        if latent not in WAYS:
            raise ValueError(unknown("latent", latent, WAYS))
        bits, window = (BITS[self.dtype], self._kv.bits_with_scales), next(iter(self._windows), None)
        phase = Phase(point, tallies, self.compute_dtype, *bits, window, self.cache)
        return phase.with_latents(self._latents, latent) if self._latents else phase

    def speculative(
        self, draft: ServingReport, *, drafts: int, acceptance: float, batch: int = 1, context: int = 1024
    ) -> Speculation:
        """Return a step of speculative decoding; see :class:`costcore.studies.serving.speculative.Speculation`.

        Args:
            draft: the model that drafts.
            drafts: tokens that it drafts for each sequence.
            acceptance: probability that a draft is accepted, 0 to 1, which depends on both models and the text.
            batch: number of sequences.
            context: tokens of each sequence with the drafts and the token after them.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        from costcore.studies.serving.speculative import Speculation

        _check_count("drafts", drafts)
        if isinstance(acceptance, bool) or not isinstance(acceptance, (int, float)) or not 0 <= acceptance <= 1:
            raise ValueError(f"acceptance must be a probability, 0 to 1 (got {acceptance!r})")
        verify = self.decode(batch=batch, context=context, tokens=drafts + 1)
        return Speculation(draft.decode(batch=batch, context=context - 1), verify, drafts, acceptance)

    @renamed(length="context")
    def formula(
        self,
        phase: str,
        column: str = "macs",
        *,
        context: int = 1024,
        last_only: bool = False,
        latent: str = "expanded",
    ) -> Dim:
        """Return a formula in ``batch``, and ``tokens`` (prefill), ``context`` (decode) or both (extend).

        Args:
            phase: ``"prefill"``, ``"decode"`` (one new token) or ``"extend"`` (new tokens after others in the cache).
            column: ``"macs"``, ``"flops"``, or a column of bytes; experts are those that rows need at most.
            context: a number of tokens near which it is needed. Windows make other formulas beyond them.
            last_only: as in :meth:`prefill`.
            latent: as in :meth:`decode`.

        Raises:
            ValueError: for an unknown phase or column.
            CostError: if there is no formula; the message has the reason.
        """
        if phase not in SHAPES:
            raise ValueError(unknown("phase", phase, SHAPES))
        if column not in FORMULA_COLUMNS:
            raise ValueError(unknown("column", column, FORMULA_COLUMNS))
        piece = self._runs.piece(phase, context - (phase != "prefill"), last_only)
        if piece.tallies is None:
            raise CostError(f"{phase} of {self._model.name} has no formula near {context} tokens: {piece.reason}")
        at: Any = Point(*(symbol_of(size) if isinstance(size, str) else size for size in SHAPES[phase]))
        made = self._made(at, piece.tallies, latent)
        found = getattr(made.total, column)
        found = found if column in ("macs", "flops") else found / 8
        return Evaluation({symbol_of("past"): symbol_of("context") - at.tokens})(found).expand()

    @property
    def n_params(self) -> int:
        """Number of all parameters, packed ones included; tied ones count once."""
        return self._stored.n_params

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters as they are stored, with their scales."""
        return self._stored.nbytes

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that one token adds to the cache of all layers; of latent attention those of the latents.

        Layers with a window keep no more tokens than it has: see :meth:`cache_bytes`.
        """
        return self._capacity.bytes_per_token(expanded=False)

    @property
    def expanded_kv_bytes_per_token(self) -> int:
        """The same if keys and values that are made of latents are kept; without latents equal to the former."""
        return self._capacity.bytes_per_token(expanded=True)

    @renamed(length="context")
    def cache_bytes(self, context: int, *, latent: str = "absorbed") -> int:
        """Return the bytes of the cache of one sequence.

        A paged cache has whole blocks.

        Args:
            context: tokens of the sequence.
            latent: ``"expanded"`` if keys and values that are made of latents are kept, else the latents are.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        _check_count("context", context)
        if latent not in WAYS:
            raise ValueError(unknown("latent", latent, WAYS))
        return self._capacity.cache_bytes(context, expanded=latent == "expanded")

    @renamed(length="context")
    def max_sequences(
        self,
        device: str | PathLike[str] | Device | None = None,
        *,
        context: int,
        share: float = 0.9,
        memory: int | str | None = None,
        latent: str = "absorbed",
    ) -> int:
        """Return how many sequences fit beside the weights, each with a cache of its full length.

        Activations, workspace and fragmentation are what the rest of the memory is for.

        Args:
            device: a device whose memory is known.
            context: tokens of each sequence.
            share: the part of the memory that weights and caches may take.
            memory: bytes of the memory in place of those of a device, also as a text such as ``"80 GB"``.
            latent: as in :meth:`cache_bytes`.

        Raises:
            TypeError, ValueError: if an argument is invalid, or neither a device nor a memory is given.
            CostError: if the memory of the device is unknown.
        """
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise ValueError(f"share must be a number above 0, at most 1 (got {share!r})")
        _check_count("context", context)
        if latent not in WAYS:
            raise ValueError(unknown("latent", latent, WAYS))
        available = memory_of(device) if memory is None else parse_bytes(memory, "memory")
        return self._capacity.sequences(available, self.weight_bytes, context, share, latent == "expanded")

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was assumed, as far as passes were needed."""
        made = tuple(self._runs.assumptions)
        return (*made, Assumption(INDEPENDENT)) if self._runs.at(Point(1, 1, 0)).experts else made

    @property
    def status(self) -> str:
        """``complete``, ``assumed`` or ``partial`` (see :attr:`uncounted`), as far as passes were needed."""
        return "partial" if self.uncounted else "assumed" if self.assumptions else "complete"

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Operators without a formula, which no figure includes."""
        return tuple(self._runs.uncounted)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the file of the weights, and on the cache, as far as passes were needed."""
        times = self._runs.times_cached
        text = f"the cache holds each head of keys and values up to {times} times, as the model repeats them before"
        return (*self._stored.notes, *((text,) if times > 1 else ()))

    @property
    def most_tokens(self) -> int | None:
        """The longest sequence for which the model has positions; None if it states none."""
        return self._model.most_tokens

    @property
    def latents(self) -> tuple[Latent, ...]:
        """The attention layers that make keys and values of a latent vector."""
        return tuple(self._latents)

    @property
    def name(self) -> str:
        """Name of the class of the model."""
        return self._model.name

    def _answer(self) -> Answer:
        cache = f"{self._kv.name}, {self.cache}"
        figures = [
            Figure("n_params", "Parameters", self.n_params, "flops"),
            Figure("weight_bytes", "Weights", self.weight_bytes, "bytes", self._stored.format),
            Figure("kv_bytes_per_token", "Cache per token", self.kv_bytes_per_token, "bytes", cache),
        ]
        if self.most_tokens is not None:
            figures.append(Figure("most_tokens", "Longest sequence", self.most_tokens, "count", "tokens"))
        remarks = [*self.notes, *(f"assumed: {each}" for each in self._runs.assumptions)]
        return Answer(f"{self.name}, served in {self.dtype}", figures, (), remarks)

    def __repr__(self) -> str:
        stored = "" if self._stored.format == self.dtype else f", weights {self._stored.format}"
        return f"<ServingReport: {self.name}, {self.n_params:,} parameters, {self.dtype}{stored}, kv {self._kv.name}>"


INDEPENDENT = (
    "tokens choose experts with equal probability and independently: E (1 - (1 - k / E) ** tokens) of E are expected"
)
"""What expected reads of experts rest on."""


def _cached_model(model: Any, cache: str, dtype: str | None) -> CachedModel:
    model = model_of(model)
    make = needed_ability("cached_model", model, "ServingReport")
    made: CachedModel = make(model, "dynamic" if cache in CACHES else cache, dtype)
    return made


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer (got {value!r})")
    if value < 1:
        raise ValueError(f"{name} must be at least 1 (got {value})")
