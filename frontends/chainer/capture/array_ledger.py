"""The memory ledger of a Chainer run: when the memory behind every array is allocated and freed.

Arrays are freed by reference count: weak references to those that own memory are called when that happens. An array is
seen when a function returns it, or keeps it as an attribute; arrays that live inside a function only are its workspace.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import chainer

from costcore.trace.memory_ledger import Block, RawBlock, RawLedger
from costcore.trace.recorder import Recorder

from ..arrays import array_of, is_array, owner
from ..naming import function_of

UPDATES = "memory: arrays that optimizers make and free while they update parameters are not seen"

OTHERS = "memory: the arrays of Chainer are not included, but the tensors of the other framework of this run"


class _Block:
    """A block while the run lasts; attributes as those of :class:`costcore.trace.memory_ledger.Block`."""

    name = ""
    died: int | None = None

    def __init__(self, array: Any, kind: str, born: int, call: int) -> None:
        self.kind = kind
        self.born = born
        self.call = call
        self.nbytes = int(array.nbytes)
        self.shape = tuple(array.shape)
        self.dtype = str(array.dtype.name)
        self.device = str(chainer.backend.get_device_from_array(array))
        self.with_gradient = bool(chainer.config.enable_backprop)


class ArrayLedger:
    """The blocks of memory of one capture.

    Args:
        n_calls: returns how many calls were recorded so far.
    """

    def __init__(self, n_calls: Callable[[], int]) -> None:
        self._n_calls = n_calls
        self._watches: dict[int, tuple[weakref.ref[Any], _Block]] = {}
        self._blocks: list[_Block] = []
        self._calls: list[int] = []
        """For each event the number of calls before it."""
        self._parameters: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._optimizers: list[Any] = []
        self._result: RawLedger | None = None

    # Memory that lives before the run

    def watch(self, value: Any, name: str = "") -> bool:
        """Register links, optimizers, variables and arrays, also in lists and dicts; return whether all were."""
        if isinstance(value, chainer.Link):
            self._watch_link(value)
        elif isinstance(value, chainer.Optimizer):
            self._optimizers.append(value)
            self._watch_link(value.target)
        elif isinstance(value, chainer.Variable) or is_array(value):
            self._add_base(array_of(value), "input", name)
        elif isinstance(value, (list, tuple, set, Mapping)):
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            return [self.watch(item, str(key)) for key, item in items].count(False) == 0
        else:
            return False
        return True

    def _watch_link(self, link: Any) -> None:
        for path, parameter in link.namedparams():
            name = path.strip("/").replace("/", ".")
            self._parameters[id(parameter)] = weakref.ref(parameter), name
            self._add_base(parameter.array, "parameter", name)
            self._add_base(parameter.grad, "gradient", name)
            if parameter.update_rule is not None:
                for array in _arrays_in(parameter.update_rule.state):
                    self._add_base(array, "optimizer", name)
        for child in link.links():
            for name in child._persistent:
                self._add_base(getattr(child, name, None), "buffer", name)

    def _add_base(self, array: Any, kind: str, name: str) -> None:
        if is_array(array) and self._block_of(owner(array)) is None:
            self._add(owner(array), kind, 0, -1).name = name

    def read(self, arrays: Iterable[Any], is_backward: bool) -> None:
        """Register operands that no function made: they lived before the run.

        In a backward pass, the gradient of the loss is such an operand. Chainer makes it when the pass begins.
        """
        for array in arrays:
            if is_backward:
                self._see(array)
            else:
                self._add_base(array, "input", "")

    # Memory that the run allocates and frees

    def see(self, function: Any, results: Iterable[Any]) -> None:
        """Register what a function returned, and the arrays that it keeps as attributes."""
        for value in (*results, *_arrays_in(vars(function_of(function)))):
            self._see(array_of(value))

    def _see(self, array: Any) -> None:
        if is_array(array) and owner(array).nbytes and self._block_of(owner(array)) is None:
            self._calls.append(self._n_calls())
            self._add(owner(array), "", len(self._calls), self._n_calls())

    def _add(self, array: Any, kind: str, born: int, call: int) -> _Block:
        block = _Block(array, kind, born, call)
        address = id(array)

        def freed(watch: weakref.ref[Any]) -> None:
            if self._watches.get(address, (None,))[0] is watch:
                del self._watches[address]
            if self._result is None:
                self._calls.append(self._n_calls())
                block.died = len(self._calls)

        self._watches[address] = weakref.ref(array, freed), block
        self._blocks.append(block)
        return block

    def _block_of(self, array: Any) -> _Block | None:
        watch = self._watches.get(id(array))
        return watch[1] if watch is not None and watch[0]() is array else None

    # The result

    def close(self) -> None:
        """Keep the result only; nothing is watched any more."""
        self._result = self.result()
        self._watches.clear()
        self._blocks.clear()

    def result(self) -> RawLedger:
        """Return the blocks and events so far."""
        if self._result is not None:
            return self._result
        self._find_kinds()
        blocks = []
        for identity, each in enumerate(sorted(self._blocks, key=lambda block: block.born), 1):
            what = each.nbytes, each.kind, each.born, each.died, each.call
            made = Block(identity, *what, each.shape, each.dtype, each.name, each.device)
            blocks.append(RawBlock(made, each.with_gradient))
        notes = (UPDATES,) if any(block.kind == "optimizer" for block in self._blocks) else ()
        return RawLedger(blocks, [*self._calls], {}, False, notes)

    def _find_kinds(self) -> None:
        """Find the gradients of parameters and the state of optimizers among the blocks."""
        for reference, name in self._parameters.values():
            parameter = reference()
            if parameter is not None:
                rule = parameter.update_rule
                self._set_kind([parameter.grad], "gradient", name)
                self._set_kind(_arrays_in({} if rule is None else rule.state), "optimizer", name)

    def _set_kind(self, arrays: Iterable[Any], kind: str, name: str) -> None:
        for array in arrays:
            block = self._block_of(owner(array)) if is_array(array) else None
            if block is not None and not block.kind:
                block.kind, block.name = kind, name


def record_memory(recorder: Recorder) -> ArrayLedger:
    """Return a ledger, from which the recorder reads the memory of the run.

    If another frontend records memory as well, the recorder reads from that which saw memory.
    """
    ledger = ArrayLedger(lambda: len(recorder.calls))
    other, watch_other = recorder.memory_ledger, recorder.watch_memory

    def result() -> RawLedger:
        own = ledger.result()
        theirs = None if other is None else other()
        if theirs is None or not theirs.blocks:
            return own
        return theirs._replace(notes=(*theirs.notes, OTHERS)) if own.blocks else theirs

    def watch(values: Iterable[Any]) -> None:
        rest = [value for value in values if not ledger.watch(value)]
        if rest and watch_other is not None:
            watch_other(rest)
        elif rest:
            raise TypeError(f"watch expects links, optimizers, variables and arrays (got {rest[0]!r})")

    recorder.memory_ledger, recorder.watch_memory = result, watch
    return ledger


def _arrays_in(values: Mapping[str, Any] | None) -> Iterator[Any]:
    """Yield the arrays among values, and in lists and tuples among them."""
    for value in (values or {}).values():
        items: Sequence[Any] = value if isinstance(value, (list, tuple)) else (value,)
        yield from (array_of(item) for item in items if is_array(array_of(item)))
