"""The pools of a caching allocator: which part of which segment a request gets, and what is kept when it is freed.

The rules are those of ``c10/cuda/CUDACachingAllocator.cpp`` and ``c10/core/AllocatorConfig.h`` of PyTorch 2.13, for one
stream and a device that is large enough.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

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
"""A request of ``max_split_size`` or more accepts a free block that is larger by less than this."""


@dataclass(frozen=True)
class Settings:
    """The settings of the allocator, those of ``PYTORCH_CUDA_ALLOC_CONF``; sizes are bytes.

    Attributes:
        roundup_power2_divisions: round requests up to the next of this many equal steps between two powers of two; 0
            and 1: do not.
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
        """Return the smallest free piece that is large enough; the one that can grow only if there is no other."""
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
        """Return a new segment."""
        if self.is_small:
            taken = SMALL_SEGMENT
        elif size < LARGE_REQUEST:
            taken = self._settings.large_segment_size
        else:
            taken = _multiple(size, SEGMENT_STEP)
        return Piece(self, address, taken), taken

    def _grow(self, size: int, address: int) -> tuple[Piece, int]:
        """Return the free end of the segment, with as many more pages as the request needs."""
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
        """Return the first part of a piece; the rest becomes free if it is large enough."""
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
        """Give segments of which no block is in use back to the driver, and return their bytes."""
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
