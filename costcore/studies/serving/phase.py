"""One serving pass of a language model: a prefill, a decode step, or new tokens after a cached prefix.

A :class:`Phase` has operations, bytes and bounds; :class:`PhaseTime` is its minimum time on a device, and
:class:`Speculation` a step of speculative decoding.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from math import ceil
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from costcore.analyses.devices.device import Device, find_device
from costcore.errors import CostError
from costcore.ledger.ledger import intensity
from costcore.studies.serving.cached_model import Latent
from costcore.studies.serving.passes import Experts, Point, Tallies, Tally, attended, not_expected, not_needed
from costcore.tables.answer import Content, Figure
from costcore.tables.result import Result, Table
from costcore.text.amounts import Formatted, exact
from costcore.text.output import Column

CACHES = ("static", "paged", "dynamic")
"""How a cache grows: preallocated, in blocks, or by copying all of it."""

COLUMNS = ("load_weight", "load_act", "store_act", "load_kv", "store_kv")
"""The columns of bytes."""

TITLES = {
    "load_weight": "Weights read",
    "load_act": "Activations read",
    "store_act": "Activations written",
    "load_kv": "Cache read",
    "store_kv": "Cache written",
}
"""The names of the columns of bytes."""

SHOWN = ("macs", *COLUMNS)
"""Operators with none of these are not shown."""

MOST_OPERATORS = 8
"""The number of operators that ``print`` and notebooks show; a row sums the others."""


@dataclass(frozen=True, repr=False)
class Phase(Result):
    """The work of one pass, with bytes in the storage formats of weights, activations and cache.

    Attributes:
        point: sequences, new tokens of each, tokens of each in the cache.
        tallies: the sums over its calls.
        compute_dtype: the dtype in which products are computed.
        act_bits: bits of an activation.
        cache_bits: bits of a number in the cache, with its scales.
        window: the smallest window of its layers; None without one.
        cache: how the cache grows, one of :data:`CACHES`, or the name of a plug-in's cache.
        is_computed: whether only the attention pairs that masks allow are counted.
    """

    point: Point
    tallies: Tallies
    compute_dtype: str
    act_bits: int
    cache_bits: Fraction
    window: int | None
    cache: str
    is_computed: bool = False

    def __repr__(self) -> str:
        sequences = f"{self.batch} sequence{'s' * (self.batch != 1)} of {self.context} tokens"
        return f"<Phase {self.name}: {sequences}, {self.macs:,} MACs, {self.memory_bytes:,} bytes of weights and cache>"

    def _content(self) -> Content:
        per_byte = Formatted(self.intensity, f"{self.intensity:.3g}")
        figures = [
            Figure("macs", "MACs", self.macs, "flops"),
            *(Figure(column, title, getattr(self, column), "bytes") for column, title in TITLES.items()),
            Figure("intensity", "FLOPs per byte", per_byte, "ratio", "of products, per byte of weights and cache"),
        ]
        rows = [{"op": op, **sums} for op, sums in self.by_op().items() if any(sums[key] for key in SHOWN)]
        columns = [
            *(Column("op", "Operator"), Column("n_calls", "# Calls", "count"), Column("macs", "MACs", "flops")),
            *(Column(key, title, "bytes") for key, title in TITLES.items()),
        ]
        operators = Table("By operator, most bytes first", columns, rows).top(MOST_OPERATORS)
        sequences = f"{self.batch:,} sequence{'s' * (self.batch != 1)} of {self.context:,} tokens"
        title = f"{self.name.capitalize()} of {sequences}, {self.new_tokens:,} new in all"
        return Content(title, figures, [operators])

    @property
    def name(self) -> str:
        """``prefill``, ``decode`` or ``extend`` (new tokens after a prefix)."""
        return self.point.phase

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.point.batch

    @property
    def context(self) -> int:
        """Tokens of each sequence after the pass, the new ones included."""
        return self.point.past + self.point.tokens

    @property
    def new_tokens(self) -> int:
        """New tokens of all sequences."""
        return self.point.batch * self.point.tokens

    @property
    def total(self) -> Tally:
        """The sums over all calls, in bits."""
        total = Tally()
        for tally in self.tallies.by_op.values():
            total = total.plus(tally)
        return total

    @property
    def macs(self) -> int:
        """MACs of matrix products, with all pairs of attention unless :attr:`is_computed`."""
        return int(self.total.macs)

    @property
    def flops(self) -> int:
        """Floating-point operations of all kinds; a fused multiply-add is one."""
        return int(self.total.flops)

    @property
    def load_weight(self) -> int:
        """Bytes of weights read, with the expected number of experts if tokens choose independently."""
        return _nbytes(self.total.load_weight - sum(self._bits_by_op(not_expected).values()))

    @property
    def most_load_weight(self) -> int:
        """Bytes of weights read, with the maximum number of experts: one per row, up to all."""
        return _nbytes(self.total.load_weight)

    @property
    def least_load_weight(self) -> int:
        """Bytes of weights read, with the minimum number of experts: all tokens choose the same."""
        return _nbytes(self.total.load_weight - sum(self._bits_by_op(not_needed).values()))

    @property
    def load_experts(self) -> int:
        """The part of ``load_weight`` that is weights of routed experts."""
        calls = self.tallies.experts
        most = sum(Fraction(each.calls * each.bits * min(each.experts, each.rows)) / each.experts for each in calls)
        return _nbytes(most - sum(self._bits_by_op(not_expected).values()))

    @property
    def load_act(self) -> int:
        """Bytes of activations read, without fusion: once per reading call."""
        return _nbytes(self.total.load_act)

    @property
    def store_act(self) -> int:
        """Bytes of activations written, without fusion."""
        return _nbytes(self.total.store_act)

    @property
    def load_kv(self) -> int:
        """Bytes of keys and values that attention reads, new tokens included."""
        return _nbytes(self.total.load_kv)

    @property
    def store_kv(self) -> int:
        """Bytes of keys and values of the new tokens."""
        return _nbytes(self.total.store_kv)

    @property
    def cache_append(self) -> int:
        """Bytes moved by appending to the cache, which no column includes.

        A static or paged cache writes only new elements, ``store_kv``. A dynamic cache is read and written as a whole.
        """
        return self.store_kv if self.cache in ("static", "paged") else _nbytes(self.total.copied)

    @property
    def memory_bytes(self) -> int:
        """Minimum bytes of main-memory traffic: weights, and the cache once.

        Cached keys and values are read, new ones are written; ``load_kv`` is the sum of both.
        """
        return self.load_weight + max(self.load_kv, self.store_kv)

    @property
    def least_memory_bytes(self) -> int:
        """Minimum bytes of main-memory traffic, with the minimum number of experts."""
        return self.least_load_weight + max(self.load_kv, self.store_kv)

    @property
    def intensity(self) -> float:
        """FLOPs of matrix products (two per MAC) per byte of ``memory_bytes``."""
        return float(intensity(2 * self.macs, self.memory_bytes) or 0)

    @property
    def needed_macs(self) -> int:
        """MACs without attention pairs that a kernel can skip: keys after the query, or beyond the window.

        If layers have different windows, the smallest window counts for all of them, so that this is a lower bound.
        """
        return self._needed(self.total)

    def _needed(self, tally: Tally) -> int:
        new, past = self.point.tokens, self.point.past
        if new == 1 or self.is_computed:  # a single token attends to all keys in the cache
            return ceil(tally.macs)
        # Exact: floats would round large numbers of MACs.
        allowed = Fraction(pairs_before(new, past, self.window), new * (past + new))
        return ceil(tally.macs - tally.cache_macs * (1 - allowed))

    @property
    def macs_by_width(self) -> dict[tuple[int, int], int]:
        """MACs by the bits of both operands: activations with weights, and with keys and values."""
        found: dict[tuple[int, int], int] = {}
        for kind, tally in self.tallies.by_op.items():
            other = (self.act_bits, int(self.cache_bits) if tally.cache_macs else self.act_bits)
            widths = (kind.act, kind.bits) if kind.bits else other
            if tally.macs:
                found[widths] = found.get(widths, 0) + int(tally.macs)
        return found

    @property
    def bops(self) -> int:
        """Bit operations: MACs times the bits of both operands."""
        return sum(a * b * macs for (a, b), macs in self.macs_by_width.items())

    def by_op(self) -> dict[str, dict[str, int]]:
        """Return MACs, FLOPs and the columns of bytes by operator, by bytes in descending order."""
        found = self._by_op()
        less = self._bits_by_op(not_expected)
        entries = {op: _entry(tally, less[op]) for op, tally in found.items()}
        return dict(sorted(entries.items(), key=lambda item: -sum(item[1][column] for column in COLUMNS)))

    def _by_op(self) -> dict[str, Tally]:
        found: dict[str, Tally] = {}
        for (op, *_), tally in self.tallies.by_op.items():
            found[op] = found.get(op, Tally()).plus(tally)
        return found

    def time(self, device: str | PathLike[str] | Device) -> PhaseTime:
        """Return the minimum time of the pass on a device; see :class:`costcore.studies.serving.phase.PhaseTime`.

        With experts it is the minimum time of the mean pass, with the expected reads; ``least_seconds`` of the result
        bounds every pass.

        Raises:
            TypeError, ValueError, CostError, OSError: if there is no such device, or its file is invalid.
            CostError: if the bandwidth of its memory is unknown.
        """
        nbytes, least = self.memory_bytes, self.least_memory_bytes
        found = least_time(device, self.compute_dtype, self.needed_macs, nbytes, self.new_tokens, least)
        return replace(found, reached=self._reached(find_device(device), found))

    @property
    def weight_bits(self) -> tuple[int, int]:
        """Bits of most weights, and of the activations that they multiply; zeros without weights."""
        kinds = self.tallies.by_op.items()
        kind, _ = max(kinds, key=lambda item: item[1].load_weight, default=(None, None))
        return (0, 0) if kind is None else (kind.bits, kind.act)

    def _reached(self, device: Device, time: PhaseTime) -> Reached | None:
        if self.batch > 1 or self.tallies.experts:
            return None
        if self.name == "prefill" and device.matrix_rate(self.compute_dtype) != device.matrix_rate("float16"):
            return None
        return reached(device, self.name, self.weight_bits[0], time.tokens_per_second)

    def time_by_op(self, device: str | PathLike[str] | Device) -> dict[str, PhaseTime]:
        """Return the minimum time by operator, for operators that multiply or read weights or cache.

        Their sum is the minimum time of a program that runs one operator after the other. The bound of the pass is
        lower: bytes of one operator may be loaded while another computes.

        Raises:
            TypeError, ValueError, CostError, OSError: as :meth:`time`.
        """
        expected, needed = self._bits_by_op(not_expected), self._bits_by_op(not_needed)
        found = {}
        for op, tally in self._by_op().items():
            nbytes, least = (_memory_bytes(tally, less[op]) for less in (expected, needed))
            if nbytes or tally.macs:
                found[op] = least_time(device, self.compute_dtype, self._needed(tally), nbytes, self.new_tokens, least)
        return dict(sorted(found.items(), key=lambda item: -item[1].bound_seconds))

    def with_latents(self, latents: Sequence[Latent], how: str) -> Phase:
        """Return the pass with another variant of latent attention.

        Args:
            latents: the attention layers with latent vectors.
            how: one of :data:`costcore.studies.serving.passes.WAYS`.
        """
        by_op = attended(self.tallies.by_op, latents, self.point, how, self.cache_bits)
        return replace(self, tallies=self.tallies._replace(by_op=by_op))

    def _bits_by_op(self, left_out: Callable[[Experts, int], Fraction]) -> defaultdict[str, Fraction]:
        found = defaultdict[str, Fraction](Fraction)
        for each in self.tallies.experts:
            found[each.op] += left_out(each, self.new_tokens)
        return found


def pairs_before(new: int, past: int, window: int | None) -> int:
    """Return the causal pairs of new tokens and keys within a window; None for no window."""
    window = window or past + new
    below = max(0, min(new, window - past))  # new tokens that see all before them
    return below * past + below * (below + 1) // 2 + (new - below) * window


def _nbytes(bits: Fraction | int) -> int:
    return round(Fraction(bits) / 8)


def _memory_bytes(tally: Tally, left_out: Fraction) -> int:
    return _nbytes(tally.load_weight - left_out) + max(_nbytes(tally.load_kv), _nbytes(tally.store_kv))


def _entry(tally: Tally, not_expected: Fraction) -> dict[str, int]:
    tally = tally._replace(load_weight=tally.load_weight - not_expected)
    return {
        "n_calls": int(tally.n_calls),
        "macs": int(tally.macs),
        "flops": int(tally.flops),
        **{column: _nbytes(getattr(tally, column)) for column in COLUMNS},
    }


# Minimum time of a pass on a device: arithmetic at the peak, or bytes at the bandwidth of main memory.


@dataclass(frozen=True)
class PhaseTime(Result):
    """The minimum time of a pass: a lower bound.

    If the pass reads experts, it bounds the mean of many passes, with the expected reads. Only ``least_seconds`` then
    bounds every single pass.

    All products run at the peak of the matrix engine, and weights and cache come from main memory once, at the same
    time. Activations stay in caches.

    Attributes:
        device: name of the device.
        compute_seconds: two FLOPs per needed MAC at the peak of the dtype; None if that is unknown.
        memory_seconds: weights and cache at the bandwidth of main memory, with the expected number of experts.
        tokens: new tokens of the pass.
        cached_share: the share of these bytes that the caches of the device could keep from one pass to the next.
        least_memory_seconds: as ``memory_seconds``, with the minimum number of experts.
        reached: which share of the bound published runs reached; None if no published run is near.
    """

    device: str
    compute_seconds: float | None
    memory_seconds: float
    tokens: int
    cached_share: float
    least_memory_seconds: float
    reached: Reached | None = field(default=None, repr=False)

    def _content(self) -> Content:
        rate, tokens = self.tokens_per_second, f"{self.tokens:,} new tokens in a pass"
        figures = [
            Figure("bound_seconds", "At least", self.bound_seconds, "duration", f"bound by {self.binds}", "bound"),
            Figure("compute_seconds", "Compute", self.compute_seconds, "duration", "", "bound"),
            Figure("memory_seconds", "Weights and cache", self.memory_seconds, "duration", "from main memory", "bound"),
            Figure("tokens_per_second", "At most", Formatted(rate, f"{rate:,.0f} tokens/s"), "ratio", tokens, "bound"),
        ]
        return Content(f"Minimum time of a pass on {self.device}", figures, (), self.remarks)

    @property
    def bound_seconds(self) -> float:
        """The larger of ``compute_seconds`` and ``memory_seconds``; with experts the minimum time of the mean pass."""
        return max(self.compute_seconds or 0.0, self.memory_seconds)

    @property
    def least_seconds(self) -> float:
        """The minimum time of every pass, even if all tokens choose the same experts."""
        return max(self.compute_seconds or 0.0, self.least_memory_seconds)

    @property
    def binds(self) -> str:
        """The bottleneck: ``compute`` or ``memory``."""
        return "compute" if (self.compute_seconds or 0.0) > self.memory_seconds else "memory"

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all sequences per second, at most."""
        return self.tokens / self.bound_seconds

    @property
    def remarks(self) -> list[str]:
        """The assumptions of the bound."""
        found = [f"best case on {self.device}: weights and KV cache are read once per step; real servers are slower"]
        if self.least_seconds < self.bound_seconds:
            found.append(
                "with experts it is the bound of the mean pass, which reads the expected number of experts: a pass "
                "whose tokens choose the same experts can take less (least_seconds)"
            )
        if self.compute_seconds is None:
            found.append(f"the peak of {self.device} at this dtype is unknown: the bound covers bytes alone")
        if self.cached_share > 0.1:
            found.append(
                f"caches of {self.device} hold {min(self.cached_share, 1):.0%} of these bytes: if these stay there, "
                "a pass can take less"
            )
        return found if self.reached is None else [*found, str(self.reached)]


