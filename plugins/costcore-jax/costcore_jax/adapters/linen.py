"""Adapter of ``flax.linen`` modules."""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

import jax
from flax import linen

from ..values import Owner, Program
from . import names, owner


def accepts(model: object) -> bool:
    """Return True for a ``flax.linen`` module, or a method that its class adds."""
    if isinstance(model, MethodType):
        return isinstance(model.__self__, linen.Module) and not hasattr(linen.Module, model.__name__)
    return isinstance(model, linen.Module)


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return the program of ``apply``; ``init`` gives its variables.

    All collections except ``params`` are mutable, and all random streams share one key.
    """
    method = None
    if isinstance(model, MethodType):
        model, method = model.__self__, model.__func__
    types: dict[str, str] = {}

    def noted(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        types.setdefault(".".join(context.module.path), type(context.module).__name__)
        return call(*args, **kwargs)

    def initialize(key: Any) -> Any:
        return model.init(key, *args_of(args), method=method, **args_of(kwargs))

    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    variables = jax.eval_shape(initialize, key)
    updated = [collection for collection in variables if collection != "params"]

    def function(variables: Any, *given: Any, **by_name: Any) -> Any:
        collections, key = variables
        with linen.intercept_methods(noted):
            made = model.apply(collections, *given, rngs=key, mutable=updated or False, method=method, **by_name)
        return made if updated else (made, ())

    root = model.name or type(model).__name__
    return Program(function, (variables, key), _owner, root if method is None else f"{root}.{method.__name__}", types)


def args_of(arguments: Any) -> Any:
    """Replace abstract values by zeros; ``jax.eval_shape`` traces them, so nothing is computed."""
    return jax.tree.map(lambda x: jax.numpy.zeros(x.shape, x.dtype) if hasattr(x, "dtype") else x, arguments)


def _owner(path: Sequence[Any]) -> Owner:
    if path[0].idx == 1:
        return Owner("data")  # the random key
    collection, *keys = names(path[1:])
    return owner("param" if collection == "params" else "state", keys)
