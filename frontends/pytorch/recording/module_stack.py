"""The modules that are running, and their paths in the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import ref

from torch import Tensor, UntypedStorage
from torch.nn import Module

from ..module_walk import join, walk

_NONE = (None, "")


class ModuleStack:
    """The modules being called in one thread, outermost first, with their paths in the outermost one.

    Attributes:
        root: the outermost module that was called last.
        n_roots: how many outermost modules were called, one after another.
        path: path of the module running now; ``""`` for the outermost one and outside any module.
        running: the modules that are running, with their paths, the outermost one first.
    """

    def __init__(self) -> None:
        self.root: Module | None = None
        self.n_roots = 0
        self.path = ""
        self.running: list[tuple[Module, str]] = []
        self._paths: dict[int, tuple[Module, str]] = {}
        self._modules: list[Module] = []
        """The outermost module that was called last, and all modules below it."""
        self._buffers: dict[int, Any] = {}
        """Weak references to the memory of the buffers of ``_buffers_of``, by its address."""
        self._buffers_of: Module | None = None

    def lead(self, other: ModuleStack, running: Iterable[tuple[Module, str]]) -> None:
        """Let another stack go on in another thread, where ``running`` run."""
        other.follow(self.root, self._paths, self._modules)
        other.running = [*running]
        other.path = other.running[-1][1] if other.running else ""

    def join(self, other: ModuleStack) -> None:
        """Note the outermost modules that were called in another thread, which has ended."""
        if other.root is not self.root:
            other.lead(self, self.running)
        self.n_roots += other.n_roots

    def follow(self, root: Module | None, paths: dict[int, tuple[Module, str]], modules: list[Module]) -> None:
        """Take over what is known of an outermost module."""
        self.root, self._paths, self._modules = root, paths, modules

    def knows(self, module: Module) -> bool:
        """Return whether a module is the outermost one that was called last, or below it."""
        return self._paths.get(id(module), _NONE)[0] is module

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

    def enter(self, module: Module) -> None:
        """Push a module that is called.

        A part of the outermost module that was called last may be called later: by an iterator that this returned.
        """
        if not self.running and module is not self.root and not self.knows(module):
            self.n_roots += 1
            self.root = module
            entries = [(child, path) for path, child, is_first in walk(module) if is_first]
            self._modules = [child for child, _ in entries]
            self._paths = {id(entry[0]): entry for entry in entries}
        entry = self._paths.get(id(module))
        if entry is None:  # the model was changed meanwhile, or calls a module that it does not contain
            entry = self._paths[id(module)] = (module, self._path_of(module))
        self.running.append(entry)
        self.path = entry[1]

    def leave(self) -> None:
        """Pop the innermost module."""
        self.running.pop()
        self.path = self.running[-1][1] if self.running else ""

    def described(self, module: Module) -> str:
        """Return path and class of a module that ran in the outermost one called last."""
        path = self._paths.get(id(module), (module, ""))[1]
        return f"{path} ({type(module).__name__})" if path else type(module).__name__

    def holds(self, memory: UntypedStorage) -> bool:
        """Return whether a storage is that of a buffer of the outermost module."""
        if self.root is None:
            return False
        if self._buffers_of is not self.root:
            self._buffers_of = self.root
            self._buffers = {id(memory): ref(memory) for memory in _memories_of_buffers(self._modules)}
        found = self._buffers.get(id(memory))
        return found is not None and found() is memory

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
