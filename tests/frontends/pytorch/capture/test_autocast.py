"""Autocast applies to meta tensors as it does to a CPU."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import estimate
from tests.frontends.pytorch.capture.test_same_calls import CASES, on_meta
from tests.frontends.pytorch.differences import RUNS_A_FUSED_LAYER_IN_BFLOAT16
from tests.frontends.pytorch.runs import estimated, listed, record, types


def runs_in_bfloat16(model, inputs):
    """Whether this CPU runs the model: oneDNN has no recurrent layers of bfloat16 for every one."""
    try:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            model(*inputs)
    except RuntimeError as error:
        if "could not create a primitive" not in str(error) and RUNS_A_FUSED_LAYER_IN_BFLOAT16:
            raise
        return False
    return True


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("name", CASES)
def test_without_data_everything_has_the_type_it_has_on_a_cpu(name, mode):
    model, *inputs = CASES[name]
    model.eval()
    if not runs_in_bfloat16(model, inputs):
        pytest.skip("this CPU has no kernel for the model in bfloat16")
    meta_model, meta_inputs = on_meta(model, inputs)
    torch.backends.mha.set_fastpath_enabled(False)  # test_fast_path has it
    try:
        with mode(), torch.autocast("cpu", torch.bfloat16):
            expected = listed(record(lambda: model(*inputs)))
            without_data = record(lambda: meta_model(*meta_inputs))
            assert listed(without_data) == expected
            assert without_data.assumptions == []
            assert listed(estimated(model, tuple(inputs))) == expected
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


class Exact(nn.Module):
    """Computes a part in float32, and names the device by its input, as rotary embeddings do."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast(device_type=x.device.type, enabled=False):
            x = x.float() @ x.float().T
        return self.a(x[:, :4])


@pytest.mark.parametrize("is_enabled", [False, True])
def test_autocast_of_the_device_of_a_meta_tensor(is_enabled):
    """PyTorch itself rejects ``torch.autocast("meta")``; with data the device would be the CPU."""
    model, x = Exact(), torch.ones(5, 4)
    with torch.autocast("cpu", torch.bfloat16, is_enabled):
        expected = listed(record(lambda: model(x)))
        assert listed(estimated(model, (5, 4))) == expected
    with pytest.raises(RuntimeError):
        torch.autocast("meta")


def test_code_may_ask_for_autocast_of_the_device_of_a_tensor():
    found = []

    def ask(x):
        device = x.device.type
        found.append((torch.amp.is_autocast_available(device), torch.is_autocast_enabled(device)))
        return x.to(torch.get_autocast_dtype(device_type=device))

    def asks(x):
        with torch.autocast("cpu", dtype=torch.float16):
            ask(x)
        return ask(x)

    for run in (lambda: estimate(asks, (2, 4)), lambda: asks(torch.ones(2, 4))):
        run()
        assert found == [(True, True), (True, False)]
        found.clear()
    with pytest.raises(RuntimeError):
        torch.is_autocast_enabled("meta")


@pytest.mark.parametrize("is_entered_inside", [False, True])
def test_operators_of_every_kind_are_cast(is_entered_inside):
    def run(device):
        x = torch.ones(4, 4, device=device)
        y = torch.mm(x, x)
        return torch.baddbmm(x[None], y[None], x[None]), x + x, torch.relu(y), functional.mse_loss(y, y)

    def entering(device):
        with torch.autocast("cpu", torch.bfloat16):
            run(device)

    with torch.autocast("cpu", torch.bfloat16, enabled=not is_entered_inside):
        expected, found = (record(partial(entering if is_entered_inside else run, d)) for d in ("cpu", "meta"))
    assert types(expected)[:5] == ["ones", "to", "to", "mm", "unsqueeze"]
    assert listed(found) == listed(expected)
    assert found.assumptions == []


def test_results_under_autocast_are_not_taken_for_results_without():
    def run(device):
        torch.einsum("ij,jk->ik", *[torch.ones(4, 4, device=device)] * 2)

    for device in ("cpu", "meta"):
        for is_enabled, dtype in ((False, "float32"), (True, "bfloat16"), (False, "float32")):
            with torch.autocast("cpu", torch.bfloat16, enabled=is_enabled):
                assert record(partial(run, device)).calls[-1].layer.out.dtype == dtype
