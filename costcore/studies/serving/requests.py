"""Serving requests: time to the first token, time per output token and request rate, against the batch.

:class:`RequestRates` follows from the bounds of a prefill and of decode steps, in closed form, for a server that always
has a given number of sequences running: as one ends, the next begins. There is no queue and no random arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil
from os import PathLike
from typing import Any, NamedTuple, Protocol

from costcore.analyses.devices.device import Device, Link, all_reduce_seconds, find_device
from costcore.errors import CostError
from costcore.ir import BITS
from costcore.studies.serving.cached_model import Blocks, ExpertLayers, Latent
from costcore.studies.serving.passes import expected_experts
from costcore.studies.serving.phase import Phase, Reached, least_time, reached
from costcore.tables.answer import Content, Figure
from costcore.tables.html import Axis, Point, scatter, section
from costcore.tables.pictures import Picture, Theme, bars_of
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, duration
from costcore.text.output import Column
from costcore.trace.call import Assumption, assumptions_as_text

MOST_SEQUENCES = 1 << 14
"""The maximum batch that is tried to meet limits, if the memory of a device is unknown or very large."""

N_CONTEXTS = 5
"""The number of contexts at which decode steps of a request are evaluated."""


class ServedModel(Protocol):
    """A language model with the costs of its passes; a :class:`costcore.ServingReport` is one."""

    dtype: str

    @property
    def name(self) -> str:
        """Name of the class of the model."""

    @property
    def blocks(self) -> Blocks | None:
        """Its layers."""

    @property
    def scores_all(self) -> bool:
        """Whether it computes logits for all tokens of a prompt, not for the last alone."""

    @property
    def latents(self) -> Sequence[Latent]:
        """Its attention layers with latent vectors."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters as they are stored."""

    @property
    def notes(self) -> Sequence[str]:
        """Remarks."""

    @property
    def assumptions(self) -> Sequence[Assumption]:
        """Assumptions of the captured passes."""

    @property
    def experts(self) -> ExpertLayers | None:
        """Its layers with experts."""

    def prefill(self, tokens: int, *, cached: int, last_only: bool) -> Phase:
        """Return the pass over a prompt."""

    def decode(self, *, batch: int, context: int, tokens: int, latent: str) -> Phase:
        """Return one step."""

    def cache_bytes(self, context: int, *, latent: str) -> int:
        """Return the bytes of the cache of one sequence."""


