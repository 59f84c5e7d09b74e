"""The Core ML frontend of costcore: counts packages and files from their graph, without reading weights."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.frontend import FrontendSpec
from costcore.ir import Calculator
from costcore.plugins import hookimpl

OPTIONS = {
    "dims": "sizes of the dimensions that the model leaves open",
    "function": "which function of the model is counted",
    "trips": "iterations of each loop with a data-dependent trip count",
}


@hookimpl
def costcore_frontends() -> tuple[FrontendSpec, ...]:
    """Return the frontend."""
    return (
        FrontendSpec(
            "coreml",
            "coreml",
            "costcore_coreml.estimate",
            suffixes=(".mlpackage", ".mlmodel"),
            options=OPTIONS,
            values={"function": str, "trips": int},
            models=("a Core ML model (.mlpackage, .mlmodel)",),
            unhooked="Count a Core ML model with costcore.estimate(path).",
        ),
    )


@hookimpl
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return the formulas of operations that only Core ML has."""
    from .rows import CALCULATORS

    return CALCULATORS
