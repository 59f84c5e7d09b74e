"""Where the memory of a composite operator goes: what it allocates and frees inside, for its calls that are replayed.

The operators inside a composite operator are not recorded, but their memory is seen like any other. A call that is
replayed runs none of them: the events of the first call, its frame, happen again. What a CPU computes as one operator
has no memory inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..meta.operands import all_tensors
from .blocks import LiveBlock
from .live_memory import LiveMemory

_NO_DEVICE = torch.device("meta")


class FrameEvent(NamedTuple):
    """An event inside a composite operator whose calls can be replayed.

    Attributes:
        block: number of the block inside the operator.
        is_birth: whether the block is allocated; otherwise it is freed.
        nbytes, shape, dtype, device: of a block that is allocated.
        output: position of the result whose memory the block is; -1 for a block that is freed inside the operator.
    """

    block: int
    is_birth: bool
    nbytes: int = 0
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    device: torch.device = _NO_DEVICE
    output: int = -1


def frame_of(memory: LiveMemory, mark: int, result: Any) -> tuple[FrameEvent, ...] | None:
    """Return the events since ``mark``, which a composite operator caused; None if they cannot be replayed.

    Args:
        memory: the memory of the run.
        mark: how many events there were before the operator.
        result: what it returned.
    """
    if memory.sum is not None:
        return None
    outputs: dict[int, int] = {}
    for i, number in memory.results(result):
        outputs.setdefault(number, i)
    events: list[FrameEvent] = []
    local: dict[int, int] = {}
    n_births = 0
    for _, ends, begins in memory.events[mark:]:
        block = memory.blocks[begins] if begins >= 0 and ends < 0 else None
        if block is not None:
            local[begins], n_births = n_births, n_births + 1  # numbers of freed blocks are not used again
            what = block.nbytes, tuple(block.shape), block.dtype, block.device
            events.append(FrameEvent(local[begins], True, *what, outputs.get(begins, -1)))
        elif ends in local and begins < 0:
            events.append(FrameEvent(local.pop(ends), False))
        else:
            return None
    return tuple(events) if all(number in outputs for number in local) else None


def replay_frame(memory: LiveMemory, events: Iterable[FrameEvent], tensors: Sequence[Tensor], result: Any) -> None:
    """Register the memory of a composite operator whose call is replayed."""
    results = [*all_tensors((result,))]
    numbers: dict[int, int] = {}
    for event in events:
        if not event.is_birth:
            memory.note_death(numbers[event.block])
        elif event.output >= 0:
            n_blocks = len(memory.blocks)
            memory.see(results[event.output], tensors)
            if len(memory.blocks) > n_blocks and (made := memory.blocks[-1]) is not None:
                made.shape, made.dtype = event.shape, event.dtype
        else:
            numbers[event.block] = len(memory.blocks)
            memory.note_birth()
            memory.blocks.append(LiveBlock(event.nbytes, event.shape, event.dtype, event.device))


def forget_inner(memory: LiveMemory, mark: int) -> None:
    """Do not count the blocks that were allocated and freed since ``mark``, inside what is one operator on a CPU."""
    memory.settle()
    events = memory.events[mark:]
    inner = {ends for _, ends, _ in events if ends >= 0} & {begins for _, _, begins in events if begins >= 0}
    memory.events[mark:] = [event for event in events if event[1] not in inner and event[2] not in inner]
    for number in inner:
        memory.blocks[number] = None
