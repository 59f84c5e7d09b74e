"""The serving costs of a language model: prefill, decode, the table of both on devices, weights and cache capacity.

:class:`ServingReport` captures passes at few sizes and derives all others from formulas. Weights and cache can be
stored in other formats than the model has, with their scales.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from math import ceil
from os import PathLike
from typing import Any, Literal, NamedTuple

from costcore.analyses.devices.device import Device, find_device, link_of, memory_size
from costcore.api.estimate import model_of
from costcore.errors import CostError, CostWarning, unknown
from costcore.ir import BITS, Tensor
from costcore.numbers import Dim, Evaluation, symbol_of
from costcore.registry import needed_ability
from costcore.studies.serving.cached_model import Blocks, CachedModel, CachedPart, ExpertLayers, Latent, Parameter
from costcore.studies.serving.passes import SHAPES, WAYS, Point, Runs, StoredWeight, Tallies, Widths
from costcore.studies.serving.phase import CACHES, Phase, Speculation
from costcore.studies.serving.requests import RequestRates, Setup, peak_notes, request_rates, requests_of
from costcore.tables.answer import Content, Figure
from costcore.tables.html import Part, filled, section, text
from costcore.tables.result import Result, StaticResult, Table
from costcore.text.amounts import Formatted, exact, parse_duration, parse_memory, short
from costcore.text.output import Column
from costcore.trace.call import Assumption, assumptions_as_text, check_attention

FORMULA_COLUMNS = ("macs", "flops", "load_weight", "load_act", "store_act", "load_kv", "store_kv")
"""The columns with formulas."""


class ServingReport(Result):
    """The costs of prefill and decode of a language model, and the number of sequences that fit beside its weights.

    The model runs on the meta device at a few sizes, on new tokens after cached ones. Formulas in the numbers of
    sequences, new tokens and cached tokens give operations and bytes of all other sizes; a size without a formula is
    run, too. The model is not changed.

    Args:
        model: a language model of transformers, or a module that takes ``input_ids`` and a cache; or the path of a GGUF
            file, or of a folder of safetensors files with the configuration of transformers.
        dtype: dtype of activations and products, ``"bfloat16"``; default: that of the weights of the model.
        weights: format in which matrices are stored, ``"int4"``; default: the format of the model or its file. Vectors,
            such as norm weights, are stored in ``dtype``. Packed weights keep their format.
        kv: format of keys and values; default: ``dtype``. Recurrent states keep their dtype.
        activations: dtype to which inputs of products with weights are quantized, ``"int8"``, ``"fp8"``; default: the
            activation dtype of packed weights, else ``dtype``.
        cache: how the cache grows: ``"static"`` (preallocated), ``"paged"`` (in blocks) or ``"dynamic"`` (copied as
            a whole); or the name of a cache that a plug-in registers by the hook ``costcore_caches``.
        block: tokens of a block of a paged cache.
        keep: patterns of modules with weights stored in ``dtype``, ``["lm_head", "*.gate"]``.
        attention: ``"all"`` counts all pairs of new tokens and keys; ``"computed"`` counts the pairs that masks allow,
            as for :func:`costcore.estimate`. Times and rates never depend on pairs that a kernel can skip.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if the model takes no cache, or fails.
    """

    dtype: str
    compute_dtype: str
    cache: str
    block: int

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
        attention: Literal["all", "computed"] = "all",
    ) -> None:
        _check_count("block", block)
        check_attention(attention)
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
        if weights is not None and _MIXED.fullmatch(weights.strip().lower()):
            stored = format_of(weights, "weights").name
            remark = f"{weights} mixes formats: some weights have more bits than {stored}, in which all are counted"
            warnings.warn(f"{remark}. A .gguf file has the exact size.", CostWarning, stacklevel=2)
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
        self._is_computed = attention == "computed"
        self._runs = Runs(self._model, widths, self._windows, self._is_computed)

    def prefill(
        self, tokens: int, *, batch: int = 1, cached: int = 0, last_only: bool = False, latent: str = "expanded"
    ) -> Phase:
        """Return the pass over a prompt.

        Args:
            tokens: tokens of the prompt of each sequence.
            batch: number of sequences.
            cached: tokens of the prompt that are in the cache already, such as a shared prefix: attention reads them,
                but the pass does not compute them.
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

    def decode(self, *, batch: int = 1, context: int = 1024, tokens: int = 1, latent: str = "expanded") -> Phase:
        """Return one step: new tokens of each sequence after those in the cache.

        Args:
            batch: number of sequences.
            context: tokens of each sequence that the last new token attends to, itself included.
            tokens: new tokens of each sequence: 1, or more if drafts are verified.
            latent: how multi-head latent attention (DeepSeek) runs: ``"expanded"`` computes the keys and values of a
                token once and caches them; ``"absorbed"`` caches the latent vectors and attends to them, as engines
                do; ``"recomputed"`` caches the latent vectors and computes all keys and values in every pass, as
                transformers 5 does. Other attention ignores it.

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
        return self._with_way(point, self._runs.at(point, last_only), latent)

    def _with_way(self, point: Point, tallies: Tallies, latent: str) -> Phase:
        if latent not in WAYS:
            raise ValueError(unknown("latent", latent, WAYS))
        bits, window = (BITS[self.dtype], self._kv.bits_with_scales), next(iter(self._windows), None)
        phase = Phase(point, tallies, self.compute_dtype, *bits, window, self.cache, self._is_computed)
        return phase.with_latents(self._latents, latent) if self._latents else phase

    def speculative(
        self, draft: ServingReport, *, drafts: int, acceptance: float, batch: int = 1, context: int = 1024
    ) -> Speculation:
        """Return a step of speculative decoding; see :class:`costcore.studies.serving.phase.Speculation`.

        Args:
            draft: the model that drafts.
            drafts: tokens that it drafts for each sequence.
            acceptance: probability that a draft is accepted, 0 to 1, which depends on both models and the text.
            batch: number of sequences.
            context: tokens of each sequence with the drafts and the token after them.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        _checked_draft(drafts, acceptance)
        verify = self.decode(batch=batch, context=context, tokens=drafts + 1)
        return Speculation(draft.decode(batch=batch, context=context - 1), verify, drafts, acceptance)

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
            column: ``"macs"``, ``"flops"``, or a column of bytes; weights are of the maximum number of experts.
            context: tokens near which the formula must hold; attention windows make it piecewise.
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
        made = self._with_way(at, piece.tallies, latent)
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
        """Bytes that one token adds to the cache of all layers; latent attention caches the latents.

        A layer with a window keeps at most that many tokens: see :meth:`cache_bytes`.
        """
        return self._capacity.bytes_per_token(expanded=False)

    @property
    def expanded_kv_bytes_per_token(self) -> int:
        """Bytes that one token adds to the cache if latent attention caches the expanded keys and values."""
        return self._capacity.bytes_per_token(expanded=True)

    def cache_bytes(self, context: int, *, latent: str = "absorbed") -> int:
        """Return the bytes of the cache of one sequence.

        A paged cache has whole blocks.

        Args:
            context: tokens of the sequence.
            latent: ``"expanded"`` if latent attention caches keys and values; otherwise it caches latent vectors.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        _check_count("context", context)
        if latent not in WAYS:
            raise ValueError(unknown("latent", latent, WAYS))
        return self._capacity.cache_bytes(context, expanded=latent == "expanded")

    def max_sequences(
        self,
        device: str | PathLike[str] | Device | None = None,
        *,
        context: int,
        share: float = 0.9,
        memory: int | str | None = None,
        latent: str = "absorbed",
    ) -> int:
        """Return the number of sequences that fit with the weights, each with a cache of its full length.

        The rest of the memory is for activations, workspace and fragmentation.

        Args:
            device: a device with known memory.
            context: tokens of each sequence.
            share: the part of the memory that weights and caches may take.
            memory: the memory in place of a device, in bytes or as ``"80 GB"``.
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
        available = memory_of(device) if memory is None else parse_memory(memory, "memory")
        return self._capacity.sequences(available, self.weight_bytes, context, share, latent == "expanded")

    def requests(
        self,
        device: str | PathLike[str] | Device,
        *,
        prompt: int | Sequence[int],
        output: int | Sequence[int],
        shares: Sequence[float] | None = None,
        batches: Sequence[int] = (1, 8, 64),
        chunk: int | None = None,
        cached: int = 0,
        ranks: int = 1,
        expert_ranks: int = 1,
        link: Any = None,
        prefill_device: str | PathLike[str] | Device | None = None,
        draft: ServingReport | None = None,
        drafts: int = 4,
        acceptance: float = 0.7,
        memory: int | str | None = None,
        share: float = 0.9,
        ttft: float | str | None = None,
        tpot: float | str | None = None,
        price: float | None = None,
    ) -> RequestRates:
        """Return time to the first token, time per token and request rate of a server, by batch.

        Every step takes its lower bound, and the rates follow in closed form: the batch is always full, because the
        next request begins when one ends. There is no queue. Another schedule may be faster.

        Args:
            device: the device, or its name.
            prompt: tokens of a prompt; a list for several kinds of requests.
            output: tokens to generate; a list as long as ``prompt``.
            shares: the share of the requests of each kind; default: equal.
            batches: numbers of sequences that run at a time.
            chunk: tokens of prompts that run with every decode step (chunked prefill); default: prompts run whole, one
                at a time, while the others wait.
            cached: tokens of a cached prefix that all prompts share.
            ranks: devices that share the model by tensor parallelism.
            expert_ranks: devices that divide the experts of every layer; each holds whole experts. A multiple of
                ``ranks``; each group of ``ranks`` devices serves its own sequences.
            link: the link between the devices that share the model, ``"nvlink4"``, and to ``prefill_device``.
            prefill_device: a device that runs prompts alone, so that ``device`` only decodes.
            draft: a model that drafts (speculative decoding).
            drafts: tokens that it drafts in every step.
            acceptance: probability that a draft is accepted, which depends on both models and the text.
            memory: the memory of one device, in bytes or as ``"80 GB"``; default: that of the device.
            share: the part of the memory that weights and caches may take.
            ttft: maximum time to the first token, in seconds or as ``"500 ms"``, for the largest request rate.
            tpot: maximum time per output token.
            price: the price of one device for an hour, in any currency. Prompt tokens share the price of prefill
                seconds, and output tokens the price of decode seconds.

        Raises:
            TypeError, ValueError: if an argument is invalid.
            CostError: if the model fails, cannot be split over ranks, or the bandwidth of the device is unknown.
        """
        found = find_device(device)
        counts = {"chunk": [1 if chunk is None else chunk], "ranks": [ranks], "expert_ranks": [expert_ranks]}
        for name, values in {**counts, "batches": batches}.items():
            for value in values:
                _check_count(name, value)
        if memory is None and found.memory.dram_gb is not None:
            memory = memory_of(found)
        setup = Setup(
            requests=requests_of(prompt, output, shares),
            chunk=chunk,
            cached=cached,
            ranks=ranks,
            expert_ranks=expert_ranks,
            link=None if link is None else link_of(link),
            prefill_device=None if prefill_device is None else find_device(prefill_device),
            drafts=0 if draft is None else drafts,
            acceptance=_checked_draft(drafts, acceptance),
            price=price,
        )
        return request_rates(
            *(self, found, setup, batches),
            memory=None if memory is None else parse_memory(memory, "memory"),
            share=share,
            ttft=None if ttft is None else parse_duration(ttft, "ttft"),
            tpot=None if tpot is None else parse_duration(tpot, "tpot"),
            draft=draft,
        )

    @property
    def blocks(self) -> Blocks | None:
        """Number, width and KV heads of the layers; None if the configuration does not state them."""
        return self._model.blocks

    @property
    def experts(self) -> ExpertLayers | None:
        """Its layers with experts; None without any."""
        calls = self._runs.at(Point(1, 1, 0)).experts
        if not calls:
            return None
        stacked = [each for each in self._model.parameters if each.ndim > 2 and each.size % int(calls[0].experts) == 0]
        layers = {each.module for each in stacked}
        bits = sum(each.size * self._stored.width(each.module, each).stored for each in stacked)
        return ExpertLayers(len(layers), int(calls[0].experts), Fraction(int(calls[0].rows)), round(Fraction(bits) / 8))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The assumptions of the passes captured so far."""
        made = tuple(self._runs.assumptions)
        return (*made, Assumption(INDEPENDENT)) if self._runs.at(Point(1, 1, 0)).experts else made

    @property
    def status(self) -> str:
        """``complete``, ``assumed`` or ``partial`` (see :attr:`uncounted`), of the passes captured so far."""
        return "partial" if self.uncounted else "assumed" if self.assumptions else "complete"

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Operators without a formula: no figure includes them."""
        return tuple(self._runs.uncounted)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the file of the weights, and on the cache of the passes captured so far."""
        times = self._runs.times_cached
        text = f"the model repeats heads of keys and values before caching: the cache holds each up to {times} times"
        return (*self._stored.notes, *((text,) if times > 1 else ()))

    @property
    def most_tokens(self) -> int | None:
        """The longest sequence for which the model has positions; None if it states none."""
        return self._model.most_tokens

    @property
    def scores_all(self) -> bool:
        """Whether the model computes the scores of all tokens, and cannot leave out those before the last one."""
        return self._model.scores_all

    @property
    def latents(self) -> tuple[Latent, ...]:
        """The attention layers that expand latent vectors to keys and values."""
        return tuple(self._latents)

    @property
    def name(self) -> str:
        """Name of the class of the model."""
        return self._model.name

    def _content(self) -> Content:
        cache = f"{self._kv.name}, {self.cache}"
        figures = [
            Figure("n_params", "Parameters", self.n_params, "flops"),
            Figure("weight_bytes", "Weights", self.weight_bytes, "bytes", self._stored.format),
            Figure("kv_bytes_per_token", "Cache per token", self.kv_bytes_per_token, "bytes", cache),
        ]
        if self.most_tokens is not None:
            figures.append(Figure("most_tokens", "Longest sequence", self.most_tokens, "count", "tokens"))
        remarks = [*self.notes, *(f"assumed: {each}" for each in assumptions_as_text(self._runs.assumptions))]
        return Content(f"{self.name}, served in {self.dtype}", figures, (), remarks)

    def __repr__(self) -> str:
        stored = "" if self._stored.format == self.dtype else f", weights {self._stored.format}"
        return f"<ServingReport: {self.name}, {self.n_params:,} parameters, {self.dtype}{stored}, kv {self._kv.name}>"


INDEPENDENT = (
    "tokens choose experts with equal probability and independently: E (1 - (1 - k / E) ** tokens) of E are expected"
)
"""The assumption behind expected reads of experts."""


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


def _checked_draft(drafts: int, acceptance: float) -> float:
    _check_count("drafts", drafts)
    if isinstance(acceptance, bool) or not isinstance(acceptance, (int, float)) or not 0 <= acceptance <= 1:
        raise ValueError(f"acceptance must be a probability, 0 to 1 (got {acceptance!r})")
    return acceptance


# Table of prefill and decode on devices.


class Row(NamedTuple):
    """A pass on a device.

    Attributes:
        device: name of the device.
        phase: ``prefill`` or ``decode``; ``decode, expanded`` or ``decode, absorbed`` of latent attention.
        batch: number of sequences.
        macs_per_token: MACs per new token.
        weight_bytes: bytes of weights that are read.
        kv_bytes: bytes of the cache that are read, new tokens included.
        intensity: FLOPs of products per byte of weights and cache.
        binds: ``compute`` or ``memory``.
        bound_seconds: the minimum time of the pass; if it has experts, the minimum time of the mean pass.
        least_seconds: the minimum time of every pass, even if all tokens choose the same experts.
        tokens_per_second: new tokens per second, at most; None if the sequences do not fit the device.
        sequences: how many sequences of this context fit; None if the memory of the device is unknown.
        price_per_million: the price of a million new tokens at least; None without a price of the device.
    """

    device: str
    phase: str
    batch: int
    macs_per_token: float
    weight_bytes: int
    kv_bytes: int
    intensity: float
    binds: str
    bound_seconds: float
    least_seconds: float
    tokens_per_second: float | None
    sequences: int | None
    price_per_million: float | None = None


def serving_rows(
    serving: ServingReport,
    devices: Sequence[Device],
    batches: Sequence[int],
    context: int,
    *,
    share: float = 0.9,
    memory: int | str | None = None,
    last_only: bool = False,
    price: float | None = None,
) -> list[Row]:
    """Return a prefill of one prompt and decode steps of every batch, on every device.

    Args:
        serving: the model.
        devices: the devices.
        batches: numbers of sequences of a decode step.
        context: tokens of a prompt, and of every sequence that is decoded.
        share: the part of the memory of a device that weights and caches may take.
        memory: memory in place of that of the devices.
        last_only: whether a prefill computes scores for the last token alone.
        price: the price of a device for an hour, in any currency.

    Raises:
        CostError: if the model fails, or the bandwidth of a device is unknown.
        TypeError, ValueError: if an argument is invalid.
    """
    phases = list(_phases(serving, batches, context, last_only))
    rows = [
        _row(device, name, phase, _fitting(serving, device, name, context, share, memory))
        for device in devices
        for name, phase in phases
    ]
    if price is None:
        return rows
    return [
        row._replace(price_per_million=1e6 * price / (3600 * row.tokens_per_second)) if row.tokens_per_second else row
        for row in rows
    ]


def _phases(
    serving: ServingReport, batches: Sequence[int], context: int, last_only: bool
) -> Iterator[tuple[str, Phase]]:
    yield "prefill", serving.prefill(context, last_only=last_only)
    ways = ("expanded", "absorbed") if serving.latents else ("",)
    for way in ways:
        for batch in batches:
            step = serving.decode(batch=batch, context=context, latent=way or "expanded")
            yield f"decode, {way}" if way else "decode", step


def _fitting(
    serving: ServingReport, device: Device, phase: str, context: int, share: float, memory: int | str | None
) -> int | None:
    if memory is None and device.memory.dram_gb is None:
        return None
    latent = "expanded" if phase.endswith("expanded") else "absorbed"
    return serving.max_sequences(device, context=context, share=share, memory=memory, latent=latent)


def _row(device: Device, name: str, phase: Phase, sequences: int | None) -> Row:
    time = phase.time(device)
    return Row(
        device=device.name,
        phase=name,
        batch=phase.batch,
        macs_per_token=phase.macs / phase.new_tokens,
        weight_bytes=phase.load_weight,
        kv_bytes=phase.load_kv,
        intensity=phase.intensity,
        binds=time.binds,
        bound_seconds=time.bound_seconds,
        least_seconds=time.least_seconds,
        tokens_per_second=time.tokens_per_second if sequences is None or phase.batch <= sequences else None,
        sequences=sequences,
    )


COLUMNS = (
    *(Column("device", "Device"), Column("phase", "Phase"), Column("batch", "Batch", "count")),
    *(
        Column("macs_per_token", "MACs/token", "ratio", unit="G"),
        Column("weight_bytes", "Weights", "ratio", unit="GiB"),
    ),
    *(Column("kv_bytes", "KV", "ratio", unit="GiB"), Column("intensity", "Intensity", "ratio", unit="FLOP/B")),
    *(Column("binds", "Bound by"), Column("bound_seconds", "Bound", "ratio", "bound", unit="ms")),
    Column("tokens_per_second", "At most", "ratio", "bound", unit="tokens/s"),
    Column("price_per_million", "Price of 1M tokens", "ratio", "bound"),
    Column("sequences", "Sequences that fit", "count"),
)

SHOWN = {
    "macs_per_token": (1e-9, 2),
    **dict.fromkeys(("weight_bytes", "kv_bytes"), (2**-30, 2)),
    "intensity": (1, 2),
    "bound_seconds": (1e3, 2),
    "tokens_per_second": (1, 0),
}
"""Factor and digits after the decimal point of the displayed numbers."""

NO_ROOM = "no room"
"""Shown instead of a rate if the sequences do not fit."""

DROPPED_FIRST = ("intensity", "kv_bytes", "weight_bytes", "macs_per_token", "binds", "sequences")


def serving_table(rows: Sequence[Row], mode: str = "table") -> Table:
    """Return rows as a table, for a mode of :meth:`Table.show`: ``csv`` has no separators of thousands."""
    has_price = any(row.price_per_million is not None for row in rows)
    columns = [column for column in COLUMNS if has_price or column.key != "price_per_million"]
    return Table("Prefill and decode", columns, [_cells(row, mode) for row in rows], dropped_first=DROPPED_FIRST)


def serving_page(
    serving: ServingReport,
    rows: Sequence[Row],
    lines: Sequence[str],
    memories: Mapping[str, int],
    context: int,
    share: float,
) -> StaticResult:
    """Return the table as the content of a page, with a bar of the memory of each device.

    Args:
        serving: the model.
        rows: the rows.
        lines: the remarks.
        memories: the bytes of the memory of each device.
        context: tokens of every sequence.
        share: the part of the memory that weights and caches may take.
    """
    fits = {row.device: row.sequences for row in rows if row.sequences}
    bars = "".join(
        f"<h3>{text(name)}: {exact(fits[name])} sequences of {exact(context)} tokens</h3>"
        + filled(
            [
                Part("parameter", "weights", serving.weight_bytes),
                Part("kv", "KV cache", fits[name] * serving.cache_bytes(context)),
                Part("workspace", "left for activations", round((1 - share) * limit)),
            ],
            limit,
            name,
        )
        for name, limit in memories.items()
        if name in fits
    )
    answer = serving._content()._replace(tables=[serving_table(rows)], remarks=lines, model=serving.name)
    return StaticResult(answer, section("What fills a device", bars))


def _cells(row: Row, mode: str) -> dict[str, Any]:
    values = row._asdict()
    shown, comma = {}, "" if mode == "csv" else ","
    for key, (factor, digits) in SHOWN.items():
        text = NO_ROOM
        if values[key] is not None:
            value = factor * values[key]
            text = f"{value:.2g}" if 0 < value < 0.5 * 0.1**digits else f"{value:{comma}.{digits}f}"
        shown[key] = Formatted(values[key], text)
    if row.price_per_million is not None:
        shown["price_per_million"] = Formatted(row.price_per_million, f"{row.price_per_million:.4f}")
    return {**values, **shown, "sequences": "" if row.sequences is None else row.sequences}


def remarks(serving: ServingReport, phases: Sequence[Phase], devices: Sequence[Device]) -> list[str]:
    """Return the remarks on the figures of a table, without repetition."""
    found = [text for device in devices for phase in phases for text in phase.time(device).remarks]
    found += [line for device in devices for line in peak_notes(device, serving.compute_dtype)]
    weights = short(serving.weight_bytes, "bytes")
    found.append(f"weights {weights}, cache {serving.kv_bytes_per_token:,} bytes per token")
    most, longest = serving.most_tokens, max(phase.context for phase in phases)
    if most is not None and longest > most:
        found.append(f"the model has positions for {most:,} tokens, fewer than {longest:,}")
    found += [*serving.notes, *(f"assumed: {each}" for each in assumptions_as_text(serving.assumptions))]
    if serving.uncounted:
        found.append(f"not counted: {', '.join(serving.uncounted)}")
    return list(dict.fromkeys(found))


# Stored weights.


_FEW = 3
"""The maximum number of names in a remark."""


class StoredWeights:
    """How the weights of a model are stored and multiplied.

    Args:
        model: the model. Packed weights keep their format. Weights from a file keep it if ``weights`` is None.
        dtype: dtype of vectors, of modules that are kept, and of activations.
        weights: format of all other weights; None: ``dtype``.
        activations: dtype to which inputs of products are quantized; None: ``dtype``. Packed weights may have another.
        keep: patterns of modules with weights stored in ``dtype``.
    """

    def __init__(
        self, model: CachedModel, dtype: str, weights: Format | None, activations: str | None, keep: Sequence[str]
    ) -> None:
        self._model = model
        self._bits = BITS[dtype]
        self._weights = Format(dtype, self._bits) if weights is None else weights
        self._act = self._bits if activations is None else BITS[activations]
        self._keep = keep
        self._file = model.file if weights is None else None

    def width(self, module: str, weight: Parameter | Tensor) -> StoredWeight:
        """Return how a weight is stored, by the path of its module, its size and the number of its axes."""
        part = self._file and self._file.part(module, weight.size)
        if part:
            return StoredWeight(part.bits_with_scales, part.bits, self._act)
        packed, ndim = self._model.packed.get(module), weight.ndim
        if packed is not None and ndim > 1:
            act = BITS[packed.act_dtype] if packed.act_dtype else self._act
            return StoredWeight(Fraction(8 * packed.nbytes, packed.size), packed.bits, act)
        if ndim < 2 or any(fnmatchcase(module, each) for each in self._keep):
            return StoredWeight(Fraction(self._bits), self._bits, self._bits)
        return StoredWeight(self._weights.bits_with_scales, self._weights.bits, self._act)

    @property
    def n_params(self) -> int:
        """Number of all parameters, packed ones included; tied ones count once."""
        packed = sum(each.size for each in self._model.packed.values())
        return packed + sum(each.size for each in self._model.parameters)

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters with their scales; of a file, of all its tensors."""
        if self._file is not None:
            return self._file.nbytes
        bits = sum(each.size * self.width(each.module, each).stored for each in self._model.parameters)
        return ceil(bits / 8) + sum(each.nbytes for each in self._model.packed.values())

    @property
    def format(self) -> str:
        """The format of matrices; of a file, its formats by bytes in descending order."""
        return self._weights.name if self._file is None else ", ".join(self._file.formats)

    @property
    def notes(self) -> tuple[str, ...]:
        """A remark on tensors of the file that hold no parameter of the model."""
        others = () if self._file is None else self._file.others
        if not others:
            return ()
        more = f" and {len(others) - _FEW} more" if len(others) > _FEW else ""
        listed = ", ".join(others[:_FEW])
        return (
            f"the file also stores {listed}{more}, which the model does not have: the bytes of weights include them",
        )


