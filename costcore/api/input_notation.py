"""Inputs in the notation of ``--input``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.ir import Tensor


def input_arguments(inputs: Any) -> str:
    """Return the arguments that give these inputs on the command line, ``--input 1x3x224x224``.

    Inputs that have no such notation, a list of images, are written as in Python.
    """
    if isinstance(inputs, Mapping):
        named = [f"{name}={text}" if (text := _text(value)) else "" for name, value in inputs.items()]
    else:
        named = [_text(value) for value in (inputs if _are_several(inputs) else [inputs])]
    return " ".join(f"--input {text}" for text in named) if all(named) else repr(inputs)


def _are_several(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and not all(isinstance(size, int) for size in inputs)


def _text(value: Any) -> str:
    """Return the text of one input; empty if it has none."""
    shape, suffix = (value.shape, f":{value.dtype}") if isinstance(value, Tensor) else (value, "")
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        return ""
    return ("x".join(map(str, shape)) or "scalar") + suffix
