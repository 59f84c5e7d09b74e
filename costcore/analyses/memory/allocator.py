"""The memory that PyTorch's caching allocator takes from a GPU for the blocks of a ledger, and peaks of any batch size.

The allocator asks the driver for segments, gives parts of them to tensors, and keeps freed parts for later requests.
Requests are the blocks of the ledger; workspace of kernels comes on top.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from costcore.analyses.memory import POLICIES
from costcore.errors import unknown
from costcore.tables.answer import Content, Figure
from costcore.tables.result import Result
from costcore.text.amounts import readable
from costcore.trace.run import MemoryLedger

NO_WORKSPACE = "workspace of kernels is not included"


class Segment(NamedTuple):
    """Memory that the allocator took from the driver.

    Attributes:
        nbytes: its size.
        is_small: whether it belongs to the pool of small blocks.
        event: number of the ledger event that requested it; 0: before the run.
    """

    nbytes: int
    is_small: bool
    event: int


class Allocator(Result):
    """A caching allocator after serving all requests of a run in order.

    Blocks from before the run are allocated first. Segments are only released when the device is full: a device with
    less memory than :attr:`reserved` can be enough (:attr:`least_memory`), one with less than :attr:`allocated` cannot.

    Args:
        ledger: every block of the run.
        settings: the settings of the allocator.
        memory: the bytes that the device has for tensors; None: enough.
    """

    fits: bool
    requested: int
    allocated: int

    def __init__(self, ledger: MemoryLedger, settings: Settings, memory: int | None = None) -> None:
        self.policy = "cuda"
        self.settings = settings
        self.fits = True
        """Whether the device has enough memory, if segments are given back when it is full."""
        self.segments: list[Segment] = []
        """The segments taken from the driver, in order."""
        self.requested = 0
        """The peak of the bytes that tensors requested."""
        self.allocated = 0
        """The highest sum of blocks in use, in bytes: ``torch.cuda.max_memory_allocated``."""
        self._pools = {is_small: Pool(is_small, settings) for is_small in (True, False)}
        self._end = 0
        """Where the next segment begins."""
        self._memory = memory
        self._held = 0
        """The bytes of the segments that were not released."""
        self._ledger = ledger
        self._run(ledger)

    def __repr__(self) -> str:
        return f"<Allocator {self.policy}: allocated {self.allocated}, reserved {self.reserved} bytes>"

    def _content(self) -> Content:
        figures = [
            Figure("requested", "Asked for by tensors", self.requested, "bytes"),
            Figure("allocated", "Allocated", self.allocated, "bytes", "of blocks in use"),
            Figure("reserved", "Reserved", self.reserved, "bytes", "of segments"),
            Figure("n_segments", "Segments", len(self.segments), "count"),
        ]
        return Content(f"Caching allocator {self.policy}", figures, (), [NO_WORKSPACE])

    @property
    def reserved(self) -> int:
        """The bytes of all segments: ``torch.cuda.max_memory_reserved``."""
        return sum(segment.nbytes for segment in self.segments)

    @property
    def least_memory(self) -> int:
        """The minimum device memory for the run: PyTorch releases free segments before it fails.

        It is found by replays. It is a multiple of 2 MiB, as all segments are, between :attr:`allocated` and
        :attr:`reserved`.
        """
        low, high = self.allocated // SEGMENT_STEP - 1, self.reserved // SEGMENT_STEP
        while high - low > 1:
            steps = (low + high) // 2
            fits = Allocator(self._ledger, self.settings, steps * SEGMENT_STEP).fits
            low, high = (low, steps) if fits else (steps, high)
        return high * SEGMENT_STEP

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, also by name, and the settings in plain JSON types."""
        figures = {name: getattr(self, name) for name in ("policy", "requested", "allocated", "reserved")}
        return {**super().to_dict(), **figures, "n_segments": len(self.segments), "settings": asdict(self.settings)}

    def describe(self) -> str:
        """Return the figures as one line of text."""
        amounts = (readable(nbytes, "bytes") for nbytes in (self.allocated, self.requested, self.reserved))
        allocated, requested, reserved = amounts
        return (
            f"allocator {self.policy}: {allocated} allocated for {requested} of tensors, {reserved} reserved in "
            f"{len(self.segments)} segment{'s' * (len(self.segments) != 1)}; {NO_WORKSPACE}"
        )

    def _run(self, ledger: MemoryLedger) -> None:
        pieces: dict[int, Piece] = {}
        requested = allocated = 0
        for event, number, is_birth in _requests_and_frees(ledger):
            nbytes = ledger.blocks[number].nbytes
            if is_birth:
                piece = pieces[number] = self._allocate(nbytes, event)
                requested += nbytes
                allocated += piece.size
                self.requested = max(self.requested, requested)
                self.allocated = max(self.allocated, allocated)
            else:
                piece = pieces.pop(number)
                requested -= nbytes
                allocated -= piece.size
                piece.pool.free(piece)

    def _allocate(self, nbytes: int, event: int) -> Piece:
        size = rounded(nbytes, self.settings.roundup_power2_divisions)
        pool = self._pools[size <= SMALL]
        piece, taken = pool.allocate(size, self._end)
        if taken:
            self._end = max(self._end, piece.address + taken)
            self.segments.append(Segment(taken, pool.is_small, event))
            self._hold_segment(taken)
        return piece

    def _hold_segment(self, taken: int) -> None:
        # A full device makes PyTorch give back segments without blocks before it fails.
        self._held += taken
        if self._memory is not None and self._held > self._memory:
            self._held -= sum(pool.release() for pool in self._pools.values())
            self.fits = self.fits and self._held <= self._memory


