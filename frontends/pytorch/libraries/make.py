"""Makes the model that a name in a library stands for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

from torch.nn import Module

from costcore.errors import CostError
from costcore.messages import import_problem

from . import hugging_face, timm_models, torchvision_models
from .without_weights import without_weights

LIBRARIES: Mapping[str, tuple[str, Callable[[str], tuple[Module, str]]]] = {
    "hf": ("transformers", hugging_face.make),
    "timm": ("timm", timm_models.make),
    "torchvision": ("torchvision", torchvision_models.make),
}
"""The package and the function that makes a model, by the prefix of targets."""


def library_model(prefix: str, name: str) -> tuple[Module, str]:
    """Return a model in evaluation mode without memory for its weights, and a remark on it or ``""``.

    Args:
        prefix: ``hf``, ``timm`` or ``torchvision``.
        name: the name of the model there.

    Raises:
        CostError: if the library is not installed, or has no such model.
    """
    package, make = LIBRARIES[prefix]
    try:
        with without_weights(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # how weights will be initialized, of which there are none
            model, remark = make(name)
    except ImportError as error:
        raise CostError(import_problem(f"{prefix}:{name}", package, error)) from error
    return model.eval(), remark
