"""A check that counting changes neither PyTorch nor the models."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as hooks

from tests.frontends.pytorch.runs import state_of_torch

FUNCTIONS = (
    (nn.Module, ("__call__", "_call_impl", "__setattr__", "__getattr__", "apply", "forward")),
    (functional, ("linear", "conv2d", "scaled_dot_product_attention", "softmax", "multi_head_attention_forward")),
    (torch, ("compile", "matmul", "cond", "add", "empty")),
    (torch.Tensor, ("__matmul__", "backward", "__torch_function__", "item", "to")),
    (torch.autograd, ("backward", "grad")),
)


def state(*models: nn.Module) -> dict[str, Any]:
    """Return the state of PyTorch and of models, in values that can be compared."""
    found: dict[str, Any] = {
        "torch": state_of_torch(),
        "functions": [[getattr(owner, name) for name in names] for owner, names in FUNCTIONS],
        "hooks": {name: _value(value) for name, value in vars(hooks).items() if name.startswith("_global_")},
        "random": (torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist()),
        "modes": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_anomaly_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.are_deterministic_algorithms_enabled(),
            torch.overrides._len_torch_function_stack(),
            torch._C._functorch.maybe_current_level(),
            torch._C._autograd._saved_tensors_hooks_is_enabled(),
        ),
    }
    for i, model in enumerate(models):
        for name, module in model.named_modules():
            found[f"{i} {name}"] = _attributes(module)
        found[f"{i} state"] = {name: _value(value)[1:] for name, value in model.state_dict().items()}
    return found


@contextmanager
def unchanged(*models: nn.Module) -> Iterator[None]:
    """Assert that the code inside changes nothing, also if it raises."""
    before = state(*models)
    try:
        yield
    finally:
        after = state(*models)
        assert {key: value for key, value in after.items() if before.get(key) != value} == {}
        assert before.keys() == after.keys()


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {name: _value(value) for name, value in vars(module).items()}


def _value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        here = getattr(value, "_local_tensor", value)
        data = None if here.is_meta or type(here).__name__.startswith("Uninit") else here.detach().reshape(-1).tolist()
        has_gradient = value.is_leaf and value.grad is not None
        return id(value), type(value), value.requires_grad, value._version, str(data), has_gradient
    if isinstance(value, dict):
        return {key: _value(item) for key, item in value.items()}
    return value
