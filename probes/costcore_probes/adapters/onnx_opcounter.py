"""The calculate_macs of onnx-opcounter."""

from __future__ import annotations

from typing import Any

from ..adapter import Adapter, Figure

__all__ = ["ADAPTER"]


def _macs(_format: str, built: Any) -> Figure:
    from onnx_opcounter import calculate_macs

    return Figure(int(calculate_macs(built)))


def _params(_format: str, built: Any) -> Figure:
    from onnx_opcounter import calculate_params

    return Figure(int(calculate_params(built)))


ADAPTER = Adapter(
    name="onnx_opcounter",
    package="onnx-opcounter",
    declares="Count ONNX model MACs operations",
    cites="https://github.com/gmalivenko/onnx-opcounter#count-macs",
    formats=("onnx",),
    counts={"macs": _macs, "params": _params},
    framework="onnx",
)
