"""Functions and modules of libraries on JAX as programs; a module of this package for each library."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from importlib import import_module
from threading import RLock
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import jax
import jax.numpy as jnp

from costcore.errors import CostError
from costcore.ir import Role

from ..values import MARK, Owner, Program

# Which adapter a model needs


Adapter = Callable[[Any, list[Any], dict[str, Any], tuple[int, ...]], Program]
"""A function of a model, its arguments by position and by name, and the positions of learned arguments."""

LIBRARIES: Mapping[str, str] = {
    "flax.linen": "linen",
    "flax.nnx": "nnx",
    "haiku": "haiku",
    "equinox": "equinox",
    "keras": "keras",
}
"""The module of this package that adapts models of a library."""

FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, partial, jax.custom_jvp, jax.custom_vjp, jnp.ufunc)


def adapter_of(model: object) -> Adapter | None:
    """Return the adapter of a model, None if it is neither a function nor a module of a library on JAX."""
    for library, name in LIBRARIES.items():
        if library in sys.modules:
            adapter = import_module(f"costcore_jax.adapters.{name}")
            if adapter.accepts(model):
                found: Adapter = adapter.adapt
                return found
    is_jitted = callable(model) and hasattr(model, "lower") and hasattr(model, "__wrapped__")
    return of_function if is_jitted or isinstance(model, FUNCTIONS) else None


def of_function(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return a function whose arguments at positions ``params`` are its variables. They stay in ``args`` as None."""
    variables = [args[i] for i in params]
    for i in params:
        args[i] = None

    def function(variables: list[Any], *given: Any, **by_name: Any) -> Any:
        complete = list(given)
        for i, variable in zip(params, variables, strict=True):
            complete[i] = variable
        made = model(*complete, **by_name)
        _check_arrays(name, made)
        return made, ()

    name = getattr(model, "__name__", type(model).__name__)
    if (args or kwargs) and _takes_nothing(model):
        raise CostError(f"{name} takes no arguments. If it makes a model, call it and pass the model")
    return Program(function, variables, lambda path: owner_by_path(path[1:]), types={"": name})


def _takes_nothing(function: Any) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function without a signature
        return False


def _check_arrays(name: str, made: Any) -> None:
    """Check that a function computed something, and did not make a model.

    Raises:
        CostError: if it made a model.
    """
    for leaf in jax.tree.leaves(made):
        if callable(leaf) and not hasattr(leaf, "shape"):
            raise CostError(f"{name} makes a model ({type(made).__name__}). Call it and pass the model")


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
