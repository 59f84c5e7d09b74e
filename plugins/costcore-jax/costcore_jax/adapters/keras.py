"""Adapter of models and layers of Keras 3 on the JAX backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import keras

from costcore.ir import Role

from ..values import Owner, Program
from . import owner, scoped_calls


def accepts(model: object) -> bool:
    """Return whether a model is a Keras layer or model, and the backend is JAX."""
    return bool(keras.backend.backend() == "jax" and isinstance(model, keras.layers.Layer))


def adapt(model: Any, args: list[Any], kwargs: dict[str, Any], params: tuple[int, ...]) -> Program:
    """Return the program of ``stateless_call``.

    Raises:
        ValueError: if the model is not built, so it has no variables.
    """
    if not model.built:
        raise ValueError("the model has no variables yet. Build it first, model.build(shape)")
    groups = (model.trainable_variables, model.non_trainable_variables)
    variables = jax.tree.map(lambda variable: jax.ShapeDtypeStruct(variable.shape, variable.dtype), groups)
    layers = _layers(model)
    weights = [variable for layer in layers.values() for variable in layer._trainable_variables]
    owners = [[_owner_of(variable, layers, weights) for variable in group] for group in groups]
    types = {path: type(layer).__name__ for path, layer in layers.items()}

    def function(variables: Any, *given: Any, **by_name: Any) -> Any:
        args, kwargs = _inputs_as_dict(model, given, by_name)
        with scoped_calls(layers):
            return model.stateless_call(*variables, *args, **kwargs)

    def owner_of(path: Sequence[Any]) -> Owner:
        found: Owner = owners[path[0].idx][path[1].idx]
        return found

    return Program(function, variables, owner_of, types=types)


def _layers(model: Any) -> dict[str, Any]:
    """Return the layers of a model by path, which joins the names of layers."""
    found: dict[str, Any] = {"": model}

    def visit(path: str, layer: Any) -> None:
        for child in layer._layers:
            inner = f"{path}.{child.name}" if path else child.name
            if all(child is not other for other in found.values()):
                found[inner] = child
                visit(inner, child)

    visit("", model)
    return found


def _owner_of(variable: Any, layers: dict[str, Any], weights: Sequence[Any]) -> Owner:
    # A frozen layer still has its weights in _trainable_variables.
    role: Role = "param" if any(variable is weight for weight in weights) else "state"
    owners = [path for path, layer in layers.items() if any(variable is own for own in layer.variables)]
    path = max(owners, key=len, default="")
    found = owner(role, [*path.split("."), variable.name] if path else [variable.name])
    return found._replace(is_frozen=role == "param" and not variable.trainable)


def _inputs_as_dict(model: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    # Keras takes several inputs as one dict.
    declared = getattr(model, "inputs", None) if isinstance(model, keras.Model) else None
    names = [x.name for x in declared] if isinstance(declared, list) else []
    if len(names) > 1 and len(args) == len(names):
        return (dict(zip(names, args, strict=True)),), kwargs
    if len(names) > 1 and not args and kwargs.keys() >= {*names}:
        rest = {name: value for name, value in kwargs.items() if name not in names}
        return ({name: kwargs[name] for name in names},), rest
    return args, kwargs
