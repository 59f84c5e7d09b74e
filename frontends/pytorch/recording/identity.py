"""The identity of tensors: ids of values, of the memory behind them, and of learned parameters.

Python reuses the address of a dead object, and so does the allocator; every id is therefore tied to a weak reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Protocol, TypeAlias
from weakref import ref

from torch import Tensor, UntypedStorage, strided
from torch.nn import Parameter

from costcore.numbers.dims import Dim
from costcore.trace.recorder import Recorder

from ..tensors import stored_elements

EXTERNAL, LEARNED, COMPUTED, BUFFER, GIVEN = range(5)
"""Origins of a value: from outside the run, a learned parameter, the result of an operator, a buffer of a module, an
argument of the model.

A view has the origin of what it is a view of."""

N_ORIGINS = 5

Identity: TypeAlias = "tuple[ref[Tensor], int, int]"
"""A tensor object, the operand id of the value it holds, and the origin of that value."""

Memory: TypeAlias = "tuple[ref[UntypedStorage] | None, int, int]"
"""A storage, its id, and the origin of what it holds unless that is a learned parameter."""


class Modules(Protocol):
    """What the identity of a tensor depends on: the modules that run."""

    def holds(self, memory: UntypedStorage) -> bool:
        """Return whether a storage is that of a buffer."""

    def parameter_around(self, memory: UntypedStorage) -> Tensor | None:
        """Return the parameter that wraps a tensor with this storage."""

    def was_passed(self, tensor: Tensor) -> bool:
        """Return whether a tensor is an argument of the running model."""

    def is_free_weight(self, tensor: Tensor) -> bool:
        """Return whether a tensor takes the place of a parameter."""


class Identities:
    """The values of one recorder by operand id.

    Operand id 0 stands for a Python number, which is not a value in memory.

    Args:
        recorder: gives new ids.
        modules: the modules that run.

    Attributes:
        by_address: the identities of tensor objects, by address.
        storages: id of the memory behind each value, 0 for a number.
        parameters: id of the parameter that a value is; other values are missing.
        has_unmade: whether an integer tensor without data came from nowhere, as PyTorch makes one of a list.
    """

    def __init__(self, recorder: Recorder, modules: Modules) -> None:
        self._recorder = recorder
        self._modules: Modules | None = modules
        self._holds = modules.holds
        self._wrappers: dict[int, tuple[ref[Tensor], int]] = {}
        """Parameters that wrap other tensors, with their ids, by address."""
        self._new_id = recorder.new_id
        self.by_address: dict[int, Identity] = {}
        self.storages = {0: 0}
        self.parameters: dict[int, int] = {}
        self.has_unmade = False
        self._memories: dict[int, tuple[ref[UntypedStorage], int, int]] = {}
        """The memories by the address of the storage object, which is one object as long as the memory is in use."""
        self._created: dict[int, ref[Tensor]] = {}
        self._given: set[int] | None = None
        self._given_memories: set[int] = set()
        self.used_as_weights: dict[int, Dim] = {}
        """Elements of tensors that are parameters only by their use, by parameter id."""
        self._parameters_in: dict[int, dict[tuple[int, int], int]] = {}
        """Ids of the parameters in a memory by offset and size, by the id of the memory."""

    def of(self, tensor: Tensor) -> Identity:
        """Return the identity of an operand; one that was never seen before comes from outside the run."""
        found = self.by_address.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found
        return self.register_external(tensor)

    def register_external(self, tensor: Tensor) -> Identity:
        """Register an operand that was never seen before."""
        memory = self._memory(tensor, EXTERNAL)
        if type(tensor) is Parameter:
            return self._register(tensor, memory, self._parameter(tensor, memory))
        if type(tensor) is not Tensor and isinstance(tensor, Parameter):
            return self._register(tensor, memory, self._whole_parameter(tensor, memory))
        parameter = self._parameter_at(tensor, memory)
        if not parameter and memory[2] in (EXTERNAL, GIVEN):
            parameter = self._unregistered(tensor, memory)
        identity = self._register(tensor, memory, parameter)
        origin, is_input = identity[2], False
        if origin != LEARNED:
            if origin in (EXTERNAL, GIVEN):
                self.has_unmade |= origin == EXTERNAL and tensor.is_meta and not tensor.is_floating_point()
                is_input = self._is_given(tensor)
            (self._recorder.inputs if is_input else self._recorder.buffers).append(identity[1])
        return identity

    def _unregistered(self, tensor: Tensor, memory: Memory) -> int:
        """Return the id of the parameter that a tensor from outside is, or is a part of, although its type is plain."""
        if tensor._is_view() and isinstance(tensor._base, Parameter):
            return self._whole_parameter(tensor._base, memory)
        if memory[2] == GIVEN:
            return 0
        modules, storage = self._modules, None if memory[0] is None else memory[0]()
        if modules is None or storage is None or modules.was_passed(tensor):
            return 0
        whole = modules.parameter_around(storage)
        if whole is not None:
            parameter = self._whole_parameter(whole, memory)
            self._parameters_in.setdefault(memory[1], {})[0, storage.nbytes()] = parameter
            return parameter
        return self._parameter(tensor, memory) if modules.is_free_weight(tensor) else 0

    def limit_inputs(self, tensors: Iterable[Tensor]) -> None:
        """Take only these tensors as inputs of the model; they must live as long as the run."""
        given = [*tensors]
        self._given = set(map(id, given))
        self._given_memories = {id(x.untyped_storage()) for x in given if x.layout is strided}

    def register_created(self, tensor: Tensor) -> None:
        """Note a tensor that an operator without a call creates, such as ``empty``: it is not an input."""
        self._created[id(tensor)] = ref(tensor)

    def _is_given(self, tensor: Tensor) -> bool:
        created = self._created.get(id(tensor))
        return (self._given is None or id(tensor) in self._given) and (created is None or created() is not tensor)

    def register_result(self, tensor: Tensor) -> Identity:
        """Register a tensor that an operator returned: a new value, in new memory or in that of an operand.

        It runs at every operator, so that it calls no other function for a tensor outside the memory of parameters.
        """
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and opaque tensors have none
            return self._register(tensor, self._memory(tensor, COMPUTED), 0)
        address = id(storage)
        memory = self._memories.get(address)
        if memory is None or memory[0]() is not storage:
            memory = self._memories[address] = (ref(storage), self._new_id(), COMPUTED)
        elif memory[1] in self._parameters_in:
            return self._register(tensor, memory, self._parameter_at(tensor, memory))
        operand = self._new_id()
        self.storages[operand] = memory[1]
        identity = self.by_address[id(tensor)] = (ref(tensor), operand, memory[2])
        return identity

    def storage_at(self, address: int) -> int:
        """Return the storage id that was given last to the memory of the storage object at an address; 0 for none."""
        found = self._memories.get(address)
        return 0 if found is None else found[1]

    def is_buffer(self, storage: UntypedStorage) -> bool:
        """Return whether a storage is that of a buffer of a module that runs."""
        return self._holds(storage)

    def made(self) -> Iterator[Tensor]:
        """Yield the results of operators, and the tensors that operators without a call created, that still exist."""
        results = (tensor() for tensor, _, origin in self.by_address.values() if origin == COMPUTED)
        created = (tensor() for tensor in self._created.values())
        return (tensor for tensor in chain(results, created) if tensor is not None)

    def from_outside(self) -> Iterator[UntypedStorage]:
        """Yield the memory of tensors that neither the model nor its code made in the run, and that is still in use."""
        found = (storage() for storage, _, origin in self._memories.values() if origin == EXTERNAL)
        return (storage for storage in found if storage is not None)

    def release(self) -> None:
        """Release the modules, and with them the model: no tensor is registered any more."""
        self._modules, self._holds = None, _holds_nothing

    def register_alias(self, alias: Tensor, tensor: Tensor) -> None:
        """Register a tensor object that holds the value of another one, as ``detach`` returns it."""
        _, operand, origin = self.of(tensor)
        self.by_address[id(alias)] = (ref(alias), operand, origin)

    def register_stand_in(self, tensor: Tensor, original: Tensor) -> None:
        """Register a tensor that takes the place of another one: it holds the same value in the same memory."""
        self.register_alias(tensor, original)
        storage = tensor.untyped_storage()
        self._memories[id(storage)] = (ref(storage), *self._memory(original, EXTERNAL)[1:])

    def register_parameter(self, tensor: Tensor, operand: int) -> None:
        """Register the value of an operand as a parameter, because its operator uses it as one."""
        parameter = self.parameters[operand] = self._whole_parameter(tensor, self._memory(tensor, EXTERNAL))
        self.used_as_weights[parameter] = self.sizes[parameter]

    def register_shard(self, tensor: Tensor) -> None:
        """Register the local shard of a distributed parameter as a parameter, which its type does not show."""
        _, operand, origin = self.of(tensor)
        if origin != LEARNED:
            self.register_parameter(tensor, operand)
            self.by_address[id(tensor)] = (ref(tensor), operand, LEARNED)

    def register_part(self, part: Tensor, whole: Tensor) -> None:
        """Register a tensor that holds a part of a parameter as that parameter, if an operator read the whole."""
        parameter = self.parameter_of(whole)
        if parameter:
            _, operand, _ = self.of(part)
            extent = part.storage_offset(), part.numel()
            self._parameters_in.setdefault(self._memory(part, EXTERNAL)[1], {})[extent] = parameter
            self.parameters[operand] = parameter
            self.by_address[id(part)] = (ref(part), operand, LEARNED)

    @property
    def sizes(self) -> Mapping[int, Dim]:
        """The number of elements of every parameter, by its id."""
        return self._recorder.parameters

    def parameter_of(self, tensor: Tensor) -> int:
        """Return the id of the parameter that a tensor is, 0 for none."""
        found = self.by_address.get(id(tensor))
        if found is None or found[0]() is not tensor:
            found = self.register_external(tensor)
        return self.parameters.get(found[1], 0)

    def _register(self, tensor: Tensor, memory: Memory, parameter: int) -> Identity:
        operand = self._new_id()
        self.storages[operand] = memory[1]
        if parameter:
            self.parameters[operand] = parameter
        origin = LEARNED if parameter else memory[2]
        identity = self.by_address[id(tensor)] = (ref(tensor), operand, origin)
        return identity

    def _memory(self, tensor: Tensor, origin: int) -> Memory:
        """Return the memory of a tensor; ``origin`` is that of a tensor in memory that was never seen before."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and opaque tensors have none
            return None, self._new_id(), origin
        address = id(storage)
        memory = self._memories.get(address)
        if memory is None or memory[0]() is not storage:
            if origin == EXTERNAL:
                is_given = address in self._given_memories
                origin = GIVEN if is_given else BUFFER if self._holds(storage) else EXTERNAL
            memory = self._memories[address] = (ref(storage), self._new_id(), origin)
        return memory

    def _whole_parameter(self, tensor: Tensor, memory: Memory) -> int:
        """Return the id of a parameter of any type, which may wrap tensors with other memory."""
        if not hasattr(tensor, "__tensor_flatten__"):
            return self._parameter(tensor, memory)
        known = self._wrappers.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._wrappers[id(tensor)] = ref(tensor), self._recorder.parameter(tensor.numel())
        return known[1]

    def _parameter(self, tensor: Tensor, memory: Memory) -> int:
        """Return the id of a parameter, of which ``tensor`` holds all elements."""
        size = stored_elements(tensor) or tensor.numel()
        if memory[0] is None:
            return self._recorder.parameter(size)
        parameters = self._parameters_in.setdefault(memory[1], {})
        extent = tensor.storage_offset(), size
        found = parameters.get(extent)
        if found is None:
            found = parameters[extent] = self._recorder.parameter(size)
        return found

    def _parameter_at(self, tensor: Tensor, memory: Memory) -> int:
        """Return the id of the parameter that holds the first element of a tensor, 0 for none."""
        parameters = self._parameters_in.get(memory[1])
        if parameters is None:
            return 0
        offset = tensor.storage_offset()
        for (start, size), parameter in parameters.items():
            if start <= offset < start + max(size, 1):
                return parameter
        return 0


def _holds_nothing(memory: UntypedStorage) -> bool:
    return False
