"""Convert networks to files of runtimes, and compare the files with the networks.

    python -m benchmarks.conversions coreml [NAME ...]       # coremltools, torchvision, transformers
    python -m benchmarks.conversions openvino [NAME ...]     # openvino, torchvision, transformers, onnxscript
    python -m benchmarks.conversions tflite [NAME ...]       # tensorflow
    python -m benchmarks.conversions stablehlo [NAME ...]    # tensorflow, jax

Run in the root of the repository, in an environment with costcore, its plug-in for the format and the packages beside
the command. Weights are random numbers that all differ, since converters drop layers that do nothing. Each line has the
MACs of the network, and parameters and status of the file; the exit status is 1 if the MACs of a file differ. The
README of each plug-in has the table.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from costcore import Report, estimate


class Line(NamedTuple):
    """A file and its source: a name, MACs and parameters of the network, and the report of the file."""

    name: str
    macs: int
    n_params: int
    report: Report

    def text(self) -> str:
        """Return the line of a Markdown table."""
        found = self.report.total_report
        macs = f"{self.macs:,}" if found["macs"] == self.macs else f"{self.macs:,}, file {found['macs']:,}"
        return f"| {self.name} | {macs} | {self.n_params:,} | {found['n_params']:,} | {self.report.status} |"


VISION = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "mnasnet1_0", "mobilenet_v2"),
    *("mobilenet_v3_small", "regnet_y_400mf", "resnet18", "resnet50", "shufflenet_v2_x1_0", "squeezenet1_1"),
    *("swin_t", "vit_b_16"),
)
ENCODERS = ("BERT", "DistilBERT")
AS_PROGRAMS = (
    *("alexnet", "densenet121", "efficientnet_b0", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_small", "resnet18"),
    *("squeezenet1_1", "DistilBERT"),
)
"""coremltools 9.0 cannot convert BERT, shufflenet_v2_x1_0 and vit_b_16 as traced by PyTorch 2.13."""

AS_LAYERS = ("alexnet", "mobilenet_v2", "resnet18", "squeezenet1_1")
BY_ONNX = ("mobilenet_v2", "resnet18", "squeezenet1_1", "BERT")


def torch_network(name: str) -> tuple[Any, Any]:
    """Return a network of PyTorch with random weights, and its input."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    if name in ENCODERS:
        import transformers

        common = {"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 500}
        config = {"hidden_size": 64, "intermediate_size": 128, **common}
        if name == "DistilBERT":
            settings = transformers.DistilBertConfig(dim=64, hidden_dim=128, n_layers=2, n_heads=4, vocab_size=500)
            inner: Any = transformers.DistilBertModel(settings)
        else:
            inner = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)

        class Encoder(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                return self.inner(ids)[0]

        network: nn.Module = Encoder()
        x = torch.zeros(1, 32, dtype=torch.long)
    else:
        from torchvision import models

        settings = {"init_weights": False} if name == "googlenet" else {}
        network, x = models.get_model(name, weights=None, **settings), torch.rand(1, 3, 224, 224)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.normal_(module.weight)
    for label, parameter in network.named_parameters():
        if label.endswith("bias") or "layer_scale" in label:
            nn.init.normal_(parameter)
    return network.eval(), x


def openvino_files(names: Sequence[str], folder: Path) -> Iterator[Line]:
    """Yield the networks of PyTorch as IR files, some of them by way of ONNX."""
    import openvino
    import torch

    pairs = [(name, "PyTorch") for name in (*VISION, *ENCODERS)] + [(name, "ONNX") for name in BY_ONNX]
    for name, source in pairs:
        if names and name not in names:
            continue
        network, x = torch_network(name)
        file = folder / "net.xml"
        if source == "ONNX":
            torch.onnx.export(network, (x,), str(folder / "net.onnx"), dynamo=True, verbose=False)
            converted = openvino.convert_model(folder / "net.onnx")
        else:
            converted = openvino.convert_model(network, example_input=x)
            converted.reshape(list(x.shape))
        openvino.save_model(converted, file)
        found = estimate(network, x).total_report
        yield Line(f"{name} ({source})", found["macs"], found["n_params"], estimate(file))


def coreml_files(names: Sequence[str], folder: Path) -> Iterator[Line]:
    """Yield the networks of PyTorch as programs, some of them as neural networks of the older format too."""
    import coremltools
    import numpy as np
    import torch

    pairs = [(name, "mlprogram") for name in names or AS_PROGRAMS]
    pairs += [(name, "neuralnetwork") for name in AS_LAYERS if not names or name in names]
    for name, kind in pairs:
        network, x = torch_network(name)
        given = coremltools.TensorType(shape=x.shape, **({} if x.is_floating_point() else {"dtype": np.int32}))
        with torch.no_grad():
            traced = torch.jit.trace(network, x)
        converted = coremltools.convert(traced, inputs=[given], convert_to=kind, skip_model_load=True)
        file = folder / ("net.mlpackage" if kind == "mlprogram" else "net.mlmodel")
        converted.save(str(file))
        found = estimate(network, x).total_report
        yield Line(f"{name} ({kind})", found["macs"], found["n_params"], estimate(file))


def keras_networks(names: Sequence[str]) -> Iterator[tuple[str, Any, int, int]]:
    """Yield the networks of Keras with random weights: name, model, MACs and parameters."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras
    import numpy as np

    from benchmarks import keras_networks as networks

    for name in names or networks.NETWORKS:
        keras.backend.clear_session()
        model, random = networks.NETWORKS[name](), np.random.default_rng(0)
        for weight in (each for each in model.weights if "seed" not in each.path):
            value = random.standard_normal(weight.shape, dtype="float32")
            if "variance" in weight.path:
                value = np.abs(value) + 0.5
            elif len(weight.shape) > 1:
                value /= max(np.prod(weight.shape[:-1]) ** 0.5, 1)
            weight.assign(1 + value / 10 if "gamma" in weight.path else value)
        n_params = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
        yield name, model, networks.macs(name, model), n_params


def tflite_files(names: Sequence[str], folder: Path) -> Iterator[Line]:
    """Yield the networks of Keras as files of float and of int8; TensorFlow does not convert recurrent ones to int8."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    for name, model, macs, n_params in keras_networks(names):
        shape, dtype = (1, *model.inputs[0].shape[1:]), model.inputs[0].dtype
        function = tf.function(partial(model, training=False)).get_concrete_function(tf.TensorSpec(shape, dtype))
        frozen = convert_variables_to_constants_v2(function)
        for kind in ("float",) if name in ("lstm", "gru") else ("float", "int8"):
            converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
            if kind == "int8":
                random = np.random.default_rng(0)
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
                converter.representative_dataset = partial(_samples, random, shape, dtype)
                converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            file = folder / "net.tflite"
            file.write_bytes(converter.convert())
            yield Line(f"{name} ({kind})", macs, n_params, estimate(file))


def _samples(random: Any, shape: Sequence[int], dtype: str) -> Iterator[list[Any]]:
    for _ in range(2):
        yield [random.integers(0, 100, shape).astype(dtype) if dtype == "int32" else random.random(shape, "float32")]


STABLEHLO = ("resnet8", "ds_cnn", "vww", "autoencoder", "MobileNetV2", "unet", "encoder", "lstm", "gru")


def stablehlo_files(names: Sequence[str], folder: Path) -> Iterator[Line]:
    """Yield the networks of Keras as programs that TensorFlow writes, with the variables of training as parameters."""
    import tensorflow as tf

    for name, model, macs, n_params in keras_networks(names or STABLEHLO):
        spec = tf.TensorSpec((1, *model.inputs[0].shape[1:]), model.inputs[0].dtype)
        function = tf.function(partial(model, training=False), jit_compile=True)
        file = folder / "net.mlirbc"
        file.write_bytes(function.experimental_get_compiler_ir(spec)(stage="stablehlo_serialized"))
        learned = {id(weight.value.handle) for weight in model.trainable_weights}
        captured = function.get_concrete_function(spec).captured_inputs
        positions = [1 + i for i, each in enumerate(captured) if id(each) in learned]
        yield Line(name, macs, n_params, estimate(file, params=positions, regroup=True))


FORMATS: Mapping[str, Callable[[Sequence[str], Path], Iterator[Line]]] = {
    "coreml": coreml_files,
    "openvino": openvino_files,
    "tflite": tflite_files,
    "stablehlo": stablehlo_files,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of a format; return 1 if the MACs of a file are not those of the network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    print("| network | MACs | parameters of the network | of the file | status |\n|:--|--:|--:|--:|:--|")
    differ = 0
    with TemporaryDirectory() as folder:
        for line in FORMATS[args.format](args.names, Path(folder)):
            print(line.text(), flush=True)
            differ += line.report.total_report["macs"] != line.macs
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
