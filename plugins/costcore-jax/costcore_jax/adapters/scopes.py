"""Named scopes around the calls of modules, for libraries that enter none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any

import jax

from ..capture.location import MARK

_PATCHING = RLock()


@contextmanager
def scoped_calls(modules: Mapping[str, Any], method: str = "__call__") -> Iterator[None]:
    """Enter a named scope with its path in every call of a module.

    While the context is open, the method of the classes of these modules is replaced, one context at a time; other
    objects of the classes are called as they are.

    Args:
        modules: the modules by path.
        method: the method that calls a module.
    """
    paths = {id(module): path for path, module in modules.items()}
    classes = {owner for module in modules.values() if (owner := _defining(type(module), method)) is not None}
    with _PATCHING:
        originals = [(owner, vars(owner)[method]) for owner in classes]
        try:
            for owner, original in originals:
                type.__setattr__(owner, method, _scoped(original, paths))
            yield
        finally:
            for owner, original in originals:
                type.__setattr__(owner, method, original)


def _defining(kind: type, method: str) -> type | None:
    """Return the class that defines a method of ``kind``."""
    return next((owner for owner in kind.__mro__ if method in vars(owner) and owner is not object), None)


def _scoped(original: Any, paths: Mapping[int, str]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = original.__get__(self, type(self))
        path = paths.get(id(self))
        if path is None:
            return call(*args, **kwargs)
        with jax.named_scope(f"{MARK}{path}"):
            return call(*args, **kwargs)

    return wraps(original)(run) if callable(original) else run


def paths_of(attributes: Callable[[Any], Sequence[tuple[str, Any]]], root: Any, kinds: type) -> dict[str, Any]:
    """Return the modules of a model by path, each once.

    Args:
        attributes: returns the attributes of a module by name.
        root: the model.
        kinds: the class of all modules.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def visit(path: str, value: Any) -> None:
        if isinstance(value, kinds):
            if id(value) in seen:
                return
            seen.add(id(value))
            found[path] = value
            parts: Any = attributes(value)
        elif isinstance(value, (list, tuple)):
            parts = enumerate(value)
        elif isinstance(value, Mapping):
            parts = value.items()
        else:
            return
        for name, part in parts:
            visit(f"{path}.{name}" if path else str(name), part)

    visit("", root)
    return found
