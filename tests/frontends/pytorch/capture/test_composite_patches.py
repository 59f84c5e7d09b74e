"""Without the key ``PreDispatch`` the costs are the same, and the report has a note."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.frontends.pytorch.capture.test_same_calls import CASES, on_meta
from tests.frontends.pytorch.runs import GRAD_MODES, capturing, macs, record, types
from tests.frontends.pytorch.unchanged import unchanged
from tests.registered import cost

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
