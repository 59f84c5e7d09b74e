"""Rows of recurrent layers and cells, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costcore.translate import Arguments, Row, Source

from .arguments import constant, given, named, needs


def _tensors(name: str, rank: int) -> Callable[[Arguments], list[Any]]:
    """Weights (rank 2) or biases (rank 1) among the parameters of a layer."""
    return lambda args: [value for value in args[name] if value.dim() == rank]


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
    sequence: dict[str, Source] = {"w*": _tensors("params", 2), "b*": _tensors("params", 1)}
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


LAYERS_AND_CELLS = (
    *_recurrent("lstm", "lstm", 4, {"projection": _projection}),
    *_recurrent("gru", "gru", 3, {"reset_after": constant(True)}),
    *_recurrent("rnn_tanh", "rnn", 1, {"activation": constant("tanh")}),
    *_recurrent("rnn_relu", "rnn", 1, {"activation": constant("relu")}),
)

_MODES = ("rnn", "rnn", "lstm", "gru")


def _mode_of(suffix: str = "") -> Callable[[Arguments], str]:
    """The recurrent layer that PyTorch's number of its mode means."""
    return lambda args: _MODES[args["mode"]] + suffix


def _activation(args: Arguments) -> str | None:
    """The activation of an Elman layer, by the same number."""
    return ("relu", "tanh", None, None)[args["mode"]]


def _reset(args: Arguments) -> bool | None:
    """Whether a GRU resets the state after its product, as PyTorch does."""
    return True if args["mode"] == 3 else None


_LAYER: dict[str, Source] = {
    "hidden": "hidden_size",
    "layers": "num_layers",
    "bidirectional": "bidirectional",
    "activation": _activation,
    "reset_after": _reset,
}

DEVICES = (
    Row(
        "aten::mkldnn_rnn_layer",
        _mode_of(),
        {"x": "input", "h0": "hx_", "c0": "cx_", "w0": "weight0", "w1": "weight1", "b0": "weight2", "b1": "weight3"},
        {"hidden": "hidden_size", "layers": constant(1)},
        outputs=lambda args, outputs: outputs[:3],
        ops=("rnn", "lstm", "gru"),
    ),
    *(
        Row(
            f"aten::{name}",
            _mode_of(),
            {"x": "input", "h0": "hx", "c0": "cx", "w*": _tensors("weight", 2), "b*": _tensors("weight", 1)},
            {**_LAYER, "projection": given("proj_size", 0)},
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

_BACK = ("rnn_backward", "lstm_backward", "gru_backward")
_STEPS: dict[str, Source] = named("dy=grad_output dh=grad_hy dc=grad_cy x=input y=output")

GRADIENTS = (
    Row(
        "aten::mkldnn_rnn_layer_backward",
        _mode_of("_backward"),
        {
            **_STEPS,
            **named("h0=hx_ c0=cx_tmp w0=weight1 w1=weight2 b0=weight3 b1=weight4 workspace=workspace"),
        },
        {**_LAYER, "layers": constant(1), "bidirectional": constant(False)},
        ops=_BACK,
    ),
    *(
        Row(
            f"aten::{name}",
            _mode_of("_backward"),
            {
                **_STEPS,
                **named("h0=hx c0=cx reserve=reserve"),
                "w*": _tensors("weight", 2),
                "b*": _tensors("weight", 1),
            },
            {**_LAYER, "projection": given("proj_size", 0), "needs": needs("x", "h0", "c0", "w")},
            ops=_BACK,
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

ROWS = (*LAYERS_AND_CELLS, *DEVICES, *GRADIENTS)
