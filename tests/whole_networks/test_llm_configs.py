"""Public language models as a whole: parameters and MACs equal closed forms of their configurations.

``tests/data/llm_configs.csv`` has a row per model, computed from the published configuration by closed forms:
parameters, those that a token meets, weights that multiply, and MACs per token and key. MACs are linear in the tokens
but for attention, so that short sequences decide.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
import transformers

from costcore import Tensor, estimate
from costcore.studies.training.step import Packing, Step
from tests.frontends.pytorch.transformers_differences import HAS_JOINED_EXPERTS, angles

pytestmark = pytest.mark.frontend("pytorch")

with (Path(__file__).parents[1] / "data" / "llm_configs.csv").open(encoding="utf-8", newline="") as table:
    MODELS = {row["model"]: row for row in csv.DictReader(table)}
SEQUENCE = 8


def number(row, name):
    return int(row[name])


def gpt2(row):
    return transformers.GPT2Config(
        n_layer=number(row, "layers"),
        n_embd=number(row, "d_model"),
        n_head=number(row, "n_heads"),
        vocab_size=number(row, "vocab"),
        n_positions=number(row, "T"),
    )


def common(row, **more):
    return {
        "num_hidden_layers": number(row, "layers"),
        "hidden_size": number(row, "d_model"),
        "num_attention_heads": number(row, "n_heads"),
        "num_key_value_heads": number(row, "n_kv_heads"),
        "intermediate_size": number(row, "d_ff"),
        "vocab_size": number(row, "vocab"),
        "tie_word_embeddings": bool(number(row, "tied")),
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
        **more,
    }


def deepseek(row):
    return transformers.DeepseekV3Config(**common(row, intermediate_size=18432, moe_intermediate_size=2048))


def falcon(row):
    return transformers.FalconConfig(
        num_hidden_layers=number(row, "layers"),
        hidden_size=number(row, "d_model"),
        num_attention_heads=number(row, "n_heads"),
        vocab_size=number(row, "vocab"),
        multi_query=True,
        parallel_attn=True,
        bias=False,
    )


def experts(row):
    return {"num_local_experts": number(row, "experts"), "num_experts_per_tok": number(row, "experts_per_token")}


def of_qwen(row):
    return {
        "num_experts": number(row, "experts"),
        "num_experts_per_tok": number(row, "experts_per_token"),
        "moe_intermediate_size": number(row, "d_expert"),
        "head_dim": number(row, "head_dim"),
    }


def with_heads(row):
    return {"head_dim": number(row, "head_dim")}


CONFIGURATIONS = {
    "GPT": gpt2,
    "Llama": lambda row: transformers.LlamaConfig(**common(row)),
    "Mistral": lambda row: transformers.MistralConfig(**common(row)),
    "Mixtral": lambda row: transformers.MixtralConfig(**common(row, **experts(row))),
    "Qwen2.5": lambda row: transformers.Qwen2Config(**common(row)),
    "Qwen3-8": lambda row: transformers.Qwen3Config(**common(row, **with_heads(row))),
    "Qwen3-235": lambda row: transformers.Qwen3MoeConfig(**common(row, **of_qwen(row))),
    "Gemma-7": lambda row: transformers.GemmaConfig(**common(row, **with_heads(row))),
    "Gemma-2": lambda row: transformers.Gemma2Config(**common(row, **with_heads(row))),
    "Phi-3": lambda row: transformers.Phi3Config(**common(row)),
    "Phi-2": lambda row: transformers.PhiConfig(**common(row, partial_rotary_factor=0.4)),
    "Falcon": falcon,
    "DeepSeek": deepseek,
}
"""The configuration of a model, by the beginning of its name."""


@pytest.mark.parametrize("name", MODELS)
def test_a_whole_model_equals_its_closed_form(name):
    row = MODELS[name]
    if number(row, "experts") and not HAS_JOINED_EXPERTS:
        pytest.skip("experts of this transformers are modules in a loop, which are all counted as active")
    config = next(make for start, make in CONFIGURATIONS.items() if name.startswith(start))(row)
    with torch.device("meta"):
        net = transformers.AutoModelForCausalLM.from_config(config)
    report = estimate(net, {"input_ids": Tensor((1, SEQUENCE), "int64")})
    step = Step(report, Packing(masks_are_causal=True))
    per_pair = number(row, "attention_macs_per_token_per_key")
    pairs = per_pair * SEQUENCE**2
    assert step.parameters.total == number(row, "params_total")
    assert step.parameters.active == number(row, "params_active")
    assert step.parameters.multiplying == number(row, "matmul_macs_per_token")
    assert step.macs("forward", "attention") == pairs
    linear = SEQUENCE * number(row, "matmul_macs_per_token")
    turned = angles(net, SEQUENCE)
    assert step.model_flops() == 2 * (linear + pairs + turned)
    assert step.model_flops("causal") == 2 * (linear + per_pair * SEQUENCE * (SEQUENCE + 1) // 2 + turned)
