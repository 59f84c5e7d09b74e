"""What one pass of a module costs, without weights or arithmetic: it is run on the meta device."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from costcore.dims import is_symbolic
from costcore.errors import CostError
from costcore.ir import Tensor as Operand
from costcore.trace.recorder import Recorder

from .capture import capture, paused
from .failures import Failure
from .memo import tensors_of, without_data
from .metacopy import META, meta_copy, modules_of


def accepts(model: object) -> bool:
    """Whether ``model`` is a module of PyTorch, or a program that ``torch.export`` made of one."""
    return isinstance(model, Module) or _is_program(model)


def _is_program(model: object) -> bool:
    known = sys.modules.get("torch.export")
    return known is not None and isinstance(model, known.ExportedProgram)


def estimate(
    recorder: Recorder,
    model: Any,
    inputs: Any,
    *,
    backward: bool = False,
    dtype: torch.dtype | str | None = None,
    **options: Any,
) -> None:
    """Record one pass of ``model`` on ``inputs``.

    The model is copied to the meta device, without its weights, and the copy is run, every module in the train or eval
    mode it is in. The caller's model and the random state stay as they are.

    Args:
        recorder: what is written to.
        model: the module, or a ``torch.export.ExportedProgram``, of which a module is made.
        inputs: a shape (a tuple of ints), a shape with an element type (``((1, 128), torch.int64)``, or a
            :class:`costcore.Tensor`), a tensor or array (of which shape and type are taken), a list or tuple of these
            for several arguments, a dict for named ones, nested as the module takes them; None for no arguments, or for
            those that a program was exported with.
        backward: whether the backward pass of the sum of all floating-point outputs is recorded as well.
        dtype: element type of the inputs given as shapes alone, ``torch.int64`` or ``"int64"``; None: that of the first
            floating-point parameter.
        options: none but these are known.

    Raises:
        TypeError: for an unknown option, or an input that is none of the above.
        CostError: where the model has lazy modules, or fails; names the module and the reason.
    """
    if options:
        unknown = ", ".join(map(repr, options))
        raise TypeError(f"estimate of a PyTorch module does not know {unknown}; it knows 'backward' and 'dtype'")
    examples = None
    if _is_program(model):
        examples = model.example_inputs
        model = model.module()
    twin = meta_copy(model)
    recorder.n_params_model = _parameter_count(model)
    if isinstance(dtype, str):
        dtype = _torch_type(dtype, "dtype")
    if inputs is None and examples is not None:
        args, kwargs = without_data(examples)
        shapes = ", ".join(str(tuple(x.shape)) for x in tensors_of(args, kwargs))
        recorder.notes.append(f"no inputs were given: the program was run on those it was exported with, {shapes}")
    else:
        args, kwargs = _arguments(inputs, dtype or _parameter_type(twin))
    given = [*args, *kwargs.values()]
    with _random_state_kept(), _hooks_kept(model), capture(recorder, takes_data_away=True) as session:
        with torch.set_grad_enabled(backward), Failure(model, session, "forward", given):
            result = twin(*args, **kwargs)
        if backward:
            with paused(session):
                outputs = [x for x in _tensors(result) if x.requires_grad and (x.is_floating_point() or x.is_complex())]
                gradients = [torch.ones_like(x) for x in outputs]
            if not outputs:
                raise CostError(
                    f"{type(model).__name__} has no backward pass: no floating-point output depends on a tensor that "
                    "requires a gradient"
                )
            with Failure(model, session, "backward", given):
                torch.autograd.backward(outputs, gradients)


@contextmanager
def _random_state_kept() -> Iterator[None]:
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


@contextmanager
def _hooks_kept(model: Module) -> Iterator[None]:
    """A hook of the user's runs in the copy, but what it removes by its handle is the hook of the model."""
    kept = [
        (hooks, dict(hooks))
        for module in modules_of(model)
        for name, hooks in vars(module).items()
        if name.endswith("_hooks") and isinstance(hooks, dict) and hooks
    ]
    try:
        yield
    finally:
        for hooks, before in kept:
            if hooks != before:
                hooks.clear()
                hooks.update(before)


