"""The OpenVINO frontend of costcore: it counts IR files (.xml) from their graph, without weights or a runtime."""

from __future__ import annotations

from costcore.frontend import FrontendSpec
from costcore.plugins import hookimpl

OPTIONS = {"trips": "how often loops run whose number of runs depends on data"}


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
