"""A small transformer and the plans that distribute it, with sizes from which tests compute by hand."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, HIDDEN, HEADS, VOCABULARY = 3, 64, 96, 8, 40
BATCH, LENGTH = 2, 16
TOKENS = BATCH * LENGTH
ACTIVATION = 4 * TOKENS * WIDTH
"""Bytes of the activations between blocks in float32."""

BLOCK = 4 * WIDTH * WIDTH + 3 * WIDTH * HIDDEN
"""Elements of the parameters of a block."""

HEAD = WIDTH * VOCABULARY
PARAMETERS = LAYERS * BLOCK + 2 * HEAD
"""Elements of all parameters: the blocks, the embedding and the head."""

ATTENTION = 2 * BATCH * LENGTH * LENGTH * WIDTH
"""MACs of the two products of attention in a block."""

MACS = LAYERS * (TOKENS * BLOCK + ATTENTION) + TOKENS * HEAD
"""MACs of a forward pass."""

TOKEN_IDS = {"ids": ((BATCH, LENGTH), torch.int64)}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = (linear(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for linear in (self.q, self.k, self.v))
        x = x + self.o(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


TENSOR_PARALLEL = {
    **{f"blocks.*.{name}": ColwiseParallel() for name in ("q", "k", "v", "gate", "up")},
    **{f"blocks.*.{name}": RowwiseParallel() for name in ("o", "down")},
}
"""Styles of ``parallelize_module``: the blocks are divided, embedding and head replicated."""


def fully_sharded(model, mesh, **options):
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def data_parallel(model, mesh):
    return DistributedDataParallel(model, process_group=mesh.get_group())


def tensor_parallel_and_sharded(model, mesh):
    parallelize_module(model, mesh["tp"], TENSOR_PARALLEL)
    fully_sharded(model, mesh["dp"])


def sequence_parallel(model, mesh):
    """Activations between blocks are divided along the sequence, and gathered before every product of columns."""
    styles = {
        **{f"blocks.*.{name}": ColwiseParallel(input_layouts=Shard(1)) for name in ("q", "k", "v", "gate", "up")},
        **{f"blocks.*.{name}": RowwiseParallel(output_layouts=Shard(1)) for name in ("o", "down")},
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    parallelize_module(model, mesh, styles)
