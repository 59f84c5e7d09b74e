"""``attention="computed"``: the pairs of queries and keys that masks allow, by hand."""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, ServingReport, TrainingLedger, estimate, plan
from tests.command_line import main

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


def pairs_in(report):
    return report.table("run", columns=["attention_pairs"]).rows[0]["attention_pairs"]


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


def test_a_run_without_attention_says_so():
    note = 'attention="computed" changes nothing: the run has no attention'
    assert estimate(nn.Linear(8, 8), (2, 8), attention="computed").trace.run.notes == (note,)
    assert not estimate(Attention(), (1, HEADS, T, WIDTH), attention="computed").trace.run.notes


def test_masks_of_numbers_count_as_masks_of_bools():
    mask = torch.zeros(T, T).masked_fill(~BAND, float("-inf"))

    class Biased(nn.Module):
        def forward(self, q):
            return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=torch.where(band(q), 0.0, -1e9))

    assert mask.isinf().sum() == T * T - window(4)
    assert macs(estimate(Biased(), (1, HEADS, T, WIDTH), attention="computed")) == [HEADS * window(4) * 2 * WIDTH]


# Attention that a model writes as products


def band(q):
    places = torch.arange(q.shape[-2], device=q.device)
    distance = places[:, None] - places
    return (distance >= 0) & (distance < 4)


def weighted(scores, q):
    return scores.softmax(-1) @ q


SPELLED = {
    "sum": lambda q: weighted(q @ q.mT * 0.5 + torch.where(band(q), 0.0, float("-inf")), q),
    "in place": lambda q: weighted((q @ q.mT).div_(2.0).add_(torch.where(band(q), 0.0, -1e9)), q),
    "masked_fill": lambda q: weighted((q @ q.mT).masked_fill(~band(q), float("-inf")), q),
    "where": lambda q: weighted(torch.where(band(q), q @ q.mT, torch.tensor(-1e9)), q),
    "einsum": lambda q: torch.einsum(
        "bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q, q).masked_fill(~band(q), -1e9).softmax(-1), q
    ),
    "batches of matrices": lambda q: torch.bmm(
        nn.functional.softmax(
            torch.baddbmm(torch.where(band(q), 0.0, -1e9).expand(HEADS, -1, -1) * 0, q[0], q[0].mT).masked_fill(
                ~band(q), -1e9
            ),
            -1,
        ),
        q[0],
    ),
    "two masks": lambda q: weighted((q @ q.mT).masked_fill(~band(q), -1e9) + torch.where(band(q), 0.0, -1e9), q),
    "bias and mask": lambda q: weighted(q @ q.mT + (q.sum(-1, keepdim=True).mT + torch.where(band(q), 0.0, -1e9)), q),
    "softcap, dropout and cast": lambda q: (
        nn.functional.dropout(
            ((q @ q.mT / 30).tanh() * 30).masked_fill(~band(q), -1e9).softmax(-1, dtype=torch.float64), 0.1
        ).to(q.dtype)
        @ q
    ),
    "sinks": lambda q: (
        torch.cat((q @ q.mT + torch.where(band(q), 0.0, -1e9), q[..., :1]), -1).softmax(-1)[..., :-1] @ q
    ),
}


@pytest.mark.parametrize("name", SPELLED)
def test_pairs_of_attention_in_products(name):
    class Attends(nn.Module):
        def forward(self, q):
            return SPELLED[name](q)

    q = torch.zeros(1, HEADS, T, WIDTH, requires_grad=True)
    report = estimate(Attends(), q, attention="computed", backward=True)
    assert sum(call["macs"] for call in report.layer_report.values()) == 3 * HEADS * window(4) * 2 * WIDTH
    assert sum(call["macs"] for call in estimate(Attends(), q).layer_report.values()) == HEADS * T * T * 2 * WIDTH
    (softmax,) = [call for call in report.layer_report.values() if call["op"] == "softmax"]
    sinks = HEADS * T * (name == "sinks")
    # An exponential and a division per pair, and all but one addition per row.
    assert softmax["flops"] == 3 * (HEADS * window(4) + sinks) - HEADS * T
    assert pairs_in(report) == 2 * HEADS * window(4)  # of scores, and of their gradients


def test_the_backward_pass_of_attention_may_be_products():
    class Attends(nn.Module):
        def forward(self, q):
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, dropout_p=0.1)

    q = torch.zeros(1, HEADS, T, WIDTH, requires_grad=True)
    report = estimate(Attends(), q, attention="computed", backward=True)
    assert report.total_report["macs"] == 3 * HEADS * CAUSAL * 2 * WIDTH


def test_an_unmasked_softmax_counts_all():
    report = estimate(lambda q: (q @ q.mT + q[..., :1]).softmax(-1) @ q, (1, HEADS, T, WIDTH), attention="computed")
    assert (report.total_report["macs"], report.notes) == (HEADS * T * T * 2 * WIDTH, [])