def least_time(
    device: str | PathLike[str] | Device, dtype: str, macs: int, nbytes: int, tokens: int, least: int
) -> PhaseTime:
    """Return the minimum time of a pass on a device.

    Args:
        device: the device, its name or its file.
        dtype: dtype in which products are computed.
        macs: multiplications that must happen.
        nbytes: bytes that come from main memory or go there.
        tokens: new tokens of the pass.
        least: ``nbytes`` with the minimum number of experts.

    Raises:
        TypeError, ValueError, OSError: if there is no such device.
        CostError: if its file is invalid, or the bandwidth of its memory is unknown.
    """
    found = find_device(device)
    if found.memory.dram_gbs is None:
        raise CostError(f"the bandwidth of the memory of {found.name} is unknown, so a pass has no bound")
    rate = found.matrix_rate(dtype) or found.vector_rate(dtype)
    cached = max((size for _, size, _ in found.levels()), default=0)
    return PhaseTime(
        device=found.name,
        compute_seconds=2 * macs / rate if rate else None,
        memory_seconds=nbytes / (1e9 * found.memory.dram_gbs),
        least_memory_seconds=least / (1e9 * found.memory.dram_gbs),
        tokens=tokens,
        cached_share=cached / nbytes if nbytes else 1.0,
    )


