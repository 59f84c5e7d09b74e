"""Networks that people use, for benchmarks: from torchvision, timm and transformers, as far as these are installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

TOKENS = 128


class Network(NamedTuple):
    """A network.

    ``make`` builds it, ``inputs`` returns its inputs for a batch size, ``library`` is what it needs besides torch, and
    ``batches`` are the batch sizes at which its time is measured.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    library: str = ""
    batches: tuple[int, ...] = (1, 4)


def _image(batch: int) -> Tensor:
    return torch.randn(batch, 3, 224, 224)


def _ids(batch: int) -> Tensor:
    return torch.randint(1000, (batch, TOKENS))


def from_torchvision(name: str, **settings: object) -> nn.Module:
    import torchvision

    return torchvision.models.get_model(name, weights=None, **settings)


def from_timm(name: str, **settings: object) -> nn.Module:
    import timm

    return timm.create_model(name, pretrained=False, **settings)


def from_transformers(model: str, config: str, module: str = "", **settings: int) -> nn.Module:
    import transformers

    place = import_module(f"transformers.{module}") if module else transformers
    return getattr(place, model)(getattr(transformers, config)(**settings))


def mlp() -> nn.Module:
    layers = [nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10), nn.Softmax(-1)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """A U-Net with four levels, 32 to 256 channels."""

    def __init__(self, widths: Sequence[int] = (32, 64, 128, 256)) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(self._block, (3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
        self.after = nn.ModuleList(self._block(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def _block(channels: int, out: int) -> nn.Module:
        layers: list[nn.Module] = []
        for c in (channels, out):
            layers += [nn.Conv2d(c, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, after, earlier in zip(reversed(self.up), reversed(self.after), reversed(kept[:-1]), strict=False):
            x = after(torch.cat([up(x), earlier], 1))
        return self.head(x)


BERT = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
GPT2 = {"n_embd": 512, "n_layer": 4, "n_head": 8, "vocab_size": 10000, "bos_token_id": 0, "eos_token_id": 0}
LLAMA = {
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 1376,
    "vocab_size": 8000,
}

VISION = (
    *("alexnet", "vgg11", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0"),
    *("shufflenet_v2_x1_0", "squeezenet1_1", "densenet121", "regnet_y_400mf", "convnext_tiny", "vit_b_32", "vit_b_16"),
    "swin_t",
)

LARGE = ("vgg11", "vit_b_16", "swin_t", "convnext_tiny")
"""Networks whose time is measured for one image."""

NETWORKS: Mapping[str, Network] = {
    "mlp": Network(mlp, lambda batch: torch.randn(32 * batch, 784)),
    "unet": Network(UNet, _image),
    **{
        name: Network(partial(from_torchvision, name), _image, "torchvision", (1,) if name in LARGE else (1, 4))
        for name in VISION
    },
    **{
        name: Network(partial(from_timm, full), _image, "timm")
        for name, full in (
            ("deit_tiny", "deit_tiny_patch16_224"),
            ("mixer_s32", "mixer_s32_224"),
            ("resmlp_12", "resmlp_12_224"),
        )
    },
    "bert_4x256": Network(partial(from_transformers, "BertModel", "BertConfig", **BERT), _ids, "transformers"),
    "gpt2_4x512": Network(partial(from_transformers, "GPT2Model", "GPT2Config", **GPT2), _ids, "transformers"),
    "llama_4x512": Network(
        partial(from_transformers, "LlamaForCausalLM", "LlamaConfig", **LLAMA), _ids, "transformers"
    ),
}


def available(names: Sequence[str] | None = None, among: Mapping[str, Network] = NETWORKS) -> dict[str, Network]:
    """Return the networks of these names, all if omitted, whose library is installed; print which are skipped."""
    found = {}
    for name in names or among:
        network = among[name]
        if network.library and find_spec(network.library) is None:
            print(f"{name}: skipped, {network.library} is not installed")
        else:
            found[name] = network
    return found
