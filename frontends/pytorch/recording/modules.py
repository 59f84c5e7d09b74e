"""Modules, tensors and API calls of a run: the names behind recorded calls.

:class:`ModuleStack` holds the running modules and their paths. :class:`Identities` gives values, memory and parameters
their ids, tied to weak references. :class:`ApiCallTracker` tracks which function of PyTorch, or which
operator symbol such as ``+``, the user's code called.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from itertools import chain, count
from types import FrameType, FunctionType
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, UntypedStorage, strided
from torch.nn import Module, Parameter, functional
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from costcore.numbers import Dim
from costcore.trace.call import Module as ModuleEntry
from costcore.trace.call import qualified_bases, symbol_at
from costcore.trace.run import Recorder

from ..naming import api_name_of
from ..tensors import join, nested_tensors, stored_elements, tensors_in_object, walk

NewPath: TypeAlias = Callable[[str], str]
"""Returns the new path of a module from its old path."""

_NONE = (None, "")

_WRAPPING_NOTHING = frozenset((Parameter, type(None)))
"""Types of parameters that wrap no other tensors."""


class _Unnamed(str):
    # The path of the only outermost module: empty, but distinct from the path of a call outside all modules
    __slots__ = ()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, ("",)


class Root:
    """An outermost module.

    Attributes:
        module: returns it, or None once it was deleted.
        path: its path, the prefix of all paths below it; empty if it is the only one.
        has_parts: whether it has submodules or parameters. If several outermost modules have
            parts, their paths begin with their class names.
    """

    has_parts: bool

    def __init__(self, module: Module) -> None:
        self.module: ref[Module] = ref(module)
        self.path: str = ""
        self.has_parts = bool(module._modules or module._parameters)


class ModuleStack:
    """The modules being called in one thread, outermost first, with their paths.

    Paths begin at the outermost module. With several outermost modules, they begin with the class name. A submodule
    that is called directly, as in a recomputation, keeps its path in the model.

    Args:
        rename_all: takes a function from old to new paths, and applies it to the paths of all records.

    Attributes:
        last_root_module: the outermost module that was called last.
        roots: all outermost modules.
        path: path of the module running now; ``""`` for a single outermost one and outside any module.
        running: the running modules with their paths, outermost first.
        passed: the arguments of the outermost module that is running; () if none is.
        aliases: the first path of a shared module, by the other paths under which it ran.
    """

    path: str

    def __init__(self, rename_all: Callable[[NewPath], None]) -> None:
        self.last_root_module: Module | None = None
        self.roots: list[Root] = []
        self.path = ""
        self.running: list[tuple[Module, str]] = []
        self.passed: object = ()
        self.aliases: dict[str, str] = {}
        self._rename_all = rename_all
        self._paths: dict[int, tuple[Module, str]] = {}
        self._modules: list[Module] = []
        """The outermost module that was called last, and all modules below it."""
        self._shared: dict[int, list[str]] = {}
        """The further paths of modules that several modules share, by id of the module."""
        self._buffers: dict[int, ref[UntypedStorage]] = {}
        """Weak references to the storages of the buffers below ``_buffers_of``, by address."""
        self._buffers_of: Module | None = None
        self._wrapped: dict[int, tuple[ref[UntypedStorage], Tensor]] = {}
        """Weak references to storages of wrapped tensors, with the parameters around them, by address."""
        self._wrapped_of: Module | None = None

    def share_with(self, other: ModuleStack, running: Iterable[tuple[Module, str]]) -> None:
        """Share the paths with the stack of another thread, and set its running modules."""
        other.use_state(self.last_root_module, self.roots, self.aliases, self._paths, self._modules, self._shared)
        other.running = [*running]
        other.path = other.running[-1][1] if other.running else ""

    def absorb(self, other: ModuleStack) -> None:
        """Take over the state of another thread, which has ended."""
        if other.last_root_module is not None and other.last_root_module is not self.last_root_module:
            other.share_with(self, self.running)

    def use_state(
        self,
        root: Module | None,
        roots: list[Root],
        aliases: dict[str, str],
        paths: dict[int, tuple[Module, str]],
        modules: list[Module],
        shared: dict[int, list[str]],
    ) -> None:
        """Take over the state of outermost modules."""
        self.last_root_module, self.roots, self.aliases = root, roots, aliases
        self._paths, self._modules, self._shared = paths, modules, shared

    def knows(self, module: Module) -> bool:
        """Return whether a module is ``last_root_module``, is below it, or ran inside it."""
        return self._paths.get(id(module), _NONE)[0] is module

    def path_of(self, module: object) -> str | None:
        """Return the path of a module that :meth:`knows` accepts; None for anything else."""
        known, path = self._paths.get(id(module), _NONE)
        return path if known is module and known is not None else None

    @property
    def is_running(self) -> bool:
        """Whether any module is running."""
        return bool(self.running)

    @property
    def innermost(self) -> Module | None:
        """The module running now; None outside any module."""
        return self.running[-1][0] if self.running else None

    def place(self, module: Module, path: str) -> None:
        """Set the path of a module that the model does not contain, while the outermost module runs."""
        self._paths[id(module)] = (module, path)

    def enter(self, module: Module, passed: object = ()) -> None:
        """Push a module that is called with the arguments ``passed``.

        A submodule of the last outermost module keeps its path even if that module is no longer running: it may have
        returned an iterator that calls the submodule.
        """
        if not self.running:
            self.passed = passed
            if module is not self.last_root_module and not self.knows(module):
                self._choose_root(module)
        entry = self._paths.get(id(module))
        if entry is None:  # the model was changed meanwhile, or calls a module that it does not contain
            entry = self._paths[id(module)] = (module, self._path_of(module))
        elif self._shared and self.running:
            entry = module, self._path_here(module, entry[1])
        self.running.append(entry)
        self.path = entry[1]

    def leave(self) -> None:
        """Pop the innermost module."""
        self.running.pop()
        if self.running:
            self.path = self.running[-1][1]
        else:
            self.path, self.passed = "", ()

    def described(self, module: Module) -> str:
        """Return path and class of ``last_root_module``, or of a module that is below it or ran inside it."""
        path = self._paths.get(id(module), (module, ""))[1]
        return f"{path} ({type(module).__name__})" if path else type(module).__name__

    def holds_buffer(self, storage: UntypedStorage) -> bool:
        """Return whether a storage belongs to a buffer of the outermost module."""
        if self._buffers_of is not self.last_root_module:
            self._buffers_of = self.last_root_module
            self._buffers = {id(each): ref(each) for each in _storages_of_buffers(self._modules)}
        found = self._buffers.get(id(storage))
        return found is not None and found() is storage

    def parameter_around(self, storage: UntypedStorage) -> Tensor | None:
        """Return the parameter that wraps a tensor with this storage, such as a quantized weight; None without one."""
        if self._wrapped_of is not self.last_root_module:
            self._wrapped_of = self.last_root_module
            self._wrapped = {id(each): (ref(each), whole) for each, whole in _wrapped_storages(self._modules)}
        found = self._wrapped.get(id(storage))
        return None if found is None or found[0]() is not storage else found[1]

    def was_passed(self, tensor: Tensor) -> bool:
        """Return whether a tensor is an argument of the running model."""
        return any(tensor is each for each in nested_tensors(self.passed))

    def is_free_weight(self, tensor: Tensor) -> bool:
        """Return whether a tensor is a weight without being a parameter: a leaf that requires a gradient.

        ``torch.func.functional_call`` passes such tensors to the model in place of its parameters. Tensors inside of
        objects that are arguments are inputs, such as positions of atoms.
        """
        if not (self.running and tensor.requires_grad and tensor.is_leaf and type(tensor) is Tensor):
            return False
        return all(tensor is not each for each in tensors_in_object(self.passed))

    # Outermost modules

    def _choose_root(self, module: Module) -> None:
        for root in self.roots:
            outermost = root.module()
            if outermost is not None and any(each is module for _, each, _ in walk(outermost)):
                self._set_root(root, outermost)
                return
        new = Root(module)
        self._set_root(new, module)
        for old in [*self.roots]:
            part = old.module()
            if part is not None and self.knows(part):  # it ran alone before the model that contains it
                self._rename_root(old, self._paths[id(part)][1])
                self.roots.remove(old)
        others = [root for root in self.roots if root.has_parts]
        self.roots.append(new)
        if others and new.has_parts:
            for old in others:
                if not old.path:
                    self._rename_root(old, self._unique_name(old.module()))
            new.path = self._unique_name(module)
            self._set_root(new, module)

    def _set_root(self, root: Root, module: Module) -> None:
        path = root.path or (_Unnamed() if root.has_parts else "")
        self.last_root_module = module
        found = [*walk(module)]
        if path:
            found = [(join(path, below), child, is_first) for below, child, is_first in found]
        entries = [(child, here) for here, child, is_first in found if is_first]
        self._modules = [child for child, _ in entries]
        self._paths = {id(entry[0]): entry for entry in entries}
        self._paths[id(module)] = module, path
        self._shared = {}
        if len(entries) < len(found):
            for here, child, is_first in found:
                if not is_first:
                    self._shared.setdefault(id(child), []).append(here)

    def _unique_name(self, module: Module | None) -> str:
        name = type(module).__name__
        taken = {root.path for root in self.roots}
        return next(each for each in (name if i == 1 else f"{name}-{i}" for i in count(1)) if each not in taken)

    def _rename_root(self, root: Root, path: str) -> None:
        before, root.path = root.path, path

        def new_path(each: str) -> str:
            if not before:  # it is the only one with parts so far: all paths are below it
                return join(path, each) if each or type(each) is _Unnamed else each
            return path + each[len(before) :] if each == before or each.startswith(f"{before}.") else each

        self.aliases.update({new_path(key): new_path(value) for key, value in self.aliases.items()})
        self._rename_all(new_path)

    # Modules at several paths of the outermost one, or at none

    def _path_here(self, module: Module, first: str) -> str:
        # A shared module has several paths: take the one below the running parent.
        parent, here = self.running[-1]
        first_of_parent = self._paths[id(parent)][1]
        for path in (first, *self._shared.get(id(module), ())):
            if not first_of_parent or path.startswith(f"{first_of_parent}."):
                found: str = path if not first_of_parent else here + path[len(first_of_parent) :]
                if found != first:
                    self.aliases[found] = first
                return found
        return first

    def _path_of(self, module: Module) -> str:
        # If no running module contains the module, it has the path of the innermost running module.
        for parent, path in reversed(self.running):
            for name, child, _ in walk(parent):
                if child is module:
                    return join(path, name)
        return self.path


def _storages_of_buffers(modules: Iterable[Module]) -> Iterator[UntypedStorage]:
    for module in modules:
        for buffer in module._buffers.values():
            try:
                storage = buffer.untyped_storage() if type(buffer) is Tensor else None
            except RuntimeError:  # sparse buffers and buffers inside vmap have no storage
                continue
            if storage is not None:
                yield storage


def _wrapped_storages(modules: Iterable[Module]) -> Iterator[tuple[UntypedStorage, Tensor]]:
    for module in modules:
        parameters = module._parameters.values()
        if not _WRAPPING_NOTHING.issuperset(map(type, parameters)):
            for parameter in parameters:
                for part in wrapped_tensors(parameter):
                    yield part.untyped_storage(), parameter


def wrapped_tensors(tensor: Any) -> Iterator[Tensor]:
    """Yield the plain tensors inside a wrapper subclass, at any depth; none for other tensors."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    for name in () if flatten is None or hasattr(tensor, "_local_tensor") else flatten()[0]:
        inner = getattr(tensor, name)
        if type(inner) is Tensor:
            yield inner
        else:
            yield from wrapped_tensors(inner)


