"""Training steps as the ledger counts them equal closed forms, worked out by hand."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from costcore import TrainingLedger, estimate
from tests.command_line import main
from tests.frontends.pytorch.differences import FUSES_GROUPED_QUERIES
from tests.frontends.pytorch.training_networks import (
    ATTENTION as PAIRS_MACS,
)
from tests.frontends.pytorch.training_networks import (
    BATCH,
    FORWARD,
    IDS,
    LAYERS,
    LINEAR,
    MLP,
    OUTPUT,
    SEQUENCE,
    TOKENS,
    WIDTH,
    Decoder,
    K,
    O,
    Q,
    V,
    with_adapters,
)
from tests.frontends.pytorch.transformers_differences import NEEDS_JOINED_EXPERTS

RANK = 4
CAUSAL = PAIRS_MACS * (SEQUENCE + 1) // (2 * SEQUENCE)  # T (T + 1) / 2 of T² pairs


def step_of(net, **options):
    return TrainingLedger(net, IDS, **options).stages[0].step


def test_full_training_is_three_times_the_forward_pass():
    step = step_of(Decoder())
    assert (step.macs("forward", "weights"), step.macs("forward", "attention")) == (TOKENS * LINEAR, PAIRS_MACS)
    assert step.model_flops() == 2 * 3 * FORWARD == step.hardware_flops()
    assert step.model_flops("causal") == 6 * (TOKENS * LINEAR + CAUSAL)


@pytest.mark.parametrize("dropout", [0.0, 0.1], ids=["fused gradient", "gradient as products"])
def test_causal_pairs_are_found_in_the_backward_pass(dropout):
    # Dropout makes PyTorch write attention's gradient as four products.
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)

        def forward(self, x):
            q, k, v = self.qkv(x).view(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)

    step = TrainingLedger(Attention(), (2, 6, 8)).stages[0].step
    # 2 samples x 2 heads x 6 x 6 pairs x 4 features, twice: 1152; 21 of 36 pairs: 672. Backward: twice that.
    # The input needs no gradient: qkv has one backward product.
    linear = 12 * 8 * 24
    assert step.macs("backward", "attention") == 2304
    assert step.model_flops() == 2 * (2 * linear + 3 * 1152)
    assert step.model_flops("causal") == 2 * (2 * linear + 3 * 672)


def test_attention_written_as_products_has_all_pairs_unless_masks_are_causal():
    step = step_of(Decoder(is_fused=False))
    assert step.model_flops() == step.model_flops("causal") == 6 * FORWARD
    assert step.masked == LAYERS
    stated = step_of(Decoder(is_fused=False), masks="causal")
    assert stated.model_flops("causal") == 6 * (TOKENS * LINEAR + CAUSAL)
    assert stated.masked == 0


def test_packed_documents_attend_within_themselves():
    step = step_of(Decoder(), document_lengths=[10, 6])
    allowed = 10 * 11 // 2 + 6 * 7 // 2  # causal within each: 55 + 21 = 76 of 256 pairs
    assert step.model_flops("packed") == 6 * (TOKENS * LINEAR + PAIRS_MACS * allowed // SEQUENCE**2)
    assert step.model_flops() == 6 * FORWARD
    whole = step_of(Decoder(), document_lengths=[16, 10, 6])  # of both sequences of the batch
    allowed = 16 * 17 // 2 + 55 + 21
    assert whole.model_flops("packed") == 6 * (TOKENS * LINEAR + PAIRS_MACS * allowed // (BATCH * SEQUENCE**2))


def test_checkpointing_recomputes_blocks_but_their_last_product():
    step = step_of(Decoder(), checkpoint="Block")
    recomputed = FORWARD - TOKENS * OUTPUT - LAYERS * TOKENS * MLP
    assert step.recompute_flops() == 2 * recomputed
    assert step.model_flops() == 6 * FORWARD
    assert step.hardware_flops() == 6 * FORWARD + 2 * recomputed


def test_adapters_train_with_input_gradients_above_the_first():
    step = step_of(with_adapters(RANK))
    down, up = WIDTH * RANK, RANK * WIDTH  # of queries; those of values have RANK x 16 at their end
    adapters = 2 * down + up + RANK * 16
    forward = FORWARD + TOKENS * LAYERS * adapters
    assert step.macs("forward", "weights") + step.macs("forward", "attention") == forward
    # The input of block 0 needs no gradient: its q, k, v have no backward product, and its two `down` have one.
    inputs = (LAYERS - 1) * (Q + K + V) + LAYERS * (O + 3 * MLP) + OUTPUT
    trained = LAYERS * 2 * adapters - 2 * down
    # The keys of block 0 need no gradient either; one fused kernel computes it nevertheless.
    unneeded = 0 if FUSES_GROUPED_QUERIES else PAIRS_MACS // (2 * LAYERS)
    assert step.model_flops() == 2 * (forward + TOKENS * (inputs + trained) + 2 * PAIRS_MACS - unneeded)
    assert step.parameters.trainable == LAYERS * adapters


def test_a_head_alone_has_one_product_in_the_backward_pass():
    net = Decoder().requires_grad_(False)
    net.head.requires_grad_(True)
    step = step_of(net)
    assert step.model_flops() == 2 * (FORWARD + TOKENS * OUTPUT)
    assert step.parameters.trainable == OUTPUT


def test_the_optimizer_is_apart_and_runs_once_per_step():
    # SGD: one fused multiply-add per parameter, two FLOPs.
    ledger = TrainingLedger(Decoder(), IDS, optimizer="sgd", accumulation=8, steps=5)
    step = ledger.stages[0].step
    n_params = step.parameters.total
    assert n_params == LINEAR + OUTPUT + LAYERS * 2 * 2 * WIDTH
    assert step.optimizer_flops == 2 * n_params
    assert ledger.optimizer_flops == 5 * 2 * n_params
    assert ledger.model_flops == 5 * 8 * 6 * FORWARD


def test_parameters_that_multiply_leave_out_tables_and_norms():
    assert step_of(Decoder()).parameters.multiplying == LINEAR


@pytest.fixture(scope="module")
def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        vocab_size=128,
        num_local_experts=8,
        num_experts_per_tok=2,
    )
    with torch.device("meta"):
        return estimate(MixtralForCausalLM(config), IDS, backward=True)


# Per layer: q, o 64 x 64, k, v 64 x 32, router 64 x 8, an expert three times 64 x 96.
EXPERT = 3 * 64 * 96
OTHER = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 64 * 8) + 64 * 128


@NEEDS_JOINED_EXPERTS
def test_experts_count_as_many_as_a_token_is_sent_to(mixtral):
    step = TrainingLedger(mixtral).stages[0].step
    attention = 2 * 2 * BATCH * 4 * SEQUENCE**2 * 16
    assert step.macs("forward", "experts") == TOKENS * 2 * 2 * EXPERT
    assert step.model_flops() == 6 * (TOKENS * (OTHER + 2 * 2 * EXPERT) + attention)
    norms = 5 * 64
    assert step.parameters.total == OTHER + 64 * 128 + norms + 2 * 8 * EXPERT
    assert step.parameters.active == OTHER + 64 * 128 + norms + 2 * 2 * EXPERT


@NEEDS_JOINED_EXPERTS
def test_a_capacity_factor_is_hardware_flops_of_experts(mixtral):
    step = TrainingLedger(mixtral, capacity_factor=1.25).stages[0].step
    assert step.model_flops() == TrainingLedger(mixtral).model_flops
    padded = 6 * TOKENS * 2 * 2 * EXPERT // 4
    assert step.hardware_flops() - step.model_flops() == padded
    causes = [
        {each.rule.convention: each.causes for each in TrainingLedger(mixtral, **options).rules}["korthikanti"]
        for options in ({}, {"capacity_factor": 1.25})
    ]
    assert causes[1] == {**causes[0], "capacity": -padded}


@NEEDS_JOINED_EXPERTS
def test_rules_of_several_stages_add_up(mixtral):
    ledger = TrainingLedger()
    ledger.add("first", mixtral, steps=3)
    ledger.add("second", mixtral, steps=4, padding_share=0.25)
    for rule in ledger.rules:
        if rule.flops is not None:
            of_step = int(mixtral.under(rule.rule.convention).total)
            if rule.rule.is_active:  # a token meets 2 of 8 experts: of 2 layers, 6 of 3 matrices of 64 x 96 are idle
                of_step -= 6 * TOKENS * 2 * 6 * 3 * 64 * 96
            padding = of_step * rule.rule.skips_padding
            assert rule.flops == 7 * of_step - padding, rule.rule.convention
            assert rule.causes.get("padding", 0) == -padding


def test_products_of_activations_without_a_softmax_are_not_attention():
    class Gram(nn.Module):
        def forward(self, x):
            return x @ x.transpose(-2, -1)

    step = TrainingLedger(estimate(nn.Sequential(nn.Linear(4, 4), Gram()), (2, 6, 4), backward=True)).stages[0].step
    assert step.macs("forward", "attention") == 0
    assert step.macs("forward", "activations") == 2 * 6 * 6 * 4
    assert step.macs("backward", "activations") == 2 * 2 * 6 * 6 * 4


class Cells(nn.Module):
    """An LSTM as its definition: one product of all inputs, one product of the state a step."""

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, x, h, c):
        states = []
        for gates in (x @ self.lstm.weight_ih_l0.T + self.lstm.bias_ih_l0).unbind():
            i, f, g, o = (gates + h @ self.lstm.weight_hh_l0.T).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
        return torch.stack(states)


class Whole(Cells):
    def forward(self, x, h, c):
        return self.lstm(x, (h[None], c[None]))[0]


@pytest.mark.parametrize("frozen", [(), ("weight_ih_l0",), ("weight_hh_l0",), ("weight_ih_l0", "weight_hh_l0")])
@pytest.mark.parametrize("state_needs", [False, True])
@pytest.mark.parametrize("input_needs", [False, True])
def test_an_lstm_has_the_gradients_of_its_cells(input_needs, state_needs, frozen):
    lstm = nn.LSTM(4, 16)
    for name in frozen:
        getattr(lstm, name).requires_grad_(False)
    inputs = (torch.ones(5, 4, 4, requires_grad=input_needs),)
    inputs += (torch.ones(4, 16, requires_grad=state_needs), torch.ones(4, 16, requires_grad=state_needs))
    whole, cells = (estimate(net, inputs, backward=True).by("phase") for net in (Whole(lstm), Cells(lstm)))
    assert whole["backward"]["macs"] == cells["backward"]["macs"]


NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        return ATTENTION
"""

