"""FLOPs and bytes of networks: costcore, XLA's cost analysis and the roofline of JAX, as a Markdown table.

XLA compiles every network for the processor, which takes about a minute in all.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.experimental import roofline

from costcore import Tensor, estimate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from networks import LSTM, EncoderBlock, Llama, ResNet50, ViT

Network = tuple[str, Any, Any, bool]
"""Name, module, input and whether the gradients of the parameters are computed too."""

MLP = nn.Sequential([nn.Dense(128), nn.relu, nn.Dense(10)])

NETWORKS: tuple[Network, ...] = (
    ("MLP 784-128-10, batch 32", MLP, (32, 784), False),
    ("ResNet-50", ResNet50(), (1, 224, 224, 3), False),
    ("ViT-B/16", ViT(), (1, 224, 224, 3), False),
    ("Llama block, 2 x 64 tokens", Llama(), Tensor((2, 64), "int32"), False),
    ("Transformer block, 2 x 128 tokens", EncoderBlock(8, 2048), (2, 128, 512), False),
    (
        "strided and transposed convolution",
        nn.Sequential([nn.Conv(16, (3, 3), 2), nn.relu, nn.ConvTranspose(3, (3, 3), (2, 2))]),
        (4, 32, 32, 3),
        False,
    ),
    (
        "convolutions with group norm",
        nn.Sequential([nn.Conv(64, (3, 3)), nn.GroupNorm(8), nn.silu, nn.Conv(64, (3, 3))]),
        (2, 32, 32, 64),
        False,
    ),
    (
        "depthwise separable convolution",
        nn.Sequential(
            [nn.Conv(64, (3, 3), feature_group_count=64), nn.BatchNorm(True), nn.relu6, nn.Conv(128, (1, 1))]
        ),
        (2, 56, 56, 64),
        False,
    ),
    ("LSTM, 10 steps", LSTM(), (4, 10, 32), False),
    ("MLP, training", MLP, (32, 784), True),
    ("Transformer block, training", EncoderBlock(8, 2048), (2, 128, 512), True),
    ("ViT-B/16, training", ViT(), (1, 224, 224, 3), True),
)


def function_of(module: Any, x: Any, train: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what JAX compiles, and its abstract arguments."""
    given = jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, Tensor) else jax.ShapeDtypeStruct(x, "float32")
    make = lambda key: module.init(key, jnp.zeros(given.shape, given.dtype))  # noqa: E731
    variables = jax.eval_shape(make, jax.random.key(0))
    if not train:
        return module.apply, (variables, given)
    return jax.value_and_grad(lambda variables, x: module.apply(variables, x).sum()), (variables, given)


def measured() -> Iterator[tuple[str, ...]]:
    """Yield a row per network."""
    for name, module, x, train in NETWORKS:
        total = estimate(module, x, fma_1flop=False, backward=train).total_report
        function, arguments = function_of(module, x, train)
        xla = jax.jit(function).lower(*arguments).compile().cost_analysis()
        _, result = roofline.roofline(function)(*arguments)
        flops = total["flops"], xla["flops"], result.unfused_flops
        sizes = total["mrw"], xla["bytes accessed"], result.unfused_hbm_bytes
        ratio = f"{total['flops'] / xla['flops']:.3f}"
        yield (name, *(f"{n / 1e6:,.1f}" for n in flops), ratio, *(f"{n / 2**20:,.1f}" for n in sizes))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("| network | MFLOPs | XLA | roofline | costcore / XLA | MiB | XLA | roofline |")
    print("|:--|--:|--:|--:|--:|--:|--:|--:|")
    for row in measured():
        print(f"| {' | '.join(row)} |", flush=True)
