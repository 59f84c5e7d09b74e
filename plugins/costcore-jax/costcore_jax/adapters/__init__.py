"""Functions and modules of libraries on JAX as programs.

A module of this package for functions, which also chooses the adapter of a model, and one for each library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any

import jax

from costcore.ir import Role

from ..values import MARK, Owner, Program

# Models that are objects with arrays in them


def is_jitted(model: object) -> bool:
    """Return whether a model is a function that ``jit`` returned, of JAX or of a library."""
    return callable(model) and hasattr(model, "lower") and hasattr(model, "__wrapped__")


def of_models(library: Any, models: Mapping[str, Any], call: Callable[..., Any], learned: Any = ()) -> Program:
    """Return a function that calls models as a program, whose variables are theirs.

    Args:
        library: the module of this package for the library of the models.
        models: the models by label, the path of the module that a model is; ``""`` for one alone.
        call: the function, ``call(models, learned, *args, **kwargs)``.
        learned: further learned arguments, a pytree of abstract values.
    """
    variables, merge = library.split(models)
    types = {path: type(module).__name__ for path, module in modules_in(library, models).items()}

    def function(variables: Any, *given: Any, **by_name: Any) -> Any:
        before = jax.tree.leaves(variables[0])  # merged models may change the variables
        merged = merge(variables[0])
        with scoped_calls(modules_in(library, merged), parts=library.modules_of):
            made = call(merged, variables[1], *given, **by_name)
        return library.arrays_of(made), library.updated(merged, before)

    def owner_of(path: Sequence[Any]) -> Owner:
        return library.owner_of(path[1:]) if path[0].idx == 0 else owner_by_path(path[2:])

    return Program(function, (variables, learned), owner_of, types=types)


def modules_in(library: Any, models: Mapping[str, Any]) -> dict[str, Any]:
    """Return the modules in models by path; the label of a model comes first."""
    found: dict[str, Any] = {}
    for label, model in models.items():
        for path, module in library.modules_of(model).items():
            found[".".join(filter(None, (label, path)))] = module
    return found


# Owners of variables


def names(path: Sequence[Any]) -> list[str]:
    """Return the keys of a path of a pytree as texts."""
    return [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]


def owner_by_path(path: Sequence[Any]) -> Owner:
    """Return the owner of a variable in nested dicts, as Flax has them: ``params/Dense_0/kernel``.

    A first key other than ``params`` that Flax uses for a collection of state makes it state.
    """
    keys, role = names(path), "param"
    if keys[:1] == ["params"]:
        keys = keys[1:]
    elif keys[:1] == ["batch_stats"]:
        keys, role = keys[1:], "state"
    return owner(role, keys)  # type: ignore[arg-type]  # one of two roles


def owner(role: Role, keys: Sequence[str]) -> Owner:
    """Return the owner whose path is all keys but the last."""
    return Owner(role, ".".join(keys[:-1]).replace("/", "."), keys[-1] if keys else "")


# Names of modules in a trace


_PATCHING = RLock()


@contextmanager
def scoped_calls(
    modules: Mapping[str, Any], method: str = "__call__", parts: Callable[[Any], Mapping[str, Any]] | None = None
) -> Iterator[None]:
    """Enter a named scope with its path in every call of a module.

    While the context is open, the method of the classes of these modules is replaced, one context at a time; other
    objects of the classes are called as they are.

    Args:
        modules: the modules by path.
        method: the method that calls a module.
        parts: returns the modules in a module by path. If given, a copy of a module has its path too, if no other
            module has the same class and sizes: ``jit`` and ``grad`` pass copies to functions.
    """
    paths = {id(module): path for path, module in modules.items()}
    copies = None if parts is None else _Copies(modules, paths, parts)
    classes = {owner for module in modules.values() if (owner := _defining(type(module), method)) is not None}
    with _PATCHING:
        originals = [(owner, vars(owner)[method]) for owner in classes]
        try:
            for owner, original in originals:
                type.__setattr__(owner, method, _scoped(original, paths, copies))
            yield
        finally:
            for owner, original in originals:
                type.__setattr__(owner, method, original)


class _Copies:
    """Gives copies of modules the paths of the originals."""

    def __init__(
        self, modules: Mapping[str, Any], paths: dict[int, str], parts: Callable[[Any], Mapping[str, Any]]
    ) -> None:
        self._paths, self._parts = paths, parts
        self._by_sizes: dict[Any, str | None] = {}
        for path, module in modules.items():
            sizes = self._sizes(module)
            self._by_sizes[sizes] = None if sizes in self._by_sizes else path
        self._kept: list[Any] = []  # so that no other object has the id of a copy

    def add(self, module: Any) -> None:
        """Add a module and all modules in it, if it can only be a copy of one module."""
        path = self._by_sizes.get(self._sizes(module))
        if path is not None:
            self._kept.append(module)
            for inner, part in self._parts(module).items():
                self._paths.setdefault(id(part), ".".join(filter(None, (path, inner))))

    @staticmethod
    def _sizes(module: Any) -> tuple[Any, ...]:
        return type(module), *[getattr(leaf, "shape", None) for leaf in jax.tree.leaves(module)]


def _defining(kind: type, method: str) -> type | None:
    """Return the class that defines a method of ``kind``."""
    return next((owner for owner in kind.__mro__ if method in vars(owner) and owner is not object), None)


def _scoped(original: Any, paths: Mapping[int, str], copies: _Copies | None) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = original.__get__(self, type(self))
        if copies is not None and id(self) not in paths:
            copies.add(self)
        path = paths.get(id(self))
        if path is None:
            return call(*args, **kwargs)
        with jax.named_scope(f"{MARK}{path}"):
            return call(*args, **kwargs)

    return wraps(original)(run) if callable(original) else run


def paths_of(
    attributes: Callable[[Any], Sequence[tuple[str, Any]]], root: Any, objects: type, modules: type
) -> dict[str, Any]:
    """Return the modules of a model by path, each once.

    Args:
        attributes: returns the attributes of an object by name.
        root: the model.
        objects: the class of all objects that may hold modules.
        modules: the class of all modules.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def visit(path: str, value: Any) -> None:
        if isinstance(value, objects):
            if id(value) in seen:
                return
            seen.add(id(value))
            if isinstance(value, modules):
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