# Published rates: which share of the bound programs reach.


RATES = Path(__file__).parent / "published_rates.csv"

STORED_BITS = {"f16": 16, "q8_0": 8, "fp8": 8, "q4_0": 4, "q4_k_m": 4}
"""Bits of the weights of published runs, by the names of their formats."""

FEWEST_RATES = 3
"""The minimum number of rates of a range."""

INSIDE = {"decode": 0.85, "prefill": 0.68}
"""The share of published rates that lie in the range of the near rates of other devices, by phase."""


class PublishedRate(NamedTuple):
    """A published run of a model without experts, of one sequence or, if ``phase`` is ``requests``, of many.

    Attributes:
        device: name of the device.
        vendor: its vendor.
        program: what ran.
        model: the model.
        weights: format of the weights, a key of :data:`STORED_BITS`.
        phase: ``decode``, ``prefill`` or ``requests``.
        tokens: for ``decode``, the mean context of the steps; for ``prefill``, the tokens of the prompt; for
            ``requests``, the tokens of prompt and output.
        rate: tokens per second of one device.
        bound: the bound of ``rate``; for requests, at the largest batch that fits.
        source: where it is published.
    """

    device: str
    vendor: str
    program: str
    model: str
    weights: str
    phase: str
    tokens: int
    rate: float
    bound: float
    source: str

    @property
    def share(self) -> float:
        """The rate as a share of the bound."""
        return self.rate / self.bound


