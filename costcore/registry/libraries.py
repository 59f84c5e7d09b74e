"""Models of libraries by name, ``timm:resnet50``, which frontends make, and the usual inputs of models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from costcore.errors import CostError, CostWarning
from costcore.registry.frontends import frontend_of, load, specs


class LibraryTarget(NamedTuple):
    """A target that names a model of a library.

    Attributes:
        frontend: the name of the frontend that makes the model.
        prefix: the library, ``timm``.
        name: the name of the model there.
    """

    frontend: str
    prefix: str
    name: str


def library_target(target: object) -> LibraryTarget | None:
    """Return the library and the model that a target names; None for any other target."""
    if not isinstance(target, str):
        return None
    prefix, _, name = target.partition(":")
    found = (spec.name for spec in specs().values() if name and prefix in spec.libraries)
    return next((LibraryTarget(frontend, prefix, name) for frontend in found), None)


def is_saved_report(target: str) -> bool:
    """Return whether a target is the path of a saved report."""
    return target.endswith(".json") and library_target(target) is None


def library_model(target: LibraryTarget) -> Any:
    """Return a model without weights, in evaluation mode. A ``CostWarning`` says what its name does not.

    Raises:
        CostError: if the library is not installed, has no model of that name, or cannot make it.
    """
    frontend: Any = load(target.frontend)
    try:
        model, remark = frontend.library_model(target.prefix, target.name)
    except CostError:
        raise
    except Exception as error:  # code of a library can raise anything
        raise CostError(f"{target.prefix}:{target.name} failed: {type(error).__name__}: {error}") from error
    if remark:
        warnings.warn(remark, CostWarning, stacklevel=2)
    return model


def usual_inputs(model: object, target: str) -> Any:
    """Return the usual ``inputs`` of a model that is run and their ``source``; None if no library states them.

    Args:
        model: the model.
        target: the target that it was loaded from, whose last word may be a name of the library.
    """
    find = _function_of_frontend(model, "usual_inputs")
    return None if find is None else find(model, target.rpartition(":")[2])


TRAIN_MODE = "train mode, in which batch norms and dropouts cost more"
"""What is said of a model that :func:`costs_more_in_training`, whose inference is counted."""


def costs_more_in_training(model: object) -> bool:
    """Return whether a model that is run is in train mode and costs more in it; False if its frontend lacks this."""
    find = _function_of_frontend(model, "costs_more_in_training")
    return find is not None and bool(find(model))


def _function_of_frontend(model: object, name: str) -> Callable[..., Any] | None:
    """Return an optional function of the frontend of a model; None for a file, or if the frontend lacks it."""
    return None if isinstance(model, str) else getattr(load(frontend_of(model).name), name, None)
