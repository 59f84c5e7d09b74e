"""Gradients of attention."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern

from .._shared import dot_products
from .attention import query_rows


@pattern("product")
def calc_attention_backward(layer: Layer) -> Cost:
    """Backward of attention: dq, dk and dv from dy, given the attention weights p of the forward pass.

    * dv = p^T dy and dp = dy v^T: D_v products per score each.
    * ds = p (dp - sum(p dp)): per row 1 mul and T_k - 1 fma for the sum, T_k add, T_k mul.
    * The scale: 1 mul per score.
    * dq = ds k and dk = ds^T q: D products per score each.

    Keys and values that grouped heads share accumulate in the same dot products. ``dropout`` masks p and dp: 2 mul and
    2 cmp per score. ``softcap`` multiplies ds by 1 - t^2 of its tanh t: 2 mul and 1 add per score. The gradient of a
    float mask is ds itself.

    Scores that a kernel recomputes are not counted here; they are in the phase ``recompute`` if they are visible. All
    given operands are read; scores are not materialized.

    Shapes: dy[N, H, T_q, D_v], q[N, H, T_q, D], k[N, H_kv, T_k, D], v[N, H_kv, T_k, D_v]
        -> dq[N, H, T_q, D], dk[N, H_kv, T_k, D], dv[N, H_kv, T_k, D_v]
    """
    q, k, v = layer["q"], layer["k"], layer["v"]
    rows = query_rows(layer, layer["dy"])
    scores = rows * k.shape[-2]
    inner, outer = scores * q.shape[-1], scores * v.shape[-1]
    operations = dot_products(v.size, outer) + dot_products(scores, outer)
    operations += dot_products(q.size, inner) + dot_products(k.size, inner)
    operations += dot_products(rows, scores) + Operations(add=scores, mul=2 * scores)
    if layer.attrs.get("dropout"):
        operations += Operations(mul=2 * scores, cmp=2 * scores)
    if layer.attrs.get("softcap"):
        operations += Operations(mul=2 * scores, add=scores)
    return Cost(operations, layer.read, layer.written, layer.attrs, 2 * (inner + outer))
