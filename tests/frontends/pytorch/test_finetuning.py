"""Adapters, weights in 4 bits, and optimizers of fine-tuning: sizes and costs by hand, and runs on data."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import costcore
from costcore import ComputationalCostHook, CostError, CostWarning, estimate, finetuned
from costcore.frontends.pytorch.finetuning import Adam8bit, Linear4bit
from costcore.studies.finetuning import METHODS, finetuning
from tests.command_line import main

RANK, BATCH = 4, 8

IN, OUT = 64, 128
"""The sizes of the layer that gets an adapter; the last one does not."""


def net():
    return nn.Sequential(nn.Linear(IN, OUT), nn.ReLU(), nn.Linear(OUT, 10))


# Of the frozen layers the backward pass is the gradient of inputs: only those of the last layer are needed, as the
# network's inputs need none. Adapters have the forward product, the gradient of weights, and of inputs for the second.
ADAPTER = IN * RANK + RANK * OUT
LORA = IN * OUT + OUT * 10 + ADAPTER + OUT * 10 + (ADAPTER + RANK * OUT)

# The norm of the adapted weight needs the product of both factors in the forward pass.
DORA_ONCE = OUT * RANK * IN


@pytest.mark.parametrize("base", [None, "nf4"])
@pytest.mark.parametrize(("kind", "once", "more"), [("lora", 0, 0), ("dora", DORA_ONCE, OUT)])
def test_adapters_are_trained_alone(kind, once, more, base):
    torch.manual_seed(0)
    model = net()
    adapted = finetuned(model, RANK, kind=kind, base=base)
    assert sum(p.numel() for p in adapted.parameters() if p.requires_grad) == ADAPTER + more
    report = estimate(adapted, (BATCH, IN), backward=True)
    assert report.total_report["macs"] == BATCH * LORA + once
    x = torch.randn(BATCH, IN)
    with ComputationalCostHook() as hook:
        adapted(x).sum().backward()
    assert hook.total_report["macs"] == report.total_report["macs"]
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_the_layers_that_get_adapters():
    names = [name for name, _ in finetuned(net(), RANK, targets=["2"]).named_modules() if name.endswith("lora_A")]
    assert names == ["2.lora_A"]
    for arguments, error, message in (
        ((RANK, "q_proj"), CostError, r"has no linear layer q_proj \(has 0, 2\)"),
        ((RANK, ["2", "v_porj"]), CostError, r"has no linear layer v_porj \(has 0, 2\)"),
        ((0,), ValueError, "rank of adapters must be at least 1"),
        *(((rank,), TypeError, "rank must be an integer") for rank in (8.0, True)),
        ((RANK, (), "lora", "int3"), ValueError, "unknown format of weights 'int3'"),
    ):
        with pytest.raises(error, match=message):
            finetuned(net(), *arguments)


class Experts(nn.Module):
    """As transformers keeps experts: matrices in one parameter of three axes."""

    def __init__(self):
        super().__init__()
        self.gate, self.weight = nn.Linear(IN, 4), nn.Parameter(torch.ones(4, IN, IN))

    def forward(self, x):
        return torch.einsum("bi,eij,be->bj", x, self.weight, self.gate(x))


def test_weights_of_experts_that_are_not_quantized_are_named():
    with pytest.warns(
        CostWarning, match=r"^16,384 weights outside linear layers, most in Experts, are not quantized to nf4"
    ):
        finetuned(nn.Sequential(Experts(), nn.Linear(IN, 10)), RANK, base="nf4")  # 4 matrices of 64 x 64
    finetuned(nn.Sequential(nn.Embedding(1000, IN), nn.Linear(IN, 10), nn.Linear(10, 10)), RANK, base="nf4")


def test_8_bit_states_of_shards():
    """A byte for each of two moments, and a float32 scale for 256 of them.

    The shard of the first of four processes has 32 and 3 of the rows of both layers, 128 and 10.
    """
    sizes = {1: (OUT * IN, OUT, 10 * OUT, 10), 4: (32 * IN, 32, 3 * OUT, 3)}
    for n, options in ((1, {}), (4, {"mesh": {"dp": 4}, "plan": "fully_sharded"})):
        report = estimate(net(), (BATCH, IN), optimizer="adamw_8bit", memory=True, **options)
        expected = sum(2 * (size + 4 * -(-size // 256)) for size in sizes[n])
        assert (report.status, report.memory.ledger.live("optimizer")[0]) == ("complete", expected)


def test_layers_of_gpt2_have_adapters():
    """Its layers are ``Conv1D``: 8 → 24, 8 → 8, 8 → 32 and 32 → 8, with 2 (in + out) parameters of rank 2 each."""
    config = GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=11, n_positions=16)
    model, ids = GPT2LMHeadModel(config).eval(), torch.arange(6)[None]
    for kind, base, more in (("lora", None, 0), ("dora", None, 24 + 8 + 32 + 8), ("lora", "nf4", 0)):
        adapted = finetuned(model, 2, kind=kind, base=base)
        trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
        assert trained == 2 * ((8 + 24) + (8 + 8) + (8 + 32) + (32 + 8)) + more
        assert adapted(ids).logits.shape == (1, 6, 11)
    layer = model.transformer.h[0].attn.c_attn
    assert torch.allclose(Linear4bit(layer).dequantized(), layer.weight.T, atol=0.02)


def test_tied_weights_stay_tied_and_frozen():
    model = nn.ModuleDict(
        {"table": nn.Embedding(10, 8), "inner": nn.Linear(8, 8), "head": nn.Linear(8, 10, bias=False)}
    )
    model["head"].weight = model["table"].weight
    adapted = finetuned(model, 2)
    assert adapted["head"].weight is adapted["table"].weight
    assert not adapted["head"].weight.requires_grad
    assert model["head"].weight.requires_grad


def test_four_bits_with_double_quantization():
    torch.manual_seed(0)
    linear = nn.Linear(256, 512)
    packed = Linear4bit(linear)
    # 4 bits, a scale of 8 bits for 64, one of 32 bits for 256 of these: 4.127 bits.
    size = 256 * 512
    stored = sum(each.nbytes for each in (packed.weight, packed.scale, packed.outer))
    assert stored == size // 2 + size // 64 + 4 * (size // 64 // 256)
    on_meta = Linear4bit(nn.Linear(256, 512, device="meta"))
    assert stored == sum(each.nbytes for each in (on_meta.weight, *on_meta.buffers()))
    x = torch.randn(4, 256)
    assert torch.allclose(packed(x), nn.functional.linear(x, packed.dequantized(), linear.bias), atol=1e-4)


def test_weights_in_four_bits_keep_their_values_nearly():
    torch.manual_seed(0)
    linear = nn.Linear(256, 256)
    error = (Linear4bit(linear).dequantized() - linear.weight).norm() / linear.weight.norm()
    assert error < 0.1


N = IN * OUT + OUT + OUT * 10 + 10
"""The parameters of the network."""

BLOCKS = sum(-(-n // 256) for n in (IN * OUT, OUT, OUT * 10, 10))


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("adamw", 8 * N + 4 * 4),  # four parameters have a step count each
        ("adam_8bit", 2 * N + 2 * 4 * BLOCKS),
        ("adamw_8bit", 2 * N + 2 * 4 * BLOCKS),
        ("lion", 4 * N),
        ("paged_adamw", 0),
        ("paged_adamw_8bit", 0),
    ],
)
def test_the_state_of_optimizers(name, state):
    memory = estimate(net(), (BATCH, IN), optimizer=name, memory=True).memory
    assert sum(block.nbytes for block in memory.ledger.blocks if block.kind == "optimizer") == state


def test_a_paged_optimizer_says_where_its_state_is():
    report = estimate(net(), (BATCH, IN), optimizer="paged_adamw", memory=True)
    assert report.status == "assumed"
    assert "is in host memory" in str(report.assumptions)


def test_a_step_of_8_bits_by_hand():
    # A parameter: the 10 operations of Adam (2 of them fma), 1 mul for the decay, and per moment 1 mul, 1 div, 9 cmp.
    step = estimate(net(), (BATCH, IN), optimizer="adamw_8bit").by("phase")["optimizer"]
    assert step["flops"] == N * (10 + 1 + 2 * 11)


@pytest.mark.parametrize("name", ["lion", "muon", "adafactor"])
def test_optimizers_without_named_state_are_counted(name):
    assert estimate(net(), (BATCH, IN), optimizer=name).by("phase")["optimizer"]["flops"] > 3 * N


@pytest.mark.parametrize("make", [lambda p: Adam8bit(p, lr=0.01)])
def test_8_bit_states_train(make):
    torch.manual_seed(0)
    linear, x = nn.Linear(16, 1), torch.randn(64, 16)
    goal, optimizer = x @ torch.randn(16, 1), make(linear.parameters())
    losses = []
    for _ in range(200):
        loss = ((linear(x) - goal) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5


def test_a_model_of_65_billion_parameters_on_48_gigabytes():
    """The claim of QLoRA, arXiv:2305.14314: it fits 48 GB, and 780 GB without adapters would not do."""
    sizes = {"hidden_size": 8192, "intermediate_size": 22016, "num_hidden_layers": 80, "num_attention_heads": 64}
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**sizes, use_cache=False)).to(torch.bfloat16)
    inputs = {"input_ids": ((1, 512), "int64")}
    (row,) = finetuning(model, inputs, "48 GB", rank=64, methods=["QLoRA"]).rows
    assert row.fits == "checkpointed"
    assert costcore.fit(model, inputs, "780 GB", optimizer="adamw", suggestions=False).fits is False


# The table of methods


CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}


def test_methods_on_the_command_line(tmp_path, capsys):
    (tmp_path / "a.json").write_text(json.dumps(CONFIG))
    model = f"hf:{tmp_path / 'a.json'}"
    assert main(["fit", model, "502 MiB", "--methods", "--seq", "64", "--lora", "4", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found["tables"][0]["rows"]
    assert [row["method"] for row in rows] == [*METHODS]
    needs = {row["method"]: row["needs"] for row in rows}
    assert needs["full, AdamW"] > needs["full, 8-bit AdamW"]
    assert needs["LoRA"] > needs["QLoRA"]
    assert any("QLoRA: assumed: the state" in remark for remark in found["remarks"])
    assert all(row["needs_checkpointed"] < row["needs"] for row in rows)


def test_the_exit_code_of_a_table_says_whether_a_method_fits(tmp_path, capsys, monkeypatch):
    """A narrow table keeps the verdict, and says which columns it leaves out."""
    (tmp_path / "a.json").write_text(json.dumps(CONFIG))
    monkeypatch.setenv("COLUMNS", "50")
    command = ["fit", f"hf:{tmp_path / 'a.json'}", "--methods", "--seq", "8"]
    assert main([*command[:2], "400 MiB", *command[2:]]) == 1
    out = capsys.readouterr().out
    assert "Fits" in out and "columns left out to fit 50 characters: " in out


def test_a_row_is_what_fit_says():
    config = {key: value for key, value in CONFIG.items() if key != "model_type"}
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**config)).to(torch.bfloat16)
    inputs = {"input_ids": ((2, 64), "int64")}
    found = finetuning({"a": model}, inputs, "1 GB", rank=4, methods=["LoRA"])
    (row,) = found.rows
    alone = costcore.fit(finetuned(model, 4), inputs, "1 GB", train=True, optimizer="adamw")
    assert (row.needs, row.fits) == (alone.needs["memory"], "yes")
    with pytest.raises(ValueError, match="unknown method 'magic'"):
        finetuning(model, inputs, "1 GB", methods=["magic"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--quantize", "nf4"], "--quantize needs --lora RANK"),
        (["--lora", "4", "--dora", "4"], "--lora cannot be used with --dora"),
        (["--methods"], "inputs are missing"),
        (["--methods", "--seq", "8", "--optimizer", "adamw"], "--methods has optimizers"),
    ],
)
def test_usage(tmp_path, capsys, args, message):
    (tmp_path / "a.json").write_text(json.dumps(CONFIG))
    with pytest.raises(SystemExit) as caught:
        main(["fit", f"hf:{tmp_path / 'a.json'}", "24 GB", "--train", *args])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
