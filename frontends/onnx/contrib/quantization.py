"""Quantized operators of ONNX Runtime and QONNX.

Conversions; products by weights in a few bits; products and convolutions of integers; other operators on integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from costcore.ir import prod
from costcore.translate import Arguments, Row

from ..node import MICROSOFT, NHWC, QONNX, Inferred, Node, OperatorSpec, Rule, row
from ..operators import (
    SPATIAL,
    axes_from,
    broadcast,
    broadcast_of,
    determined,
    fact,
    first_given,
    flag,
    like,
    node_of,
    number,
    positive,
)
from ..operators.elements import QUANTIZATION_ROWS, QUANTIZATION_RULES, dequantize, quantize
from ..operators.matrices import CONVOLUTION, conv_transpose, product
from ..operators.statistics import reduced_axes, reduction
from ..values import DTYPES, Shape, Undetermined, Value
from .arithmetic import FUSED, MATRICES, SWAPPED, matmul, transposed
from .windows import (
    channel_view,
    channels_last_spec,
    conv,
    global_pool,
    has_no_activation,
    pool,
    rule_with_channels_last,
    weight_view,
)

# Quantization and dequantization.


def typed(name: str, attribute: str) -> Rule:
    """Return a rule with the shape of that input and the dtype of an attribute."""
    return lambda node: [
        node.result(node.value(name).known_shape, DTYPES.get(node.args.get(attribute) or 1, "float32"))
    ]


def blocks(node: Node) -> Sequence[Value]:
    """Infer bytes of blocks, and the shape and strides of their contents."""
    rank = len(node.value("x").known_shape)
    return [node.result((None,), "uint8"), *(node.result((rank,), "int64") for _ in range(2))]


def unblocked(node: Node) -> Sequence[Value]:
    """Infer the contents of blocks; an input gives their shape."""
    return [node.result(node.numbers("shape") or (), DTYPES.get(node.args.get("dtype") or 1, "float32"))]


CONVERSION_SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            name,
            f"x {scaled}_scale {scaled}_zero_point",
            required=2,
            attributes="axis",
            infer=infer,
            rows=[row(op, {"x": "x", "scale": f"{scaled}_scale", "zero_point": f"{scaled}_zero_point"})],
        )
        for name, scaled, infer, op in (
            ("QuantizeLinear", "y", quantize, "quantize"),
            ("DequantizeLinear", "x", dequantize, "dequantize"),
        )
    ),
    *(
        OperatorSpec(
            name,
            "input scale_input",
            required=2,
            infer=infer,
            rows=[row(op, {"x": "input", "scale": "scale_input"})],
        )
        for name, infer, op in (
            ("QuantizeWithOrder", like("input", dtype="int8"), "quantize"),
            ("DequantizeWithOrder", typed("input", "to"), "dequantize"),
        )
    ),
    OperatorSpec(
        "QuantizeBFP",
        "x",
        infer=blocks,
        rows=[row("quantize_blocks", {"x": "x"})],
    ),
    OperatorSpec(
        "DequantizeBFP",
        "x shape strides",
        required=3,
        attributes="dtype",
        infer=unblocked,
        rows=[row("dequantize_blocks", {"x": "x"})],
    ),
)


# Products and lookups by weights stored in a few bits per element.


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """Unpacked views of the packed weights, in the order of the inputs; None for an omitted one."""

    weights: tuple[Value | None, ...]


def packed_weight(i: int) -> Any:
    """Return a source for the packed weight at position ``i``, as the shape rule unpacked it."""
    return fact(PackedWeights, lambda f: f.weights[i])


def packed(node: Node, name: str, shape: Shape, dtype: str) -> Value:
    """Return a view of a packed weight in its unpacked shape; its elements count at their bit width."""
    value = node.value(name)
    if value.stored is not None and all(isinstance(d, int) for d in shape):
        value.stored.size, value.stored.dtype = prod(shape), dtype
    view = value.viewed(shape)
    view.dtype = dtype
    return view


def width(node: Node, *names: str) -> int:
    """Return the bit width of packed weights, from the first of these attributes that is given; by default 4."""
    bits: int = next((node.args[name] for name in names if node.args.get(name)), 4)
    if not 1 <= bits <= 8:
        raise node.error(f"has weights of {bits} bits (expected 1 to 8)")
    return bits


def packed_matmul(node: Node) -> Inferred:
    """Infer a product by a weight of ``N`` outputs and ``K`` inputs, given by attributes or its shape."""
    a, b = node.value("A"), node.value("B")
    if node.op == "MatMulBlockQuantizedFp4Weight":
        shape: Shape = (b.known_shape[0], 2 * b.known_shape[1])
        dtype = "float4_e2m1"
    elif node.op == "MatMulBlockQuantizedFp8Weight":
        shape, dtype = b.known_shape, b.dtype
    elif node.op == "MatMulFpQ4":
        numbers = node.numbers("B_shape")
        if numbers is None:
            raise Undetermined
        shape, dtype = (numbers[1], numbers[0]), "uint4"
    else:
        shape = (positive(node, "N"), positive(node, "K"))
        bits = width(node, "bits") if node.op == "MatMulNBits" else 4
        dtype = f"uint{bits}"
    weight = packed(node, "B", shape, dtype)
    outputs, features = shape
    if a.known_shape[-1] != features and isinstance(a.known_shape[-1], int) and isinstance(features, int):
        if node.op != "MatMulBnb4" or node.args.get("transB", 1) or a.known_shape[-1] != outputs:
            raise node.error(f"multiplies rows of {a.known_shape[-1]} by a weight of {features} inputs")
        outputs = features
    return Inferred([node.result((*a.known_shape[:-1], outputs), a.dtype)], PackedWeights((weight,)))


def packed_gather(node: Node) -> Inferred:
    """Infer rows of a matrix stored in blocks, in the dtype of their scales."""
    data, indices = node.value("data"), node.value("indices")
    axis = node.axis(len(data.known_shape), "gather_axis") or 0
    shape = data.known_shape
    if data.dtype == "uint8" and (bits := width(node, "bits")) < 8:
        shape = (*shape[:-1], shape[-1] * (8 // bits))
        data = packed(node, "data", shape, f"uint{bits}")
    rows = node.result((*shape[:axis], *indices.known_shape, *shape[axis + 1 :]), node.value("scales").dtype)
    return Inferred([rows], PackedWeights((data,)))


def packed_layers(node: Node) -> Inferred:
    """Infer projections by packed weights (one output for gate and up projection), and the normalized sum."""
    a, features = node.value("A"), positive(node, "K")
    names = {"gate": "N", "up": "N"} if node.op == "MatMulNBitsMlp" else {"q": "Nq", "k": "Nkv", "v": "Nkv"}
    if isinstance(a.known_shape[-1], int) and a.known_shape[-1] != features:
        raise node.error(f"multiplies rows of {a.known_shape[-1]} by weights of {features} inputs")
    weights = tuple(
        packed(node, f"{name}_B", (positive(node, outputs), features), f"uint{width(node, 'bits')}")
        for name, outputs in names.items()
    )
    sizes = [node.args["N"]] if "gate" in names else [node.args[n] for n in names.values()]
    projections = [node.result((*a.known_shape[:-1], size), a.dtype) for size in sizes]
    return Inferred([*projections, node.result(a.known_shape, a.dtype)], PackedWeights(weights))


def zero_point(a: Arguments) -> Any:
    """Return the implicit zero point of packed weights, in the middle of their range; None if one is given.

    An embedding table that is not packed into ``uint8`` has none.
    """
    if a.get("zero_points") is not None or ("data" in a and a["data"].dtype != "uint8"):
        return None
    return 1 << (width(node_of(a), "bits") - 1)


def packed_linear(scale: str, zero: Any = None) -> Row:
    """Return the row of a product by packed weights, with scales from the input of that name."""
    return row(
        "packed_linear",
        {
            "x": "A",
            "w": packed_weight(0),
            "b": "bias",
            "w_scale": first_given(scale),
            "w_zero_point": "zero_points",
            "order": "g_idx",
        },
        {} if zero is None else {"zero_point": zero},
    )


def _packed_projections(*names: str) -> dict[str, Any]:
    found: dict[str, Any] = {"x": "A", "skip": "skip", "w": "norm_scale"}
    for i, name in enumerate(names):
        found |= {f"w{i}": packed_weight(i), f"w{i}_scale": f"{name}_scales", f"b{i}": f"{name}_bias"}
    return found


PACKED_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "MatMulNBits",
        "A B scales zero_points g_idx bias",
        required=3,
        attributes="K N bits block_size",
        infer=packed_matmul,
        rows=[packed_linear("scales", zero_point)],
    ),
    OperatorSpec(
        "MatMulBnb4",
        "A B absmax",
        required=3,
        attributes="K N block_size transB",
        infer=packed_matmul,
        rows=[packed_linear("absmax")],
    ),
    OperatorSpec(
        "MatMulFpQ4",
        "A B B_shape",
        required=3,
        infer=packed_matmul,
        rows=[packed_linear("absmax", lambda a: "stored" if a.get("blk_quant_type", 1) == 1 else None)],
    ),
    OperatorSpec(
        "MatMulBlockQuantizedFp4Weight",
        "A B weight_scale weight_scale_2 input_scale bias",
        required=4,
        attributes="block_size",
        infer=packed_matmul,
        rows=[packed_linear("weight_scale")],
    ),
    OperatorSpec(
        "MatMulBlockQuantizedFp8Weight",
        "A B b_scale a_scale bias",
        required=3,
        attributes="block_size",
        infer=packed_matmul,
        rows=[packed_linear("b_scale")],
    ),
    OperatorSpec(
        "GatherBlockQuantized",
        "data indices scales zero_points",
        required=3,
        attributes="bits block_size quantize_axis gather_axis",
        infer=packed_gather,
        rows=[
            row(
                "packed_embedding",
                {"x": "indices", "w": packed_weight(0), "w_scale": "scales", "w_zero_point": "zero_points"},
                {"zero_point": zero_point},
            )
        ],
    ),
    OperatorSpec(
        "MatMulNBitsMlp",
        "A skip norm_scale gate_B gate_scales gate_bias up_B up_scales up_bias",
        attributes="K N bits block_size",
        infer=packed_layers,
        rows=[
            row(
                "packed_projections",
                _packed_projections("gate", "up"),
                {"activation": lambda a: FUSED.get(str(a["activation"]), a["activation"]), "zero_point": zero_point},
                when=lambda a: str(a.get("activation")) in {*FUSED, *FUSED.values()},
            )
        ],
    ),
    OperatorSpec(
        "MatMulNBitsQkv",
        "A skip norm_scale q_B q_scales q_bias k_B k_scales k_bias v_B v_scales v_bias",
        attributes="K bits block_size",
        infer=packed_layers,
        rows=[row("packed_projections", _packed_projections("q", "k", "v"), {"zero_point": zero_point})],
    ),
)


# Quantized matrix products and convolutions.


def quantized_gemm(node: Node) -> Sequence[Value]:
    """Infer a product of quantized matrices, quantized if the output has a scale."""
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else node.value("a_scale").dtype
    return [node.result(product(node, transposed(node, "A"), transposed(node, "B")), dtype)]


def dynamic_matmul(node: Node) -> Sequence[Value]:
    """Infer a product of floats by quantized weights."""
    a = node.value("A")
    return [node.result(product(node, a.known_shape, node.value("B").known_shape), a.dtype)]


def quantized_conv_transpose(node: Node) -> Inferred:
    """Infer a transposed convolution of integers."""
    x, w, zero = node.value("x"), node.value("w"), node.value("y_zero_point")
    node.args |= {"X": x, "W": w}
    found = conv_transpose(node)
    return Inferred([node.result(found.outputs[0].shape, zero.dtype)], found.facts)


def output_scale(scale: str, zero: str) -> dict[str, str]:
    """Return the scale and zero point of the output."""
    return {"y_scale": scale, "y_zero_point": zero}


SCALES = {name: name for name in ("x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point")}
"""Scales and zero points of input, weight and output, with the same names in the operators and in costcore."""

PRODUCT_SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "QLinearConv",
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
        required=8,
        attributes="group channels_last",
        infer=conv,
        rows=[
            row(
                "quantized_conv",
                {
                    "x": channel_view("x"),
                    "w": weight_view("w"),
                    "b": "B",
                    **SCALES,
                },
                CONVOLUTION,
            )
        ],
    ),
    OperatorSpec(
        "QGemm",
        "A a_scale a_zero_point B b_scale b_zero_point C y_scale y_zero_point",
        required=6,
        attributes="transA transB",
        infer=quantized_gemm,
        rows=[
            row(
                "quantized_matmul",
                {
                    **MATRICES,
                    "b": "C",
                    "x0_scale": "a_scale",
                    "x0_zero_point": "a_zero_point",
                    "x1_scale": "b_scale",
                    "x1_zero_point": "b_zero_point",
                    **output_scale("y_scale", "y_zero_point"),
                },
                SWAPPED,
            )
        ],
    ),
    OperatorSpec(
        "MatMulIntegerToFloat",
        "A B a_scale b_scale a_zero_point b_zero_point bias",
        required=4,
        infer=matmul,
        rows=[
            row(
                "quantized_matmul",
                {
                    "x0": "A",
                    "x1": "B",
                    "b": "bias",
                    "x0_scale": "a_scale",
                    "x0_zero_point": "a_zero_point",
                    "x1_scale": "b_scale",
                    "x1_zero_point": "b_zero_point",
                },
            )
        ],
    ),
    OperatorSpec(
        "DynamicQuantizeMatMul",
        "A B b_scale b_zero_point bias",
        required=3,
        infer=dynamic_matmul,
        rows=[
            row(
                "dynamic_quantized_matmul",
                {"x0": "A", "x1": "B", "b": "bias", "x1_scale": "b_scale", "x1_zero_point": "b_zero_point"},
            )
        ],
    ),
    OperatorSpec(
        "QOrderedMatMul",
        "A scale_A B scale_B scale_Y bias C scale_C",
        required=5,
        infer=matmul,
        rows=[
            row(
                "quantized_matmul",
                {
                    "x0": "A",
                    "x1": "B",
                    "b": first_given("bias", "C"),
                    "x0_scale": "scale_A",
                    "x1_scale": "scale_B",
                    "y_scale": "scale_Y",
                },
                when=lambda a: a.get("bias") is None or a.get("C") is None,
            )
        ],
    ),
    channels_last_spec(
        "QLinearConv",
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
        QUANTIZATION_RULES,
        QUANTIZATION_ROWS,
        required=8,
        attributes="group",
    ),
    OperatorSpec(
        "QLinearConvTranspose",
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B",
        required=8,
        attributes="group",
        infer=rule_with_channels_last(quantized_conv_transpose),
        rows=[row("quantized_conv_transpose", {"x": "x", "w": "w", "b": "B", **SCALES}, CONVOLUTION)],
        domain=NHWC,
    ),
)


# Quantized element-wise operators, reductions, pooling and norms.


def concat(node: Node) -> Sequence[Value]:
    """Infer the concatenation of quantized inputs, each with its scale and zero point."""
    given = node.values("inputs")[::3]
    axis = node.axis(len(given[0].known_shape), "axis") or 0
    shape = list(given[0].known_shape)
    shape[axis] = sum(value.known_shape[axis] for value in given)
    return [node.result(shape, given[0].dtype)]


def where(node: Node) -> Sequence[Value]:
    """Infer the broadcast of condition and both inputs."""
    values = [node.value(name) for name in ("condition", "X", "Y")]
    return [node.result(broadcast(node, *(value.known_shape for value in values)), values[1].dtype)]


def quantized_embedding(node: Node) -> Sequence[Value]:
    """Infer the norm of the embeddings, and the position of the first masked word."""
    ids, table = node.value("input_ids"), node.value("word_embedding_quant")
    return [
        node.result((*ids.known_shape, table.known_shape[-1]), node.value("gamma_scale").dtype),
        node.result((ids.known_shape[0],), "int32"),
    ]


def _with_scale(canonical: str, native: str, scale: str, zero: str) -> dict[str, str]:
    return {canonical: native, f"{canonical}_scale": scale, f"{canonical}_zero_point": zero}


def _every_third(part: int) -> Any:
    # The inputs of a quantized concatenation are operands, scales and zero points in turn.
    return lambda a: a["inputs"][part::3]


def _softmax_axes(a: Arguments) -> Any:
    # Before opset 13, softmax is over all axes from the given one on.
    rank = len(a["X"].known_shape)
    found = a.get("axis", -1) % rank
    return found if a.get("opset", 13) >= 13 else tuple(range(found, rank))


UNARY_SCALES = _with_scale("x", "X", "X_scale", "X_zero_point")
"""The input of element-wise operators, with its scale and zero point."""

POOLED_SCALES = _with_scale("x", "X", "x_scale", "x_zero_point")
"""The input of pooling, with its scale and zero point."""


def _scale_of_table(i: int, name: str) -> dict[str, str]:
    return {f"w{i}_scale": f"{name}_embedding_scale", f"w{i}_zero_point": f"{name}_embedding_zero_point"}


AVERAGE_POOL = row(
    "quantized_avg_pool",
    {**POOLED_SCALES, "x": channel_view("X"), **output_scale("y_scale", "y_zero_point")},
    {**SPATIAL, "ceil_mode": flag("ceil_mode")},
)

OTHER_SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            name,
            "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point",
            required=2,
            infer=broadcast_of("A", "B"),
            rows=[
                row(
                    op,
                    {
                        **_with_scale("x0", "A", "A_scale", "A_zero_point"),
                        **_with_scale("x1", "B", "B_scale", "B_zero_point"),
                        **output_scale("C_scale", "C_zero_point"),
                    },
                )
            ],
        )
        for name, op in (("QLinearAdd", "quantized_add"), ("QLinearMul", "quantized_mul"))
    ),
    *(
        OperatorSpec(
            name,
            "X X_scale X_zero_point Y_scale Y_zero_point",
            required=2,
            infer=like("X"),
            rows=[row(op, {**UNARY_SCALES, **output_scale("Y_scale", "Y_zero_point")}, attributes)],
        )
        for name, op, attributes in (
            ("QLinearSigmoid", "quantized_sigmoid", {}),
            ("QLinearLeakyRelu", "quantized_leaky_relu", {"slope": "alpha"}),
        )
    ),
    OperatorSpec(
        "QLinearSoftmax",
        "X X_scale x_zero_point y_scale y_zero_point",
        required=2,
        attributes="axis opset",
        infer=like("X"),
        rows=[
            row(
                "quantized_softmax",
                {**_with_scale("x", "X", "X_scale", "x_zero_point"), **output_scale("y_scale", "y_zero_point")},
                {"axis": _softmax_axes},
            )
        ],
    ),
    *(
        OperatorSpec(
            "QLinearAveragePool",
            "X x_scale x_zero_point y_scale y_zero_point",
            required=2,
            attributes="channels_last ceil_mode",
            infer=infer,
            rows=[average],
            domain=domain,
        )
        for infer, average, domain in (
            (pool, AVERAGE_POOL, MICROSOFT),
            (rule_with_channels_last(pool), replace(AVERAGE_POOL, when=has_no_activation), NHWC),
        )
    ),
    OperatorSpec(
        "QLinearGlobalAveragePool",
        "X x_scale x_zero_point y_scale y_zero_point",
        required=5,
        attributes="channels_last",
        infer=global_pool,
        rows=[AVERAGE_POOL],
    ),
    OperatorSpec(
        "QLinearReduceMean",
        "data data_scale data_zero_point reduced_scale reduced_zero_point",
        required=2,
        attributes="keepdims",
        infer=reduction,
        rows=[
            row(
                "quantized_reduce_mean",
                {
                    **_with_scale("x", "data", "data_scale", "data_zero_point"),
                    **output_scale("reduced_scale", "reduced_zero_point"),
                },
                {"axis": determined(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
            )
        ],
    ),
    OperatorSpec(
        "QLinearConcat",
        "Y_scale Y_zero_point *inputs",
        required=2,
        attributes="axis",
        infer=concat,
        rows=[
            row(
                "quantized_concat",
                {
                    "x*": _every_third(0),
                    "x*_scale": _every_third(1),
                    "x*_zero_point": _every_third(2),
                    **output_scale("Y_scale", "Y_zero_point"),
                },
                {"axis": determined(lambda n: n.axis(len(n.values("inputs")[0].known_shape), "axis"))},
            )
        ],
    ),
    OperatorSpec(
        "QLinearWhere",
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point",
        required=9,
        infer=where,
        rows=[
            row(
                "quantized_where",
                {
                    "condition": "condition",
                    **_with_scale("x0", "X", "x_scale", "x_zero_point"),
                    **_with_scale("x1", "Y", "y_scale", "y_zero_point"),
                    **output_scale("z_scale", "z_zero_point"),
                },
            )
        ],
    ),
    OperatorSpec(
        "QOrderedGelu",
        "X scale_X scale_Y",
        required=3,
        infer=like("X"),
        rows=[row("quantized_gelu", {"x": "X", "x_scale": "scale_X", "y_scale": "scale_Y"})],
    ),
    OperatorSpec(
        "QOrderedLayerNormalization",
        "X scale_X scale B scale_Y",
        required=3,
        attributes="axis",
        infer=like("X"),
        rows=[
            row(
                "quantized_layer_norm",
                {"x": "X", "x_scale": "scale_X", "w": "scale", "b": "B", "y_scale": "scale_Y"},
                {
                    "axis": axes_from("X", -1),
                    "eps": "epsilon",
                },
            )
        ],
    ),
    OperatorSpec(
        "QEmbedLayerNormalization",
        "input_ids segment_ids word_embedding_quant position_embedding_quant segment_embedding "
        "gamma_quant beta_quant mask word_embedding_scale position_embedding_scale "
        "segment_embedding_scale gamma_scale beta_scale word_embedding_zero_point "
        "position_embedding_zero_point segment_embedding_zero_point gamma_zero_point "
        "beta_zero_point",
        infer=quantized_embedding,
        rows=[
            row(
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
                    **_scale_of_table(0, "word"),
                    **_scale_of_table(1, "position"),
                    **_scale_of_table(2, "segment"),
                    "w_scale": "gamma_scale",
                    "w_zero_point": "gamma_zero_point",
                    "b_scale": "beta_scale",
                    "b_zero_point": "beta_zero_point",
                },
                {"eps": "epsilon"},
            )
        ],
    ),
)


# QONNX, exported by Brevitas and read by FINN and hls4ml: quantization to any number of bits.
#
# Source: fastmachinelearning/qonnx 1.0, docs/qonnx-custom-ops; all of them compute in floating point.


SCALED = {"x": "X", "scale": "scale", "zero_point": "zeropt"}


def _is_affine(a: Arguments) -> Any:
    # None if the number of thresholds is the output, neither scaled nor shifted.
    return True if a.get("out_scale", 1.0) != 1.0 or a.get("out_bias", 0.0) != 0.0 else None


def _qonnx_specs(domain: str) -> tuple[OperatorSpec, ...]:
    return (
        *(
            OperatorSpec(
                name,
                "X scale zeropt bitwidth",
                required=4,
                attributes="signed narrow",
                infer=like("X"),
                rows=[row("fake_quantize", SCALED, {"bits": number("bitwidth")})],
                domain=domain,
            )
            for name in ("Quant", "IntQuant")
        ),
        OperatorSpec(
            "BipolarQuant",
            "X scale",
            required=2,
            infer=like("X"),
            rows=[row("bipolar_quantize", {"x": "X", "scale": "scale"})],
            domain=domain,
        ),
        OperatorSpec(
            "Trunc",
            "X scale zeropt in_bitwidth out_scale out_bitwidth",  # version 1 has no out_scale
            required=5,
            attributes="signed narrow",
            infer=like("X"),
            rows=[
                row(
                    "truncate_bits",
                    SCALED,
                    {"limited": lambda a: True if a.get("out_bitwidth") is not None else None},
                )
            ],
            domain=domain,
        ),
        OperatorSpec(
            "FloatQuant",
            "X scale exponent_bitwidth mantissa_bitwidth exponent_bias max_val",
            required=2,
            attributes="has_inf has_nan has_subnormal saturation",
            infer=like("X"),
            rows=[
                row(
                    "float_quantize",
                    {"x": "X", "scale": "scale"},
                    {"exponent": number("exponent_bitwidth"), "mantissa": number("mantissa_bitwidth")},
                )
            ],
            domain=domain,
        ),
        OperatorSpec(
            "MultiThreshold",
            "X thresholds",
            required=2,
            infer=like("X"),
            rows=[row("multi_threshold", {"x": "X", "w": "thresholds"}, {"affine": _is_affine})],
            domain=domain,
        ),
    )


QONNX_SPECS: tuple[OperatorSpec, ...] = tuple(spec for domain in QONNX for spec in _qonnx_specs(domain))


SPECS: tuple[OperatorSpec, ...] = (*CONVERSION_SPECS, *PACKED_SPECS, *PRODUCT_SPECS, *OTHER_SPECS, *QONNX_SPECS)
