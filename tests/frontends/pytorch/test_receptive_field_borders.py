"""Regions at every position of an output, borders included, against the extent of the gradients of the input."""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import nn

from costcore import estimate


class Transposed(nn.Module):
    """Exchanges height and width."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(2, 3)


class Tokens(nn.Module):
    """Positions along one axis, row by row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).mT


class Cropped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :, 2:, 1:-1]


class Padded(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(x, (1, 3, 2, 0))


def extents(net: nn.Module, x: torch.Tensor, index: tuple[int, ...]) -> tuple[tuple[int, int] | None, ...]:
    """Return the first and last row and column of x whose gradient is not zero; None if there is none."""
    x.grad = None
    net(x)[index].sum().backward()
    found = []
    for others in ((0, 1, 3), (0, 1, 2)):
        seen = x.grad.abs().sum(others).nonzero().flatten().tolist()
        found.append((seen[0], seen[-1]) if seen else None)
    return tuple(found)


def check(net: nn.Module, shape: tuple[int, ...], first: int = 2) -> None:
    """Compare the regions of all positions, along the axes of the output from ``first``."""
    net = net.double().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(parameter.abs() + 0.1)  # no two paths cancel
    x = torch.rand(shape, dtype=torch.float64, requires_grad=True)
    out = net(x)
    field = estimate(net, shape).receptive_field(axes=[2, 3]).last
    axes = field.axes
    assert field.is_known and axes == (first, first + 1)
    for position in torch.cartesian_prod(*(torch.arange(out.shape[axis]) for axis in axes)).reshape(-1, len(axes)):
        index: list[int | slice] = [0] + [slice(None)] * (out.ndim - 1)
        for axis, at in zip(axes, position.tolist(), strict=True):
            index[axis] = at
        region, seen = field.region(*position.tolist()), extents(net, x, tuple(index))
        if None in region:  # in a gap of a transposed convolution along one axis, it sees nothing
            assert seen == (None, None)
        else:
            assert region == seen, position


NETWORKS = {
    "dilated": (nn.Conv2d(1, 2, 3, padding=4, dilation=4), (1, 1, 9, 7)),
    "dilated twice": (
        nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 1, 3, padding=(4, 3), dilation=(4, 3))),
        (1, 1, 10, 7),
    ),
    "strided": (
        nn.Sequential(nn.Conv2d(1, 1, 3, 2, 1), nn.AvgPool2d(3, 2, 1), nn.Conv2d(1, 1, 3, padding=2, dilation=2)),
        (1, 1, 17, 14),
    ),
    "transposed convolution": (
        nn.Sequential(nn.Conv2d(1, 1, 3, 2, 1), nn.ConvTranspose2d(1, 1, 4, 2, 1), nn.ConvTranspose2d(1, 1, 2, 3)),
        (1, 1, 6, 5),
    ),
    "upsampled": (
        nn.Sequential(nn.Conv2d(1, 1, 3, 2, 1), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(1, 1, 3)),
        (1, 1, 9, 8),
    ),
    "exchanged": (nn.Sequential(nn.Conv2d(1, 1, (3, 1), (2, 1)), Transposed(), nn.Conv2d(1, 1, 3)), (1, 1, 9, 8)),
    "cropped and padded": (nn.Sequential(Cropped(), nn.Conv2d(1, 1, 3, padding=1), Padded()), (1, 1, 7, 6)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_regions_are_exact(name):
    net, shape = NETWORKS[name]
    check(net, shape)


def test_tokens_have_one_number():
    """Token 5 of a grid of 2 rows and 4 columns is at row 1 and column 1: windows of 4 by 4 begin there at 4 and 4."""
    net = nn.Sequential(nn.Conv2d(1, 1, 4, 4), Tokens())
    field = estimate(net, (1, 1, 8, 16)).receptive_field(axes=[2, 3]).last
    assert (field.axes, field.region(5)) == ((1,), ((4, 7), (4, 7)))
    with pytest.raises(ValueError, match="region expects 1 or 1 numbers"):
        field.region(1, 1)


def test_what_depends_on_all_of_the_input_sees_the_whole_axis():
    """Rows are cut by a stride of 2, and all columns meet in the linear layer: position 1 of 4 sees rows 2 and 3."""
    net = nn.Sequential(nn.Conv2d(1, 1, (2, 1), (2, 1)), nn.Linear(6, 6))
    field = estimate(net, (1, 1, 8, 6)).receptive_field().last
    assert (field.axes, field.region(1), field.is_global) == ((2,), ((2, 3), (0, 5)), False)
    assert estimate(nn.Sequential(nn.Flatten(), nn.Linear(48, 2)), (1, 1, 8, 6)).receptive_field().last.is_global


@pytest.mark.parametrize("seed", range(20))
def test_random_chains(seed):
    random = Random(seed)
    steps: list[nn.Module] = []
    shape = (1, 1, random.randint(11, 16), random.randint(11, 16))
    while len(steps) < 4:
        kernel, stride, dilation = (
            (random.randint(1, 4), random.randint(1, 4)),
            random.randint(1, 3),
            random.randint(1, 3),
        )
        padding = tuple(random.randint(0, dilation * (size - 1)) for size in kernel)
        pooled = tuple(size // 2 for size in kernel)
        step = random.choice(
            [
                lambda k=kernel, s=stride, p=padding, d=dilation: nn.Conv2d(1, 1, k, s, p, d),
                lambda k=kernel, p=padding, d=dilation: nn.Conv2d(1, 1, k, 1, p, d),
                lambda k=kernel, s=stride, d=dilation: nn.ConvTranspose2d(1, 1, k, s, 0, 0, dilation=d),
                lambda k=kernel, s=stride, p=pooled: nn.AvgPool2d(k, s, p),
                Transposed,
            ]
        )()
        try:
            size = nn.Sequential(*steps, step)(torch.rand(shape)).shape
        except RuntimeError:  # the window is larger than what is left
            continue
        if 4 <= size[2] * size[3] <= 900:
            steps.append(step)
    check(nn.Sequential(*steps), shape)
