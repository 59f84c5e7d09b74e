"""Branches that depend on data which meta tensors do not hold: one warning per line of code, which names its module."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
import warnings

import pytest
import torch

from costcore import ComputationalCostHook, CostWarning, estimate

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


def test_modules_that_share_a_line_share_a_sentence():
    report, messages = warned(torch.nn.Sequential(*(Block() for _ in range(12))), (2, 4))
    shared = branch(f"test_branches.py:{BRANCH} in forward (12 modules, first `0`)")
    assert messages == [f"{shared}. {ADVICE}"]
    assert [each for each in report.remarks if each.startswith("assumption: ")] == [f"assumption: {shared}"]
    assert [each.where for each in report.assumptions] == [str(i) for i in range(12)]


def test_other_assumptions_are_no_warnings():
    class Reads(torch.nn.Module):
        def forward(self, x):
            return x * x.max().item()

    report, messages = warned(Reads(), (2, 4))
    assert (report.status, messages) == ("assumed", [])
    line = Reads.forward.__code__.co_firstlineno + 1
    assert [str(each) for each in report.assumptions] == [
        f"a number read from a tensor without data was assumed to be 1 at test_branches.py:{line} in forward"
    ]


def test_the_module_that_runs_a_program_is_no_line_of_the_user(tmp_path):
    trace = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::nonzero", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {
            "External id": 1, "Input Dims": [[3]], "Input type": ["float"], "Concrete Inputs": [""]}}
    ]  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": trace}))
    command = [sys.executable, "-m", "costcore", "trace.json"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "assumption: all elements of a tensor without data were assumed to be nonzero\n" in printed


class Checked(torch.nn.Module):
    """Checks its input in the ways of ``CHECKS`` before a layer of 4 x 4 weights."""

    def __init__(self, check):
        super().__init__()
        self.check, self.fc = check, torch.nn.Linear(4, 4)

    def forward(self, x):
        self.check(x)
        return self.fc(x)


def raises_if_any(x):
    if (x < 0).any():
        raise ValueError("negative")


def raises_unless_all(x):
    if not (x > 0).all():
        raise ValueError("negative")


def raises_in_one_of_two_lines(x):
    if (
        x.min() < 0  # both are asked
        or x.max() > 1
    ):
        raise ValueError("not between 0 and 1")


def raises_otherwise(x):
    if (x > 0).all():
        x = x + 1
    else:
        raise ValueError("negative")


def asserts(x):
    assert (x > 0).all(), "negative"


def asserts_as_in_torchscript(x):
    if (x < 0).any():
        torch._assert(False, "negative")


def raises_if_counts_differ(x):
    if (x > 0).sum() != x.numel():
        message = "negative"
        raise ValueError(message)


def raises_if_equal(x):
    if torch.equal(x, x + 1):
        raise ValueError("infinite")


CHECKS = (
    raises_if_any,
    raises_unless_all,
    raises_in_one_of_two_lines,
    raises_otherwise,
    asserts,
    asserts_as_in_torchscript,
    raises_if_counts_differ,
    raises_if_equal,
)


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_passes(check):
    report, messages = warned(Checked(check), (2, 4))
    assert (report.status, messages) == ("assumed", [])
    assert {each.what for each in report.assumptions} == {"a check of values without data was assumed to pass"}
    assert report.total_report["macs"] == 2 * 4 * 4
    with ComputationalCostHook() as hook:
        Checked(check)(torch.full((2, 4), 0.5))
    assert hook.total_report["flops"] == report.total_report["flops"]


logger = logging.getLogger(__name__)


def warns(x):
    if (x < 0).any():
        warnings.warn("negative", stacklevel=2)


def logs_a_text_put_together(x):
    if (x < 0).any():
        text = "negative, "
        kind = getattr(x, "name", None)
        if kind is None:
            text += f"of {len(x)} rows"
        logger.warning(text)


@pytest.mark.parametrize("check", [warns, logs_a_text_put_together])
def test_a_warning_is_not_a_branch(check):
    report, messages = warned(Checked(check), (2, 4))
    assert (report.status, messages) == ("complete", [])
    with ComputationalCostHook() as hook:
        Checked(check)(torch.full((2, 4), 0.5))
    assert hook.total_report["flops"] == report.total_report["flops"]


class Detector(torch.nn.Module):
    """Fills a map with the stride of its level, and branches on constants, as detectors do."""

    def __init__(self, threshold, is_weight=False):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.strides = torch.tensor([8.0, 16.0])
        kept = torch.tensor(threshold)
        if is_weight:
            self.threshold = torch.nn.Parameter(kept)
        else:
            self.register_buffer("threshold", kept)

    def forward(self, x):
        maps = [x.new_full((int(stride) // 8, 4), stride) for stride in self.strides]
        if self.threshold > 0.5:
            x = self.fc(x)
        return x, maps


@pytest.mark.parametrize(("threshold", "macs"), [(0.75, 2 * 4 * 4), (0.25, 0)])
def test_constants_of_a_model_keep_their_values(threshold, macs):
    model = Detector(threshold)
    report, messages = warned(model, (2, 4))
    assert (report.status, messages, report.total_report["macs"]) == ("complete", [], macs)
    x = torch.ones(2, 4)
    with ComputationalCostHook() as hook:
        model(x)
    assert [str(each.layer) for each in hook.report.calls] == [str(each.layer) for each in report.calls]


def test_weights_are_no_constants():
    report, _ = warned(Detector(0.25, is_weight=True), (2, 4))
    assert report.status == "assumed"
    assert report.total_report["macs"] == 2 * 4 * 4  # the more expensive side


def test_views_of_weights_are_no_constants():
    model = Detector(0.25, is_weight=True)
    model.view = model.threshold.data
    assert warned(model, (2, 4))[0].status == "assumed"


def test_tensors_that_are_trained_are_no_constants():
    model = Detector(0.25)
    del model.threshold
    model.threshold = torch.tensor(0.25, requires_grad=True)
    assert warned(model, (2, 4))[0].status == "assumed"


def test_large_buffers_are_no_constants():
    model = Detector(0.25)
    model.register_buffer("threshold", torch.full((2049,), 0.25)[:1].squeeze())  # 8,196 bytes in memory
    report, _ = warned(model, (2, 4))
    assert report.status == "assumed"


def raises_if_of_two_kinds(x):
    if not (x > 0).all() and (x < 1).any():
        raise ValueError("no")


def raises_after_a_change(x):
    if (x < 0).any():
        x = x + 1
    if x.numel() == 0:
        raise ValueError("empty")


def warns_and_changes(x):
    if (x < 0).any():
        print("negative")
        x = x + 1


def keeps_the_text(x):
    text = ""
    if (x < 0).any():
        text = "negative"
        print(text)
    return text


def warns_or_changes(x):
    if (x < 0).any():
        print("negative")
    else:
        x = x + 1


class Notes:
    seen = False


def keeps_a_state(x):
    if (x < 0).any():
        print("negative")
        Notes.seen = True


def prints_a_result(x):
    if (x < 0).any():
        y = -x
        print(y)


TYPED = eval("lambda x: None if (x < 0).any() else x")


OTHERS = (
    raises_if_of_two_kinds,
    raises_after_a_change,
    warns_and_changes,
    keeps_the_text,
    warns_or_changes,
    keeps_a_state,
    prints_a_result,
    TYPED,
)


@pytest.mark.parametrize("check", OTHERS)
def test_other_conditions_are_branches(check):
    report, messages = warned(Checked(check), (2, 4))
    assert all("data-dependent branch" in each.what for each in report.assumptions)
    assert len(messages) == 1


def test_a_check_whose_source_has_changed_since_is_a_branch(tmp_path):
    file, namespace = tmp_path / "checks.py", {}
    text = "def check(x):\n    if (x > 0).all():\n        return\n    else:\n        raise ValueError\n"
    exec(compile(text, file, "exec"), namespace)
    file.write_text("def check(x: (\n")
    report, messages = warned(Checked(namespace["check"]), (2, 4))
    assert "condition assumed True" in report.assumptions[0].what
    assert len(messages) == 1


def test_a_loss_that_checks_its_variance_is_counted_as_in_a_run():
    loss, x, variance = torch.nn.GaussianNLLLoss(), torch.zeros(4, 8), torch.ones(4, 8)
    with ComputationalCostHook() as hook:
        loss(x, x, variance)
    total = estimate(loss, (x, x, variance)).total_report
    assert [total[name] for name in ("flops", "mread", "mwrite")] == [
        hook.total_report[name] for name in ("flops", "mread", "mwrite")
    ]


def gaussian(x):
    """Retry with a larger diagonal, as libraries of Gaussian processes do."""
    factor, info = torch.linalg.cholesky_ex(x @ x.T)
    if info.any() or (factor == math.inf).any():
        factor = torch.linalg.cholesky(x @ x.T + torch.eye(2))
    return factor


def test_factorizations_succeed():
    report, x = estimate(gaussian, (2, 4)), torch.randn(2, 4)
    with ComputationalCostHook() as run:
        gaussian(x)
    assert report.by("op") == run.report.by("op")
    found = {each.what for each in report.assumptions}
    assert found == {
        "factorizations of matrices without data were assumed to succeed",
        "numbers without data were assumed to be finite",
    }


def test_a_side_on_which_a_solver_rejects_every_step_is_left_early():
    n_steps = []

    def advance(t, x):
        n_steps[-1] += 1
        y = x.sin()
        return (t + 1, y) if y.norm() < 1 else (t, x)

    def solve(x):
        n_steps.append(0)
        t = 0
        while t < 3:
            t, x = advance(t, x)
        return x

    with pytest.warns(CostWarning, match="condition assumed True"):
        report = estimate(solve, (4,))
    assert n_steps == [3, 65]
    assert sum(call["op"] == "sin" for call in report.layer_report.values()) == 3
