"""When memory is allocated and freed, derived by hand: a float32 is 4 bytes, so that 64 elements are 256."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from costcore import ComputationalCostHook, CostError, estimate
from tests.frontends.pytorch.differences import COPIES_WATCHED_SPARSE_GRADIENTS, NEEDS_WORKSPACE

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
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(*watched)
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
def test_views_outlive_the_tensor_they_are_views_of(device):
    x = torch.ones(8, 8, device=device)

    def run():
        part = (x + 1).chunk(2)[0]  # its block has all 256 bytes
        return part + part  # 128

    assert peak_of(run, x) == 384


@DEVICES
def test_the_size_of_a_block_is_that_of_its_storage(device):
    def run():
        return torch.empty_strided((4, 4), (16, 1), device=device)  # 3 * 16 + 4 elements

    assert peak_of(run) == 52 * 4


@DEVICES
def test_no_bytes_are_no_event(device):
    memory = memory_of(lambda: torch.zeros(0, 8, device=device) + 1)
    assert (memory.peak, len(memory.ledger.calls), memory.ledger.blocks) == (0, 0, ())


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
def test_what_an_operator_reads_first_is_base_without_watching(device):
    net = nn.BatchNorm1d(8).to(device).eval()
    x = torch.ones(2, 8, device=device)  # 64
    memory = memory_of(lambda: net(x))
    assert memory.by_kind == {"parameter": 64, "buffer": 64, "input": 64, "output": 64}


@DEVICES
def test_a_view_of_what_lives_before_the_run_is_no_new_block(device):
    x = torch.ones(8, 8, device=device)
    memory = memory_of(lambda: x[2:].t())
    assert memory.by_kind == {"input": 256}


@DEVICES
def test_gradients_and_the_state_of_an_optimizer_that_exist_are_base(device):
    net = nn.Linear(8, 8, bias=False).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=False)
    net(torch.ones(1, 8, device=device)).sum().backward()
    optimizer.step()
    memory = memory_of(lambda: None, net, optimizer)
    assert memory.by_kind == {"parameter": 256, "gradient": 256, "optimizer": 256}
    assert {block["name"] for block in memory.blocks()} == {"weight", "weight (momentum_buffer)"}


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
def test_a_sum_of_gradients_takes_its_own_memory_if_the_first_is_kept(device):
    x = torch.ones(8, 8, device=device, requires_grad=True)
    kept = []

    def run():
        y = x * 2
        y.register_hook(lambda gradient: None)
        a, b = y * 3, y * 5
        for part in (a, b):
            part.register_hook(kept.append)
        del part
        (a + b).sum().backward()

    memory_of(run, x)
    assert len(kept) == 2


def test_a_sum_that_the_user_makes_is_a_block_of_its_own():
    x = torch.ones(8, 8)
    assert peak_of(lambda: (x + 1) + (x + 2), x) == 768


@DEVICES
def test_a_bias_is_added_in_place(device):
    net = nn.Linear(8, 8).to(device)
    x = torch.ones(8, 4, 8, device=device).transpose(0, 1)  # not contiguous: PyTorch multiplies, then adds the bias
    with torch.no_grad():
        assert peak_of(lambda: net(x), net, x) == 1024 + 1024  # the copy of x and the product


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
def test_the_state_of_a_random_generator_is_counted(device):
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device)
    x = torch.ones(8, 8, device=device, requires_grad=True)
    memory = memory_of(lambda: checkpoint(net, x, use_reentrant=False), net, x)
    state = torch.get_rng_state().numel()
    assert memory.end - memory.base == 256 + state


@DEVICES
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_activations_are_made_again(use_reentrant, device):
    # Each block of three layers saves three tensors of 256 bytes: of 4 blocks, one at a time.
    blocks = nn.ModuleList(nn.Sequential(nn.Tanh(), nn.Tanh(), nn.Tanh()) for _ in range(4))
    x = torch.ones(8, 8, device=device, requires_grad=True)

    def run(checkpointed):
        y = x
        for block in blocks:
            y = (
                checkpoint(block, y, use_reentrant=use_reentrant, preserve_rng_state=False)
                if checkpointed
                else block(y)
            )
        y.sum().backward()

    memory_of(lambda: run(True), x)  # PyTorch imports modules
    x.grad = None
    plain, checkpointed = memory_of(lambda: run(False), x), memory_of(lambda: run(True), x)
    assert plain.saved == 12 * 256 + 8  # and the sum and its gradient
    assert checkpointed.saved == 4 * 256 + 8
    assert checkpointed.peak < plain.peak


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
def test_frozen_parameters_have_no_gradient(device):
    net = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)).to(device)
    net[0].weight.requires_grad_(False)
    x = torch.ones(2, 8, device=device)
    memory = memory_of(lambda: net(x).sum().backward(), net, x)
    assert memory.by_kind["gradient"] == 256
    assert memory.saved == 64 + 8  # the output of the first layer, the loss and its gradient


@DEVICES
def test_an_output_may_be_an_input(device):
    x = torch.ones(8, 8, device=device)
    memory = memory_of(lambda: nn.Identity()(x), x)
    assert memory.by_kind == {"input": 256}


@DEVICES
def test_a_run_that_fails_has_the_memory_until_then(device):
    x = torch.ones(8, 8, device=device)
    hook = ComputationalCostHook(memory=True)
    with pytest.raises(ZeroDivisionError), hook:
        held = x + 1
        1 / 0  # noqa: B018
    del held
    assert hook.memory.peak - hook.memory.base == 256


@DEVICES
def test_nested_hooks_each_have_their_memory(device):
    x = torch.ones(8, 8, device=device)
    with ComputationalCostHook(memory=True) as outer:
        y = x + 1
        with ComputationalCostHook(memory=True) as inner:
            z = y + 1
        del y, z
        w = x * 3  # noqa: F841
    assert (outer.memory.base, outer.memory.peak, outer.memory.end) == (256, 768, 512)
    assert (inner.memory.base, inner.memory.peak) == (256, 512)  # y lives before the inner block


def test_a_hook_without_memory_has_none():
    with ComputationalCostHook() as hook:
        torch.ones(2) + 1
    assert hook.memory is None
    assert all(not call.saved for call in hook.calls)
    with pytest.raises(CostError, match="memory was not recorded"):
        hook.show_memory()
    with pytest.raises(CostError, match=r"memory=True"):
        hook.watch(torch.ones(2))


def test_memory_does_not_change_what_is_counted():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5))
    for options in ({}, {"backward": True}, {"optimizer": "adamw"}):
        with_memory, without = (estimate(net, (2, 3, 8, 8), memory=memory, **options) for memory in (True, False))
        kept = {key: with_memory.total_report[key] for key in without.total_report}
        assert kept == without.total_report
        assert [call.type for call in with_memory.calls] == [call.type for call in without.calls]


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


def test_a_replayed_call_frees_each_of_its_blocks():
    """Attention with dropout makes and frees eight blocks, some of them while earlier ones live."""

    class Dropped(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)

    x = torch.zeros(2, 4, 33, 16)
    with torch.no_grad():
        real = memory_of(lambda: Dropped()(x), x)
    lives = [(block.shape, block.born, block.died) for block in real.ledger.blocks]
    assert len(lives) == 8
    for _ in range(2):
        memory = estimate(Dropped(), (2, 4, 33, 16), memory=True).memory
        assert [(block.shape, block.born, block.died) for block in memory.ledger.blocks] == lives


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


def test_sparse_tensors_have_the_memory_of_their_parts():
    # Indices: 1 row of 3 int64; values: 3 rows of 4 float32.
    table = nn.Embedding(10, 4, sparse=True)
    memory = memory_of(lambda: table(torch.tensor([1, 2, 2])).sum().backward(), table)
    assert memory.by_kind["gradient"] == 3 * 8 + 3 * 4 * 4


def test_a_sparse_gradient_on_the_meta_device_has_the_memory_of_a_run():
    memory = estimate(nn.Embedding(10, 4, sparse=True), ((3,), torch.int64), memory=True, backward=True).memory
    copy = 3 * 8 + 3 * 4 * 4 if COPIES_WATCHED_SPARSE_GRADIENTS else 0  # otherwise it is the indices and what came in
    assert memory.by_kind.get("gradient", 0) == copy
    assert memory.is_exact


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
    assert "a sparse result was taken to have the values of its sparse operands" in str(report.assumptions[0])


@DEVICES
def test_a_tensor_that_grows_lives_twice_for_a_moment(device):
    x = torch.ones(8, 8, device=device)
    assert peak_of(lambda: (x + 1).resize_(16, 16), x) == 256 + 1024


@DEVICES
def test_storages_that_are_emptied_and_filled_again(device):
    whole = torch.empty(64, device=device)
    whole.untyped_storage().resize_(0)
    x = torch.ones(64, device=device)

    def run():
        for _ in range(2):
            whole.untyped_storage().resize_(256)
            whole.copy_(x)  # 256
            y = whole * 2  # 512
            whole.untyped_storage().resize_(0)
            y = y + 1  # 512
        return y

    memory = memory_of(run, x, whole)
    assert memory.base == 256  # whole is empty before the run
    assert memory.peak - memory.base == 768  # in the second round, the result of the first one lives too
    assert memory.end - memory.base == 256
    assert [block.nbytes for block in memory.ledger.blocks if block.kind == "input"] == [256, 256, 256]


@DEVICES
def test_gradients_that_are_views_are_not_added_in_place(device):
    x = torch.ones(8, 8, device=device, requires_grad=True)

    def run():
        y = x * 2  # 256
        z = (y.t() * 3).sum() + (y.t() * 5).sum()
        z.backward()

    # y, its first gradient and the second one, both transposed: views, which keep the tensors that they are views of;
    # so their sum is a block of its own. The number z, and its gradient, are 4 bytes each.
    memory = memory_of(run, x)
    assert memory.phases["backward"] - memory.base == 4 * 256 + 4 + 4
