"""Adapter of transformed Haiku functions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import haiku
import jax

from ..values import Owner, Program
from . import names, owner
from .linen import args_of

TRAINING = ("is_training", "train", "training")
"""Names of arguments that select training mode."""


def accepts(model: object) -> bool:
    """Return whether a model is a result of ``hk.transform`` or ``hk.transform_with_state``."""
    return isinstance(model, (haiku.Transformed, haiku.TransformedWithState))


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return the program of ``apply``; ``init`` gives its variables."""
    key = jax.ShapeDtypeStruct((2,), "uint32")
    has_state = isinstance(model, haiku.TransformedWithState)
    takes_key = "rng" in list(inspect.signature(model.apply).parameters)[1 : 2 + has_state]

    def initialize(key: Any) -> Any:
        made = model.init(key, *args_of(args), **_in_training(args_of(kwargs)))
        return made if has_state else (made, {})

    variables = jax.eval_shape(initialize, key)

    def function(variables: Any, *given: Any, **by_name: Any) -> Any:
        learned, state, key = variables
        states, keys = (state,) if has_state else (), (key,) if takes_key else ()
        made = model.apply(learned, *states, *keys, *given, **by_name)
        return made if has_state else (made, ())

    return Program(function, (*variables, key), _owner)


def _in_training(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for ``init``, in training mode: in inference it creates no moving averages."""
    return {name: True if name in TRAINING and value is False else value for name, value in kwargs.items()}


def _owner(path: Sequence[Any]) -> Owner:
    if path[0].idx == 2:
        return Owner("data")  # the random key
    return owner("param" if path[0].idx == 0 else "state", [key.replace("/~/", "/") for key in names(path[1:])])
