"""The memory ledger: every block of memory of a run, with its lifetime, its origin and its kind."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

KINDS = ("parameter", "buffer", "input", "gradient", "optimizer", "saved", "output", "temporary")
"""What a block is for; every block has one kind.

``parameter``, ``buffer``, ``input`` and ``optimizer`` (state of an optimizer) mostly live before the run. ``gradient``
is the gradient of a parameter, ``saved`` is kept by autograd for a backward pass, ``output`` is held by the caller, and
``temporary`` is everything else.
"""


class Block(NamedTuple):
    """The memory behind one storage, which views and results of in-place operators share.

    Attributes:
        id: an id, unique in a run. A storage that changes its size becomes another block with the same id.
        nbytes: its size.
        kind: one of :data:`KINDS`.
        born: number of the event that allocated it, from 1; 0 if it lived before the run.
        died: number of the event that freed it; None if it lived at the end of the run.
        call: index of the call that made it; -1 if it lived before the run.
        shape: the shape of the first tensor in it.
        dtype: the dtype of that tensor.
        name: the name of a parameter, buffer or input, or that of the parameter whose gradient it is, or whose state of
            an optimizer, as in ``fc.weight (exp_avg)``; empty for all other blocks.
        device: the device it is on, ``"cuda:0"``; empty if that is unknown.
    """

    id: int
    nbytes: int
    kind: str
    born: int
    died: int | None
    call: int
    shape: tuple[int, ...]
    dtype: str
    name: str = ""
    device: str = ""


class MemoryLedger(NamedTuple):
    """The blocks of a run, and the sequence of events (a block is allocated, freed or resized).

    Attributes:
        blocks: every block, in order of birth.
        calls: for each event, the index of the call that ran; the number of calls for events after the last call.
        notes: what the figures stand for.
        approximations: what is estimated instead of observed.
    """

    blocks: tuple[Block, ...] = ()
    calls: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    approximations: tuple[str, ...] = ()

    def live(self, kind: str | None = None) -> list[int]:
        """Return the live bytes before the run and after each event, of one kind or of all blocks."""
        changes = [0] * (len(self.calls) + 1)
        for block in self.blocks:
            if kind is None or block.kind == kind:
                changes[block.born] += block.nbytes
                if block.died is not None:
                    changes[block.died] -= block.nbytes
        return list(accumulate(changes))

    @property
    def devices(self) -> list[str]:
        """The devices of the blocks, that of most blocks first."""
        return [device for device, _ in Counter(block.device for block in self.blocks).most_common()]

    def on(self, *devices: str) -> MemoryLedger:
        """Return the ledger of these devices alone; its events keep their numbers."""
        return self._replace(blocks=tuple(block for block in self.blocks if block.device in devices))

    def alive(self, event: int) -> list[Block]:
        """Return the blocks that are alive after an event; event 0 is the start of the run."""
        return [b for b in self.blocks if b.born <= event and (b.died is None or b.died > event)]

    def is_exact(self) -> bool:
        """Return whether every figure was observed."""
        return not self.approximations


class RawBlock(NamedTuple):
    """A block as a frontend records it.

    Attributes:
        block: the block; its kind is empty if its lifetime decides. Nor is it ``output`` if the block is freed.
        with_gradient: whether gradients were recorded when it was made.
    """

    block: Block
    with_gradient: bool


class RawLedger(NamedTuple):
    """The memory of a run as a frontend records it.

    Attributes:
        blocks: every block, in order of birth.
        calls: as in :class:`MemoryLedger`.
        storages: ids of blocks by the storage ids of calls.
        returns: whether it is known which blocks hold what the model returned; otherwise they are all blocks that live
            at the end and were made without gradients.
        notes, approximations: as in :class:`MemoryLedger`.
    """

    blocks: Sequence[RawBlock]
    calls: Sequence[int]
    storages: Mapping[int, int]
    returns: bool
    notes: tuple[str, ...] = ()
    approximations: tuple[str, ...] = ()


def decide_kinds(raw: RawLedger, phases: Sequence[str]) -> MemoryLedger:
    """Return the ledger, in which every block has a kind.

    Args:
        raw: the ledger of the frontend.
        phases: the phase of every call.
    """
    n_calls = len(phases)
    calls = tuple(accumulate((min(call, n_calls) for call in raw.calls), max))
    births = {block.born for block, _ in raw.blocks}
    starts = [_start(calls, call, births) for call in _starts_of_backward(phases)]
    blocks = []
    for block, with_gradient in raw.blocks:
        identity, nbytes, kind, born, died, call, *what = block
        if not kind or (kind == "output" and died is not None):
            phase = phases[call] if 0 <= call < n_calls else "forward"
            kind = _kind(block, phase, starts, with_gradient and raw.returns)
        made = identity, nbytes, kind, born, died, min(call, n_calls), *what
        blocks.append(tuple.__new__(Block, made))  # keywords would take three times as long
    return MemoryLedger(tuple(blocks), calls, raw.notes, raw.approximations)


def _kind(block: Block, phase: str, starts: Sequence[int], is_saved_at_end: bool) -> str:
    """Return the kind of a block from its lifetime.

    A block of the forward pass is saved if it lives when a backward pass begins. If none follows, it is saved if it
    lives at the end, gradients were recorded, and the model did not return it.

    Args:
        block: the block.
        phase: the phase of the call that made it.
        starts: for every backward pass the number of the last event before it.
        is_saved_at_end: whether a block of the forward pass that lives at the end is saved, not an output.
    """
    if phase == "forward":
        start = next((event for event in starts if event >= block.born), None)
        if start is not None:
            return "saved" if block.died is None or block.died > start else "temporary"
        if block.died is None and is_saved_at_end:
            return "saved"
    return "output" if block.died is None else "temporary"


def _start(calls: Sequence[int], call: int, births: Collection[int]) -> int:
    """Return the number of the last event before a call: blocks that are freed before it makes one die before it."""
    event = bisect_left(calls, call)
    while event < len(calls) and calls[event] == call and event + 1 not in births:
        event += 1
    return event


def _starts_of_backward(phases: Sequence[str]) -> list[int]:
    """Return the index of the first call of every backward pass."""
    is_backward = [phase in ("backward", "recompute") for phase in phases]
    return [i for i, now in enumerate(is_backward) if now and (i == 0 or not is_backward[i - 1])]
