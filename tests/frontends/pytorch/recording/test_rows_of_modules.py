"""Rows of modules: which module a call belongs to if modules are recomputed, shared or scripted, or several run."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from costcore import ComputationalCostHook, estimate

X = torch.ones(2, 8)


def macs(report):
    """Return the MACs of every module that has some."""
    return {path: row["macs"] for path, row in report.by("module").items() if row["macs"]}


class Block(nn.Module):
    def __init__(self, width=8) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, width), nn.Linear(width, 8)

    def forward(self, x):
        return x + self.outer(self.inner(x).relu())


class Checkpointed(nn.Module):
    """Recomputes its blocks: as modules, or as transformers does, by their method alone."""

    def __init__(self, calls_method) -> None:
        super().__init__()
        self.blocks, self.calls_method = nn.ModuleList([Block(), Block(4)]), calls_method

    def forward(self, x):
        for block in self.blocks:
            run = partial(type(block).forward, block) if self.calls_method else block
            x = checkpoint(run, x, use_reentrant=False)
        return x


@pytest.mark.parametrize("calls_method", [False, True])
def test_recomputed_modules_keep_their_paths(calls_method):
    """Of each block the first product runs again, 2 x 8 x 8 or 2 x 8 x 4; each product has two in the backward pass."""
    report = estimate(Checkpointed(calls_method), (2, 8), backward=True)
    first, second = 2 * 8 * 8, 2 * 8 * 4
    assert macs(report) == {
        "blocks.0.inner": 3 * first,  # nothing needs the gradient of the input
        "blocks.0.outer": 3 * first,
        "blocks.1.inner": 4 * second,
        "blocks.1.outer": 3 * second,
    }
    recomputed = {entry["module"] for entry in report.layer_report.values() if entry["phase"] == "recompute"}
    assert all(path.startswith("blocks.") for path in recomputed)
    assert report.trace.run.modules["blocks.0"].type == "Block"


def test_two_models_in_one_hook():
    generator, judge = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Sequential(nn.Linear(16, 1))
    with ComputationalCostHook() as cch:
        for _ in range(2):
            judge(generator(X)).sum().backward()
    forward = {"Sequential.0": 2 * 2 * 8 * 16, "Sequential-2.0": 2 * 2 * 16}
    backward = {"Sequential.0": 2 * 2 * 8 * 16, "Sequential-2.0": 2 * (2 * 2 * 16)}
    assert macs(cch.report) == {path: forward[path] + backward[path] for path in forward}
    assert [child["name"] for child in cch.report.tree()["children"] if child["macs"]] == ["Sequential", "Sequential-2"]


def test_a_part_that_runs_before_its_model():
    model = nn.Sequential(nn.Sequential(nn.Linear(8, 4)), nn.Linear(4, 2))
    with ComputationalCostHook() as cch:
        model[0](X)
        model(X)
        model[1](model[0](X))
    assert macs(cch.report) == {"0.0": 3 * 2 * 8 * 4, "1": 2 * 2 * 4 * 2}


def test_a_shared_module_costs_where_it_is_called():
    shared = nn.Sequential(nn.Linear(8, 8))

    class Parent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared, self.own = shared, nn.Linear(8, 4)

        def forward(self, x):
            return x + self.own(self.shared(x)).repeat(1, 2)

    report = estimate(nn.Sequential(Parent(), Parent()), (2, 8))
    assert macs(report) == {f"{i}.{name}": 2 * 8 * size for i in range(2) for name, size in PARTS.items()}
    first, second = report.tree()["children"]
    assert first["macs"] == second["macs"] == 2 * 8 * (8 + 4)
    assert report.total_report["n_params"] == 8 * 8 + 8 + 2 * (8 * 4 + 4)


PARTS = {"shared.0": 8, "own": 4}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_scripted_modules_own_the_calls_that_read_their_parameters():
    report = estimate(torch.jit.script(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))), (2, 8))
    assert macs(report) == {"0": 2 * 8 * 4, "2": 2 * 4 * 2}


def test_a_report_of_one_model_is_pickled_without_the_frontend():
    with ComputationalCostHook() as cch:
        Block()(X)
    text = pickle.dumps(cch.report.trace)
    assert b"module_stack" not in text
