"""Roles of the inputs of quantized operators: integers may be learned, scales and zero points are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costcore.ir import BITS

from ..values.value import Value

QUANTIZED_INPUTS = {
    "QuantizeLinear": ((), (1, 2)),
    "DequantizeLinear": ((0,), (1, 2)),
    "QLinearConv": ((3, 8), (1, 2, 4, 5, 6, 7)),
    "QLinearMatMul": ((3,), (1, 2, 4, 5, 6, 7)),
    "ConvInteger": ((1,), (2, 3)),
    "MatMulInteger": ((1,), (2, 3)),
    "Gather": ((0,), ()),
    "QGemm": ((3, 6), ()),
    "QOrderedMatMul": ((2,), ()),
    "MatMulInteger16": ((1,), ()),
    "MatMulIntegerToFloat": ((1,), ()),
    "DynamicQuantizeMatMul": ((1,), ()),
    "MulInteger": ((0, 2), ()),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), ((0, 3), ())),
    "QLinearWhere": ((1, 4), ()),
    "DequantizeWithOrder": ((0,), (1,)),
    "DequantizeBFP": ((0,), ()),
    **dict.fromkeys(("Quant", "IntQuant"), ((), (1, 2, 3))),
    "BipolarQuant": ((), (1,)),
    **dict.fromkeys(("Trunc", "FloatQuant"), ((), (1, 2, 3, 4, 5))),
}
"""Positions of inputs of operators on quantized tensors: those that are learned if they are stored, besides those that
rows map to a weight or bias; and scales and zero points that rows map to other names than ``x_scale``."""

NARROW = frozenset(dtype for dtype, bits in BITS.items() if 0 < bits <= 8 and "int" in dtype)
"""Integer dtypes of quantized values; wider integers are indices, counts and sums."""


def with_quantized_roles(op: str, inputs: Sequence[Value | None]) -> list[Value | None]:
    """Return the inputs of a quantized operator: stored integers may be learned, stored scales are constants."""
    learned, constants = QUANTIZED_INPUTS[op]

    def with_role(i: int, value: Value | None) -> Value | None:
        if value is None or value.stored is None or value.stored.is_buffer:
            return value
        if i in learned and value.shape and (op != "Gather" or (len(value.shape) == 2 and value.dtype in NARROW)):
            return replace(value, role="param")
        return replace(value, role="const") if i in constants else value

    return [with_role(i, value) for i, value in enumerate(inputs)]
