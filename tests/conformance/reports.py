"""The builders of the frontends of this repository, as the conformance kit takes them: functions that return reports.

costcore conformance tests/conformance/reports.py:ONNX --python-path .
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

from costcore import ComputationalCostHook, Report, estimate


def run(framework: str, build: Any) -> Report:
    """Return the report of one layer: no backward pass follows, which some layers would write more for."""
    built = build()
    if framework == "onnx":
        return estimate(built)
    chainer = import_module("chainer") if framework == "chainer" else None
    without_gradient = chainer.no_backprop_mode() if chainer else import_module("torch").no_grad()
    with without_gradient, ComputationalCostHook(frontends=[framework]) as hook:
        built()
    return hook.report


def builders(framework: str) -> Mapping[str, Any]:
    """Return the builders of a framework: of layers, and of networks if it has them."""
    layers = import_module(f"tests.conformance.build_{framework}").BUILDERS
    found = {name: partial(run, framework, build) for name, build in layers.items()}
    if framework == "chainer":
        return found
    return {**found, **import_module(f"tests.conformance.networks_{framework}").NETWORKS}


def __getattr__(name: str) -> Mapping[str, Any]:
    if name in ("PYTORCH", "CHAINER", "ONNX"):
        return builders(name.lower())
    raise AttributeError(name)
