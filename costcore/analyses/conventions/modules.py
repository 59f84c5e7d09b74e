"""The modules of a run as conventions see them: types, children, parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from costcore.trace.call import Module
from costcore.trace.run import Run

_TORCH = "torch.nn.modules."


@lru_cache(maxsize=1 << 12)
def short_type(qualified: str) -> str:
    """Return the name of a class as rules write it: ``nn.Conv2d`` for ``torch.nn.modules.conv.Conv2d``."""
    if qualified.startswith(_TORCH):
        return f"nn.{qualified.rpartition('.')[2]}"
    return qualified


class ModuleIndex:
    """The modules of a run by path.

    Args:
        run: the run.

    Attributes:
        has_types: whether the capture knows the qualified types of modules of PyTorch.
    """

    def __init__(self, run: Run) -> None:
        self._modules: Mapping[str, Module] = run.modules
        self._has_children = {path.rpartition(".")[0] for path in self._modules if path}
        self.has_types = "torch" in run.frameworks and any(module.bases for module in self._modules.values())
        self._bases: dict[str, tuple[str, ...]] = {}
        self._parents: dict[str, set[str]] = {}
        self._n_paths: dict[str, int] = {}
        for path, module in self._modules.items():
            if path:
                parent = self._first(path.rpartition(".")[0])
                self._parents.setdefault(module.same_as or path, set()).add(parent)

    def _first(self, path: str) -> str:
        """Return the path at which the module of a path was seen first."""
        module = self._modules.get(path)
        return module.same_as or path if module is not None else path

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, path: str) -> bool:
        return path in self._modules

    def get(self, path: str) -> Module | None:
        """Return the module at a path."""
        module = self._modules.get(path)
        return self._modules.get(module.same_as, module) if module is not None and module.same_as else module

    def types(self, path: str) -> tuple[str, ...]:
        """Return the class of a module and its base classes, as rules write them; empty if they are unknown."""
        found = self._bases.get(path)
        if found is None:
            module = self.get(path)
            found = self._bases[path] = () if module is None else tuple(map(short_type, module.bases))
        return found

    def is_leaf(self, path: str) -> bool:
        """Return whether a module has no children."""
        return path not in self._has_children

    def n_paths(self, path: str) -> int:
        """Return the number of ways to a module from the model; a parent that holds it under two names is one way."""
        path = self._first(path)
        found = self._n_paths.get(path)
        if found is None:
            parents = self._parents.get(path, ())
            self._n_paths[path] = 1  # for a module that an edited report puts inside itself
            found = self._n_paths[path] = sum(map(self.n_paths, parents)) if parents else 1
        return found

    def ancestors(self, path: str) -> Iterator[str]:
        """Yield the paths of the modules around a module, from the inside out."""
        while path:
            path = path.rpartition(".")[0]
            yield path
