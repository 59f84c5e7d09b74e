"""Kernels of other packages: attention with tokens first, scans, deformable sampling, sparse points, fused layers.

Each is counted by its textbook algorithm, whatever a kernel recomputes or does in blocks.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, Tensor, pattern, prod

from ._shared import dot_products, operations_of
from .activation import SIGMOID, softmax_operations
from .attention import attention_of_pairs
from .fused import activation_operations
from .normalization import calc_layer_norm, calc_rms_norm, rms_norm_operations
from .recurrent import SOFTPLUS, calc_causal_conv


@pattern("product")
def calc_token_major_attention(layer: Layer) -> Cost:
    """``attention`` with the tokens before the heads, as FlashAttention and xFormers arrange them.

    All T * S pairs of every head are counted. For sequences packed along T the attribute ``pairs`` has the sum over the
    sequences of their queries times their keys, over all heads; without it, all packed tokens attend to each other.

    Operands may be packed: ``kv[B, S, 2, H_kv, D]`` for k and v, or ``qkv[B, T, 3, H, D]`` for all three.

    Source: Dao et al., FlashAttention, arXiv:2205.14135; the algorithm recomputes nothing in the forward pass.

    The output may join its heads, y[B, T, H*D_v].

    Shapes: q[B, T, H, D], k[B, S, H_kv, D], v[B, S, H_kv, D_v] -> y[B, T, H, D_v]
    """
    y = layer.out
    first = next(layer[name] for name in ("k", "kv", "qkv") if name in layer)
    rows = prod((layer.get("q") or y).shape[:-1])
    width, outputs = first.shape[-1], y.size // rows
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
def calc_registered_formula(layer: Layer) -> Cost:
    """An operator of another package, counted by its formula for PyTorch's ``FlopCounterMode``: ``flops``.

    Such formulas count a multiply-add as two FLOPs, so two of them are one MAC.

    Source: ``torch.utils.flop_counter.register_flop_formula``; its formulas of matrix products and convolutions.

    Shapes: x0[M, K], x1[K, N] -> y[M, N]
    Settings: flops=F
    """
    macs, rest = divmod(layer.attrs["flops"], 2)
    return Cost(Operations(fma=macs, add=rest), layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_selective_scan(layer: Layer) -> Cost:
    """Selective scan of Mamba: a state of N values per channel, h = exp(dt A) h + (dt u) B, y = C h.

    Per step, channel and state: dt A (1 mul) and its exp, (dt u) B (1 mul), 1 fma for the state, and one product of the
    sum C h. Per step and channel: dt u (1 mul). Optional steps: ``skip`` adds D u (1 fma), ``gate`` multiplies by
    silu(z), ``dt_bias`` is added to dt (1 add), and the attribute ``softplus`` applies softplus to dt.

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
    the weighted sum, which is a MAC.

    Optional attributes:

    * ``channels``: channels of a head, if the last axis of ``x`` is not these channels;
    * ``points``: samples of a query over all heads, if there is no operand ``weights``;
    * ``heads``: the kernel also computes the softmax of the weights, for every query and head.

    Source: Zhu et al., Deformable DETR, arXiv:2010.04159.

    Shapes: x[B, S, M, D], locations[B, Q, M, L, P, 2], weights[B, Q, M, L, P] -> y[B, Q, M*D]
    """
    points = layer["weights"].size if "weights" in layer else prod(layer.out.shape[:-1]) * layer.attrs["points"]
    samples = points * layer.attrs.get("channels", layer["x"].shape[-1])
    operations = samples * Operations(mul=3, add=6) + dot_products(layer.out.size, samples)
    if "heads" in layer.attrs:
        operations += softmax_operations(points, prod(layer.out.shape[:-1]) * layer.attrs["heads"])
    return Cost(operations, layer.read, layer.written, layer.attrs, samples)


@pattern("product")
def calc_reassemble(layer: Layer) -> Cost:
    """Content-aware reassembly (CARAFE): every output is a sum over a window of ``kernel`` x ``kernel`` features.

    The weights of the windows are an operand. The channels of a group share them.

    Source: Wang et al., CARAFE, arXiv:1905.02188.

    Shapes: x[B, C, H_in, W_in], masks[B, G*K*K, H, W] -> y[B, C, H, W]
    Settings: kernel=K
    """
    size, kernel = layer.out.size, layer.attrs["kernel"]
    macs = size * kernel * kernel
    return Cost(dot_products(size, macs), layer.read, layer.written, layer.attrs, macs)


# Sparse points


@pattern("product")
def calc_sparse_conv(layer: Layer) -> Cost:
    """Convolution of N points in a grid that is empty elsewhere: submanifold, strided, transposed or inverse.

    ``pairs`` is the number of pairs of an input point and a kernel position that contribute to an output point. Every
    pair has C_in * C_out products (MACs), which are summed per output point. ``z`` is added to the output: 1 add per
    element.

    The search of the pairs is index arithmetic and costs nothing; the coordinates are read.

    Source: Graham et al., 3D Semantic Segmentation with Submanifold Sparse Convolutional Networks, arXiv:1711.10275.

    Shapes: x[N, C_in], indices[N, 4], w[C_out, K, K, K, C_in], b[C_out]?, z[M, C_out]? -> y[M, C_out]
    Settings: pairs=P
    """
    y = layer.out
    macs = layer.attrs["pairs"] * layer["x"].shape[-1] * y.shape[-1]
    operations = dot_products(y.size, macs, "b" in layer) + Operations(add=y.size if "z" in layer else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("reduce")
def calc_sparse_pool(layer: Layer) -> Cost:
    """Pooling of N points in a grid that is empty elsewhere, over the points in every window.

    ``pairs`` counts the input points of all windows. Per channel, an output of n points takes n - 1 cmp, or for the
    mean n - 1 add and 1 div.

    Shapes: x[N, C], indices[N, 4] -> y[M, C]
    Settings: pairs=P, reduction="max"
    """
    y = layer.out
    joined = layer.attrs["pairs"] * y.shape[-1] - y.size
    is_mean = layer.attrs["reduction"] == "mean"
    operations = Operations(add=joined, div=y.size) if is_mean else Operations(cmp=joined)
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Layers that a package fuses


def _norm_operations(layer: Layer) -> Operations:
    x, is_rms = layer["x"], layer.attrs.get("norm") == "rms_norm"
    operands = {"x": x, **{to: layer[name] for to, name in (("w", "w0"), ("b", "b0")) if name in layer}}
    norm = Layer("rms_norm" if is_rms else "layer_norm", operands, [x], {"axis": (x.ndim - 1,)})
    return operations_of((calc_rms_norm if is_rms else calc_layer_norm)(norm))


@pattern("product")
def calc_norm_then_linear(layer: Layer) -> Cost:
    """Norm and linear layer as one kernel: ``norm`` "layer_norm" (default) or "rms_norm", then a product with w1.

    The normalized input is written only if it is an output.

    Shapes: x[N, F_in], w0[F_in], b0[F_in]?, w1[F_out, F_in], b1[F_out]? -> y[N, F_out]
    """
    x, y = layer["x"], layer.out
    macs = y.size * x.shape[-1]
    operations = _norm_operations(layer) + dot_products(y.size, macs, "b1" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_norm_mlp(layer: Layer) -> Cost:
    """Norm and perceptron as one kernel: norm, linear layer w1, activation, linear layer w2.

    ``norm`` is as in ``norm_then_linear``. If w1 has two halves, the ``activation`` of one is multiplied by the other:
    1 mul per hidden unit.

    Shapes: x[N, D], w0[D], b0[D]?, w1[F, D], b1[F]?, w2[D, F], b2[D]? -> y[N, D]
    Settings: activation="gelu"
    """
    x, w1, w2 = layer["x"], layer["w1"], layer["w2"]
    rows = x.size // x.shape[-1]
    first, hidden, last = rows * w1.shape[0], rows * w2.shape[1], rows * w2.shape[0]
    element = activation_operations(layer) + Operations(mul=0 if w1.shape[0] == w2.shape[1] else 1)
    operations = _norm_operations(layer) + dot_products(first, first * x.shape[-1], "b1" in layer) + hidden * element
    operations += dot_products(last, last * w2.shape[1], "b2" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, first * x.shape[-1] + last * w2.shape[1])


@pattern("product")
def calc_mamba_inner(layer: Layer) -> Cost:
    """The inside of a Mamba block as one kernel, from its two projected halves to its output.

    * ``causal_conv`` of one half with w0 and SiLU;
    * the projection w1 to R values of the time step, S of B and S of C, and the projection w2 of the R values to dt;
    * RMS norms of these three with the weights w4, w5 and w6, if given;
    * ``selective_scan`` with softplus of the time step and the other half as gate;
    * the projection w3 to the output.

    Source: Gu and Dao, Mamba, arXiv:2312.00752.

    Shapes: x[N, 2*C, T], w0[C, 1, K], b0[C]?, w1[R+2*S, C], w2[C, R], w3[D, C], b3[D]?, a[C, S], skip[C]?, dt_bias[C]?
        -> y[N, T, D]
    """
    batch, halves, steps = layer["x"].shape
    channels, rank, states = halves // 2, layer["w2"].shape[1], layer["a"].shape[-1]
    half, rows, dtype = Tensor((batch, channels, steps), layer["x"].dtype), batch * steps, layer["x"].dtype
    kernel = Tensor((channels, layer["w0"].shape[-1]), dtype)
    bias = {"b": layer["b0"]} if "b0" in layer else {}
    conv = calc_causal_conv(Layer("causal_conv", {"x": half, "w": kernel, **bias}, [half], {"activation": "silu"}))
    state = Tensor((batch, states, steps), dtype)
    operands = {"u": half, "dt": half, "a": layer["a"], "b_in": state, "c_out": state, "gate": half}
    more = {name: layer[name] for name in ("skip", "dt_bias") if name in layer}
    scan = calc_selective_scan(Layer("selective_scan", {**operands, **more}, [half], {"softplus": True}))
    operations, macs = operations_of(conv) + operations_of(scan), conv.macs + scan.macs
    for outputs, length, start in (
        (rows * layer["w1"].shape[0], channels, False),
        (rows * channels, rank, False),
        (layer.out.size, channels, "b3" in layer),
    ):
        operations, macs = operations + dot_products(outputs, outputs * length, start), macs + outputs * length
    for name in ("w4", "w5", "w6"):
        if name in layer:
            operations += rms_norm_operations(rows * layer[name].size, rows)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
