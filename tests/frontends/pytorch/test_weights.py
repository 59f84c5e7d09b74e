"""Weights that count: trained ones, those that are not zero, those in packed elements; by hand."""

import sys
from io import StringIO
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from costcore import CostError, Report, check, estimate

ROWS = 3


def pruned():
    """A frozen layer with half of its weights zero, and one with a mask over half of them."""
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].weight.requires_grad_(False)
    with torch.no_grad():
        model[0].weight.fill_(1.0)[:, :4] = 0
    prune.l1_unstructured(model[2], "weight", amount=0.5)
    return model


def csv(report, by, *columns):
    """Return the rows of a table as lines of CSV, without the titles."""
    text = StringIO()
    report.table(by, columns=list(columns)).write(text, "csv", None, None)
    return text.getvalue().splitlines()[1:]


@pytest.mark.parametrize("is_saved", [False, True])
def test_products_with_nonzero_weights(is_saved):
    report = estimate(pruned(), (ROWS, 8), nonzero=True)
    if is_saved:
        report = Report.from_json(report.to_json())
    by_call = {name: entry["macs"] for name, entry in report.layer_report.items()}
    assert by_call == {"linear-1": ROWS * 32, "relu-1": 0, "mul-1": 0, "linear-2": ROWS * 8}
    assert csv(report, "module", "module", "macs", "nonzero_macs") == ["0,96,48", "1,0,0", "2,24,12", "total,120,60"]


def test_trained_parameters_of_every_row():
    report = estimate(pruned(), (ROWS, 8))
    rows = csv(report, "call", "name", "n_params", "n_trainable", "n_frozen")
    assert rows == ["linear-1,36,4,32", "relu-1,0,0,0", "mul-1,8,8,0", "linear-2,2,2,0", "total,46,14,32"]
    assert csv(report, "type", "type", "n_trainable") == ["linear,6", "relu,0", "mul,8", "total,14"]


def test_parameters_that_no_counted_call_reads_are_the_models_too():
    """4 x 4 + 4 that a call reads, and 10 x 10 + 10 that none does."""
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].unused = nn.Linear(10, 10)
    report = estimate(model, (ROWS, 4))
    assert "130  20 of them read by counted calls" in str(report)
    (violation,) = check(report, {"total": {"n_params": 50}})
    assert str(violation) == "total: 130 parameters, limit 50, 80 over, 160.00 %"


def test_weights_in_packed_elements():
    """A layer of 64 to 128 features in 4 bits: 4,096 bytes and 128 biases hold 8,192 + 128 weights."""

    class Linear4bit(nn.Module):
        __module__ = "bitsandbytes.nn.modules"
        __qualname__ = "Linear4bit"

        def __init__(self):
            super().__init__()
            self.in_features, self.out_features = 64, 128
            self.weight = nn.Parameter(torch.zeros(4096, 1, dtype=torch.uint8), requires_grad=False)
            self.bias = nn.Parameter(torch.zeros(128))

        def forward(self, x):
            raise RuntimeError("CUDA")

    sys.modules["bitsandbytes"] = ModuleType("bitsandbytes")
    try:
        report = estimate(nn.Sequential(Linear4bit()), (ROWS, 64))
    finally:
        del sys.modules["bitsandbytes"]
    (row, _) = csv(report, "call", "name", "macs", "n_params", "n_weights")
    assert row == f"Linear4bit-1,{ROWS * 8192},{4096 + 128},{8192 + 128}"


def test_values_are_needed():
    report = estimate(pruned(), (ROWS, 8))
    with pytest.raises(CostError, match="nonzero=True"):
        report.table("call", columns=["name", "nonzero_macs"])
    with pytest.raises(CostError, match="meta device"):
        estimate(pruned().to("meta"), (ROWS, 8), nonzero=True)


@pytest.mark.parametrize("precision", [None, "bfloat16", "pure_bfloat16", "autocast"])
def test_float32_copies_of_an_optimizer_are_no_parameters(precision):
    """4 * 8 + 4 parameters, and 2 * 4 + 2; in ``bfloat16`` a step updates float32 copies of them."""
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    report = estimate(net, (3, 8), optimizer="adamw", precision=precision)
    total = report.total_report
    assert (total["n_params"], total["n_params_model"], report.tree()["n_params"]) == (46, 46, 46)
