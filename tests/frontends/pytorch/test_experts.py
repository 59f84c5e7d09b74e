"""Mixtures of experts: every spelling counts the same products, those of balanced experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    JambaConfig,
    JambaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SwitchTransformersConfig,
    SwitchTransformersForConditionalGeneration,
)

from costcore import ComputationalCostHook, estimate
from costcore.frontends.pytorch.meta.propagate_values import spread
from costcore.frontends.pytorch.meta.values import without_capture
from tests.frontends.pytorch.runs import estimated, macs
from tests.frontends.pytorch.transformers_differences import HAS_JOINED_EXPERTS, angles
from tests.frontends.pytorch.unchanged import unchanged

BALANCED = "a choice over scores without data (topk, argmax, sort) was assumed to be spread evenly"


class Experts(nn.Module):
    """A router and one linear layer per expert; ``loop`` adds what each expert returns for its tokens."""

    def __init__(self, loop: Callable[..., None], n_experts: int, k: int, width: int) -> None:
        super().__init__()
        self.loop, self.k = loop, k
        self.router = nn.Linear(width, n_experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(n_experts))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(self.k)
        y = torch.zeros_like(x)
        self.loop(self.experts, x, weights, chosen, y)
        return y


def by_mask(experts, x, weights, chosen, y):
    mask = nn.functional.one_hot(chosen, len(experts)).permute(2, 1, 0)
    for e, expert in enumerate(experts):
        place, token = torch.where(mask[e])
        y.index_add_(0, token, expert(x[token]) * weights[token, place, None])


def by_hits(experts, x, weights, chosen, y):
    mask = nn.functional.one_hot(chosen, len(experts)).permute(2, 1, 0)
    for (e,) in torch.greater(mask.sum((-1, -2)), 0).nonzero():
        place, token = torch.where(mask[e])
        y.index_add_(0, token, experts[e](x[None, token].reshape(-1, x.shape[1])) * weights[token, place, None])


def by_nonzero(experts, x, weights, chosen, y):
    for e, expert in enumerate(experts):
        rows, places = (chosen == e).nonzero().unbind(1)
        y[rows] += expert(x[rows]) * weights[rows, places].unsqueeze(1)


def by_any(experts, x, weights, chosen, y):
    for e, expert in enumerate(experts):
        mask = (chosen == e).any(-1)
        if mask.any():
            y[mask] += expert(x[mask])


def by_counts(experts, x, weights, chosen, y):
    order = chosen.flatten().argsort()
    counts = torch.bincount(chosen.flatten(), minlength=len(experts)).tolist()
    tokens = (order // chosen.shape[1]).split(counts)
    for expert, token in zip(experts, tokens, strict=True):
        if len(token):
            y.index_add_(0, token, expert(x[token]))


def by_unique(experts, x, weights, chosen, y):
    for e in chosen.unique().tolist():
        rows = torch.where(chosen == e)[0]
        y[rows] += experts[e](x[rows])


def by_gates(experts, x, weights, chosen, y):
    gates = x.new_zeros(len(x), len(experts)).scatter(1, chosen, weights)
    for e, expert in enumerate(experts):
        rows = gates[:, e].nonzero().squeeze(1)
        y.index_add_(0, rows, expert(x[rows]) * gates[rows, e, None])


def by_positive_gates(experts, x, weights, chosen, y):
    gates = x.new_zeros(len(x), len(experts))
    gates[torch.arange(len(x))[:, None], chosen] = weights
    tokens = gates.to(torch.float64).t().nonzero()[:, 1].split((gates > 0).sum(0).tolist())
    for expert, token in zip(experts, tokens, strict=True):
        y.index_add_(0, token, expert(x[token]))


def by_gates_in_place(experts, x, weights, chosen, y):
    gates = torch.zeros_like(x[:, :1]).repeat(1, len(experts)).scatter_(1, chosen, weights).bool()
    for e, expert in enumerate(experts):
        y[gates[:, e]] += expert(x[gates[:, e]])


LOOPS_OVER_GATES = [by_gates, by_positive_gates, by_gates_in_place]
LOOPS = [by_mask, by_hits, by_nonzero, by_any, by_counts, by_unique]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("tokens", "n_experts", "k"), [(8, 4, 2), (33, 8, 3), (7, 16, 2), (1, 4, 1)])
def test_each_token_meets_the_experts_it_chose(loop, tokens, n_experts, k):
    """Of 8 tokens of 16 numbers, each chooses 2 of 4 experts: 8 x 16 x 4 + 8 x 2 x 16 x 16 = 4608 MACs."""
    model = Experts(loop, n_experts, k, 16)
    with unchanged(model):
        report = estimate(model, (tokens, 16))
    assert report.total_report["macs"] == tokens * 16 * n_experts + tokens * k * 16 * 16
    if loop not in (by_mask, by_nonzero):  # these call all experts; the others skip those that no token chooses
        assert report.total_report["n_params"] == 16 * n_experts + min(n_experts, tokens * k) * 16 * 16
    assert {a.what for a in report.assumptions} == {BALANCED}
    assert report.status == "assumed"


@pytest.mark.parametrize("loop", LOOPS_OVER_GATES)
@pytest.mark.parametrize(("tokens", "n_experts", "k"), [(8, 4, 2), (33, 8, 3), (7, 16, 2), (1, 4, 1)])
def test_weights_written_into_zeros_say_which_experts_a_token_meets(loop, tokens, n_experts, k):
    report = estimate(Experts(loop, n_experts, k, 16), (tokens, 16))
    assert report.total_report["macs"] == tokens * 16 * n_experts + tokens * k * 16 * 16
    written = "numbers without data, written into zeros, were assumed to be positive"
    assert {a.what for a in report.assumptions} == {BALANCED, written}


@pytest.mark.filterwarnings("ignore::costcore.CostWarning")
def test_numbers_written_into_zeros_are_no_known_values():
    def values(x):
        gates = x.new_zeros(3).scatter(0, torch.tensor([1]), x)
        return x.expand(int(gates.sum() + 1)), x if gates[1] > 0.5 else x @ x

    report = estimate(values, (1,))
    assert report.total_report["macs"] == 1
    assert any("more expensive side" in a.what for a in report.assumptions)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_backward_pass_of_a_loop_is_twice_its_products(loop):
    """The gradient of the input is not needed; the router has none where its weights are not used."""
    calls = estimated(Experts(loop, 4, 2, 16), (8, 16), backward=True).calls
    experts = [call for call in calls if call.phase == "backward" and call.module.startswith("experts")]
    assert macs(experts) == 8 * 2 * 16 * 16


def test_a_loop_costs_what_a_balanced_run_does():
    """Every total, not only MACs: the router of the run is made balanced."""
    for loop in (by_mask, by_hits):
        model = Experts(loop, 4, 2, 16)
        same_as_a_run(model, {"x": torch.rand(8, 16)})


class BalancedRouters(TorchFunctionMode):
    """Makes ``topk`` and ``argmax`` of scores choose evenly; nothing more is recorded than without it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name not in ("topk", "argmax") or not args[0].is_floating_point():
            return result
        x, indices = args[0], result if name == "argmax" else result[1]
        with without_capture():
            k = indices.numel() * x.shape[-1] // x.numel()  # of the last axis, over which all of them choose
            chosen = spread(torch.Size((*x.shape[:-1], k)), x.dim() - 1, x.shape[-1], k)
            indices.copy_(chosen.reshape(indices.shape))
            if name == "topk":
                result[0].copy_(x.gather(-1, chosen))
        return result


