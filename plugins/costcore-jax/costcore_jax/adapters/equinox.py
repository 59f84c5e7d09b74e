"""Modules of Equinox."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox
import jax

from ..values import Owner, Program
from . import is_jitted, names, of_models, owner, paths_of

has_state = False
"""Modules of Equinox never change: a function may take them as any other argument."""


def accepts(model: object) -> bool:
    """Return True for a module of Equinox that can be called, or a method of one, but not for a jitted function."""
    return isinstance(model, equinox.Module) and callable(model) and not is_jitted(model)


def is_model(value: object) -> bool:
    """Return whether a value is a module, which need not be callable, but not a method."""
    return isinstance(value, equinox.Module) and not is_jitted(value) and not _is_method(value)


def _is_method(value: Any) -> bool:
    return isinstance(value, equinox.Module) and hasattr(value, "__func__")  # Equinox makes modules of methods


is_argument = is_model


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return a call of a module; its floating-point arrays are learned, unless they are in an ``eqx.nn.State``.

    The model may be made by ``eqx.filter_eval_shape``, without arrays.
    """
    library = sys.modules[__name__]
    if _is_method(model):
        owner, method = model.__self__, model.__func__
        return of_models(
            library, {"": owner}, lambda models, _, *given, **by_name: method(models[""], *given, **by_name)
        )
    return of_models(library, {"": model}, lambda models, _, *given, **by_name: models[""](*given, **by_name))


def split(models: Mapping[str, Any], are_abstract: bool = True) -> tuple[Any, Callable[[Any], Mapping[str, Any]]]:
    """Return the arrays of models, and a function that makes the models of these arrays."""
    arrays, rest = equinox.partition(dict(models), _is_array)
    if are_abstract:
        arrays = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arrays)
    return arrays, lambda variables: equinox.combine(variables, rest)


def _is_array(leaf: Any) -> bool:
    return bool(equinox.is_array(leaf)) or isinstance(leaf, jax.ShapeDtypeStruct)


def updated(models: Mapping[str, Any], before: Sequence[Any]) -> tuple[()]:
    """Return nothing: modules never change."""
    return ()


def arrays_of(made: Any) -> Any:
    """Return the arrays of a result, which may be a changed model."""
    return equinox.filter(made, equinox.is_array)


def modules_of(model: Any) -> dict[str, Any]:
    """Return the modules in a module by path."""
    return paths_of(lambda module: list(vars(module).items()), model, equinox.Module, equinox.Module)


def owner_of(path: Sequence[Any]) -> Owner:
    """Return the owner of an array, by its path in what :func:`split` returns."""
    return owner("param", [key for key in names(path) if key])
