"""The frontends: one package a framework, imported only when that framework is wanted."""

from __future__ import annotations

if __name__ != "costcore.frontends":
    raise ImportError("import costcore.frontends, not frontends")

from costcore.frontend import FrontendSpec
from costcore.plugins import hookimpl

ONNX_OPTIONS = {
    "dims": "values of named dimensions",
    "shapes": "shapes of values inside the model",
    "regroup": "count what exporters spell out as the operator it was",
    "check_shapes": "ask onnx for its shapes too, tell differences",
}


@hookimpl
def costcore_frontends() -> tuple[FrontendSpec, ...]:
    """The built-in frontends."""
    return (
        FrontendSpec("pytorch", "torch", f"{__name__}.pytorch"),
        FrontendSpec("chainer", "chainer", f"{__name__}.chainer.frontend", native_calculators=True),
        FrontendSpec("onnx", "onnx", f"{__name__}.onnx", (".onnx",), ONNX_OPTIONS),
    )