def same_as_a_run(model: nn.Module, inputs: dict[str, torch.Tensor], but: tuple[str, ...] = ()) -> Any:
    """Check that all totals of an estimate are those of a run with data, and return the estimate."""
    model = model.eval()
    with unchanged(model):
        report = estimate(model, inputs)
    with torch.no_grad(), BalancedRouters(), ComputationalCostHook() as cch:
        model(**inputs)
    totals = [{k: v for k, v in r.total_report.items() if k not in ("n_params_model", *but)} for r in (report, cch)]
    assert totals[0] == totals[1]
    return report


D, F, L, V, E, K = 32, 48, 2, 50, 4, 2
B, T = 2, 6
SIZES = {
    "hidden_size": D,
    "intermediate_size": F,
    "num_hidden_layers": L,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": V,
    "num_experts_per_tok": K,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
IDS = {"input_ids": torch.arange(3, 3 + B * T).reshape(B, T)}

FAMILIES: dict[str, tuple[Callable[..., nn.Module], type, dict[str, Any]]] = {
    "mixtral": (MixtralForCausalLM, MixtralConfig, {"num_local_experts": E}),
    "qwen3_moe": (
        Qwen3MoeForCausalLM,
        Qwen3MoeConfig,
        {"num_experts": E, "moe_intermediate_size": 16, "head_dim": 8},
    ),
    "gpt_oss": (GptOssForCausalLM, GptOssConfig, {"num_local_experts": E, "head_dim": 8}),
    "deepseek_v3": (
        DeepseekV3ForCausalLM,
        DeepseekV3Config,
        {
            "n_routed_experts": E,
            "n_group": 2,
            "topk_group": 1,
            "moe_intermediate_size": 16,
            "first_k_dense_replace": 1,
            "num_key_value_heads": 4,
            "q_lora_rank": 16,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4,
            "v_head_dim": 8,
        },
    ),
    "jamba": (
        JambaForCausalLM,
        JambaConfig,
        {
            "num_experts": E,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "use_mamba_kernels": False,
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
        },
    ),
}

MOVED = {"gpt_oss": ("mread", "mwrite", "mrw", "n_layers")}
"""Totals that differ from a run by one ``.to(device)``, which copies on the meta device alone."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_spelling_of_experts_counts_the_same(family):
    if family == "gpt_oss" and not HAS_JOINED_EXPERTS:
        pytest.skip("experts of GPT-OSS of this transformers are computed on all tokens but on a CPU")
    build, make_config, sizes = FAMILIES[family]
    found = {}
    for spelling in ("eager", "batched_mm", "grouped_mm"):
        config = make_config(**{**SIZES, **sizes})
        config._experts_implementation = spelling
        report = same_as_a_run(build(config), IDS, but=MOVED.get(family, ()))
        found[spelling] = report.total_report["macs"]
        is_loop = spelling == "eager" or not HAS_JOINED_EXPERTS
        assert {a.what for a in report.assumptions} == ({BALANCED} if is_loop else set())
        assert all(a.line.startswith("modeling_") for a in report.assumptions)
    assert len(set(found.values())) == 1


def test_mixtral_in_a_loop_is_its_closed_form():
    """Per token: four projections, attention to all, the router, two experts of three products; then all words."""
    config = MixtralConfig(**SIZES, num_local_experts=E)
    config._experts_implementation = "eager"
    attention = T * (2 * D * D + 2 * D * D // 2) + 2 * T * T * D
    expected = B * (L * (attention + T * (D * E + K * 3 * D * F)) + T * D * V)
    model = MixtralForCausalLM(config).eval()
    assert estimate(model, IDS).total_report["macs"] == expected + angles(model, T)
    assert estimate(model, IDS, backward=True).total_report["macs"] == 3 * expected + angles(model, T)


def test_switch_transformers_names_experts_by_a_tensor():
    config = SwitchTransformersConfig(
        vocab_size=V,
        d_model=D,
        d_kv=8,
        d_ff=F,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        num_experts=E,
        expert_capacity=64,
        decoder_start_token_id=0,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
    )
    inputs = {**IDS, "decoder_input_ids": IDS["input_ids"][:, :4]}
    same_as_a_run(SwitchTransformersForConditionalGeneration(config), inputs)
