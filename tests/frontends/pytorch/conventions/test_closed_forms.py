"""Closed forms of transformers, from sizes that a small GPT shows in its calls."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from costcore import CostError, estimate

VOCABULARY, WIDTH, HEADS, LAYERS, TOKENS, BATCH = 50, 8, 2, 3, 6, 4


class Block(nn.Module):
    def __init__(self, is_fused):
        super().__init__()
        self.is_fused = is_fused
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        if self.is_fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = (q @ k.transpose(-2, -1) / 2).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.down(F.gelu(self.up(x)))


class GPT(nn.Module):
    def __init__(self, is_fused=True):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block(is_fused) for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.blocks(self.embedding(ids)))


@pytest.fixture(scope="module", params=[True, False], ids=["fused", "spelled out"])
def report(request):
    return estimate(GPT(request.param), torch.zeros(BATCH, TOKENS, dtype=torch.int64, device="meta"))


# Each block has 8 * 24 + 8 * 8 + 8 * 32 + 32 * 8 = 768 parameters; the tied embedding, 50 * 8 = 400, does not count.
PARAMETERS = 3 * 768
ALL_TOKENS = 4 * 6


def test_parameters_times_tokens(report):
    assert report.under("2nd").total == 2 * PARAMETERS * ALL_TOKENS == 110_592
    view = report.under("6nd")
    assert view.total == 6 * PARAMETERS * ALL_TOKENS == 331_776
    assert view.by_term == {"forward": 110_592, "backward": 221_184}
    assert (view.unit, view.by_call["embedding-1"]) == ("FLOP", 0)


def test_palm_adds_attention_over_the_whole_sequence(report):
    # 12 per layer, head, feature of a head, position and token: 12 * 3 * 2 * 4 * 6 * 24
    assert report.under("palm").by_term == {"parameters": 331_776, "attention": 41_472}
    assert report.under("palm").total == 373_248


def test_megatron_takes_the_shape_for_granted(report):
    # 72 B s l h² (1 + s / 6h + V / 12lh) with B s = 24, l = 3, h = 8, s = 6, V = 50
    assert report.under("megatron").by_term == {
        "layers": 72 * 24 * 3 * 64,
        "attention": 12 * 24 * 6 * 3 * 8,
        "logits": 6 * 24 * 8 * 50,
    }
    assert report.under("megatron").total == round(72 * 24 * 3 * 64 * (1 + 6 / (6 * 8) + 50 / (12 * 3 * 8)))


def test_a_closed_form_has_no_amounts_of_calls(report):
    view = report.under("palm")
    assert set(view.by_call.values()) == {0}
    assert view.ignored == {}
    assert all(call is None for call, _ in view.lines)
    asked = (
        lambda: view.show_report(),
        lambda: view.show_layers(),
        lambda: view.tree(),
        lambda: view.by("module"),
        lambda: view.by("op"),
    )
    for ask in asked:
        with pytest.raises(CostError, match="closed form of the whole network, computed from its sizes"):
            ask()
    reason = "convention 'palm' is a closed form of the whole network, computed from its sizes and not from its calls"
    assert reason in view.describe() and reason in view._repr_markdown_()


def test_a_network_without_attention_has_no_such_form():
    with pytest.raises(CostError, match="attention"):
        estimate(nn.Linear(4, 4), (2, 4)).under("palm")
