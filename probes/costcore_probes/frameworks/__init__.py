"""What networks are built of, one module for each framework. Nothing here is imported before a probe is built."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..probe import Probe

__all__ = ["MODULES", "build"]

MODULES = {"torch": "pytorch", "onnx": "onnx_files", "jax": "jax_functions", "tensorflow": "tensorflow_functions"}


def build(probe: Probe, format: str) -> Any:
    """Build the network of a probe: a module and its inputs, a model file, or a function and its inputs.

    Raises:
        ValueError: the probe has no such format.
    """
    builder = getattr(probe, format) if format in MODULES else None
    if builder is None:
        raise ValueError(f"{probe.id} cannot be built as {format!r}; expected one of {', '.join(probe.formats)}")
    return builder(import_module(f".{MODULES[format]}", __name__))
