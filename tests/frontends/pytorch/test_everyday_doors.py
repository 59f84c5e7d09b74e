"""Configurations of networks that people use, as files and as modules: every command and function gives one total."""

from __future__ import annotations

import json
from typing import Any

import pytest
import transformers
from torch import device

from costcore import Report, Tensor, estimate, table
from tests.command_line import main
from tests.frontends.pytorch.transformers_differences import LOOKS_FOR_PADDING

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = {"input_ids": Tensor((2, 8), "int64")}
IMAGE = {"pixel_values": Tensor((1, 3, 32, 32))}

NETWORKS: dict[str, tuple[Any, str, dict[str, Tensor]]] = {
    "bert": (transformers.BertConfig(**SMALL, vocab_size=50), "BertForSequenceClassification", WORDS),
    "gpt2": (transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=50), "GPT2LMHeadModel", WORDS),
    "llama": (transformers.LlamaConfig(**SMALL, vocab_size=50), "LlamaForCausalLM", WORDS),
    "t5": (
        transformers.T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, vocab_size=50),
        "T5ForConditionalGeneration",
        {**WORDS, "decoder_input_ids": Tensor((2, 4), "int64")},
    ),
    "vit": (transformers.ViTConfig(**SMALL, image_size=32, patch_size=8), "ViTForImageClassification", IMAGE),
    "convnext": (
        transformers.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1]),
        "ConvNextForImageClassification",
        IMAGE,
    ),
}

MODES = {
    "": (None, False),
    "--eval": ("evaluation", False),
    "--backward --eval": ("evaluation", True),
    "--train": ("train", True),
}
"""The mode, and whether a backward pass follows, by the options; a model of a library comes in evaluation mode."""


@pytest.mark.parametrize("flags", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_configuration_has_one_total(name, flags, tmp_path, monkeypatch, capsys, cost_budget):
    if name == "bert" and LOOKS_FOR_PADDING:
        pytest.skip("this transformers looks whether the first and last tokens are padding, which is assumed")
    monkeypatch.chdir(tmp_path)
    config, class_name, inputs = NETWORKS[name]
    mode, backward = MODES[flags]
    config.architectures = [class_name]
    config.to_json_file("config.json", use_diff=False)
    target = "hf:config.json"
    given = [f"{key}={'x'.join(map(str, each.shape))}:{each.dtype}" for key, each in inputs.items()]
    options = [*(word for each in given for word in ("--input", each)), *flags.split()]
    with device("meta"):
        model = getattr(transformers, class_name)(config)
    model.train(mode == "train")
    report = estimate(model, inputs, backward=backward)
    flops = report.total_report["flops"]

    assert main([target, *options, "--output", "report.json"]) == 0
    assert Report.from_json("report.json").total_report == report.total_report
    row = table([("model", target, inputs)], mode=mode, backward=backward).rows[0]
    assert (row.costs["flops"], row.costs["n_params"]) == (flops, report.total_report["n_params"])
    for limit, code in {flops: 0, flops - 1: 1}.items():
        (tmp_path / "budget.toml").write_text(f"[total]\nflops = {limit}")
        assert main(["check", target, *options, "--budget", "budget.toml"]) == code
    cost_budget(model, inputs, flops=flops, backward=backward)
    if backward:
        assert main(["train", target, *options, "--steps", "1", "--output", "training.json"]) == 0
        operations = json.loads((tmp_path / "training.json").read_text())["stages"][0]["micro_batch"]["operations"]
        assert sum(sum(each.values()) for each in operations.values()) == flops
    assert model.training == (mode == "train")
    assert "Traceback" not in capsys.readouterr().err
