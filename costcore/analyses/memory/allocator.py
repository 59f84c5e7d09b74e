"""The memory that a caching allocator takes from the device for the blocks of a ledger.

PyTorch asks the driver of a GPU for segments, gives tensors blocks of them, and keeps what is freed for later
(:mod:`costcore.analyses.memory.caching`). What is asked for is the ledger: kernels of a GPU need workspace on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from costcore.analyses.memory import POLICIES
from costcore.analyses.memory.caching import SEGMENT_STEP, SMALL, Piece, Pool, Settings, rounded
from costcore.messages import unknown
from costcore.tables.answer import Answer, Figure
from costcore.tables.result import Result
from costcore.text.amounts import readable
from costcore.trace.memory_ledger import MemoryLedger

NO_WORKSPACE = "workspace of kernels is not included"


class Segment(NamedTuple):
    """Memory that the allocator took from the driver.

    Attributes:
        nbytes: its size.
        is_small: whether it belongs to the pool of small blocks.
        event: number of the event of the ledger for which it was taken; 0: before the run.
    """

    nbytes: int
    is_small: bool
    event: int


class Allocator(Result):
    """What a caching allocator does with the blocks of a run, in order.

    Memory that lives before the run is allocated first. Segments are only given back when the device is full: a device
    with less memory than :attr:`reserved` can be enough (:attr:`least_memory`), one with less than :attr:`allocated`
    is not.

    Args:
        ledger: every block of the run.
        settings: the settings of the allocator.
        memory: the bytes that the device has for tensors; None: enough.
    """

    def __init__(self, ledger: MemoryLedger, settings: Settings, memory: int | None = None) -> None:
        self.policy = "cuda"
        self.settings = settings
        self.fits = True
        """Whether the device has enough memory, if segments are given back when it is full."""
        self.segments: list[Segment] = []
        """What was taken from the driver, in order."""
        self.requested = 0
        """The highest sum of bytes that tensors asked for."""
        self.allocated = 0
        """The highest sum of blocks in use, in bytes: ``torch.cuda.max_memory_allocated``."""
        self._pools = {is_small: Pool(is_small, settings) for is_small in (True, False)}
        self._end = 0
        """Where the next segment begins."""
        self._memory = memory
        self._held = 0
        """The bytes of the segments that were not given back."""
        self._ledger = ledger
        self._run(ledger)

    def __repr__(self) -> str:
        return f"<Allocator {self.policy}: allocated {self.allocated}, reserved {self.reserved} bytes>"

    def _answer(self) -> Answer:
        figures = [
            Figure("requested", "Asked for by tensors", self.requested, "bytes"),
            Figure("allocated", "Allocated", self.allocated, "bytes", "of blocks in use"),
            Figure("reserved", "Reserved", self.reserved, "bytes", "of segments"),
            Figure("n_segments", "Segments", len(self.segments), "count"),
        ]
        return Answer(f"Caching allocator {self.policy}", figures, (), [NO_WORKSPACE])

    @property
    def reserved(self) -> int:
        """The bytes of all segments: ``torch.cuda.max_memory_reserved``."""
        return sum(segment.nbytes for segment in self.segments)

    @property
    def least_memory(self) -> int:
        """The least bytes with which the run does not fail: PyTorch gives segments back, and tries again.

        It is found by replays, a multiple of 2 MiB as all segments are, and neither below :attr:`allocated` nor above
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
        """Serve the requests of a ledger in order."""
        pieces: dict[int, Piece] = {}
        requested = allocated = 0
        for event, number, is_birth in _requests(ledger):
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
        """Return the part of a segment that a request gets."""
        size = rounded(nbytes, self.settings.roundup_power2_divisions)
        pool = self._pools[size <= SMALL]
        piece, taken = pool.allocate(size, self._end)
        if taken:
            self._end = max(self._end, piece.address + taken)
            self.segments.append(Segment(taken, pool.is_small, event))
            self._hold(taken)
        return piece

    def _hold(self, taken: int) -> None:
        """Count a new segment; if the device is full, others of which no block is in use are given back before."""
        self._held += taken
        if self._memory is not None and self._held > self._memory:
            self._held -= sum(pool.release() for pool in self._pools.values())
            self.fits = self.fits and self._held <= self._memory


def replay(ledger: MemoryLedger, policy: str = "cuda", **settings: Any) -> Allocator:
    """Return what an allocator does with the blocks of a run.

    Args:
        ledger: every block of the run.
        policy: the name of the allocator, one of :data:`POLICIES`.
        settings: the fields of :class:`Settings`.

    Raises:
        TypeError, ValueError: for an unknown allocator or setting, or an invalid value; the message has what is
            accepted.
    """
    if policy not in POLICIES:
        raise ValueError(unknown("allocator", policy, POLICIES))
    names = [field.name for field in fields(Settings)]
    for name in settings:
        if name not in names:
            raise TypeError(unknown("setting of the allocator", name, names))
    return Allocator(ledger, Settings(**settings))


def _requests(ledger: MemoryLedger) -> Iterator[tuple[int, int, bool]]:
    """Yield for every birth and death its event, the number of the block, and whether it is a birth, in order.

    In an event in which a block takes the place of another, both live for a moment.
    """
    changes = [(block.born, False, i) for i, block in enumerate(ledger.blocks)]
    changes += [(block.died, True, i) for i, block in enumerate(ledger.blocks) if block.died is not None]
    for event, is_death, number in sorted(changes):
        yield event, number, not is_death
