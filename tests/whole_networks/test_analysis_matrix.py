"""Every analysis of many networks and odd programs: what must hold of its numbers, whatever is counted."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from costcore import ComputationalCostHook, CostWarning, Report, estimate
from tests import frameworks

pytestmark = pytest.mark.frontend("pytorch")

if "pytorch" in frameworks.available():
    import torch

    from tests.frontends.pytorch.differences import CHECKS_QUANTILES, FUSES_GROUPED_QUERIES
    from tests.whole_networks.matrix.analyses import failures
    from tests.whole_networks.matrix.networks import NETWORKS
    from tests.whole_networks.matrix.programs import PROGRAMS

    MADE = {**NETWORKS, **PROGRAMS}
else:
    MADE = {}

WITHOUT_GRADIENT = "no floating-point output depends on a tensor that requires a gradient"
DATA_DECIDE = {"experts", "a branch over data", "indices of nonzeros", "distinct values"}
"""What these run depends on values, so that an estimate is one of several runs."""
APPROXIMATE = {"packed sequences"}
"""The memory of their estimates is said to be approximate."""


def counted(name: str, backward: bool) -> Report:
    """Return the estimate of a network, with memory."""
    net = MADE[name].build().train(backward)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CostWarning)  # branches over data
        return estimate(net, MADE[name].inputs(), memory=True, backward=backward)


@pytest.mark.parametrize("name", MADE)
def test_analyses_of_inference(name):
    assert not failures(counted(name, backward=False))


@pytest.mark.parametrize("name", MADE)
def test_analyses_of_a_training_step(name):
    try:
        report = counted(name, backward=True)
    except ValueError as error:
        assert WITHOUT_GRADIENT in str(error)
        assert not any(p.requires_grad for p in MADE[name].build().parameters())
    else:
        assert not failures(report)


@pytest.mark.parametrize("name", sorted({*MADE} - DATA_DECIDE))
def test_an_estimate_is_what_a_run_costs(name):
    """Of memory, what it grows by: a hook does not see unused parameters. An estimate says if it is not exact."""
    if name == "a running median" and CHECKS_QUANTILES:
        pytest.skip("a CPU of this PyTorch checks quantiles by operators that the meta device does not run")
    if name in ("adapters", "language model") and not FUSES_GROUPED_QUERIES:
        pytest.skip("a CPU of this PyTorch runs other operators for attention with fewer heads of keys")

    def figures(report: Report) -> dict[str, Any]:
        keys = "flops", "macs", "mread", "mwrite", "n_layers", "n_params"
        grown = report.memory.peak - report.memory.base if estimated.memory.is_exact else "approximate"
        return {**{key: report.total_report[key] for key in keys}, "grown": grown}

    net, inputs = MADE[name].build().eval(), MADE[name].inputs()
    with torch.no_grad(), ComputationalCostHook(memory=True) as hook:
        net(*inputs)
    with torch.no_grad():
        estimated = counted(name, backward=False)
    assert estimated.memory.is_exact or name in APPROXIMATE
    assert figures(estimated) == figures(hook.report)
