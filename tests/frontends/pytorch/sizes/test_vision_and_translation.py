"""Formulas of detection, segmentation, vision transformers and translation, against estimates at integer sizes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from costcore import estimate
from tests.frameworks import optional
from tests.frontends.pytorch.sizes.points import sized

transformers = optional("transformers")

COLUMNS = ("macs", "flops", "mread", "mwrite", "n_params")
IMAGE = ("batch", 3, "height", "width")
IMAGES = {"batch": (2, 9), "height": (64, 400), "width": (64, 400)}


class DeepLab(nn.Module):
    """DeepLabV3 of few channels: dilated convolutions, pooling of the whole image, and the size of the image again."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 8, 3, 2, 1))
        self.dilated = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=rate, dilation=rate) for rate in (12, 24, 36))
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1))
        self.head = nn.Conv2d(16, 5, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        whole = F.interpolate(self.whole(x), size=x.shape[-2:], mode="bilinear")
        x = self.head(torch.cat([*(conv(x) for conv in self.dilated), whole], 1))
        return F.interpolate(x, size=image.shape[-2:], mode="bilinear")


def detr() -> nn.Module:
    backbone = transformers.ResNetConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8] * 4, embedding_size=8, layer_type="basic", out_features=["stage4"]
    )
    sides = ("encoder_layers", "decoder_layers")
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        d_model=16,
        num_queries=5,
        **dict.fromkeys(sides, 1),
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 16),
    )
    return transformers.DetrForObjectDetection(config)


def vit() -> nn.Module:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return transformers.ViTModel(transformers.ViTConfig(**sizes))


def t5() -> nn.Module:
    config = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2, vocab_size=50, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


TOKENS = {
    "input_ids": (("batch", "seq"), torch.int64),
    "decoder_input_ids": (("batch", "target"), torch.int64),
}
NETWORKS: dict[str, Any] = {
    "DeepLabV3": (DeepLab, IMAGE, IMAGES),
    "DETR": (detr, {"pixel_values": IMAGE}, IMAGES),
    "ViT": (vit, {"pixel_values": IMAGE, "interpolate_pos_encoding": True}, IMAGES),
    "T5": (t5, TOKENS, {"batch": (2, 9), "seq": (2, 900), "target": (2, 900)}),
}


ASKED = pytest.mark.filterwarnings("ignore:data-dependent branch at masking_utils:costcore.CostWarning")
"""DETR asks whether its mask has any padding."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[ASKED] * (name == "DETR")) for name in NETWORKS])
def test_formulas_equal_estimates(name):
    make, inputs, ranges = NETWORKS[name]
    with torch.device("meta"):
        net = make().eval()
    report, random = estimate(net, inputs), Random(name)
    for _ in range(3):
        point = {symbol: random.randint(*limits) for symbol, limits in ranges.items()}
        expected = estimate(net, sized(inputs, point)).total_report
        found = report.subs(point).total_report
        assert [found[key] for key in COLUMNS] == [expected[key] for key in COLUMNS]
