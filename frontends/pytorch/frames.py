"""Composite operators that stay whole.

PyTorch takes a composite operator (``linear``, ``layer_norm``, ``lstm`` …) apart before a dispatch mode can see it, and
into pieces that depend on shapes, layout, device and grad mode. At the dispatch key ``PreDispatch``, which comes before
all others and which nothing uses in an ordinary run, it is still whole: a kernel of ours sees it there, and passes it
on.
The kernels run only in threads whose local state includes that key, that is, while they capture. They are registered at
the first capture, which takes a millisecond, and stay: everybody else passes them by, also tracing and export.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

PRE_DISPATCH = torch._C.DispatchKey.PreDispatch
AFTER = torch._C._dispatch_keyset_full_after(PRE_DISPATCH)
"""The keys that come after it; a frame passes its operator on to those."""
_MODES = (torch._C.DispatchKey.Python, torch._C.DispatchKey.PythonTLSSnapshot)
HIDDEN = torch._C.DispatchKeySet(PRE_DISPATCH).add(_MODES[0]).add(_MODES[1])
"""The keys at which anything is seen; without them an operator runs as if nothing was captured."""
UNSEEN = AFTER - HIDDEN

_NAMES = """
linear matmul einsum bilinear
conv1d conv2d conv3d conv1d.padding conv2d.padding conv3d.padding
conv_transpose1d conv_transpose2d.input conv_transpose3d.input
batch_norm layer_norm group_norm instance_norm rms_norm scaled_dot_product_attention
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
"""

FRAMES = frozenset(_NAMES.split())
"""The composite operators that are recorded whole: ``name`` or ``name.overload`` of ``aten``."""


def overload(name: str) -> torch._ops.OpOverload | None:
    """The operator of a name in :data:`FRAMES`; None where this version of PyTorch has none."""
    packet = getattr(torch.ops.aten, name.partition(".")[0], None)
    return getattr(packet, name.partition(".")[2] or "default", None)


def register(running: Callable[[], Any]) -> None:
    """Register a kernel for every frame, for the rest of the process.

    It tells the capture of the thread, ``running()``. Where the key is not in the state of the thread, nothing does.
    """
    library = torch.library.Library("aten", "IMPL")
    for name in sorted(FRAMES):
        operator = overload(name)
        if operator is not None:
            library.impl(name, _kernel(operator, running), "PreDispatch", with_keyset=True)
    _libraries.append(library)


_libraries: list[torch.library.Library] = []
"""Kept, as kernels go with the library that brought them."""


def _kernel(operator: torch._ops.OpOverload, running: Callable[[], Any]) -> Callable[..., Any]:
    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        session = running()
        if session is None:
            return operator.redispatch(keyset & AFTER, *args, **kwargs)
        return session.frame(operator, keyset, args, kwargs)

    return kernel


_AUTOCAST_KEYS = tuple(
    (name, getattr(torch._C.DispatchKey, name))
    for name in ("AutocastCPU", "AutocastCUDA", "AutocastXPU", "AutocastMPS")
    if hasattr(torch._C.DispatchKey, name)
)


def casts_first(operator: torch._ops.OpOverload, keyset: Any) -> bool:
    """Whether autocast is about to cast the inputs of a frame, and to call it again."""
    return any(
        keyset.has(key) and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), name)
        for name, key in _AUTOCAST_KEYS
    )
