"""Transformers of small configurations against closed forms, on a CPU and on the meta device."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from tests.frontends.pytorch.runs import GRAD_MODES, estimated, listed, macs, record
from tests.frontends.pytorch.transformers_differences import ANGLES_ARE_PRODUCTS, HAS_JOINED_EXPERTS
from tests.frontends.pytorch.unchanged import unchanged

N, T, S = 2, 16, 8
"""Sequences, tokens of each, and tokens that a decoder writes."""
D, F, L, V = 64, 128, 2, 100
"""Width, hidden units of a perceptron, layers, words."""
HEADS, GROUPS = 4, 2
"""Heads of queries, and of keys and values where they are grouped."""
KEYS = D // HEADS * GROUPS
EXPERTS, CHOSEN = 4, 2
FRAMES, MELS = 100, 8
"""Of sound, and the numbers each has."""

TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SIZES = {
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": L,
    "num_attention_heads": HEADS,
    "vocab_size": V,
    **TOKENS,
}


class Network(NamedTuple):
    build: Callable[[], nn.Module]
    inputs: dict[str, torch.Tensor]
    macs: int
    n_params: int | None = None


def words(length: int) -> torch.Tensor:
    return torch.zeros(N, length, dtype=torch.int64)


def attention(queries: int, keys: int, width: int = D) -> int:
    """Both products of all pairs, in all heads."""
    return 2 * queries * keys * width


def encoder(length: int) -> int:
    """One sequence through all layers: four projections, attention, a perceptron."""
    return L * (length * (4 * D * D + 2 * D * F) + attention(length, length))


def decoder(length: int, source: int) -> int:
    """The same, and attention to what was encoded, of which keys and values are projected; then all words."""
    crossed = length * 2 * D * D + source * 2 * D * D + attention(length, source)
    return encoder(length) + L * crossed + length * D * V


def llama(dtype: torch.dtype = torch.float32) -> nn.Module:
    return LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=GROUPS)).to(dtype)


def mixtral(dtype: torch.dtype) -> nn.Module:
    config = MixtralConfig(**SIZES, num_key_value_heads=GROUPS, num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN)
    return MixtralForCausalLM(config).to(dtype)


ANGLES = ANGLES_ARE_PRODUCTS * T * (D // HEADS // 2)
"""Those of a rotary embedding, once for all sequences."""
GROUPED = T * (2 * D * D + 2 * D * KEYS) + attention(T, T)
"""Projections of queries and output, of grouped keys and values; every query head still meets all keys."""
MIXTRAL = N * (L * (GROUPED + T * (D * EXPERTS + CHOSEN * 3 * D * F)) + T * D * V) + ANGLES
MIXTRAL_PARAMS = 2 * V * D + L * (2 * D * D + 2 * D * KEYS + D * EXPERTS + EXPERTS * 3 * D * F + 2 * D) + D
LLAMA = Network(
    llama,
    {"input_ids": words(T)},
    N * (L * (GROUPED + T * 3 * D * F) + T * D * V) + ANGLES,
    2 * V * D + L * (2 * D * D + 2 * D * KEYS + 3 * D * F + 2 * D) + D,
)

NETWORKS = {
    # the head: a layer of its own, then all words, by the embedding's matrix
    "bert": Network(
        lambda: BertForMaskedLM(BertConfig(**SIZES)),
        {"input_ids": words(T), "attention_mask": torch.ones(N, T, dtype=torch.int64)},
        N * (encoder(T) + T * (D * D + D * V)),
    ),
    # hidden units of the perceptron: four times the width; positions for 1024 tokens; words tied
    "gpt2": Network(
        lambda: GPT2LMHeadModel(GPT2Config(n_embd=D, n_layer=L, n_head=HEADS, vocab_size=V, **TOKENS)),
        {"input_ids": words(T)},
        N * (L * (T * 12 * D * D + attention(T, T)) + T * D * V),
        V * D + 1024 * D + L * (12 * D * D + 13 * D) + 2 * D,
    ),
    "llama": LLAMA,
    "llama with a mask": LLAMA._replace(
        inputs={"input_ids": words(T), "attention_mask": torch.ones(N, T, dtype=torch.int64)}
    ),
    "mixtral": Network(lambda: mixtral(torch.float32), {"input_ids": words(T)}, MIXTRAL, MIXTRAL_PARAMS),
    "mixtral in bfloat16": Network(lambda: mixtral(torch.bfloat16), {"input_ids": words(T)}, MIXTRAL, MIXTRAL_PARAMS),
    "t5": Network(
        lambda: T5ForConditionalGeneration(
            T5Config(d_model=D, d_kv=D // HEADS, d_ff=F, num_layers=L, num_heads=HEADS, vocab_size=V)
        ),
        {"input_ids": words(T), "decoder_input_ids": words(S)},
        N * (encoder(T) + decoder(S, T)),
    ),
    # two convolutions of three taps, the second of which halves the length
    "whisper": Network(
        lambda: WhisperForConditionalGeneration(
            WhisperConfig(
                d_model=D,
                vocab_size=V,
                num_mel_bins=MELS,
                max_source_positions=FRAMES // 2,
                decoder_start_token_id=1,
                suppress_tokens=[],
                begin_suppress_tokens=[],
                **{f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in WHISPER.items()},
                **TOKENS,
            )
        ),
        {"input_features": torch.zeros(N, MELS, FRAMES), "decoder_input_ids": words(S)},
        N * (FRAMES * D * MELS * 3 + FRAMES // 2 * D * D * 3 + encoder(FRAMES // 2) + decoder(S, FRAMES // 2)),
    ),
}

WHISPER = {"layers": L, "attention_heads": HEADS, "ffn_dim": F}


IN_FLOATS = ("to", "histc", "cumsum")


def compared(recorder: Any) -> list[tuple[Any, ...]]:
    """All calls, but those with which transformers counts the tokens of each expert, in floats on a CPU only."""
    return [entry for entry in listed(recorder) if not (entry[2].endswith("experts") and entry[0] in IN_FLOATS)]


@pytest.mark.parametrize("name", NETWORKS)
def test_an_estimate_is_the_closed_form_and_a_real_run(name):
    network = NETWORKS[name]
    model = network.build().eval()
    with unchanged(model):
        without_data = estimated(model, network.inputs)
    assert macs(without_data.calls) == network.macs
    assert without_data.n_params_model == sum(parameter.numel() for parameter in model.parameters())
    assert network.n_params in (None, without_data.n_params_model)
    is_balanced = HAS_JOINED_EXPERTS or not name.startswith("mixtral")  # equal words choose the same experts
    for mode in ("no_grad", "inference") if is_balanced else ():
        with GRAD_MODES[mode]():
            assert compared(record(lambda: model(**network.inputs))) == compared(without_data)
    assert macs(record(lambda: model(**network.inputs)).calls) == network.macs


@pytest.mark.parametrize("name", NETWORKS)
def test_the_backward_pass_is_that_of_a_real_run(name):
    network = NETWORKS[name]
    model = network.build().eval()

    def run():
        output = model(**network.inputs)
        tensors = [x for x in (output.logits, *vars(output).values()) if isinstance(x, torch.Tensor)]
        return tensors[0].sum().backward()

    found = [macs([c for c in r.calls if c.phase == "backward"]) for r in (record(run), on_logits(model, network))]
    assert found[0] == found[1]
    assert found[0] > network.macs


def on_logits(model: nn.Module, network: Network):
    """The estimate of the backward pass of the words alone."""

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, **inputs):
            return self.model(**inputs).logits

    return estimated(Words(), network.inputs, backward=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_hook_on_the_meta_device_counts_the_same(name):
    network = NETWORKS[name]
    model = network.build().eval().to("meta")
    inputs = {key: value.to("meta") for key, value in network.inputs.items()}
    with torch.no_grad():
        assert macs(record(lambda: model(**inputs)).calls) == network.macs


def test_assumptions_are_reported_with_their_module():
    shapes = {name: (tuple(x.shape), x.dtype) for name, x in NETWORKS["llama with a mask"].inputs.items()}
    assumptions = estimated(llama().eval(), shapes).assumptions
    assert {(each.is_branch, each.where) for each in assumptions} == {(True, "model")}
    assert all(re.fullmatch(r"masking_utils\.py:\d+ in \w+", each.line) for each in assumptions)
    assert estimated(llama().eval(), NETWORKS["llama with a mask"].inputs).assumptions == []
    assert estimated(llama().eval(), LLAMA.inputs).assumptions == []
