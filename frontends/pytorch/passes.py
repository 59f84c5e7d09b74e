"""The passes of a module that train it, for :class:`costcore.MFUMeter`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from costcore.errors import CostError
from costcore.messages import short_repr
from costcore.studies.meter.passes import Seen, Sizes
from costcore.trace.input_shapes import Value

from .module_walk import not_compiled
from .tensors import nested_tensors
from .training import differentiable

MAX_DEPTH = 8
"""How deep objects in the arguments of a pass are looked into."""

_TYPES_ONLY = (type(None), float, complex)
"""Values of these types do not change what a pass computes."""


class ModulePasses:
    """The passes of a module with gradients; implements :class:`costcore.studies.meter.passes.Passes`.

    Args:
        model: the module that the training loop calls; a compiled one or a wrapper too.
        is_compiled: whether code that ``torch.compile`` compiled calls it.
    """

    def __init__(self, model: Module, is_compiled: bool) -> None:
        self._model = model
        self._is_compiled = is_compiled
        self._original: Module = not_compiled(model)

    @contextmanager
    def watched(self, seen: Seen) -> Iterator[None]:
        """Call ``seen`` before every pass with gradients, through a forward pre-hook of the module."""
        is_grad_enabled, is_compiling, model = torch.is_grad_enabled, torch.compiler.is_compiling, self._model

        def hook(_: Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
            if is_grad_enabled() and not is_compiling():
                seen(_key_of_call(model.training, args, kwargs), args, kwargs)

        is_compiled = self._is_compiled or getattr(model, "_compiled_call_impl", None) is not None
        called = torch.compiler.disable(hook) if is_compiled else hook  # slower, but compiled code calls it
        handle = model.register_forward_pre_hook(called, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def key(self, value: Any) -> Hashable:
        """Return the shapes and dtypes of all tensors in a value, and its integers and strings."""
        return (self._model.training, _key(value))

    def sizes(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sizes:
        """Return how much data a pass processes.

        They are read off its main input: the argument that the model names in ``main_input_name``, as those of
        Hugging Face do, else the first tensor. The elements of integers are tokens; the first dimension has the
        samples.
        """
        name = getattr(self._original, "main_input_name", None)
        named = [found[name] for found in (kwargs, *args) if isinstance(found, Mapping) and name in found]
        tensors = nested_tensors([named, args, kwargs])
        if not tensors or not tensors[0].ndim:
            return Sizes(0, 0)
        main = tensors[0]
        is_text = main.dtype in (torch.int32, torch.int64) and main.ndim >= 2
        return Sizes(main.numel() if is_text else 0, len(main))

    def on_a_copy(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any], Callable[[Any], Any]]:
        """Return module, inputs and loss with which ``estimate`` counts a pass on these arguments."""
        inputs = [_with_values(value) for value in (*args, *kwargs.values())]
        return _Called(self._original, len(args), tuple(kwargs)), inputs, _loss_of


def passes_of(model: Any, is_compiled: bool) -> ModulePasses:
    """Return the passes of a module; see :class:`ModulePasses`.

    Raises:
        CostError: for any other model, such as an exported program, which is not trained.
    """
    if not isinstance(model, Module):
        raise CostError(f"MFUMeter needs the torch.nn.Module that is trained (got {short_repr(model)})")
    return ModulePasses(model, is_compiled)


class _Called(Module):
    """A module that is called with positional and keyword arguments, all of which it takes as positional ones."""

    def __init__(self, model: Module, n_args: int, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.n_args, self.names = model, n_args, names

    def forward(self, *values: Any) -> Any:
        """Call the module."""
        return self.model(*values[: self.n_args], **dict(zip(self.names, values[self.n_args :], strict=True)))


def _loss_of(output: Any) -> Tensor:
    """Return the output named ``loss``, as models of Hugging Face have one, else the sum of all outputs."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, Tensor) and loss.requires_grad:
        return loss.sum()
    outputs = differentiable(output)
    if not outputs:
        raise CostError("the model has no backward pass: no output depends on a parameter that requires a gradient")
    return torch.stack([x.sum() for x in outputs]).sum()


def _with_values(value: Any) -> Any:
    """Return an argument with every list of integers marked: an estimate may take it for a shape."""
    if isinstance(value, Mapping):
        return {name: _with_values(item) for name, item in value.items()}
    if not isinstance(value, (list, tuple)) or not value:
        return value
    if all(isinstance(item, int) for item in value):
        return Value(value)
    items = [_with_values(item) for item in value]
    return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)


def _key_of_call(is_training: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable:
    """Return what decides the cost of a pass: in one flat tuple for tensors, as it is made before every pass."""
    parts: list[Hashable] = [is_training]
    for name, value in (*enumerate(args), *kwargs.items()):
        if type(value) is Tensor and not value.is_nested:
            parts += name, value.shape, value.dtype, value.requires_grad
        else:
            parts += name, _key(value)
    return tuple(parts)


def _key(value: Any, depth: int = 0) -> Hashable:
    """Return what of a value decides the cost of a pass: shapes, dtypes, integers and strings."""
    if isinstance(value, Tensor):
        shape = repr(value.shape) if value.is_nested else value.shape
        return shape, value.dtype, value.requires_grad
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, _TYPES_ONLY) or depth == MAX_DEPTH:
        return type(value).__name__
    if isinstance(value, Mapping):
        return tuple([(name, _key(item, depth + 1)) for name, item in value.items()])
    if isinstance(value, (list, tuple)):
        return tuple([_key(item, depth + 1) for item in value])
    return type(value).__name__, _key(getattr(value, "__dict__", None), depth + 1)