# The tree of modules, with their parameters and buffers


_bases: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()
"""The qualified names of a class of modules and its base classes."""


def _bases_of(kind: type) -> tuple[str, ...]:
    bases = _bases.get(kind)
    if bases is None:
        bases = _bases[kind] = qualified_bases(kind, Module)
    return bases


def module_tree(model: Module, identities: Identities, prefix: str = "") -> dict[str, ModuleEntry]:
    """Return the modules of ``model`` by path, in their order. With several models, ``prefix`` begins each path."""
    tree: dict[str, ModuleEntry] = {}
    paths: dict[int, str] = {}
    bases_of: dict[type, tuple[str, ...]] = {}
    sizes, parameter_of = identities.sizes, identities.parameter_of
    # For speed, entries are made without the constructor: ``new`` takes all fields in order (type, parameters, frozen,
    # buffers, same_as, bases, own, kernel_is_int).
    new = tuple.__new__
    entries = walk(model)
    if prefix:
        entries = ((join(prefix, below), module, is_first) for below, module, is_first in entries)
    for path, module, is_first in entries:
        kind = type(module)
        bases = bases_of.get(kind)
        if bases is None:
            bases = bases_of[kind] = _bases_of(kind)
        fields = module.__dict__  # PyTorch's own lookup of an attribute takes as long as all the rest
        kernel_is_int = type(fields.get("kernel_size")) is int
        if not is_first:
            tree[path] = new(ModuleEntry, (kind.__name__, (), (), 0, paths[id(module)], bases, (), kernel_is_int))
            continue
        paths[id(module)] = path
        parameters, stored = fields.get("_parameters"), fields.get("_buffers")
        if parameters is None or stored is None:  # a traced module looks them up elsewhere
            parameters, stored = module._parameters, module._buffers
        if not parameters and not stored:
            tree[path] = new(ModuleEntry, (kind.__name__, (), (), 0, "", bases, (), kernel_is_int))
            continue
        is_trained: dict[int, bool] = {}
        own = []
        for name, parameter in parameters.items():
            if type(parameter) is Parameter:
                identity = parameter_of(parameter)
            elif parameter is None or is_lazy(parameter):
                continue
            else:
                identity = parameter_of(_local(parameter, identities))
            if not identity:  # such as a plain tensor, which no call read as a parameter
                identity = identities.register_held_parameter(parameter)
            is_trained[identity] = is_trained.get(identity, True) and parameter.requires_grad
            own.append((name, sizes[identity] if identity else parameter.numel()))
        is_any_frozen = False in is_trained.values()
        frozen = tuple([identity for identity, trained in is_trained.items() if not trained]) if is_any_frozen else ()
        n_buffered = sum([x.numel() for x in stored.values() if x is not None and not is_lazy(x)]) if stored else 0
        entry = kind.__name__, tuple(is_trained), frozen, n_buffered, "", bases, tuple(own), kernel_is_int
        tree[path] = new(ModuleEntry, entry)
    return tree


