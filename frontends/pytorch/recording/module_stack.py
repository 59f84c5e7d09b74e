"""Which module is running, and where it stands in the model."""

from __future__ import annotations

from torch.nn import Module

from ..module_walk import join, walk


class ModuleStack:
    """The modules being called in one thread, outermost first, and their paths in the outermost one."""

    def __init__(self) -> None:
        self._running: list[tuple[Module, str]] = []
        self._paths: dict[int, tuple[Module, str]] = {}
        self.root: Module | None = None
        """The outermost module that was called last."""
        self.n_roots = 0
        """How many were called, one after another."""
        self.path = ""
        """Path of the module running now, ``""`` for the outermost one and outside of any."""
        self.failed: BaseException | None = None
        self.failed_in = ""
        """Path and class of the innermost module that the exception ``failed`` came out of."""

    @property
    def is_running(self) -> bool:
        """Whether any module is running."""
        return bool(self._running)

    def enter(self, module: Module) -> None:
        """``module`` is called, inside of those running now."""
        if not self._running and module is not self.root:
            self.n_roots += 1
            self.root = module
            self._paths = {id(child): (child, path) for path, child, is_first in walk(module) if is_first}
        known = self._paths.get(id(module))
        if known is None:  # the model was changed meanwhile, or is not made of what it calls
            known = self._paths[id(module)] = (module, self._found(module))
        self._running.append(known)
        self.path = known[1]

    def leave(self, error: BaseException | None = None) -> None:
        """The innermost module returned, or raised ``error``."""
        module, path = self._running.pop()
        self.path = self._running[-1][1] if self._running else ""
        if error is not None and self.failed is not error:
            self.failed = error
            self.failed_in = f"{path} ({type(module).__name__})" if path else type(module).__name__

    def _found(self, module: Module) -> str:
        """The path under the nearest running module that has ``module`` by now, else that of the innermost one."""
        for parent, path in reversed(self._running):
            for name, child, _ in walk(parent):
                if child is module:
                    return join(path, name)
        return self.path
