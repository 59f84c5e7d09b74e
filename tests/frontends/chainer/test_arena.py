"""The arena of an inference capture of Chainer."""

from __future__ import annotations

import chainer
import numpy as np
from chainer import functions, links

from costcore import estimate


class Net(chainer.Chain):
    """x 4 x 32 -> 256 -> relu -> 10."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.first = links.Linear(32, 256)
            self.second = links.Linear(256, 10)

    def forward(self, x):
        return self.second(functions.relu(self.first(x)))


def test_a_network_has_an_arena():
    report = estimate(Net(), np.zeros((4, 32), np.float32))
    arena = report.arena()
    assert (arena.peak, arena.size) == (8192, 8192), "the ReLU reads and writes 4 * 256 float32"
    assert arena.weights == 4 * (32 * 256 + 256 + 256 * 10 + 10)
    assert arena.timeline[0][1] == 4 * 4 * (32 + 256)
    assert report.arena(inplace=True).peak == 4 * 4 * (32 + 256)
