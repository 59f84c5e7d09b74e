"""Fused operators of ONNX Runtime: products, activations, normalizations, mixtures of experts, residual streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.numbers import Dim
from costcore.translate import Arguments

from ..node import Inferred, Node, OperatorSpec, row
from ..operators import axes_from, broadcast_of, common_shape, first_outputs, like, node_of
from ..operators.elements import dropout
from ..operators.matrices import product
from ..operators.statistics import NORMALIZATION_ROWS, NORMALIZATION_RULES, layer_norm
from ..schema import ANY, ONNX, Constraints
from ..values import Shape, Value
from .arithmetic import MATRICES, SWAPPED, bit_dropout, factor, fused_with, has_supported_activation, matmul, training
from .quantization import PackedWeights, packed, packed_weight, width
from .windows import channels_last_spec

# Matrix products, fused with a bias and an activation.


def gelu_gemm(node: Node) -> Sequence[Value]:
    """Infer the product of X and W."""
    x = node.value("X")
    return [node.result(product(node, x.known_shape, node.value("W").known_shape), x.dtype)]


def _row_weight(a: Arguments) -> Value:
    # ``[Fout, Fin]``, the layout of a linear layer.
    w: Value = a.get("W") or a["B"]
    return w.viewed(w.known_shape[::-1])


FUSED_GEMM = row(
    "fused_matmul",
    {**MATRICES, "b": "C"},
    {**SWAPPED, "beta": factor("beta"), "activation": fused_with},
    when=has_supported_activation,
)

MATMUL_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "FusedMatMulActivation",
        "A B",
        required=2,
        attributes="transA transB transBatchA transBatchB",
        infer=matmul,
        rows=[row("fused_matmul", MATRICES, {**SWAPPED, "activation": fused_with}, when=has_supported_activation)],
    ),
    *(
        OperatorSpec(name, inputs, required=2, attributes=attributes, infer=matmul, rows=[FUSED_GEMM])
        for name, inputs, attributes in (
            ("FusedGemm", "A B C", "transA transB"),
            ("GemmFloat8", "A B C scaleA scaleB scaleY", "transA transB dtype"),
        )
    ),
    OperatorSpec(
        "GemmFastGelu",
        "X W bias",
        required=2,
        infer=gelu_gemm,
        rows=[row("fused_linear", {"x": "X", "w": _row_weight, "b": "bias"}, {"activation": lambda a: "fast_gelu"})],
    ),
)


# Activations, softmax and dropout, fused with a bias.


def split_gelu(node: Node) -> Sequence[Value]:
    """Infer half of the channels."""
    x = node.value("X")
    return [node.result((*x.known_shape[:-1], x.known_shape[-1] // 2), x.dtype)]


ACTIVATION_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "BiasGelu",
        "A B",
        required=2,
        infer=broadcast_of("A", "B"),
        rows=[row("biased_activation", {"x": "A", "b": "B"}, {"activation": lambda a: "gelu"})],
    ),
    OperatorSpec(
        "FastGelu",
        "X bias",
        infer=like("X"),
        rows=[row("biased_activation", {"x": "X", "b": "bias"}, {"activation": lambda a: "fast_gelu"})],
    ),
    OperatorSpec(
        "BiasSplitGelu",
        "X bias",
        required=2,
        infer=split_gelu,
        rows=[row("biased_gated_activation", {"x": "X", "b": "bias"}, {"activation": lambda a: "gelu"})],
    ),
    OperatorSpec(
        "BiasSoftmax",
        "data bias",
        required=2,
        attributes="axis",
        infer=like("data"),
        rows=[
            row(
                "biased_softmax",
                {"x": "data", "b": "bias"},
                {"axis": axes_from("data", 1)},
            )
        ],
    ),
    OperatorSpec(
        "BiasDropout",
        "data bias residual ratio training_mode",
        required=2,
        infer=dropout,
        rows=[
            row(
                "biased_dropout",
                {"x": "data", "b": "bias", "z": "residual"},
                {"training": training},
            )
        ],
    ),
    OperatorSpec(
        "BitmaskBiasDropout",
        "data bias residual ratio training_mode",
        required=2,
        infer=bit_dropout,
        rows=[row("biased_dropout", {"x": "data", "b": "bias", "z": "residual"}, {"training": training})],
    ),
)


# Normalizations, fused with sums, embeddings, gates and activations.


def norm_of_sum(node: Node) -> Sequence[Value]:
    """Infer the norm, the mean and inverse standard deviation of each row, and the normalized sum."""
    x = node.value("input", "X")
    same = node.result(x.known_shape, x.dtype)
    if node.op == "SkipGroupNorm":
        return [same, node.result(x.known_shape, x.dtype)]
    rows = (*x.known_shape[:-1], 1)
    return [same, node.result(rows, "float32"), node.result(rows, "float32"), node.result(x.known_shape, x.dtype)]


def norm_of_embeddings(node: Node) -> Sequence[Value]:
    """Infer the norm of the embeddings, the position of the first masked word, and the sum of the embeddings."""
    ids, table = node.value("input_ids"), node.value("word_embedding")
    shape = (*ids.known_shape, table.known_shape[-1])
    return [
        node.result(shape, table.dtype),
        node.result((ids.known_shape[0],), "int32"),
        node.result(shape, table.dtype),
    ]


def _gate_activation(a: Arguments) -> str:
    name = str(a.get("activation") or "silu")
    return "silu" if name == "swish" else name


def _last_axis(name: str) -> Any:
    return lambda a: (len(a[name].known_shape) - 1,)


NORM = {"eps": "epsilon"}

GROUPED = {"groups": "groups", **NORM}


def _as_rows(a: Arguments) -> Value:
    # Rows as long as the scale.
    x, width = a["X"], a["scale"].known_shape[-1]
    view: Value = x.viewed((*x.known_shape[:-1], x.known_shape[-1] // width, width))
    return view


GROUPS = Constraints(
    required=("groups",), minimums={"groups": 1}, ranks={"X": (3, ANY), "gamma": (1, 1), "beta": (1, 1)}
)

GROUP_NORM = row(
    "fused_group_norm",
    {"x": "X", "skip": "skip", "bias": "bias", "w": "gamma", "b": "beta"},
    {**GROUPED, "activation": lambda a: "silu" if a.get("activation") else None},
)

FUSED_NORM_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "SkipLayerNormalization",
        "input skip gamma beta bias",
        required=3,
        infer=norm_of_sum,
        rows=[
            row(
                "fused_layer_norm",
                {"x": "input", "skip": "skip", "bias": "bias", "w": "gamma", "b": "beta"},
                {"axis": _last_axis("input"), **NORM},
            )
        ],
    ),
    OperatorSpec(
        "SkipSimplifiedLayerNormalization",
        "input skip gamma bias",
        required=3,
        infer=norm_of_sum,
        rows=[
            row(
                "fused_rms_norm",
                {"x": "input", "skip": "skip", "bias": "bias", "w": "gamma"},
                {"axis": _last_axis("input"), **NORM},
            )
        ],
    ),
    OperatorSpec(
        "EmbedLayerNormalization",
        "input_ids segment_ids word_embedding position_embedding segment_embedding gamma beta mask position_ids",
        infer=norm_of_embeddings,
        rows=[
            row(
                "embed_norm",
                {
                    "x": "input_ids",
                    "segments": "segment_ids",
                    "w0": "word_embedding",
                    "w1": "position_embedding",
                    "w2": "segment_embedding",
                    "w": "gamma",
                    "b": "beta",
                    "mask": "mask",
                    "position": "position_ids",
                },
                NORM,
            )
        ],
    ),
    OperatorSpec(
        "GroupNorm",
        "X gamma beta",
        required=3,
        attributes="groups channels_last",
        constraints=GROUPS,
        infer=like("X"),
        rows=[GROUP_NORM],
    ),
    OperatorSpec(
        "SkipGroupNorm",
        "X gamma beta skip bias",
        required=4,
        attributes="groups channels_last",
        constraints=GROUPS,
        infer=norm_of_sum,
        rows=[GROUP_NORM],
    ),
    OperatorSpec(
        "GatedRMSNorm",
        "X scale gate",
        required=3,
        infer=like("X"),
        rows=[
            row(
                "fused_rms_norm",
                {"x": _as_rows, "w": "scale", "gate": "gate"},
                {"axis": lambda a: (len(a["X"].known_shape),), "activation": _gate_activation, **NORM},
            )
        ],
    ),
)


# Mixtures of experts.


def experts(node: Node) -> Inferred:
    """Infer an output like the input; packed weights are unpacked."""
    x = node.value("input")
    return Inferred(
        [node.result(x.known_shape, x.dtype)], PackedWeights(tuple(_weights_of_layer(node, i) for i in (1, 2, 3)))
    )


def _weights_of_layer(node: Node, i: int) -> Value | None:
    name = f"fc{i}_experts_weights"
    w: Value | None = node.get(name)
    if w is None:
        return None
    bits = width(node, f"fc{i}_expert_weight_bits", "expert_weight_bits")
    if node.op == "QMoE" and w.dtype == "uint8" and bits < 8:
        return packed(node, name, (*w.known_shape[:-1], w.known_shape[-1] * (8 // bits)), f"uint{bits}")
    return w


ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "swiglu", "identity": "none"}


def _expert_zero_point(a: Arguments) -> Any:
    # Integer weights without zero points have an implicit one, in the middle of their range.
    if a.get("quant_type", "int") != "int" or a.get("fc1_zero_points") is not None:
        return None
    return 1 << (width(node_of(a), "fc1_expert_weight_bits", "expert_weight_bits") - 1)


def _expert_activation(a: Arguments) -> str:
    return ACTIVATIONS.get(str(a.get("activation_type", "relu")), "relu")


EXPERTS = {
    "x": "input",
    "router": "router_probs",
    **{f"w{i}": packed_weight(i) for i in range(3)},
    **{f"b{i}": f"fc{j}_experts_bias" for i, j in enumerate((1, 2, 3))},
}

SCALES = {
    **{f"w{i}_scale": f"fc{j}_scales" for i, j in enumerate((1, 2, 3))},
    **{f"w{i}_zero_point": f"fc{j}_zero_points" for i, j in enumerate((1, 2, 3))},
}

ROUTING = {
    "k": lambda a: a.get("k") or 1,
    "normalize": lambda a: bool(a.get("normalize_routing_weights")) or None,
    "activation": _expert_activation,
}

EXPERT_RANKS = {"input": (2, 3), "router_probs": (2, 2), "fc1_experts_weights": (3, 3), "fc2_experts_weights": (3, 3)}

MOE_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "MoE",
        "input router_probs fc1_experts_weights fc1_experts_bias fc2_experts_weights "
        "fc2_experts_bias fc3_experts_weights fc3_experts_bias",
        required=3,
        attributes="k",
        constraints=Constraints(ranks=EXPERT_RANKS),
        infer=experts,
        rows=[row("moe", EXPERTS, ROUTING)],
    ),
    OperatorSpec(
        "QMoE",
        "input router_probs fc1_experts_weights fc1_scales fc1_experts_bias fc2_experts_weights "
        "fc2_scales fc2_experts_bias fc3_experts_weights fc3_scales fc3_experts_bias "
        "fc1_zero_points fc2_zero_points fc3_zero_points router_weights fc1_global_scale "
        "fc2_global_scale fc1_act_scale fc2_act_scale fc1_act_block_scale fc2_act_block_scale",
        required=3,
        attributes="k expert_weight_bits block_size",
        constraints=Constraints(minimums={"expert_weight_bits": 1, "block_size": 0}, ranks=EXPERT_RANKS),
        infer=experts,
        rows=[row("moe", {**EXPERTS, **SCALES}, {**ROUTING, "zero_point": _expert_zero_point})],
    ),
)


# Residual streams, mixed and gated.


def streams(node: Node) -> tuple[Shape, Dim]:
    """Return the shape of streams as ``[..., C, H]``, and their number C."""
    shape, count = node.value("streams", "X").known_shape, node.args.get("num_branches") or 0
    if count < 0 or not shape:
        raise node.error(f"has num_branches {count} for streams of shape {shape}")
    if count:
        return (*shape[:-1], count, shape[-1] // count), count
    if len(shape) < 2:
        raise node.error(f"needs num_branches or an axis of streams (got the shape {shape})")
    return shape, shape[-2]


def reduced_streams(node: Node) -> Sequence[Value]:
    """Infer one feature vector from all streams."""
    shape, _ = streams(node)
    node.value("pre_mix")
    return [node.result((*shape[:-2], shape[-1]), node.value("streams").dtype)]


def _stream_gates(a: Arguments) -> Value:
    # Gates are ``[..., C]`` (one per stream) or ``[..., C, H]`` (one per feature). With ``num_branches``, the streams
    # and the gates per feature are joined in the last axis; gates of symbolic size count as gates per feature.
    gate: Value = a["pre_mix"]
    shape, count = gate.known_shape, a.get("num_branches")
    if not count or not shape or shape[-1] == count:
        return gate
    return gate.viewed((*shape[:-1], count, shape[-1] // count))


def mixed_streams(node: Node) -> Sequence[Value]:
    """Infer streams with the shape of the input."""
    streams(node)
    for name in ("block_output", "post_mix"):
        node.value(name)
    x = node.value("streams")
    return [node.result(x.known_shape, x.dtype)]


def gated_value(node: Node) -> Sequence[Value]:
    """Infer a gated value for each stream, and its norm."""
    key, query, value = node.value("key"), node.value("query"), node.value("value")
    shape = common_shape(key.known_shape, query.known_shape)
    if shape is None or len(shape) != 4 or len(value.known_shape) != 3:
        raise node.error(
            "needs keys and queries [N, T, C, H] and values [N, T, H] "
            f"(got the shapes {key.known_shape}, {query.known_shape} and {value.known_shape})"
        )
    return [node.result(shape, key.dtype) for _ in range(2)]


def _count(a: Arguments) -> Any:
    return streams(node_of(a))[1]


def grouped_streams(name: str) -> Any:
    """Return a source for streams as ``[..., C, H]``."""
    return lambda a: a[name].viewed(streams(node_of(a))[0])


STREAM_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "HyperConnectionPreMix",
        "streams pre_mix",
        required=2,
        attributes="num_branches",
        infer=reduced_streams,
        rows=[
            row(
                "reduce_streams",
                {"x": grouped_streams("streams"), "gate": _stream_gates},
                {
                    "streams": _count,
                    "scale": lambda a: None if a.get("reduction_scale", 1.0) == 1 else a["reduction_scale"],
                },
            )
        ],
    ),
    OperatorSpec(
        "HyperConnectionPostMix",
        "streams block_output post_mix stream_mix",
        required=3,
        attributes="num_branches",
        infer=mixed_streams,
        rows=[
            row(
                "mix_streams",
                {"x": grouped_streams("streams"), "z": "block_output", "gate": "post_mix", "m": "stream_mix"},
                {"streams": _count},
            )
        ],
    ),
    OperatorSpec(
        "EngramGate",
        "key query value key_norm_scale query_norm_scale conv_norm_scale",
        required=5,
        infer=gated_value,
        rows=[
            row(
                "similarity_gate",
                {
                    "q": "query",
                    "k": "key",
                    "v": "value",
                    "w0": "key_norm_scale",
                    "w1": "query_norm_scale",
                    "w2": lambda a: a.get("conv_norm_scale") if len(node_of(a).outputs) > 1 else None,
                },
            )
        ],
    ),
)


# Plain normalizations.


NORM_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "SimplifiedLayerNormalization",
        "X scale B",
        required=2,
        attributes="axis",
        infer=layer_norm,
        rows=[
            row(
                "rms_norm",
                {"x": "X", "w": "scale", "b": "B"},
                {
                    "axis": axes_from("X", -1),
                    "eps": "epsilon",
                },
                outputs=first_outputs(1),
            )
        ],
        domain=ONNX,
    ),
    OperatorSpec(
        "BranchwiseRMSNorm",
        "X scale",
        attributes="num_branches",
        infer=like("X"),
        rows=[
            row(
                "rms_norm",
                {"x": grouped_streams("X"), "w": "scale"},
                {"axis": lambda a: (len(streams(node_of(a))[0]) - 1,), "eps": "epsilon"},
            )
        ],
    ),
    *(
        channels_last_spec(name, inputs, NORMALIZATION_RULES, NORMALIZATION_ROWS, required=len(inputs.split()))
        for name, inputs in (
            ("BatchNormalization", "X scale B input_mean input_var"),
            ("InstanceNormalization", "input scale B"),
            ("LRN", "X"),
        )
    ),
)


SPECS: tuple[OperatorSpec, ...] = (
    *MATMUL_SPECS,
    *ACTIVATION_SPECS,
    *FUSED_NORM_SPECS,
    *MOE_SPECS,
    *STREAM_SPECS,
    *NORM_SPECS,
)
