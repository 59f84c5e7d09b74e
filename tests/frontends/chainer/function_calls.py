"""One call, or more, of every public function of ``chainer.functions``, small enough to run by the hundred.

A call is given ``v``, which makes a Variable of a shape, with values between ``low`` and ``high``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import chainer
import numpy
from chainer import functions as F  # noqa: N812 - the name it goes by in Chainer

Call = Callable[..., Any]


def x(*shape: int, dtype: str = "float32", low: float = 0.1, high: float = 0.9) -> Any:
    """An array of different values."""
    return numpy.linspace(low, high, int(numpy.prod(shape)), dtype=dtype).reshape(shape)


def i(*values: int) -> Any:
    """Indices."""
    return numpy.array(values, "int32")


def recurrent(v: Call, gates: int, directions: int = 1, cell: bool = False) -> tuple[Any, ...]:
    """Arguments of the ``n_step`` functions: two layers of 3 units, two sequences of 3 and 2 steps, given by steps."""
    states = [v(2 * directions, 2, 3)] * (2 if cell else 1)
    widths = [3] * directions + [3 * directions] * directions
    ws = [[v(3, width) for _ in range(gates)] + [v(3, 3) for _ in range(gates)] for width in widths]
    bs = [[v(3) for _ in range(2 * gates)] for _ in widths]
    return 2, 0.5, *states, ws, bs, [v(size, 3) for size in (2, 2, 1)]


def spd(v: Call) -> Any:
    """A symmetric positive definite matrix of 3 rows."""
    a = v(3, 3)
    return F.matmul(a, a, transb=True) + numpy.eye(3, dtype="float32")


def sparse() -> Any:
    """A matrix of 2 x 3 with 3 nonzero elements."""
    return chainer.utils.CooMatrix(x(3), i(0, 1, 1), i(0, 0, 2), (2, 3), requires_grad=True)


def pooled(v: Call) -> Any:
    """Upsampling by the indices of a pooling."""
    y, indices = F.max_pooling_2d(v(1, 2, 4, 4), 2, return_indices=True)
    return F.upsampling_2d(y, indices, 2, outsize=(4, 4))


REGIONS = x(2, 4, low=0, high=4), i(0, 1)
LABELS = i(0, 2)

UNARY = """
absolute arccos arcsin arctan arctanh ceil clipped_relu cos cosh crelu digamma elu erf erfc erfcinv erfcx erfinv exp
expm1 fix flatten floor hard_sigmoid leaky_relu lgamma log log10 log1p log2 log_ndtr log_softmax logsumexp ndtr
ndtri normalize relu relu6 rrelu rsqrt selu sigmoid sign sin sinh softmax softplus sqrt square squeeze tan tanh
transpose argmax argmin max mean min prod sum cumprod cumsum average dropout batch_l2_norm_squared identity decov
fliplr flipud
"""
BINARY = """
absolute_error add arctan2 batch_matmul broadcast fmod linear_interpolate matmul maximum minimum mean_absolute_error
mean_squared_error squared_difference squared_error cross_covariance gaussian gaussian_kl_divergence bias scale
tensordot zoneout r2_score
"""
CALLS: Mapping[str, Call] = {
    **{name: lambda v, name=name: getattr(F, name)(v(2, 3)) for name in UNARY.split()},
    **{name: lambda v, name=name: getattr(F, name)(v(2, 3), v(2, 3)) for name in BINARY.split()},
    "add, three": lambda v: F.add(v(3), v(3), v(3)),
    "add, a constant": lambda v: 2 - (v(3) + 1) * 3 / v(3),
    "add, powers": lambda v: v(3) ** 2 + 2 ** v(3) + v(3) ** v(3) + 1 / v(3) - (-v(3)) ** 3 + v(3) // 2,
    "bias": lambda v: F.bias(v(2, 3), v(3)),
    "scale": lambda v: F.scale(v(2, 3), v(3)),
    "absolute, of an array": lambda v: abs(v(3)),
    "cumprod, along an axis": lambda v: F.cumprod(v(2, 3), 1),
    "elu, negative": lambda v: F.elu(v(2, 3), alpha=-0.5),
    "logsumexp, along an axis": lambda v: F.logsumexp(v(2, 3), axis=1),
    "normalize, with a zero": lambda v: F.normalize(v(2, 3) * numpy.array([[0], [1]], "float32")),
    "softplus, steeper": lambda v: F.softplus(v(2, 3), beta=2.0),
    "accuracy": lambda v: F.accuracy(v(2, 3), LABELS),
    "accuracy, less one label": lambda v: F.accuracy(v(2, 3), LABELS, ignore_label=0),
    "argmax_crf1d": lambda v: F.argmax_crf1d(v(3, 3), [v(2, 3), v(1, 3)]),
    "as_strided": lambda v: F.as_strided(v(4), (2, 2), (1, 1)),
    "average, weighted": lambda v: F.average(v(2, 3), axis=1, weights=v(3)),
    "average_pooling_1d": lambda v: F.average_pooling_1d(v(1, 2, 4), 2),
    "average_pooling_2d": lambda v: F.average_pooling_2d(v(1, 2, 4, 4), 2),
    "average_pooling_3d": lambda v: F.average_pooling_3d(v(1, 2, 4, 4, 4), 2),
    "average_pooling_nd": lambda v: F.average_pooling_nd(v(1, 2, 4, 4), 2, pad=1, pad_value=None),
    "batch_det": lambda v: F.batch_det(F.stack([spd(v), spd(v)])),
    "batch_inv": lambda v: F.batch_inv(F.stack([spd(v), spd(v)])),
    "batch_matmul": lambda v: F.batch_matmul(v(2, 3, 4), v(2, 5, 4), transb=True),
    "batch_normalization": lambda v: F.batch_normalization(v(4, 3), v(3), v(3)),
    "batch_renormalization": lambda v: F.batch_renormalization(
        v(4, 3), v(3), v(3), 2, 1, running_mean=x(3), running_var=x(3)
    ),
    "bernoulli_nll": lambda v: F.bernoulli_nll(v(2, 3), v(2, 3)),
    "bilinear": lambda v: F.bilinear(v(2, 3), v(2, 4), v(3, 4, 5)),
    "bilinear, with linear terms": lambda v: F.bilinear(v(2, 3), v(2, 4), v(3, 4, 5), v(3, 5), v(4, 5), v(5)),
    "binary_accuracy": lambda v: F.binary_accuracy(v(3), i(0, 1, -1)),
    "black_out": lambda v: F.black_out(v(2, 3), LABELS, v(4, 3), numpy.array([[1, 3], [1, 0]], "int32")),
    "broadcast_to": lambda v: F.broadcast_to(v(3), (2, 3)),
    "cast": lambda v: F.cast(v(3), "float64"),
    "cholesky": lambda v: F.cholesky(spd(v)),
    "classification_summary": lambda v: F.classification_summary(v(2, 3), LABELS, label_num=3),
    "clip": lambda v: F.clip(v(2, 3), 0.2, 0.8),
    "clip, from below": lambda v: F.clip(v(2, 3), 0.2, None),
    "concat": lambda v: F.concat([v(2, 3), v(2, 3)]),
    "connectionist_temporal_classification": lambda v: F.connectionist_temporal_classification(
        [v(2, 4) for _ in range(5)], numpy.array([[1, 2], [3, 1]], "int32"), 0
    ),
    "contrastive": lambda v: F.contrastive(v(2, 3), v(2, 3) * 2, i(0, 1)),
    "convolution_1d": lambda v: F.convolution_1d(v(1, 2, 5), v(4, 2, 3), v(4)),
    "convolution_2d": lambda v: F.convolution_2d(v(1, 2, 5, 5), v(4, 1, 3, 3), v(4), groups=2),
    "convolution_3d": lambda v: F.convolution_3d(v(1, 2, 4, 4, 4), v(4, 2, 3, 3, 3)),
    "convolution_nd": lambda v: F.convolution_nd(v(1, 2, 5, 5), v(4, 2, 3, 3), stride=2, pad=1),
    "copy": lambda v: F.copy(v(3), -1),
    "crf1d": lambda v: F.crf1d(v(3, 3), [v(2, 3), v(1, 3)], [LABELS, i(1)]),
    "cross_covariance": lambda v: F.cross_covariance(v(4, 3), v(4, 2)),
    "cross_covariance, not reduced": lambda v: F.cross_covariance(v(4, 3), v(4, 2), reduce="no"),
    "deconvolution_1d": lambda v: F.deconvolution_1d(v(1, 2, 5), v(2, 4, 3), v(4)),
    "deconvolution_2d": lambda v: F.deconvolution_2d(v(1, 2, 5, 5), v(2, 2, 3, 3), v(4), groups=2),
    "deconvolution_3d": lambda v: F.deconvolution_3d(v(1, 2, 3, 3, 3), v(2, 4, 3, 3, 3)),
    "deconvolution_nd": lambda v: F.deconvolution_nd(v(1, 2, 5, 5), v(2, 4, 3, 3)),
    "decorrelated_batch_normalization": lambda v: F.decorrelated_batch_normalization(v(6, 4) ** 3, groups=2),
    "decov, not reduced": lambda v: F.decov(v(4, 3), reduce="no"),
    "deformable_convolution_2d_sampler": lambda v: F.deformable_convolution_2d_sampler(
        v(1, 2, 5, 5), v(1, 18, 3, 3), v(4, 2, 3, 3), v(4)
    ),
    "depth2space": lambda v: F.depth2space(v(1, 4, 2, 2), 2),
    "depthwise_convolution_2d": lambda v: F.depthwise_convolution_2d(v(1, 2, 5, 5), v(2, 2, 3, 3)),
    "det": lambda v: F.det(spd(v)),
    "diagonal": lambda v: F.diagonal(v(3, 3)),
    "dilated_convolution_2d": lambda v: F.dilated_convolution_2d(v(1, 2, 7, 7), v(4, 2, 3, 3), dilate=2),
    "discriminative_margin_based_clustering_loss": lambda v: F.discriminative_margin_based_clustering_loss(
        v(1, 2, 3, 3), i(*[0, 1, 2] * 3).reshape(1, 3, 3), 0.5, 1.5, 2
    ),
    "dstack": lambda v: F.dstack([v(2, 3), v(2, 3)]),
    "einsum": lambda v: F.einsum("...ij,jk->...ik", v(2, 3, 4), v(4, 5)),
    "einsum, a trace": lambda v: F.einsum("ii->", v(3, 3)),
    "einsum, a sum": lambda v: F.einsum("ij->j", v(2, 3)),
    "einsum, three": lambda v: F.einsum("ij,ik,jkl->il", v(2, 3), v(2, 4), v(3, 4, 5)),
    "embed_id": lambda v: F.embed_id(LABELS, v(4, 3)),
    "expand_dims": lambda v: F.expand_dims(v(3), 0),
    "f1_score": lambda v: F.f1_score(v(2, 3), LABELS, label_num=3),
    "fft": lambda v: F.fft((v(2, 4), v(2, 4))),
    "fixed_batch_normalization": lambda v: F.fixed_batch_normalization(v(4, 3), v(3), v(3), v(3), v(3)),
    "fixed_batch_renormalization": lambda v: F.fixed_batch_renormalization(v(4, 3), v(3), v(3), v(3), v(3)),
    "fixed_decorrelated_batch_normalization": lambda v: F.fixed_decorrelated_batch_normalization(
        v(4, 4), x(2, 2), x(2, 2, 2), groups=2
    ),
    "flip": lambda v: F.flip(v(2, 3), 1),
    "forget": lambda v: F.forget(lambda a: F.relu(F.tanh(a)), v(2, 3)),
    "gaussian_nll": lambda v: F.gaussian_nll(v(2, 3), v(2, 3), v(2, 3)),
    "get_item": lambda v: F.get_item(v(4, 3), slice(1, 3)),
    "get_item, by indices": lambda v: v(4, 3)[[0, 2, 2]],
    "get_item, by a mask": lambda v: v(3)[numpy.array([True, False, True])],
    "get_item, by two": lambda v: v(4, 3)[LABELS, LABELS],
    "group_normalization": lambda v: F.group_normalization(v(2, 4, 3), 2, v(4), v(4)),
    "gumbel_softmax": lambda v: F.gumbel_softmax(v(2, 3)),
    "hinge": lambda v: F.hinge(v(2, 3), LABELS),
    "hstack": lambda v: F.hstack([v(3), v(3)]),
    "huber_loss": lambda v: F.huber_loss(v(2, 3), v(2, 3) * 2, 0.3),
    "ifft": lambda v: F.ifft((v(2, 4), v(2, 4))),
    "im2col": lambda v: F.im2col(v(1, 2, 4, 4), 3),
    "inv": lambda v: F.inv(spd(v)),
    "layer_normalization": lambda v: F.layer_normalization(v(2, 3), v(3), v(3)),
    "linear": lambda v: F.linear(v(2, 3), v(4, 3), v(4)),
    "linear, of sequences": lambda v: F.linear(v(2, 3, 4), v(5, 4), n_batch_axes=2),
    "linear_interpolate": lambda v: F.linear_interpolate(v(3), v(3), v(3)),
    "local_convolution_2d": lambda v: F.local_convolution_2d(v(1, 2, 4, 4), v(3, 2, 2, 2, 3, 3), v(3, 2, 2)),
    "local_response_normalization": lambda v: F.local_response_normalization(v(2, 4, 2, 1)),
    "lstm": lambda v: F.lstm(v(2, 3), v(2, 12)),
    "lstm, fewer rows": lambda v: F.lstm(v(3, 3), v(2, 12)),
    "matmul": lambda v: F.matmul(v(2, 3), v(2, 4), transa=True),
    "max_pooling_1d": lambda v: F.max_pooling_1d(v(1, 2, 4), 2),
    "max_pooling_2d": lambda v: F.max_pooling_2d(v(1, 2, 4, 4), 2),
    "max_pooling_3d": lambda v: F.max_pooling_3d(v(1, 2, 4, 4, 4), 2),
    "max_pooling_nd": lambda v: F.max_pooling_nd(v(1, 2, 4, 4), 2),
    "maxout": lambda v: F.maxout(v(2, 6), 2),
    "moveaxis": lambda v: F.moveaxis(v(2, 3, 4), 0, -1),
    "n_step_bigru": lambda v: F.n_step_bigru(*recurrent(v, 3, 2)),
    "n_step_bilstm": lambda v: F.n_step_bilstm(*recurrent(v, 4, 2, cell=True)),
    "n_step_birnn": lambda v: F.n_step_birnn(*recurrent(v, 1, 2)),
    "n_step_gru": lambda v: F.n_step_gru(*recurrent(v, 3)),
    "n_step_lstm": lambda v: F.n_step_lstm(*recurrent(v, 4, cell=True)),
    "n_step_rnn": lambda v: F.n_step_rnn(*recurrent(v, 1), activation="relu"),
    "negative_sampling": lambda v: F.negative_sampling(
        v(2, 3), LABELS, v(4, 3), lambda shape: numpy.random.randint(0, 4, shape).astype("int32"), 2
    ),
    "pad": lambda v: F.pad(v(2, 3), 1, "constant"),
    "pad_sequence": lambda v: F.pad_sequence([v(2), v(3)]),
    "permutate": lambda v: F.permutate(v(2, 3), i(1, 0)),
    "polygamma": lambda v: F.polygamma(i(1, 1, 2), v(3)),
    "precision": lambda v: F.precision(v(2, 3), LABELS, label_num=3),
    "prelu": lambda v: F.prelu(v(2, 3, 2), v(3)),
    "prod, along an axis": lambda v: F.prod(v(2, 3), axis=1),
    "recall": lambda v: F.recall(v(2, 3), LABELS, label_num=3),
    "repeat": lambda v: F.repeat(v(2, 3), 2, axis=1),
    "repeat, unlike": lambda v: F.repeat(v(2, 3), (1, 2), axis=0),
    "reshape": lambda v: F.reshape(v(2, 3), (6,)),
    "resize_images": lambda v: F.resize_images(v(1, 2, 3, 3), (5, 5)),
    "resize_images, nearest": lambda v: F.resize_images(v(1, 2, 3, 3), (5, 5), mode="nearest", align_corners=False),
    "roi_average_align_2d": lambda v: F.roi_average_align_2d(v(2, 3, 5, 5), *REGIONS, 2, 1.0, 2),
    "roi_average_pooling_2d": lambda v: F.roi_average_pooling_2d(v(2, 3, 5, 5), *REGIONS, 2, 1.0),
    "roi_max_align_2d": lambda v: F.roi_max_align_2d(v(2, 3, 5, 5), *REGIONS, 2, 1.0),
    "roi_max_pooling_2d": lambda v: F.roi_max_pooling_2d(v(2, 3, 5, 5), *REGIONS, 2, 1.0),
    "roi_pooling_2d": lambda v: F.roi_pooling_2d(v(2, 3, 5, 5), x(1, 5, low=0, high=4), 2, 2, 1.0),
    "rollaxis": lambda v: F.rollaxis(v(2, 3, 4), 2),
    "scatter_add": lambda v: F.scatter_add(v(4, 3), LABELS, v(2, 3)),
    "scatter_add, to a range": lambda v: F.scatter_add(v(4, 3), slice(1, 3), v(2, 3)),
    "select_item": lambda v: F.select_item(v(2, 3), LABELS),
    "separate": lambda v: F.separate(v(2, 3)),
    "shift": lambda v: F.shift(v(1, 9, 3, 3)),
    "sigmoid_cross_entropy": lambda v: F.sigmoid_cross_entropy(v(2, 3), i(0, 1, 1, 0, 1, -1).reshape(2, 3)),
    "simplified_dropconnect": lambda v: F.simplified_dropconnect(v(2, 3), v(4, 3), v(4)),
    "simplified_dropconnect, for all rows": lambda v: F.simplified_dropconnect(
        v(2, 3), v(4, 3), use_batchwise_mask=False
    ),
    "slstm": lambda v: F.slstm(v(2, 3), v(2, 3), v(2, 12), v(2, 12)),
    "softmax_cross_entropy": lambda v: F.softmax_cross_entropy(v(2, 3), LABELS),
    "softmax_cross_entropy, twice": lambda v: F.softmax_cross_entropy(v(2, 3), LABELS, enable_double_backprop=True),
    "softmax_cross_entropy, of probabilities": lambda v: F.softmax_cross_entropy(v(2, 3), x(2, 3)),
    "softmax_cross_entropy, a divergence": lambda v: F.softmax_cross_entropy(
        v(2, 3), x(2, 3), soft_target_loss="kl-divergence"
    ),
    "softmax_cross_entropy, weighted": lambda v: F.softmax_cross_entropy(v(2, 3), LABELS, class_weight=x(3)),
    "space2depth": lambda v: F.space2depth(v(1, 2, 4, 4), 2),
    "sparse_matmul": lambda v: F.sparse_matmul(sparse(), v(3, 4)),
    "sparse_matmul, dense first": lambda v: F.sparse_matmul(v(4, 2), sparse()),
    "spatial_pyramid_pooling_2d": lambda v: F.spatial_pyramid_pooling_2d(v(1, 2, 4, 4), 2, pooling="max"),
    "spatial_transformer_grid": lambda v: F.spatial_transformer_grid(v(2, 2, 3), (4, 5)),
    "spatial_transformer_sampler": lambda v: F.spatial_transformer_sampler(v(2, 3, 5, 5), v(2, 2, 4, 4)),
    "split_axis": lambda v: F.split_axis(v(2, 6), 3, axis=1),
    "stack": lambda v: F.stack([v(2, 3), v(2, 3)]),
    "sum_to": lambda v: F.sum_to(v(2, 3), (1, 3)),
    "swapaxes": lambda v: F.swapaxes(v(2, 3), 0, 1),
    "swish": lambda v: F.swish(v(2, 3), v(3)),
    "tensordot": lambda v: F.tensordot(v(2, 3), v(3, 4), axes=1),
    "tile": lambda v: F.tile(v(3), (2, 2)),
    "transpose_sequence": lambda v: F.transpose_sequence([v(3), v(2)]),
    "tree_lstm": lambda v: F.tree_lstm(v(2, 3), v(2, 3), v(2, 15)),
    "triplet": lambda v: F.triplet(v(2, 3), v(2, 3) * 2, v(2, 3) * 3),
    "unpooling_1d": lambda v: F.unpooling_1d(v(1, 2, 3), 2),
    "unpooling_2d": lambda v: F.unpooling_2d(v(1, 2, 3, 3), 2),
    "unpooling_3d": lambda v: F.unpooling_3d(v(1, 2, 2, 2, 2), 2),
    "unpooling_nd": lambda v: F.unpooling_nd(v(1, 2, 3, 3), 2),
    "upsampling_2d": pooled,
    "vstack": lambda v: F.vstack([v(3), v(3)]),
    "where": lambda v: F.where(numpy.array([True, False, True]), v(3), v(3)),
    "zeta": lambda v: F.zeta(x(3, low=1.5, high=3), v(3)),
}
"""By the name of the function, and after a comma what is special about the call."""
