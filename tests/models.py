"""Models as the command line finds them."""

from __future__ import annotations

from typing import Any

from costcore.api.estimate import in_mode as in_mode
from costcore.api.estimate import load_model
from costcore.registry import default_inputs


def load(target: str) -> Any:
    """Return the model of a target, such as ``nets.py:Net`` or ``hf:bert``."""
    return load_model(target)


def usual_inputs(model: Any, target: str = "") -> Any:
    """Return the inputs that a command uses if none are given."""
    found = default_inputs(model, target)
    return None if found is None else found.inputs
