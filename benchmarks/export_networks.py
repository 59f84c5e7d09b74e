"""Networks that are exported to ONNX, small: of torchvision, transformers and timm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

BATCH = 2


class Network(NamedTuple):
    """The constructor of a network, and its inputs."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, Tensor]]


def image(size: int, *more: int) -> Callable[[], dict[str, Tensor]]:
    """Return square images, or videos with their length before the size."""
    return lambda: {"x": torch.rand(BATCH, 3, *more, size, size)}


def torchvision_networks() -> Mapping[str, Network]:
    """Return one or two networks of every family."""
    from torchvision.models import get_model

    heads = {"aux_logits": False, "init_weights": False}
    settings: dict[str, tuple[int, dict[str, Any]]] = {
        **{name: (224, {}) for name in ("alexnet", "vgg11_bn")},
        **{name: (64, {}) for name in ("squeezenet1_1", "resnet18", "resnext50_32x4d", "densenet121")},
        "googlenet": (64, heads),
        "inception_v3": (96, heads),
        **{name: (64, {}) for name in ("mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5")},
        **{name: (64, {}) for name in ("regnet_x_400mf", "regnet_y_400mf", "efficientnet_b0", "efficientnet_v2_s")},
        "convnext_tiny": (64, {}),
        "vit_b_32": (64, {"image_size": 64}),
        "swin_t": (112, {}),
        "swin_v2_t": (112, {}),
        "maxvit_t": (224, {}),
        "lraspp_mobilenet_v3_large": (64, {"weights_backbone": None}),
        "fcn_resnet50": (64, {"weights_backbone": None}),
        "deeplabv3_mobilenet_v3_large": (64, {"weights_backbone": None}),
    }

    def build(name: str, options: Mapping[str, Any]) -> Callable[[], nn.Module]:
        return lambda: get_model(name, weights=None, **options)

    found = {name: Network(build(name, options), image(size)) for name, (size, options) in settings.items()}
    return {**found, "r3d_18": Network(build("r3d_18", {}), image(32, 4))}


