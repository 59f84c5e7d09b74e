"""The memory ledger of one capture: every block of memory, from before the run until after it.

:class:`StorageLedger` gives blocks their kinds and names. :class:`LiveMemory` tracks storages from allocation to free,
by weak references, so no model of autograd is needed. If a composite operator is replayed from the call cache, its
memory events are repeated. The last section has the module calls of the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakSet, ref

import torch
from torch import Tensor, UntypedStorage
from torch.nn import Module, Parameter
from torch.optim import Optimizer
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from costcore.trace.call import ModuleCall
from costcore.trace.interrupts import collector_off
from costcore.trace.run import Block, RawBlock, RawLedger

from ..meta.values import PLAIN, all_tensors, without_capture
from ..naming import Flag
from ..tensors import dtype_name, join, nested_tensors, shape_of, walk
from .modules import Identities

_grad_enabled = torch.is_grad_enabled

_current_node = torch._C._current_autograd_node

_ADD = torch.ops.aten.add.Tensor

_LIFTS = torch.ops.aten.lift_fresh.default, torch.ops.aten.lift.default

UNSEEN = "memory: tensors of {type} have no accessible storage; their memory is not counted"

SPARSE = "memory: sparse tensors have no elements on the meta device; their memory is not counted"


class StorageLedger:
    """The blocks of memory of one capture.

    Args:
        identities: the ids of the storages of recorded calls.
        n_calls: returns the number of recorded calls.

    Attributes:
        paused: whether nothing is recorded, because the running code exists only for the capture.
        adding_in_place: whether a composite operator is running that adds in place without a dispatch mode.
    """

    paused: Flag
    adding_in_place: Flag

    def __init__(self, identities: Identities, n_calls: Callable[[], int]) -> None:
        self.paused, self.adding_in_place = Flag(), Flag()
        self._identities = identities
        self._memory = LiveMemory(identities.storage_at, n_calls)
        self._was_backward = False
        self._leaves: dict[int, tuple[ref[Tensor], str]] = {}
        """The tensors that may have a gradient, and their names, by address."""
        self._attributes: dict[int, ref[Tensor]] = {}
        """Tensors that are attributes of modules, neither parameters nor buffers, by address."""
        self._optimizers: WeakSet[Optimizer] = WeakSet()
        self._has_returned = False
        self._notes: dict[str, None] = {}
        self._approximations: dict[str, None] = {}
        self._result: RawLedger | None = None

    # Memory that lives before the run

    def watch_all(self, values: Iterable[Any]) -> None:
        """Register models, optimizers and tensors that live before the run.

        Raises:
            TypeError: for anything else.
        """
        for value in values:
            if not isinstance(value, (Module, Optimizer, Tensor, Mapping, list, tuple, set)):
                raise TypeError(f"watch expects modules, optimizers and tensors (got {value!r})")
            self.watch(value)

    def watch(self, value: Any, kind: str = "", name: str = "") -> None:
        """Register memory from before the run.

        Args:
            value: a module, an optimizer, a tensor, or a list, tuple or dict of these.
            kind: the kind of the tensors; default: parameter, buffer, optimizer state or input, as found.
            name: the name of a tensor.
        """
        if isinstance(value, Tensor):
            self._watch_tensor(value, kind or ("parameter" if isinstance(value, Parameter) else "input"), name)
        elif isinstance(value, Module):
            self._watch_module(value)
        elif isinstance(value, Optimizer):
            self.use_optimizer(value)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self.watch(item, kind, join(name, str(key)))
        elif isinstance(value, (list, tuple, set)):
            for i, item in enumerate(value):
                self.watch(item, kind, join(name, str(i)) if name else "")

    def _watch_module(self, model: Module) -> None:
        for path, module, is_first in walk(model):
            if is_first:
                before = f"{path}." if path else ""
                for kind, tensors in (("parameter", module._parameters), ("buffer", module._buffers)):
                    for name, tensor in tensors.items():
                        if tensor is not None:
                            self._watch_tensor(tensor, kind, before + name)
                for value in vars(module).values():
                    for item in value if type(value) in (list, tuple) else (value,):
                        if isinstance(item, Tensor):
                            self._attributes[id(item)] = ref(item)

    def _watch_tensor(self, tensor: Tensor, kind: str, name: str) -> None:
        self._add_base(tensor, kind, name)
        if tensor.requires_grad and tensor.is_leaf:
            self._leaves[id(tensor)] = ref(tensor), self._name_of(tensor) or name
            gradient = tensor.grad
            if gradient is not None:
                self._add_base(gradient, "gradient", name)

    def _name_of(self, tensor: Tensor) -> str:
        found = self._leaves.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else ""

    def watch_operand(self, tensor: Tensor) -> None:
        """Register an operand that no operator of the run made: it lived before the run."""
        if self.paused.is_set:
            return
        storage = storage_of(tensor)
        if storage is not None and not tensor.requires_grad:
            known = self._memory.block_of(storage)
            if known is not None and known.kind != "input":
                known.describe(tensor)
                return
        elif (leaf := self._leaves.get(id(tensor))) is not None and leaf[0]() is tensor:
            return
        kind = "parameter" if isinstance(tensor, Parameter) else "input"
        is_buffer = storage is not None and self._identities.is_buffer(storage)
        self._watch_tensor(tensor, "buffer" if is_buffer else kind, "")

    def use_optimizer(self, optimizer: Optimizer) -> None:
        """Register the parameters of an optimizer, and its state if it has one already."""
        self._optimizers.add(optimizer)
        for group in optimizer.param_groups:
            self.watch(group["params"])
        for part, name in self._state_of(optimizer):
            self._add_base(part, "optimizer", name)

    def _state_of(self, optimizer: Optimizer) -> list[tuple[Tensor, str]]:
        # Names are like ``fc.weight (exp_avg)``.
        return [
            (part, f"{self._name_of(leaf)} ({key})")
            for leaf, state in [*optimizer.state.items()]
            for key, value in [*state.items()]
            for part in all_tensors([value])
        ]

    def _add_base(self, tensor: Tensor, kind: str, name: str) -> None:
        for part in self._parts(tensor):
            watch = self._memory.watch_of(part.untyped_storage())
            if watch is None:
                block = self._memory.add_base(part)
                block.kind, block.name = kind, name
                continue
            known = self._memory.blocks[watch.number]
            if known is not None and known.is_base:
                known.name = known.name or name
                if known.kind == "input":
                    known.kind = kind
            elif known is not None and kind != "input":  # a model or optimizer that was made during the capture
                known.kind, known.name = kind, known.name or name

    # Memory that the run allocates and frees

    def see(self, func: Any, tensors: Sequence[Tensor], kwargs: Any, result: Any) -> None:
        """Register the memory of the results of an operator; ``tensors`` are all tensors among its arguments."""
        if self.paused.is_set:
            return
        memory = self._memory
        if memory.sum is not None:
            memory.settle()
        if memory.resized:
            memory.find_resized()
        is_backward = _current_node() is not None
        if is_backward is not self._was_backward:
            self._was_backward = is_backward
            if not is_backward:
                self._find_gradients()
        if isinstance(result, Tensor):
            self._see(result, () if func in _LIFTS else tensors)  # the operand of a lift is new: torch.tensor made it
            if func is _ADD and (self.adding_in_place.is_set or (is_backward and not _grad_enabled())):
                self._see_sum(tensors, kwargs, result)
        elif isinstance(result, (list, tuple)):
            for value in all_tensors(result):
                self._see(value, tensors)

    def _see(self, tensor: Tensor, tensors: Sequence[Tensor]) -> None:
        is_plain = type(tensor) in PLAIN and tensor.layout is STRIDED
        for part in (tensor,) if is_plain else self._parts(tensor):
            operand = self._memory.see(part, tensors)
            if operand is not None:
                self.watch_operand(operand)

    def _see_sum(self, tensors: Sequence[Tensor], kwargs: Any, result: Tensor) -> None:
        # Autograd and ``linear`` may add in place of the first operand; see :meth:`LiveMemory.may_add_in_place`.
        if kwargs or len(tensors) != 2 or tensors[0].shape != result.shape or tensors[0].dtype != result.dtype:
            return
        first, second = tensors
        if not self.adding_in_place.is_set:
            if first.shape != second.shape or first.dtype != second.dtype:
                return
            if first._is_view():
                return  # it keeps the tensor that it is a view of, which has the same memory
        self._memory.may_add_in_place(first, result)

    def see_size(self, storage: UntypedStorage, was_empty: bool) -> None:
        """Register the new size of a storage that code resized.

        If the storage was empty before, as a parameter that sharded training gathers, this is an allocation.
        """
        watch, nbytes = self._memory.watch_of(storage), storage.nbytes()
        if self.paused.is_set:
            return
        if watch is None and was_empty and nbytes:
            self._memory.begin(storage)
        elif watch is not None and nbytes != watch.nbytes:
            self._memory.resize(watch, nbytes)

    def allocated(self, tensor: Tensor) -> None:
        """Register a tensor that no operator returned, such as the state of a random generator.

        If it is an attribute of a model, it lived before the run.
        """
        attribute = self._attributes.get(id(tensor))
        if attribute is None or attribute() is not tensor:
            self.see(None, (), None, tensor)

    # Composite operators

    def begin_composite(self) -> int:
        """Return the number of events so far, the ``mark`` of :meth:`composite_events`."""
        return len(self._memory.events)

    def composite_events(self, mark: int, result: Any) -> tuple[CompositeEvent, ...] | None:
        """Return the events that a composite operator caused since ``mark``; None if they cannot be replayed."""
        return None if self.paused.is_set else composite_events_of(self._memory, mark, result)

    def replay_composite(self, events: Iterable[CompositeEvent], tensors: Sequence[Tensor], result: Any) -> None:
        """Register the memory of a replayed composite operator."""
        if not self.paused.is_set:
            self._memory.settle()
            replay_composite(self._memory, events, tensors, result)

    @contextmanager
    def as_one_kernel(self) -> Iterator[None]:
        """Context manager: a CPU runs this as one kernel, so blocks freed inside are not counted."""
        mark = self.begin_composite()
        try:
            yield
        finally:
            forget_inner(self._memory, mark)

    # Kinds

    def count_as(self, tensor: Tensor, nbytes: int) -> None:
        """Count the memory of a tensor as ``nbytes``: outside the capture, it is an expanded view of fewer elements."""
        block = self._memory.block_of(tensor.untyped_storage())
        if block is not None:
            block.nbytes = nbytes

    def returned(self, tensors: Iterable[Tensor], kind: str = "output") -> None:
        """Register the output of the model."""
        self._has_returned = True
        for tensor in tensors:
            self._set_kind(tensor, kind)

    def _set_kind(self, tensor: Tensor, kind: str, name: str = "") -> None:
        for part in self._parts(tensor):
            block = self._memory.block_of(part.untyped_storage())
            if block is not None and not block.is_base and block.kind in ("", "output", "cached"):
                block.kind, block.name = kind, name

    def _find_gradients(self) -> None:
        for reference, name in [*self._leaves.values()]:
            leaf = reference()
            if leaf is not None and leaf.grad is not None:
                self._set_kind(leaf.grad, "gradient", name)

    def _parts(self, tensor: Tensor) -> Sequence[Tensor]:
        if type(tensor) in PLAIN and tensor.layout is STRIDED and storage_of(tensor) is not None:
            return (tensor,)
        parts = parts_of(tensor)
        if parts is None:
            self._notes[UNSEEN.format(type=f"{type(tensor).__name__} ({tensor.layout})")] = None
            return ()
        if tensor.is_meta and tensor.layout in PARTS and not parts[-1].numel():
            self._approximations[SPARSE] = None
        return parts

    # The result

    def note(self, note: str, is_approximation: bool = False) -> None:
        """Add a note on the figures."""
        (self._approximations if is_approximation else self._notes)[note] = None

    def close(self) -> None:
        """Stop watching; keep only the result."""
        self._result = self.result()
        self.paused.is_set = True
        self._memory.clear()
        self._leaves.clear()
        self._attributes.clear()
        self._optimizers.clear()

    def result(self) -> RawLedger:
        """Return the blocks and events so far."""
        if self._result is not None:
            return self._result
        self._memory.settle()
        self._find_gradients()
        for optimizer in [*self._optimizers]:
            for tensor, name in self._state_of(optimizer):
                self._set_kind(tensor, "optimizer", name)
        with collector_off():
            blocks, calls, storages = self._memory.raw()
        return RawLedger(blocks, calls, storages, self._has_returned, tuple(self._notes), tuple(self._approximations))


# The memory inside composite operators
#
# A call that is replayed from the call cache runs no inner operator: the events of the first call are repeated.


_NO_DEVICE = torch.device("meta")


class CompositeEvent(NamedTuple):
    """An allocation or a free inside a composite operator.

    Attributes:
        block: number of the block inside the operator.
        is_allocation: whether the block is allocated; otherwise it is freed.
        nbytes, shape, dtype, device: of a block that is allocated.
        output: position of the result in this block; -1 if the block is freed inside the operator.
    """

    block: int
    is_allocation: bool
    nbytes: int = 0
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    device: torch.device = _NO_DEVICE
    output: int = -1


def composite_events_of(memory: LiveMemory, mark: int, result: Any) -> tuple[CompositeEvent, ...] | None:
    """Return the events that a composite operator caused since ``mark``; None if they cannot be replayed.

    Args:
        memory: the memory of the run.
        mark: the number of events before the operator.
        result: its result.
    """
    if memory.sum is not None:
        return None
    outputs: dict[int, int] = {}
    for i, number in memory.results(result):
        outputs.setdefault(number, i)
    events: list[CompositeEvent] = []
    local: dict[int, int] = {}
    n_births = 0
    for _, ends, begins in memory.events[mark:]:
        block = memory.blocks[begins] if begins >= 0 and ends < 0 else None
        if block is not None:
            local[begins], n_births = n_births, n_births + 1  # numbers of freed blocks are not used again
            what = block.nbytes, tuple(block.shape), block.dtype, block.device
            events.append(CompositeEvent(local[begins], True, *what, outputs.get(begins, -1)))
        elif ends in local and begins < 0:
            events.append(CompositeEvent(local.pop(ends), False))
        else:
            return None
    return tuple(events) if all(number in outputs for number in local) else None


def replay_composite(
    memory: LiveMemory, events: Iterable[CompositeEvent], tensors: Sequence[Tensor], result: Any
) -> None:
    """Register the memory of a replayed composite operator."""
    results = [*all_tensors((result,))]
    numbers: dict[int, int] = {}
    for event in events:
        if not event.is_allocation:
            memory.note_free(numbers[event.block])
        elif event.output >= 0:
            n_blocks = len(memory.blocks)
            memory.see(results[event.output], tensors)
            if len(memory.blocks) > n_blocks and (made := memory.blocks[-1]) is not None:
                made.shape, made.dtype = event.shape, event.dtype
        else:
            numbers[event.block] = len(memory.blocks)
            memory.note_allocation()
            memory.blocks.append(LiveBlock(event.nbytes, event.shape, event.dtype, event.device))


def forget_inner(memory: LiveMemory, mark: int) -> None:
    """Drop the blocks that were both allocated and freed since ``mark``, inside one kernel of a CPU."""
    memory.settle()
    events = memory.events[mark:]
    inner = {ends for _, ends, _ in events if ends >= 0} & {begins for _, _, begins in events if begins >= 0}
    memory.events[mark:] = [event for event in events if event[1] not in inner and event[2] not in inner]
    for number in inner:
        memory.blocks[number] = None


# Storages: when the memory behind tensors is allocated, resized and freed
#
# A weak reference watches every storage that an operator returns. Meta tensors die by reference count, exactly as
# tensors with data, so saved tensors, gradients and optimizer states have their real lifetimes.


class Sum(NamedTuple):
    """A sum that may overwrite its first operand. It needs a block of its own only if the operand stays alive.

    Attributes:
        watch: the watch of the sum.
        operand: the number of the block of the operand.
        position: the position at which to insert the event.
        event: the allocation of the sum, which is inserted only if the operand stays alive.
    """

    watch: Watch
    operand: int
    position: int
    event: tuple[int, int, int]


class LiveMemory:
    """The blocks of memory of one running capture.

    Args:
        storage_at: returns the id of the storage object at an address; 0 for none.
        n_calls: returns the number of recorded calls.

    Attributes:
        blocks: all blocks by number; None for a discarded block.
        events: for each event the number of calls before it, and the numbers of the blocks that end and begin, or -1.
        resized: the watches of storages that changed their size or were empty before the run.
        sum: the last sum, until it is known whether it overwrites its operand.
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
            The operand that the result is a view of, if the memory of the operand is not registered yet; else None.
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
        self.note_allocation()
        self.add(tensor, storage, nbytes)
        if tensor.is_nested:
            for part in nested_parts_of(tensor):
                self.see(part, ())
        return None

    def note_allocation(self) -> None:
        """Record the allocation of the block that is added next."""
        self.events.append((self._n_calls(), -1, len(self.blocks)))

    def note_free(self, number: int) -> None:
        """Record that a block is freed."""
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
        """Watch a storage that gets memory now; its first tensor is not known yet."""
        self.note_allocation()
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
        """Return the current block of a storage; None if it is not watched."""
        watch = self.watch_of(storage)
        return None if watch is None else self.blocks[watch.number]

    def _freed(self, watch: Watch) -> None:
        # Python calls this when the last reference to the storage is gone.
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
            self.note_free(watch.number)

    def find_resized(self) -> None:
        """Register storages that changed their size again, even without a Python call of ``resize_``."""
        # Checked for every operator, over hundreds of storages; changes are rare.
        changed = [each for each in self.resized if (now := each()) is None or now.nbytes() != each.nbytes]
        for watch in changed:
            storage = watch()
            if storage is None:
                self.resized.remove(watch)
            else:
                self.resize(watch, storage.nbytes())

    def resize(self, watch: Watch, nbytes: int) -> None:
        """Register that a storage changed its size: a new block with the same id begins, then the old block ends."""
        self._note_storage(watch)
        old = self.blocks[watch.number]
        assert old is not None
        if nbytes:  # PyTorch copies into the new memory before it frees the old
            self.note_allocation()
        if watch.nbytes:
            self.note_free(watch.number)
        watch.number, watch.nbytes = len(self.blocks), nbytes
        self.blocks.append(old.resized(nbytes))
        if watch not in self.resized:
            self.resized.append(watch)

    def _note_storage(self, watch: Watch) -> None:
        # Only operands of recorded calls have storage ids. The id ``earlier`` is of an older storage at this address.
        block = self.blocks[watch.number]
        storage = self._storage_at(watch.object_address)
        if block is not None and storage != block.earlier:
            block.storage = storage

    # Sums that PyTorch computes in place, but not inside a dispatch mode

    def may_add_in_place(self, first: Tensor, result: Tensor) -> None:
        """Record that a sum may overwrite its first operand, if that is freed before the next event.

        To accumulate two gradients, the autograd engine adds in place if it holds the last reference to the first one;
        ``linear`` adds a bias in place. Inside a dispatch mode, which may return tensors of any type, neither does.
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
        """Allocate the last sum if it is pending: its first operand stays alive."""
        if self.sum is not None:
            _, _, position, event = self.sum
            self.sum = None
            self.events.insert(position, event)

    def _take_over(self, old: Watch) -> None:
        # The operand was freed at once: the sum continues its block.
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
        """Return all blocks, the number of calls before every event, and the ids of blocks by storage id."""
        for watch in [*self._watches.values()]:
            self._note_storage(watch)
        events = [*self.events]
        pairs = [*raw_blocks(self.blocks, events)]
        storages = {storage: block.block.id for block, storage in pairs if storage}
        return [block for block, _ in pairs], [call for call, _, _ in events], storages

    def clear(self) -> None:
        """Stop watching."""
        self._watches.clear()
        self.resized.clear()
        self.blocks.clear()


# Blocks, during a run and after it


class Watch(ref[UntypedStorage]):
    """A weak reference to a storage, with the number of its block."""

    __slots__ = ("address", "nbytes", "number", "object_address")
    address: int
    object_address: int
    nbytes: int
    number: int


class LiveBlock:
    """A block during the run.

    Attributes:
        nbytes: its counted size, which may be less than the size of its storage.
        kind: its kind if it is already known.
        is_base: whether it lived before the run.
        shape, dtype, device: of the first tensor in it.
        name: name of a parameter, buffer or input.
        storage: storage id of the operands of recorded calls in it; 0 for none.
        earlier: storage id of the previous storage at the same address.
        first: the first block of its storage, if that changed its size.
        with_gradient: whether gradients were recorded when it was made.
    """

    shape: Sequence[int]
    dtype: Any
    with_gradient: Any

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
        """Set shape and dtype from the first tensor in a block that began without one."""
        if self.dtype is torch.uint8 and tuple(self.shape) == (self.nbytes,):
            self.shape, self.dtype = tensor.shape, tensor.dtype

    def resized(self, nbytes: int) -> LiveBlock:
        """Return the next block of a storage that changes its size."""
        new = LiveBlock(nbytes, self.shape, self.dtype, self.device, self.earlier)
        new.kind, new.name, new.storage, new.with_gradient = self.kind, self.name, self.storage, self.with_gradient
        new.first = self.first or self
        return new


def _lifetimes(events: Sequence[tuple[int, int, int]]) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    # By block: the event that allocated it, with its call, and the event that freed it.
    allocated: dict[int, tuple[int, int]] = {}
    freed: dict[int, int] = {}
    for event, (call, ends, begins) in enumerate(events, 1):
        if ends >= 0:
            freed[ends] = event
        if begins >= 0:
            allocated[begins] = event, call
    return allocated, freed


def raw_blocks(
    blocks: Sequence[LiveBlock | None], events: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[RawBlock, int]]:
    """Yield the blocks in order of allocation, each with its storage id; 0 if no recorded call uses the storage."""
    allocated, freed = _lifetimes(events)
    new = tuple.__new__  # three times as fast as the constructor of a named tuple
    before = 0, -1
    ids: dict[LiveBlock, int] = {}
    devices: dict[torch.device, str] = {}
    for number in sorted(range(len(blocks)), key=lambda number: allocated.get(number, before)):
        block = blocks[number]
        if block is None or (number not in allocated and not block.is_base):
            continue
        identity = ids.setdefault(block.first or block, len(ids) + 1)
        if not block.nbytes:
            continue
        event, call = allocated.get(number, before)
        device = devices.get(block.device)
        if device is None:
            device = devices[block.device] = str(block.device)
        what = tuple(block.shape), dtype_name(block.dtype), block.name, device
        made = new(Block, (identity, block.nbytes, block.kind, event, freed.get(number), call, *what))
        yield new(RawBlock, (made, block.with_gradient)), block.storage


# Storages of ordinary tensors, and parts of all others


STRIDED = torch.strided

PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
"""The methods that return the component tensors of a sparse tensor, by layout."""


def parts_of(tensor: Tensor) -> Sequence[Tensor] | None:
    """Return the ordinary tensors inside a tensor, or itself if it is one; None if its memory is hidden."""
    if type(tensor) not in PLAIN and is_traceable_wrapper_subclass(tensor):
        with without_capture():
            names, _ = tensor.__tensor_flatten__()
            inner = [getattr(tensor, name) for name in names]
        return [part for each in inner if isinstance(each, Tensor) for part in parts_of(each) or ()]
    if tensor.layout in PARTS:
        with without_capture():
            return [getattr(tensor, name)() for name in PARTS[tensor.layout]]
    return None if storage_of(tensor) is None else (tensor,)


def nested_parts_of(tensor: Tensor) -> list[Tensor]:
    """Return the sizes, strides and offsets that a nested tensor of strided layout keeps in memory of its own."""
    with without_capture():
        return [getattr(tensor, f"_nested_tensor_{name}")() for name in ("size", "strides", "storage_offsets")]


def storage_of(tensor: Tensor) -> UntypedStorage | None:
    """Return the storage of a tensor; None for sparse, batched and opaque tensors."""
    try:
        return tensor.untyped_storage()
    except RuntimeError:
        return None


def is_dense(tensor: Tensor) -> bool:
    """Return whether an ordinary tensor fills its memory without gaps, in any order of axes."""
    if type(tensor) not in PLAIN or tensor.layout is not STRIDED:
        return False
    if tensor.is_contiguous():
        return True
    expected = 1
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if step != expected:
                return False
            expected *= size
    return True


# Module calls


_tracing_state = torch._C._get_tracing_state

_set_tracing_state = torch._C._set_tracing_state

_without_torch_function = torch._C.DisableTorchFunction


class ModuleCalls:
    """The module calls of one capture, numbered from 1 in the order in which they began.

    Args:
        calls: receives the calls.
    """

    def __init__(self, calls: list[ModuleCall]) -> None:
        self._calls = calls
        self._open: list[int] = []

    @property
    def innermost(self) -> int:
        """The number of the call that is running; 0 if none is."""
        return self._open[-1] if self._open else 0

    def begin(self, module: str, inputs: Sequence[tuple[int, ...]]) -> int:
        """Add a call of the module at a path, and return its number."""
        self._calls.append(ModuleCall(module, self.innermost, tuple(inputs)))
        number = len(self._calls)
        self._open.append(number)
        return number

    def resume(self, number: int) -> None:
        """Resume a call that ended, such as the call of a generator whose next value is read."""
        self._open.append(number)

    def set_outputs(self, number: int, outputs: Sequence[tuple[int, ...]]) -> None:
        """Set the shapes that a call returned."""
        module, parent, inputs, _ = self._calls[number - 1]
        self._calls[number - 1] = ModuleCall(module, parent, inputs, tuple(outputs))

    def rename(self, new_path: Callable[[str], str]) -> None:
        """Change the paths of the modules."""
        self._calls[:] = [each._replace(module=new_path(each.module)) for each in self._calls]

    def end(self, number: int) -> None:
        """End a call, possibly after an exception."""
        self._open.remove(number)


def shapes_of(values: Any) -> list[tuple[int, ...]]:
    """Return the shapes of all tensors in nested lists, tuples, dicts and dataclasses, in order.

    Tracing by ``torch.jit.trace`` is suspended meanwhile, so that its graph gets no nodes for the sizes.
    """
    state = _tracing_state()
    if state is not None:
        _set_tracing_state(None)
    try:
        with _without_torch_function():
            return [_shape(tensor) for tensor in nested_tensors(values)]
    finally:
        if state is not None:
            _set_tracing_state(state)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return shape_of(tensor) if tensor.is_nested else (*map(int, tensor.shape),)
