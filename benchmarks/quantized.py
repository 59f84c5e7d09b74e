"""Counts the calls that only quantize, dequantize or copy, in networks quantized by ONNX Runtime.

Run in the root of the repository, in an environment with torchvision and onnxruntime: ``python -m benchmarks.quantized
[--only NAME]``. Networks have random weights that all differ (equal tensors are stored once), and small images. Each is
exported by the older exporter, and quantized statically for each channel, with QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from torchvision.models import get_model

from costcore import Report, estimate

SIZES = {
    "densenet121": 64,
    "efficientnet_b0": 96,
    "googlenet": 96,
    "mnasnet0_5": 96,
    "mobilenet_v2": 96,
    "mobilenet_v3_small": 96,
    "regnet_x_400mf": 96,
    "resnet18": 64,
    "resnext50_32x4d": 64,
    "shufflenet_v2_x0_5": 96,
    "squeezenet1_1": 96,
    "vgg11": 224,
}
"""The height and width of the images of each network."""

LISTED = ("QuantizeLinear", "DequantizeLinear", "Constant", "Identity")
"""Operators that only quantize, dequantize or copy."""


class Images(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    """Two random images."""

    def __init__(self, size: int) -> None:
        generator = np.random.default_rng(0)
        self._images: Iterator[Any] = iter(generator.random((2, 1, 3, size, size), dtype=np.float32))

    def get_next(self) -> dict[str, Any] | None:
        """Return the next image by the name of the input; None after the last one."""
        image = next(self._images, None)
        return None if image is None else {"x": image}


def quantized(name: str, folder: Path) -> Report:
    """Return the report of a quantized network."""
    torch.manual_seed(0)
    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    model = get_model(name, weights=None, **options).eval()
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.1, 1)
    real, integer, size = folder / "real.onnx", folder / "integer.onnx", SIZES[name]
    images = (torch.rand(1, 3, size, size),)
    torch.onnx.export(model, images, str(real), dynamo=False, opset_version=17, input_names=["x"])
    quantize_static(real, integer, Images(size), quant_format=QuantFormat.QDQ, per_channel=True)
    return estimate(integer)


def main() -> None:
    """Print a line per network, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SIZES, nargs="+", default=[*SIZES])
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    n_calls = n_listed = 0
    for name in parser.parse_args().only:
        with TemporaryDirectory() as folder:
            types = [call.type for call in quantized(name, Path(folder)).calls]
        listed = sum(each in LISTED for each in types)
        n_calls, n_listed = n_calls + len(types), n_listed + listed
        print(f"{name}: {listed} of {len(types)} calls", flush=True)
    print(f"all: {n_listed} of {n_calls} calls, {n_listed / n_calls:.1%}")


if __name__ == "__main__":
    main()
