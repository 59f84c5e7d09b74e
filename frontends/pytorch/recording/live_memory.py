"""The storages of a run: when the memory behind its tensors is allocated, resized and freed.

Every storage that an operator returns is watched by a weak reference. Meta tensors die by reference count exactly as
tensors with data do, so that no model of autograd is needed: saved tensors, gradients and the state of an optimizer
live as long as they really would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, UntypedStorage

from ..meta.operands import all_tensors
from .blocks import LiveBlock, Watch, raw_blocks
from .storages import STRIDED, is_dense, nested_parts_of, storage_of


class Sum(NamedTuple):
    """A sum that may take the place of its first operand; it is allocated only if the operand lives on.

    Attributes:
        watch: its watch.
        operand: the number of the block of the operand.
        event: the event of its allocation, which is not among the others yet, and the position where it belongs.
    """

    watch: Watch
    operand: int
    position: int
    event: tuple[int, int, int]


class LiveMemory:
    """The blocks of memory of one capture while it lasts.

    Args:
        storage_at: returns the id of the storage object at an address; 0 for none.
        n_calls: returns how many calls were recorded so far.

    Attributes:
        blocks: all blocks by number; None for one that turned out to be none.
        events: for each event the number of calls before it, and the numbers of the blocks that end and begin, or -1.
        resized: the watches of storages whose size changed, and of those that were empty before the run.
        sum: the last sum, until it is known whether it is made in place.
    """

    def __init__(self, storage_at: Callable[[int], int], n_calls: Callable[[], int]) -> None:
        self.blocks: list[LiveBlock | None] = []
        self.events: list[tuple[int, int, int]] = []
        self.resized: list[Watch] = []
        self.sum: Sum | None = None
        self._storage_at = storage_at
        self._n_calls = n_calls
        self._watches: dict[int, Watch] = {}

    def see(self, tensor: Tensor, operands: Sequence[Tensor]) -> Tensor | None:
        """Register the memory of a result of an operator with these operands.

        Returns:
            The operand that has the same memory, if that was never seen before.
        """
        storage = tensor.untyped_storage()
        address = storage._cdata
        watch = self._watches.get(address)
        nbytes = storage.nbytes()
        if watch is not None and watch() is storage:
            if nbytes != watch.nbytes:
                self.resize(watch, nbytes)
            return None
        if not nbytes:
            return None
        for operand in operands:
            if operand.layout is STRIDED and storage_of(operand) is storage:
                return operand
        self.note_birth()
        self.add(tensor, storage, nbytes)
        if tensor.is_nested:
            for part in nested_parts_of(tensor):
                self.see(part, ())
        return None

    def note_birth(self) -> None:
        """Note that the block that is added next is allocated now."""
        self.events.append((self._n_calls(), -1, len(self.blocks)))

    def note_death(self, number: int) -> None:
        """Note that a block is freed."""
        self.events.append((self._n_calls(), number, -1))

    def add(self, tensor: Tensor, storage: UntypedStorage, nbytes: int) -> LiveBlock:
        """Watch a storage from now on, and return its block."""
        shape = (nbytes // tensor.element_size(),) if tensor.is_nested else tensor.shape
        return self._watch(
            storage, nbytes, LiveBlock(nbytes, shape, tensor.dtype, tensor.device, self._storage_at(id(storage)))
        )

    def _watch(self, storage: UntypedStorage, nbytes: int, block: LiveBlock) -> LiveBlock:
        watch = Watch(storage, self._freed)
        watch.address, watch.object_address = storage._cdata, id(storage)
        watch.nbytes = nbytes
        watch.number = len(self.blocks)
        self._watches[watch.address] = watch
        self.blocks.append(block)
        return block

    def begin(self, storage: UntypedStorage) -> None:
        """Watch a storage that gets memory now, before any tensor in it is seen."""
        self.note_birth()
        nbytes = storage.nbytes()
        block = LiveBlock(nbytes, (nbytes,), torch.uint8, storage.device, self._storage_at(id(storage)))
        self._watch(storage, nbytes, block)

    def add_base(self, tensor: Tensor) -> LiveBlock:
        """Watch a storage that lives before the run, and return its block."""
        storage = tensor.untyped_storage()
        block = self.add(tensor, storage, storage.nbytes())
        block.is_base = True
        if not block.nbytes:
            self.resized.append(self._watches[storage._cdata])
        return block

    def watch_of(self, storage: UntypedStorage) -> Watch | None:
        """Return the watch of a storage; None if it is not watched."""
        watch = self._watches.get(storage._cdata)
        return watch if watch is not None and watch() is storage else None

    def block_of(self, storage: UntypedStorage) -> LiveBlock | None:
        """Return the block that a storage is now; None if it is not watched."""
        watch = self.watch_of(storage)
        return None if watch is None else self.blocks[watch.number]

    def _freed(self, watch: Watch) -> None:
        """Register that a storage is freed; Python calls this when its last reference is gone."""
        if self._watches.get(watch.address) is watch:
            del self._watches[watch.address]
        if self.sum is not None:
            if self.sum.operand == watch.number:
                self._take_over(watch)
                return
            if self.sum.watch is watch:
                self.settle()
        if watch.nbytes:
            self._note_storage(watch)
            self.note_death(watch.number)

    def find_resized(self) -> None:
        """Register which storages changed their size again, which no operator does that a dispatch mode sees."""
        for watch in [*self.resized]:
            storage = watch()
            if storage is None:
                self.resized.remove(watch)
            elif storage.nbytes() != watch.nbytes:
                self.resize(watch, storage.nbytes())

    def resize(self, watch: Watch, nbytes: int) -> None:
        """Register that a storage changed its size: another block with the same id begins, and then its block ends."""
        self._note_storage(watch)
        old = self.blocks[watch.number]
        assert old is not None
        if nbytes:
            self.note_birth()
        if watch.nbytes:
            self.note_death(watch.number)
        watch.number, watch.nbytes = len(self.blocks), nbytes
        self.blocks.append(old.resized(nbytes))
        if watch not in self.resized:
            self.resized.append(watch)

    def _note_storage(self, watch: Watch) -> None:
        """Note the storage id of a block, if it belongs to an operand of a recorded call."""
        block = self.blocks[watch.number]
        storage = self._storage_at(watch.object_address)
        if block is not None and storage != block.earlier:
            block.storage = storage

    # Sums that are made in place, but not inside a dispatch mode

    def may_add_in_place(self, first: Tensor, result: Tensor) -> None:
        """Note that a sum may take the place of its first operand, if that is freed before anything else happens.

        Where two gradients of one tensor meet, the engine of autograd adds in place if it holds the last reference to
        the first. So does ``linear`` with a bias. Inside a dispatch mode, which may return tensors of any type, they
        never do.
        """
        if not self.events or self.events[-1][2] != len(self.blocks) - 1 or not is_dense(first):
            return
        watch = self._watches.get(result.untyped_storage()._cdata)
        old = self._watches.get(first.untyped_storage()._cdata)
        if watch is None or old is None or watch.number != len(self.blocks) - 1:
            return
        block = self.blocks[old.number]
        if block is not None and block.nbytes == old.nbytes:
            self.sum = Sum(watch, old.number, len(self.events) - 1, self.events.pop())

    def settle(self) -> None:
        """Allocate the last sum, if that is open: its first operand lives on."""
        if self.sum is not None:
            _, _, position, event = self.sum
            self.sum = None
            self.events.insert(position, event)

    def _take_over(self, old: Watch) -> None:
        """Let a sum take the place of its first operand, which is freed."""
        assert self.sum is not None
        watch = self.sum.watch
        self.sum = None
        self._note_storage(old)
        self.blocks[watch.number] = None
        watch.number = old.number

    # The result

    def results(self, result: Any) -> Iterator[tuple[int, int]]:
        """Yield position and number of the block of every tensor that an operator returned, if it is watched."""
        for i, tensor in enumerate(all_tensors((result,))):
            watch = self._watches.get(tensor.untyped_storage()._cdata) if tensor.layout is STRIDED else None
            if watch is not None:
                yield i, watch.number

    def raw(self) -> tuple[list[Any], list[int], dict[int, int]]:
        """Return all blocks, the number of calls before every event, and the ids of blocks by that of their storage."""
        for watch in [*self._watches.values()]:
            self._note_storage(watch)
        events = [*self.events]
        pairs = [*raw_blocks(self.blocks, events)]
        storages = {storage: block.block.id for block, storage in pairs if storage}
        return [block for block, _ in pairs], [call for call, _, _ in events], storages

    def clear(self) -> None:
        """Watch nothing any more."""
        self._watches.clear()
        self.resized.clear()
        self.blocks.clear()