def _local(parameter: Any, identities: Identities) -> Any:
    # Of a distributed parameter (``DTensor``), count the shard of this process.
    shard = getattr(parameter, "_local_tensor", None)
    if shard is None:
        return parameter
    identities.register_shard(shard)
    return shard


# Identities of tensors: ids of values, memory and learned parameters
#
# Python reuses the address of a dead object, and so does the allocator; every id is therefore tied to a weak reference.


EXTERNAL, LEARNED, COMPUTED, BUFFER, GIVEN = range(5)
"""Origins of a value: from outside the run, a learned parameter, the result of an operator, a buffer of a module, an
argument of the model.

A view has the origin of its base."""

N_ORIGINS = 5

Identity: TypeAlias = "tuple[ref[Tensor], int, int]"
"""A tensor object, the operand id of the value it holds, and the origin of that value."""

Memory: TypeAlias = "tuple[ref[UntypedStorage] | None, int, int]"
"""A storage, its id, and the origin of its values, which is never LEARNED: only an identity of a tensor has that."""


class Modules(Protocol):
    """The part of the module stack on which tensor identities depend."""

    def holds_buffer(self, storage: UntypedStorage) -> bool:
        """Return whether a storage belongs to a buffer."""

    def parameter_around(self, storage: UntypedStorage) -> Tensor | None:
        """Return the parameter that wraps a tensor with this storage."""

    def was_passed(self, tensor: Tensor) -> bool:
        """Return whether a tensor is an argument of the running model."""

    def is_free_weight(self, tensor: Tensor) -> bool:
        """Return whether a tensor takes the place of a parameter."""