def replay(ledger: MemoryLedger, policy: str = "cuda", **settings: Any) -> Allocator:
    """Return the allocations of an allocator for the blocks of a run.

    Args:
        ledger: every block of the run.
        policy: the name of the allocator, one of :data:`POLICIES`.
        settings: the fields of :class:`Settings`.

    Raises:
        TypeError, ValueError: for an unknown allocator or setting, or an invalid value; the message lists what is
            accepted.
    """
    if policy not in POLICIES:
        raise ValueError(unknown("allocator", policy, POLICIES))
    names = [field.name for field in fields(Settings)]
    for name in settings:
        if name not in names:
            raise TypeError(unknown("setting of the allocator", name, names))
    return Allocator(ledger, Settings(**settings))


def _requests_and_frees(ledger: MemoryLedger) -> Iterator[tuple[int, int, bool]]:
    # In the same event, requests sort before frees: a block that replaces another is allocated before that is freed.
    changes = [(block.born, False, i) for i, block in enumerate(ledger.blocks)]
    changes += [(block.died, True, i) for i, block in enumerate(ledger.blocks) if block.died is not None]
    for event, is_death, number in sorted(changes):
        yield event, number, not is_death


# Pools: how blocks are allocated and freed.
#
# The rules come from ``c10/cuda/CUDACachingAllocator.cpp`` and ``c10/core/AllocatorConfig.h`` of PyTorch 2.13, for one
# stream and a device that is large enough.


MIB = 2**20

SMALLEST = 512
"""Blocks are multiples of this, in bytes."""

SMALL = MIB
"""Requests of at most this size, after rounding, come from the pool of small blocks."""

SMALL_SEGMENT = 2 * MIB

LARGE_REQUEST = 10 * MIB
"""Requests of at least this size get a segment of their own, a multiple of :data:`SEGMENT_STEP`."""

SEGMENT_STEP = 2 * MIB

SPARE = 20 * MIB
"""A request of ``max_split_size`` or more accepts a free block if it exceeds the request by less than this."""


@dataclass(frozen=True)
class Settings:
    """The settings of the allocator as in ``PYTORCH_CUDA_ALLOC_CONF``; sizes are bytes.

    Attributes:
        roundup_power2_divisions: the number of equal steps between two powers of two to which requests are rounded up;
            0 and 1: no such rounding.
        max_split_size: larger blocks are not split; None: all are.
        expandable_segments: let one segment per pool grow page by page.
        large_segment_size: the segment for requests over 1 MiB and under 10 MiB, and the page of the pool of large
            blocks if segments expand.
    """

    roundup_power2_divisions: int = 0
    max_split_size: int | None = None
    expandable_segments: bool = False
    large_segment_size: int = 20 * MIB

    def __post_init__(self) -> None:
        divisions, split = self.roundup_power2_divisions, self.max_split_size
        if not _is_int(divisions) or divisions < 0 or divisions & (divisions - 1):
            raise ValueError(f"roundup_power2_divisions must be 0 or a power of two (got {divisions!r})")
        if split is not None and (not _is_int(split) or split <= self.large_segment_size):
            raise ValueError(
                f"max_split_size must be more bytes than large_segment_size, {self.large_segment_size} (got {split!r})"
            )
        segment = self.large_segment_size
        if not _is_int(segment) or segment < LARGE_REQUEST or segment % SEGMENT_STEP:
            raise ValueError(f"large_segment_size must be a multiple of 2 MiB, at least 10 MiB (got {segment!r} bytes)")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(eq=False, slots=True)
