"""Rows of the other operators that ONNX Runtime adds: transforms, tokens and texts, layers packed and quantised."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .contrib import with_own_inputs
from .rows.arguments import axis, first, node, numbers, outputs, told
from .rows.conv import CONVOLUTION
from .rows.pooling import POOL
from .table_contrib import FUSED, SWAPPED, zero_point
from .values.value import Value

METRICS = {"euclidean": 2, "cityblock": 1, "chebyshev": float("inf")}
"""Distances that are norms of differences, by the norm."""


def _spectrum(a: Arguments) -> Value:
    """Bins whose last axis holds real and imaginary part, as complex numbers."""
    x: Value = a["X"]
    view = x.viewed(x.known[:-1])
    view.dtype = {"float64": "complex128", "float16": "complex32"}.get(x.dtype, "complex64")
    return view


def _signal_axes(a: Arguments) -> tuple[int, ...]:
    """The axes of the signal: the last ones."""
    rank = len(a["X"].known) - (1 if node(a).op == "Irfft" else 0)
    return tuple(range(rank - (a.get("signal_ndim") or 1), rank))


def _sampling(a: Arguments) -> str:
    return "nearest" if a.get("mode") == "nearest" else "linear"


def _stored_elements(a: Arguments) -> Value:
    """The elements that a sparse matrix stores, all of them where it is not known to be one."""
    x: Value = a["A"]
    return x if x.stored is None or x.stored.size == x.size else x.viewed((x.stored.size,))


def _places(a: Arguments) -> Any:
    """One place for each element that is stored, where the matrix is known to be sparse."""
    values = _stored_elements(a)
    return None if values is a["A"] else values.size


def _width(a: Arguments) -> Any:
    """Columns of the dense matrix, of all matrices where there are more."""
    b = a["B"].known
    columns = b[-2 if a.get("transB") else -1]
    for d in b[:-2]:
        columns = columns * d
    return columns


def _packed(name: str) -> Any:
    return lambda a: node(a).cache.get(name)


def _projections(*names: str) -> dict[str, Any]:
    """The packed weights of these names with scales and biases, and the norm before them."""
    found: dict[str, Any] = {"x": "A", "skip": "skip", "w": "norm_scale"}
    for i, name in enumerate(names):
        found |= {f"w{i}": _packed(f"{name}_B"), f"w{i}_scale": f"{name}_scales", f"b{i}": f"{name}_bias"}
    return found


def _test(a: Arguments) -> Any:
    return "isinf" if a.get("isinf_only") else "isnan" if a.get("isnan_only") else None


def _training(a: Arguments) -> Any:
    return told(lambda n: bool(n.number("training_mode")) or None)(a)


GATES = ("Sigmoid", "Tanh", "Tanh")


def _is_standard(a: Arguments) -> bool:
    """Whether a recurrent layer has the activations of its definition, and neither clips nor ties its gates."""
    return not a.get("clip") and not a.get("input_forget") and (a.get("activations") or GATES) in (GATES, GATES * 2)


RECURRENT = {
    "x": "X",
    "w0": "W",
    "w1": "R",
    "b0": "B",
    "lengths": "sequence_lens",
    "h0": "initial_h",
    "c0": "initial_c",
}
DIRECTED = {
    "hidden": lambda a: a["initial_h"].known[-1] if isinstance(a.get("initial_h"), Value) else _hidden(a),
    "bidirectional": lambda a: a.get("direction") == "bidirectional",
}


def _hidden(a: Arguments) -> Any:
    """Hidden units: the recurrent weight has four gates of them on its other axis."""
    r = a["R"].known
    return r[1] if node(a).op == "DynamicQuantizeLSTM" else r[-1]


def _embedding_part(i: int, name: str) -> dict[str, str]:
    return {f"w{i}_scale": f"{name}_embedding_scale", f"w{i}_zero_point": f"{name}_embedding_zero_point"}


MORE: tuple[Row, ...] = (
    Row("com.microsoft::ExpandDims", "reshape", {"x": "X"}),
    Row("com.microsoft::SampleOp", "identity", {"x": "X"}),
    Row(
        "com.microsoft::Rfft",
        "real_fft",
        {"x": "X"},
        {"axes": _signal_axes},
        when=lambda a: a.get("signal_ndim", 1) == 1,
    ),
    Row(
        "com.microsoft::Irfft",
        "inverse_real_fft",
        {"x": _spectrum},
        {"axes": _signal_axes, "scaled": lambda a: True},
    ),
    Row("com.microsoft::Unique", "unique", {"x": "x"}),
    Row("com.microsoft::Tokenizer", "tokenize", {"x": "X"}),
    Row("com.microsoft::UnfoldTensor", "unfold", {"x": "input"}, {"size": "size", "step": lambda a: a.get("step", 1)}),
    Row(
        "com.microsoft::CropAndResize",
        "crop_and_resize",
        {"x": "X", "rois": "rois", "indices": "batch_indices"},
        {"mode": _sampling},
    ),
    Row("com.microsoft::ConvTransposeWithDynamicPads", "conv_transpose", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION),
    Row(
        "com.microsoft::CDist",
        "squared_distances",
        {"x0": "A", "x1": "B"},
        when=lambda a: a.get("metric", "sqeuclidean") == "sqeuclidean",
    ),
    Row(
        "com.microsoft::CDist",
        "pairwise_distances",
        {"x0": "A", "x1": "B"},
        {"p": lambda a: METRICS[a["metric"]]},
        when=lambda a: a.get("metric") in METRICS,
    ),
    Row("com.microsoft::ComplexMul", "complex_pairs_mul", {"x0": "A", "x1": "B"}),
    Row("com.microsoft::ComplexMulConj", "complex_pairs_mul_conj", {"x0": "A", "x1": "B"}),
    Row(
        "com.microsoft::MulInteger",
        "integer_mul",
        {"x0": "A", "x0_zero_point": "A_zero_point", "x1": "B", "x1_zero_point": "B_zero_point"},
    ),
    Row("com.microsoft::QuantizeWithOrder", "quantize", {"x": "input", "scale": "scale_input"}),
    Row("com.microsoft::DequantizeWithOrder", "dequantize", {"x": "input", "scale": "scale_input"}),
    Row("com.microsoft::QuantizeBFP", "quantize_blocks", {"x": "x"}),
    Row("com.microsoft::DequantizeBFP", "dequantize_blocks", {"x": "x"}),
    Row(
        "com.microsoft::DynamicQuantizeLSTM",
        "dynamic_quantized_lstm",
        {
            **RECURRENT,
            "w2": "P",
            "w0_scale": "W_scale",
            "w0_zero_point": "W_zero_point",
            "w1_scale": "R_scale",
            "w1_zero_point": "R_zero_point",
        },
        {**DIRECTED, "peephole": lambda a: True if a.get("P") is not None else None},
        when=_is_standard,
    ),
    Row(
        "com.microsoft::AttnLSTM",
        "attention_lstm",
        {**RECURRENT, "w2": "P", "w3": "QW", "w4": "MW", "w5": "V", "memory": "M", "w6": "AW"},
        DIRECTED,
        when=_is_standard,
    ),
    Row(
        "com.microsoft::MatMulNBitsMlp",
        "packed_projections",
        _projections("gate", "up"),
        {"activation": lambda a: FUSED.get(str(a["activation"]), a["activation"]), "zero_point": zero_point},
        when=lambda a: str(a.get("activation")) in {*FUSED, *FUSED.values()},
    ),
    Row("com.microsoft::MatMulNBitsQkv", "packed_projections", _projections("q", "k", "v"), {"zero_point": zero_point}),
    Row(
        "com.microsoft::QOrderedMatMul",
        "quantized_matmul",
        {
            "x0": "A",
            "x1": "B",
            "b": first("bias", "C"),
            "x0_scale": "scale_A",
            "x1_scale": "scale_B",
            "y_scale": "scale_Y",
        },
        when=lambda a: a.get("bias") is None or a.get("C") is None,
    ),
    Row("com.microsoft::QOrderedGelu", "quantized_gelu", {"x": "X", "x_scale": "scale_X", "y_scale": "scale_Y"}),
    Row(
        "com.microsoft::QOrderedLayerNormalization",
        "quantized_layer_norm",
        {"x": "X", "x_scale": "scale_X", "w": "scale", "b": "B", "y_scale": "scale_Y"},
        {
            "axis": lambda a: tuple(range(axis("X", default=len(a["X"].known) - 1)(a), len(a["X"].known))),
            "eps": "epsilon",
        },
    ),
    Row("com.microsoft::ScaledSiLU", "scaled_silu", {"x": "X", "scale": "scale"}),
    Row(
        "com.microsoft::SparseToDenseMatMul",
        "sparse_dense_matmul",
        {"x0": _stored_elements, "x1": "B"},
        {**SWAPPED, "width": _width, "indices": _places},
    ),
    Row(
        "com.microsoft::QEmbedLayerNormalization",
        "quantized_embed_norm",
        {
            "x": "input_ids",
            "segments": "segment_ids",
            "w0": "word_embedding_quant",
            "w1": "position_embedding_quant",
            "w2": "segment_embedding",
            "w": "gamma_quant",
            "b": "beta_quant",
            "mask": "mask",
            **_embedding_part(0, "word"),
            **_embedding_part(1, "position"),
            **_embedding_part(2, "segment"),
            "w_scale": "gamma_scale",
            "w_zero_point": "gamma_zero_point",
            "b_scale": "beta_scale",
            "b_zero_point": "beta_zero_point",
        },
        {"eps": "epsilon"},
    ),
    Row("com.microsoft::BitmaskDropout", "dropout", {"x": "data"}, {"training": _training}),
    Row(
        "com.microsoft::BitmaskBiasDropout",
        "biased_dropout",
        {"x": "data", "b": "bias", "z": "residual"},
        {"training": _training},
    ),
    Row("com.microsoft::IsAllFinite", "all_finite", {"x*": "input"}, {"test": _test}),
    Row("com.microsoft::MaxpoolWithMask", "masked_max_pool", {"x": "X", "mask": "M"}, POOL, outputs=outputs(1)),
    Row("com.microsoft::MurmurHash3", "hash", {"x": "X"}),
    *(
        Row(
            f"com.microsoft::{op}",
            "hash_ngrams",
            {
                "x": "input_ids",
                "factors": "multipliers",
                "sizes": "vocab_sizes",
                "past": "past_ids",
                "offsets": "head_offsets",
                "segments": "segment_ids",
            },
            {"n": "max_ngram_size"},
        )
        for op in ("NGramHashMapping", "VarlenNGramHashMapping")
    ),
    Row("com.microsoft::NGramRepeatBlock", "block_ngrams", {"x": "input_ids", "scores": "scores"}, {"n": "ngram_size"}),
    Row("com.microsoft::WordConvEmbedding", "word_convolution", {"x": "Sequence", "w0": "W", "b0": "B", "w1": "C"}),
    Row("com.microsoft::DynamicTimeWarping", "time_warping", {"x": "input"}),
    Row(
        "com.microsoft::BifurcationDetector",
        "match_suffix",
        {"x": "src_tokens", "tokens": "cur_tokens", "place": "prev_suffix_match_idx", "predicted": "pred_tokens"},
        {"least": lambda a: a.get("min_ngram_size", 1), "most": lambda a: a.get("max_ngram_size", 3)},
    ),
)

GIVEN_UP: tuple[Row, ...] = (
    Row("ai.onnx::Affine", "scale_shift", {"x": "X"}),
    Row("ai.onnx::ImageScaler", "scale_shift", {"x": "input"}),
    Row("ai.onnx::Scale", "mul", {"x0": "input", "x1": lambda a: Value((), a["input"].dtype, None, "const")}),
    Row("ai.onnx::ScaledTanh", "scaled_tanh", {"x": "input"}),
    Row("ai.onnx::ParametricSoftplus", "scaled_softplus", {"x": "X"}),
    Row("ai.onnx::Crop", "slice", {"x": "input"}),
    Row("ai.onnx::DynamicSlice", "slice", {"x": "data"}, {"start": numbers("starts"), "stop": numbers("ends")}),
    *(Row(f"ai.onnx::{op}", "copy", {"x": "X"}) for op in ("MemcpyFromHost", "MemcpyToHost")),
)
"""Operators of the default domain that onnx has given up and ONNX Runtime has not, and its copies between devices."""

ROWS: tuple[Row, ...] = (*map(with_own_inputs, MORE), *GIVEN_UP)
"""The rows of this family."""