class Identities:
    """Gives the tensors of one recorder their operand ids, storage ids, parameter ids and origins.

    Operand id 0 stands for a Python number, which is not a value in memory.

    Args:
        recorder: gives new ids.
        modules: the modules that run.

    Attributes:
        by_address: the identities of tensor objects, by address.
        storages: the storage id of each value, 0 for a number.
        parameters: the parameter id of each value that is a parameter.
        has_list_index: whether an operand is an integer meta tensor that no operator returned. PyTorch makes such a
            tensor from a list that indexes a tensor, as in ``x[[0, 2]]``.
    """

    storages: dict[int, int]
    has_list_index: bool

    def __init__(self, recorder: Recorder, modules: Modules) -> None:
        self._recorder = recorder
        self._modules: Modules | None = modules
        self._holds_buffer = modules.holds_buffer
        self._wrapping_parameters: dict[int, tuple[ref[Tensor], int]] = {}
        """Parameters that wrap other tensors, with their ids, by address."""
        self._new_id = recorder.new_id
        self.by_address: dict[int, Identity] = {}
        self.storages = {0: 0}
        self.parameters: dict[int, int] = {}
        self.has_list_index = False
        self._memories: dict[int, tuple[ref[UntypedStorage], int, int]] = {}
        """The known storages, by address of the storage object, which stays the same while the memory is in use."""
        self._created: dict[int, ref[Tensor]] = {}
        self._input_addresses: set[int] | None = None
        self._input_storages: set[int] = set()
        """The addresses of the inputs and of their storages, set by :meth:`limit_inputs`."""
        self.used_as_weights: dict[int, Dim] = {}
        """By parameter id: the size of tensors that are parameters only because an operator uses them as weights."""
        self._parameters_in: dict[int, dict[tuple[int, int], int]] = {}
        """Ids of the parameters in a memory by offset and size, by the id of the memory."""

    def of(self, tensor: Tensor) -> Identity:
        """Return the identity of an operand. If it is not known yet, register it as a tensor from outside the run."""
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
            parameter = self._parameter_behind(tensor, memory)
        identity = self._register(tensor, memory, parameter)
        origin, is_input = identity[2], False
        if origin != LEARNED:
            if origin in (EXTERNAL, GIVEN):
                self.has_list_index |= origin == EXTERNAL and tensor.is_meta and not tensor.is_floating_point()
                is_input = self._is_input(tensor)
            (self._recorder.inputs if is_input else self._recorder.buffers).append(identity[1])
        return identity

    def _parameter_behind(self, tensor: Tensor, memory: Memory) -> int:
        # The id of the parameter behind a plain tensor, which may be a view of it, the content of a wrapper, or a
        # replacement; 0 for none.
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
        """Treat only these tensors as inputs of the model; they must live as long as the run."""
        inputs = [*tensors]
        self._input_addresses = set(map(id, inputs))
        self._input_storages = {id(x.untyped_storage()) for x in inputs if x.layout is strided}

    def register_created(self, tensor: Tensor) -> None:
        """Register the result of an operator that is not recorded, such as ``empty``: it is not an input."""
        self._created[id(tensor)] = ref(tensor)

    def _is_input(self, tensor: Tensor) -> bool:
        if self._input_addresses is not None and id(tensor) not in self._input_addresses:
            return False
        created = self._created.get(id(tensor))
        return created is None or created() is not tensor

    def register_result(self, tensor: Tensor) -> Identity:
        """Register a tensor that an operator returned: a new value, in new memory or in the memory of an operand.

        It runs for every operator, so it calls no other function for a tensor outside the memory of parameters.
        """
        try:
            storage = tensor.untyped_storage()
        except RuntimeError:  # sparse and opaque tensors have none
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
        """Return the id of the storage whose object was last seen at an address; 0 for none."""
        found = self._memories.get(address)
        return 0 if found is None else found[1]

    def is_buffer(self, storage: UntypedStorage) -> bool:
        """Return whether a storage belongs to a buffer of a module that runs."""
        return self._holds_buffer(storage)

    def made(self) -> Iterator[Tensor]:
        """Yield the live results of operators, and live tensors created without a recorded call."""
        results = (tensor() for tensor, _, origin in self.by_address.values() if origin == COMPUTED)
        created = (tensor() for tensor in self._created.values())
        return (tensor for tensor in chain(results, created) if tensor is not None)

    def from_outside(self) -> Iterator[UntypedStorage]:
        """Yield the live storages of operands that existed before the run and do not belong to the model."""
        found = (storage() for storage, _, origin in self._memories.values() if origin == EXTERNAL)
        return (storage for storage in found if storage is not None)

    def release(self) -> None:
        """Release the modules, and with them the model; no tensor is registered afterwards."""
        self._modules, self._holds_buffer = None, _holds_no_buffer

    def register_alias(self, alias: Tensor, tensor: Tensor) -> None:
        """Register a tensor object with the value of another one, as ``detach`` returns."""
        _, operand, origin = self.of(tensor)
        self.by_address[id(alias)] = (ref(alias), operand, origin)

    def register_replacement(self, tensor: Tensor, original: Tensor) -> None:
        """Register a tensor that takes the place of another one, with the same value in the same memory."""
        self.register_alias(tensor, original)
        storage = tensor.untyped_storage()
        self._memories[id(storage)] = (ref(storage), *self._memory(original, EXTERNAL)[1:])

    def register_parameter(self, tensor: Tensor, operand: int) -> None:
        """Register an operand as a parameter because of its use, such as a plain tensor passed as a weight."""
        parameter = self.parameters[operand] = self._whole_parameter(tensor, self._memory(tensor, EXTERNAL))
        self.used_as_weights[parameter] = self.sizes[parameter]

    def register_shard(self, tensor: Tensor) -> None:
        """Register this process's shard of a distributed parameter (``DTensor``), a plain tensor, as a parameter."""
        _, operand, origin = self.of(tensor)
        if origin != LEARNED:
            self.register_parameter(tensor, operand)
            self.by_address[id(tensor)] = (ref(tensor), operand, LEARNED)

    def register_held_parameter(self, tensor: Tensor) -> int:
        """Register a tensor that a module holds as a parameter, but no call read as one; return its parameter id."""
        _, operand, _ = self.of(tensor)
        parameter = self.parameters[operand] = self._whole_parameter(tensor, self._memory(tensor, EXTERNAL))
        return parameter

    def register_part(self, part: Tensor, whole: Tensor) -> None:
        """Register ``part``, a shard made by ``fully_shard``, as the gathered parameter ``whole`` that the model reads.

        Does nothing if ``whole`` is no parameter.
        """
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
        # ``origin`` is used only if the memory was never seen before.
        try:
            storage = tensor.untyped_storage()
        except RuntimeError:  # sparse and opaque tensors have none
            return None, self._new_id(), origin
        address = id(storage)
        memory = self._memories.get(address)
        if memory is None or memory[0]() is not storage:
            if origin == EXTERNAL:
                is_given = address in self._input_storages
                origin = GIVEN if is_given else BUFFER if self._holds_buffer(storage) else EXTERNAL
            memory = self._memories[address] = (ref(storage), self._new_id(), origin)
        return memory

    def _whole_parameter(self, tensor: Tensor, memory: Memory) -> int:
        # Wrapper subclasses hold tensors with several storages, so their parameters are identified by object.
        if not hasattr(tensor, "__tensor_flatten__"):
            return self._parameter(tensor, memory)
        known = self._wrapping_parameters.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._wrapping_parameters[id(tensor)] = ref(tensor), self._recorder.parameter(tensor.numel())
        return known[1]

    def _parameter(self, tensor: Tensor, memory: Memory) -> int:
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
        parameters = self._parameters_in.get(memory[1])
        if parameters is None:
            return 0
        offset = tensor.storage_offset()
        for (start, size), parameter in parameters.items():
            if start <= offset < start + max(size, 1):
                return parameter
        return 0


