"""Models by target, ``"torchvision:resnet50"`` or ``"net.py:Net"``, wherever a function takes a model."""

from __future__ import annotations

import warnings
from typing import Any

from costcore.errors import CostWarning
from costcore.registry.libraries import names_code, usual_inputs


def model_of(model: Any, *, is_step: bool = False) -> Any:
    """Return the model that a target names; any other model as it is.

    A model of a library comes in evaluation mode, for a training step in train mode.

    Raises:
        CostError: if the code of the target cannot be found or fails, or its result is not a model.
    """
    if not names_code(model):
        return model
    from costcore.api.load_model import load_model
    from costcore.api.modes import in_mode

    made = load_model(model)
    in_mode(made, model, None, is_step)
    return made


def model_and_inputs(model: Any, inputs: Any, *, is_step: bool = False) -> tuple[Any, Any]:
    """Return the model that a target names, and its usual inputs if there are none, which a ``CostWarning`` states.

    Raises:
        CostError: as :func:`model_of`.
    """
    made = model_of(model, is_step=is_step)
    usual = usual_inputs(made, model) if inputs is None and names_code(model) else None
    if usual is None:
        return made, inputs
    message = f"{model}: the usual input is used, {usual.inputs} ({usual.source})"
    warnings.warn(message, CostWarning, stacklevel=3)
    return made, usual.inputs
