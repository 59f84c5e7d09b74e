"""``attention="computed"``: the pairs of queries and keys that masks allow, by hand."""

import pytest
import torch
from torch import nn

from costcore import TrainingLedger, estimate

T, HEADS, WIDTH = 16, 2, 8

CAUSAL = T * (T + 1) // 2
"""1 + 2 + … + 16 pairs of a head."""


def window(size):
    """Pairs of a head whose tokens see themselves and up to ``size - 1`` tokens before."""
    return sum(min(i + 1, size) for i in range(T))


class Attention(nn.Module):
    def forward(self, q, mask=None, is_causal=False):
        return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask, is_causal=is_causal)


def macs(report):
    return [call["macs"] for call in report.layer_report.values() if call["op"].startswith("attention")]


BAND = torch.ones(T, T, dtype=torch.bool).tril() & torch.ones(T, T, dtype=torch.bool).triu(-3)

CASES = {
    "causal": ({"is_causal": True}, CAUSAL),
    "mask": ({"mask": BAND}, window(4)),
    "mask of every sample": ({"mask": BAND[None, None]}, window(4)),
    "all": ({}, T * T),
    "unknown mask": ({"mask": (T, T)}, T * T),
}


@pytest.mark.parametrize("name", CASES)
def test_pairs_of_masks(name):
    arguments, pairs = CASES[name]
    inputs = {"q": (1, HEADS, T, WIDTH), **arguments}
    # A score and a weighted value are products of 8 elements.
    assert macs(estimate(Attention(), inputs, attention="computed")) == [HEADS * pairs * 2 * WIDTH]
    assert macs(estimate(Attention(), inputs)) == [HEADS * T * T * 2 * WIDTH]


def test_operations_per_score_follow():
    report = estimate(Attention(), {"q": (1, 1, T, WIDTH), "is_causal": True}, attention="computed")
    (call,) = report.layer_report.values()
    # Products of scores and values, the scale, and softmax: 136 exp, 136 div, 136 - 16 add.
    assert call["flops"] == 2 * CAUSAL * WIDTH + CAUSAL + (2 * CAUSAL + CAUSAL - T)
    assert report.notes == [f"attention counts {CAUSAL} of {T * T} pairs of queries and keys: those that masks allow"]


def test_the_backward_pass_counts_the_same_pairs():
    q = torch.zeros(1, HEADS, T, WIDTH, requires_grad=True)
    report = estimate(Attention(), {"q": q, "is_causal": True}, attention="computed", backward=True)
    forward, backward = macs(report)
    assert (forward, backward) == (HEADS * CAUSAL * 2 * WIDTH, HEADS * CAUSAL * 4 * WIDTH)


def test_a_training_ledger_counts_the_pairs_of_masks():
    transformers = pytest.importorskip("transformers")
    config = transformers.MistralConfig(**CONFIG, sliding_window=8)
    model = transformers.MistralForCausalLM(config)
    found = {}
    for attention in ("all", "computed"):
        report = estimate(model, ((1, T), "int64"), attention=attention, backward=True)
        for pairs in ("all", "causal"):
            ledger = TrainingLedger(pairs=pairs)
            ledger.add("step", report, tokens=T)
            found[attention, pairs] = ledger.model_flops
    # A pair takes two products of 8 in the forward pass of each of two layers, and four in the backward pass.
    left_out = HEADS * (T * T - window(8)) * 2 * 6 * WIDTH * 2
    assert found["all", "all"] == found["computed", "all"] == found["all", "causal"]
    assert found["computed", "causal"] == found["all", "all"] - left_out


def test_pairs_are_formulas_in_sizes():
    report = estimate(Attention(), {"q": (1, HEADS, "t", WIDTH), "is_causal": True}, attention="computed")
    assert macs(report.subs(t=T)) == [HEADS * CAUSAL * 2 * WIDTH]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_block_masks_count_whole_blocks():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 512, 512, device="cpu")
    inputs = ((1, HEADS, 512, WIDTH), mask)
    report = estimate(lambda q, mask: flex_attention(q, q, q, block_mask=mask), inputs)
    assert macs(report) == [HEADS * 512 * 512 * 2 * WIDTH]
    report = estimate(lambda q, mask: flex_attention(q, q, q, block_mask=mask), inputs, attention="computed")
    assert macs(report) == [HEADS * 10 * 128 * 128 * 2 * WIDTH]  # 4 + 3 + 2 + 1 blocks of 128 by 128


CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": HEADS * WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "intermediate_size": 32,
    "vocab_size": 50,
}

MODELS = {
    "Llama": ({}, [CAUSAL, CAUSAL]),
    "Mistral": ({"sliding_window": 8}, [window(8), window(8)]),
    "Olmo": ({}, [CAUSAL, CAUSAL]),
    "Gemma3": (
        {"sliding_window": 4, "head_dim": WIDTH, "layer_types": ["sliding_attention", "full_attention"]},
        [window(4), CAUSAL],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_windows_of_language_models(name):
    transformers = pytest.importorskip("transformers")
    settings, pairs = MODELS[name]
    config = getattr(transformers, f"{name}TextConfig" if name == "Gemma3" else f"{name}Config")
    model = getattr(transformers, f"{name}ForCausalLM")(config(**CONFIG, **settings)).eval()
    report = estimate(model, ((1, T), "int64"), attention="computed")
    assert macs(report) == [HEADS * each * 2 * WIDTH for each in pairs]


def test_other_words_are_errors():
    with pytest.raises(ValueError, match="attention must be 'all' or 'computed'"):
        estimate(Attention(), (1, 1, 4, 4), attention="causal")