def _holds_no_buffer(storage: UntypedStorage) -> bool:
    return False


# API calls: the function or symbol in the user's code


_stack_size = torch._C._len_torch_function_stack

_mode_at = torch._C._get_function_stack_at

_pop = torch._C._pop_torch_function_stack

_push = torch._C._push_on_torch_function_stack

_WITHOUT_OVERRIDE = frozenset((Tensor, Parameter))
"""Types of tensors without a ``__torch_function__`` of their own."""

_PYTORCH_FRAMES = frozenset(("torch._tensor", "torch.overrides", "torch.utils._device"))
"""The modules of PyTorch whose functions run between the user's code and a mode."""

_SIZES, _OUTPUT_SIZES = ("size", "scale_factor"), ("output_size", "output_ratio")

_ALTERNATIVES: Mapping[Callable[..., Any], tuple[str, ...]] = {
    functional.interpolate: _SIZES,
    functional.upsample: _SIZES,
    functional.upsample_bilinear: _SIZES,
    functional.upsample_nearest: _SIZES,
    functional.fractional_max_pool2d: _OUTPUT_SIZES,
    functional.fractional_max_pool3d: _OUTPUT_SIZES,
    functional.fractional_max_pool2d_with_indices: _OUTPUT_SIZES,
    functional.fractional_max_pool3d_with_indices: _OUTPUT_SIZES,
}
"""Functions that take one of several alternative arguments, and the names of these arguments."""

