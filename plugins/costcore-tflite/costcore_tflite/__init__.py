"""The TensorFlow Lite frontend of costcore: it counts .tflite files from their graph, without running them."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.frontend import FrontendSpec
from costcore.ir import Calculator
from costcore.plugins import hookimpl

OPTIONS = {"dims": "sizes of the dimensions that the file leaves open", "trips": "how often each WHILE loop runs"}


@hookimpl
def costcore_frontends() -> tuple[FrontendSpec, ...]:
    """Return the frontend, which imports the schema of the format when it is used."""
    return (
        FrontendSpec(
            "tflite",
            "tflite",
            "costcore_tflite.estimate",
            suffixes=(".tflite",),
            options=OPTIONS,
            values={"trips": int},
            models=("a .tflite file",),
            unhooked="Count a .tflite file with costcore.estimate(path).",
        ),
    )


@hookimpl
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return the formulas of operators that no other framework has."""
    from .operators import CUSTOM_CALCULATORS, OWN_CALCULATORS

    return {**OWN_CALCULATORS, **CUSTOM_CALCULATORS}
