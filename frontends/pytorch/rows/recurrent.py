"""Rows of recurrent layers and cells, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable

from costcore.translate import Arguments, Row, Source

from .arguments import Reader, constant, differentiated, needed_gradients, non_default, operands


def _weights(name: str) -> Reader:
    """Read the weights among the parameters of a layer."""
    return lambda args: [value for value in args[name] if value.dim() == 2]


def _biases(name: str) -> Reader:
    """Read the biases among the parameters of a layer."""
    return lambda args: [value for value in args[name] if value.dim() == 1]


def _hidden_size(gates: int) -> Callable[[Arguments], int]:
    return lambda args: int(args["params"][0].shape[0]) // gates


def _projection_size(args: Arguments) -> int | None:
    size = int(args["hx"][0].shape[-1])
    return size if size != _hidden_size(4)(args) else None


def _layer_and_cell(
    native: str,
    op: str,
    gates: int,
    states: dict[str, Source],
    attrs: dict[str, Source],
    projection: dict[str, Source] | None = None,
) -> tuple[Row, ...]:
    layer_attrs: dict[str, Source] = {
        "hidden": _hidden_size(gates),
        "layers": "num_layers",
        "bidirectional": "bidirectional",
        **(projection or {}),
        **attrs,
    }
    weights: dict[str, Source] = {"w*": _weights("params"), "b*": _biases("params")}
    return (
        Row(f"aten::{native}.input", op, {"x": "input", **states, **weights}, layer_attrs),
        Row(f"aten::{native}.data", op, {"x": "data", **states, **weights}, layer_attrs),
        Row(
            f"aten::{native}_cell",
            op,
            {"x": "input", **states, "w0": "w_ih", "w1": "w_hh", "b0": "b_ih", "b1": "b_hh"},
            {"hidden": lambda args: int(args["w_ih"].shape[0]) // gates, **attrs},
        ),
    )


_LSTM_STATES: dict[str, Source] = {"h0": lambda args: args["hx"][0], "c0": lambda args: args["hx"][1]}
_STATE: dict[str, Source] = {"h0": "hx"}

LAYERS_AND_CELLS = (
    *_layer_and_cell("lstm", "lstm", 4, _LSTM_STATES, {}, {"projection": _projection_size}),
    *_layer_and_cell("gru", "gru", 3, _STATE, {"reset_after": constant(True)}),
    *_layer_and_cell("rnn_tanh", "rnn", 1, _STATE, {"activation": constant("tanh")}),
    *_layer_and_cell("rnn_relu", "rnn", 1, _STATE, {"activation": constant("relu")}),
)

_LAYER_BY_MODE = ("rnn", "rnn", "lstm", "gru")


def _layer_by_mode(suffix: str = "") -> Callable[[Arguments], str]:
    """Read the recurrent layer by the number that cuDNN and oneDNN give its mode."""
    return lambda args: _LAYER_BY_MODE[args["mode"]] + suffix


def _activation(args: Arguments) -> str | None:
    """Return the activation of an Elman layer by the number of its mode."""
    return ("relu", "tanh", None, None)[args["mode"]]


def _reset_after(args: Arguments) -> bool | None:
    """Return True for a GRU: PyTorch applies the reset gate after the matrix product."""
    return True if args["mode"] == 3 else None


_LAYER_ATTRIBUTES: dict[str, Source] = {
    "hidden": "hidden_size",
    "layers": "num_layers",
    "bidirectional": "bidirectional",
    "activation": _activation,
    "reset_after": _reset_after,
}

BACKEND_SPECIFIC = (
    Row(
        "aten::mkldnn_rnn_layer",
        _layer_by_mode(),
        {"x": "input", "h0": "hx_", "c0": "cx_", "w0": "weight0", "w1": "weight1", "b0": "weight2", "b1": "weight3"},
        {"hidden": "hidden_size", "layers": constant(1)},
        outputs=lambda args, outputs: outputs[:3],
        ops=("rnn", "lstm", "gru"),
    ),
    *(
        Row(
            f"aten::{name}",
            _layer_by_mode(),
            {
                "x": "input",
                "h0": "hx",
                "c0": "cx",
                "w*": _weights("weight"),
                "b*": _biases("weight"),
            },
            {**_LAYER_ATTRIBUTES, "projection": non_default("proj_size", 0)},
            outputs=lambda args, outputs: outputs[:4],
            ops=("rnn", "lstm", "gru"),
        )
        for name in ("_cudnn_rnn", "miopen_rnn")
    ),
    Row(
        "aten::_thnn_fused_lstm_cell",
        "summed_lstm_gates",
        {"x0": "input_gates", "x1": "hidden_gates", "c0": "cx", "b0": "input_bias", "b1": "hidden_bias"},
    ),
    Row(
        "aten::_thnn_fused_gru_cell",
        "summed_gru_gates",
        {"x0": "input_gates", "x1": "hidden_gates", "h0": "hx", "b0": "input_bias", "b1": "hidden_bias"},
    ),
)

_GRADIENT_OPS = ("rnn_backward", "lstm_backward", "gru_backward")
_GRADIENT: dict[str, Source] = operands("dy=grad_output dh=grad_hy dc=grad_cy x=input y=output")

GRADIENTS = (
    Row(
        "aten::mkldnn_rnn_layer_backward",
        _layer_by_mode("_backward"),
        {
            **_GRADIENT,
            **operands("h0=hx_ c0=cx_tmp w0=weight1 w1=weight2 b0=weight3 b1=weight4"),
        },
        {
            **_LAYER_ATTRIBUTES,
            "layers": constant(1),
            "bidirectional": constant(False),
            "needs": differentiated(x="input", h0="hx_", c0="cx_tmp", w0="weight1", w1="weight2"),
        },
        ops=_GRADIENT_OPS,
    ),
    *(
        Row(
            f"aten::{name}",
            _layer_by_mode("_backward"),
            {
                **_GRADIENT,
                **operands("h0=hx c0=cx"),
                "w*": _weights("weight"),
                "b*": _biases("weight"),
            },
            {
                **_LAYER_ATTRIBUTES,
                "projection": non_default("proj_size", 0),
                "needs": needed_gradients("x", "h0", "c0", "w"),
            },
            ops=_GRADIENT_OPS,
        )
        for name in ("_cudnn_rnn_backward", "miopen_rnn_backward")
    ),
    Row(
        "aten::_thnn_fused_lstm_cell_backward_impl",
        "summed_lstm_gates_backward",
        {"dy": "grad_hy", "dc": "grad_cy", "c0": "cx", "c": "cy", "gates": "workspace"},
        {"biased": "has_bias"},
    ),
    Row(
        "aten::_thnn_fused_gru_cell_backward",
        "summed_gru_gates_backward",
        {"dy": "grad_hy", "gates": "workspace"},
        {"biased": "has_bias", "kept": constant(5)},
    ),
)

ROWS = (*LAYERS_AND_CELLS, *BACKEND_SPECIFIC, *GRADIENTS)
