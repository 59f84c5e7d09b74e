"""Without the key ``PreDispatch`` the costs are the same, and the report has a note."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.frontends.pytorch.capture.test_same_calls import CASES, on_meta
from tests.frontends.pytorch.runs import GRAD_MODES, capturing, macs, record, types
from tests.frontends.pytorch.unchanged import unchanged
from tests.prices import cost

X = torch.ones(2, 3, 4)


def figures(run, **settings) -> tuple[int, int, int]:
    """Return MACs, FLOPs, and the parameters read."""
    recorder = record(run, **settings)
    costs = [cost(call) for call in recorder.calls]
    read = {identity for call in recorder.calls for identity in call.parameters}
    flops = sum(c.flops if isinstance(c.flops, int) else c.flops.flops() for c in costs)
    return sum(c.macs for c in costs), flops, sum(recorder.parameters[identity] for identity in read)


@pytest.mark.parametrize("mode", GRAD_MODES)
@pytest.mark.parametrize("name", CASES)
def test_macs_flops_and_parameters_are_the_same(name, mode):
    model, *inputs = CASES[name]
    model.eval()
    meta_model, meta_inputs = on_meta(model, inputs)
    with GRAD_MODES[mode]():
        for module, args in ((model, inputs), (meta_model, meta_inputs)):
            with unchanged(module):
                found = figures(lambda m=module, a=args: m(*a), has_composites=False)
            assert found == figures(lambda m=module, a=args: m(*a))


@pytest.mark.parametrize(
    "name", ["linear of a transposed input", "convolution", "lstm cell", "transformer layer", "norms"]
)
def test_a_step_of_training_is_the_same(name):
    model, *inputs = CASES[name]
    model.train()
    outputs = []

    def run():
        model.zero_grad()
        result = model(*inputs)
        result = result if isinstance(result, torch.Tensor) else result[0]
        outputs.append(result)
        torch.autograd.backward(result, torch.ones_like(result))

    assert figures(run, has_composites=False) == figures(run)
    model.zero_grad()


def test_layers_of_a_recomputation_are_whole_as_well():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), X.clone().requires_grad_()
    recorder = record(lambda: checkpoint(model, x, use_reentrant=True).sum().backward(), has_composites=False)
    assert types(recorder, "recompute") == ["linear", "tanh"]


def test_methods_functions_and_operators_are_seen():
    def run(x):
        functional.linear(x, torch.ones(5, 4))
        torch.matmul(x, x.mT)
        x @ x.mT
        x.softmax(-1)
        functional.layer_norm(input=x, normalized_shape=(4,))
        functional.conv1d(x, torch.ones(2, 3, 1), padding="same")
        functional.scaled_dot_product_attention(x[None], x[None], x[None])

    expected = types(record(lambda: run(X)))
    assert types(record(lambda: run(X), has_composites=False)) == expected
    assert {"linear", "matmul", "softmax", "layer_norm", "conv1d", "scaled_dot_product_attention"} <= set(expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_not_called_by_python_comes_in_pieces_with_the_same_macs():
    scripted = torch.jit.script(nn.Linear(4, 5))
    recorder = record(lambda: scripted(X), has_composites=False)
    assert "addmm" in types(recorder)
    assert macs(recorder.calls) == 6 * 4 * 5


def test_vectorised_functions_cost_their_batch():
    model = nn.Linear(4, 5)
    assert macs(record(lambda: torch.vmap(model)(X), has_composites=False).calls) == 6 * 4 * 5


def test_the_note_appears_once():
    with capturing(has_composites=False) as outer, capturing(has_composites=False) as inner:
        torch.relu(X)
    assert ["hides composite operators" in note for note in outer.notes] == [True]
    assert inner.notes == outer.notes


def test_an_exception_puts_everything_back():
    with unchanged(), pytest.raises(RuntimeError):
        record(lambda: functional.linear(X, X), has_composites=False)
