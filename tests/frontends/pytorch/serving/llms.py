"""Language models of published configurations, on the meta device."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoModelForCausalLM

CONFIGS = Path(__file__).parents[3] / "data" / "llm_configs.csv"
"""22 published configurations with closed forms of their costs, exact integers. The forms were derived by hand from the
papers of the models, and are independent of costcore: kv bytes 2 L H_kv Q (of DeepSeek L (rank + rope)), MACs per token
and key L H (d_qk + d_v), and the elements of all weights that multiply a token."""


class Llm(NamedTuple):
    """A row of the table."""

    name: str
    numbers: dict[str, int]

    def __getitem__(self, column: Any) -> Any:
        return self.numbers[column] if isinstance(column, str) else tuple.__getitem__(self, column)


def llms() -> list[Llm]:
    """All rows of the table."""
    with CONFIGS.open(encoding="utf-8") as file:
        return [
            Llm(row["model"], {k: int(v) for k, v in row.items() if v.lstrip("-").isdigit()})
            for row in csv.DictReader(file)
        ]


GPT2 = {"d_model": "n_embd", "layers": "n_layer", "n_heads": "n_head", "vocab": "vocab_size"}
LLAMA = {
    "d_model": "hidden_size",
    "layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "d_ff": "intermediate_size",
    "vocab": "vocab_size",
}
HEADS = {**LLAMA, "head_dim": "head_dim"}
MIXTRAL = {**LLAMA, "experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"}
QWEN_MOE = {
    **HEADS,
    "experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
    "d_expert": "moe_intermediate_size",
}

FAMILIES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "GPT": ("gpt2", GPT2, {}),
    "Llama": ("llama", HEADS, {}),
    "Mistral": ("mistral", HEADS, {"sliding_window": 4096}),
    "Mixtral": ("mixtral", MIXTRAL, {}),
    "Qwen2.5": ("qwen2", LLAMA, {}),
    "Qwen3-8": ("qwen3", HEADS, {}),
    "Qwen3-2": ("qwen3_moe", QWEN_MOE, {}),
    "Gemma-7": ("gemma", HEADS, {}),
    "Gemma-2": ("gemma2", HEADS, {"sliding_window": 4096}),
    "Phi-3": ("phi3", LLAMA, {"sliding_window": None, "pad_token_id": 0}),
    "Phi-2": ("phi", LLAMA, {}),
    "Falcon": ("falcon", {k: v for k, v in LLAMA.items() if k not in ("n_kv_heads", "d_ff")}, {}),
    "DeepSeek": ("deepseek_v3", {"layers": "num_hidden_layers", "vocab": "vocab_size"}, {}),
}


def build(llm: Llm, layers: int | None = None) -> Any:
    """The model, optionally with another number of layers."""
    kind, names, settings = next(family for start, family in FAMILIES.items() if llm.name.startswith(start))
    given = {names[column]: llm[column] for column in names}
    given["max_position_embeddings"] = llm["T"] if kind == "gpt2" else 32768  # a table of positions has parameters
    if layers is not None:
        given[names["layers"]] = layers
    tied = {"tie_word_embeddings": bool(llm["tied"])}
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **given, **settings, **tied)).eval()
