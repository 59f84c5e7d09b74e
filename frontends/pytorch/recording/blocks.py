"""Blocks of memory while a run lasts, and what becomes of them when it is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import ref

import torch
from torch import Tensor, UntypedStorage

from costcore.trace.memory_ledger import Block, RawBlock

from ..tensors import dtype_name

_grad_enabled = torch.is_grad_enabled


class Watch(ref[UntypedStorage]):
    """A weak reference to a storage, with the number of its block."""

    __slots__ = ("address", "nbytes", "number", "object_address")
    address: int
    object_address: int
    nbytes: int
    number: int


class LiveBlock:
    """A block while the run lasts.

    Attributes:
        nbytes: its size; what is counted may be less than its storage has.
        kind: its kind if that is known already.
        is_base: whether it lived before the run.
        shape, dtype, device: of the first tensor in it.
        name: name of a parameter, buffer or input.
        storage: storage id of the operands of recorded calls that are in it; 0 for none.
        earlier: storage id of what was at the same address before.
        first: the first block of its storage, if that changed its size.
        with_gradient: whether gradients were recorded when it was made.
    """

    kind = ""
    is_base = False
    name = ""
    storage = 0
    first: LiveBlock | None = None

    def __init__(
        self, nbytes: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device, earlier: int = 0
    ) -> None:
        self.nbytes = nbytes
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.earlier = earlier
        self.with_gradient = _grad_enabled()

    def describe(self, tensor: Tensor) -> None:
        """Take shape and dtype of the first tensor in a block that began without one."""
        if self.dtype is torch.uint8 and tuple(self.shape) == (self.nbytes,):
            self.shape, self.dtype = tensor.shape, tensor.dtype

    def resized(self, nbytes: int) -> LiveBlock:
        """Return the block that begins when the storage of this one changes its size."""
        new = LiveBlock(nbytes, self.shape, self.dtype, self.device, self.earlier)
        new.kind, new.name, new.storage, new.with_gradient = self.kind, self.name, self.storage, self.with_gradient
        new.first = self.first or self
        return new


def _lives(events: Sequence[tuple[int, int, int]]) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """Return for every block the event that allocated it, with its call, and the event that freed it."""
    born: dict[int, tuple[int, int]] = {}
    died: dict[int, int] = {}
    for event, (call, ends, begins) in enumerate(events, 1):
        if ends >= 0:
            died[ends] = event
        if begins >= 0:
            born[begins] = event, call
    return born, died


def raw_blocks(
    blocks: Sequence[LiveBlock | None], events: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[RawBlock, int]]:
    """Yield every block in order of birth, with the storage id of the operands of recorded calls in it; 0 for none."""
    born, died = _lives(events)
    new = tuple.__new__  # thrice as fast as the constructor of a named tuple
    before = 0, -1
    ids: dict[LiveBlock, int] = {}
    devices: dict[torch.device, str] = {}
    for number in sorted(range(len(blocks)), key=lambda number: born.get(number, before)):
        block = blocks[number]
        if block is None or (number not in born and not block.is_base):
            continue
        identity = ids.setdefault(block.first or block, len(ids) + 1)
        if not block.nbytes:
            continue
        event, call = born.get(number, before)
        device = devices.get(block.device)
        if device is None:
            device = devices[block.device] = str(block.device)
        what = tuple(block.shape), dtype_name(block.dtype), block.name, device
        made = new(Block, (identity, block.nbytes, block.kind, event, died.get(number), call, *what))
        yield new(RawBlock, (made, block.with_gradient)), block.storage
