"""The networks of the conformance kit in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from costcore import Report, estimate
from tests.whole_networks.pytorch_models import NETWORKS as PUBLISHED
from tests.whole_networks.pytorch_models import Encoder, UNet, without_data


def lenet5() -> nn.Module:
    features = [nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)]
    head = [nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)]
    return nn.Sequential(*features, *head)


def mlp() -> nn.Module:
    hidden = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(256, 10))


def counted(build: Callable[[], nn.Module], inputs: Any) -> Report:
    return estimate(without_data(build), inputs)


NETWORKS: Mapping[str, Callable[[], Report]] = {
    **{name: partial(counted, each.build, each.shape) for name, each in PUBLISHED.items()},
    "unet": partial(counted, UNet, (1, 3, 64, 64)),
    "encoder": partial(counted, Encoder, ((2, 8), "int64")),
    "lenet5": partial(counted, lenet5, (1, 1, 32, 32)),
    "lstm_network": partial(counted, lambda: nn.LSTM(32, 64), (10, 4, 32)),
    "mlp": partial(counted, mlp, (8, 784)),
}
