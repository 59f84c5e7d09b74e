"""Rows of factorizations and linear systems."""

from __future__ import annotations

import torch

from costcore.ir import Operations
from tests.frontends.pytorch.rows.recorded_costs import costs
from tests.frontends.pytorch.runs import record


def test_linear_algebra():
    a = torch.eye(4) + torch.ones(4, 4)
    run = {
        "solve": lambda: torch.linalg.solve(a, torch.ones(4, 2)),
        "singular_values": lambda: torch.linalg.svd(a, full_matrices=False),
        "symmetric_eigen": lambda: torch.ops.aten._linalg_eigh(a, "L", False),
        "cholesky": lambda: torch.linalg.cholesky(a),
    }
    for op, function in run.items():
        assert op in [call.layer.op for call in record(function).calls]
    # values of a 4 x 4 matrix: 2/3 of 64, rounded down
    ((_, cost),) = costs(record(run["symmetric_eigen"]), "_linalg_eigh")
    assert cost.flops == Operations(fma=42)
