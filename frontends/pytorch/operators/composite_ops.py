"""The composite operators that are recorded as one call."""

from __future__ import annotations

import torch

_NAMES = """
linear matmul einsum bilinear
conv1d conv2d conv3d conv1d.padding conv2d.padding conv3d.padding
conv_transpose1d conv_transpose2d.input conv_transpose3d.input
batch_norm layer_norm group_norm instance_norm rms_norm _fused_rms_norm scaled_dot_product_attention
lstm.input lstm.data gru.input gru.data rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data
lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
softmax.int log_softmax.int selu selu_ relu6 relu6_ log_sigmoid prelu
dropout dropout_ feature_dropout feature_dropout_ alpha_dropout alpha_dropout_
feature_alpha_dropout feature_alpha_dropout_
max_pool1d max_pool2d max_pool3d max_pool1d_with_indices avg_pool1d
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec
_upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec
upsample_linear1d.vec upsample_bilinear2d.vec upsample_trilinear3d.vec upsample_bicubic2d.vec
embedding_bag embedding_bag.padding_idx one_hot
cross_entropy_loss nll_loss_nd nll_loss nll_loss2d l1_loss kl_div ctc_loss.IntList ctc_loss.Tensor
cosine_similarity pairwise_distance cosine_embedding_loss hinge_embedding_loss margin_ranking_loss
triplet_margin_loss poisson_nll_loss
mish_backward native_channel_shuffle linalg_svdvals linalg_eigvalsh
"""

COMPOSITES = frozenset(_NAMES.split())
"""The composite operators that are recorded as one call: ``name`` or ``name.overload`` of ``aten``."""

WITHOUT_GRADIENT = frozenset(("linalg_svdvals", "linalg_eigvalsh"))
"""The members of :data:`COMPOSITES` that are one call only if no gradient is needed.

PyTorch then computes singular values and eigenvalues alone. Inside a dispatch mode it takes for granted that a gradient
may be needed, and computes the vectors as well, by another algorithm with other rounding errors.
"""

KERNELS_OF_CPU = frozenset((*WITHOUT_GRADIENT, "mish_backward", "native_channel_shuffle"))
"""The members of :data:`COMPOSITES` that run others on the meta device, whose results a CPU never holds."""

_RECURRENT = (f"aten::{name}{cell}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for cell in ("", "_cell"))

ADDS_IN_PLACE = frozenset(("aten::linear", *_RECURRENT))
"""The operators that add a bias in place to a product that they made, but not inside a dispatch mode."""

FAST_PATHS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
"""The operators of ``aten`` as which transformer modules run in inference."""


def exists(name: str) -> bool:
    """Return whether this version of PyTorch has the operator of a name in :data:`COMPOSITES`."""
    return bool(torch._C._dispatch_has_kernel(f"aten::{name}"))


def overload(name: str) -> torch._ops.OpOverload:
    """Return the operator of a name in :data:`COMPOSITES` that exists."""
    packet_name, _, overload_name = name.partition(".")
    operator: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, packet_name), overload_name or "default")
    return operator
