"""Products and lookups by weights that ONNX Runtime stores in a few bits per element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from costcore.ir import prod
from costcore.translate import Arguments, Row

from ...graph.node import Inferred, Node
from ...rows.arguments import fact, first_given, node_of
from ...shapes.rules import positive
from ...values.value import Shape, Undetermined, Value
from ..activation import FUSED
from ..spec import OperatorSpec, row


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """Unpacked views of the packed weights, in the order of the inputs; None for an omitted one."""

    weights: tuple[Value | None, ...]


def packed_weight(i: int) -> Any:
    """Return a source for the packed weight at that position, as the shape rule unpacked it."""
    return fact(PackedWeights, lambda f: f.weights[i])


def packed(node: Node, name: str, shape: Shape, dtype: str) -> Value:
    """Return a view of a packed weight as the weight itself, whose elements count at their own bit width."""
    value = node.value(name)
    if value.stored is not None and all(isinstance(d, int) for d in shape):
        value.stored.size, value.stored.dtype = prod(shape), dtype
    view = value.viewed(shape)
    view.dtype = dtype
    return view


def width(node: Node, *names: str) -> int:
    """Return the bit width of packed weights, from the first of these attributes that is given; else 4."""
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
    """Infer projections by packed weights, the gated ones as one output, and the normalized sum."""
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

    Tables of a dtype of their own have none.
    """
    if a.get("zero_points") is not None or ("data" in a and a["data"].dtype != "uint8"):
        return None
    return 1 << (width(node_of(a), "bits") - 1)


def packed_linear(scale: str, zero: Any = None) -> Row:
    """Return the row of a product by packed weights, whose scales are the input of that name."""
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


def _projections(*names: str) -> dict[str, Any]:
    """Return the operands of several projections: packed weights, scales and biases, and the norm before them."""
    found: dict[str, Any] = {"x": "A", "skip": "skip", "w": "norm_scale"}
    for i, name in enumerate(names):
        found |= {f"w{i}": packed_weight(i), f"w{i}_scale": f"{name}_scales", f"b{i}": f"{name}_bias"}
    return found


SPECS: tuple[OperatorSpec, ...] = (
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
                _projections("gate", "up"),
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
        rows=[row("packed_projections", _projections("q", "k", "v"), {"zero_point": zero_point})],
    ),
)
