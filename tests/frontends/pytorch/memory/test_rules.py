"""When memory is allocated and freed, derived by hand: a float32 is 4 bytes, so that 64 elements are 256."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, estimate
from tests.frontends.pytorch.differences import NEEDS_WORKSPACE

DEVICES = pytest.mark.parametrize("device", ["cpu", "meta"])


def peak_of(run, *watched):
    """Return what a run needs on top of what lives before it."""
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(*watched)
        held = run()
    memory = hook.memory
    assert sum(memory.by_kind.values()) == memory.peak
    del held
    return memory.peak - memory.base


def memory_of(run, *watched):
    hook = ComputationalCostHook(memory=True)
    hook.watch(*watched)  # before the block, as well as in it
    with hook:
        held = run()  # noqa: F841 - lives until the end
    return hook.memory


@DEVICES
def test_a_block_lives_until_its_last_reference_goes(device):
    x = torch.ones(8, 8, device=device)

    def run():
        y = x + 1  # 256
        y = y * 2  # 512: the sum lives until the name is bound to the product
        return y - 1  # 512

    assert peak_of(run, x) == 512


@DEVICES
def test_views_and_results_in_place_share_a_block(device):
    x = torch.ones(8, 8, device=device)

    def run():
        y = x + 1  # 256
        z = y.t()[:4].relu_()
        return y.expand(3, 8, 8), z.unsqueeze(0), y.add_(1)

    assert peak_of(run, x) == 256


@DEVICES
def test_what_lives_before_the_run_is_base(device):
    net = nn.Linear(8, 8, bias=False).to(device)  # 256
    net.register_buffer("unused", torch.ones(2, device=device))  # 8
    tied = nn.ModuleList([net, net])
    tied.other = nn.Linear(8, 8, bias=False).to(device)
    tied.other.weight = net.weight
    x = torch.ones(1, 8, device=device)  # 32
    memory = memory_of(lambda: None, tied, x)
    assert memory.by_kind == {"parameter": 256, "buffer": 8, "input": 32}
    assert memory.base == memory.peak == memory.end == 296


@DEVICES
def test_gradients_that_meet_are_added_in_place(device):
    x = torch.ones(8, 8, device=device, requires_grad=True)

    def run():
        y = x * 2  # 256
        z = (y * 3).sum() + (y * 5).sum()
        z.backward()

    # The products are freed: multiplication by a number saves nothing. y, the first gradient of y and the second one,
    # then their sum in place of the first: 768, and not 1,024. An expanded gradient of a sum has no memory of its own.
    # The number z, and its gradient, are 4 bytes each.
    memory = memory_of(run, x)
    assert memory.phases["backward"] - memory.base == 3 * 256 + 4 + 4


@DEVICES
def test_a_storage_may_change_its_size(device):
    x = torch.ones(8, 8, device=device)

    def run():
        y = x + 1  # 256
        y.resize_(16, 16)  # 1,024 in place of 256
        z = y * 1  # 2,048
        y.untyped_storage().resize_(0)
        y.detach()
        return z, z + z  # 2,048

    memory = memory_of(run, x)
    assert memory.peak - memory.base == 2048
    assert [block.nbytes for block in memory.ledger.blocks if block.born] == [256, 1024, 1024, 1024]
    assert memory.end == memory.peak


@DEVICES
def test_kinds_of_a_training_step(device):
    net = nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 4, bias=False)).to(device)
    x = torch.ones(2, 8, device=device)
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)

    def run():
        y = net(x)
        y.sum().backward()
        optimizer.step()
        return y

    memory = memory_of(run, net, x)
    ends = {}
    for block in memory.ledger.alive(len(memory.ledger.calls)):
        ends[block.kind] = ends.get(block.kind, 0) + block.nbytes
    parameters = (8 * 16 + 16 * 4) * 4
    # The output of the ReLU was saved; its block is gone. Two moments, and a step of 4 bytes per parameter.
    assert ends == {
        "parameter": parameters,
        "input": 64,
        "gradient": parameters,
        "optimizer": 2 * parameters + 2 * 4,
        "output": 32,
    }
    assert memory.saved == 2 * 16 * 4 + 8  # the output of the ReLU, the loss and its gradient
    saved = [call for call in hook_calls(lambda: run()) if call.saved]
    assert [call.type for call in saved if call.phase == "forward"][:2] == ["relu", "linear"]


def hook_calls(run):
    with ComputationalCostHook(memory=True) as hook:
        run()
    return hook.calls


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_model_that_is_made_inside_the_block_has_parameters(is_watched):
    """8 * 8 + 8 parameters of 4 bytes are 288 bytes; AdamW keeps two moments and two steps of 4 bytes: 584."""
    with ComputationalCostHook(memory=True) as hook:
        net = nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(net.parameters())
        if is_watched:
            hook.watch(net, optimizer)
        net(torch.ones(2, 8)).sum().backward()
        optimizer.step()
    kinds = hook.memory.by_kind
    assert (hook.memory.base, kinds["parameter"], kinds["gradient"], kinds["optimizer"]) == (0, 288, 288, 584)


@DEVICES
def test_a_run_that_fails_has_the_memory_until_then(device):
    x = torch.ones(8, 8, device=device)
    hook = ComputationalCostHook(memory=True)
    with pytest.raises(ZeroDivisionError), hook:
        held = x + 1
        1 / 0  # noqa: B018
    del held
    assert hook.memory.peak - hook.memory.base == 256


def test_replayed_calls_have_the_memory_inside_them():
    """A linear layer on an input that is not contiguous copies it: 256 of the copy, 256 of the product."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            for _ in range(3):
                x = self.linear(x.transpose(0, 1).unsqueeze(0))[0]
            return x

    net = Twice().eval()
    first = estimate(net, (8, 8), memory=True).memory
    with torch.no_grad():
        real = memory_of(lambda: net(torch.ones(8, 8)), net)
    assert first.peak == real.peak
    assert estimate(net, (8, 8), memory=True).memory == first


