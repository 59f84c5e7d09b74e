"""``costcore serve``: the table of a model on devices."""

from __future__ import annotations

import json
import re

import pytest

from tests.command_line import main
from tests.frontends.pytorch.transformers_differences import ANGLES_ARE_PRODUCTS

SOURCE = """
import torch
from transformers import AutoModelForCausalLM, DeepseekV3Config, LlamaConfig

SIZES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=100)


def llama():
    return AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, intermediate_size=96, dtype="bfloat16"))


def deepseek():
    latent = dict(first_k_dense_replace=2, q_lora_rank=None, num_key_value_heads=4)
    return AutoModelForCausalLM.from_config(DeepseekV3Config(**SIZES, **latent))


net = torch.nn.Linear(3, 3)
"""


@pytest.fixture
def nets(tmp_path):
    (tmp_path / "nets.py").write_text(SOURCE)
    return f"{tmp_path / 'nets.py'}"


def test_the_table(nets, capsys):
    args = [
        "--device",
        "h100-sxm5-80gb,l4",
        "--batch",
        "1,8",
        "--context",
        "100",
        "--weights",
        "int4",
        "--format",
        "csv",
    ]
    assert main(["serve", f"{nets}:llama", *args]) == 0
    out, notes = capsys.readouterr()
    title, *rows = out.splitlines()
    assert title.startswith("Device,Phase,Batch,MACs/token")
    assert [row.split(",")[:3] for row in rows] == [
        [device, phase, batch]
        for device in ("h100-sxm5-80gb", "l4")
        for phase, batch in (("prefill", "1"), ("decode", "1"), ("decode", "8"))
    ]
    assert "best case on l4: weights and KV cache are read once per step; real servers are slower" in notes
    assert "hold 100% of these bytes" in notes  # such a small model stays in the caches


def test_all_figures_as_json(nets, tmp_path):
    output = tmp_path / "serving.json"
    args = ["--device", "l4", "--batch", "2", "--context", "10", "--kv", "fp8", "--memory", "1 GB"]
    assert main(["serve", f"{nets}:llama", *args, "--output", str(output)]) == 0
    prefill, decode = json.loads(output.read_text())
    linear = 2 * (4 * 64 * 64 + 3 * 64 * 96) + 100 * 64
    angles = 8 if ANGLES_ARE_PRODUCTS else 0  # of half a head of 16, for both sequences
    assert decode["macs_per_token"] == linear + 10 * 2 * 2 * 64 + angles / 2
    assert decode["kv_bytes"] == 2 * 10 * 2 * 2 * 64  # two sequences of 10 keys and values of 64 bytes in 2 layers
    assert decode["bound_seconds"] == (decode["weight_bytes"] + decode["kv_bytes"]) / 300e9
    stored = 2 * (linear + 100 * 64 + 5 * 64)
    assert prefill["sequences"] == decode["sequences"] == (900_000_000 - stored) // (10 * 2 * 2 * 64)


