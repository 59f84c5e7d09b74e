"""The time of whole networks: against other counters, other spellings of the same run, and figures by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from costcore import CostError, Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch")

if "pytorch" in frameworks.available():
    import torch
    from torch import nn
    from torch.utils.flop_counter import FlopCounterMode

    from tests.whole_networks import pytorch_models as models
    from tests.whole_networks.exporters import EXPORTERS, all_different, export

IMAGE = (1, 3, 224, 224)


def device(folder: Path, sections: dict[str, dict[str, object]]) -> str:
    """Return the path of a device file with these numbers only; rates are in 1e12 per second."""
    lines = ['name = "tera"', 'kind = "gpu"', "fast_convolution = false"]
    for section, numbers in sections.items():
        lines += [f"[{section}]", *(f"{name} = {value}" for name, value in numbers.items())]
    (folder / "tera.toml").write_text("\n".join(lines))
    return str(folder / "tera.toml")


NETWORKS = {
    "resnet50": lambda: models.resnet50(),
    "mobilenet_v2": lambda: models.mobilenet_v2(),
    "densenet121": lambda: models.densenet121(),
    "vit": lambda: models.ViT(),
    "bert": lambda: models.Bert(),
    "lstm": lambda: nn.LSTM(64, 128, 2),
}


def inputs_of(name):
    """The inputs of a network as shapes."""
    if name == "bert":
        return torch.ones(2, 64, dtype=torch.int64)
    return (7, 3, 64) if name == "lstm" else IMAGE


@cache
def report(name: str, backward: bool = False) -> Report:
    net = models.without_data(NETWORKS[name])
    return estimate(net if backward else net.eval(), inputs_of(name), backward=backward)


def test_a_norm_over_an_image_is_read_once_by_the_best_kernel():
    """A compiler splits its one long row and reads it twice; a bound holds for kernels that need not."""
    trace = estimate(nn.GroupNorm(1, 64), (1, 64, 512, 512))
    unfused, fused = (trace.time("l4", fusion=level).bound_seconds for level in ("none", "pointwise"))
    assert (
        trace.fused("pointwise").total_report["mread"] > 2 * 64 * 512 * 512 * 4
    )  # the image twice, and 2 x 64 numbers
    assert fused == unfused


def test_products_take_as_long_as_another_counter_says(tmp_path):
    """Without padding and masks nothing can be skipped: FLOPs of FlopCounterMode at 1e12 per second."""
    net, tokens = models.without_data(models.Bert).eval(), torch.ones(2, 64, dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net(tokens)
    matrix = device(tmp_path, {"peak.matrix": {"float16": 1.0}})
    total = report("bert").time(matrix, dtype="float16").by_type()["total"]
    assert total["matrix_seconds"] == pytest.approx(counter.get_total_flops() / 1e12)


@pytest.mark.parametrize("name", NETWORKS)
def test_another_dtype_is_that_of_a_converted_model(name):
    inputs = inputs_of(name)
    converted = estimate(models.without_data(NETWORKS[name]).bfloat16().eval(), inputs)
    ours, theirs = report(name).time("l4", dtype="bfloat16"), converted.time("l4")
    assert [(each.name, each.read, each.written) for each in ours.groups] == [
        (each.name, each.read, each.written) for each in theirs.groups
    ]
    assert ours.bound_seconds == pytest.approx(theirs.bound_seconds)


def test_one_token_takes_as_long_as_reading_the_weights(tmp_path):
    """A multilayer perceptron on one row: 20 weights of 1000 x 1000 and their biases in float16 at 1e12 B/s."""
    net = models.without_data(lambda: nn.Sequential(*(nn.Linear(1000, 1000) for _ in range(20))))
    peak = {"peak.vector": {"float32": 1.0}}
    tera = device(tmp_path, {**peak, "memory": {"dram_gbs": 1000}})
    time = estimate(net, (1, 1000)).time(tera, dtype="float16")
    weights = 20 * (1000 * 1000 + 1000) * 2
    activations = 20 * 2 * 1000 * 2  # every layer reads and writes 1000 values
    assert time.bound_seconds == pytest.approx((weights + activations) / 1e12)
    assert time.whole_run.seconds == pytest.approx((weights + 2000) / 1e12)
    cached = device(tmp_path, {**peak, "memory": {"dram_gbs": 1000, "caches": "[{ bytes = 50331648 }]"}})
    # each layer fits into the cache of 50,331,648 bytes, and so do all 40,042,000
    assert estimate(net, (1, 1000)).time(cached, dtype="float16").whole_run.seconds == 0


def test_a_training_step_has_times_of_all_phases():
    time = report("resnet50", backward=True).time("a100-sxm4-80gb", dtype="bfloat16")
    phases = {entry["phase"] for entry in time.layers() if entry["bound_seconds"]}
    assert phases == {"forward", "backward"}
    forward = report("resnet50").time("a100-sxm4-80gb", dtype="bfloat16")
    assert 2 * forward.bound_seconds < time.bound_seconds < 5 * forward.bound_seconds


@pytest.mark.frontend("pytorch", "onnx")
def test_a_symbolic_report_has_times_after_substitution(tmp_path):
    from tests.whole_networks import onnx_models

    symbolic = estimate(onnx_models.resnet50("batch"))
    with pytest.raises(CostError, match=r"Substitute them first: report.subs\(batch=…\)"):
        symbolic.time("l4")
    symbolic.to_json(tmp_path / "report.json")
    saved = Report.from_json(tmp_path / "report.json").subs(batch=8)
    direct = estimate(onnx_models.resnet50(8)).time("l4", fusion="pointwise")
    assert saved.time("l4", fusion="pointwise").bound_seconds == pytest.approx(direct.bound_seconds)


@pytest.mark.frontend("pytorch", "chainer")
def test_a_link_takes_as_long_as_the_module():
    import numpy as np

    links = frameworks.with_chainer().links

    ours = estimate(links.Linear(64, 32), np.zeros((4, 64), np.float32)).time("l4", tf32=())
    theirs = estimate(nn.Linear(64, 32), (4, 64)).time("l4", tf32=())
    assert ours.bound_seconds == pytest.approx(theirs.bound_seconds)


@pytest.mark.frontend("pytorch", "onnx")
@pytest.mark.parametrize("exporter", EXPORTERS if "pytorch" in frameworks.available() else ())
def test_products_of_an_export_take_as_long(exporter, tmp_path):
    net = all_different(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(800, 10)))
    exported = estimate(export(net, (torch.zeros(2, 3, 10, 10),), exporter, 18))
    tera = device(tmp_path, {"peak.vector": {"float32": 1.0}})
    ours, theirs = (each.time(tera, tf32=()).by_type()["total"] for each in (estimate(net, (2, 3, 10, 10)), exported))
    assert theirs["bound_seconds"] == pytest.approx(ours["bound_seconds"])
    # convolution: 2 * 8 outputs, of 3 channels with 28 * 28 taps inside the padding; then 20 outputs of 800
    products = 2 * 8 * 3 * 28 * 28 + 20 * 800
    assert theirs["vector_seconds"] == pytest.approx((2 * products + 2 * 2 * 8 * 100) / 1e12)