FLAG = "nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"
LOWER = "torch.ones(16, 16, dtype=torch.bool).tril()"
MASK = f"nn.functional.scaled_dot_product_attention(q, k, v, attn_mask={LOWER})"
BY_HAND = f"(q @ k.mT).masked_fill(~{LOWER}, -torch.inf).softmax(-1) @ v"

# The layer takes 16 * 8 * 24 = 3,072 MACs forward and as many for the gradient of its weight: 12,288 FLOPs. Two
# products of 16 * 16 pairs of 8 take 4,096 MACs, three times in a step: 24,576 FLOPs, and 136 / 256 of it if causal.
# Documents of 10 and 6 tokens have 55 + 21 = 76 causal pairs.
ALL_PAIRS, CAUSAL_PAIRS, PACKED_PAIRS = 12_288 + 24_576, 12_288 + 13_056, 12_288 + 7_296
PACKED = ["--document-lengths", "10,6", "--pairs", "packed"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ALL_PAIRS),
        (["--attention", "computed"], CAUSAL_PAIRS),
        (["--pairs", "causal"], CAUSAL_PAIRS),
        (["--attention", "computed", "--pairs", "all"], ALL_PAIRS),
        (PACKED, PACKED_PAIRS),
        (["--attention", "computed", *PACKED], PACKED_PAIRS),
        (["--attention", "computed", "--document-lengths", "16", "--pairs", "packed"], CAUSAL_PAIRS),
    ],
)
@pytest.mark.parametrize("attention", [FLAG, MASK, BY_HAND], ids=["flag", "mask", "by hand"])
def test_computed_pairs_are_those_of_the_law(tmp_path, capsys, attention, options, expected):
    """A mask that is a tensor allows all pairs, unless they are computed or stated to be causal."""
    path = tmp_path / "net.py"
    path.write_text(NETWORK.replace("ATTENTION", attention))
    if attention != FLAG and ("computed" not in options or "10,6" in options):
        options = [*options, "--masks", "causal"]
    assert main(["train", f"{path}:Net", "--input", "1x16x8", "--tokens", "1e3", *options]) == 0
    assert re.search(r"Model FLOPs +\S+ +([\d,]+)", capsys.readouterr().out)[1] == f"{1000 * expected:,}"
