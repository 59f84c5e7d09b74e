"""Rows of sequences and optionals, texts, signals, optimizers, layers with a state, and quantised products."""

from __future__ import annotations

from typing import Any

from costcore.dims import is_symbolic
from costcore.translate import Arguments, Row

from .node import Node
from .settings import axis, flag, node, told
from .shapes.states import gram_count
from .table_layers import CONVOLUTION
from .values.value import Container, Value


def _items(a: Arguments) -> list[Value]:
    """The items of a sequence that are joined; where they are not known one by one, all of them as one."""
    held = a.get("input_sequence")
    if isinstance(held, Container) and held.items is not None:
        return [item for item in held.items if not isinstance(item, Container)]
    return [node(a).outputs[0]]  # type: ignore[list-item]  # as many elements as are written


def _parts(a: Arguments, values: Any) -> Any:
    """The parts that a tensor is cut into; where they are not known one by one, the tensor itself."""
    held = values[0]
    if isinstance(held, Container) and held.items is not None:
        return [item for item in held.items if not isinstance(item, Container)]
    return [Value(a["input"].shape, a["input"].dtype)]


CONTAINERS = (
    *("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength"),
    *("Optional", "OptionalHasElement", "OptionalGetElement"),
)

WINDOWS = {"HannWindow": "hann_window", "HammingWindow": "hamming_window", "BlackmanWindow": "blackman_window"}


def _signal(a: Arguments) -> Value:
    """A signal whose last axis is the real, or the real and the imaginary part, as real or complex numbers.

    Of three or more axes the last is these parts even where its length is not known: they are taken as real then.
    """
    x: Value = a.get("input") or a["signal"]
    rank = len(x.known)
    if not ((rank > 1 and x.known[-1] in (1, 2)) or (rank > 2 and is_symbolic(x.known[-1]))):
        return x
    view = x.viewed(x.known[:-1])
    if x.known[-1] == 2:
        view.dtype = {"float64": "complex128", "float16": "complex32"}.get(x.dtype, "complex64")
    return view


def _transformed_axis(a: Arguments) -> Any:
    n = node(a)
    rank = len(n.value("input").known)
    found = n.axis(rank, "axis") if n.get("axis") is not None else rank - 2 if n.version >= 20 else 1
    return None if found is None else (found,)


def _transformed_length(n: Node) -> Any:
    """The length of a transform, where it is not that of its input."""
    length = n.number("dft_length")
    if length is None and n.args.get("inverse") and n.args.get("onesided"):
        (axis,) = _transformed_axis(n.args)
        return n.outputs[0].known[axis] if n.outputs[0] is not None else None
    return length


def _frame(a: Arguments) -> Any:
    n = node(a)
    window = n.get("window")
    if window is not None:
        return window.known[0]
    return n.number("frame_length") if n.get("frame_length") is not None else n.value("signal").known[1]


_FRAME = told(lambda n: _frame(n.args))