def _parameter_count(model: Module) -> int:
    counted: dict[int, int] = {}
    for module in modules_of(model):
        for parameter in module._parameters.values():
            if parameter is not None:
                counted[id(parameter)] = parameter.numel()
    return sum(counted.values())


def _parameter_type(model: Module) -> torch.dtype:
    for module in modules_of(model):
        for parameter in module._parameters.values():
            if parameter is not None and parameter.is_floating_point():
                return parameter.dtype
    return torch.get_default_dtype()


def _arguments(inputs: Any, dtype: torch.dtype) -> tuple[Sequence[Any], Mapping[str, Any]]:
    made: dict[int, Tensor] = {}
    if inputs is None:
        return (), {}
    if isinstance(inputs, Mapping):
        return (), {name: _value(value, dtype, name, made) for name, value in inputs.items()}
    if _is_shape(inputs) or _is_typed_shape(inputs) or not isinstance(inputs, (list, tuple)):
        if isinstance(inputs, (bool, int, float, str)):
            raise TypeError(f"inputs: expected {EXPECTED}, got {inputs!r}")
        return (_value(inputs, dtype, "inputs", made),), {}
    if any(type(item) is int for item in inputs) and all(map(_is_plain, inputs)):  # no module takes these alone
        _sizes(inputs, "inputs")
    return [_value(value, dtype, f"inputs[{i}]", made) for i, value in enumerate(inputs)], {}


def _torch_type(name: str, where: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{where}: PyTorch has no element type {name!r}")
    return dtype


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(size, int) and not isinstance(size, bool) for size in value)
    )


def _is_typed_shape(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], torch.dtype):
        return False
    return isinstance(value[0], (list, tuple)) and len(value[0]) > 0


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str)) or value is None or is_symbolic(value)


def _sizes(shape: Sequence[Any], name: str) -> tuple[int, ...]:
    """A shape whose sizes are ints, of whatever type of integer they were."""
    for size in shape:
        if isinstance(size, bool) or is_symbolic(size) or not hasattr(size, "__index__"):
            raise TypeError(
                f"{name}: {size!r} in the shape {tuple(shape)} is no size of an input of a PyTorch module; a size is a "
                "whole number (symbols are for ONNX models)"
            )
        if size < 0:
            raise ValueError(f"{name}: the shape {tuple(shape)} has a negative size")
    return tuple(map(index, shape))


EXPECTED = "a shape (a tuple of ints), a costcore.Tensor, a tensor or array, or a tuple, list or dict of these"


def _value(value: Any, dtype: torch.dtype, name: str, made: dict[int, Tensor]) -> Any:
    """An argument of the model: tensors on the meta device in the place of shapes, tensors and arrays.

    A tensor that is given twice stays one: some models look.
    """
    if isinstance(value, Tensor):
        if id(value) not in made:
            made[id(value)] = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
        return made[id(value)]
    if isinstance(value, Operand):
        return _empty(value.shape, _torch_type(value.dtype, name), name)
    if _is_typed_shape(value):
        shape, dtype = value
        return _empty(shape, dtype, name)
    if _is_shape(value):
        return _empty(value, dtype, name)
    if isinstance(value, Mapping):
        return {key: _value(item, dtype, f"{name}[{key!r}]", made) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_value(item, dtype, f"{name}[{i}]", made) for i, item in enumerate(value)]
        return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return torch.as_tensor(value).to(META)
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    raise TypeError(f"{name}: expected {EXPECTED}, got {value!r} ({type(value).__name__})")


def _empty(shape: Sequence[int], dtype: torch.dtype, name: str) -> Tensor:
    sizes = _sizes(shape, name)
    try:
        return torch.empty(sizes, dtype=dtype, device=META)
    except RuntimeError as error:
        raise CostError(f"{name}: PyTorch cannot make a tensor of shape {sizes}: {error}") from error


def _tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in what a model returned: nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from _tensors(getattr(value, name))
