"""Models of torchvision by name, and the input for which their weights were trained."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from torch.nn import Module

from costcore.errors import CostError
from costcore.messages import did_you_mean

SOURCE = "the transforms of torchvision's weights"

_CLIP_LENGTH = 16
"""The number of frames on which torchvision's video networks are evaluated."""

_DETECTION_SIZE = (800, 800)
"""The size to which torchvision's detectors resize a square image."""


def make(name: str) -> tuple[Module, str]:
    """Return the model of that name without weights, and a remark on it.

    Raises:
        ImportError: if torchvision is not installed.
        CostError: for an unknown name; the message suggests near matches.
    """
    from torchvision import models

    if name not in models.list_models():
        raise CostError(f"torchvision has no model {name!r}{did_you_mean([name], models.list_models())}")
    builder = models.get_model_builder(name)
    options = {key: None for key in ("weights", "weights_backbone") if key in inspect.signature(builder).parameters}
    return builder(**options), ""


def usual_inputs(model: Module, name: str) -> Any:
    """Return the shape of the input for the weights of a model; None for a model of another library.

    Without a name, it is the shape on which all weights in the module of its class agree.
    """
    module = sys.modules.get(type(model).__module__)
    if module is None or not module.__name__.startswith("torchvision.models."):
        return None
    if module.__name__.startswith("torchvision.models.detection."):
        return [[(3, *_DETECTION_SIZE)]]
    shapes = {_shape(weights) for weights in _weights(module, name)}
    shape = shapes.pop() if len(shapes) == 1 else None
    return (shape, shape) if shape is not None and ".optical_flow." in module.__name__ else shape


def _weights(module: ModuleType, name: str) -> Iterable[Any]:
    """Return the weights of a builder, else all weights that a module defines."""
    from torchvision.models import WeightsEnum, get_model_weights, list_models

    if name in list_models():
        default: Any = getattr(get_model_weights(name), "DEFAULT", None)
        return () if default is None else (default,)
    kinds: list[Any] = [x for x in vars(module).values() if inspect.isclass(x) and issubclass(x, WeightsEnum)]
    return [weights for kind in kinds for weights in kind]


def _shape(weights: Any) -> tuple[int, ...] | None:
    """Return the shape of a transformed batch of one; None if the transforms keep the size of images."""
    transforms = weights.transforms()
    size = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    if not size:
        return (1, 3, 520, 960) if type(transforms).__name__ == "OpticalFlow" else None
    height, width = (*size, *size)[:2]
    if type(transforms).__name__ == "VideoClassification":
        return (1, 3, _CLIP_LENGTH, height, width)
    return (1, 3, height, width)