def test_operations_per_score_follow():
    report = estimate(Attention(), {"q": (1, 1, T, WIDTH), "is_causal": True}, attention="computed")
    (call,) = report.layer_report.values()
    # Products of scores and values, the scale, and softmax: 136 exp, 136 div, 136 - 16 add.
    assert call["flops"] == 2 * CAUSAL * WIDTH + CAUSAL + (2 * CAUSAL + CAUSAL - T)
    assert report.notes == [f"attention counts the {CAUSAL} of {T * T} query-key pairs that masks allow"]


def test_the_backward_pass_counts_the_same_pairs():
    q = torch.zeros(1, HEADS, T, WIDTH, requires_grad=True)
    report = estimate(Attention(), {"q": q, "is_causal": True}, attention="computed", backward=True)
    forward, backward = macs(report)
    assert (forward, backward) == (HEADS * CAUSAL * 2 * WIDTH, HEADS * CAUSAL * 4 * WIDTH)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_training_ledger_counts_the_pairs_of_masks(attention):
    transformers = pytest.importorskip("transformers")
    config = transformers.MistralConfig(**CONFIG, sliding_window=8, attn_implementation=attention)
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


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_serving_counts_the_pairs_of_masks(attention):
    transformers = pytest.importorskip("transformers")
    config = transformers.MistralConfig(**CONFIG, sliding_window=8, attn_implementation=attention)
    model = transformers.MistralForCausalLM(config).eval()
    everything, computed = ServingReport(model), ServingReport(model, attention="computed")
    pair = 2 * HEADS * 2 * WIDTH  # MACs of two layers
    prompt, after = everything.prefill(T), everything.prefill(T, cached=T // 2)
    assert prompt.macs - computed.prefill(T).macs == pair * (T * T - window(8))
    # 7 keys stay in the cache; each of 8 tokens sees itself and 7 before.
    assert after.macs - computed.prefill(T, cached=T // 2).macs == pair * (8 * 15 - 8 * 8)
    assert computed.prefill(T).needed_macs == computed.prefill(T).macs == prompt.needed_macs
    assert computed.decode(context=T).macs == everything.decode(context=T).macs


def test_plans_take_the_time_of_pairs_of_masks():
    transformers = pytest.importorskip("transformers")
    model = transformers.MistralForCausalLM(transformers.MistralConfig(**CONFIG, sliding_window=8))
    setup = {"devices": 2, "device": "h100-sxm5-80gb", "global_batch": 2, "micro_batches": [1], "meshes": [{"dp": 2}]}
    seconds = [
        min(each.seconds for each in plan(model, (("batch", 64), "int64"), **setup, attention=attention).plans)
        for attention in ("all", "computed")
    ]
    assert seconds[1] < seconds[0]


def test_the_default_says_how_many_pairs_masks_leave_out():
    report = estimate(Attention(), {"q": (1, HEADS, T, WIDTH), "is_causal": True})
    everything, allowed = HEADS * T * T, HEADS * CAUSAL
    note = f"attention counts all {everything} query-key pairs; causal masks and windows allow {allowed}"
    assert report.notes == [note]
    assert estimate(Attention(), (1, HEADS, T, WIDTH)).notes == []
    report = estimate(Attention(), {"q": (1, HEADS, "t", WIDTH), "is_causal": True})
    assert report.notes[0] == note.replace("all 512", "all 2*t**2").replace("allow 272", "allow t*(t + 1)")


def test_commands_count_the_pairs_of_masks(tmp_path, capsys):
    (tmp_path / "net.py").write_text(
        "import torch\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.line = torch.nn.Linear(8, 8)\n    def forward(self, x):\n        x = self.line(x)\n"
        "        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)\n"
    )
    target, given = f"{tmp_path / 'net.py'}:Net", ["--input", f"1x{T}x8", "--attention", "computed"]
    assert main([target, *given, "--columns", "attention_pairs", "--by", "run", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == str(CAUSAL)
    assert main(["train", target, *given, "--tokens", "1000", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"] == "causal"


def test_large_masks_that_are_given_are_read():
    size = 1100  # more values than are kept otherwise
    mask = torch.ones(size, size, dtype=torch.bool).tril()

    class Holds(Attention):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", mask)

        def forward(self, q):
            return weighted((q @ q.mT).masked_fill(~self.mask, -1e9), q)

    expected = size * (size + 1) // 2 * 2 * WIDTH
    given = {"q": (1, 1, size, WIDTH), "mask": mask}
    assert macs(estimate(Attention(), given, attention="computed")) == [expected]
    assert estimate(Holds(), (1, 1, size, WIDTH), attention="computed").total_report["macs"] == expected


def test_masks_without_values_are_listed():
    report = estimate(Attention(), {"q": (1, HEADS, T, WIDTH), "mask": (T, T)}, attention="computed")
    assert report.notes == ["attention: all pairs count where the values of a mask are unknown (calls: 1)"]


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


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.filterwarnings("ignore:.*assumption:costcore.CostWarning")
@pytest.mark.parametrize("place", ["closure", "attribute"])
def test_block_masks_may_be_made_once_outside_of_the_model(place):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 512, 512, device="cpu")

        def forward(self, q):
            return flex_attention(q, q, q, block_mask=outside if place == "closure" else self.mask)

    model, shape = Causal(), (1, HEADS, 512, WIDTH)
    outside = model.mask
    assert macs(estimate(model, shape)) == [HEADS * 512 * 512 * 2 * WIDTH]
    assert macs(estimate(model, shape, attention="computed")) == [HEADS * 10 * 128 * 128 * 2 * WIDTH]
    assert outside.kv_num_blocks.device.type == "cpu"


@pytest.mark.parametrize(
    ("name", "pairs"),
    [("causal_upper_left", CAUSAL), ("causal_lower_right", CAUSAL + 4 * T)],  # four earlier tokens, seen by all
)
def test_biases_of_pytorch_are_masks(name, pairs):
    make = getattr(pytest.importorskip("torch.nn.attention.bias"), name)
    q, k = torch.randn(1, HEADS, T, WIDTH), torch.randn(1, HEADS, T + 4, WIDTH)

    def attend(q, k):
        return nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=make(T, T + 4))

    with ComputationalCostHook() as hook:
        attend(q, k)
    assert macs(hook.report) == macs(estimate(attend, (q, k))) == [HEADS * T * (T + 4) * 2 * WIDTH]
    assert macs(estimate(attend, (q, k), attention="computed")) == [HEADS * pairs * 2 * WIDTH]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_without_functions_rests_on_no_assumption():
    from torch.nn.attention.flex_attention import flex_attention

    report = estimate(lambda q: flex_attention(q, q, q), (1, HEADS, T, WIDTH))
    assert (report.status, macs(report)) == ("complete", [HEADS * T * T * 2 * WIDTH])


IMPORTS = """
import torch
from costcore import estimate

def {name}(q):
    {code}

report = estimate({name}, (1, 2, 16, 8))
print(report.status, report.total_report["macs"])
"""


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("flex_attention", "from torch.nn.attention.flex_attention import flex_attention as f; return f(q, q, q)"),
        (
            "bias",
            "from torch.nn.attention.bias import causal_lower_right as f; "
            "return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=f(16, 16))",
        ),
    ],
)
def test_a_model_may_import_attention_as_it_runs(name, code):
    pytest.importorskip(f"torch.nn.attention.{name}")
    program = IMPORTS.format(name=name, code=code)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["complete", str(2 * 16 * 16 * 2 * 8)]


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


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_windows_of_language_models(name, attention):
    transformers = pytest.importorskip("transformers")
    settings, pairs = MODELS[name]
    config = getattr(transformers, f"{name}TextConfig" if name == "Gemma3" else f"{name}Config")
    settings = {**CONFIG, **settings, "attn_implementation": attention}
    model = getattr(transformers, f"{name}ForCausalLM")(config(**settings)).eval()
    given = {"input_ids": ((1, T), "int64")}
    everything, computed = (estimate(model, given, attention=each) for each in ("all", "computed"))
    left_out = everything.total_report["macs"] - computed.total_report["macs"]
    assert left_out == sum(HEADS * (T * T - each) * 2 * WIDTH for each in pairs)
    assert pairs_in(computed) == HEADS * sum(pairs)


def test_gpt_oss_takes_as_many_products_a_token_as_published():
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "GptOssConfig"):
        pytest.skip("this release of transformers has no gpt-oss")
    with torch.device("meta"):
        model = transformers.GptOssForCausalLM(transformers.GptOssConfig(attn_implementation="eager"))
    tokens = 4096
    report = estimate(model, ((1, tokens), "int64"), attention="computed")
    # 18 layers see all tokens before, 18 the last 128; 64 heads of 64.
    causal, near = tokens * (tokens + 1) // 2, 128 * 129 // 2 + (tokens - 128) * 128
    attention = 18 * (causal + near) * 64 * 2 * 64
    projections = 2880 * (64 + 2 * 8) * 64 + 64 * 64 * 2880
    experts = 2880 * 128 + 4 * (2880 * 2 * 2880 + 2880 * 2880)
    by_hand = tokens * (36 * (projections + experts) + 2880 * 201088) + attention
    assert report.total_report["macs"] == by_hand
    assert 6 * by_hand / tokens == pytest.approx(32.61e9, rel=0.004)  # of training, as published


def test_other_words_are_errors():
    with pytest.raises(ValueError, match="attention must be 'all' or 'computed'"):
        estimate(Attention(), (1, 1, 4, 4), attention="causal")
