"""Tokenizers, sparse attention and multimodal models, whose sizes depend on integers that an estimate knows.

All totals are those of a run with data.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    BartConfig,
    BartForSequenceClassification,
    EncodecConfig,
    EncodecModel,
    LEDConfig,
    LEDModel,
    LongformerConfig,
    LongformerModel,
    MimiConfig,
    MimiModel,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
)
from transformers.models.auto import CONFIG_MAPPING
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig

from costcore import ComputationalCostHook, CostError, estimate
from tests.frontends.pytorch.unchanged import unchanged

D, V, T = 32, 50, 16
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": V}
IDS = torch.arange(3, 3 + T)[None].repeat(2, 1)
LAYERS = {"hidden_size": D, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
SOUND = torch.rand(1, 1, 320, generator=torch.Generator().manual_seed(0))


def encodec() -> nn.Module:
    return EncodecModel(
        EncodecConfig(
            num_filters=4, hidden_size=16, codebook_size=8, codebook_dim=16, upsampling_ratios=[4, 2], num_lstm_layers=1
        )
    )


def mimi() -> nn.Module:
    sizes = {"codebook_size": 8, "codebook_dim": 16, "num_quantizers": 4, "num_semantic_quantizers": 1}
    return MimiModel(
        MimiConfig(
            **LAYERS,
            **sizes,
            num_key_value_heads=4,
            head_dim=8,
            num_filters=8,
            upsample_groups=D,
            vector_quantization_hidden_dimension=16,
            upsampling_ratios=[4, 2],
        )
    )


def pocket_tts() -> nn.Module:
    if "pocket_tts_audio_tokenizer" not in CONFIG_MAPPING:
        pytest.skip("this transformers has no such model")
    sizes = {**LAYERS, "num_key_value_heads": 4, "head_dim": 8, "num_filters": 4, "upsample_groups": D}
    return AutoModel.from_config(
        AutoConfig.for_model(
            "pocket_tts_audio_tokenizer", **sizes, latent_dim=8, latent_stride=4, upsampling_ratios=[4, 2]
        )
    )


def longformer() -> nn.Module:
    return LongformerModel(
        LongformerConfig(**LAYERS, vocab_size=V, attention_window=4, max_position_embeddings=64, pad_token_id=1)
    )


PARTS = {
    **{f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in (("layers", 2), ("ffn_dim", 48))},
    **{f"{part}_attention_heads": 4 for part in ("encoder", "decoder")},
}


def led() -> nn.Module:
    lengths = {"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}
    return LEDModel(LEDConfig(d_model=D, attention_window=4, **lengths, **PARTS, **TOKENS))


def bart() -> nn.Module:
    return BartForSequenceClassification(BartConfig(d_model=D, max_position_embeddings=64, **PARTS, **TOKENS))


def qwen2_vl() -> nn.Module:
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    named = "rope_parameters" if "rope_parameters" in signature(Qwen2VLTextConfig).parameters else "rope_scaling"
    text = {**LAYERS, "num_key_value_heads": 2, "vocab_size": V, named: rope}
    vision = {
        "depth": 1,
        "embed_dim": 16,
        "hidden_size": D,
        "num_heads": 2,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    special = {"image_token_id": 40, "video_token_id": 41, "vision_start_token_id": 42, "vision_end_token_id": 43}
    return Qwen2VLForConditionalGeneration(Qwen2VLConfig(text_config=text, vision_config=vision, **special))


ENDED = torch.cat((IDS[:, 1:], torch.full((2, 1), 2)), 1)
PROMPT = torch.tensor([[3, 4, 42, 40, 40, 40, 40, 43, 5]])

NETWORKS: dict[str, tuple[Callable[[], nn.Module], dict[str, torch.Tensor]]] = {
    "encodec": (encodec, {"input_values": SOUND}),
    "mimi": (mimi, {"input_values": SOUND}),
    "pocket_tts": (pocket_tts, {"input_values": SOUND}),
    "longformer": (longformer, {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}),
    "longformer, two tokens see all": (
        longformer,
        {
            "input_ids": IDS,
            "attention_mask": torch.ones_like(IDS),
            "global_attention_mask": torch.tensor([1, 1, *[0] * (T - 2)])[None].repeat(2, 1),
        },
    ),
    "led": (led, {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}),
    "bart": (bart, {"input_ids": ENDED}),
    "qwen2_vl": (
        qwen2_vl,
        {
            "input_ids": PROMPT,
            "attention_mask": torch.ones_like(PROMPT),
            "mm_token_type_ids": (PROMPT == 40).int(),
            "pixel_values": torch.rand(16, 3 * 2 * 4 * 4),
            "image_grid_thw": torch.tensor([[1, 4, 4]]),
        },
    ),
}

TOTALS = ("macs", "flops", "mread", "mwrite", "n_params")


@pytest.mark.parametrize("name", NETWORKS)
def test_an_estimate_is_a_run(name):
    build, inputs = NETWORKS[name]
    model = build().eval()
    with unchanged(model):
        report = estimate(model, inputs)
    with torch.no_grad(), ComputationalCostHook() as cch:
        model(**inputs)
    assert totals(report) == totals(cch)
    assert report.total_report["macs"] > 0
    assert report.assumptions == []


def totals(report: Any) -> dict[str, Any]:
    return {name: report.total_report[name] for name in TOTALS}


def test_the_ends_of_sentences_need_no_values():
    """By shape alone, nobody knows where the token is that ends a sentence: each could be one."""
    ids = IDS.clone()
    ids[:, -1] = 2
    report = estimate(bart().eval(), {"input_ids": ((2, T), torch.int64)})
    assert report.total_report["macs"] == estimate(bart().eval(), {"input_ids": ids}).total_report["macs"]
    assert {each.what for each in report.assumptions} == {"a mask without data was assumed to select every element"}


def test_a_codec_that_was_made_on_the_meta_device_needs_the_values_of_its_buffers():
    with torch.device("meta"):
        model = mimi()
    with pytest.raises(CostError, match=r"buffers 'encoder\..*kernel_size', .* make the model on the CPU"):
        estimate(model, {"input_values": SOUND.shape})