class Piece:
    """A part of a segment that is free, or belongs to one block.

    Attributes:
        pool: the pool of its segment.
        address: where it begins, in bytes; segments of a pool do not overlap.
        size: its size in bytes.
        is_free: whether no block has it.
        before, after: its neighbors in the segment.
    """

    pool: Pool
    address: int
    size: int
    is_free: bool = False
    before: Piece | None = None
    after: Piece | None = None


class Pool:
    """The free pieces of all segments of one size class, in order of size, then address."""

    def __init__(self, is_small: bool, settings: Settings) -> None:
        self.is_small = is_small
        self._settings = settings
        self._free: list[tuple[int, int]] = []
        self._at: dict[int, Piece] = {}
        self._page = SMALL_SEGMENT if is_small else settings.large_segment_size
        self._last: Piece | None = None
        """The last piece of the segment that grows."""

    def allocate(self, size: int, address: int) -> tuple[Piece, int]:
        """Return a piece for a request, and the size of the segment that had to be taken for it, or 0.

        Args:
            size: the request, rounded.
            address: where a new segment begins.
        """
        piece, taken = self._find(size), 0
        if piece is None:
            grow = self._grow if self._settings.expandable_segments else self._take
            piece, taken = grow(size, address)
        return self._split(piece, size), taken

    def _find(self, size: int) -> Piece | None:
        # Best fit; the end of an expandable segment, which can grow, is taken last.
        at = bisect_left(self._free, (size, 0))
        if at < len(self._free) and self._at[self._free[at][1]] is self._last:
            at += at + 1 < len(self._free)
        if at == len(self._free):
            return None
        found, limit = self._free[at][0], self._settings.max_split_size
        if limit is not None and (found >= limit if size < limit else found >= size + SPARE):
            return None
        return self._remove(self._at[self._free[at][1]])

    def _take(self, size: int, address: int) -> tuple[Piece, int]:
        if self.is_small:
            taken = SMALL_SEGMENT
        elif size < LARGE_REQUEST:
            taken = self._settings.large_segment_size
        else:
            taken = _multiple(size, SEGMENT_STEP)
        return Piece(self, address, taken), taken

    def _grow(self, size: int, address: int) -> tuple[Piece, int]:
        last = self._last
        if last is None or not last.is_free:
            start = address if last is None else last.address + last.size
            last = Piece(self, start, 0, before=last)
            if last.before is not None:
                last.before.after = last
            self._last = last
        else:
            self._remove(last)
        taken = _multiple(size - last.size, self._page)
        last.size += taken
        return last, taken

    def _split(self, piece: Piece, size: int) -> Piece:
        rest, settings = piece.size - size, self._settings
        if self.is_small or settings.expandable_segments:
            splits = rest >= SMALLEST
        else:
            splits = rest > SMALL and (settings.max_split_size is None or size < settings.max_split_size)
        if splits:
            other = Piece(self, piece.address + size, rest, before=piece, after=piece.after)
            if other.after is not None:
                other.after.before = other
            piece.size, piece.after = size, other
            if self._last is piece:
                self._last = other
            self._add(other)
        return piece

    def free(self, piece: Piece) -> None:
        """Make a piece free, and join it with its free neighbors."""
        if piece.before is not None and piece.before.is_free:
            piece = self._join(self._remove(piece.before), piece)
        if piece.after is not None and piece.after.is_free:
            piece = self._join(piece, self._remove(piece.after))
        self._add(piece)

    def _join(self, first: Piece, second: Piece) -> Piece:
        first.size += second.size
        first.after = second.after
        if first.after is not None:
            first.after.before = first
        if self._last is second:
            self._last = first
        return first

    def release(self) -> int:
        """Release unused segments to the driver, and return their bytes."""
        whole = [piece for piece in self._at.values() if piece.before is None and piece.after is None]
        for piece in whole:
            self._remove(piece)
            if piece is self._last:
                self._last = None
        return sum(piece.size for piece in whole)

    def _add(self, piece: Piece) -> None:
        piece.is_free = True
        self._at[piece.address] = piece
        insort(self._free, (piece.size, piece.address))

    def _remove(self, piece: Piece) -> Piece:
        piece.is_free = False
        del self._at[piece.address]
        del self._free[bisect_left(self._free, (piece.size, piece.address))]
        return piece


