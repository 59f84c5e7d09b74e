"""The modules that are running, and their paths in the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeAlias
from weakref import ref

from torch import Tensor, UntypedStorage
from torch.nn import Module, Parameter

from ..module_walk import join, walk
from ..tensors import nested_tensors

Rename: TypeAlias = Callable[[str], str]
"""Returns the path of a module by what it was before."""

_NONE = (None, "")

_PLAIN = frozenset((Parameter, type(None)))
"""Types of parameters that wrap no other tensors."""


class _Unnamed(str):
    """The path of an outermost module, as long as it is the only one: empty, but not that of a call outside of it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, ("",)


class Root:
    """An outermost module.

    Attributes:
        module: returns it, or None once it is gone.
        path: its path, which begins those of all modules below it: empty if it is the only one.
        has_parts: whether it has modules or parameters, so that others may have the same paths.
    """

    def __init__(self, module: Module) -> None:
        self.module = ref(module)
        self.path: str = ""
        self.has_parts = bool(module._modules or module._parameters)


class ModuleStack:
    """The modules being called in one thread, outermost first, with their paths.

    Paths begin at the outermost module. If there are several of them, they begin with the names of their classes. A
    module of a model that is called by itself, as in a recomputation, keeps its path.

    Args:
        rename: changes the paths of everything that was recorded.

    Attributes:
        root: the outermost module that was called last.
        roots: all outermost modules.
        path: path of the module running now; ``""`` for a single outermost one and outside any module.
        running: the modules that are running, with their paths, the outermost one first.
        passed: the arguments of the outermost module that is running, or ran last.
        aliases: paths of modules that several modules share, by which they ran, and the first path of each.
    """

    def __init__(self, rename: Callable[[Rename], None]) -> None:
        self.root: Module | None = None
        self.roots: list[Root] = []
        self.path = ""
        self.running: list[tuple[Module, str]] = []
        self.passed: object = ()
        self.aliases: dict[str, str] = {}
        self._rename = rename
        self._paths: dict[int, tuple[Module, str]] = {}
        self._modules: list[Module] = []
        """The outermost module that was called last, and all modules below it."""
        self._shared: dict[int, list[str]] = {}
        """Paths of modules that several modules hold, after the first, by id."""
        self._buffers: dict[int, ref[UntypedStorage]] = {}
        """Weak references to the memory of the buffers of ``_buffers_of``, by its address."""
        self._buffers_of: Module | None = None
        self._wrapped: dict[int, tuple[ref[UntypedStorage], Tensor]] = {}
        """The same for tensors inside parameters of ``_wrapped_of``, with these parameters."""
        self._wrapped_of: Module | None = None

    def lead(self, other: ModuleStack, running: Iterable[tuple[Module, str]]) -> None:
        """Let another stack go on in another thread, where ``running`` run."""
        other.follow(self.root, self.roots, self.aliases, self._paths, self._modules, self._shared)
        other.running = [*running]
        other.path = other.running[-1][1] if other.running else ""

    def join(self, other: ModuleStack) -> None:
        """Go on after another thread, which has ended."""
        if other.root is not None and other.root is not self.root:
            other.lead(self, self.running)

    def follow(
        self,
        root: Module | None,
        roots: list[Root],
        aliases: dict[str, str],
        paths: dict[int, tuple[Module, str]],
        modules: list[Module],
        shared: dict[int, list[str]],
    ) -> None:
        """Take over what is known of outermost modules."""
        self.root, self.roots, self.aliases = root, roots, aliases
        self._paths, self._modules, self._shared = paths, modules, shared

    def knows(self, module: Module) -> bool:
        """Return whether a module is the outermost one that was called last, or below it."""
        return self._paths.get(id(module), _NONE)[0] is module

    def path_of(self, module: object) -> str | None:
        """Return the path of a module in the outermost one that was called last; None for anything else."""
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
        """Give a module that the model does not contain a path, while the outermost module runs."""
        self._paths[id(module)] = (module, path)

    def enter(self, module: Module, passed: object = ()) -> None:
        """Push a module that is called with the arguments ``passed``.

        A part of the outermost module that was called last may be called later: by an iterator that this returned.
        """
        if not self.running:
            self.passed = passed
            if module is not self.root and not self.knows(module):
                self._begin(module)
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
        """Return path and class of a module that ran in the outermost one called last."""
        path = self._paths.get(id(module), (module, ""))[1]
        return f"{path} ({type(module).__name__})" if path else type(module).__name__

    def holds(self, memory: UntypedStorage) -> bool:
        """Return whether a storage is that of a buffer of the outermost module."""
        if self._buffers_of is not self.root:
            self._buffers_of = self.root
            self._buffers = {id(memory): ref(memory) for memory in _memories_of_buffers(self._modules)}
        found = self._buffers.get(id(memory))
        return found is not None and found() is memory

    def parameter_around(self, memory: UntypedStorage) -> Tensor | None:
        """Return the parameter that wraps a tensor with this storage, as quantized weights do; None if none does."""
        if self._wrapped_of is not self.root:
            self._wrapped_of = self.root
            self._wrapped = {id(memory): (ref(memory), whole) for memory, whole in _memories_inside(self._modules)}
        found = self._wrapped.get(id(memory))
        return None if found is None or found[0]() is not memory else found[1]

    def was_passed(self, tensor: Tensor) -> bool:
        """Return whether a tensor is an argument of the running model."""
        return any(tensor is each for each in nested_tensors(self.passed))

    def is_free_weight(self, tensor: Tensor) -> bool:
        """Return whether a tensor that is no argument of a running model requires a gradient, and is no parameter.

        Such are weights that ``torch.func.functional_call`` puts in the place of parameters.
        """
        return bool(self.running and tensor.requires_grad and tensor.is_leaf and type(tensor) is Tensor)

    # Outermost modules

    def _begin(self, module: Module) -> None:
        """Make a module the outermost one, or that of which it is a part."""
        for root in self.roots:
            outermost = root.module()
            if outermost is not None and any(each is module for _, each, _ in walk(outermost)):
                self._use(root, outermost)
                return
        new = Root(module)
        self._use(new, module)
        for old in [*self.roots]:
            part = old.module()
            if part is not None and self.knows(part):  # it ran alone before the model of which it is a part
                self._rename_root(old, self._paths[id(part)][1])
                self.roots.remove(old)
        others = [root for root in self.roots if root.has_parts]
        self.roots.append(new)
        if others and new.has_parts:
            for old in others:
                if not old.path:
                    self._rename_root(old, self._unique_name(old.module()))
            new.path = self._unique_name(module)
            self._use(new, module)

    def _use(self, root: Root, module: Module) -> None:
        path = root.path or (_Unnamed() if root.has_parts else "")
        self.root = module
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

        def renamed(each: str) -> str:
            if not before:  # it is the only one with parts so far: all paths are below it
                return join(path, each) if each or type(each) is _Unnamed else each
            return path + each[len(before) :] if each == before or each.startswith(f"{before}.") else each

        self.aliases.update({renamed(key): renamed(value) for key, value in self.aliases.items()})
        self._rename(renamed)

    # Modules that the outermost one holds at several paths, or not at all

    def _path_here(self, module: Module, first: str) -> str:
        """Return the path of a module below the one that is running, if it is there: others may hold it, too."""
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
        """Return the path of ``module`` under the innermost running module that contains it.

        If none contains it, it is the path of the innermost running module.
        """
        for parent, path in reversed(self.running):
            for name, child, _ in walk(parent):
                if child is module:
                    return join(path, name)
        return self.path


def _memories_of_buffers(modules: Iterable[Module]) -> Iterator[UntypedStorage]:
    for module in modules:
        for buffer in module._buffers.values():
            try:
                memory = buffer.untyped_storage() if type(buffer) is Tensor else None
            except (NotImplementedError, RuntimeError):  # sparse buffers and those of vmap have none
                continue
            if memory is not None:
                yield memory


def _memories_inside(modules: Iterable[Module]) -> Iterator[tuple[UntypedStorage, Tensor]]:
    """Yield the memory of tensors inside parameters, with the parameter."""
    for module in modules:
        parameters = module._parameters.values()
        if not _PLAIN.issuperset(map(type, parameters)):
            for parameter in parameters:
                for part in wrapped_tensors(parameter):
                    yield part.untyped_storage(), parameter


def wrapped_tensors(tensor: Any) -> Iterator[Tensor]:
    """Yield the plain tensors of which an instance of a wrapper subclass consists, at any depth; none for others."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    for name in () if flatten is None or hasattr(tensor, "_local_tensor") else flatten()[0]:
        inner = getattr(tensor, name)
        if type(inner) is Tensor:
            yield inner
        else:
            yield from wrapped_tensors(inner)