# Cache capacity.


class Capacity:
    """The memory of caches.

    Args:
        parts: the cache of one sequence, by kind of layer.
        latents: the attention layers with latent vectors.
        kv: the format of keys and values.
        block: tokens of a block; a sequence has whole blocks.
    """

    def __init__(self, parts: Sequence[CachedPart], latents: Sequence[Latent], kv: Format, block: int) -> None:
        self._parts = parts
        self._kv = kv
        self._block = block
        self._of_latents = {True: sum(each.expanded for each in latents), False: sum(each.cached for each in latents)}

    def bytes_per_token(self, expanded: bool) -> int:
        """Return the bytes that one token adds to the cache of all layers.

        Args:
            expanded: whether expanded keys and values are kept instead of latents.
        """
        return self._nbytes(self._per_token(expanded))

    def cache_bytes(self, length: int, expanded: bool) -> int:
        """Return the bytes of the cache of one sequence of this length; see :meth:`bytes_per_token`.

        States of recurrences are in the dtypes that the model gives them, all else in the format of the cache.
        """
        kept = -(-length // self._block) * self._block
        change = self._per_token(expanded) - sum(part.per_token for part in self._parts)
        states = ceil(sum(part.state_bits or 0 for part in self._parts) / 8)
        return states + self._nbytes(sum(part.elements(kept) for part in self._parts) + kept * change)

    def sequences(self, memory: int, weight_bytes: int, length: int, share: float, expanded: bool) -> int:
        """Return the number of sequences of a length that fit into a share of the memory with the weights."""
        room = Fraction(str(share)) * memory - weight_bytes
        return max(0, int(room // self.cache_bytes(length, expanded)))

    def _per_token(self, expanded: bool) -> int:
        kept = sum(part.per_token for part in self._parts)
        # A model may cache latents, or the keys and values expanded from them: replace what it keeps.
        return kept - self._of_latents[kept >= self._of_latents[True]] + self._of_latents[expanded]

    def _nbytes(self, elements: int) -> int:
        return ceil(elements * self._kv.bits_with_scales / 8)


def memory_of(device: str | PathLike[str] | Device | None) -> int:
    """Return the bytes of the memory of a device.

    Raises:
        TypeError, ValueError, OSError: if there is no such device.
        CostError: if the size of its memory is unknown.
    """
    if device is None:
        raise TypeError("max_sequences needs a device, or memory='80 GB'")
    return memory_size(find_device(device))


# Storage formats of weights and caches.


class Format(NamedTuple):
    """A format of stored numbers.

    Attributes:
        name: its name.
        bits: bits of one number.
        scale_bits: bits of the scale that a group of numbers shares, with its zero point if it has one.
        group: how many numbers share a scale. 0 if there is no scale, or if a whole row or tensor shares a scale: such
            a scale is not counted.
    """

    name: str
    bits: int
    scale_bits: int = 0
    group: int = 0

    @property
    def bits_with_scales(self) -> Fraction:
        """Bits of one number and of its part of a scale."""
        return self.bits + (Fraction(self.scale_bits, self.group) if self.group else Fraction(0))


_NAMED = (
    Format("int8", 8),
    Format("fp8", 8),
    Format("int4", 4, 16, 128),  # GPTQ and AWQ: a float16 scale for 128 weights
    Format("int3", 3, 16, 128),
    Format("int2", 2, 16, 128),
    Format("nf4", 4, 32, 64),  # Dettmers et al., QLoRA, arXiv:2305.14314: a float32 scale for 64 weights
    Format("mxfp4", 4, 8, 32),  # OCP Microscaling Formats 1.0: a scale of 8 bits for 32 numbers
    Format("mxfp6", 6, 8, 32),
    Format("mxfp8", 8, 8, 32),
    Format("nvfp4", 4, 8, 16),  # NVIDIA: an FP8 scale for 16 numbers
    Format("q4_0", 4, 16, 32),  # llama.cpp: a float16 scale for 32 weights
    Format("q4_1", 4, 32, 32),  # with a float16 minimum
    Format("q5_0", 5, 16, 32),
    Format("q5_1", 5, 32, 32),
    Format("q8_0", 8, 16, 32),
    Format("q2_k", 2, 160, 256),  # llama.cpp, ggml-common.h: scales, minima and their two float16 factors of a block
    Format("q3_k", 3, 112, 256),
    Format("q4_k", 4, 128, 256),
    Format("q5_k", 5, 128, 256),
    Format("q6_k", 6, 144, 256),
    Format("fp16", 16),
    Format("bf16", 16),
    Format("fp32", 32),
)

FORMATS: Mapping[str, Format] = {each.name: each for each in _NAMED}
"""The named formats; every other dtype is a format without scales."""

DTYPES: Mapping[str, str] = {
    "fp8": "float8_e4m3fn",
    "mxfp8": "float8_e4m3fn",
    "mxfp4": "float4_e2m1",
    "nvfp4": "float4_e2m1",
    "mxfp6": "float6_e2m3",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
}
"""The dtypes of formats with another name than their dtype."""


_BITS = re.compile(r"(\d)[-_ ]?bits?")

_MIXED = re.compile(r"(q[23456]_k)_[sml]")


def _own_name(name: str) -> str:
    """Return the name of a format by its alias in another tool: ``4bit``, ``Q4_K_M``, ``half``.

    ``Q4_K_M`` is a mixture of ``q4_k`` and formats of more bits.
    """
    lower = name.strip().lower()
    if lower in FORMATS or lower in BITS:
        return lower
    if bits := _BITS.fullmatch(lower):
        return f"int{bits[1]}"
    if mixed := _MIXED.fullmatch(lower):
        return mixed[1]
    return {"half": "fp16", "float": "fp32", "f16": "fp16", "f32": "fp32"}.get(lower, lower)


def format_of(name: object, place: str) -> Format:
    """Return a format by its name; ``int4:32`` has one scale for 32 numbers.

    Args:
        name: a key of :data:`FORMATS` or a dtype, optionally with a size of groups.
        place: the argument, for messages.

    Raises:
        TypeError: if it is not a text.
        ValueError: for an unknown name, or an invalid size of groups.
    """
    if not isinstance(name, str):
        raise TypeError(f"{place} must be the name of a format such as 'int4' (got {name!r})")
    base, _, group = name.partition(":")
    base = _own_name(base)
    found = FORMATS.get(base) or (Format(base, BITS[base]) if BITS.get(base) else None)
    if found is None:
        raise ValueError(f"{place}: {unknown('format', base, [*FORMATS, *BITS])}")
    if not group:
        return found
    if not group.isdecimal() or not int(group):
        raise ValueError(f"{place}: {name!r} needs a size of groups such as int4:32")
    return found._replace(name=name, scale_bits=found.scale_bits or 16, group=int(group))


def dtype_of(name: object, place: str) -> str:
    """Return the compute dtype of a format.

    Raises:
        TypeError, ValueError: as :func:`format_of`.
    """
    base = format_of(name, place).name.partition(":")[0]
    return DTYPES.get(base, base)
