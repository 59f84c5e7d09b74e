"""Modules of ``flax.nnx``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from flax import nnx

from ..values import Owner, Program
from . import names, owner, paths_of, scoped_calls


def accepts(model: object) -> bool:
    """Return True for a module of ``flax.nnx``."""
    return isinstance(model, nnx.Module)


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return a call of a module; its variables are those that ``nnx.split`` finds.

    A model made by ``nnx.eval_shape``, which has no arrays, is counted as well.
    """
    graph, learned, rest = nnx.split(model, nnx.Param, ...)
    variables = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (learned, rest))
    types = {path: type(module).__name__ for path, module in _modules(model).items()}

    def function(variables: Any, *given: Any, **by_name: Any) -> Any:
        merged = nnx.merge(graph, *variables)
        with scoped_calls(_modules(merged)):
            made = merged(*given, **by_name)
        return made, nnx.split(merged, nnx.Param, ...)[2]

    return Program(function, variables, _owner, types=types)


def _modules(model: Any) -> dict[str, Any]:
    return paths_of(lambda module: list(vars(module).items()), model, nnx.Module)


def _owner(path: Sequence[Any]) -> Owner:
    keys = [key for key in names(path[1:]) if key != "value"]
    return owner("param" if path[0].idx == 0 else "state", keys)
