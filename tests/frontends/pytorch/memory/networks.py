"""Small networks whose memory was measured on a CPU, and training steps that were measured.

The peaks are those of the CPU allocator as ``torch.profiler.profile(profile_memory=True)`` lists its events, without
the workspace of kernels: rows of ``memory_cpu.csv``, measured with torch 2.13.0, one thread, float32. ``base`` is what
lives before the step (parameters, buffers, inputs, state of the optimizer, each storage once), ``peak`` what comes on
top.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from costcore import ComputationalCostHook
from tests.frontends.pytorch.differences import COPIES_ATTENTION


class Cnn(nn.Module):
    """Two convolutions, pooling and two linear layers, written with functions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.linear1, self.linear2 = nn.Linear(6272, 128), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.conv1(x))
        x = functional.relu(self.conv2(x))
        x = functional.max_pool2d(x, 2).flatten(1)
        return self.linear2(functional.relu(self.linear1(x)))


def _two_convolutions(c_in: int, c_out: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True)),
        *(nn.Conv2d(c_out, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True)),
    )


class UNet(nn.Module):
    """Three levels down and up, with skip connections."""

    def __init__(self, width: int = 16, depth: int = 3) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(map(_two_convolutions, [3, *widths[:-2]], widths[:-1]))
        self.middle = _two_convolutions(*widths[-2:])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in reversed(widths[:-1]))
        self.join = nn.ModuleList(_two_convolutions(2 * c, c) for c in reversed(widths[:-1]))
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), skips.pop()], 1))
        return self.out(x)


class Lstm(nn.Module):
    """An embedding, two LSTM layers and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 128, 2, batch_first=True)
        self.out = nn.Linear(128, 1000)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.lstm(self.embedding(x))
        return self.out(y)


def _mlp() -> nn.Module:
    layers = nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10)
    return nn.Sequential(*layers)


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


class Network(NamedTuple):
    """A network and the shape and dtype of its input."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32


NETWORKS: Mapping[str, Network] = {
    "mlp": Network(_mlp, (32, 784)),
    "seed_cnn": Network(Cnn, (8, 1, 28, 28)),
    "lstm2": Network(Lstm, (4, 20), torch.int64),
    "unet16": Network(UNet, (2, 3, 64, 64)),
    "encoder4": Network(_encoder, (2, 64, 128)),
}

OPTIMIZERS: Mapping[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, foreach=False),
    "sgdm": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False),
    "sgdm_foreach": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, foreach=False),
    "adamw_foreach": lambda parameters: torch.optim.AdamW(parameters, foreach=True),
    "adamw_first": lambda parameters: torch.optim.AdamW(parameters, foreach=False),
    "accum2_adamw": lambda parameters: torch.optim.AdamW(parameters, foreach=False),
}
"""The optimizer of each way to run a network that has one."""


class Measured(NamedTuple):
    """The memory of one network, run in one way, in bytes."""

    network: str
    mode: str
    base: int
    peak: int


COPIES = 4 * 4 * 2 * 64 * 128 * COPIES_ATTENTION
"""What the four layers of the encoder keep more before PyTorch 2.5: the input of each output projection, in float32."""

MEASURED = (
    Measured("mlp", "infer", 2_779_176, 131_072),
    Measured("mlp", "forward", 2_779_176, 197_888),
    Measured("mlp", "fwdbwd", 2_779_176, 2_745_648),
    Measured("mlp", "sgdm", 5_458_000, 2_745_648),
    Measured("mlp", "adamw", 8_136_848, 5_891_380),
    Measured("mlp", "adamw_foreach", 8_136_848, 5_358_932),
    Measured("mlp", "adamw_first", 2_779_176, 11_249_052),
    Measured("mlp", "accum2_adamw", 8_136_848, 5_890_096),
    Measured("mlp", "amp_fwdbwd", 2_779_176, 3_481_260),
    Measured("seed_cnn", "infer", 3_280_296, 2_408_448),
    Measured("seed_cnn", "forward", 3_280_296, 2_408_448),
    Measured("seed_cnn", "fwdbwd", 3_280_296, 6_428_528),
    Measured("seed_cnn", "adamw", 9_790_744, 9_678_196),
    Measured("unet16", "infer", 2_037_880, 2_359_296),
    Measured("unet16", "forward", 2_037_880, 10_196_480),
    Measured("unet16", "fwdbwd", 2_037_880, 11_245_200),
    Measured("unet16", "sgdm_foreach", 3_971_712, 11_245_200),
    Measured("unet16", "adamw", 5_905_800, 11_245_200),
    Measured("unet16", "accum2_adamw", 5_905_800, 13_178_896),
    Measured("unet16", "amp_fwdbwd", 2_037_880, 6_866_412),
    Measured("encoder4", "infer", 3_237_888, 131_072),
    Measured("encoder4", "forward", 3_237_888, 4_341_760 + COPIES),
    Measured("encoder4", "fwdbwd", 3_237_888, 4_801_032 + COPIES),
    Measured("encoder4", "adamw", 9_582_784, 4_801_032 + COPIES),
    Measured("lstm2", "fwdbwd", 1_698_336, 2_855_336),
    Measured("lstm2", "adamw", 5_093_772, 3_043_756),
)


def summed(result: object) -> Tensor:
    """Return the sum of all outputs that have a gradient, as the measured steps compute it."""
    outputs = [x.sum() for x in tree_leaves(result) if x.is_floating_point() and x.requires_grad]
    return sum(outputs[1:], outputs[0])


def run(network: nn.Module, x: Tensor, mode: str, optimizer: torch.optim.Optimizer | None, held: list[Any]) -> None:
    """Run a network in one way; ``held`` receives what lives to the end."""
    with torch.set_grad_enabled(mode != "infer"):
        if mode in ("infer", "forward"):
            held.append(network(x))
            return
    for _ in range(2 if mode == "accum2_adamw" else 1):
        with torch.autocast("cpu", torch.bfloat16) if mode == "amp_fwdbwd" else nullcontext():
            result = network(x)
            loss = summed(result)
        loss.backward()
        if mode == "accum2_adamw":
            del result, loss
        else:
            held += [result, loss]
    if optimizer is not None:
        optimizer.step()


def memory_of_run(network: nn.Module, x: Tensor, mode: str) -> Any:
    """Return the memory of a run after a first one, as the hook records it."""
    network.train(mode != "infer")
    optimizer = OPTIMIZERS[mode](network.parameters()) if mode in OPTIMIZERS else None
    if mode != "adamw_first":
        run(network, x, mode, optimizer, [])
    network.zero_grad()
    gc.collect()
    held: list[Any] = []
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(network, x, *(() if optimizer is None else (optimizer,)))
        run(network, x, mode, optimizer, held)
    memory = hook.memory
    assert memory is not None
    return memory