class Reached(NamedTuple):
    """The share of a bound that published runs near a pass reached.

    Attributes:
        low: the smallest share.
        high: the largest.
        rates: the runs.
        device: name of the device.
    """

    low: float
    high: float
    rates: Sequence[PublishedRate]
    device: str

    def __str__(self) -> str:
        first, devices = self.rates[0], {each.device for each in self.rates}
        shares, own = _range(self.rates), [each for each in self.rates if each.device == self.device]
        where = self.device if devices == {self.device} else f"{len(devices)} {first.vendor} devices"
        shares += f" of this bound, {_range(own)} on {self.device}" if own else " of this bound"
        formats = ", ".join(sorted({each.weights for each in self.rates}))
        sources = "; ".join(sorted({each.source.partition(" at ")[0] for each in self.rates}))
        runs = f"{len(self.rates)} published runs of {first.program} on {where}, {formats}"
        if first.phase == "requests":
            return f"{runs}, reached {_range(self.rates)} of the rate of the largest batch that fits ({sources})"
        inside = f"{100 * INSIDE[first.phase]:.0f} % of all {first.phase} runs lie in the range of comparable runs"
        note = f"{first.phase} of one sequence on {self.device}: {runs}, reached {shares}"
        return f"{note}; {inside} on other devices ({sources})"