def test_the_page_shows_what_fills_the_device(nets, tmp_path):
    """Weights, the caches of the sequences that fit, a tenth for the rest, and what no sequence fits into."""
    page = tmp_path / "serving.html"
    assert main(["serve", f"{nets}:llama", "--device", "l4", "--context", "16", "--output", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    (bar,) = re.findall(r"<svg class='stack'.*?</svg>", text)
    assert re.findall(r"<rect class='(\w+)'", bar)[:3] == ["parameter", "kv", "workspace"]
    assert "<code>costcore serve " in text and "<h1><bdi>LlamaForCausalLM</bdi></h1>" in text


def test_request_rates(nets, capsys, tmp_path):
    asked = ["serve", f"{nets}:llama", "--device", "l4", "--prompt", "16", "--output", "4", "--batch", "1,4"]
    assert main([*asked, "--tpot", "1 ms", "--mesh", "tp=2", "--link", "pcie4-x16"]) == 0
    text = capsys.readouterr().out
    assert "2 x l4: 16 tokens in, 4 out" in text
    assert "per token at most 1.0 ms" in text
    output = tmp_path / "rates.csv"
    assert main([*asked[:-4], "--new-tokens", "4", "--output", str(output)]) == 0
    assert output.read_text().startswith("batch,ttft_seconds,tpot_seconds")
    assert main([*asked, "--mesh", "tp=2,ep=2", "--link", "pcie4-x16"]) == 1
    assert "LlamaForCausalLM has no experts to share" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--device", "l4", "--prompt", "16"], "add --new-tokens 256"),
        (["--device", "l4", "--prompt", "16", "--output", "rates.csv"], "add --new-tokens 256"),
        (["--device", "l4", "--output", "16"], "add --prompt 1024"),
        (["--device", "l4", "--ttft", "1 s"], "--ttft needs a request: add --prompt 1024 --new-tokens 256"),
        (
            ["--device", "l4", "--prompt", "64", "--output", "8", "--mesh", "tp=2"],
            "--mesh needs the link between the devices: add --link nvlink4",
        ),
        (["--device", "l4", "--prompt", "16", "--output", "4", "--price", "two"], "--price must be a price of an hour"),
        (["--device", "l4", "--prompt", "16", "--output", "4", "--mesh", "dp=2"], "expected tp=N"),
        (["--device", "l4", "--prompt", "16", "--output", "4", "--mix", "a"], "--mix must be numbers"),
        (["--device", "h10"], "unknown device 'h10'"),
        (["--device", "l4", "--batch", "1,x"], "--batch must be positive integers"),
        (["--device", "l4", "--context", "0"], "--context must be at least 1"),
        (["--device", "l4", "--weights", "int44"], "--weights: unknown format 'int44'"),
        (["--device", "l4", "--output", "a.txt"], "has an unknown suffix"),
        (["--device", "l4", "--memory", "much"], "--memory"),
        (["--device", "l4", "--share", "2"], "share must be a number above 0"),
    ],
)
def test_usage_errors(nets, capsys, args, message):
    with pytest.raises(SystemExit) as caught:
        main(["serve", f"{nets}:llama", *args])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "devices"),
    [
        ([], 1),
        (["--mesh", "tp=2", "--link", "pcie4-x16"], 2),
        (["--prefill-device", "h100"], 1),
        (["--chunk", "8"], 1),
    ],
)
def test_the_price_of_requests(nets, tmp_path, capsys, options, devices):
    """At 3.60 an hour a device costs 0.001 a second; a request has 16 tokens in and 4 out."""
    output = tmp_path / "rates.json"
    asked = ["serve", f"{nets}:llama", "--device", "l4", "--prompt", "16", "--output", "4", "--batch", "1,4"]
    assert main([*asked, "--price", "3.60/h", "--output", str(output), *options]) == 0
    (table,) = json.loads(output.read_text())["tables"]
    for row in table["rows"]:
        each = devices * 0.001 / row["requests_per_second"]
        if "--chunk" in options:
            assert "price_per_million_input" not in row
            assert row["price_per_million"] == pytest.approx(1e6 * each / 20)
            continue
        prefill, decode = 16 * row["price_per_million_input"] / 1e6, 4 * row["price_per_million_output"] / 1e6
        assert prefill == pytest.approx(devices * 0.001 * row["ttft_seconds"])
        if "--prefill-device" not in options:
            assert prefill + decode == pytest.approx(each)
            assert row["price_per_million"] == pytest.approx(1e6 * each / 20)
        else:  # decode steps alone limit the rate
            assert decode == pytest.approx(each)
    assert main([*asked, "--price", "3.60/h", *options]) == 0
    assert "prices of 1M tokens are minimums, at 3.6 an hour for every device" in capsys.readouterr().out


def test_which_peak_and_precision_are_used(nets, capsys):
    """1,070.5 TFLOP/s at 1980 MHz, 989.4 as printed; a model in float32 has no product on tensor cores."""
    asked = ["serve", f"{nets}:llama", "--device", "h100", "--batch", "1", "--context", "16", "--dtype"]
    assert main([*asked, "bfloat16"]) == 0
    peak = "1,070.5 TFLOP/s (bfloat16), at its highest clock, so that bounds hold"
    assert (
        f"note: peak of h100-sxm5-80gb: {peak}; MFU is relative to 989.4 TFLOP/s, of the data sheet\n"
        in capsys.readouterr().err
    )
    assert main([*asked, "float32"]) == 0
    idle = "note: products in float32, the dtype of the model, leave the matrix engine of h100-sxm5-80gb idle: type"
    assert idle in capsys.readouterr().err
    assert main([*asked[:2], "--device", "l4", *asked[4:], "bfloat16", "--prompt", "16", "--output", "4"]) == 0
    assert "peak of" not in capsys.readouterr().out  # both are 121 TFLOP/s


def test_the_price_of_a_million_tokens(nets, tmp_path, capsys):
    """At 3.60 an hour a second costs 0.001, and a million tokens as many seconds as the bound has."""
    output = tmp_path / "serving.json"
    args = [f"{nets}:llama", "--device", "l4", "--batch", "2", "--context", "10"]
    assert main(["serve", *args, "--price", "3.60/h", "--output", str(output)]) == 0
    for row in json.loads(output.read_text()):
        assert row["price_per_million"] == pytest.approx(1e6 / row["tokens_per_second"] * 0.001)
    assert main(["serve", *args, "--price", "3.60/h", "--format", "csv"]) == 0
    assert "Price of 1M tokens" in capsys.readouterr().out
    assert main(["serve", *args, "--format", "csv"]) == 0
    assert "Price" not in capsys.readouterr().out
