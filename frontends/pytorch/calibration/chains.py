"""The chains of a sweep: operators that run one after another, as in a network."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .image_chains import IMAGE_CHAINS
from .sequence_blocks import Embedding
from .sequence_chains import SEQUENCE_CHAINS
from .shapes import Maker, Shapes
from .signal_chains import SIGNAL_CHAINS
from .volume_chains import VOLUME_CHAINS

MAKERS: Mapping[str, tuple[Maker, int]] = {**IMAGE_CHAINS, **SIGNAL_CHAINS, **VOLUME_CHAINS, **SEQUENCE_CHAINS}
"""What makes the chains of every kind, and the share of the kind."""

TRAINING = 4
"""Of so many chains of a kind, one runs its backward pass too."""


class Chain(NamedTuple):
    """Operators that run one after another, as in a network.

    Attributes:
        name: its kind and shape.
        module: the blocks.
        inputs: what they are given.
        training: whether the backward pass runs too.
    """

    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    training: bool = False

    def run(self) -> None:
        """Run the chain; of training, forward and backward, after which gradients are freed."""
        with torch.set_grad_enabled(self.training):
            result = self.module(*self.inputs)
            if self.training:
                result.sum().backward()
                self.module.zero_grad(set_to_none=True)


def make_chains(count: int, limit: float, seed: int = 0) -> list[Chain]:
    """Return chains with the same shapes for the same arguments, on the CPU.

    Args:
        count: about how many chains.
        limit: about how many MACs one may have.
        seed: of the choice of shapes.
    """
    shares = sum(share for _, share in MAKERS.values())
    chains = []
    for name, (make, share) in MAKERS.items():
        for i in range(max(1, round(count * share / shares))):
            module, shape = make(Shapes(Random(f"{seed} {name} {i}"), limit))
            training = i % TRAINING == TRAINING - 1 and any(True for _ in module.parameters())
            chains.append(Chain(f"{name} {shape}", module.train(training), _inputs(module, shape), training))
    return chains


def _inputs(module: nn.Module, shape: tuple[Any, ...]) -> tuple[Tensor, ...]:
    embedding = next((each for each in module.modules() if isinstance(each, Embedding)), None)
    if embedding is not None:
        return (torch.randint(embedding.tokens.num_embeddings, shape),)
    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    return tuple(torch.randn(each) for each in shapes)
