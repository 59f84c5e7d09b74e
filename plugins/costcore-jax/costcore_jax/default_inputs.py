"""The inputs that a model of Keras was built with."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from costcore.ir import Tensor


class DefaultInputs(NamedTuple):
    """The usual inputs of a model, as :class:`costcore.frontend.DefaultInputs` describes them.

    Attributes:
        inputs: its inputs, with a batch of 1 where it has none.
        source: where they are from.
    """

    inputs: Any
    source: str


def default_inputs(model: object, name: str = "") -> DefaultInputs | None:
    """Return the inputs of a model of Keras that states all sizes but the batch; None for any other model."""
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(model, keras.Model) or not model.built:
        return None
    declared = getattr(model, "inputs", None)  # a subclass of Model has none
    if not isinstance(declared, list) or not declared:
        return None
    shapes = [(1 if x.shape[0] is None else x.shape[0], *x.shape[1:]) for x in declared]
    if any(size is None for shape in shapes for size in shape):
        return None
    tensors = [Tensor(shape, x.dtype) for shape, x in zip(shapes, declared, strict=True)]
    return DefaultInputs(tensors[0] if len(tensors) == 1 else tensors, "the inputs of the Keras model")
