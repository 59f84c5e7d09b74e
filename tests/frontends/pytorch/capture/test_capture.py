"""A capture records everything, and undoes all its changes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.frontends.pytorch.runs import capturing, macs, record, state_of_torch, types

X = torch.ones(2, 3, 4)


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = state_of_torch()
    yield
    assert state_of_torch() == before


def phases(recorder):
    return [(call.type, call.phase, call.module) for call in recorder.calls if call.layer.op != "view"]


def test_nested_captures_both_see_everything():
    layer = nn.Linear(4, 5)
    with capturing() as outer:
        layer(X)
        with capturing() as inner:
            layer(X).relu()
        layer(X)
    assert types(outer) == ["linear", "linear", "relu", "linear"]
    assert types(inner) == ["linear", "relu"]


def test_an_exception_leaves_nothing_behind_and_what_ran_is_recorded():
    with pytest.raises(RuntimeError), capturing() as recorder:
        functional.relu(X)
        nn.Linear(5, 4)(X)
    assert types(recorder)[0] == "relu"


def test_an_exception_that_the_model_catches_does_not_disturb_the_paths():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.wrong, self.right = nn.Linear(5, 4), nn.Linear(4, 5)

        def forward(self, x):
            try:
                return self.wrong(x)
            except RuntimeError:
                return self.right(x)

    model = Careful()
    assert phases(record(lambda: model(X))) == [("linear", "forward", "right")]


def test_random_numbers_are_those_of_an_uncounted_run():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    found = []
    record(lambda: found.append(torch.rand(3)))
    assert torch.equal(found[0], expected)
    torch.manual_seed(0)


def test_a_suspended_capture_leaves_other_modes_alone():
    def suspended():
        with capturing():
            yield

    layer, running = nn.Linear(4, 5), suspended()
    next(running)
    with FlopCounterMode(display=False) as other:
        running.close()
        layer(X)
    assert other.get_total_flops() == 2 * 6 * 4 * 5


def test_tracing_after_a_capture_sees_the_operators_it_always_saw():
    model = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Dropout(), nn.Softmax(-1)).eval()
    record(lambda: model(X))
    traced = [make_fx(model, pre_dispatch=is_early)(X) for is_early in (True, False)]
    early, late = ([str(node.target) for node in graph.graph.nodes if node.op == "call_function"] for graph in traced)
    assert early == ["aten.linear.default", "aten.layer_norm.default", "aten.dropout.default", "aten.softmax.int"]
    assert not {*early[:2], early[3]} & set(late)


def test_recomputation_is_a_phase_of_its_own():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), X.clone().requires_grad_()
    recorder = record(lambda: checkpoint(model, x, use_reentrant=True).sum().backward())
    again = [(call.type, call.module) for call in recorder.calls if call.phase == "recompute"]
    assert again == [("linear", "0"), ("tanh", "1"), ("linear", "2")]
    recorder = record(lambda: checkpoint(model, x, use_reentrant=False).sum().backward())
    again = [(call.type, call.module) for call in recorder.calls if call.phase == "recompute"]
    assert again == [("linear", "0"), ("tanh", "1")]  # it stops where everything needed is there


def test_a_differentiable_backward_pass_is_no_recomputation():
    x = X.clone().requires_grad_()

    def run():
        (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        gradient.sum().backward()

    assert {call.phase for call in record(run).calls} == {"forward", "backward"}


def test_backward_operators_know_the_module_of_their_forward_operator():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    class Squared(nn.Module):
        def forward(self, x):
            return Square.apply(x)

    model = nn.Sequential(nn.Linear(4, 4, bias=False), Squared(), nn.Sequential(nn.Linear(4, 4, bias=False)))
    recorder = record(lambda: model(X).sum().backward())
    backward = [(t, m) for t, phase, m in phases(recorder) if phase == "backward"]
    assert backward == [("mm", "2.0"), ("mm", "2.0"), ("mul", "1"), ("mul", "1"), ("mm", "0")]


def test_paths_of_modules_are_those_of_the_model():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.some = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
            self.named = nn.ModuleDict({"last": nn.Sequential(nn.ReLU())})
            self.again = self.some[0]

        def forward(self, x):
            for layer in self.some:
                x = layer(x)
            x = functional.tanh(self.again(x))
            return nn.ReLU()(self.named["last"](x))

    model = Model()
    recorder = record(lambda: model(X))
    assert [call.module for call in recorder.calls] == ["some.0", "some.1", "some.0", "", "named.last.0", ""]
    assert recorder.modules["again"].same_as == "some.0"
    assert list(recorder.modules)[:3] == ["", "some", "some.0"]


def test_a_module_that_contains_itself():
    layer = nn.Linear(4, 5)
    layer.child = nn.Module()
    layer.child.parent = layer
    assert [call.module for call in record(lambda: layer(X)).calls] == [""]


def test_modules_nest_as_deep_as_uncounted():
    model = nn.Linear(4, 4)
    for _ in range(150):
        model = nn.Sequential(model)
    assert record(lambda: model(X)).calls[0].module == ".".join(["0"] * 150)


def test_an_unsupported_operator_is_named_and_located():
    with torch.library._scoped_library("costcoretest", "DEF") as library:
        library.define("foo(Tensor x, int n) -> Tensor")
        library.impl("foo", lambda x, n: x * n, "CompositeExplicitAutograd")
        (call,) = record(lambda: torch.ops.costcoretest.foo(X, 2)).calls
    assert (call.type, call.native, call.layer.op) == ("costcoretest::foo", "costcoretest::foo", "costcoretest::foo")
    assert call.layer["x0"].shape == call.layer.out.shape == (2, 3, 4)
    assert __file__ in call.where


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_models_are_seen():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 5), nn.ReLU()))
    assert types(record(lambda: scripted(X))) == ["linear", "relu"]


def test_control_flow_shows_the_branch_taken_and_every_step():
    def loop():
        return torch._higher_order_ops.while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()), (torch.tensor(0), X)
        )

    taken = record(lambda: torch.cond(torch.tensor(True), lambda x: x.sin(), lambda x: x.cos(), (X,)))
    assert "sin" in types(taken)
    assert "cos" not in types(taken)
    assert types(record(loop)).count("sin") == 3


def test_without_frames_macs_and_parameters_are_the_same():
    for model, x in (
        (nn.Linear(4, 5), X),
        (nn.Linear(4, 5), X.transpose(0, 1)),
        (nn.Sequential(nn.Conv1d(3, 2, 2), nn.BatchNorm1d(2)), X),
        (nn.LSTM(4, 5, 2, bidirectional=True), X),
        (nn.GRU(4, 5), X),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0), X),
    ):
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode():
                whole, pieces = (
                    record(lambda m=model, v=x: m(v)),
                    record(lambda m=model, v=x: m(v), has_composites=False),
                )
            assert macs(pieces.calls) == macs(whole.calls)
            assert sum(pieces.parameters.values()) == sum(whole.parameters.values())
            assert whole.notes == []
            assert len(pieces.notes) == 1
