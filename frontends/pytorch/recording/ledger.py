"""The memory ledger of one capture: what is in every block of memory, from before the run until after it.

:mod:`.live_memory` sees when blocks are allocated and freed, :mod:`.composite_memory` what happens inside composite
operators. Here blocks get their kinds and names.
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

from ..flags import Flag
from ..meta.operands import PLAIN, all_tensors
from ..module_walk import join, walk
from .composite_memory import FrameEvent, forget_inner, frame_of, replay_frame
from .identity import Identities
from .live_memory import LiveMemory
from .storages import PARTS, STRIDED, parts_of, storage_of

_grad_enabled = torch.is_grad_enabled
_current_node = torch._C._current_autograd_node
_ADD = torch.ops.aten.add.Tensor
_LIFTS = torch.ops.aten.lift_fresh.default, torch.ops.aten.lift.default
UNSEEN = "memory: tensors of {type} keep their memory where it cannot be seen; it is not counted"

SPARSE = "memory: sparse tensors have no elements on the meta device; their memory is not counted"


class StorageLedger:
    """The blocks of memory of one capture.

    Args:
        identities: the ids of the storages of recorded calls.
        n_calls: returns how many calls were recorded so far.

    Attributes:
        paused: whether nothing is watched, because what runs would not run without the capture.
        adding_in_place: whether a composite operator runs that adds in place, but not inside a dispatch mode.
    """

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
        """Return the state of an optimizer, each tensor with a name such as ``fc.weight (exp_avg)``."""
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
            elif known is not None and kind != "input":  # of a model or optimizer that was made inside the block
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
            self._see(result, () if func in _LIFTS else tensors)  # they lift what torch.tensor has just made
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
        """Register a sum that autograd or ``linear`` may make in place of its first operand."""
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
        """Register the size of a storage that code resized.

        One that was empty before the run, such as that of a parameter that sharded training gathers, begins now.
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

    def begin_frame(self) -> int:
        """Return a mark of the events so far."""
        return len(self._memory.events)

    def frame(self, mark: int, result: Any) -> tuple[FrameEvent, ...] | None:
        """Return the events since ``mark``, which a composite operator caused; None if they cannot be replayed."""
        return None if self.paused.is_set else frame_of(self._memory, mark, result)

    def replay_frame(self, events: Iterable[FrameEvent], tensors: Sequence[Tensor], result: Any) -> None:
        """Register the memory of a composite operator whose call is replayed."""
        if not self.paused.is_set:
            self._memory.settle()
            replay_frame(self._memory, events, tensors, result)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Run what a kernel of the CPU computes as one operator: blocks that are freed inside are not counted."""
        mark = self.begin_frame()
        try:
            yield
        finally:
            forget_inner(self._memory, mark)

    # Kinds

    def count_as(self, tensor: Tensor, nbytes: int) -> None:
        """Count the memory of a tensor as ``nbytes``: in a run it is an expanded view of fewer elements."""
        block = self._memory.block_of(tensor.untyped_storage())
        if block is not None:
            block.nbytes = nbytes

    def returned(self, tensors: Iterable[Tensor], kind: str = "output") -> None:
        """Register what the model returned."""
        self._has_returned = True
        for tensor in tensors:
            self._set_kind(tensor, kind)

    def _set_kind(self, tensor: Tensor, kind: str, name: str = "") -> None:
        for part in self._parts(tensor):
            block = self._memory.block_of(part.untyped_storage())
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
