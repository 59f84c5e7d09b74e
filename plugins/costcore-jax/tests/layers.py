"""The layers of the conformance table in JAX: functions of ``jax.numpy``, ``jax.lax``, ``jax.nn`` and layers of Flax.

Excluded: layers that JAX lacks (prelu, shrinking, softsign as one function, adaptive pooling, bilinear layers, affine
grids, local response normalization), dropout at inference, which writes no equation, and layers
with a different cost: indices of int32 (argmax, gather, embedding, top-k), recurrent layers (scans).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen
from jax import lax

from costcore import Tensor


class Built(NamedTuple):
    """A function or module, its inputs and the options of ``estimate``."""

    model: Any
    inputs: Any
    options: Mapping[str, Any]


def built(model: Any, *inputs: Any, **options: Any) -> Built:
    return Built(model, list(inputs), {"regroup": True, **options})


def weighted(function: Callable[..., Any], *shapes: Any) -> Built:
    """Return a function whose inputs but the first are learned."""
    return built(function, *shapes, params=range(1, len(shapes)))


def conv(kernel: tuple[int, ...], *, bias: bool = True, **settings: Any) -> Callable[..., Any]:
    """Return a convolution in the layout of PyTorch, with a bias per channel."""
    letters = "HWD"[: len(kernel)]
    numbers = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    settings = {"window_strides": (1,) * len(kernel), "padding": "VALID", **settings}

    def run(x: Any, w: Any, b: Any = None) -> Any:
        y = lax.conv_general_dilated(x, w, dimension_numbers=numbers, **settings)
        return y if b is None else y + b[:, *(None,) * len(kernel)]

    return run


def conv_transpose(groups: int, *, biased: bool) -> Callable[..., Any]:
    """Return a transposed convolution of stride 2; w is [C_out, C_in/G, K, K], as JAX stores it."""

    def run(x: Any, w: Any, b: Any = None) -> Any:
        border = (w.shape[2] - 1,) * 2
        y = lax.conv_general_dilated(x, w, (1, 1), (border, border), lhs_dilation=(2, 2), feature_group_count=groups)
        return y + b[:, None, None] if biased else y

    return run


def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = jnp.einsum("nhqd,nhkd->nhqk", q, k) * 0.5
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9) if mask.dtype == bool else scores + mask
    return jnp.einsum("nhqk,nhkd->nhqd", jax.nn.softmax(scores), v)


def rms_norm(x: Any, w: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w


def max_pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))


A, M, R = (2, 3, 4, 4), (3, 4), (2, 3, 4)
Q, K = (1, 2, 3, 4), (1, 2, 5, 4)

ELEMENTS: Mapping[str, Built] = {
    **{
        name: built(getattr(jax.nn, name), A)
        for name in ("relu", "relu6", "leaky_relu", "sigmoid", "tanh", "silu", "mish", "softplus", "elu", "selu")
    },
    "hard_sigmoid": built(jax.nn.hard_sigmoid, A),
    "hard_swish": built(jax.nn.hard_swish, A),
    "gelu": built(lambda x: jax.nn.gelu(x, approximate=False), A),
    "gelu_tanh": built(jax.nn.gelu, A),
    "clip": built(lambda x: lax.clamp(-1.0, x, 2.0), A),
    "add_broadcast": built(jnp.add, (3, 1), (1, 4)),
    "add_scalar": built(lambda x: x + 2, M),
    "sub": built(jnp.subtract, M, M),
    "mul": built(jnp.multiply, M, (4,)),
    "div": built(jnp.divide, M, M),
    "pow": built(jnp.power, M, M),
    "maximum": built(jnp.maximum, M, M),
    "neg": built(jnp.negative, M),
    "abs": built(jnp.abs, M),
    "exp": built(jnp.exp, M),
    "log": built(jnp.log, M),
    "sqrt": built(jnp.sqrt, M),
    "erf": built(lax.erf, M),
    "less": built(jnp.less, M, M),
    "where": built(jnp.where, Tensor(M, "bool"), M, M),
}

ARRAYS: Mapping[str, Built] = {
    "reduce_sum": built(lambda x: jnp.sum(x, (1, 2)), R),
    "reduce_mean": built(lambda x: jnp.mean(x, 1), R),
    "reduce_max": built(lambda x: jnp.max(x, 2), R),
    "reduce_min": built(jnp.min, R),
    "cumsum": built(lambda x: jnp.cumsum(x, 1), R),
    "max_pool": built(max_pool, (1, 2, 6, 6)),
    "concat": built(lambda x, y: jnp.concatenate([x, y], 1), (2, 3), (2, 5)),
    "split": built(lambda x: jnp.split(x, 3), (6, 4)),
    "slice": built(lambda x: x[1:3], (6, 4)),
    "transpose": built(lambda x: x.transpose(2, 0, 1), R),
    "broadcast_to": built(lambda x: jnp.broadcast_to(x, M), (1, 4)),
    "reshape": built(lambda x: x.reshape(3, 2), (2, 3)),
    "pad": built(lambda x: jnp.pad(x, ((1, 1), (2, 2))), (2, 3)),
    "cast": built(lambda x: x.astype("float16"), M),
}

LAYERS: Mapping[str, Built] = {
    "conv1d": weighted(conv((3,)), (2, 3, 10), (4, 3, 3), (4,)),
    "conv2d_no_bias": weighted(conv((3, 3), padding=((1, 1), (1, 1))), (1, 3, 8, 8), (5, 3, 3, 3)),
    "conv2d_stride": weighted(
        conv((3, 3), padding=((1, 1), (1, 1)), window_strides=(2, 2)), (1, 3, 8, 8), (5, 3, 3, 3), (5,)
    ),
    "conv2d_dilation": weighted(conv((3, 3), rhs_dilation=(2, 2)), (1, 2, 9, 9), (3, 2, 3, 3), (3,)),
    "conv2d_groups": weighted(conv((3, 3), feature_group_count=2), (2, 4, 6, 6), (8, 2, 3, 3), (8,)),
    "conv2d_depthwise": weighted(
        conv((3, 3), padding=((1, 1), (1, 1)), feature_group_count=6), (1, 6, 5, 5), (6, 1, 3, 3)
    ),
    "conv3d": weighted(conv((2, 2, 2)), (1, 2, 4, 4, 4), (3, 2, 2, 2, 2), (3,)),
    "conv_transpose2d_no_bias": weighted(conv_transpose(1, biased=False), (1, 3, 4, 4), (2, 3, 3, 3)),
    "conv_transpose2d_groups": weighted(conv_transpose(2, biased=True), (1, 4, 3, 3), (6, 2, 2, 2), (6,)),
    "linear": built(linen.Dense(3), (4, 5)),
    "linear_3d": built(linen.Dense(3), (2, 4, 5)),
    "linear_no_bias": built(linen.Dense(3, use_bias=False), (4, 5)),
    "matmul": built(jnp.matmul, (3, 4), (4, 5)),
    "matmul_batched": built(jnp.matmul, R, (2, 4, 5)),
    "matmul_broadcast": built(jnp.matmul, R, (4, 5)),
    "batch_norm_inference": built(linen.BatchNorm(use_running_average=True), (2, 4, 4, 3)),
    "layer_norm": built(linen.LayerNorm(), (2, 5, 8)),
    "layer_norm_plain": built(linen.LayerNorm(use_bias=False, use_scale=False), (2, 5, 8)),
    "group_norm": built(linen.GroupNorm(3), (2, 2, 2, 6)),
    "instance_norm": built(linen.InstanceNorm(), (2, 2, 3, 3)),
    "rms_norm": weighted(rms_norm, (4, 8), (8,)),
    "softmax": built(jax.nn.softmax, (4, 6)),
    "log_softmax": built(jax.nn.log_softmax, (4, 6)),
    "attention": built(attention, Q, K, K),
    "attention_bool_mask": built(attention, Q, K, K, Tensor((3, 5), "bool")),
    "attention_float_mask": built(attention, Q, K, K, (3, 5)),
}

BUILDERS: Mapping[str, Built] = {**ELEMENTS, **ARRAYS, **LAYERS}
