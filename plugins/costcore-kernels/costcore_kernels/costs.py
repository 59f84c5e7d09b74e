"""Formulas of operators that only these kernels compute."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Dim, Layer, Operations, pattern
from costcore.registry import calculators

SILU_TIMES = Operations(mul=2, add=2, div=1, special=1)
"""x * (1 / (1 + exp(-x))) * y per element, as :func:`calc_swiglu` of costcore counts it."""

GELU_TIMES = {
    "none": Operations(mul=4, add=1, special=1),
    "tanh": Operations(mul=7, add=2, special=1),
}
"""``gelu(x) * y`` per element, by ``approximate``; GELU as costcore counts it."""


@pattern("map")
def calc_gated_gelu(layer: Layer) -> Cost:
    """Gated GELU of two operands, gelu(x0) * x1."""
    element = GELU_TIMES[layer.attrs["approximate"]]
    return Cost(layer.out.size * element, layer.read, layer.written, layer.attrs)


@pattern("move")
def calc_store_cache(layer: Layer) -> Cost:
    """Keys x0 and values x1 of new tokens, written into a cache at ``indices``."""
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_scaled_quantize(layer: Layer) -> Cost:
    """Elements times the reciprocal of a scale, limited: 1 mul and 2 cmp each.

    With ``dynamic``, the largest absolute value is determined first, 1 cmp each, and a scale from it: 1 div.
    """
    size = layer["x"].size
    operations = size * Operations(mul=1, cmp=2)
    if layer.attrs.get("dynamic"):
        operations += Operations(cmp=size, div=layer.outputs[1].size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("product")
def calc_routed_experts(layer: Layer) -> Cost:
    """Every row through k of E experts: a gated SiLU of x w0, times w1; results are weighted by ``factor``.

    Per row and expert D * 2I and I * D MACs, and I gated activations. The k results are combined by 1 mul and k - 1 fma
    per element. Routing is assumed to be balanced: the weights of min(E, N * k) experts are read.

    Shapes: x[N, D], w0[E, 2I, D], w1[E, D, I], factor[N, k], indices[N, k] -> y[N, D]
    """
    rows, width = layer["x"].shape
    experts, _, hidden = layer["w1"].shape
    k = layer["indices"].shape[1]
    macs = rows * k * 3 * hidden * width
    outputs = rows * k * (2 * hidden + width)
    operations = Operations(mul=outputs, fma=macs - outputs) + rows * k * hidden * SILU_TIMES
    operations += Operations(mul=rows * width, fma=rows * width * (k - 1))
    used = min(experts, rows * k)
    weights = layer["w0"].nbytes + layer["w1"].nbytes
    return Cost(operations, layer.read - weights + weights // experts * used, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_generated_kernel(layer: Layer) -> Cost:
    """A kernel of a compiler: only the bytes of its arguments. Its operations are unknown."""
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


def _norm_of(layer: Layer, *, backward: bool = False) -> Layer:
    """Return the norm before a linear layer: a layer norm if it has a bias, else an RMS norm."""
    x, w, b = layer["x"], layer["norm_w"], layer.get("norm_b")
    operands = {"x": x, "w": w, **({} if b is None else {"b": b})}
    op = "rms_norm" if b is None else "layer_norm"
    attrs = {"axis": (x.ndim - 1,)}
    if backward:
        return Layer(f"{op}_backward", {"dy": x, **operands}, [*operands.values()], {**attrs, "needs": (*operands,)})
    return Layer(op, operands, [x], attrs)


def _work(layer: Layer) -> tuple[Operations, Dim]:
    """Return the operations and MACs of a layer by its costcore formula."""
    found = calculators()[layer.op](layer)
    assert isinstance(found, Cost) and isinstance(found.flops, Operations)
    return found.flops, found.macs


@pattern("product")
def calc_norm_linear(layer: Layer) -> Cost:
    """A norm over the last axis and a linear layer. The normalized input is neither read nor written.

    Shapes: x[N, F_in], w[F_out, F_in], norm_w[F_in], norm_b[F_in]? -> y[N, F_out]
    """
    norm, _ = _work(_norm_of(layer))
    linear, macs = _work(Layer("linear", {"x": layer["x"], "w": layer["w"]}, layer.outputs))
    return Cost(norm + linear, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_norm_linear_backward(layer: Layer) -> Cost:
    """The gradients of all operands of :func:`calc_norm_linear`.

    Shapes: dy[N, F_out], x[N, F_in], w[F_out, F_in], norm_w[F_in], norm_b[F_in]? -> dx[N, F_in], dw[F_out, F_in]
    """
    operands = {name: layer[name] for name in ("dy", "x", "w")}
    outputs = [layer["x"], layer["w"]]
    norm, _ = _work(_norm_of(layer, backward=True))
    linear, macs = _work(Layer("linear_backward", operands, outputs, {"needs": ("x", "w")}))
    return Cost(norm + linear, layer.read, layer.written, layer.attrs, macs)


CALCULATORS: Mapping[str, Calculator] = {
    "gated_gelu": calc_gated_gelu,
    "store_cache": calc_store_cache,
    "scaled_quantize": calc_scaled_quantize,
    "routed_experts": calc_routed_experts,
    "generated_kernel": calc_generated_kernel,
    "norm_linear": calc_norm_linear,
    "norm_linear_backward": calc_norm_linear_backward,
}
