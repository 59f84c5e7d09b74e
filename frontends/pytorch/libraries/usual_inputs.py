"""The input that a library documents for a model."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.nn import Module

from . import hugging_face, timm_models, torchvision_models


class UsualInputs(NamedTuple):
    """The usual input of a model.

    Attributes:
        inputs: shapes for :func:`costcore.estimate`, with a batch of 1 unless the library has another one.
        source: where they are from, ``pretrained_cfg of timm``.
    """

    inputs: Any
    source: str


def usual_inputs(model: object, name: str = "") -> UsualInputs | None:
    """Return the usual input of a model of torchvision, timm or transformers; None for any other model.

    Args:
        model: the model.
        name: the name by which its library built it, if that is known.
    """
    if not isinstance(model, Module):
        return None
    for find, source in (
        (timm_models.usual_inputs, timm_models.SOURCE),
        (torchvision_models.usual_inputs, torchvision_models.SOURCE),
        (hugging_face.usual_inputs, hugging_face.SOURCE),
    ):
        inputs = find(model, name)
        if inputs is not None:
            return UsualInputs(inputs, source)
    return None
