"""Models of libraries by name, ``timm:resnet50``, which frontends make, and the usual inputs of models."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

from costcore.errors import CostError, CostWarning
from costcore.files import exists, is_file, is_folder
from costcore.registry.frontends import ability, frontend_of, reader_of, specs


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
    """Return whether a target is the path of a saved report; every command asks this function.

    Its suffix is ``.json``; a file without it counts by its content, which starts with a brace.
    """
    path = Path(target)
    if library_target(target) or reader_of(target) or is_folder(target):
        return False
    if target.endswith(".json"):
        return exists(target) or not _is_code(target)
    return is_file(target) and _starts_with_brace(path)


def _starts_with_brace(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:  # no command can read it
        return False


def _is_code(target: str) -> bool:
    """Return whether a target has the form ``module:factory`` or ``file.py:factory``."""
    source, _, name = target.rpartition(":")
    return bool(source) and all(part.isidentifier() for part in name.split("."))


def names_code(target: object) -> bool:
    """Return whether a target names a model of a library or Python code, ``module:factory``, which is run."""
    if not isinstance(target, str) or reader_of(target):
        return False
    return library_target(target) is not None or (_is_code(target) and not exists(target))


def library_model(target: LibraryTarget) -> Any:
    """Return a model without weights, in evaluation mode. A ``CostWarning`` says what its name does not.

    Raises:
        CostError: if the library is not installed, has no model of that name, or cannot make it.
    """
    make = ability(specs()[target.frontend], "library_model")
    try:
        model, remark = make(target.prefix, target.name)
    except CostError:
        raise
    except Exception as error:  # code of a library can raise anything
        reason = str(error).partition("\n")[0]  # the rest are frames of C++, or the names of all classes
        raise CostError(f"{target.prefix}:{target.name} failed: {type(error).__name__}: {reason:.300}") from error
    if remark:
        warnings.warn(remark, CostWarning, stacklevel=2)
    return model


def usual_inputs(model: object, target: str) -> Any:
    """Return the usual ``inputs`` of a model that is run and their ``source``; None if no library states them.

    Args:
        model: the model.
        target: the target that it was loaded from, whose last word may be a name of the library.
    """
    find = None if isinstance(model, str) else ability(frontend_of(model), "usual_inputs")
    return None if find is None else find(model, target.rpartition(":")[2])
