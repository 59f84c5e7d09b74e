"""Formulas of language models of Transformers, and of their training steps, against estimates at integer sizes."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
import torch

from costcore import estimate
from tests.frameworks import optional

transformers = optional("transformers")

COLUMNS = ("macs", "flops", "mread", "mwrite", "n_params")
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 50, "intermediate_size": 24}
GROUPED = {**SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
MODELS = {
    "Llama": GROUPED,
    "Mixtral": {**GROUPED, "num_local_experts": 4},
    "Bert": {**SMALL, "num_attention_heads": 2, "pad_token_id": None},  # with one, transformers 4 looks for it
    "GPT2": {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 50, "bos_token_id": 1, "eos_token_id": 2},
    "Mamba": {**SMALL, "state_size": 4, "expand": 1},
}
HEADS = {"Bert": "ForMaskedLM", "GPT2": "LMHeadModel"}


@cache
def model(name):
    config = getattr(transformers, f"{name}Config")(**MODELS[name])
    with torch.device("meta"):
        return getattr(transformers, name + HEADS.get(name, "ForCausalLM"))(config)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"backward": True, "optimizer": "adamw"}) for name in ("Llama", "Mixtral", "Bert", "GPT2")),
        ("Mamba", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "training" if value else "forward",
)
def test_formulas_equal_estimates(name, options):
    from tests.frontends.pytorch.transformers_differences import HAS_JOINED_EXPERTS

    if name == "Mixtral" and not HAS_JOINED_EXPERTS:
        pytest.skip("the numbers of tokens of separate experts are rounded, and have no formula")
    net, random = model(name), Random(name)
    report = estimate(net, {"input_ids": (("batch", "seq"), "int64")}, ranges={"seq": (8, 64)}, **options)
    batch, seq = random.randint(2, 9), random.randint(8, 64)
    expected = estimate(net, {"input_ids": ((batch, seq), torch.int64)}, **options).total_report
    found = report.subs(batch=batch, seq=seq).total_report
    assert [found[key] for key in COLUMNS] == [expected[key] for key in COLUMNS]
