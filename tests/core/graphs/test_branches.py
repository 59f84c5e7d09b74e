"""Which branch is counted."""

from __future__ import annotations

from costcore.graphs import most_expensive
from costcore.ir import Layer, Tensor
from tests.core.traces import Call, Recorder


def call(op: str, *shape: int, times: int = 1) -> Call:
    """Return a call of an operator on a tensor."""
    x = Tensor(shape, "float32")
    return Call(Layer(op, {"x": x}, [x]), op, times=times)


def test_the_branch_with_most_flops_is_counted():
    """10 elements twice are 20 FLOPs, 12 once 12; a reshape costs nothing, nor does what nobody knows."""
    unknown = call("nobody_knows", 1000)
    choice = most_expensive({"a": [call("relu", 12), unknown], "b": [call("relu", 10, times=2)]}, Recorder())
    assert (choice.counted, choice.flops, choice.uncounted) == ("b", {"a": 12, "b": 20}, [unknown])


def test_of_equal_branches_the_first_is_counted():
    assert most_expensive({1: [call("relu", 3)], 0: [call("relu", 3)]}, Recorder()).counted == 1


def test_calculators_of_the_run_decide():
    recorder = Recorder(calculators={"relu": lambda layer: (0, 0, 0, {})})
    assert most_expensive({"a": [call("relu", 3)], "b": [call("abs", 2)]}, recorder).counted == "b"