@NEEDS_WORKSPACE
def test_an_lstm_keeps_the_workspace_that_a_cpu_keeps():
    net = nn.LSTM(5, 7)
    y = net(torch.zeros(3, 2, 5))[0]
    workspace = y.grad_fn._saved_workspace if hasattr(y.grad_fn, "_saved_workspace") else y.grad_fn._saved_result3
    memory = estimate(net, (3, 2, 5), backward=True, memory=True).memory
    assert workspace.nbytes in {block.nbytes for block in memory.ledger.blocks}
    assert not memory.is_exact
    assert "oneDNN" in memory.notes[0]


def test_garbage_in_cycles_is_freed_when_the_collector_runs():
    x = torch.ones(8, 8)

    def run():
        cycle = [x + 1]
        cycle.append(cycle)
        del cycle
        gc.collect()
        return x + 2

    assert peak_of(run, x) == 256


def test_a_sum_of_sparse_gradients_has_the_rows_of_both():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 4, sparse=True)

        def forward(self, ids):
            return self.table(ids) + self.table(ids + 1)

    report = estimate(Twice(), ((3,), torch.int64), memory=True, backward=True)
    assert report.layer_report["add-3"]["mread"] == report.layer_report["add-3"]["mwrite"] == 2 * 3 * 4 * 4
    # The table and the ids; the gradient of 6 rows and its copy, each with 6 indices; two outputs of 3 rows, a loss.
    assert report.memory.peak == 160 + 24 + 2 * (6 * 4 * 4 + 6 * 8) + 48 + 4 + 4
    assert report.status == "assumed"
    assert "a sparse result was assumed to have the values of its sparse operands" in str(report.assumptions[0])


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(8, 8, bias=False)

    def forward(self, x, past_key_values=None):
        new = self.keys(x)
        keys = new if past_key_values is None else torch.cat([past_key_values.keys, new], 1)
        return {"logits": new + 1, "past_key_values": Cache(keys)}


class Cache:
    def __init__(self, keys):
        self.keys = keys


def test_a_cache_that_a_model_takes_or_returns_has_a_kind_of_its_own():
    prompt, token = torch.zeros(2, 5, 8), torch.zeros(2, 1, 8)
    prefill = estimate(Decoder(), prompt, memory=True).memory
    assert prefill.by_kind["cached"] == 2 * 5 * 8 * 4
    assert prefill.by_kind["output"] == 2 * 5 * 8 * 4
    # Before and after: 5 and 6 positions; the new position itself is freed with the pass.
    decode = estimate(Decoder(), {"x": token, "past_key_values": Cache(prompt)}, memory=True).memory
    assert decode.by_kind["cached"] == 2 * (5 + 6) * 8 * 4
