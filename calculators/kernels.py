"""Kernels of other packages: attention with tokens first, scans, deformable sampling, reassembly.

Each is counted by its textbook algorithm, whatever a kernel recomputes or does in blocks.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from ._shared import dot_products
from .activation import SIGMOID
from .attention import attention_of_pairs
from .recurrent import SOFTPLUS


@pattern("product")
def calc_token_major_attention(layer: Layer) -> Cost:
    """``attention`` with the tokens before the heads, as FlashAttention and xFormers arrange them.

    All T * S pairs of every head are counted. For sequences packed along T the attribute ``pairs`` has the sum over the
    sequences of their queries times their keys, over all heads; without it, all packed tokens attend to each other.

    Operands may be packed: ``kv[B, S, 2, H_kv, D]`` for k and v, or ``qkv[B, T, 3, H, D]`` for all three.

    Source: Dao et al., FlashAttention, arXiv:2205.14135; the algorithm recomputes nothing in the forward pass.

    Shapes: q[B, T, H, D], k[B, S, H_kv, D], v[B, S, H_kv, D_v] -> y[B, T, H, D_v]
    """
    y = layer.out
    first = next(layer[name] for name in ("k", "kv", "qkv") if name in layer)
    rows, width, outputs = prod(y.shape[:-1]), first.shape[-1], y.shape[-1]
    pairs = layer.attrs.get("pairs", rows * first.shape[1])
    operations, macs = attention_of_pairs(layer, rows, width, outputs, pairs)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_neighborhood_attention(layer: Layer) -> Cost:
    """Attention of every token to the ``window`` of its nearest neighbors, the same number for all tokens.

    Source: Hassani et al., Neighborhood Attention Transformer, arXiv:2204.07143.

    Shapes: q[B, H_in, W_in, H, D], k[B, H_in, W_in, H, D], v[B, H_in, W_in, H, D] -> y[B, H_in, W_in, H, D]
    Settings: window=(K, K)
    """
    q, v = layer["q"], layer["v"]
    rows = prod(q.shape[:-1])
    pairs = rows * prod(layer.attrs["window"])
    operations, macs = attention_of_pairs(layer, rows, q.shape[-1], v.shape[-1], pairs)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_selective_scan(layer: Layer) -> Cost:
    """Selective scan of Mamba: a state of N values per channel, h = exp(dt A) h + (dt u) B, y = C h.

    Per step, channel and state: dt A (1 mul) and its exp, (dt u) B (1 mul), 1 fma for the state, and one product of the
    sum C h. Per step and channel: dt u (1 mul); ``skip`` adds D u (1 fma), ``gate`` multiplies by silu(z), ``dt_bias``
    adds 1, and the attribute ``softplus`` takes that of dt.

    MACs are the updates of the state and the sums C h. The recurrence is counted step by step.

    Source: Gu and Dao, Mamba, arXiv:2312.00752, algorithm 2.

    Shapes: u[B, C, T], dt[B, C, T], a[C, N], b_in[B, N, T], c_out[B, N, T], skip[C]?, gate[B, C, T]? -> y[B, C, T]
    """
    size, states = layer["u"].size, layer["a"].shape[-1]
    cells = size * states
    operations = Operations(mul=2 * cells + size, special=cells, fma=cells) + dot_products(size, cells)
    operations += _gates(layer, size, layer["dt"].size)
    return Cost(operations, layer.read, layer.written, layer.attrs, 2 * cells)


@pattern("product")
def calc_state_space_scan(layer: Layer) -> Cost:
    """State-space scan of Mamba-2: a state of P x N values per head, h = exp(dt a) h + (dt x) B^T, y = h C.

    Per step and head: dt a (1 mul) and its exp. Per step, head and channel: dt x (1 mul). Per value of the state: its
    decay (1 mul), 1 fma for the outer product, and one product of the sum h C. ``skip``, ``gate``, ``dt_bias`` and
    ``softplus`` are as in ``selective_scan``.

    MACs are the outer products and the sums h C. The recurrence is counted step by step, not in chunks.

    Source: Dao and Gu, Transformers are SSMs, arXiv:2405.21060.

    Shapes: u[B, T, H, P], dt[B, T, H], a[H], b_in[B, T, G, N], c_out[B, T, G, N], skip[H]?, gate[B, T, H, P]?
        -> y[B, T, H, P]
    """
    size, steps, states = layer["u"].size, layer["dt"].size, layer["b_in"].shape[-1]
    cells = size * states
    operations = Operations(mul=cells + size + steps, special=steps, fma=cells) + dot_products(size, cells)
    operations += _gates(layer, size, steps)
    return Cost(operations, layer.read, layer.written, layer.attrs, 2 * cells)


def _gates(layer: Layer, size: Dim, steps: Dim) -> Operations:
    operations = Operations()
    if "skip" in layer:
        operations += Operations(fma=size)
    if "gate" in layer:
        operations += size * (SIGMOID + Operations(mul=2))
    if "dt_bias" in layer:
        operations += Operations(add=steps)
    if layer.attrs.get("softplus"):
        operations += steps * SOFTPLUS
    return operations


@pattern("product")
def calc_deformable_attention(layer: Layer) -> Cost:
    """Multi-scale deformable attention: every query sums bilinear samples of the values, by attention weights.

    Per sample and channel of a head: 3 mul and 6 add for the interpolation, as in ``deform_conv``, and one product of
    the sum. MACs are these products. The attribute ``channels`` has those of a head if ``x`` does not; without
    ``weights``, ``points`` has the samples of a query, over all heads.

    Source: Zhu et al., Deformable DETR, arXiv:2010.04159.

    Shapes: x[B, S, M, D], locations[B, Q, M, L, P, 2], weights[B, Q, M, L, P] -> y[B, Q, M*D]
    """
    points = layer["weights"].size if "weights" in layer else prod(layer.out.shape[:-1]) * layer.attrs["points"]
    samples = points * layer.attrs.get("channels", layer["x"].shape[-1])
    operations = samples * Operations(mul=3, add=6) + dot_products(layer.out.size, samples)
    return Cost(operations, layer.read, layer.written, layer.attrs, samples)


@pattern("product")
def calc_reassemble(layer: Layer) -> Cost:
    """Content-aware reassembly (CARAFE): every output is a sum over a window of ``kernel`` x ``kernel`` features.

    The kernels of the windows are an operand, the same for the channels of a group.

    Source: Wang et al., CARAFE, arXiv:1905.02188.

    Shapes: x[B, C, H_in, W_in], masks[B, G*K*K, H, W] -> y[B, C, H, W]
    Settings: kernel=K
    """
    size, kernel = layer.out.size, layer.attrs["kernel"]
    macs = size * kernel * kernel
    return Cost(dot_products(size, macs), layer.read, layer.written, layer.attrs, macs)
