"""Marks for tests of what only some releases of PyTorch have: found by looking, never by the number of a release."""

from __future__ import annotations

import pytest
import torch
from torch import distributed
from torch.distributed import pipelining
from torch.nn.functional import scaled_dot_product_attention

HAS_GROUPED_QUERIES = "enable_gqa" in str(scaled_dot_product_attention.__doc__)

NEEDS_GROUPED_QUERIES = pytest.mark.skipif(
    not HAS_GROUPED_QUERIES, reason="this PyTorch has no enable_gqa, with which the network is written"
)

NEEDS_WORKSPACE = pytest.mark.skipif(
    not any(version in torch.__config__.show() for version in ("DNN v3.12", "DNN v3.13")),
    reason="the workspace of an LSTM is estimated by sizes of oneDNN 3.12, which the report says",
)

NEEDS_GROUPED_PRODUCTS = pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this PyTorch has no _grouped_mm")

NEEDS_STATIC_PIPELINES = pytest.mark.skipif(
    not hasattr(getattr(pipelining.schedules, "_PipelineSchedule", None), "_warmup_p2p"),
    reason="stages of this PyTorch exchange a message of their own in the first step, and ask for shapes",
)

NEEDS_REDUCTIONS = pytest.mark.skipif(
    not any(hasattr(distributed.ReduceOp, name) for name in ("factor", "boxed")),
    reason="collectives of this PyTorch do not show by what they reduce, which counts as a sum",
)
