"""Adapter of ``flax.nnx`` modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from flax import nnx

from costcore.ir import Role

from ..values import Owner, Program
from . import names, of_model, owner, paths_of

has_state = True
"""A function may update these objects in place, so they are always variables."""

KINDS: tuple[Any, ...] = (nnx.Param, nnx.OptState, ...)
"""The groups of variables: learned parameters, optimizer state, and all others (model state)."""


def accepts(model: object) -> bool:
    """Return whether a model is a ``flax.nnx`` module."""
    return isinstance(model, nnx.Module)


is_model = accepts


def is_argument(value: object) -> bool:
    """Return whether an argument is an object with variables: a module, an optimizer, a metric, or random keys."""
    return isinstance(value, nnx.Pytree)


def roles_in(value: object) -> dict[tuple[str, ...], Role]:
    """Return the role of every variable of an ``nnx.State`` by path; empty for other values."""
    if not isinstance(value, nnx.State):
        return {}
    # The leaves of a state may be variables or, if an optimizer made it, arrays.
    kinds = {tuple(map(str, path)): type(each) for path, each in nnx.to_flat_state(value)}
    return {(*path, "value"): _role(kind) for path, kind in kinds.items() if issubclass(kind, nnx.Variable)}


def _role(kind: type) -> Role:
    return "param" if issubclass(kind, nnx.Param) else "data" if issubclass(kind, nnx.OptState) else "state"


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return the program of a module; ``nnx.split`` gives its variables.

    ``nnx.eval_shape`` makes a model without arrays, which works as well.
    """
    return of_model(sys.modules[__name__], model)


def split(models: Mapping[str, Any], are_abstract: bool = True) -> tuple[Any, Callable[[Any], Mapping[str, Any]]]:
    """Return the variables of models, and a function that builds the models from variables."""
    graph, *groups = nnx.split(dict(models), *KINDS)
    if are_abstract:
        groups = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), groups)
    return groups, lambda variables: nnx.merge(graph, *variables)


def updated(models: Mapping[str, Any], before: Sequence[Any]) -> list[Any]:
    """Return the arrays of models that the call has replaced."""
    known = set(map(id, before))
    return [leaf for leaf in jax.tree.leaves(nnx.split(dict(models), *KINDS)[1:]) if id(leaf) not in known]


def arrays_of(made: Any) -> Any:
    """Return the arrays of a result."""
    return made


def modules_of(model: Any) -> dict[str, Any]:
    """Return the modules in an object by path."""
    return paths_of(lambda value: list(vars(value).items()), model, nnx.Pytree, nnx.Module)


def owner_of(path: Sequence[Any]) -> Owner:
    """Return the owner of a variable by its path in the variables of :func:`split`."""
    keys = [key for key in names(path[1:]) if key not in ("", "value")]
    kind = path[0].idx
    return Owner("data") if kind == 1 else owner("param" if kind == 0 else "state", keys)