def _range(rates: Sequence[PublishedRate]) -> str:
    shares = [f"{100 * each.share:.0f}" for each in sorted(rates, key=lambda each: each.share)]
    return f"{'–'.join(dict.fromkeys((shares[0], shares[-1])))} %"


@cache
def published_rates() -> Sequence[PublishedRate]:
    """Return the published rates."""
    with RATES.open(newline="", encoding="utf-8") as file:
        return [*_rates(csv.DictReader(file))]


def _rates(rows: csv.DictReader[str]) -> Iterator[PublishedRate]:
    for row in rows:
        texts = {name: row[name] for name in ("device", "vendor", "program", "model", "weights", "phase", "source")}
        rate, bound = float(row["rate"]), float(row["bound"])
        yield PublishedRate(**texts, tokens=int(row["tokens"]), rate=rate, bound=bound)


def reached(
    device: Device, phase: str, bits: int, bound: float, rates: Sequence[PublishedRate] | None = None
) -> Reached | None:
    """Return the share of their bound that published runs near a pass reached; None if fewer than three are near.

    A run is near if its device is of the same vendor and its weights have as many bits. A decode step must also have a
    bound within a factor of two, because short steps reach less of it; requests must run on the same device.

    Args:
        device: the device.
        phase: ``decode``, ``prefill`` or ``requests``.
        bits: bits of most weights.
        bound: tokens per second at the bound.
        rates: the runs to compare it with; default: all published ones.
    """
    near = [
        each
        for each in (published_rates() if rates is None else rates)
        if (each.vendor, each.phase, STORED_BITS[each.weights]) == (device.vendor, phase, bits)
        and (phase != "decode" or bound / 2 <= each.bound <= 2 * bound)
        and (phase != "requests" or each.device == device.name)
    ]
    if len(near) < FEWEST_RATES:
        return None
    shares = [each.share for each in near]
    return Reached(min(shares), max(shares), near, device.name)


