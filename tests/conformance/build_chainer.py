"""The layers of the conformance table in Chainer.

Excluded: layers that Chainer lacks (GELU, SiLU without a learned factor, Mish, Softsign, shrinking, comparisons,
adaptive pooling, top-k, instance and RMS normalization, normalization without weights, attention), layers that it
composes of several functions (SELU, hard swish, recurrent layers on a CPU), dropout at inference, which it does not
run, and layers with a different cost: argmax (int32 indices), dropout (a mask of the dtype of x), and the bilinear
layer, whose bias comes with two matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tests.registered import load

load("chainer")  # makes chainer import on today's numpy

import chainer  # noqa: E402
from chainer import functions  # noqa: E402

Builder = Callable[[], Callable[[], object]]


def x(*shape: int) -> Any:
    return numpy.full(shape, 0.5, "float32")


def call(function: Callable[..., object], *args: Any, **settings: Any) -> Builder:
    """Return a builder that calls ``function``; tuples of ints among the arguments become float32 arrays."""
    values = [x(*arg) if isinstance(arg, tuple) else arg for arg in args]
    return lambda: lambda: function(*values, **settings)


def on_variables(function: Callable[..., object], *shapes: tuple[int, ...]) -> Builder:
    """Return a builder that calls ``function``, which uses Python operators, on variables."""
    values = [chainer.Variable(x(*shape)) for shape in shapes]
    return lambda: lambda: function(*values)


A = (2, 3, 4, 4)
M = (3, 4)
R = (2, 3, 4)
P = (1, 2, 6, 6)
C = (3,)
INDICES = numpy.arange(10).reshape(2, 5)
LABELS = numpy.zeros(4, "int64")

ELEMENTS: dict[str, Builder] = {
    "relu": call(functions.relu, A),
    "relu6": call(functions.relu6, A),
    "leaky_relu": call(functions.leaky_relu, A, slope=0.1),
    "prelu": call(functions.prelu, A, C),
    "sigmoid": call(functions.sigmoid, A),
    "tanh": call(functions.tanh, A),
    "softplus": call(functions.softplus, A),
    "elu": call(functions.elu, A),
    "hard_sigmoid": call(functions.hard_sigmoid, A),
    "clip": call(functions.clip, A, -1.0, 2.0),
    "clip_below": call(functions.clip, A, 0.0, None),
    "add_broadcast": on_variables(lambda a, b: a + b, (3, 1), (1, 4)),
    "add_scalar": on_variables(lambda a: a + 2, M),
    "sub": on_variables(lambda a, b: a - b, M, M),
    "mul": on_variables(lambda a, b: a * b, M, (4,)),
    "div": on_variables(lambda a, b: a / b, M, M),
    "pow": on_variables(lambda a, b: a**b, M, M),
    "pow_square": on_variables(lambda a: a**2, M),
    "maximum": call(functions.maximum, M, M),
    "neg": on_variables(lambda a: -a, M),
    "abs": on_variables(abs, M),
    "exp": call(functions.exp, M),
    "log": call(functions.log, M),
    "sqrt": call(functions.sqrt, M),
    "where": call(functions.where, numpy.ones(M, "bool"), M, M),
}

ARRAYS: dict[str, Builder] = {
    "reduce_sum": call(functions.sum, R, axis=(1, 2)),
    "reduce_mean": call(functions.mean, R, axis=1),
    "reduce_max": call(functions.max, R, axis=-1),
    "reduce_min": call(functions.min, R),
    "log_sum_exp": call(functions.logsumexp, R, axis=2),
    "cumsum": call(functions.cumsum, R, axis=1),
    "concat": lambda: lambda: functions.concat([x(2, 3), x(2, 5)], axis=1),
    "stack": lambda: lambda: functions.stack([x(*M), x(*M)]),
    "split": call(functions.split_axis, (6, 4), 3, 0),
    "slice": on_variables(lambda a: a[1:3], (6, 4)),
    "transpose": call(functions.transpose, R, axes=(2, 0, 1)),
    "broadcast_to": call(functions.broadcast_to, (1, 4), shape=M),
    "reshape": call(functions.reshape, (2, 3), shape=(3, 2)),
    "pad": call(functions.pad, (2, 3), [(1, 1), (2, 2)], "constant"),
    "tile": call(functions.tile, (2, 3), reps=(2, 3)),
    "gather": on_variables(lambda a: a[numpy.array([7, 1, 1, 3])], (10, 3)),
    "embedding": call(functions.embed_id, INDICES, (20, 8)),
    "cast": call(functions.cast, M, "float16"),
    "depth_to_space": call(functions.depth2space, (1, 8, 2, 3), 2),
    "max_pool": call(functions.max_pooling_2d, P, 3, 2, 1, cover_all=False),
    "avg_pool": call(functions.average_pooling_2d, P, 3, 2, 1),
    "global_avg_pool": call(functions.average_pooling_2d, P, 6),
    "resize_nearest": call(functions.resize_images, P, output_shape=(12, 12), mode="nearest"),
    "resize_bilinear": call(functions.resize_images, P, output_shape=(12, 12)),
    "resize_bilinear_down": call(functions.resize_images, P, output_shape=(2, 2)),
    "affine_grid": call(functions.spatial_transformer_grid, (2, 2, 3), output_shape=(5, 6)),
}

LAYERS: dict[str, Builder] = {
    "conv1d": call(functions.convolution_1d, (2, 3, 10), (4, 3, 3), (4,)),
    "conv2d_no_bias": call(functions.convolution_2d, (1, 3, 8, 8), (5, 3, 3, 3), pad=1),
    "conv2d_stride": call(functions.convolution_2d, (1, 3, 8, 8), (5, 3, 3, 3), (5,), stride=2, pad=1),
    "conv2d_dilation": call(functions.convolution_2d, (1, 2, 9, 9), (3, 2, 3, 3), (3,), dilate=2),
    "conv2d_groups": call(functions.convolution_2d, (2, 4, 6, 6), (8, 2, 3, 3), (8,), groups=2),
    "conv2d_depthwise": call(functions.convolution_2d, (1, 6, 5, 5), (6, 1, 3, 3), pad=1, groups=6),
    "conv3d": call(functions.convolution_3d, (1, 2, 4, 4, 4), (3, 2, 2, 2, 2), (3,)),
    "conv_transpose2d_no_bias": call(functions.deconvolution_2d, (1, 3, 4, 4), (3, 2, 3, 3), stride=2),
    "conv_transpose2d_groups": call(functions.deconvolution_2d, (1, 4, 3, 3), (4, 3, 2, 2), (6,), stride=2, groups=2),
    "linear": call(functions.linear, (4, 5), (3, 5), (3,)),
    "linear_3d": call(functions.linear, (2, 4, 5), (3, 5), (3,), n_batch_axes=2),
    "linear_no_bias": call(functions.linear, (4, 5), (3, 5)),
    "matmul": call(functions.matmul, (3, 4), (4, 5)),
    "matmul_batched": call(functions.matmul, R, (2, 4, 5)),
    "matmul_broadcast": call(functions.matmul, R, (4, 5)),
    "einsum": call(lambda a, b: functions.einsum("bij,bjk->bik", a, b), R, (2, 4, 5)),
    "batch_norm_inference": call(functions.fixed_batch_normalization, A, C, C, C, C),
    "batch_norm_training": call(functions.batch_normalization, A, C, C, running_mean=x(3), running_var=x(3)),
    "layer_norm": call(
        functions.layer_normalization, (10, 8), (8,), (8,)
    ),  # Chainer normalizes matrices only: 2 * 5 rows
    "group_norm": call(lambda a, w, b: functions.group_normalization(a, 3, w, b), (2, 6, 2, 2), (6,), (6,)),
    "l2_normalize": call(functions.normalize, (4, 6)),
    "local_response_norm": call(functions.local_response_normalization, (1, 6, 3, 3)),
    "softmax": call(functions.softmax, (4, 6)),
    "log_softmax": call(functions.log_softmax, (4, 6)),
    "cross_entropy": call(functions.softmax_cross_entropy, (4, 3), LABELS),
    "mse_loss": call(functions.mean_squared_error, (4, 3), (4, 3)),
}

BUILDERS: dict[str, Builder] = {**ELEMENTS, **ARRAYS, **LAYERS}
