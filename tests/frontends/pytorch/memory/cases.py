"""Small runs in which memory lives in unusual ways, each as a function that makes it on a device.

Each returns the run, what lives before it, and what precedes it: the run may have run before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn, optim
from torch.utils.checkpoint import checkpoint


class Made(NamedTuple):
    """A run, what lives before it, and what precedes it."""

    run: Callable[[], Any]
    lives: list[Any]
    prepare: Callable[[], Any] = lambda: None


CASES: dict[str, Callable[[str], Made]] = {}
"""The runs by name; the argument is the device."""

ON_CPU_ONLY: set[str] = set()
"""Those that need data."""


def case(make: Callable[[str], Made]) -> Callable[[str], Made]:
    CASES[make.__name__] = make
    return make


def with_data(make: Callable[[str], Made]) -> Callable[[str], Made]:
    ON_CPU_ONLY.add(make.__name__)
    return case(make)


def training(net: nn.Module, *inputs: Tensor, loss: Callable[[Any], Any] = lambda y: y.sum()) -> Made:
    """Return a forward and backward pass."""

    def run() -> Any:
        value = loss(net(*inputs))
        value.backward()
        return value

    return Made(run, [net, *inputs], net.zero_grad)


def mlp(device: str, width: int = 16) -> tuple[nn.Module, Tensor]:
    layers = nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 8)
    return nn.Sequential(*layers).to(device), torch.ones(4, 8, device=device)


@case
def a_result_in_place_bound_to_its_own_name(device):
    x = torch.ones(8, 8, device=device)

    def run():
        y = x * 2
        y = y.relu_()
        y = y.relu_()
        return y

    return Made(run, [x])


@case
def expanded_and_materialized(device):
    x = torch.ones(8, 1, device=device)

    def run():
        y = x.expand(8, 8)
        return y, y.contiguous(), y + 1

    return Made(run, [x])


@case
def a_chunk_that_outlives_its_base(device):
    x = torch.ones(8, 8, device=device)

    def run():
        first, _ = (x * 2).chunk(2)
        return first * 3

    return Made(run, [x])


@case
def tied_parameters(device):
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)).to(device)
    net[2].weight = net[0].weight
    return training(net, torch.ones(4, 8, device=device))


@case
def frozen_parameters(device):
    net, x = mlp(device)
    net[0].requires_grad_(False)
    return training(net, x)


@case
def two_backward_passes_of_one_graph(device):
    net, x = mlp(device)

    def run():
        y = net(x).tanh().sum()
        y.backward(retain_graph=True)
        y.backward()
        return y

    return Made(run, [net, x], net.zero_grad)


@case
def a_penalty_on_gradients(device):
    net, _ = mlp(device)
    x = torch.ones(4, 8, device=device, requires_grad=True)

    def run():
        (gradient,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        penalty = ((gradient.norm(2, dim=1) - 1) ** 2).mean()
        penalty.backward()
        return penalty

    def prepare():
        net.zero_grad()
        x.grad = None

    return Made(run, [net, x], prepare)


@case
def hooks_that_keep_outputs(device):
    net, x = mlp(device)
    kept = []
    for module in net:
        module.register_forward_hook(lambda module, args, output: kept.append(output))

    def run():
        with torch.no_grad():
            return net(x), [*kept]

    return Made(run, [net, x], kept.clear)


@case
def a_checkpoint_in_a_checkpoint(device):
    nets = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)).to(device)
    x = torch.ones(4, 8, device=device, requires_grad=True)

    def inner(y):
        return checkpoint(nets[1], nets[0](y), use_reentrant=False, preserve_rng_state=False)

    def run():
        y = checkpoint(inner, x, use_reentrant=False, preserve_rng_state=False)
        y = nets[3](nets[2](y)).sum()
        y.backward()
        return y

    def prepare():
        nets.zero_grad()
        x.grad = None

    return Made(run, [nets, x], prepare)


def checkpointed(name: str, use_reentrant: bool) -> None:
    """Add a training step with two checkpoints, each of which keeps the state of the random generator."""

    def step(device: str) -> Made:
        nets = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Tanh()) for _ in range(2)).to(device)
        x = torch.ones(4, 8, device=device, requires_grad=True)

        def run() -> Any:
            y = x
            for net in nets:
                y = checkpoint(net, y, use_reentrant=use_reentrant)
            loss = y.sum()
            loss.backward()
            return loss

        def prepare() -> None:
            nets.zero_grad()
            x.grad = None

        return Made(run, [nets, x], prepare)

    CASES[name] = step


checkpointed("checkpoints_that_keep_a_random_state", False)
checkpointed("reentrant_checkpoints_that_keep_a_random_state", True)


@case
def gradients_accumulated(device):
    net, x = mlp(device)

    def run():
        for _ in range(3):
            net(x).sum().backward()

    return Made(run, [net, x], net.zero_grad)


def with_optimizer(name: str, make: Callable[[Any], optim.Optimizer], needs_data: bool = False) -> None:
    """Add a training step with an optimizer, whose state exists."""

    def step(device: str) -> Made:
        net, x = mlp(device)
        optimizer = make(net.parameters())

        def run() -> Any:
            loss = net(x).sum()
            loss.backward()
            optimizer.step()
            return loss

        run()
        return Made(run, [net, x, optimizer], net.zero_grad)

    CASES[name] = step
    if needs_data:
        ON_CPU_ONLY.add(name)


with_optimizer("amsgrad", lambda p: optim.Adam(p, amsgrad=True, foreach=False))
with_optimizer("amsgrad_foreach", lambda p: optim.Adam(p, amsgrad=True, foreach=True))
with_optimizer("adamw_fused", lambda p: optim.AdamW(p, fused=True), needs_data=True)
with_optimizer("nesterov", lambda p: optim.SGD(p, 0.1, 0.9, weight_decay=0.1, nesterov=True, foreach=False))
with_optimizer("rmsprop", lambda p: optim.RMSprop(p, foreach=False))
with_optimizer("adagrad", lambda p: optim.Adagrad(p, foreach=False))
with_optimizer("adadelta_foreach", lambda p: optim.Adadelta(p, foreach=True))
if hasattr(optim, "Adafactor"):  # since PyTorch 2.5
    with_optimizer("adafactor", lambda p: optim.Adafactor(p, foreach=False), needs_data=True)


@with_data
def lbfgs(device):
    net, x = mlp(device)
    optimizer = optim.LBFGS(net.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = (net(x) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return Made(lambda: optimizer.step(closure), [net, x, optimizer])


@case
def weights_cast_once_by_autocast(device):
    net, x = mlp(device)

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            loss = net(x).sum() + net(x).sum()
        loss.backward()
        return loss

    return Made(run, [net, x], net.zero_grad)


@with_data
def experts(device):
    nets, x = nn.ModuleList(nn.Linear(8, 8) for _ in range(3)).to(device), torch.ones(6, 8, device=device)
    chosen = torch.arange(6, device=device) % 3

    def run():
        out = torch.zeros_like(x)
        with torch.no_grad():
            for i, net in enumerate(nets):
                rows = (chosen == i).nonzero()[:, 0]
                out[rows] += net(x[rows])
        return out

    return Made(run, [nets, x, chosen])


@case
def integers_as_inputs(device):
    return training(nn.Embedding(10, 8).to(device), torch.zeros(3, 4, dtype=torch.int64, device=device))


@case
def a_tensor_that_grows(device):
    x = torch.ones(8, 8, device=device)
    return Made(lambda: (x + 1).resize_(32, 32), [x])


@case
def memory_replaced(device):
    x = torch.ones(8, 8, device=device)

    def run():
        y = x + 1
        y.set_(torch.ones(16, 16, device=device))
        return y, y + 1

    return Made(run, [x])


@case
def parameters_that_are_gathered_and_freed(device):
    """As FSDP does: the storage of a whole parameter is resized to be filled and to be freed."""
    shards = [torch.ones(64 * 64, device=device) for _ in range(3)]
    whole = [torch.empty(64 * 64, device=device) for _ in shards]
    x = torch.ones(4, 64, device=device)

    def run():
        y = x
        for parameter, shard in zip(whole, shards, strict=True):
            parameter.untyped_storage().resize_(shard.untyped_storage().nbytes())
            parameter.copy_(shard)
            y = y @ parameter.view(64, 64)
            parameter.untyped_storage().resize_(0)
        return y

    def prepare():
        for parameter in whole:
            parameter.untyped_storage().resize_(0)

    prepare()
    return Made(run, [x, *shards, *whole], prepare)


@with_data
def sparse_gradients(device):
    return training(nn.Embedding(10, 4, sparse=True).to(device), torch.tensor([1, 2, 2], device=device))


@with_data
def sparse_operands(device):
    eye, x = torch.eye(8, device=device).to_sparse(), torch.ones(8, 8, device=device)
    return Made(lambda: (torch.sparse.mm(eye, x), eye.coalesce() * 2), [eye, x])


@case
def jagged_tensors(device):
    net, x, y = nn.Linear(8, 8).to(device), torch.ones(3, 8, device=device), torch.ones(5, 8, device=device)

    def run():
        with torch.no_grad():
            return net(torch.nested.nested_tensor([x, y], layout=torch.jagged, device=device)).relu()

    return Made(run, [net, x, y])


@with_data
def nested_tensors(device):
    net, x, y = nn.Linear(8, 8).to(device), torch.ones(3, 8, device=device), torch.ones(5, 8, device=device)

    def run():
        with torch.no_grad():
            return net(torch.nested.nested_tensor([x, y], device=device))

    return Made(run, [net, x, y])


@with_data
def quantized_tensors(device):
    x = torch.ones(8, 8, device=device)

    def run():
        y = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        return y, y.dequantize()

    return Made(run, [x])


@case
def a_function_of_the_user(device):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            (y,) = ctx.saved_tensors
            return gradients[0] * y

    x = torch.ones(8, 8, device=device, requires_grad=True)

    def run():
        loss = Exp.apply(x * 2).sum()
        loss.backward()
        return loss

    def prepare():
        x.grad = None

    return Made(run, [x], prepare)


def recurrent(name: str, make: Callable[[], nn.Module]) -> None:
    """Add a training step of a recurrent layer."""

    def step(device: str) -> Made:
        return training(make().to(device), torch.ones(3, 2, 5, device=device), loss=lambda results: results[0].sum())

    CASES[name] = step


recurrent("rnn", lambda: nn.RNN(5, 7, nonlinearity="relu"))
recurrent("rnn_in_two_directions", lambda: nn.RNN(5, 7, num_layers=2, bidirectional=True))
recurrent("gru_in_two_directions", lambda: nn.GRU(5, 7, num_layers=2, bidirectional=True))
recurrent("gru", lambda: nn.GRU(5, 7, batch_first=True))
recurrent("gru_without_bias", lambda: nn.GRU(5, 7, num_layers=2, dropout=0.3, bias=False))
recurrent("lstm_without_bias", lambda: nn.LSTM(5, 7, bias=False))