_INDEXING = (Tensor.__getitem__, Tensor.__setitem__)

_ENTERED = (
    *(Tensor.backward, torch.autograd.backward, torch.autograd.grad),
    *(functional.multi_head_attention_forward, functional.local_response_norm, functional.gumbel_softmax),
    *(functional.lp_pool1d, functional.lp_pool2d, functional.lp_pool3d),
)
"""Functions that are not recorded themselves; the API functions that they call are recorded instead."""


class ApiCallTracker(TorchFunctionMode):
    """Tracks the API call that a thread is making; :func:`api_call_tracker` returns the tracker of the running thread.

    The outermost function counts: ``torch.nn.functional.softmax``, not ``torch.Tensor.softmax`` inside it. A mode is
    not active while it handles a function, so it never sees inner functions.

    Attributes:
        is_over: whether no capture needs it any more; it may still be on the mode stack of its thread.
        index: a function that replaces the index in ``tensor[index]``; None to keep indices unchanged.
    """

    is_over: bool

    def __init__(self) -> None:
        super().__init__()
        self.is_over = False
        self.index: Callable[[Tensor, Any], Any] | None = None
        self._function: Any = None
        """The function that is running; None outside any."""
        self._passed_alternatives: tuple[str, ...] = ()
        self._is_silent = False

    def start(self) -> None:
        """Push this mode on the mode stack. If the last capture ended in another thread, it is still there."""
        self.is_over = False
        if self not in _stack():
            _push(self)

    def remove(self) -> None:
        """Remove this mode from the mode stack, also from below others."""
        if self not in _stack():
            return
        above = []
        while (mode := _pop()) is not self:
            above.append(mode)
        for mode in reversed(above):
            _push(mode)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, and record it as the running one."""
        special = _SPECIAL.get(id(func))
        if special is not None and not self.is_over:
            undispatched, alternatives = special
            if (
                undispatched is not None
                and _WITHOUT_OVERRIDE.issuperset(types)
                and all(isinstance(x, DeviceContext) for x in _stack())
            ):
                with self._active():
                    return undispatched(*args, **(kwargs or {}))
            self._passed_alternatives = _passed(func, alternatives, args, kwargs or {})
        if self.index is not None and func in _INDEXING:
            args = (args[0], self.index(args[0], args[1]), *args[2:])
        before, self._function = self._function, func
        try:
            return func(*args, **kwargs) if kwargs else func(*args)
        finally:
            self._function = before
            self._passed_alternatives = ()

    def facts(self) -> tuple[str, tuple[str, ...]]:
        """Return the name of the running function, or "", and which of its alternative arguments were passed."""
        if self._function is None:
            return "", ()
        name, method, symbol = api_name_of(self._function)
        if not symbol:
            return name, self._passed_alternatives
        frame = _caller()
        if frame is None:
            return name, ()
        code = frame.f_code
        written = symbol_at(code, frame.f_lasti)
        if not written and method and method in code.co_names:
            return name, ()
        # ``sum(x)`` and ``operator.add(x, y)`` have no symbol in the code.
        return f"operator.{written or symbol}", ()

    @property
    def enabled(self) -> bool:
        """Whether the next function call is tracked."""
        return self._function is None and not self._is_silent

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Context manager: do not track functions. If this is the innermost mode, it is popped, which saves time."""
        size = _stack_size()
        is_next = size > 0 and _mode_at(size - 1) is self
        if is_next:
            _pop()
        was_silent, self._is_silent = self._is_silent, True
        try:
            yield
        finally:
            self._is_silent = was_silent
            if is_next:
                _push(self)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Context manager: track calls inside a running function too, with all other modes off the stack."""
        others = [_pop() for _ in range(_stack_size())]
        before, self._function = self._function, None
        was_silent, self._is_silent = self._is_silent, False
        try:
            with self._active():
                yield
        finally:
            self._function, self._is_silent = before, was_silent
            for mode in reversed(others):
                _push(mode)

    @contextmanager
    def running(self, function: Any) -> Iterator[None]:
        """Context manager: record all calls as calls of ``function``."""
        before, self._function = self._function, function
        try:
            yield
        finally:
            self._function = before

    @contextmanager
    def _active(self) -> Iterator[None]:
        _push(self)
        try:
            yield
        finally:
            self.remove()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.api_calls = ApiCallTracker()


_HANDLER = ApiCallTracker.__torch_function__.__code__


def _stack() -> list[Any]:
    return [_mode_at(i) for i in range(_stack_size())]


def _caller() -> FrameType | None:
    # The frame of the user's code that called the running function.
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not _HANDLER:
        frame = frame.f_back
    frame = frame and frame.f_back
    while frame is not None and frame.f_globals.get("__name__") in _PYTORCH_FRAMES:
        frame = frame.f_back
    return frame


def _passed(function: Any, names: tuple[str, ...], args: Any, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    if not names:
        return ()
    passed = {**dict(zip(signature(function).parameters, args, strict=False)), **kwargs}
    return tuple(name for name in names if passed.get(name) is not None)


class _Globals(dict[str, Any]):
    # The globals of a copy made by :func:`_undispatched`: a few are replaced, all others are looked up in the module at
    # each access.
    def __init__(self, own: Mapping[str, Any], module: dict[str, Any]) -> None:
        super().__init__(own)
        self._module = module

    def __missing__(self, name: str) -> Any:
        return self._module[name]


def _undispatched(function: Any) -> Any:
    # A copy of a function of ``_ENTERED`` that skips ``has_torch_function``. The original would pass itself to the
    # active mode and run inside it, so that the mode would not see the functions that it calls.
    checks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    own = dict.fromkeys(checks, lambda *_: False)
    undispatched = FunctionType(
        function.__code__.replace(),
        _Globals(own, function.__globals__),
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    undispatched.__kwdefaults__ = function.__kwdefaults__
    return undispatched


_SPECIAL: dict[int, tuple[Any, tuple[str, ...]]] = {
    **{id(function): (_undispatched(function), ()) for function in _ENTERED if type(function) is FunctionType},
    **{id(function): (None, names) for function, names in _ALTERNATIVES.items()},
}
"""The undispatched copy of each function of ``_ENTERED``, and the argument names of each function of ``_ALTERNATIVES``.

By id, because a function of the user may not be hashable."""

_THREAD = _Thread()


def api_call_tracker() -> ApiCallTracker:
    """Return the API call tracker of the running thread."""
    return _THREAD.api_calls
