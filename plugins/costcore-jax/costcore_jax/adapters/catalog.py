"""Which adapter a model needs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import jax
import jax.numpy as jnp

from costcore.errors import CostError

from ..capture.program import Program
from .paths import owner_by_path

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
