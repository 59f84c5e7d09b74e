"""Modules of Equinox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox
import jax

from ..values import Owner, Program
from . import names, owner, paths_of, scoped_calls


def accepts(model: object) -> bool:
    """Return True for a module of Equinox that can be called."""
    return isinstance(model, equinox.Module) and callable(model)


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return a call of a module; its floating-point arrays are learned, unless they are in an ``eqx.nn.State``.

    The model may be made by ``eqx.filter_eval_shape``, without arrays.
    """
    arrays, rest = equinox.partition(model, _is_array)
    variables = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arrays)
    types = {path: type(module).__name__ for path, module in _modules(model).items()}

    def function(variables: Any, *given: Any, **by_name: Any) -> Any:
        merged = equinox.combine(variables, rest)
        with scoped_calls(_modules(merged)):
            return equinox.filter(merged(*given, **by_name), equinox.is_array), ()

    return Program(function, variables, _owner, types=types)


def _is_array(leaf: Any) -> bool:
    return bool(equinox.is_array(leaf)) or isinstance(leaf, jax.ShapeDtypeStruct)


def _modules(model: Any) -> dict[str, Any]:
    return paths_of(lambda module: list(vars(module).items()), model, equinox.Module)


def _owner(path: Sequence[Any]) -> Owner:
    return owner("param", names(path))
