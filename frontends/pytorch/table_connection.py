"""Rows of operators with matrix products: convolutions, linear layers, matrix products, attention, recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from .rules import constant, first, given, only_first, spread_out, unlearned

_XWB: dict[str, Source] = {"x": "input", "w": "weight", "b": "bias"}


def _rank(args: Arguments) -> int:
    return int(args["weight"].dim()) - 2


def _kernel(args: Arguments) -> tuple[int, ...]:
    return tuple(args["weight"].shape[2:])


def _setting(name: str) -> Callable[[Arguments], Any]:
    return lambda args: spread_out(args[name], _rank(args))


def _padding(args: Arguments) -> tuple[Any, ...]:
    padding = args["padding"]
    if not isinstance(padding, str):
        return spread_out(padding, _rank(args))
    if padding == "valid":
        return (0,) * _rank(args)
    dilation = spread_out(args["dilation"], _rank(args))
    totals = [d * (k - 1) for d, k in zip(dilation, _kernel(args), strict=True)]
    return tuple(t // 2 if t % 2 == 0 else (t // 2, t - t // 2) for t in totals)


_CONV: dict[str, Source] = {
    "kernel": _kernel,
    "stride": _setting("stride"),
    "padding": _padding,
    "dilation": _setting("dilation"),
    "groups": "groups",
}


def _direction(args: Arguments) -> str:
    return "conv_transpose" if args["transposed"] else "conv"


CONVOLUTIONS = (
    *(Row(f"aten::conv{rank}d", "conv", _XWB, _CONV) for rank in (1, 2, 3)),
    *(
        Row(
            f"aten::conv_transpose{rank}d",
            "conv_transpose",
            _XWB,
            {**_CONV, "output_padding": _setting("output_padding")},
        )
        for rank in (1, 2, 3)
    ),
    *(
        Row(f"aten::{name}", _direction, _XWB, _CONV, ops=("conv", "conv_transpose"))
        for name in ("convolution", "_convolution", "convolution_overrideable")
    ),
    *(
        Row(f"aten::{name}", "conv", {"x": "self", "w": "weight", "b": "bias"}, _CONV)
        for name in ("mkldnn_convolution", "miopen_convolution")
    ),
    Row("aten::cudnn_convolution", "conv", {"x": "self", "w": "weight"}, _CONV),
)


def _added(x0: str, x1: str) -> dict[str, Source]:
    return {"x0": x0, "x1": x1, "b": unlearned("self")}


_SCALE: dict[str, Source] = {"alpha": given("alpha", 1), "beta": given("beta", 1)}

PRODUCTS = (
    Row("aten::linear", "linear", _XWB),
    Row("aten::mkldnn_linear", "linear", {"x": first, "w": "weight", "b": "bias"}),
    *(Row(f"aten::{name}", "matmul", {"x0": "self", "x1": "other"}) for name in ("matmul", "vdot", "linalg_matmul")),
    *(Row(f"aten::{name}", "matmul", {"x0": "self", "x1": "mat2"}) for name in ("mm", "bmm", "_int_mm")),
    Row("aten::dot", "matmul", {"x0": "self", "x1": "tensor"}),
    Row("aten::mv", "matmul", {"x0": "self", "x1": "vec"}),
    Row("aten::addmm", "matmul", _added("mat1", "mat2"), _SCALE),
    Row("aten::addmv", "matmul", _added("mat", "vec"), _SCALE),
    Row("aten::baddbmm", "matmul", _added("batch1", "batch2"), _SCALE),
    Row("aten::addbmm", "einsum", _added("batch1", "batch2"), {"equation": constant("bij,bjk->ik"), **_SCALE}),
    Row("aten::addr", "einsum", _added("vec1", "vec2"), {"equation": constant("i,j->ij"), **_SCALE}),
    Row("aten::einsum", "einsum", {"x*": "tensors"}, {"equation": "equation"}),
    Row("aten::bilinear", "bilinear", {"x0": "input1", "x1": "input2", "w": "weight", "b": "bias"}),
)

_ATTENTION: dict[str, Source] = {
    "causal": "is_causal",
    "dropout": lambda args: args.get("dropout_p") or None,
}

ATTENTION = tuple(
    Row(
        f"aten::{name}",
        "attention",
        {"q": "query", "k": "key", "v": "value", "mask": lambda args: args.get("attn_mask", args.get("attn_bias"))},
        _ATTENTION,
        outputs=only_first,
    )
    for name in (
        "scaled_dot_product_attention",
        "_scaled_dot_product_attention_math",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
    )
)


def _weights(args: Arguments) -> Sequence[Any]:
    return [value for value in args["params"] if value.dim() == 2]


def _biases(args: Arguments) -> Sequence[Any]:
    return [value for value in args["params"] if value.dim() == 1]


def _hidden(gates: int) -> Callable[[Arguments], int]:
    return lambda args: int(args["params"][0].shape[0]) // gates


def _projection(args: Arguments) -> int | None:
    state = int(args["hx"][0].shape[-1])
    return state if state != _hidden(4)(args) else None


def _recurrent(native: str, op: str, gates: int, attrs: dict[str, Source]) -> tuple[Row, ...]:
    state: dict[str, Source] = (
        {"h0": lambda args: args["hx"][0], "c0": lambda args: args["hx"][1]} if op == "lstm" else {"h0": "hx"}
    )
    whole: dict[str, Source] = {
        "hidden": _hidden(gates),
        "layers": "num_layers",
        "bidirectional": "bidirectional",
        **attrs,
    }
    sequence: dict[str, Source] = {"w*": _weights, "b*": _biases}
    cell: dict[str, Source] = {"w0": "w_ih", "w1": "w_hh", "b0": "b_ih", "b1": "b_hh"}
    return (
        Row(f"aten::{native}.input", op, {"x": "input", **state, **sequence}, whole),
        Row(f"aten::{native}.data", op, {"x": "data", **state, **sequence}, whole),
        Row(
            f"aten::{native}_cell",
            op,
            {"x": "input", **state, **cell},
            {
                "hidden": lambda args: int(args["w_ih"].shape[0]) // gates,
                **{name: rule for name, rule in attrs.items() if name != "projection"},
            },
        ),
    )


_MKLDNN_OPS = {0: "rnn", 1: "rnn", 2: "lstm", 3: "gru"}

RECURRENT = (
    *_recurrent("lstm", "lstm", 4, {"projection": _projection}),
    *_recurrent("gru", "gru", 3, {"reset_after": constant(True)}),
    *_recurrent("rnn_tanh", "rnn", 1, {"activation": constant("tanh")}),
    *_recurrent("rnn_relu", "rnn", 1, {"activation": constant("relu")}),
    Row(
        "aten::mkldnn_rnn_layer",
        lambda args: _MKLDNN_OPS[args["mode"]],
        {"x": "input", "h0": "hx_", "c0": "cx_", "w0": "weight0", "w1": "weight1", "b0": "weight2", "b1": "weight3"},
        {"hidden": "hidden_size", "layers": constant(1)},
        outputs=lambda args, outputs: outputs[:3],
        ops=("rnn", "lstm", "gru"),
    ),
)

ROWS = (*CONVOLUTIONS, *PRODUCTS, *ATTENTION, *RECURRENT)
