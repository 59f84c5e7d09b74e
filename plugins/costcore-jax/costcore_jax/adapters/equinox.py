"""Adapter of Equinox modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox
import jax

from ..values import Owner, Program
from . import is_jitted, names, of_model, of_models, owner, paths_of

has_state = False
"""Equinox modules are immutable, so a function may also take them as plain arguments."""


def accepts(model: object) -> bool:
    """Return True for a callable Equinox module, or a method of a module, but not for a jitted function."""
    return isinstance(model, equinox.Module) and callable(model) and not is_jitted(model)


def is_model(value: object) -> bool:
    """Return whether a value is a module, callable or not, but not a method."""
    return isinstance(value, equinox.Module) and not is_jitted(value) and not _is_method(value)


def _is_method(value: Any) -> bool:
    return isinstance(value, equinox.Module) and hasattr(value, "__func__")  # Equinox wraps methods in modules


is_argument = is_model


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return the program of a module; its floating-point arrays are learned, unless they are in an ``eqx.nn.State``.

    ``eqx.filter_eval_shape`` makes a model without arrays, which works as well.
    """
    library = sys.modules[__name__]
    if _is_method(model):
        owner, method = model.__self__, model.__func__
        return of_models(
            library, {"": owner}, lambda models, _, *given, **by_name: method(models[""], *given, **by_name)
        )
    return of_model(library, model)


def split(models: Mapping[str, Any], are_abstract: bool = True) -> tuple[Any, Callable[[Any], Mapping[str, Any]]]:
    """Return the arrays of models, and a function that builds the models from arrays."""
    arrays, rest = equinox.partition(dict(models), _is_array)
    if are_abstract:
        arrays = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arrays)
    return arrays, lambda variables: equinox.combine(variables, rest)


def _is_array(leaf: Any) -> bool:
    return bool(equinox.is_array(leaf)) or isinstance(leaf, jax.ShapeDtypeStruct)


def updated(models: Mapping[str, Any], before: Sequence[Any]) -> tuple[()]:
    """Return nothing: modules are immutable."""
    return ()


def arrays_of(made: Any) -> Any:
    """Return the arrays of a result, which may contain an updated model."""
    return equinox.filter(made, equinox.is_array)


def modules_of(model: Any) -> dict[str, Any]:
    """Return the modules in a module by path."""
    return paths_of(lambda module: list(vars(module).items()), model, equinox.Module, equinox.Module)


def owner_of(path: Sequence[Any]) -> Owner:
    """Return the owner of an array by its path in the variables of :func:`split`."""
    return owner("param", [key for key in names(path) if key])