class Request(NamedTuple):
    """A kind of request.

    Attributes:
        prompt: tokens of the prompt.
        output: tokens that are generated; the prefill yields the first one.
        share: the share of the requests of this kind.
    """

    prompt: int
    output: int
    share: Fraction

    @property
    def contexts(self) -> list[tuple[int, Fraction]]:
        """Contexts of its decode steps, evenly spaced, with the number of steps each stands for (trapezoids)."""
        steps = self.output - 1
        n = min(steps, N_CONTEXTS)
        if n < 3:
            return [(self.prompt + 1 + i, Fraction(1)) for i in range(n)]
        weights = [Fraction(steps, 2 * (n - 1) if i in (0, n - 1) else n - 1) for i in range(n)]
        return [(self.prompt + 1 + i * (steps - 1) // (n - 1), weight) for i, weight in enumerate(weights)]


def requests_of(
    prompt: int | Sequence[int], output: int | Sequence[int], shares: Sequence[float] | None = None
) -> list[Request]:
    """Return one request per entry of the lists, which have equal lengths; a single one for integers.

    Raises:
        ValueError: if a number is not positive, or the lengths differ.
    """
    prompts, outputs = ([each] if isinstance(each, int) else [*each] for each in (prompt, output))
    parts = [1] * len(prompts) if shares is None else [*shares]
    if not prompts or not len(prompts) == len(outputs) == len(parts):
        raise ValueError(
            "prompt, output and shares must have equally many values "
            f"(got {len(prompts)}, {len(outputs)} and {len(parts)})"
        )
    for name, values in (("prompt", prompts), ("output", outputs), ("shares", parts)):
        for value in values:
            if isinstance(value, bool) or not isinstance(value, (int, float)[: 1 + (name == "shares")]) or value <= 0:
                raise ValueError(f"{name} must be positive (got {value!r})")
    whole = sum(map(Fraction, parts))
    return [Request(p, o, Fraction(w) / whole) for p, o, w in zip(prompts, outputs, parts, strict=True)]


class Rate(NamedTuple):
    """The rates and latencies of a device at one batch size.

    Attributes:
        batch: sequences that run at a time.
        ttft_seconds: time to the first token: the prefill of a prompt, without waiting for a place; None if the batch
            does not fit.
        tpot_seconds: time per output token after the first; None if requests have one output token.
        request_seconds: time from the start of a request to its last token.
        requests_per_second: requests that end per second.
        tokens_per_second: output tokens per second.
        decoding: sequences that decode at a time; fewer than ``batch`` if chunked prefills end too slowly to keep up.
        exchanged: bytes that a device sends per decode step in all-to-alls (dispatch and combine); None without.
        prefill_devices: prefill devices per decode device; None if one does both.
        price_per_million_input: the minimum price of a million prompt tokens; None without a price of the device, and
            with chunks, because their steps serve prompts and output.
        price_per_million_output: the minimum price of a million output tokens; likewise.
        price_per_million: the minimum price of a million tokens of both kinds, mixed as in the requests.
    """

    batch: int
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    request_seconds: float | None = None
    requests_per_second: float | None = None
    tokens_per_second: float | None = None
    decoding: float | None = None
    exchanged: int | None = None
    prefill_devices: float | None = None
    price_per_million_input: float | None = None
    price_per_million_output: float | None = None
    price_per_million: float | None = None

    @property
    def fits(self) -> bool:
        """Whether the caches of all sequences fit."""
        return self.ttft_seconds is not None


class Setup(NamedTuple):
    """How requests are served.

    Attributes:
        requests: the kinds of requests.
        chunk: tokens of prompts that run with every decode step; None: prompts run whole, one at a time.
        cached: tokens of a cached prefix that all prompts share.
        ranks: devices that share the model by tensor parallelism.
        expert_ranks: expert-parallel ranks; each holds whole experts.
        link: the link between them, and to the devices for prefill.
        prefill_device: a device that runs prompts alone; None: one device does both.
        drafts: tokens that a draft model proposes in every step; 0 without one.
        acceptance: probability that a draft is accepted, independently of the others.
        price: the price of one device for an hour, in any currency; None if unknown.
    """

    requests: Sequence[Request]
    chunk: int | None = None
    cached: int = 0
    ranks: int = 1
    expert_ranks: int = 1
    link: Link | None = None
    prefill_device: Device | None = None
    drafts: int = 0
    acceptance: float = 0.0
    price: float | None = None

    @property
    def devices(self) -> int:
        """The number of devices: a replica of the attention layers has ``ranks``, the experts have ``expert_ranks``."""
        return max(self.ranks, self.expert_ranks)

    @property
    def replicas(self) -> int:
        """Data-parallel replicas of the attention layers."""
        return self.devices // self.ranks

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a decode step is expected to yield (Leviathan et al., arXiv:2211.17192, equation 1)."""
        return sum(self.acceptance**i for i in range(self.drafts + 1))


@dataclass(frozen=True, repr=False)
class RequestRates(Result):
    """Request rates of a language model on a device, by batch, if every step takes its lower bound.

    Attributes:
        name: name of the model.
        device: name of the device.
        setup: how requests are served.
        rows: one row per batch.
        sequences: sequences that fit; None if the memory of the device is unknown.
        best: the row with the largest request rate within the limits; None without limits, or if none meets them.
        limits: the limits in words; empty without.
        notes: the assumptions of the figures.
        device_bytes: bytes of weights on each device; None on one device.
        experts_per_device: experts of a layer on each device; None without experts on several devices.
    """

    name: str
    device: str
    setup: Setup
    rows: Sequence[Rate]
    sequences: int | None
    best: Rate | None
    limits: str
    notes: Sequence[str]
    device_bytes: int | None = None
    experts_per_device: float | None = None

    def __repr__(self) -> str:
        return f"<RequestRates: {self.name} on {self.device}, batch {', '.join(str(row.batch) for row in self.rows)}>"

    def _content(self) -> Content:
        kinds = ", ".join(f"{each.prompt:,} tokens in, {each.output:,} out" for each in self.setup.requests)
        figures = [Figure("sequences", "Sequences that fit", self.sequences, "count")] if self.sequences else []
        if self.device_bytes is not None:
            figures.append(Figure("device_bytes", "Weights per device", self.device_bytes, "bytes"))
        if self.experts_per_device is not None:
            each = Formatted(self.experts_per_device, f"{self.experts_per_device:g}")
            figures.append(Figure("experts_per_device", "Experts per device", each, "ratio", "of every layer"))
        if self.limits:
            rate = None if self.best is None else self.best.requests_per_second
            shown = "none" if rate is None else f"{rate:.2f} requests/s"
            at = f"{'no batch' if self.best is None else f'at batch {self.best.batch}'} ({self.limits})"
            figures.append(Figure("best", "Best rate", Formatted(rate, shown), "ratio", at, "bound"))
        has = {name for row in self.rows for name, value in row._asdict().items() if value is not None}
        columns = [column for column in COLUMNS if column.key in has or column.key not in OPTIONAL]
        if all(row.decoding in (None, row.batch) for row in self.rows):
            columns = [column for column in columns if column.key != "decoding"]
        rows, dropped = (
            [*map(_cells, self.rows)],
            ("request_seconds", "decoding", "price_per_million", "tokens_per_second", "exchanged"),
        )
        times = [seconds for row in self.rows for seconds in (row.ttft_seconds, row.tpot_seconds) if seconds]
        digits = 1 if min(times, default=1) >= 0.001 else 3
        table = Table("By batch", columns, rows, n_digits=digits, dropped_first=dropped)
        ranks = f"{self.setup.devices} x " * (self.setup.devices > 1)
        title = f"{self.name} on {ranks}{self.device}: {kinds}"
        return Content(title, figures, [table], self.notes, model=self.name)

    def _picture(self, theme: Theme) -> Picture:
        shown = [column for column in COLUMNS if column.key in ("batch", "requests_per_second")]
        return bars_of(["Request rate", self.name], shown, [*map(_cells, self.rows)], theme)

    def _pictures(self) -> str:
        points = [
            Point(row.tpot_seconds, row.requests_per_second, f"batch {row.batch}", False)
            for row in self.rows
            if row.tpot_seconds and row.requests_per_second
        ]
        axes = Axis("time per output token", "duration"), Axis("requests per second", "ratio")
        return section("Request rate and time per token", scatter(points, *axes)) if len(points) > 1 else ""


COLUMNS = (
    *(Column("batch", "Batch", "count"), Column("ttft_seconds", "First token", "seconds", "bound")),
    *(
        Column("tpot_seconds", "Per token", "seconds", "bound"),
        Column("request_seconds", "Request", "seconds", "bound"),
    ),
    Column("requests_per_second", "Requests/s, at most", "ratio", "bound"),
    Column("tokens_per_second", "Tokens/s, at most", "ratio", "bound"),
    Column("exchanged", "All-to-all", "bytes"),
    *(Column("decoding", "Decoding", "ratio"), Column("prefill_devices", "Prefill devices", "ratio")),
    Column("price_per_million_input", "1M input", "ratio", "bound"),
    Column("price_per_million_output", "1M output", "ratio", "bound"),
    Column("price_per_million", "1M of both", "ratio", "bound"),
)

PRICES = ("price_per_million_input", "price_per_million_output", "price_per_million")

OPTIONAL = ("decoding", "exchanged", "prefill_devices", "tpot_seconds", *PRICES)

DIGITS = {"requests_per_second": 2, "tokens_per_second": 0, "decoding": 1, "prefill_devices": 2}
DIGITS |= dict.fromkeys(PRICES, 4)
"""Digits after the decimal point of rates."""


def _cells(row: Rate) -> dict[str, Any]:
    values: dict[str, Any] = row._asdict()
    for key in values.keys() - {"batch"}:
        if values[key] is None:
            values[key] = Formatted(None, "" if row.fits else "no room")
        elif key in DIGITS:
            values[key] = Formatted(values[key], f"{values[key]:,.{DIGITS[key]}f}")
    return values


def request_rates(
    serving: ServedModel,
    device: str | PathLike[str] | Device,
    setup: Setup,
    batches: Sequence[int],
    *,
    memory: int | None,
    share: float,
    ttft: float | None,
    tpot: float | None,
    draft: ServedModel | None = None,
) -> RequestRates:
    """Return a table of batches: the given ones, the largest that fits if some do not, and the best within the limits.

    Args:
        serving: the model.
        device: the device.
        setup: how requests are served.
        batches: numbers of sequences that run at a time.
        memory: bytes of one device; None if unknown.
        share: the part of the memory that weights and caches may take.
        ttft: the maximum time to the first token, in seconds; None for no limit.
        tpot: the maximum time per output token, in seconds; None for no limit.
        draft: the model that drafts, if ``setup`` has drafts.

    Raises:
        CostError: if the model fails, or the bandwidth of the device is unknown.
    """
    server = Server(serving, find_device(device), setup, draft)
    fits = None if memory is None else server.sequences(memory, share)
    most = MOST_SEQUENCES if fits is None else min(fits, MOST_SEQUENCES)
    chosen = {*batches}
    if fits and any(batch > fits for batch in batches):
        chosen.add(fits)
    best = None
    if (ttft is not None or tpot is not None) and most:
        best = server.best(most, lambda row: _is_within(row.ttft_seconds, ttft) and _is_within(row.tpot_seconds, tpot))
        chosen |= set() if best is None else {best.batch}
    rows = [server.rate(batch) if fits is None or batch <= fits else Rate(batch) for batch in sorted(chosen)]
    pairs = (("first token", ttft), ("per token", tpot))
    limits = ", ".join(f"{name} at most {duration(value)}" for name, value in pairs if value is not None)
    return RequestRates(
        serving.name, server.device.name, setup, rows, fits, best, limits, server.notes, *server.of_device
    )


def peak_notes(device: Device, dtype: str) -> list[str]:
    """Return remarks on the peak of matrix products: its source, and whether float32 leaves the matrix engine idle."""
    if dtype == "float32" and device.matrix_rate(dtype) is None and device.matrix_rate("bfloat16"):
        return [
            f"products in float32, the dtype of the model, leave the matrix engine of {device.name} idle: type "
            "--dtype bfloat16"
        ]
    return device.describe_peak(dtype)


def _is_within(value: float | None, limit: float | None) -> bool:
    return value is None or limit is None or value <= limit


class Server:
    """A server that always runs a given number of sequences.

    Args:
        serving: the model.
        device: the device of every rank.
        setup: how requests are served.
        draft: the model that drafts; None without one.

    Raises:
        CostError: if ranks cannot share the model.
        ValueError: if a shared prefix is longer than a prompt, or a link is missing.
    """

    device: Device

    def __init__(self, serving: ServedModel, device: Device, setup: Setup, draft: ServedModel | None = None) -> None:
        self._draft = None if draft is None else Server(draft, device, setup._replace(drafts=0, expert_ranks=1))
        self._serving, self.device, self._setup = serving, device, setup
        self._blocks = serving.blocks if setup.devices > 1 else None
        self._experts = serving.experts if setup.expert_ranks > 1 else None
        if setup.devices > 1 and self._blocks is None:
            raise CostError(f"{serving.name} states no layers, heads and width, so its split over ranks is unknown")
        if setup.devices > 1 and setup.link is None:
            raise ValueError("several devices need the link between them, such as link='nvlink4' (--link nvlink4)")
        self._check_experts()
        if setup.chunk is not None and setup.prefill_device is not None:
            raise ValueError("chunk and prefill_device exclude each other: drop one of them")
        if setup.cached >= min(each.prompt for each in setup.requests):
            raise ValueError(f"a prefix of {setup.cached} tokens must be shorter than every prompt")
        # As in inference engines, latent attention decodes on the cached latents.
        self._latent = "absorbed" if serving.latents else "expanded"
        self.rate: Callable[[int], Rate] = cache(self._rate)
        self._tokens = sum(each.share * (each.output - 1) for each in setup.requests)
        self._steps = float(self._tokens) / setup.tokens_per_step
        self._output = sum(each.share * each.output for each in setup.requests)
        new = [each.share * (each.prompt - setup.cached) for each in setup.requests]
        self._prompt = sum(new)
        self._contexts = [
            (context, each.share * weight / self._tokens)
            for each in setup.requests
            for context, weight in each.contexts
            if self._tokens
        ]

    def _check_experts(self) -> None:
        setup, found = self._setup, self._experts
        if setup.expert_ranks == 1:
            return
        if found is None:
            raise CostError(f"{self._serving.name} has no experts to share: leave out ep (expert_ranks)")
        if setup.expert_ranks % setup.ranks:
            raise ValueError(f"ep must be a multiple of tp (got tp={setup.ranks}, ep={setup.expert_ranks})")
        if setup.expert_ranks > found.experts:
            raise ValueError(f"{found.experts} experts cannot be on {setup.expert_ranks} devices (ep)")
        if setup.replicas > 1 and (setup.chunk or setup.prefill_device or self._draft):
            raise ValueError("ep above tp supports no chunk, no prefill device and no draft model")

    @property
    def of_device(self) -> tuple[int | None, float | None]:
        """The bytes of weights per device (None on a single device), and experts per layer (None without experts)."""
        if self._blocks is None:
            return None, None
        each = None if self._experts is None else self._experts.experts / self._setup.expert_ranks
        return round(self._weights), each

    @property
    def _weights(self) -> Fraction:
        # Bytes on a device. All devices divide the experts; the devices of a replica divide all other weights.
        whole = self._serving.weight_bytes
        of_experts = 0 if self._experts is None else self._experts.nbytes
        return Fraction(whole - of_experts, self._setup.ranks) + Fraction(of_experts, self._setup.devices)

    @property
    def notes(self) -> Sequence[str]:
        """The assumptions of the figures."""
        chunk = self._setup.chunk
        found = [
            "every step takes its lower bound, with weights and KV cache read once: real servers are slower, and other "
            "schedules than this one may be faster",
            "no queue: a request begins when another ends; "
            + (f"{chunk:,} tokens of prompts run with every step" if chunk else "prompts run whole, one at a time"),
        ]
        step = self._serving.decode(batch=1, context=1, tokens=1, latent=self._latent)
        found += peak_notes(self.device, step.compute_dtype)
        if self._setup.price is not None:
            how = "prompt tokens pay for the seconds of prefills, output tokens for those of decode steps"
            if chunk:
                how = "all tokens cost the same, because steps with chunks serve prompts and output"
            found.append(f"prices of 1M tokens are minimums, at {self._setup.price:g} an hour for every device: {how}")
        if self._serving.scores_all:
            found.append(f"{self._serving.name} computes logits for all tokens of a prompt, not for the last alone")
        if self._experts is not None:
            found.append(
                "every device holds whole experts, and all are equally busy; two all-to-alls per layer of experts send "
                "tokens to them and back, not overlapped"
            )
        if self._setup.replicas > 1:
            found.append(f"{self._setup.replicas} replicas of all other layers serve their own sequences of the batch")
        if self._blocks is not None and self._setup.ranks > 1:
            waits = "two all-reduces per layer" + " (one per layer of experts)" * (self._experts is not None)
            found.append(f"ranks split products and weights evenly, and wait for {waits}, not overlapped")
            if self._serving.latents:
                found.append("every rank keeps the latent vectors of all tokens")
            elif self._setup.ranks > self._blocks.kv_heads:
                found.append(f"the {self._blocks.kv_heads} KV heads are replicated across ranks")
        if self._setup.prefill_device is not None and self._setup.link is None:
            found.append("the time to send the cache of a prompt is not counted: state the link, as --link nvlink4")
        if self._draft is not None:
            found.append(
                f"{self._setup.drafts} drafts a step, each accepted with probability {self._setup.acceptance:g}: "
                f"{self._setup.tokens_per_step:.2f} tokens per step"
            )
        if (range_reached := self._reached()) is not None:
            found.append(str(range_reached))
        return [
            *found,
            *self._serving.notes,
            *(f"assumed: {each}" for each in assumptions_as_text(self._serving.assumptions)),
        ]

    def _reached(self) -> Reached | None:
        # Published runs are of dense models, with weights and activations of equal bits.
        step = self._serving.decode(batch=1, context=1, tokens=1, latent=self._latent)
        bits, act = step.weight_bits
        is_other = step.tallies.experts or self._draft is not None or self._setup.prefill_device is not None
        return None if is_other or act != bits else reached(self.device, "requests", bits, 0.0)

    # The steps.

    def _seconds(self, device: Device, *phases: Phase) -> float:
        # The phases of one step, such as a decode and a chunk of a prompt, read the weights once. With replicas of the
        # attention layers, these are the phases of one replica.
        ranks, tokens = self._setup.ranks, sum(phase.new_tokens for phase in phases)
        nbytes = self._read_weights(max(phases, key=lambda phase: phase.load_weight), tokens)
        nbytes += sum(max(phase.load_kv, phase.store_kv) for phase in phases) // self._split_of_cache
        macs = sum(phase.needed_macs for phase in phases) // ranks
        bound = least_time(device, phases[0].compute_dtype, macs, nbytes, tokens, nbytes).bound_seconds
        if self._blocks is None or self._setup.link is None:
            return bound
        n_experts = 0 if self._experts is None else self._experts.n_layers
        if ranks > 1:
            message = tokens * self._blocks.width * BITS[self._serving.dtype] / 8
            n_reduced = 2 * self._blocks.n_layers - n_experts
            bound += n_reduced * all_reduce_seconds(ranks, message, self._setup.link)
        return bound + 2 * n_experts * self._setup.link.seconds(self._setup.expert_ranks - 1, self._exchanged(tokens))

    def _read_weights(self, phase: Phase, tokens: int) -> int:
        # Experts are read for the tokens of all replicas, by all devices together.
        if self._experts is None:
            return phase.load_weight // self._setup.ranks
        found = self._experts
        read = expected_experts(found.experts, found.chosen, tokens * self._setup.replicas) / found.experts
        others = (phase.load_weight - phase.load_experts) // self._setup.ranks
        return others + int(found.nbytes * read / self._setup.devices)

    def _exchanged(self, tokens: int) -> float:
        # Bytes that a device sends in one all-to-all: its tokens, once for each expert on another device.
        if self._experts is None or self._blocks is None:
            return 0.0
        own, ranks = tokens / self._setup.ranks, self._setup.expert_ranks
        width = self._blocks.width * BITS[self._serving.dtype] / 8
        return own * float(self._experts.chosen) * width * (ranks - 1) / ranks

    @property
    def _split_of_cache(self) -> int:
        # The number of ranks that divide the KV cache; latent vectors are replicated.
        if self._blocks is None or self._serving.latents:
            return 1
        return min(self._setup.ranks, self._blocks.kv_heads)

    def _decode(self, batch: int, beside: Phase | None = None) -> float:
        # The mean step over the contexts of all requests.
        others = () if beside is None else (beside,)
        return sum(
            float(weight)
            * (self._seconds(self.device, self._step(batch, context), *others) + self._drafting(batch, context))
            for context, weight in self._contexts
        )

    def _step(self, batch: int, context: int) -> Phase:
        new = self._setup.drafts + 1
        return self._serving.decode(
            batch=ceil(batch / self._setup.replicas), context=max(context, new), tokens=new, latent=self._latent
        )

    def _drafting(self, batch: int, context: int) -> float:
        if self._draft is None:
            return 0.0
        step = self._draft._step(batch, max(context - 1, 1))
        return self._setup.drafts * self._draft._seconds(self.device, step)

    def _prefill(self, request: Request) -> float:
        phase = self._serving.prefill(request.prompt, cached=self._setup.cached, last_only=not self._serving.scores_all)
        drafting = 0.0 if self._draft is None else self._draft._prefill(request)
        return drafting + self._seconds(self._setup.prefill_device or self.device, phase)

    def _chunk(self) -> Phase:
        # The middle chunk costs the mean of all: attention pairs grow linearly with the tokens before a chunk.
        assert self._setup.chunk is not None
        longest = max(each.prompt for each in self._setup.requests) - self._setup.cached
        new = min(self._setup.chunk, longest)
        before = self._setup.cached + int(max(self._prompt - new, 0) / 2)
        return self._serving.prefill(before + new, cached=before, last_only=not self._serving.scores_all)

    # Rates.

    def _rate(self, batch: int) -> Rate:
        if self._setup.prefill_device is not None:
            return self._disaggregated(batch)
        return self._with_whole_prompts(batch) if self._setup.chunk is None else self._chunked(batch)

    def _with_whole_prompts(self, batch: int) -> Rate:
        # One cycle finishes a batch of requests; each prefill stalls the decoding of the others.
        prefill = sum(float(each.share) * self._prefill(each) for each in self._setup.requests)
        decode = self._steps * self._decode(batch) if self._steps else 0.0
        prefills = ceil(batch / self._setup.replicas) * prefill
        cycle = prefills + decode
        tpot = (cycle - prefill) / float(self._tokens) if self._tokens else None
        return self._row(batch, prefill, tpot, batch / cycle, prompt_and_output=(prefills / batch, decode / batch))

    def _chunked(self, batch: int) -> Rate:
        chunk, steps = self._chunk(), self._steps
        passes = sum(
            float(each.share) * ceil((each.prompt - self._setup.cached) / chunk.new_tokens)
            for each in self._setup.requests
        )
        drafting = 0.0 if self._draft is None else self._draft._seconds(self.device, self._draft._chunk())
        # In steady state prefills complete as often as sequences finish, which caps concurrent decodes.
        decoding = min(float(batch), steps / passes)
        if decoding < 1:
            both = drafting + self._seconds(self.device, chunk)
            return self._row(batch, passes * both, both if steps else None, 1 / (passes * both), decoding)
        both = drafting + self._decode(int(decoding), chunk)
        if decoding < batch:
            return self._row(batch, passes * both, self._per_token(both), 1 / (passes * both), decoding)
        with_prompts = batch * passes / steps
        step = with_prompts * both + (1 - with_prompts) * self._decode(batch)
        return self._row(batch, passes * both, self._per_token(step), batch / (steps * step), decoding)

    def _disaggregated(self, batch: int) -> Rate:
        prefill = sum(float(each.share) * self._prefill(each) for each in self._setup.requests)
        moved = sum(
            float(each.share) * self._serving.cache_bytes(each.prompt, latent=self._latent)
            for each in self._setup.requests
        )
        link, steps = self._setup.link, self._steps
        ttft = prefill + (link.seconds(1, moved / self._split_of_cache) if link is not None else 0.0)
        if not steps:
            raise ValueError("with one token of output nothing is decoded: leave out the device for prefill")
        step = self._decode(batch)
        rate = batch / (steps * step)
        row = self._row(batch, ttft, self._per_token(step), rate, prompt_and_output=(prefill, 1 / rate))
        return row._replace(prefill_devices=rate * prefill)

    def _per_token(self, step: float) -> float:
        return step / self._setup.tokens_per_step

    def _row(
        self,
        batch: int,
        ttft: float,
        tpot: float | None,
        rate: float,
        decoding: float | None = None,
        prompt_and_output: tuple[float, float] | None = None,
    ) -> Rate:
        return Rate(
            **self._prices(rate, prompt_and_output),
            batch=batch,
            ttft_seconds=ttft,
            tpot_seconds=tpot,
            request_seconds=ttft + float(self._tokens) * (tpot or 0.0),
            requests_per_second=rate,
            tokens_per_second=rate * float(self._output),
            decoding=decoding,
            exchanged=self._exchanged_by_step(batch),
        )

    def _prices(self, rate: float, seconds: tuple[float, float] | None) -> dict[str, float]:
        # A request pays for its device seconds. Steps with chunks are not divided between prompt and output.
        if self._setup.price is None:
            return {}
        of_second = self._setup.price * self._setup.devices / 3600
        prompt = float(sum(each.share * each.prompt for each in self._setup.requests))
        tokens = {PRICES[0]: prompt, PRICES[1]: float(self._output), PRICES[2]: prompt + float(self._output)}
        spent = {PRICES[2]: 1 / rate}
        if seconds is not None:
            spent = dict(zip(PRICES, (*seconds, sum(seconds)), strict=True))
        return {name: 1e6 * of_second * each / tokens[name] for name, each in spent.items()}

    def _exchanged_by_step(self, batch: int) -> int | None:
        if self._experts is None:
            return None
        tokens = (self._setup.drafts + 1) * ceil(batch / self._setup.replicas)
        return round(2 * self._experts.n_layers * self._exchanged(tokens))

    # Memory and limits.

    def sequences(self, memory: int, share: float) -> int:
        """Return how many sequences fit, each with the cache of its full length; a shared prefix is kept once."""
        fixed, each = self._needs()
        if self._draft is not None:
            more_fixed, more_each = self._draft._needs()
            fixed, each = fixed + more_fixed, each + more_each
        return self._setup.replicas * max(0, int((Fraction(str(share)) * memory - fixed) // each))

    def _needs(self) -> tuple[Fraction, Fraction]:
        # Bytes of a rank: fixed (weights and the shared prefix), and per sequence.
        heads, prefix = self._split_of_cache, self._setup.cached
        shared = self._serving.cache_bytes(prefix, latent=self._latent) if prefix else 0
        lengths = ((kind.share, kind.prompt + kind.output) for kind in self._setup.requests)
        each = sum(w * (self._serving.cache_bytes(length, latent=self._latent) - shared) for w, length in lengths)
        fixed = self._weights + Fraction(shared, heads)
        return fixed, Fraction(each) / heads

    def best(self, most: int, holds: Callable[[Rate], bool]) -> Rate | None:
        """Return the rate of the largest batch that meets limits; times grow with the batch."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if holds(self.rate(middle)) else (low, middle - 1)
        if not low:
            return None
        found = self.rate(low)
        # If chunked prefills limit the sequences that decode, a smaller batch has the same rate.
        if found.decoding is not None and 1 <= found.decoding < low:
            return self.rate(int(found.decoding))
        return found
