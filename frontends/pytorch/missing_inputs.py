"""What a module takes, and inputs on which it runs, for the error of an estimate without inputs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from torch import nn
from torch.nn import Module

from costcore.errors import MissingInputsError
from costcore.ir import Tensor

from .module_walk import modules_of

MAX_ATTEMPTS = 8
"""The maximum number of inputs on which a module is tried."""

_INTEGERS = re.compile(r"(^|_)(ids?|idx|index|indices|tokens?|labels?|positions?)$")
"""Matches the names of arguments that are integers."""

_IMAGE, _WORDS = (1, 3, 224, 224), Tensor((1, 128), "int64")


def needs_arguments(model: Module) -> bool:
    """Return whether ``forward`` cannot be called without arguments, and no hook adds them."""
    if model._forward_pre_hooks:
        return False
    try:
        inspect.signature(model.forward).bind()
    except TypeError:
        return True
    except ValueError:  # a function without a signature
        pass
    return False


def missing_inputs(model: Module, runs: Callable[[Any], bool]) -> MissingInputsError:
    """Return the error for a module without inputs, with an example.

    Args:
        model: the module.
        runs: returns whether the module runs on inputs.
    """
    from .libraries.usual_inputs import usual_inputs

    usual = usual_inputs(model)
    candidates = (usual.inputs,) if usual is not None else islice(_candidates(model), MAX_ATTEMPTS)
    example = next((inputs for inputs in candidates if runs(inputs)), None)
    return MissingInputsError(f"{takes(model)}.", example)


def takes(model: Module) -> str:
    """Return which arguments ``forward`` takes."""
    parameters = inspect.signature(model.forward).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [p.name + (" (optional)" if p.default is not p.empty else "") for p in parameters if p.kind not in kinds]
    return f"{type(model).__name__}.forward takes {', '.join(names)}"


def _candidates(model: Module) -> Iterator[Any]:
    """Yield inputs on which the module may run, the likeliest first."""
    parameters = inspect.signature(model.forward).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    for first in dict.fromkeys(_first_inputs(model)):
        if len(required) == 1:
            yield first
            continue
        integers = _WORDS if not isinstance(first, Tensor) else first
        yield {name: integers if _INTEGERS.search(name) else first for name in required}


def _first_inputs(model: Module) -> Iterator[Any]:
    """Yield what the first modules with parameters take, then an image, words and features."""
    leaves = (module for module in modules_of(model) if not module._modules and module._parameters)
    for module in islice(leaves, 3):
        yield from _inputs_of(module)
    yield from (_IMAGE, _WORDS, (1, 16))


def _inputs_of(module: Module) -> Iterator[Any]:
    convolutions = {nn.Conv1d: (1000,), nn.Conv2d: (224, 224), nn.Conv3d: (16, 112, 112)}
    for kind, sizes in convolutions.items():
        if isinstance(module, kind):
            yield (1, module.in_channels, *sizes)
            yield (1, module.in_channels, *[32] * len(sizes))
    if isinstance(module, nn.Embedding):
        yield _WORDS
        yield Tensor((1, 16), "int64")
    elif isinstance(module, nn.RNNBase):
        yield (1, 16, module.input_size) if module.batch_first else (16, 1, module.input_size)
    elif isinstance(module, nn.Linear):
        yield (1, module.in_features)
        yield (1, 16, module.in_features)