def rounded(nbytes: int, divisions: int) -> int:
    """Return the size of the block for a request.

    Args:
        nbytes: the request.
        divisions: equal steps between two powers of two to which large requests are rounded up; 0 and 1: none.
    """
    if divisions > 1 and nbytes > SMALLEST * divisions:
        return _multiple(nbytes, 2 ** (nbytes.bit_length() - 1) // divisions)
    return max(SMALLEST, _multiple(nbytes, SMALLEST))


def _multiple(nbytes: int, step: int) -> int:
    return -(-nbytes // step) * step


# Peak memory of any batch size, in closed form from two ledgers.
#
# If two runs make the same events, the bytes alive after event t of a run with batch B are ``c_t + d_t * B``. The peak
# is the upper envelope of these lines: convex, and linear in pieces.


class Line(NamedTuple):
    """The bytes alive after one event: ``nbytes + per_sample * batch``.

    Attributes:
        start: the smallest batch for which this event is the peak.
        nbytes: the bytes that do not depend on the batch.
        per_sample: the bytes per sample.
    """

    start: int
    nbytes: int
    per_sample: int

    def at(self, batch: int) -> int:
        """Return the bytes of a batch."""
        return self.nbytes + self.per_sample * batch


class Envelope:
    """The peak of every batch.

    Attributes:
        lines: the lines that are the highest for some batch, in order of the batch.

    Args:
        lines: pairs of the bytes that do not depend on the batch, and the bytes per sample; at least one.
    """

    def __init__(self, lines: Iterable[tuple[int, int]]) -> None:
        self.lines: Sequence[Line] = _upper_envelope(lines)

    def __repr__(self) -> str:
        terms = (f"{line.nbytes} + {line.per_sample} * batch from {line.start}" for line in self.lines)
        return f"<Envelope: {', '.join(terms)}>"

    def peak(self, batch: int) -> int:
        """Return the peak of a batch in bytes."""
        return max(line.at(batch) for line in self.lines)

    def lines_from(self, batch: int) -> list[Line]:
        """Return the lines that are the highest for some batch of at least ``batch`` samples."""
        ends = [*(line.start for line in self.lines[1:]), None]
        rows = zip(self.lines, ends, strict=True)
        return [Line(max(line.start, batch), *line[1:]) for line, end in rows if end is None or end > batch]

    def largest(self, nbytes: int) -> int | None:
        """Return the largest batch with a peak of at most ``nbytes``: 0 if none fits, None if all do."""
        ends = [(nbytes - line.nbytes) // line.per_sample for line in self.lines if line.per_sample > 0]
        if not ends:
            return None if self.lines[-1].nbytes <= nbytes else 0
        batch = min(ends)
        return batch if batch > 0 and self.peak(batch) <= nbytes else 0


def envelope_of(first: MemoryLedger, second: MemoryLedger, batch: int) -> Envelope:
    """Return the peak of every batch.

    Args:
        first: the ledger of a run with ``batch`` samples.
        second: the ledger of a run with ``batch + 1`` samples, with the same events.
        batch: at least 2, since some operators treat a single sample in another way.
    """
    pairs = zip(first.live(), second.live(), strict=True)
    return Envelope((low - (high - low) * batch, high - low) for low, high in pairs)


def difference(first: MemoryLedger, second: MemoryLedger) -> str:
    """Return how the events of two runs differ, as the end of a sentence; empty if they are equal."""
    if len(first.calls) != len(second.calls):
        return f"one allocates and frees memory {len(first.calls)} times, the other {len(second.calls)} times"
    pairs = zip(first.blocks, second.blocks, strict=False)
    for a, b in pairs:
        if (a.born, a.died, a.call, a.dtype) != (b.born, b.died, b.call, b.dtype):
            return f"they differ in the block of shape {a.shape} in one and {b.shape} in the other"
    return "" if len(first.blocks) == len(second.blocks) else "one has more blocks than the other"


def _upper_envelope(lines: Iterable[tuple[int, int]]) -> list[Line]:
    highest: dict[int, int] = {}
    for nbytes, per_sample in lines:
        highest[per_sample] = max(highest.get(per_sample, nbytes), nbytes)
    # Upper hull of the lines, by slope, over real batches from 1. At the end, lines that are highest for no integer
    # batch are dropped.
    hull: list[tuple[Fraction, int, int]] = []
    for per_sample in sorted(highest):
        nbytes, start = highest[per_sample], Fraction(1)
        while hull:
            start = Fraction(hull[-1][1] - nbytes, per_sample - hull[-1][2])
            if start > hull[-1][0]:
                break
            hull.pop()
            start = Fraction(1)
        hull.append((max(start, Fraction(1)), nbytes, per_sample))
    starts = [ceil(start) for start, _, _ in hull]
    ends = [*starts[1:], None]
    rows = zip(starts, ends, hull, strict=True)
    return [Line(start, nbytes, per) for start, end, (_, nbytes, per) in rows if end is None or start < end]
