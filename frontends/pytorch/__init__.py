"""The PyTorch frontend: records the operators of a run, and estimates modules on the meta device."""

from __future__ import annotations

if __name__ != "costcore.frontends.pytorch":
    raise ImportError("import costcore.frontends.pytorch, not frontends.pytorch")

from typing import TYPE_CHECKING, Any

from .capture.context import capture
from .estimate import accepts, estimate
from .naming import native_names
from .rows.table import ROWS

if TYPE_CHECKING:
    from costcore.analyses.timing.calibration import Calibration
    from costcore.analyses.timing.calibration_table import Conditions

    from .libraries.usual_inputs import UsualInputs
    from .passes import ModulePasses
    from .serving.cached_model import MetaCachedModel

__all__ = [
    "ROWS",
    "accepts",
    "cached_model",
    "calibrate",
    "capture",
    "estimate",
    "library_model",
    "native_names",
    "passes_of",
    "usual_inputs",
]


def calibrate(*args: Any, **options: Any) -> tuple[Calibration, Conditions]:
    """Measure a device by running chains of operators on it; see :func:`.calibration.measure.calibrate`."""
    from .calibration.measure import calibrate  # few runs need the chains

    return calibrate(*args, **options)


def cached_model(model: Any, cache: str, dtype: str | None) -> MetaCachedModel:
    """Return a language model that can run with a cache; see :class:`.serving.cached_model.MetaCachedModel`."""
    from .serving.cached_model import MetaCachedModel  # few runs serve

    return MetaCachedModel(model, cache, dtype)


def library_model(prefix: str, name: str) -> tuple[Any, str]:
    """Return a model of a library and a remark on it; see :func:`.libraries.make.library_model`."""
    from .libraries.make import library_model

    return library_model(prefix, name)


def passes_of(model: Any, is_compiled: bool) -> ModulePasses:
    """Return the passes of a module; see :func:`.passes.passes_of`."""
    from .passes import passes_of  # few runs are metered

    return passes_of(model, is_compiled)


def usual_inputs(model: object, name: str = "") -> UsualInputs | None:
    """Return the usual input of a model of a library; see :func:`.libraries.usual_inputs.usual_inputs`."""
    from .libraries.usual_inputs import usual_inputs

    return usual_inputs(model, name)
