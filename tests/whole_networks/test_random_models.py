"""Random networks have equal costs with and without data, in every grad mode, and with both exporters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from costcore import ComputationalCostHook, Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch", "onnx")

if not {"pytorch", "onnx"} - set(frameworks.available()):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from tests.whole_networks.exporters import all_different, export
    from tests.whole_networks.random_models import network

TOTALS = ("macs", "n_params", "n_params_model", "flops", "mread", "mwrite")
SEEDS = range(4)


def entries(report: Any) -> list[dict[str, Any]]:
    return list(report.layer_report.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_with_data_equals_one_without(seed):
    """With gradients, it equals the forward pass of an estimate with a backward pass, which reads what it saves."""
    model, x = network(seed)
    expected = entries(estimate(model, x))
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), ComputationalCostHook() as cch:
            model(x)
        assert entries(cch) == expected
        assert not cch.ignored_layers
    with ComputationalCostHook() as cch:
        model(x)
    trained = entries(estimate(model, x, backward=True))
    assert without_shares(entries(cch)) == without_shares(each for each in trained if each["phase"] == "forward")


def without_shares(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in each.items() if not key.endswith("%")} for each in found]


@pytest.mark.parametrize("seed", SEEDS)
def test_products_are_those_of_flop_counter_mode(seed):
    model, x = network(seed)
    macs = estimate(model, x).total_report["macs"]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.to("meta")(x.to("meta"))
    assert counter.get_total_flops() == 2 * macs  # two operations per product


def totals(report: Report) -> dict[str, int]:
    return {name: report.total_report[name] for name in TOTALS}


@pytest.mark.parametrize(
    ("seed", "exporter", "batch"),
    [*((seed, "older", "batch" * (seed % 2)) for seed in SEEDS), (4, "newer", "batch")],
)
def test_an_export_has_the_costs_of_the_network(seed, exporter, batch):
    model, x = network(seed)
    content = export(all_different(model), (x,), exporter, 18, batch)
    report = estimate(content, layout="free", regroup=True)
    report = report.subs(batch=len(x)) if batch else report
    assert totals(report) == totals(estimate(model, x, layout="free"))
