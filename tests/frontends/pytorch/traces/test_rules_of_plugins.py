"""Rules of plug-ins for operators of traces that PyTorch does not have."""

from __future__ import annotations

import pytest

from costcore import CostWarning, estimate, hookimpl, plugins
from costcore.ir import Tensor
from costcore.translate import Row
from tests.frontends.pytorch.traces.recording import kernel, launch, op, tensor, write


def first(args, _):
    """The result has the shape and dtype of the first argument: traces have no results."""
    return [args["arg0"]]


class Kernels:
    """Rules for one operator, and for all of a namespace."""

    @hookimpl
    def costcore_rows(self, frontend):
        if frontend != "traces":
            return ()
        attrs = {"assumed": lambda args: "a factor" if args["arg1"] else None}
        scaled = Row("acme::scale", "mul", {"x0": "arg0"}, attrs, outputs=first)
        any_of = Row(
            "made::*", "relu", {"x": "arg0"}, when=lambda args: isinstance(args["arg0"], Tensor), outputs=first
        )
        gradient = Row("span::GateBackward", "mul", {"x0": "arg0", "x1": "arg1"}, outputs=first)
        return (scaled, any_of, gradient)


@pytest.fixture
def plugin():
    plugins.register(added := Kernels())
    yield
    plugins.unregister(added)


NUMBER = ("Scalar", [], [], "2")


def trace(path):
    events = [
        *(op("acme::scale", 0, 10, tensor(4), NUMBER), launch(5, 1), kernel("scale", 100, 7, 1)),
        *(op("aten::relu", 6, 2, tensor(4)),),
        *(op("made::one", 20, 10, tensor(8)), launch(25, 2), kernel("one", 110, 5, 2)),
        *(op("made::two", 40, 10, NUMBER), launch(45, 3), kernel("two", 120, 5, 3)),
    ]
    return write(path / "trace.json", events)


@pytest.mark.usefixtures("plugin")
def test_an_operator_with_a_rule_is_one_call_with_its_cost_and_time(tmp_path):
    with pytest.warns(CostWarning, match="two"):
        report = estimate(trace(tmp_path))
    found = [(record.call.native, record.call.layer.op, record.cost is not None) for record in report.trace]
    assert found == [("acme::scale", "mul", True), ("made::one", "relu", True), ("made::two", "made::two", False)]
    assert [record.seconds for record in report.trace] == [7e-6, 5e-6, 5e-6]
    assert report.trace.records[0].cost.mread == 16
    assert [str(each.what) for each in report.trace.run.assumptions] == ["trace: acme::scale: a factor"]


def test_without_the_plug_in_it_has_no_cost(tmp_path):
    with pytest.warns(CostWarning):
        report = estimate(trace(tmp_path))
    assert report.trace.records[0].cost is None


@pytest.mark.usefixtures("plugin")
def test_a_backward_pass_has_the_operands_of_its_forward_pass(tmp_path):
    """What autograd runs backward shows gradients alone; its sequence number is that of the forward pass."""
    name = "autograd::engine::evaluate_function: GateBackward"
    events = [
        *(op("Gate", 0, 10, tensor(4, 2), tensor(4, 2), **{"Sequence number": 3}), launch(5, 1)),
        *(op("aten::relu", 20, 5, tensor(9), **{"Sequence number": 4}), launch(22, 3)),
        *(op(name, 50, 20, **{"Sequence number": 3}), op("GateBackward", 51, 15, tensor(4), **{"Sequence number": 3})),
        *(launch(55, 2), kernel("gate", 100, 7, 1), kernel("relu", 107, 1, 3), kernel("gradient", 110, 9, 2)),
    ]
    with pytest.warns(CostWarning, match="Gate"):
        report = estimate(write(tmp_path / "trace.json", events))
    (found,) = (record for record in report.trace if record.call.phase == "backward")
    assert (found.call.native, found.seconds, found.cost.mread) == ("span::GateBackward", 9e-6, 2 * 8 * 4)
