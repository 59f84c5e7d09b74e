"""The layers of the conformance table in PyTorch.

Excluded: layers that PyTorch composes of several operators (L2 normalization, local response normalization, softsign),
and ``reshape``, which is a ``view``, or a copy and a view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.pytorch.differences import HAS_GROUPED_QUERIES

Builder = Callable[[], Callable[[], object]]

A = (2, 3, 4, 4)
M = (3, 4)
R = (2, 3, 4)
P = (1, 2, 6, 6)


def call(function: Callable[..., object], *args: Any, **settings: Any) -> Builder:
    """Return a builder that calls ``function``; tuples of ints among the arguments become float32 tensors."""

    def build() -> Callable[[], object]:
        values = [torch.full(arg, 0.5) if isinstance(arg, tuple) else arg for arg in args]
        return lambda: function(*values, **settings)

    return build


def module(make: Callable[[], nn.Module], *inputs: Any) -> Builder:
    """Return a builder that calls a module in inference mode; inputs as for ``call``, or nested in lists."""

    def build() -> Callable[[], object]:
        layer = make().eval()
        return call(layer, *inputs)()

    return build


def training(make: Callable[[], nn.Module], *inputs: Any) -> Builder:
    """Return a builder that calls a module in training mode."""
    return lambda: call(make().train(), *inputs)()


def where() -> Callable[[], object]:
    condition, a, b = torch.ones(M, dtype=torch.bool), torch.ones(M), torch.ones(M)
    return lambda: torch.where(condition, a, b)


def gather() -> Callable[[], object]:
    x, indices = torch.ones(10, 3), torch.tensor([1, 4, 4, 7])
    return lambda: torch.index_select(x, 0, indices)


def embedding() -> Callable[[], object]:
    layer, indices = nn.Embedding(20, 8), torch.zeros(2, 5, dtype=torch.int64)
    return lambda: layer(indices)


def masked_attention(dtype: torch.dtype) -> Builder:
    mask = torch.ones(3, 5, dtype=dtype)
    return call(functional.scaled_dot_product_attention, (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), mask)


def recurrent(layer: nn.Module, *states: tuple[int, ...]) -> Builder:
    def build() -> Callable[[], object]:
        x, given = torch.ones(5, 2, 3), tuple(torch.zeros(state) for state in states)
        return lambda: layer(x, given if len(given) > 1 else given[0])

    return build


def cross_entropy() -> Callable[[], object]:
    x, target = torch.ones(4, 3), torch.zeros(4, dtype=torch.int64)
    return lambda: functional.cross_entropy(x, target)


def prelu() -> Callable[[], object]:
    layer, x = nn.PReLU(3), torch.ones(A)
    return lambda: layer(x)


ELEMENTS: dict[str, Builder] = {
    "relu": call(functional.relu, A),
    "relu6": call(functional.relu6, A),
    "leaky_relu": call(functional.leaky_relu, A, 0.1),
    "prelu": prelu,
    "sigmoid": call(torch.sigmoid, A),
    "tanh": call(torch.tanh, A),
    "gelu": call(functional.gelu, A),
    "gelu_tanh": call(functional.gelu, A, approximate="tanh"),
    "silu": call(functional.silu, A),
    "mish": call(functional.mish, A),
    "softplus": call(functional.softplus, A),
    "elu": call(functional.elu, A),
    "selu": call(functional.selu, A),
    "hard_sigmoid": call(functional.hardsigmoid, A),
    "hard_swish": call(functional.hardswish, A),
    "hard_shrink": call(functional.hardshrink, A),
    "soft_shrink": call(functional.softshrink, A),
    "clip": call(torch.clamp, A, -1, 2),
    "clip_below": call(torch.clamp, A, min=0),
    "add_broadcast": call(torch.add, (3, 1), (1, 4)),
    "add_scalar": call(Tensor.__add__, M, 2),
    "sub": call(torch.sub, M, M),
    "mul": call(torch.mul, M, (4,)),
    "div": call(torch.div, M, M),
    "pow": call(torch.pow, M, M),
    "pow_square": call(torch.pow, M, 2),
    "maximum": call(torch.maximum, M, M),
    "neg": call(torch.neg, M),
    "abs": call(torch.abs, M),
    "exp": call(torch.exp, M),
    "log": call(torch.log, M),
    "sqrt": call(torch.sqrt, M),
    "erf": call(torch.erf, M),
    "less": call(torch.lt, M, M),
    "where": where,
}

REDUCTIONS: dict[str, Builder] = {
    "reduce_sum": call(torch.sum, R, dim=[1, 2]),
    "reduce_mean": call(torch.mean, R, dim=1),
    "reduce_max": call(torch.amax, R, dim=2),
    "reduce_min": call(torch.amin, R),
    "argmax": call(torch.argmax, R, dim=2),
    "log_sum_exp": call(torch.logsumexp, R, dim=2),
    "cumsum": call(torch.cumsum, R, dim=1),
    "topk": call(torch.topk, R, 2),
}

POOLING: dict[str, Builder] = {
    "max_pool": call(functional.max_pool2d, P, 3, 2, 1),
    "avg_pool": call(functional.avg_pool2d, P, 3, 2, 1),
    "global_avg_pool": call(functional.adaptive_avg_pool2d, P, 1),
    "adaptive_avg_pool": call(functional.adaptive_avg_pool2d, P, 4),
    "resize_nearest": call(functional.interpolate, P, scale_factor=2),
    "resize_bilinear": call(functional.interpolate, P, size=12, mode="bilinear"),
    "resize_bilinear_down": call(functional.interpolate, P, size=2, mode="bilinear"),
    "affine_grid": call(functional.affine_grid, (2, 2, 3), size=(2, 3, 5, 6), align_corners=False),
}

LAYOUT: dict[str, Builder] = {
    "concat": call(lambda a, b: torch.cat([a, b], 1), (2, 3), (2, 5)),
    "stack": call(lambda a, b: torch.stack([a, b]), M, M),
    "split": call(torch.split_copy, (6, 4), 2),
    "slice": call(torch.slice_copy, (6, 4), 0, 1, 3),
    "transpose": call(torch.permute_copy, R, [2, 0, 1]),
    "broadcast_to": call(torch.expand_copy, (1, 4), [3, 4]),
    "pad": call(functional.pad, (2, 3), [2, 2, 1, 1]),
    "tile": call(torch.tile, (2, 3), [2, 3]),
    "gather": gather,
    "embedding": embedding,
    "cast": call(Tensor.half, M),
    "depth_to_space": call(functional.pixel_shuffle, (1, 8, 2, 3), 2),
}

CONNECTION: dict[str, Builder] = {
    "conv1d": module(lambda: nn.Conv1d(3, 4, 3), (2, 3, 10)),
    "conv2d_no_bias": module(lambda: nn.Conv2d(3, 5, 3, padding=1, bias=False), (1, 3, 8, 8)),
    "conv2d_stride": module(lambda: nn.Conv2d(3, 5, 3, stride=2, padding=1), (1, 3, 8, 8)),
    "conv2d_dilation": module(lambda: nn.Conv2d(2, 3, 3, dilation=2), (1, 2, 9, 9)),
    "conv2d_groups": module(lambda: nn.Conv2d(4, 8, 3, groups=2), (2, 4, 6, 6)),
    "conv2d_depthwise": module(lambda: nn.Conv2d(6, 6, 3, padding="same", groups=6, bias=False), (1, 6, 5, 5)),
    "conv3d": module(lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "conv_transpose2d_no_bias": module(lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, bias=False), (1, 3, 4, 4)),
    "conv_transpose2d_groups": module(lambda: nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2), (1, 4, 3, 3)),
    "linear": module(lambda: nn.Linear(5, 3), (4, 5)),
    "linear_3d": module(lambda: nn.Linear(5, 3), (2, 4, 5)),
    "linear_no_bias": module(lambda: nn.Linear(5, 3, bias=False), (4, 5)),
    "matmul": call(torch.matmul, M, (4, 5)),
    "matmul_batched": call(torch.matmul, R, (2, 4, 5)),
    "matmul_broadcast": call(torch.matmul, R, (4, 5)),
    "bilinear": module(lambda: nn.Bilinear(3, 4, 5), (2, 3), (2, 4)),
    "einsum": call(lambda a, b: torch.einsum("bij,bjk->bik", a, b), R, (2, 4, 5)),
}

NORMALIZATION: dict[str, Builder] = {
    "batch_norm_inference": module(lambda: nn.BatchNorm2d(3), A),
    "batch_norm_training": training(lambda: nn.BatchNorm2d(3), A),
    "layer_norm": module(lambda: nn.LayerNorm(8), (2, 5, 8)),
    "layer_norm_plain": module(lambda: nn.LayerNorm(8, elementwise_affine=False), (2, 5, 8)),
    "group_norm": module(lambda: nn.GroupNorm(3, 6), (2, 6, 2, 2)),
    "instance_norm": module(lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 2, 3)),
    "rms_norm": module(lambda: nn.RMSNorm(8), (4, 8)),
    "softmax": call(functional.softmax, (4, 6), dim=1),
    "log_softmax": call(functional.log_softmax, (4, 6), dim=1),
}

GROUPED = (1, 4, 3, 2), (1, 2, 5, 2), (1, 2, 5, 2)

ATTENTION: dict[str, Builder] = {
    "attention": call(functional.scaled_dot_product_attention, (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)),
    "attention_bool_mask": masked_attention(torch.bool),
    "attention_float_mask": masked_attention(torch.float32),
    "attention_causal": call(functional.scaled_dot_product_attention, *[(1, 2, 4, 3)] * 3, is_causal=True),
}
if HAS_GROUPED_QUERIES:
    ATTENTION["attention_grouped"] = call(functional.scaled_dot_product_attention, *GROUPED, enable_gqa=True)

RECURRENT: dict[str, Builder] = {
    "lstm": recurrent(nn.LSTM(3, 4), (1, 2, 4), (1, 2, 4)),
    "lstm_two_layers_bidirectional": recurrent(nn.LSTM(3, 4, 2, bidirectional=True), (4, 2, 4), (4, 2, 4)),
    "gru": recurrent(nn.GRU(3, 4), (1, 2, 4)),
    "rnn": recurrent(nn.RNN(3, 4), (1, 2, 4)),
    "rnn_two_layers_relu": recurrent(nn.RNN(3, 4, 2, nonlinearity="relu"), (2, 2, 4)),
}

OTHERS: dict[str, Builder] = {
    "cross_entropy": cross_entropy,
    "mse_loss": call(functional.mse_loss, (4, 3), (4, 3)),
    "dropout_inference": call(functional.dropout, (4, 6), training=False),
    "dropout_training": call(functional.dropout, (4, 6), training=True),
}

BUILDERS: dict[str, Builder] = {
    **ELEMENTS,
    **REDUCTIONS,
    **POOLING,
    **LAYOUT,
    **CONNECTION,
    **NORMALIZATION,
    **ATTENTION,
    **RECURRENT,
    **OTHERS,
}