def packed_heads(name: str, count: str) -> Any:
    """Packed heads ``[B, T, H * D]`` as ``[B, H, T, D]``."""

    def read(a: Arguments) -> Value:
        value, heads = a[name], a[count]
        batch, steps, width = value.known
        view: Value = value.viewed((batch, heads, steps, width // heads))
        return view

    return read


def rotated(a: Arguments) -> Value:
    """What is turned, as ``[N, H, T, D]``."""
    n = node(a)
    x: Value = n.value("X", "input")
    heads = a.get("num_heads")
    if len(x.known) != 3 or not heads:
        return x
    batch, steps, width = x.known
    return x.viewed((batch, heads, steps, width // heads))


def nonzero(name: str) -> Any:
    """A setting that stands for nothing where it is 0."""
    return lambda a: a.get(name) or None


def causal_activation(a: Arguments) -> Any:
    """The activation of a causal convolution, None for none."""
    return {"none": None, "swish": "silu"}.get(a.get("activation", "none"), a.get("activation"))


RECURRENCE = {
    "q": packed_heads("query", "q_num_heads"),
    "k": packed_heads("key", "kv_num_heads"),
    "v": packed_heads("value", "kv_num_heads"),
    "decay": "decay",
    "beta": "beta",
    "state": "past_state",
}
"""Operands of ``linear_attention``."""

OPTIMIZERS = {
    "Adagrad": lambda a: "adagrad_step",
    "Adam": lambda a: "adam_step",
    "Momentum": lambda a: "nesterov_step" if a.get("mode") == "nesterov" else "momentum_step",
}
STEPS = {
    "Adagrad": ("adagrad_step",),
    "Adam": ("adam_step",),
    "Momentum": ("momentum_step", "nesterov_step"),
}


ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{op}", "container") for op in CONTAINERS),
    Row(
        "ai.onnx::ConcatFromSequence",
        lambda a: "stack" if a.get("new_axis") else "concat",
        {"x*": _items},
        {"axis": "axis"},
        ops=("concat", "stack"),
    ),
    Row("ai.onnx::SplitToSequence", "split", {"x": "input"}, {"axis": axis("input")}, outputs=_parts),
    Row("ai.onnx::StringConcat", "string_concat", {"x0": "X", "x1": "Y"}),
    Row("ai.onnx::StringSplit", "string_split", {"x": "X"}),
    Row("ai.onnx::StringNormalizer", "string_normalize", {"x": "X"}),
    Row("ai.onnx::RegexFullMatch", "regex_match", {"x": "X"}),
    Row("ai.onnx::ImageDecoder", "image_decode", {"x": "encoded_stream"}),
    Row(
        "ai.onnx::TfIdfVectorizer",
        "count_ngrams",
        {"x": "X"},
        {"grams": told(gram_count), "weighted": lambda a: a.get("mode") in ("IDF", "TFIDF") and bool(a.get("weights"))},
    ),
    *(Row(f"ai.onnx::{native}", op) for native, op in WINDOWS.items()),
    Row("ai.onnx::MelWeightMatrix", "mel_weights"),
    Row(
        "ai.onnx::DFT",
        "fft",
        {"x": _signal},
        {
            "axes": told(lambda n: _transformed_axis(n.args)),
            "length": told(_transformed_length),
            "inverse": flag("inverse"),
        },
    ),
    Row(
        "ai.onnx::STFT",
        "stft",
        {"x": _signal, "window": "window"},
        {"length": _FRAME, "frames": told(lambda n: n.outputs[0] and n.outputs[0].known[1])},
        when=lambda a: _FRAME(a) is not None,
    ),
    Row("ai.onnx::Det", "det", {"x": "X"}),
    Row("ai.onnx::NonZero", "nonzero", {"x": "X"}),
    Row("ai.onnx::Bernoulli", "bernoulli", {"x": "input"}),
    Row("ai.onnx::Multinomial", "multinomial", {"x": "input"}),
    Row(
        "ai.onnx::RotaryEmbedding",
        "rotary_embedding",
        {"x": rotated, "cos": "cos_cache", "sin": "sin_cache", "position": "position_ids"},
        {"rotary_dim": nonzero("rotary_embedding_dim"), "interleaved": flag("interleaved")},
    ),
    Row(
        "ai.onnx::LinearAttention",
        "linear_attention",
        RECURRENCE,
        {"rule": "update_rule"},
    ),
    Row(
        "ai.onnx::CausalConvWithState",
        "causal_conv",
        {"x": "input", "w": "weight", "b": "bias", "state": "past_state"},
        {"activation": causal_activation},
    ),
    Row(
        "ai.onnx.preview::FlexAttention",
        "attention",
        {"q": "Q", "k": "K", "v": "V"},
        when=lambda a: a.get("score_mod") is None and a.get("prob_mod") is None,
    ),
    *(
        Row(
            f"ai.onnx.preview.training::{native}",
            op,
            {"x*": "inputs"},
            {"weight_decay": nonzero("norm_coefficient"), "weight_decay_after": nonzero("norm_coefficient_post")},
            ops=STEPS[native],
        )
        for native, op in OPTIMIZERS.items()
    ),
    Row(
        "ai.onnx::QLinearConv",
        "quantized_conv",
        {
            "x": "x",
            "w": "w",
            "b": "B",
            "x_scale": "x_scale",
            "x_zero_point": "x_zero_point",
            "w_scale": "w_scale",
            "w_zero_point": "w_zero_point",
            "y_scale": "y_scale",
            "y_zero_point": "y_zero_point",
        },
        CONVOLUTION,
    ),
    Row(
        "ai.onnx::ConvInteger",
        "quantized_conv",
        {"x": "x", "w": "w", "x_zero_point": "x_zero_point", "w_zero_point": "w_zero_point"},
        CONVOLUTION,
    ),
    Row(
        "ai.onnx::QLinearMatMul",
        "quantized_matmul",
        {
            "x0": "a",
            "x1": "b",
            "x0_scale": "a_scale",
            "x0_zero_point": "a_zero_point",
            "x1_scale": "b_scale",
            "x1_zero_point": "b_zero_point",
            "y_scale": "y_scale",
            "y_zero_point": "y_zero_point",
        },
    ),
    Row(
        "ai.onnx::MatMulInteger",
        "quantized_matmul",
        {"x0": "A", "x1": "B", "x0_zero_point": "a_zero_point", "x1_zero_point": "b_zero_point"},
    ),
)
"""The rows of this family."""
