"""Layers of routed experts.

Sources of the signatures: ``vllm/model_executor/layers/fused_moe/fused_moe.py`` of vLLM, and the file of the same
content of SGLang: hidden states, w1[E, 2I, D], w2[E, D, I], weights and ids of the chosen experts[N, k].
"""

from __future__ import annotations

from costcore.translate import Arguments, Row

from .kernel import kernel, like, tensor


def _is_gated(args: Arguments) -> bool:
    ranks = [tensor(args, i).ndim for i in range(5)]
    return ranks == [2, 3, 3, 2, 2] and tensor(args, 1).shape[1] == 2 * tensor(args, 2).shape[2]


ROWS: tuple[Row, ...] = tuple(
    kernel(
        f"{library}::{name}",
        "routed_experts",
        {"x": 0, "w0": 1, "w1": 2, "factor": 3, "indices": 4},
        like(0),
        when=_is_gated,
    )
    for library in ("vllm", "sglang")
    for name in ("inplace_fused_experts", "outplace_fused_experts")
)
