"""The networks of the conformance kit in ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from onnx import ModelProto

from costcore import Report, estimate
from tests.whole_networks import onnx_models


def counted(build: Callable[[], ModelProto]) -> Report:
    return estimate(build())


NETWORKS: Mapping[str, Callable[[], Report]] = {
    name: partial(counted, getattr(onnx_models, name))
    for name in ("vgg16", "resnet50", "mobilenet_v2", "unet", "encoder")
}