class First(nn.Module):
    """The first output of a model of transformers, with positional inputs."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], **options: Any) -> None:
        super().__init__()
        self.model, self.names, self.options = model, names, options

    def forward(
        self, first: Tensor, second: Tensor | None = None, third: Tensor | None = None, fourth: Tensor | None = None
    ) -> Any:
        given = zip(self.names, (first, second, third, fourth), strict=False)
        return self.model(**dict(given), **self.options)[0]


def transformers_networks() -> Mapping[str, Network]:
    """Return small models of the most common architectures.

    Of most, the inputs are those of its documentation. With a mask of all pairs and positions (``"… of pairs"``), a
    model runs the same operators whether it is exported or not.
    """
    import transformers as t

    length, words = 16, {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    made = {
        "input_ids": torch.arange(BATCH * length).reshape(BATCH, length) + 3,
        "attention_mask": torch.ones(BATCH, length, dtype=torch.int64),
        "decoder_input_ids": torch.arange(BATCH * length).reshape(BATCH, length) + 3,
        "pairs": torch.ones(BATCH, 1, length, length, dtype=torch.bool).tril(),
        "position_ids": torch.arange(length).repeat(BATCH, 1),
        "pixel_values": torch.rand(BATCH, 3, 32, 32),
        "input_features": torch.rand(BATCH, 20, 100),
        "input_values": torch.rand(BATCH, 4000),
    }

    def network(model: str, config: str, sizes: Mapping[str, Any], *names: str, **options: Any) -> Network:
        heads = {name: options.pop(name) for name in ("add_pooling_layer",) if name in options}
        keys = tuple("attention_mask" if name == "pairs" else name for name in names)

        def build() -> nn.Module:
            return First(getattr(t, model)(getattr(t, f"{config}Config")(**sizes), **heads), keys, **options)

        return Network(build, lambda: {key: made[name] for key, name in zip(keys, names, strict=True)})

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    bert = {**words, **sizes, "max_position_embeddings": 64}
    gpt2 = {**words, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    t5 = {
        **words,
        "attn_implementation": "eager",
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
    }
    grouped = {**bert, "num_key_value_heads": 2}
    both = {
        f"{part}_{name}": size
        for part in ("encoder", "decoder")
        for name, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
    }
    bart = {**words, **both, "d_model": 32, "max_position_embeddings": 64, "decoder_start_token_id": 2}
    whisper = {
        **words,
        **both,
        "d_model": 32,
        "num_mel_bins": 20,
        "decoder_start_token_id": 1,
        "max_source_positions": 50,
        "max_target_positions": 64,
    }
    image = {**sizes, "image_size": 32, "patch_size": 8}
    stages = {"hidden_sizes": [16, 32], "depths": [1, 2]}
    given, pairs, ids = ("input_ids", "attention_mask"), ("input_ids", "pairs", "position_ids"), ("input_ids",)
    detr = {
        **both,
        "d_model": 32,
        "num_queries": 10,
        "use_timm_backbone": False,
        "use_pretrained_backbone": False,
        "backbone_config": t.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
        ),
        "backbone": None,
    }
    speech = {
        **sizes,
        "vocab_size": 32,
        "conv_dim": (16, 16),
        "conv_stride": (5, 4),
        "conv_kernel": (10, 8),
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    }
    decoder = {"use_cache": False}
    return {
        "bert of pairs": network("BertForMaskedLM", "Bert", bert, *pairs),
        "gpt2 of pairs": network("GPT2LMHeadModel", "GPT2", gpt2, *pairs, **decoder),
        "llama of pairs": network("LlamaForCausalLM", "Llama", grouped, *pairs, **decoder),
        "t5_encoder of pairs": network("T5EncoderModel", "T5", t5, *pairs[:2]),
        "bert": network("BertForMaskedLM", "Bert", bert, *given),
        "bert without mask": network("BertModel", "Bert", bert, *ids, add_pooling_layer=False),
        "bert for classes": network("BertForSequenceClassification", "Bert", bert, *given),
        "roberta": network("RobertaForMaskedLM", "Roberta", bert, *given),
        "distilbert": network(
            "DistilBertForMaskedLM",
            "DistilBert",
            {**words, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64},
            *given,
        ),
        "albert": network("AlbertModel", "Albert", {**bert, "embedding_size": 16}, *given, add_pooling_layer=False),
        "electra": network("ElectraModel", "Electra", {**bert, "embedding_size": 16}, *given),
        "mpnet": network("MPNetModel", "MPNet", bert, *given, add_pooling_layer=False),
        "deberta_v2": network("DebertaV2Model", "DebertaV2", bert, *given),
        "modernbert": network("ModernBertModel", "ModernBert", {**bert, "cls_token_id": 1, "sep_token_id": 2}, *given),
        "gpt2": network("GPT2LMHeadModel", "GPT2", gpt2, *given, **decoder),
        "gpt2 without mask": network("GPT2LMHeadModel", "GPT2", gpt2, *ids, **decoder),
        "opt": network("OPTForCausalLM", "OPT", {**bert, "ffn_dim": 64, "word_embed_proj_dim": 32}, *given, **decoder),
        "gpt_neox": network("GPTNeoXForCausalLM", "GPTNeoX", bert, *given, **decoder),
        "llama": network("LlamaForCausalLM", "Llama", grouped, *given, **decoder),
        "mistral": network("MistralForCausalLM", "Mistral", grouped, *given, **decoder),
        "qwen2": network("Qwen2ForCausalLM", "Qwen2", grouped, *given, **decoder),
        "qwen3": network("Qwen3ForCausalLM", "Qwen3", {**grouped, "head_dim": 8}, *given, **decoder),
        "gemma": network("GemmaForCausalLM", "Gemma", {**grouped, "head_dim": 8}, *given, **decoder),
        "phi": network("PhiForCausalLM", "Phi", bert, *given, **decoder),
        "t5_encoder": network("T5EncoderModel", "T5", t5, *given),
        "t5": network("T5ForConditionalGeneration", "T5", t5, *given, "decoder_input_ids", **decoder),
        "bart": network("BartForConditionalGeneration", "Bart", bart, *given, "decoder_input_ids", **decoder),
        "whisper": network(
            "WhisperForConditionalGeneration", "Whisper", whisper, "input_features", "decoder_input_ids", **decoder
        ),
        "wav2vec2": network("Wav2Vec2ForCTC", "Wav2Vec2", speech, "input_values"),
        "clip_text": network("CLIPTextModel", "CLIPText", bert, *given),
        "clip_vision": network("CLIPVisionModel", "CLIPVision", image, "pixel_values"),
        "vit": network("ViTForImageClassification", "ViT", image, "pixel_values"),
        "deit": network("DeiTModel", "DeiT", image, "pixel_values", add_pooling_layer=False),
        "beit": network("BeitModel", "Beit", image, "pixel_values", add_pooling_layer=False),
        "dinov2": network("Dinov2Model", "Dinov2", image, "pixel_values"),
        "swin": network(
            "SwinModel",
            "Swin",
            {
                "attn_implementation": "eager",
                "embed_dim": 16,
                "depths": [1, 2],
                "num_heads": [2, 4],
                "window_size": 4,
                "image_size": 32,
                "patch_size": 2,
            },
            "pixel_values",
            add_pooling_layer=False,
        ),
        "convnext": network("ConvNextModel", "ConvNext", {**stages, "num_stages": 2}, "pixel_values"),
        "resnet": network("ResNetForImageClassification", "ResNet", {**stages, "embedding_size": 16}, "pixel_values"),
        "segformer": network(
            "SegformerForSemanticSegmentation",
            "Segformer",
            {
                "num_encoder_blocks": 2,
                "depths": [1, 1],
                "sr_ratios": [2, 1],
                "hidden_sizes": [16, 32],
                "patch_sizes": [7, 3],
                "strides": [4, 2],
                "num_attention_heads": [1, 2],
                "mlp_ratios": [2, 2],
                "decoder_hidden_size": 16,
            },
            "pixel_values",
        ),
        "detr": network("DetrForObjectDetection", "Detr", detr, "pixel_values"),
    }


def timm_networks() -> Mapping[str, Network]:
    """Return one network of most families."""
    import timm

    sizes = {
        **dict.fromkeys(
            ("resnet18", "seresnet18", "resnest14d", "dla34", "hardcorenas_a", "mobilenetv3_small_050"), 64
        ),
        **dict.fromkeys(("efficientnet_lite0", "ghostnet_100", "repvgg_a0", "regnetz_005", "densenet121"), 64),
        **dict.fromkeys(("convnext_atto", "edgenext_xx_small", "mobilevit_xxs", "fastvit_t8", "poolformer_s12"), 64),
        **dict.fromkeys(
            ("vit_tiny_patch16_224", "deit_tiny_patch16_224", "cait_xxs24_224", "beit_base_patch16_224"), 224
        ),
        **dict.fromkeys(("swin_tiny_patch4_window7_224", "mixer_s32_224", "resmlp_12_224"), 224),
    }
    names = {name for name in timm.list_models() if name in sizes}

    def build(name: str) -> Callable[[], nn.Module]:
        return lambda: timm.create_model(name, pretrained=False)

    return {name: Network(build(name), image(size)) for name, size in sizes.items() if name in names}
