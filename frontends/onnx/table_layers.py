"""Rows of layers with weights, of poolings, normalisations, reductions and losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.dims import minimum
from costcore.translate import Arguments, Row, Source

from .settings import axis, first, flag, given, node, outputs, told, window
from .shapes.reductions import reduced_axes
from .values.value import Value

SPATIAL: Mapping[str, Any] = {name: window(name) for name in ("kernel", "stride", "padding", "dilation")}
CONVOLUTION: Mapping[str, Any] = {**SPATIAL, "groups": "group"}
POOL: Mapping[str, Any] = {**SPATIAL, "ceil_mode": flag("ceil_mode")}
X = {"x": first("X", "input", "data")}


def _is_linear(a: Arguments) -> bool:
    """Whether a ``Gemm`` is a layer: rows times a stored matrix, onto a stored bias of one element an output."""
    w, bias = a.get("B"), a.get("C")
    if not isinstance(w, Value) or w.role == "data" or a.get("transA"):
        return False
    return not isinstance(bias, Value) or (bias.role != "data" and bias.size == _features(a)[0])


def _features(a: Arguments) -> tuple[Any, ...]:
    """The shape ``[Fout, Fin]`` of the weight of a ``Gemm``."""
    shape: tuple[Any, ...] = a["B"].known
    return shape if a.get("transB") else shape[::-1]


def _weight(a: Arguments) -> Value:
    weight: Value = a["B"]
    return weight.viewed(_features(a))


def _bias(a: Arguments) -> Value | None:
    bias = a.get("C")
    return bias.viewed((bias.size,)) if isinstance(bias, Value) else None


def _factor(name: str) -> Any:
    """A factor of ``Gemm``, None where it is 1 or where what it multiplies is left out."""
    return lambda a: None if a.get(name, 1.0) == 1 or (name == "beta" and a.get("C") is None) else a[name]


def _transposed(name: str) -> Any:
    return lambda a: True if a.get(name) else None


GEMM: Mapping[str, Any] = {"alpha": _factor("alpha"), "beta": _factor("beta")}


def _trains(a: Arguments) -> bool:
    if node(a).version < 7:
        return not a.get("is_test")
    return bool(a.get("training_mode")) or len([o for o in node(a).outputs if o is not None]) > 1


def _from_axis(operand: str, default: int) -> Any:
    """The axes from ``axis`` to the last."""

    def read(a: Arguments) -> tuple[int, ...]:
        rank = len(node(a).value(operand).known)
        return tuple(range(axis(operand, default=default)(a), rank))

    return read


def softmax_axis(a: Arguments) -> Any:
    """One axis; before opset 13 all axes from it on, as one."""
    if node(a).version >= 13:
        return axis("input")(a)
    axes = _from_axis("input", 1)(a)
    return axes[0] if len(axes) == 1 else axes


def _norm_axes(a: Arguments) -> Any:
    return told(lambda n: n.axes(len(n.value("X").known), "axes"))(a)


ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}


def _is_standard(a: Arguments) -> bool:
    """Whether a recurrent layer has the activations of its definition, and neither clips nor ties its gates."""
    if a.get("clip") is not None or a.get("input_forget"):
        return False
    names = tuple(a.get("activations") or ())
    usual = ACTIVATIONS.get(node(a).op)
    if usual is None:
        return len({name.lower() for name in names} or {"tanh"}) == 1 and _activation(a) in ("tanh", "relu")
    return not names or names in (usual, usual * 2)


def _activation(a: Arguments) -> str:
    return str((a.get("activations") or ("tanh",))[0]).lower()


RECURRENT: Mapping[str, Any] = {
    "hidden": lambda a: a.get("hidden_size") or a["R"].known[-1],
    "bidirectional": lambda a: a.get("direction") == "bidirectional",
}


def _steps(a: Arguments) -> Any:
    """The sequences; of those whose lengths are known all steps that are taken, one after another."""
    x, lengths = a["X"], a.get("sequence_lens")
    if not isinstance(lengths, Value) or lengths.data is None or not all(map(_is_length, lengths.data.flat)):
        return x
    longest = x.known[1 if a.get("layout") else 0]
    return x.viewed((sum(minimum(length, longest) for length in lengths.data.flat), x.known[-1]))


def _is_length(number: Any) -> bool:
    return isinstance(number, int) and number >= 0


GATES: dict[str, Source] = {"x": _steps, "w0": "W", "w1": "R", "b0": "B", "lengths": "sequence_lens", "h0": "initial_h"}


def _heads(name: str, count: str) -> Any:
    """Queries, keys or values as ``[N, H, T, D]``; packed ones ``[N, T, H * D]`` are that in another order."""

    def read(a: Arguments) -> Value:
        value, past = a[name], a.get(f"past_{'key' if name == 'K' else 'value'}") if name != "Q" else None
        shape = value.known
        if len(shape) == 3:
            shape = (shape[0], a[count], shape[1], shape[2] // a[count])
        if isinstance(past, Value):
            shape = (*shape[:2], past.known[2] + shape[2], shape[3])  # the past is read as well
        view: Value = value.viewed(shape)
        return view

    return read


def _window(a: Arguments) -> Any:
    sides = (a.get("left_window_size", -1), a.get("right_window_size", -1))
    return None if sides == (-1, -1) else sides


REDUCTIONS: Mapping[str, str] = {
    "L1": "l1",
    "L2": "l2",
    "LogSum": "log_sum",
    "LogSumExp": "log_sum_exp",
    "Max": "max",
    "Mean": "mean",
    "Min": "min",
    "Prod": "prod",
    "Sum": "sum",
    "SumSquare": "sum_square",
}

ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Conv", "conv", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION),
    Row("ai.onnx::ConvTranspose", "conv_transpose", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION),
    Row(
        "ai.onnx::DeformConv",
        "deform_conv",
        {"x": "X", "w": "W", "offset": "offset", "b": "B", "mask": "mask"},
        CONVOLUTION,
    ),
    Row("ai.onnx::Gemm", "linear", {"x": "A", "w": _weight, "b": _bias}, GEMM, when=_is_linear),
    Row(
        "ai.onnx::Gemm",
        "matmul",
        {"x0": "A", "x1": "B", "b": "C"},
        {**GEMM, "transpose_x0": _transposed("transA"), "transpose_x1": _transposed("transB")},
    ),
    Row("ai.onnx::MatMul", "matmul", {"x*": given("A", "B")}),
    Row(
        "ai.onnx::Attention",
        "attention",
        {
            "q": _heads("Q", "q_num_heads"),
            "k": _heads("K", "kv_num_heads"),
            "v": _heads("V", "kv_num_heads"),
            "mask": "attn_mask",
            "lengths": "nonpad_kv_seqlen",
        },
        {"causal": flag("is_causal"), "softcap": lambda a: a.get("softcap") or None, "window": _window},
    ),
    Row("ai.onnx::MaxPool", "max_pool", X, POOL),
    Row("ai.onnx::AveragePool", "avg_pool", X, POOL),
    Row("ai.onnx::LpPool", "lp_pool", X, {**POOL, "p": "p"}),
    Row("ai.onnx::GlobalAveragePool", "avg_pool", X, SPATIAL),
    Row("ai.onnx::GlobalMaxPool", "max_pool", X, SPATIAL),
    Row("ai.onnx::GlobalLpPool", "lp_pool", X, {**SPATIAL, "p": "p"}),
    Row(
        "ai.onnx::BatchNormalization",
        "batch_norm",
        {"x": "X", "w": "scale", "b": "B", "mean": first("input_mean", "mean"), "var": first("input_var", "var")},
        {"training": _trains, "eps": "epsilon"},
        outputs=outputs(1),
    ),
    Row(
        "ai.onnx::LayerNormalization",
        "layer_norm",
        {"x": "X", "w": "Scale", "b": "B"},
        {"axis": _from_axis("X", 0), "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::RMSNormalization",
        "rms_norm",
        {"x": "X", "w": "scale"},
        {"axis": _from_axis("X", 0), "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::GroupNormalization",
        "group_norm",
        {"x": "X", "w": "scale", "b": "bias"},
        {"groups": "num_groups", "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::InstanceNormalization",
        "instance_norm",
        {"x": "input", "w": "scale", "b": "B"},
        {"eps": "epsilon"},
    ),
    Row("ai.onnx::MeanVarianceNormalization", "mean_variance_norm", {"x": "X"}, {"axis": _norm_axes}),
    Row("ai.onnx::LRN", "local_response_norm", {"x": "X"}, {"size": "size"}),
    Row(
        "ai.onnx::LpNormalization",
        lambda a: "l1_normalize" if a.get("p") == 1 else "l2_normalize",
        {"x": "input"},
        {"axis": lambda a: (axis("input")(a),)},
        ops=("l1_normalize", "l2_normalize"),
    ),
    Row("ai.onnx::Softmax", "softmax", X, {"axis": softmax_axis}),
    Row("ai.onnx::LogSoftmax", "log_softmax", X, {"axis": softmax_axis}),
    Row(
        "ai.onnx::LSTM",
        "lstm",
        {**GATES, "c0": "initial_c", "w2": "P"},
        {**RECURRENT, "peephole": lambda a: True if a.get("P") is not None else None},
        when=_is_standard,
    ),
    Row("ai.onnx::GRU", "gru", GATES, {**RECURRENT, "reset_after": flag("linear_before_reset")}, when=_is_standard),
    Row("ai.onnx::RNN", "rnn", GATES, {**RECURRENT, "activation": _activation}, when=_is_standard),
    *(
        Row(
            f"ai.onnx::Reduce{kind}",
            f"reduce_{op}",
            X,
            {"axis": told(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
        )
        for kind, op in REDUCTIONS.items()
    ),
    *(
        Row(
            f"ai.onnx::Arg{kind}",
            f"arg{kind.lower()}",
            X,
            {"axis": lambda a: (axis("data")(a),), "keepdims": lambda a: bool(a.get("keepdims", 1))},
        )
        for kind in ("Max", "Min")
    ),
    Row(
        "ai.onnx::NegativeLogLikelihoodLoss",
        "nll_loss",
        {"x": "input", "target": "target", "w": "weight"},
        {"reduction": "reduction"},
    ),
    Row(
        "ai.onnx::SoftmaxCrossEntropyLoss",
        "cross_entropy",
        {"x": "scores", "target": "labels", "w": "weights"},
        {"reduction": "reduction"},
    ),
)
"""The rows of this family."""
