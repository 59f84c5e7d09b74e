"""Marks for tests of what only some releases of PyTorch have: found by looking, never by the number of a release."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest
import torch
from torch import distributed
from torch.distributed import fsdp
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

_SHARDING = import_module(
    "torch.distributed.fsdp" if hasattr(fsdp, "fully_shard") else "torch.distributed._composable.fsdp"
)

fully_shard = _SHARDING.fully_shard
MixedPrecisionPolicy = _SHARDING.MixedPrecisionPolicy

distributed_tensors = import_module(
    "torch.distributed.tensor" if hasattr(distributed.tensor, "DTensor") else "torch.distributed._tensor"
)

HAS_MESH = distributed_tensors.__name__ == "torch.distributed.tensor"
"""Whether a model can be distributed over a simulated mesh."""

NEEDS_MESH = pytest.mark.skipif(not HAS_MESH, reason="this PyTorch has no distributed tensors, which a mesh needs")

HAS_GROUPED_QUERIES = "enable_gqa" in str(scaled_dot_product_attention.__doc__)


def _fuses_grouped_queries() -> bool:
    query, key = torch.ones(1, 2, 1, 8), torch.ones(1, 1, 1, 8)
    return bool(torch._fused_sdp_choice(query, key, key, enable_gqa=True))


FUSES_GROUPED_QUERIES = not HAS_GROUPED_QUERIES or _fuses_grouped_queries()
"""Whether a CPU runs attention with fewer heads of keys in one kernel; without ``enable_gqa`` keys are repeated."""

NEEDS_GROUPED_QUERIES = pytest.mark.skipif(
    not HAS_GROUPED_QUERIES, reason="this PyTorch has no enable_gqa, with which the network is written"
)


def refuses(run: Callable[[], object]) -> bool:
    """Return whether PyTorch refuses to run something by itself."""
    try:
        run()
    except (AttributeError, NotImplementedError, RuntimeError, IndexError):
        return True
    return False


def _checkpoint_on_meta() -> None:
    x = torch.ones(1, device="meta", requires_grad=True)
    checkpoint(torch.sin, x, use_reentrant=False).sum().backward()


CHECKPOINTS_META_TENSORS = not refuses(_checkpoint_on_meta)
"""Whether meta tensors can be checkpointed without a capture, too."""


def _attention_keeps_layout() -> bool:
    x = torch.ones(3, 4, 4).transpose(0, 1).view(2, 2, 3, 4)  # as multi-head attention divides heads
    return scaled_dot_product_attention(x, x, x).permute(2, 0, 1, 3).is_contiguous()


COPIES_ATTENTION = not _attention_keeps_layout()
"""Whether multi-head attention copies what it computes, before the output projection, which then keeps the copy."""

NEEDS_WORKSPACE = pytest.mark.skipif(
    not any(version in torch.__config__.show() for version in ("DNN v3.12", "DNN v3.13")),
    reason="the workspace of an LSTM is estimated by sizes of oneDNN 3.12, which the report says",
)


def _runs_a_fused_layer_in_bfloat16() -> bool:
    layer = torch.nn.TransformerEncoderLayer(4, 2, 4, batch_first=True).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        return not refuses(lambda: layer(torch.ones(1, 2, 4)))


RUNS_A_FUSED_LAYER_IN_BFLOAT16 = _runs_a_fused_layer_in_bfloat16()
"""Whether the fast path of a transformer layer runs under autocast, whose weights PyTorch 2.4 does not convert."""

NEEDS_GROUPED_PRODUCTS = pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this PyTorch has no _grouped_mm")

NEEDS_REDUCTIONS = pytest.mark.skipif(
    not any(hasattr(distributed.ReduceOp, name) for name in ("factor", "boxed")),
    reason="collectives of this PyTorch do not show by what they reduce, which counts as a sum",
)


class _Names(TorchDispatchMode):
    """Notes the names of operators."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.names.add(function._schema.name)
        return function(*arguments, **(keywords or {}))


def _checks_quantiles() -> bool:
    with _Names() as mode:
        torch.ones(2).quantile(0.5)
    return "aten::logical_and_" in mode.names


CHECKS_QUANTILES = _checks_quantiles()
"""Whether a CPU checks by operators that quantiles lie between 0 and 1, which no other device does."""


class _Watched(TorchDispatchMode):
    """Changes nothing; PyTorch counts one more reference to tensors that a mode has seen."""

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        return function(*arguments, **(keywords or {}))


def _copies_watched_sparse_gradients() -> bool:
    table, upstream = torch.nn.Embedding(1, 1, sparse=True), torch.ones(1, 1)
    with _Watched():
        torch.autograd.backward(table(torch.zeros(1, dtype=torch.int64)), upstream)
    assert table.weight.grad is not None
    return table.weight.grad._values().data_ptr() != upstream.data_ptr()


COPIES_WATCHED_SPARSE_GRADIENTS = _copies_watched_sparse_gradients()
"""Whether this PyTorch copies a sparse gradient under any dispatch mode; without a mode no release does."""

NEEDS_EVENTS_OF_A_CPU = pytest.mark.skipif(
    not hasattr(torch.cpu.Stream, "record_event"),
    reason="fully_shard of this PyTorch does not run on a CPU, whose streams record no events",
)
