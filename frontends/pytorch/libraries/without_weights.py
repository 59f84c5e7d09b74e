"""Models built without memory for their weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn import Module, Parameter
from torch.nn.modules.module import register_module_parameter_registration_hook

from ..meta.operands import META


@contextmanager
def without_weights() -> Iterator[None]:
    """Move every parameter to the meta device as soon as a module gets it. Buffers keep their values.

    What initializes parameters afterwards computes nothing, so that models of any size are built in a second.
    """
    handle = register_module_parameter_registration_hook(_on_meta)
    try:
        yield
    finally:
        handle.remove()


def _on_meta(module: Module, name: str, parameter: Any) -> Parameter | None:
    if type(parameter) is not Parameter or parameter.is_meta:
        return None
    return Parameter(parameter.detach().to(META), parameter.requires_grad)
