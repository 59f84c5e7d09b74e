"""The OpenVINO frontend of costcore: counts IR files (.xml) from their graph, without the OpenVINO runtime."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.frontend import FrontendSpec
from costcore.ir import Calculator
from costcore.plugins import hookimpl

OPTIONS = {
    "dims": "sizes of the dimensions that the model leaves open",
    "trips": "iterations of each loop with a data-dependent trip count",
}


@hookimpl
def costcore_frontends() -> tuple[FrontendSpec, ...]:
    """Return the frontend."""
    return (
        FrontendSpec(
            "openvino",
            "openvino",
            "costcore_openvino.estimate",
            suffixes=(".xml",),
            options=OPTIONS,
            values={"trips": int},
            models=("an OpenVINO IR file (.xml)",),
            unhooked="Count an IR file with costcore.estimate(path).",
        ),
    )


@hookimpl
def costcore_calculators() -> Mapping[str, Calculator]:
    """Return the formulas of operators that no other framework has."""
    from .costs import CALCULATORS

    return CALCULATORS
