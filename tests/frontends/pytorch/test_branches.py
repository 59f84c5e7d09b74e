"""Branches that depend on data which meta tensors do not hold: one warning per line of code, which names its module."""

from __future__ import annotations

import pickle
import warnings

import pytest
import torch

from costcore import ComputationalCostHook, CostWarning, estimate
from costcore.trace.call import Assumption

ADVICE = "Count a real run with ComputationalCostHook."


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            x = self.fc(x)
        return x


BRANCH = Block.forward.__code__.co_firstlineno + 1
"""The line of the branch."""


class Twice(torch.nn.Module):
    """Runs three blocks twice, and decides a hundred times in one line."""

    def __init__(self):
        super().__init__()
        self.block = torch.nn.Sequential(Block(), Block(), Block())

    def forward(self, x):
        for _ in range(100):
            if (x > 0).all():
                continue
        return self.block(self.block(x))


def warned(model, *inputs, **options):
    """Return the report, and the messages of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = estimate(model, *inputs, **options)
    assert {each.category for each in caught} <= {CostWarning}
    assert all(each.filename == __file__ for each in caught)
    return report, [str(each.message) for each in caught]


def branch(place):
    return f"data-dependent branch at {place}: condition assumed True, because meta tensors hold no values"


@pytest.mark.parametrize(
    ("model", "module"), [(Block(), ""), (torch.nn.Sequential(torch.nn.ReLU(), Block()), " (module `1`)")]
)
def test_a_warning_names_the_line_and_the_module(model, module):
    report, messages = warned(model, (2, 4))
    place = f"test_branches.py:{BRANCH} in forward{module}"
    assert messages == [f"{branch(place)}. {ADVICE}"]
    assert report.status == "assumed"
    assert f"assumption: {branch(place)}" in report.remarks
    assert report.total_report["macs"] == 2 * 4 * 4


def test_there_is_one_warning_per_line():
    report, messages = warned(Twice(), (2, 4))
    loop = Twice.forward.__code__.co_firstlineno + 2
    first = branch(f"test_branches.py:{loop} in forward (100 times)")
    second = branch(f"test_branches.py:{BRANCH} in forward (module `block.0`, 2 times)")
    assert messages == [f"{first}. {ADVICE}", f"{second} (and in 2 other modules). {ADVICE}"]
    assert [each.times for each in report.assumptions] == [100, 2, 2, 2]
    assert [each.where for each in report.assumptions] == ["", "block.0", "block.1", "block.2"]


def test_other_assumptions_are_no_warnings():
    class Reads(torch.nn.Module):
        def forward(self, x):
            return x * x.max().item()

    report, messages = warned(Reads(), (2, 4))
    assert (report.status, messages) == ("assumed", [])
    line = Reads.forward.__code__.co_firstlineno + 1
    assert [str(each) for each in report.assumptions] == [
        f"a number read from a tensor without data was taken as 1 at test_branches.py:{line} in forward"
    ]


def test_known_values_are_no_assumptions():
    class Known(torch.nn.Module):
        def forward(self, ids):
            return ids * 2 if (ids == 1).any() else ids

    report, messages = warned(Known(), torch.tensor([0, 1]))
    assert (report.status, messages) == ("complete", [])


def test_a_run_with_data_assumes_nothing():
    with ComputationalCostHook() as hook:
        Block()(-torch.ones(2, 4))
    assert (hook.status, hook.total_report["macs"]) == ("complete", 0)


def test_a_hook_on_meta_tensors_warns():
    model, x = Block().to("meta"), torch.empty(2, 4, device="meta")
    with pytest.warns(CostWarning, match=r"data-dependent branch at test_branches\.py"), ComputationalCostHook():
        model(x)


def test_the_number_of_runs_of_a_symbolic_estimate_does_not_matter():
    _, messages = warned(Block(), ("batch", 4))
    assert len(messages) == 1


def test_assumptions_are_pickled_with_their_places():
    made = Assumption("branch: taken", "fc", "net.py:3 in forward", 2, True)
    again = pickle.loads(pickle.dumps(made))
    assert (again, str(again), again.is_branch) == (
        made,
        "branch at net.py:3 in forward (module `fc`, 2 times): taken",
        True,
    )
