"""A network of equal blocks, and the file that makes it."""

from __future__ import annotations

import pytest

SOURCE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

class Net(nn.Module):
    tp_plan = {"blocks.*.up": "colwise", "blocks.*.down": "rowwise"}

    def __init__(self, depth=8):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("nets") / "plan_nets.py"
    found.write_text(SOURCE)
    return found


@pytest.fixture(scope="module")
def net(path):
    namespace = {}
    exec(path.read_text(), namespace)
    return namespace["Net"]()
