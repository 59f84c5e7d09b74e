"""One pass of a model that is served: a prefill, a decode step, or new tokens after a cached prefix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from os import PathLike
from typing import TYPE_CHECKING

from costcore.ledger.intensity import intensity
from costcore.studies.serving.cached_model import Latent
from costcore.studies.serving.experts import not_expected, not_needed
from costcore.studies.serving.latents import attended
from costcore.studies.serving.point import Point
from costcore.studies.serving.tally import Experts, Tallies, Tally
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.table import Column
from costcore.text.values import Shown

if TYPE_CHECKING:
    from costcore.analyses.devices.device import Device
    from costcore.studies.serving.bound import PhaseTime

CACHES = ("static", "paged", "dynamic")
"""How a cache grows: in memory that is there, in blocks, or by a copy of all of it."""

COLUMNS = ("load_weight", "load_act", "store_act", "load_kv", "store_kv")
"""The columns of bytes."""

TITLES = {
    "load_weight": "Weights read",
    "load_act": "Activations read",
    "store_act": "Activations written",
    "load_kv": "Cache read",
    "store_kv": "Cache written",
}
"""What the columns of bytes are called."""

SHOWN = ("macs", *COLUMNS)
"""What an operator must have some of to be shown."""

MOST_OPERATORS = 8
"""The number of operators that ``print`` and notebooks show; a row sums the others."""


@dataclass(frozen=True, repr=False)
class Phase(Result):
    """The work of one pass. Bytes are those of the formats in which weights, activations and cache are stored.

    Attributes:
        point: sequences, new tokens of each, tokens of each in the cache.
        tallies: the sums over its calls.
        compute_dtype: the dtype in which products are computed.
        act_bits: bits of an activation.
        cache_bits: bits of a number in the cache, with its scales.
        window: the smallest window of its layers; None without one.
        cache: how the cache grows, one of :data:`CACHES`, or the name of a plug-in's cache.
    """

    point: Point
    tallies: Tallies
    compute_dtype: str
    act_bits: int
    cache_bits: Fraction
    window: int | None
    cache: str

    def __repr__(self) -> str:
        sequences = f"{self.batch} sequence{'s' * (self.batch != 1)} of {self.context} tokens"
        return f"<Phase {self.name}: {sequences}, {self.macs:,} MACs, {self.memory_bytes:,} bytes of weights and cache>"

    def _answer(self) -> Answer:
        per_byte = Shown(self.intensity, f"{self.intensity:.3g}")
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
        return Answer(title, figures, [operators])

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
        """The sums over all calls; amounts of bits."""
        total = Tally()
        for tally in self.tallies.by_op.values():
            total = total.plus(tally)
        return total

    @property
    def macs(self) -> int:
        """Multiplications of matrix products, with all pairs of attention."""
        return int(self.total.macs)

    @property
    def flops(self) -> int:
        """Floating-point operations of all kinds; a fused multiply-add is one."""
        return int(self.total.flops)

    @property
    def load_weight(self) -> int:
        """Bytes of weights that are read: of experts as many as are expected if tokens choose them independently."""
        return _nbytes(self.total.load_weight - sum(self._bits_by_op(not_expected).values()))

    @property
    def most_load_weight(self) -> int:
        """The same with as many experts as there can be: one for every row, at most all."""
        return _nbytes(self.total.load_weight)

    @property
    def least_load_weight(self) -> int:
        """The same with as few experts as there can be: those of one token, if all tokens choose the same."""
        return _nbytes(self.total.load_weight - sum(self._bits_by_op(not_needed).values()))

    @property
    def load_act(self) -> int:
        """Bytes of activations that are read, by every call that reads them: calls are not fused."""
        return _nbytes(self.total.load_act)

    @property
    def store_act(self) -> int:
        """Bytes of activations that are written; calls are not fused."""
        return _nbytes(self.total.store_act)

    @property
    def load_kv(self) -> int:
        """Bytes of keys and values that attention reads, those of the new tokens included."""
        return _nbytes(self.total.load_kv)

    @property
    def store_kv(self) -> int:
        """Bytes of keys and values of the new tokens."""
        return _nbytes(self.total.store_kv)

    @property
    def cache_append(self) -> int:
        """Bytes that appending to the cache moves, apart from the columns.

        A static and a paged cache write what is new, ``store_kv``. A dynamic one is read and written whole.
        """
        return self.store_kv if self.cache in ("static", "paged") else _nbytes(self.total.copied)

    @property
    def memory_bytes(self) -> int:
        """Bytes that must come from or go to main memory: weights, and the cache once.

        New keys and values are written and the cached ones are read; together these are ``load_kv``.
        """
        return self.load_weight + max(self.load_kv, self.store_kv)

    @property
    def least_memory_bytes(self) -> int:
        """The same with as few experts as there can be."""
        return self.least_load_weight + max(self.load_kv, self.store_kv)

    @property
    def intensity(self) -> float:
        """FLOPs of matrix products (two per MAC) per byte of ``memory_bytes``."""
        return float(intensity(2 * self.macs, self.memory_bytes) or 0)

    @property
    def needed_macs(self) -> int:
        """The MACs without pairs of attention that a kernel can skip: a key after its query, or beyond the window.

        If layers have different windows, those of all layers are taken to be the smallest: no kernel needs less.
        """
        return self._needed(self.total)

    def _needed(self, tally: Tally) -> int:
        new, past = self.point.tokens, self.point.past
        if new == 1:  # what a window excludes is not in the cache
            return ceil(tally.macs)
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
        """Return MACs, FLOPs and the columns of bytes by operator, the most bytes first."""
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
        """Return the least time of the pass on a device; see :class:`costcore.studies.serving.bound.PhaseTime`.

        With experts it is the least time of the mean pass, as it reads as many as are expected; ``least_seconds`` of
        the result bounds every pass.

        Raises:
            TypeError, ValueError, CostError, OSError: if there is no such device, or its file is invalid.
            CostError: if the bandwidth of its memory is unknown.
        """
        from costcore.studies.serving.bound import least_time

        nbytes, least = self.memory_bytes, self.least_memory_bytes
        return least_time(device, self.compute_dtype, self.needed_macs, nbytes, self.new_tokens, least)

    def time_by_op(self, device: str | PathLike[str] | Device) -> dict[str, PhaseTime]:
        """Return the least time of the calls of every operator that multiplies, or reads weights or cache.

        Their sum is the least time of a program that runs one operator after the other; that of the pass is less, as
        bytes of one operator may come while another computes.

        Raises:
            TypeError, ValueError, CostError, OSError: as :meth:`time`.
        """
        from costcore.studies.serving.bound import least_time

        expected, needed = self._bits_by_op(not_expected), self._bits_by_op(not_needed)
        found = {}
        for op, tally in self._by_op().items():
            nbytes, least = (_memory_bytes(tally, less[op]) for less in (expected, needed))
            if nbytes or tally.macs:
                found[op] = least_time(device, self.compute_dtype, self._needed(tally), nbytes, self.new_tokens, least)
        return dict(sorted(found.items(), key=lambda item: -item[1].bound_seconds))

    def with_latents(self, latents: Sequence[Latent], how: str) -> Phase:
        """Return the pass with another way to attend to latent vectors.

        Args:
            latents: the attention layers that make keys and values of a latent vector.
            how: one of :data:`costcore.studies.serving.latents.WAYS`.
        """
        by_op = attended(self.tallies.by_op, latents, self.point, how, self.cache_bits)
        return replace(self, tallies=self.tallies._replace(by_op=by_op))

    def _bits_by_op(self, left_out: Callable[[Experts, int], Fraction]) -> defaultdict[str, Fraction]:
        """Return the bits of experts that are read at most, but are left out, by operator."""
        found = defaultdict[str, Fraction](Fraction)
        for each in self.tallies.experts:
            found[each.op] += left_out(each, self.new_tokens)
        return found


def pairs_before(new: int, past: int, window: int | None) -> int:
    """Return the pairs of a new token and one before it, or itself, that a window of so many tokens allows."""
    window = window or past + new
    below = max(0, min(new, window - past))  # new tokens that see all before them
    return below * past + below * (below + 1) // 2 + (new - below) * window


def _nbytes(bits: Fraction | int) -> int:
    """Return the bytes of so many bits, rounded to the nearest."""
    return round(Fraction(bits) / 8)


def _memory_bytes(tally: Tally, left_out: Fraction) -> int:
    """Return the bytes of weights, without some of experts, and of the cache once."""
    return _nbytes(tally.load_weight - left_out) + max(_nbytes(tally.load_kv), _nbytes(tally.store_kv))


def _entry(tally: Tally, not_expected: Fraction) -> dict[str, int]:
    tally = tally._replace(load_weight=tally.load_weight - not_expected)
    return {
        "n_calls": int(tally.n_calls),
        "macs": int(tally.macs),
        "flops": int(tally.flops),
        **{column: _nbytes(getattr(tally, column)) for column in COLUMNS},
    }
