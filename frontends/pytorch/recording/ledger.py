"""The memory ledger of one capture: when the memory behind every tensor is allocated and freed.

Every storage that an operator returns is watched by a weak reference. Meta tensors die by reference count exactly as
tensors with data do, so that no model of autograd is needed: saved tensors, gradients and the state of an optimizer
live as long as they really would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet, ref

import torch
from torch import Tensor, UntypedStorage
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from costcore.trace.gc_paused import collector_off
from costcore.trace.memory_ledger import RawLedger

from ..meta.operands import PLAIN, all_tensors
from ..module_walk import join, walk
from .blocks import FrameEvent, LiveBlock, Watch, raw_blocks
from .identity import Identities
from .storages import PARTS, STRIDED, is_dense, nested_parts_of, owner_of, parts_of, storage_of

_grad_enabled = torch.is_grad_enabled
_current_node = torch._C._current_autograd_node
_ADD = torch.ops.aten.add.Tensor
_LIFT_FRESH = torch.ops.aten.lift_fresh.default
_LIFT = torch.ops.aten.lift.default
UNSEEN = "memory: tensors of {type} keep their memory where it cannot be seen; it is not counted"

SPARSE = "memory: sparse tensors have no elements on the meta device; their memory is not counted"

_NO_DEVICE = torch.device("meta")


class StorageLedger:
    """The blocks of memory of one capture.

    Args:
        identities: the ids of the storages of recorded calls.
        n_calls: returns how many calls were recorded so far.

    Attributes:
        is_paused: whether nothing is watched, because what runs would not run without the capture.
        adds_in_place: whether a composite operator runs that adds in place, but not inside a dispatch mode.
    """

    def __init__(self, identities: Identities, n_calls: Callable[[], int]) -> None:
        self.is_paused = False
        self.adds_in_place = False
        self._identities = identities
        self._storage_at = identities.storage_at
        self._n_calls = n_calls
        self._watches: dict[int, Watch] = {}
        self._blocks: list[LiveBlock | None] = []
        self._events: list[tuple[int, int, int]] = []
        """For each event the number of calls before it, and the numbers of the blocks that end and begin; -1: none."""
        self._meeting: tuple[Watch, int, int, tuple[int, int, int]] | None = None
        """A sum that may take the place of its first operand: its watch, the number of the block of the operand, and
        the event of its allocation with its position. It is allocated only if the operand lives on."""
        self._resized: list[Watch] = []
        """The watches of storages whose size changed, and of those that were empty before the run."""
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
        """Register what lives before the run.

        Args:
            value: a module, an optimizer, a tensor, or a list, tuple or dict of these.
            kind: the kind of the tensors; default: parameter, buffer, state of an optimizer or input, whichever it is.
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
        """Register an operand that is not the result of an operator of the run: it lived before the run."""
        if self.is_paused:
            return
        storage = storage_of(tensor)
        if storage is not None and not tensor.requires_grad:
            known = self._block_of(storage)
            if known is not None and known.kind != "input":
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
        self._watch_state(optimizer)

    def _watch_state(self, optimizer: Optimizer) -> None:
        for part, name in self._state_of(optimizer):
            self._add_base(part, "optimizer", name)

    def _state_of(self, optimizer: Optimizer) -> list[tuple[Tensor, str]]:
        """Return the state of an optimizer, each tensor with a name such as ``fc.weight (exp_avg)``."""
        return [
            (part, f"{self._name_of(leaf)} ({key})")
            for leaf, state in [*optimizer.state.items()]
            for key, value in [*state.items()]
            for part in all_tensors([value])
        ]

    def _add_base(self, tensor: Tensor, kind: str, name: str) -> None:
        for part in self._parts(tensor):
            storage = part.untyped_storage()
            address = storage._cdata
            watch = self._watches.get(address)
            if watch is None or watch() is not storage:
                block = self._add(part, storage, address, storage.nbytes())
                block.kind, block.is_base, block.name = kind, True, name
                if not block.nbytes:
                    self._resized.append(self._watches[address])
                continue
            known = self._blocks[watch.number]
            if known is not None and known.is_base:
                known.name = known.name or name
                if known.kind == "input":
                    known.kind = kind
            elif known is not None and kind != "input":  # of a model or optimizer that was made inside the block
                known.kind, known.name = kind, known.name or name

    # Memory that the run allocates and frees

    def see(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Register the memory of the results of an operator."""
        if self.is_paused:
            return
        if self._meeting is not None:
            self._settle()
        if self._resized:
            self._find_resized()
        is_backward = _current_node() is not None
        if is_backward is not self._was_backward:
            self._was_backward = is_backward
            if not is_backward:
                self._find_gradients()
        if type(result) in PLAIN or isinstance(result, Tensor):
            if func is _LIFT_FRESH or func is _LIFT:  # the operand is memory that torch.tensor has just made
                args = ()
            self._see(result, args, kwargs)
            if func is _ADD and (self.adds_in_place or (is_backward and not _grad_enabled())):
                self._meet(args, kwargs, result)
        elif isinstance(result, (list, tuple)):
            for value in all_tensors(result):
                self._see(value, args, kwargs)

    def _see(self, tensor: Tensor, args: Any, kwargs: Any) -> None:
        if type(tensor) in PLAIN and tensor.layout is STRIDED:
            self._see_storage(tensor, args, kwargs)
        else:
            for part in self._parts(tensor):
                self._see_storage(part, args, kwargs)

    def _see_storage(self, tensor: Tensor, args: Any, kwargs: Any) -> None:
        storage = tensor.untyped_storage()
        address = storage._cdata
        watch = self._watches.get(address)
        nbytes = storage.nbytes()
        if watch is not None and watch() is storage:
            if nbytes != watch.nbytes:
                self._resize(watch, nbytes)
            return
        if not nbytes:
            return
        operand = owner_of(storage, args)
        if operand is None and kwargs:
            operand = owner_of(storage, kwargs.values())
        if operand is not None:
            self.watch_operand(operand)
            return
        self._events.append((self._n_calls(), -1, len(self._blocks)))
        self._add(tensor, storage, address, nbytes)
        if tensor.is_nested:
            for part in nested_parts_of(tensor):
                self._see_storage(part, (), None)

    def _add(self, tensor: Tensor, storage: UntypedStorage, address: int, nbytes: int) -> LiveBlock:
        shape = (nbytes // tensor.element_size(),) if tensor.is_nested else tensor.shape
        block = LiveBlock(nbytes, shape, tensor.dtype, tensor.device, self._storage_at(id(storage)))
        watch = Watch(storage, self._freed)
        watch.address, watch.object_address = address, id(storage)
        watch.nbytes = nbytes
        watch.number = len(self._blocks)
        self._watches[address] = watch
        self._blocks.append(block)
        return block

    def _freed(self, watch: Watch) -> None:
        """Register that a storage is freed; Python calls this when its last reference is gone."""
        if self._watches.get(watch.address) is watch:
            del self._watches[watch.address]
        if self._meeting is not None:
            if self._meeting[1] == watch.number:
                self._take_over(watch)
                return
            if self._meeting[0] is watch:
                self._settle()
        if watch.nbytes:
            self._note_storage(watch)
            self._events.append((self._n_calls(), watch.number, -1))

    def see_size(self, storage: UntypedStorage) -> None:
        """Register the size of a storage that code resized."""
        watch, nbytes = self._watches.get(storage._cdata), storage.nbytes()
        if not self.is_paused and watch is not None and watch() is storage and nbytes != watch.nbytes:
            self._resize(watch, nbytes)

    def _find_resized(self) -> None:
        """Register which storages changed their size again, which no operator does that a dispatch mode sees."""
        for watch in [*self._resized]:
            storage = watch()
            if storage is None:
                self._resized.remove(watch)
            elif storage.nbytes() != watch.nbytes:
                self._resize(watch, storage.nbytes())

    def _resize(self, watch: Watch, nbytes: int) -> None:
        """Register that a storage changed its size: another block with the same id begins, and then its block ends."""
        self._note_storage(watch)
        old = self._blocks[watch.number]
        assert old is not None
        new = LiveBlock(nbytes, old.shape, old.dtype, old.device, old.earlier)
        new.kind, new.name, new.storage, new.with_gradient = old.kind, old.name, old.storage, old.with_gradient
        new.first = old.first or old
        if nbytes:
            self._events.append((self._n_calls(), -1, len(self._blocks)))
        if watch.nbytes:
            self._events.append((self._n_calls(), watch.number, -1))
        watch.number, watch.nbytes = len(self._blocks), nbytes
        self._blocks.append(new)
        if watch not in self._resized:
            self._resized.append(watch)

    def _note_storage(self, watch: Watch) -> None:
        """Note the storage id of a block, if it belongs to an operand of a recorded call."""
        block = self._blocks[watch.number]
        storage = self._storage_at(watch.object_address)
        if block is not None and storage != block.earlier:
            block.storage = storage

    def _block_of(self, storage: UntypedStorage) -> LiveBlock | None:
        watch = self._watches.get(storage._cdata)
        return self._blocks[watch.number] if watch is not None and watch() is storage else None

    # Sums that are made in place, but not inside a dispatch mode

    def _meet(self, args: Any, kwargs: Any, result: Tensor) -> None:
        """Note that two tensors were added, and that the sum may take the place of the first.

        Where two gradients of one tensor meet, the engine of autograd adds in place if it holds the last reference to
        the first. So does ``linear`` with a bias. Inside a dispatch mode, which may return tensors of any type, they
        never do.
        """
        first, second = args[0], args[1]
        if kwargs or not isinstance(second, Tensor) or first.shape != result.shape or first.dtype != result.dtype:
            return
        if not self.adds_in_place and (first.shape != second.shape or first.dtype != second.dtype):
            return
        if first._is_view() and not self.adds_in_place:
            return  # it keeps the tensor that it is a view of, which has the same memory
        if not self._events or self._events[-1][2] != len(self._blocks) - 1 or not is_dense(first):
            return
        watch = self._watches.get(result.untyped_storage()._cdata)
        old = self._watches.get(first.untyped_storage()._cdata)
        if watch is None or old is None or watch.number != len(self._blocks) - 1:
            return
        block = self._blocks[old.number]
        if block is not None and block.nbytes == old.nbytes:
            self._meeting = watch, old.number, len(self._events) - 1, self._events.pop()

    def _settle(self) -> None:
        """Allocate a sum: its first operand lives on."""
        assert self._meeting is not None
        _, _, position, event = self._meeting
        self._meeting = None
        self._events.insert(position, event)

    def _take_over(self, old: Watch) -> None:
        """Let a sum take the place of its first operand, which is freed."""
        assert self._meeting is not None
        watch = self._meeting[0]
        self._meeting = None
        self._note_storage(old)
        self._blocks[watch.number] = None
        watch.number = old.number

    def allocated(self, tensor: Tensor) -> None:
        """Register a tensor that no operator returned, such as the state of a random generator.

        If it is an attribute of a model, it lived before the run.
        """
        attribute = self._attributes.get(id(tensor))
        if attribute is None or attribute() is not tensor:
            self.see(None, (), None, tensor)

    # Composite operators whose calls are replayed

    def begin_frame(self) -> int:
        """Return a mark of the events so far."""
        return len(self._events)

    def frame(self, mark: int, result: Any) -> tuple[FrameEvent, ...] | None:
        """Return the events since ``mark``, which a composite operator caused; None if they cannot be replayed."""
        if self._meeting is not None or self.is_paused:
            return None
        outputs: dict[int, int] = {}
        for i, tensor in enumerate(all_tensors((result,))):
            watch = self._watches.get(tensor.untyped_storage()._cdata) if tensor.layout is STRIDED else None
            if watch is not None:
                outputs.setdefault(watch.number, i)
        events: list[FrameEvent] = []
        local: dict[int, int] = {}
        for _, ends, begins in self._events[mark:]:
            if begins >= 0 and ends < 0:
                block = self._blocks[begins]
                if block is None:
                    return None
                local[begins] = sum(event.is_birth for event in events)  # numbers of freed blocks are not used again
                output = outputs.get(begins, -1)
                shape = tuple(block.shape)
                events.append(FrameEvent(local[begins], True, block.nbytes, shape, block.dtype, block.device, output))
            elif ends in local and begins < 0:
                events.append(FrameEvent(local.pop(ends), False, 0, (), torch.float32, _NO_DEVICE, -1))
            else:
                return None
        return tuple(events) if all(number in outputs for number in local) else None

    def replay_frame(self, events: Iterable[FrameEvent], args: Any, result: Any) -> None:
        """Register the memory of a composite operator whose call is replayed."""
        if self.is_paused:
            return
        if self._meeting is not None:
            self._settle()
        results = [*all_tensors((result,))]
        numbers: dict[int, int] = {}
        for event in events:
            if not event.is_birth:
                self._events.append((self._n_calls(), numbers[event.block], -1))
            elif event.output >= 0:
                n_blocks = len(self._blocks)
                self._see_storage(results[event.output], args, None)
                if len(self._blocks) > n_blocks and (made := self._blocks[-1]) is not None:
                    made.shape, made.dtype = event.shape, event.dtype
            else:
                numbers[event.block] = len(self._blocks)
                self._events.append((self._n_calls(), -1, len(self._blocks)))
                self._blocks.append(LiveBlock(event.nbytes, event.shape, event.dtype, event.device))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Run what a kernel of the CPU computes as one operator: blocks that are freed inside are not counted."""
        mark = len(self._events)
        try:
            yield
        finally:
            self._forget_inner(mark)

    def _forget_inner(self, mark: int) -> None:
        if self._meeting is not None:
            self._settle()
        events = self._events[mark:]
        inner = {ends for _, ends, _ in events if ends >= 0} & {begins for _, _, begins in events if begins >= 0}
        self._events[mark:] = [event for event in events if event[1] not in inner and event[2] not in inner]
        for number in inner:
            self._blocks[number] = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Run what would not run without the capture: nothing is watched."""
        was_paused, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = was_paused

    # Kinds

    def count_as(self, tensor: Tensor, nbytes: int) -> None:
        """Count the memory of a tensor as ``nbytes``: in a run it is an expanded view of fewer elements."""
        block = self._block_of(tensor.untyped_storage())
        if block is not None:
            block.nbytes = nbytes

    def returned(self, tensors: Iterable[Tensor], kind: str = "output") -> None:
        """Register what the model returned."""
        self._has_returned = True
        for tensor in tensors:
            self._set_kind(tensor, kind)

    def _set_kind(self, tensor: Tensor, kind: str, name: str = "") -> None:
        for part in self._parts(tensor):
            block = self._block_of(part.untyped_storage())
            if block is not None and not block.is_base and block.kind in ("", "output"):
                block.kind, block.name = kind, name

    def _find_gradients(self) -> None:
        for reference, name in [*self._leaves.values()]:
            leaf = reference()
            if leaf is not None and leaf.grad is not None:
                self._set_kind(leaf.grad, "gradient", name)

    def _parts(self, tensor: Tensor) -> Sequence[Tensor]:
        """Return the ordinary tensors of which a tensor consists; itself if it is one."""
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
        """Add a remark on the figures."""
        (self._approximations if is_approximation else self._notes)[note] = None

    def close(self) -> None:
        """Keep the result only; nothing is watched any more."""
        self._result = self.result()
        self.is_paused = True
        self._watches.clear()
        self._resized.clear()
        self._blocks.clear()
        self._leaves.clear()
        self._attributes.clear()
        self._optimizers.clear()

    def result(self) -> RawLedger:
        """Return the blocks and events so far."""
        if self._result is not None:
            return self._result
        if self._meeting is not None:
            self._settle()
        self._find_gradients()
        for optimizer in [*self._optimizers]:
            for tensor, name in self._state_of(optimizer):
                self._set_kind(tensor, "optimizer", name)
        for watch in [*self._watches.values()]:
            self._note_storage(watch)
        events = [*self._events]
        blocks = []
        storages: dict[int, int] = {}
        with collector_off():
            for block, storage in raw_blocks(self._blocks, events):
                blocks.append(block)
                if storage:
                    storages[storage] = block.block.id
        calls = [call for call, _, _ in events]
        return RawLedger(blocks, calls, storages, self._has_returned, tuple(self._notes), tuple(self._approximations))