# Speculative decoding: a small model drafts tokens, and the large one verifies them in one pass.


@dataclass(frozen=True, repr=False)
class Speculation(Result):
    """A step of speculative decoding.

    Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", arXiv:2211.17192, equation 1.

    Attributes:
        draft: one step of the model that drafts.
        verify: the pass of the large model over all drafts and one more token.
        drafts: drafts of each sequence.
        acceptance: probability that a draft is accepted, independently of the others.
    """

    draft: Phase
    verify: Phase
    drafts: int
    acceptance: float

    def __repr__(self) -> str:
        return f"<Speculation: {self.drafts} drafts, acceptance {self.acceptance:g}, {self.macs:,} MACs>"

    def _content(self) -> Content:
        sequences = f"{exact(self.verify.batch)} sequence{'s' * (self.verify.batch != 1)}"
        drafts = f"{self.drafts} draft{'s' * (self.drafts != 1)} of each of {sequences}"
        expected = Formatted(self.expected_tokens, f"{self.expected_tokens:.3g}")
        figures = [
            Figure("macs", "MACs", self.macs, "flops"),
            Figure("draft_macs", "of a draft", self.draft.macs, "flops"),
            Figure("verify_macs", "of the verification", self.verify.macs, "flops"),
            Figure("expected_tokens", "Expected tokens", expected, "ratio", "of each sequence in a step"),
        ]
        return Content(f"Speculative decoding, {drafts}, acceptance {self.acceptance:g}", figures)

    @property
    def expected_tokens(self) -> float:
        """Tokens that a step is expected to yield for each sequence: (1 - a ** (n + 1)) / (1 - a)."""
        if self.acceptance == 1:
            return self.drafts + 1.0
        return float((1 - self.acceptance ** (self.drafts + 1)) / (1 - self.acceptance))

    @property
    def macs(self) -> int:
        """MACs of a step: all drafts, and the pass that verifies them."""
        return self.drafts * self.draft.macs + self.verify.macs

    def bound_seconds(self, device: str | PathLike[str] | Device) -> float:
        """Return the minimum seconds of a step on a device.

        Raises:
            TypeError, ValueError, CostError, OSError: as :meth:`costcore.studies.serving.phase.Phase.time`.
        """
        return self.drafts * self.draft.time(device).bound_seconds + self.verify.time(device).bound_seconds

    def tokens_per_second(self, device: str | PathLike[str] | Device) -> float:
        """Return the expected tokens of all sequences per second, if a step takes its minimum time.

        Raises:
            TypeError, ValueError, CostError, OSError: as :meth:`costcore.studies.serving.phase.Phase.time`.
        """
        return self.verify.batch * self.expected_tokens / self.bound_seconds(device)
