"""The real networks of these tests, with costs from independent sources."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from costcore import Report, estimate
from tests.frameworks import available, with_chainer

IMAGE = (1, 3, 224, 224)
TOKENS = 128


class Subject(NamedTuple):
    """A network: how to build it, its inputs, the frontends it needs, and its costs from independent sources."""

    build: Callable[[], Any]
    inputs: Callable[[], Any]
    frontends: tuple[str, ...]
    macs: int
    n_params: int
    output: tuple[int, ...]

    def count(self, model: Any, **options: Any) -> Report:
        """Return the report of the network that ``build`` returned."""
        if "chainer" not in self.frontends:
            return estimate(model, self.inputs(), **options)
        import chainer

        with chainer.using_config("train", False):
            return estimate(model, self.inputs(), **options)


def resnet50() -> Any:
    """Return ResNet-50 without weights."""
    from tests.whole_networks import pytorch_models as networks

    return networks.without_data(networks.resnet50)


def llama() -> Any:
    """Return Llama 3.2 1B of transformers without weights, built from its published sizes."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        tie_word_embeddings=True,
        use_cache=False,
    )
    with torch.device("meta"):
        return LlamaForCausalLM(config).eval()


def tokens() -> Any:
    """Return token IDs; all are equal."""
    import torch

    return torch.zeros(1, TOKENS, dtype=torch.int64)


def vgg16() -> Any:
    """Return Chainer's VGG16 with weights of zero."""
    links = with_chainer().links
    from tests.frontends.chainer.zero_weights import with_zero_weights

    return with_zero_weights(links.VGG16Layers)


def image() -> Any:
    """Return a black image."""
    import numpy

    return numpy.zeros(IMAGE, "float32")


def exported() -> Any:
    """Return ResNet-50 as exported by PyTorch. Its batch norms differ: equal initializers would be stored once."""
    import onnx
    import torch

    from tests.whole_networks import onnx_models
    from tests.whole_networks import pytorch_models as networks

    net = networks.resnet50().eval()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.bias)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the exporter
        torch.onnx.export(net, (torch.zeros(IMAGE),), file, dynamo=False, opset_version=18)
    model = onnx.load_from_string(file.getvalue())
    for tensor in model.graph.initializer:
        if tensor.ByteSize() > 1000:
            tensor.CopyFrom(onnx_models.absent(tensor.name, tensor.dims))  # the cost does not depend on the values
    return model


# Weights of ResNet-50: 25,557,032, of which the scale and shift of 26,560 normalized channels. Folded into the
# convolutions, these become as many biases.
RESNET50 = 25_557_032
FOLDED = RESNET50 - 2 * 26_560 + 26_560
# Multiply-adds: torchvision's table has 4.089e9 for ResNet-50. Of VGG16, 15,346,630,656 in convolutions
# (chainer-computational-cost), and 25088 * 4096 + 4096 * 4096 + 4096 * 1000.
RESNET50_MACS = 4_089_184_256
VGG16_MACS = 15_346_630_656 + 123_633_664
# A layer of Llama 3.2 1B: queries and outputs, keys and values, three linear layers of the MLP. Every weight is used
# once per token, that of the embedding in the last product; 32 heads of size 64 have two products for all pairs.
LLAMA_LAYER = 2 * 2048 * 2048 + 2 * 2048 * 512 + 3 * 2048 * 8192
LLAMA_EMBEDDING = 128_256 * 2048
LLAMA = 16 * (LLAMA_LAYER + 2 * 2048) + 2048 + LLAMA_EMBEDDING
LLAMA_MACS = TOKENS * (16 * LLAMA_LAYER + LLAMA_EMBEDDING) + 16 * 2 * 32 * 64 * TOKENS**2


def _runs_as_kept() -> bool:
    """Return whether Llama runs as in the reports that are kept: transformers 4 and PyTorch 2.6 run other operators."""
    if "pytorch" not in available():
        return True
    from tests.frontends.pytorch.differences import FUSES_GROUPED_QUERIES
    from tests.frontends.pytorch.transformers_differences import ANGLES_ARE_PRODUCTS

    return FUSES_GROUPED_QUERIES and not ANGLES_ARE_PRODUCTS


SUBJECTS: dict[str, Subject] = {
    "resnet50": Subject(resnet50, lambda: IMAGE, ("pytorch",), RESNET50_MACS, RESNET50, (1, 1000)),
    "llama": Subject(llama, tokens, ("pytorch",), LLAMA_MACS, LLAMA, (1, TOKENS, 128_256)),
    "vgg16": Subject(vgg16, image, ("chainer",), VGG16_MACS, 138_357_544, (1, 1000)),
    "export": Subject(exported, lambda: None, ("pytorch", "onnx"), RESNET50_MACS, FOLDED, (1, 1000)),
}
if not _runs_as_kept():
    del SUBJECTS["llama"]

WRITERS: Mapping[str, Callable[[Report], str]] = {
    "json": Report.to_json,
    "csv": Report.to_csv,
    "md": Report.to_markdown,
    "html": Report.to_html,
    "explorer": Report.to_model_explorer,
    "trace": Report.to_chrome_trace,
    "card": Report.to_model_card,
}
"""The functions that write each file format of a report."""


def digests(report: Report) -> dict[str, str]:
    """Return a digest of every file of a report."""
    return {kind: sha256(write(report).encode()).hexdigest() for kind, write in WRITERS.items()}


def digests_of_new_reports(graph: str) -> list[dict[str, str]]:
    """Build and count every network again and return its digests; the exported network is read from ``graph``."""
    import onnx

    models = {name: subject.build() for name, subject in SUBJECTS.items() if name != "export"}
    models["export"] = onnx.load(graph, load_external_data=False)
    return [digests(subject.count(models[name])) for name, subject in SUBJECTS.items()]
