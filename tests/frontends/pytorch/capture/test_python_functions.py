"""Functions that PyTorch writes in Python: counted as executed, or as one operator on request."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import normalize

from costcore import Report, estimate


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


CASES = [  # model, shape, operator, FLOPs with FMA = 1 and 2
    # n + 3 and n + 4 for a window of 5 channels
    (nn.LocalResponseNorm(5), (2, 6, 4, 2), "local_response_norm", 8 * 96, 9 * 96),
    # 2 c + 2 and 3 c + 1 for each of 4 rows of c = 5
    (Function(normalize), (4, 5), "l2_normalize", 4 * 12, 4 * 16),
    (Function(lambda x: functional.normalize(x, dim=0)), (5, 4), "l2_normalize", 4 * 12, 4 * 16),
    # c absolute values, c - 1 additions, c divisions
    (Function(lambda x: functional.normalize(x, p=1)), (4, 5), "l1_normalize", 4 * 14, 4 * 14),
    # 1 mul, 3 fma and a root for each of 18 windows of 4
    (nn.LPPool2d(2, 2), (2, 1, 6, 6), "lp_pool", 18 * 5, 18 * 8),
    (nn.LPPool1d(2, 4), (2, 1, 36), "lp_pool", 18 * 5, 18 * 8),
    (nn.Softsign(), (4, 5), "softsign", 60, 60),
    (nn.Tanhshrink(), (4, 5), "tanh_shrink", 40, 40),
    (nn.Softmin(-1), (4, 5), "softmin", 4 * (5 + 4 + 10), 4 * (5 + 4 + 10)),
]


@pytest.mark.parametrize(("model", "shape", "op", "one", "two"), CASES)
def test_a_function_is_one_operator_on_request(model, shape, op, one, two):
    executed = estimate(model, shape)
    assert op not in {entry["op"] for entry in executed.layer_report.values()}
    assert executed.regrouped == []
    for fma_1flop, flops in ((True, one), (False, two)):
        report = estimate(model, shape, regroup=True, fma_1flop=fma_1flop)
        assert [(entry["op"], entry["flops"]) for entry in report.layer_report.values()] == [(op, flops)]
        assert [regrouping.op for regrouping in report.regrouped] == [op]
    assert report.status == "complete"


def test_only_the_operators_that_are_named_are_regrouped():
    model = nn.Sequential(nn.Softsign(), nn.Tanhshrink())
    report = estimate(model, (4, 5), regroup=["softsign"])
    assert [entry["op"] for entry in report.layer_report.values()] == ["softsign", "tanh", "sub"]
    assert [str(regrouping) for regrouping in report.regrouped] == ["regrouped as softsign: 0 (softsign)"]
    assert Report.from_json(report.to_json()).regrouped == report.regrouped
    with pytest.raises(ValueError, match="softsing"):
        estimate(model, (4, 5), regroup=["softsing"])
    with pytest.raises(TypeError, match="regroup must be"):
        estimate(model, (4, 5), regroup="softsign")


def test_the_backward_pass_is_that_of_the_pieces():
    model = nn.Sequential(nn.Linear(5, 5), Function(normalize))
    plain, regrouped = (estimate(model, (4, 5), backward=True, regroup=regroup) for regroup in (False, True))
    phases = [[x["type"] for x in r.layer_report.values() if x["phase"] == "backward"] for r in (plain, regrouped)]
    assert phases[0] == phases[1]
    assert [x["type"] for x in regrouped.layer_report.values() if x["phase"] == "forward"] == ["linear", "normalize"]
    assert torch.overrides._get_current_function_mode() is None
