"""Which tensor is which: ids of values, of the memory behind them, and of learned parameters.

Python reuses the address of a dead object, and so does the allocator; every id is therefore tied to a weak reference.
"""

from __future__ import annotations

from typing import Any, TypeAlias
from weakref import ref

from torch import Tensor
from torch.nn import Parameter

from costcore.trace.recorder import Recorder

EXTERNAL, LEARNED, COMPUTED = range(3)
"""Where a value comes from: from outside of the run, from a learned parameter (or a view of one), from an operator."""

Known: TypeAlias = "tuple[ref[Tensor], int, int]"
"""A tensor object, the number of the value it holds, and where that comes from."""


Memory: TypeAlias = "tuple[ref[Any] | None, int, bool]"
"""A storage, its id, and whether an operator of this run made it."""


class Identities:
    """The values of one recorder, numbered from 1, and their ids, each a list by that number.

    Number 0 is no value in memory, as a Python number is none; its ids are 0.

    Attributes:
        known: all tensor objects that are such a value, by their address.
        operands: ids of the values.
        storages: ids of the memory behind them.
        parameters: ids of the parameters they are, 0 for none.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._new_id = recorder.new_id
        self.known: dict[int, Known] = {}
        self.operands = [0]
        self.storages = [0]
        self.parameters = [0]
        self._memories: dict[int, Memory] = {}
        self._learned_in: dict[int, dict[tuple[int, int], int]] = {}
        """Ids of the parameters in a memory by place and size, by the id of the memory."""

    def of(self, tensor: Tensor) -> Known:
        """What an operand is known as; one never seen before comes from outside of the run."""
        found = self.known.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found
        return self.meet(tensor)

    def meet(self, tensor: Tensor) -> Known:
        """Take up an operand that was never seen before."""
        memory = self._memory(tensor, False)
        if type(tensor) is not Tensor and isinstance(tensor, Parameter):
            return self._remember(tensor, memory, self._learned(tensor, memory))
        parameter = self._parameter_at(tensor, memory)
        if not parameter and not memory[2] and tensor._is_view() and isinstance(tensor._base, Parameter):
            parameter = self._learned(tensor._base, memory)
        return self._remember(tensor, memory, parameter)

    def made(self, tensor: Tensor) -> Known:
        """Take up what an operator returned: a new value, in new memory or (views, in-place) in known memory."""
        memory = self._memory(tensor, True)
        return self._remember(tensor, memory, self._parameter_at(tensor, memory))

    def same(self, tensor: Tensor, other: Tensor) -> None:
        """Take up a tensor that is ``other`` again under another name, as ``detach`` returns it."""
        _, number, origin = self.of(other)
        self.known[id(tensor)] = (ref(tensor), number, origin)

    def parameter_of(self, tensor: Tensor) -> int:
        """The id of the parameter that a tensor is, 0 for none."""
        return self.parameters[self.of(tensor)[1]]

    def learn(self, tensor: Tensor, number: int) -> None:
        """Make a parameter of an operand that is learned because of what it is to its operator."""
        self.parameters[number] = self._learned(tensor, self._memory(tensor, False))

    def take_for_learned(self, tensor: Tensor) -> None:
        """Take up a tensor as a parameter that is none by its type: the part that this process holds of one."""
        _, number, origin = self.of(tensor)
        if origin != LEARNED:
            self.learn(tensor, number)
            self.known[id(tensor)] = (ref(tensor), number, LEARNED)

    def _remember(self, tensor: Tensor, memory: Memory, parameter: int) -> Known:
        origin = LEARNED if parameter else COMPUTED if memory[2] else EXTERNAL
        known = self.known[id(tensor)] = (ref(tensor), len(self.operands), origin)
        self.operands.append(self._new_id())
        self.storages.append(memory[1])
        self.parameters.append(parameter)
        return known

    def _memory(self, tensor: Tensor, is_computed: bool) -> Memory:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and opaque tensors have none
            return None, self._new_id(), is_computed
        address = storage._cdata
        memory = self._memories.get(address)
        if memory is None or memory[0] is None or memory[0]() is not storage:
            memory = self._memories[address] = (ref(storage), self._new_id(), is_computed)
        return memory

    def _learned(self, tensor: Tensor, memory: Memory) -> int:
        """The id of the parameter that a tensor is, whole."""
        size = tensor.numel()
        if memory[0] is None:
            return self._recorder.parameter(size)
        parameters = self._learned_in.setdefault(memory[1], {})
        place = tensor.storage_offset(), size
        found = parameters.get(place)
        if found is None:
            found = parameters[place] = self._recorder.parameter(size)
        return found

    def _parameter_at(self, tensor: Tensor, memory: Memory) -> int:
        """The id of the parameter that covers the first element of a tensor, 0 for none."""
        parameters = self._learned_in.get(memory[1])
        if parameters is None:
            return 0
        offset = tensor.storage_offset()
        for (start, size), identity in parameters.items():
            if start <= offset < start + max(size, 1):
                return identity
        return 0
