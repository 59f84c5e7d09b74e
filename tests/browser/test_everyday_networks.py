"""Pages of networks that people use: no error in the console, and marks in every chart."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import pytest
import torch
import transformers
from selenium.webdriver.support.ui import Select, WebDriverWait

from costcore import estimate
from tests.core import html_reports

STEP = {"backward": True, "memory": True, "optimizer": "adamw"}


class Network(NamedTuple):
    """A network as transformers builds it from its configuration, made small; its input; and the options of the run."""

    name: str
    config: dict[str, object]
    inputs: object
    options: dict[str, object]


TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100}
T5 = {"d_model": 32, "d_ff": 64, "d_kv": 16, "num_layers": 2, "num_heads": 2, "vocab_size": 100}
RESNET = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [2, 2], "layer_type": "basic"}
SWIN = {"image_size": 64, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 2]}

NETWORKS = (
    Network("ResNet", RESNET, (4, 3, 64, 64), STEP),
    Network("ResNet", RESNET, (1, 3, 71, 53), {}),
    Network("MobileNetV2", {"depth_multiplier": 0.35}, (2, 3, 64, 64), STEP),
    Network("ConvNext", {"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 2, 1]}, (1, 3, 64, 64), {}),
    Network("ViT", {**TEXT, "image_size": 32}, (2, 3, 32, 32), STEP),
    Network("Swin", SWIN, (1, 3, 64, 64), {}),
    Network("Bert", TEXT, (2, 24), {"dtype": "int64", **STEP}),
    Network("GPT2", GPT, ("batch", "tokens"), {"dtype": "int64"}),
    Network("Llama", TEXT, (1, 17), {"dtype": "int64", "memory": True}),
    Network("T5", T5, {"input_ids": (1, 9), "decoder_input_ids": (1, 5)}, {"dtype": "int64"}),
)

MARKS = {"map": "#map rect", "bars": "#bars .fill:not([hidden])", "scatter": "#scatter .dots"}


def report_of(network):
    config = getattr(transformers, f"{network.name}Config")(**network.config)
    model = getattr(transformers, f"{network.name}Model")(config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimate(model.train("backward" in network.options), network.inputs, **network.options)


def drawn(browser):
    """Return the number of marks in every chart, after the last of them was drawn, below the first screen."""
    WebDriverWait(browser, 60, 0.02).until(
        lambda _: browser.execute_script("return document.getElementById('scatter-note').textContent")
    )
    count = "return document.querySelectorAll(arguments[0]).length"
    return {name: browser.execute_script(count, selector) for name, selector in MARKS.items()}


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: f"{network.name}-{network.inputs}")
def test_every_chart_has_marks(network, shown):
    report = report_of(network)
    browser = shown(report)
    counts = drawn(browser)
    assert all(counts.values()), counts
    assert bool(report.symbols) == browser.find_element("id", "map-note").is_displayed()
    areas = browser.execute_script("return document.querySelectorAll('#memory-map .areas path').length")
    assert bool(areas) == ("memory" in network.options)
    for metric in ("macs", "mrw", "n_own"):
        Select(browser.find_element("id", "metric")).select_by_value(metric)
        assert drawn(browser)["map"] > 0


def batch_norm():
    return estimate(torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)), (8, 4), backward=True)


class Partial(torch.nn.Module):
    """A network with an operator that has no cost."""

    def forward(self, x):
        return torch.ops.costcore_page_test.wave(x) + x


def partial():
    library = torch.library.Library("costcore_page_test", "DEF")
    library.define("wave(Tensor x) -> Tensor")
    library.impl("wave", torch.empty_like, "Meta")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = estimate(Partial(), (2, 3))
    library._destroy()
    assert report.status == "partial"
    return report


@pytest.mark.parametrize(
    ("report", "charts"),
    [
        (batch_norm, {"map", "bars", "scatter"}),
        (lambda: estimate(torch.nn.ReLU(), (1,)), {"map", "bars", "scatter"}),
        (lambda: estimate(torch.nn.Flatten(), (2, 3, 4)), set()),
        (lambda: estimate(torch.nn.Identity(), (1,)), set()),
        (partial, {"map", "bars", "scatter"}),
        (lambda: batch_norm().fused("compiler"), {"map", "bars", "scatter"}),
        (lambda: batch_norm().time("h100-sxm5-80gb"), {"map", "bars", "scatter"}),
        (html_reports.hostile, {"map", "bars", "scatter"}),
    ],
    ids=["num_batches_tracked", "one element", "views", "empty", "partial", "fused", "timed", "hostile"],
)
def test_unusual_runs_have_pages(report, charts, shown):
    counts = drawn(shown(report()))
    assert {name for name, count in counts.items() if count} == charts


class MostlyCopies(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x, x]), x[:72] + 1


def test_no_number_of_the_table_is_cut(shown):
    """72 FLOPs; 4 * (1000 + 1000 + 2000) B of the copy and 4 * (72 + 72) B of the sum: 0.004344 FLOP/B."""
    browser = shown(estimate(MostlyCopies(), (1000,)))
    drawn(browser)
    cells = "[...document.querySelectorAll('#table td.n')]"
    found = browser.execute_script(f"return {cells}.map(e => [e.textContent, e.scrollWidth > e.clientWidth])")
    assert "0.004344" in [text for text, _ in found]
    assert [text for text, is_cut in found if is_cut] == []
