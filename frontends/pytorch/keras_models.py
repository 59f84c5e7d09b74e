"""Models and layers of Keras 3 on the PyTorch backend, as modules that are copied and named like any other.

Keras keeps its layers and variables in lists of its own, where ``torch.nn.Module`` does not look, and copies a model by
saving it. A twin of the model has a module for every layer, with the name of the layer and its variables on the meta
device. It runs the layers of Keras, which read these tensors in place of their variables: no weight is touched.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any

import torch
from torch.nn import Module, Parameter

from costcore.errors import CostError

from .capture.dispatch_mode import THREAD
from .tensors import META, join

MOST_ELEMENTS = 2**59
"""The maximum elements of a tensor, whose bytes PyTorch keeps in 63 bits."""


def is_layer(model: object) -> bool:
    """Return whether a model is a layer or a model of Keras."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(model, keras.layers.Layer)


class _Layer:
    """What a twin has of its layer; copies of the twin share it.

    Attributes:
        layer: the layer of Keras.
        variables: its own variables by the names of their tensors.
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self.variables: dict[str, Any] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Layer:
        return self


class Twin(Module):
    """A layer of Keras as a module of PyTorch, with its variables as parameters and buffers, and all layers below it.

    Args:
        layer: the layer.
        twins: the twins of layers that exist, by the id of the layer; receives that of this one.
    """

    def __init__(self, layer: Any, twins: dict[int, Module]) -> None:
        super().__init__()
        twins[id(layer)] = self
        self.of_keras = _Layer(layer)
        for variable in layer._trainable_variables:
            self._parameters[self._named(variable)] = Parameter(_on_meta(variable), bool(variable.trainable))
        for variable in layer._non_trainable_variables:
            self._buffers[self._named(variable)] = _on_meta(variable)
        for child in layer._layers:
            name = _free_name(child.name, self._modules)
            self._modules[name] = twins.get(id(child)) or _twin(child, twins)

    def _named(self, variable: Any) -> str:
        name = _free_name(variable.name, self.of_keras.variables)
        self.of_keras.variables[name] = variable
        return name

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call the layer of Keras, in which the tensors of this module and those below it are the variables."""
        import keras

        layer = self.of_keras.layer
        args, by_name = _as_keras_takes(layer, args, kwargs)
        with _meta_device(), keras.StatelessScope(initialize_variables=False) as scope:
            for path, twin in self.named_modules():
                for name, variable in twin.of_keras.variables.items():
                    tensor = twin._parameters[name] if name in twin._parameters else twin._buffers[name]
                    scope.add_update((variable, tensor))
                if THREAD.mode is not None:
                    modules = THREAD.mode.recording.modules
                    modules.place(twin.of_keras.layer, join(modules.path, path))
            return layer(*args, **by_name)


def twin_of(model: Any) -> Module:
    """Return a module for a model or layer of Keras, which is not changed.

    Raises:
        CostError: if it is not built: Keras makes the variables then.
    """
    if not model.built:
        raise CostError("the model has no variables yet. Build it first, model.build(shape)")
    return _twin(model, {})


def _twin(layer: Any, twins: dict[int, Module]) -> Twin:
    kind: Any = type(layer)
    return _class_of(kind)(layer, twins)


@cache
def _class_of(kind: Any) -> type[Twin]:
    # Reports and calculators name a module by its class; its arguments are those of the layer.
    def forward(self: Twin, *args: Any, **kwargs: Any) -> Any:
        return self.run(args, kwargs)

    forward.__signature__ = inspect.signature(kind.call)  # type: ignore[attr-defined]
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "forward": forward}
    return type(kind.__name__, (Twin,), names)


def _on_meta(variable: Any) -> torch.Tensor:
    from keras.src.backend.torch.core import to_torch_dtype

    if prod(variable.shape) > MOST_ELEMENTS:
        raise CostError(f"{variable.path} has the shape {variable.shape}, of more elements than PyTorch can number")
    return torch.empty(tuple(variable.shape), dtype=to_torch_dtype(variable.dtype), device=META)


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    name = name.replace(".", "_")
    return name if name not in taken else f"{name}_{len(taken)}"


@contextmanager
def _meta_device() -> Iterator[None]:
    # ``keras.device("meta")`` keeps a text, which equals no device: Keras would then copy every tensor to it.
    from keras.src.backend.common import global_state

    before = global_state.get_global_attribute("torch_device")
    global_state.set_global_attribute("torch_device", META)
    try:
        yield
    finally:
        global_state.set_global_attribute("torch_device", before)


def _as_keras_takes(layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    # Several inputs of a model are one argument, a dict.
    names = [x.name for x in declared_inputs(layer)]
    if len(names) > 1 and len(args) == len(names):
        return (dict(zip(names, args, strict=True)),), dict(kwargs)
    if len(names) > 1 and not args and kwargs.keys() >= {*names}:
        rest = {name: value for name, value in kwargs.items() if name not in names}
        return ({name: kwargs[name] for name in names},), rest
    return args, dict(kwargs)


def declared_inputs(model: Any) -> list[Any]:
    """Return the inputs that a model of Keras was made with, as symbolic tensors; a subclass has none."""
    keras = sys.modules["keras"]
    declared = getattr(model, "inputs", None) if isinstance(model, keras.Model) and model.built else None
    return declared if isinstance(declared, list) else []


def keras_inputs(model: object, name: str = "") -> Any:
    """Return the inputs of a model that states all sizes but the batch, with a batch of 1; None for any other model."""
    layer = model.of_keras.layer if isinstance(model, Twin) else model
    declared = declared_inputs(layer) if is_layer(layer) else []
    shapes = [(1 if x.shape[0] is None else x.shape[0], *x.shape[1:]) for x in declared]
    if not declared or any(size is None for shape in shapes for size in shape):
        return None
    tensors = [shape if x.dtype == "float32" else (shape, x.dtype) for shape, x in zip(shapes, declared, strict=True)]
    return tensors[0] if len(tensors) == 1 else tensors
