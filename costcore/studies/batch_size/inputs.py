"""The inputs of a model for any batch, made of inputs whose batch dimension has a name, or comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from costcore.analyses.sizes.inputs import NamedInputs
from costcore.errors import CostError
from costcore.ir import Tensor
from costcore.messages import short_repr
from costcore.trace.input_shapes import has_names, with_tensors

InputsOfBatch: TypeAlias = "Callable[[int], Any]"

MAX_VALUES = 2**20
"""Tensors with more elements have no known values in an estimate, so that their shape and dtype are enough."""


def inputs_of_batch(inputs: Any) -> InputsOfBatch:
    """Return a function from a batch to the inputs with that many samples.

    Args:
        inputs: inputs as :func:`costcore.estimate` takes them. A dimension with a name, as in ``("batch", 3, 224,
            224)``, or with a multiple of it (``"2*batch"``) is the batch, and the others stay as they are. If there is
            no name, the first dimension of every shape and tensor is the batch. A function of the batch returns inputs
            in any other form.

    Raises:
        TypeError, ValueError: if nothing in the inputs has a batch dimension, or several names are given.
    """
    if callable(inputs) and not hasattr(inputs, "shape"):
        return inputs  # type: ignore[no-any-return]
    inputs = with_tensors(inputs)
    if has_names(inputs):
        named = NamedInputs(inputs)
        if len(named.symbols) > 1:
            raise ValueError(
                f"the inputs name several dimensions, {', '.join(map(repr, sorted(named.symbols)))}: only the batch "
                "has a name, give numbers for the others"
            )
        return lambda batch: named.at({named.symbols[0]: batch})
    if not any(_has_batch(leaf) for leaf in _leaves(inputs)):
        raise ValueError(
            'expected the shapes of inputs with a batch dimension, as in ("batch", 3, 224, 224), or a function that '
            f"returns the inputs of a batch (got {short_repr(inputs)})"
        )
    return lambda batch: _with_batch(inputs, batch)


def batch_of(inputs: Any) -> int:
    """Return the first dimension that all shapes and tensors in the inputs have in common; 0 if they have none."""
    if callable(inputs) and not hasattr(inputs, "shape"):
        return 0
    sizes = {_shape_of(leaf)[0] for leaf in _leaves(with_tensors(inputs)) if _has_batch(leaf)}
    return int(sizes.pop()) if len(sizes) == 1 else 0


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the shapes, shapes with a dtype, tensors and scalars in the inputs."""
    if _is_shape(value) or _is_shape_with_dtype(value):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _shape_of(leaf: Any) -> tuple[Any, ...]:
    """Return the shape of a leaf; empty if it has none."""
    if _is_shape(leaf):
        return tuple(leaf)
    if _is_shape_with_dtype(leaf):
        return tuple(leaf[0])
    return tuple(getattr(leaf, "shape", ()))


def _has_batch(leaf: Any) -> bool:
    return len(_shape_of(leaf)) > 0


def _with_batch(value: Any, batch: int) -> Any:
    """Return inputs with ``batch`` in place of the first dimensions."""
    if _is_shape(value):
        return (batch, *value[1:])
    if _is_shape_with_dtype(value):
        return (batch, *value[0][1:]), value[1]
    if isinstance(value, Tensor):
        return Tensor((batch, *value.shape[1:]), value.dtype)
    if isinstance(value, Mapping):
        return {key: _with_batch(item, batch) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_with_batch(item, batch) for item in value]
        return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)
    return _repeated(value, batch) if _has_batch(value) else value


def _repeated(tensor: Any, batch: int) -> Any:
    """Return a tensor or array whose samples are repeated, or cut off, so that there are ``batch`` of them."""
    n, *rest = tensor.shape
    if not n:
        raise CostError(f"the samples of an input of shape {tuple(tensor.shape)} cannot be repeated: there are none")
    elements = batch
    for size in rest:
        elements *= size
    if elements > MAX_VALUES:
        return Tensor((batch, *rest), str(tensor.dtype).rpartition(".")[2])
    return tensor[[i % n for i in range(batch)]]


def _is_shape(value: Any) -> bool:
    return type(value) in (list, tuple) and len(value) > 0 and all(map(_is_size, value))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_shape_with_dtype(value: Any) -> bool:
    """Return whether a value is a pair of a shape and a dtype of a framework, ``((2, 128), torch.int64)``."""
    return type(value) is tuple and len(value) == 2 and _is_shape(value[0]) and type(value[1]).__name__ == "dtype"
