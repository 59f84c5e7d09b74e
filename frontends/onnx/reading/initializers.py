"""The tensors that a graph holds: their values, what the exporter says of them, and whether they are complete."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from onnx import TensorProto

from costcore.errors import CostError
from costcore.ir import BITS

from ..values.value import FLOATS, Value, stored_value
from .protobuf_wire import SMALL

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
"""Metadata in which PyTorch's exporter says whether a tensor is a parameter or a buffer of a module."""


NAME = re.compile(r"[^\W\d]\w*(\.\w+)*")
"""The name of a tensor of a module, ``head.0.weight``; no exporter names what it computed like this."""


def stored_values(graph: Any, note: Callable[[str], None], has_names: bool = False) -> Iterator[tuple[str, Value]]:
    """The initializers of a graph by name, sparse ones under their dense shape.

    Args:
        graph: the ``GraphProto``.
        note: takes the remark that the stored bytes are not those the shape needs.
        has_names: whether the exporter names tensors of modules as the modules do.

    Raises:
        CostError: for two of one name, a negative dimension or an unknown element type.
    """
    names = Counter(
        tensor.name for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    )
    for name, count in names.most_common(1):
        if count > 1:
            raise CostError(f"initializer {name!r} is there {count} times")
    kinds = {entry.name: data.value for entry in graph.value_info for data in entry.metadata_props if data.key == KIND}
    has_names = has_names and not kinds
    for tensor in graph.initializer:
        value = stored_value(tensor, tensor.name, f"initializer {tensor.name!r}")
        _check(tensor, value, note)
        kind = kinds.get(tensor.name, "PARAMETER" if has_names and NAME.fullmatch(tensor.name) else "")
        yield tensor.name, _of_kind(value, kind)
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        yield name, stored_value(sparse.values, name, f"initializer {name!r}").viewed(tuple(sparse.dims))


def _of_kind(value: Value, kind: str) -> Value:
    """The value of a tensor of which the exporter says what it is to its module; of nothing where it is empty."""
    if not kind or value.stored is None:
        return value
    value.stored.is_learned = kind == "PARAMETER" and value.dtype in FLOATS
    value.stored.is_buffer = kind != "PARAMETER"
    return replace(value, role="param" if value.stored.is_learned else "const")


def _check(tensor: Any, value: Value, note: Callable[[str], None]) -> None:
    """Say so where a file has other bytes than the shape needs; no file is opened for it."""
    bits = BITS[value.dtype]
    needed = -(-value.size * bits // 8)
    if not bits or (needed > SMALL and tensor.data_location != TensorProto.EXTERNAL):
        return  # of larger ones the reader leaves the bytes out, and asking a message for them copies them
    if tensor.data_location == TensorProto.EXTERNAL:
        told = next((entry.value for entry in tensor.external_data if entry.key == "length"), str(needed))
        if told != str(needed):
            note(f"initializer {tensor.name!r} needs {needed} bytes, but its external data has length {told[:40]!r}")
    elif tensor.raw_data and len(tensor.raw_data) != needed:
        note(f"initializer {tensor.name!r} needs {needed} bytes, but the model holds {len(tensor.raw_data)} of it")


QUANTIZED = {
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
}
"""Operators on quantised tensors: the inputs that are learned where they are stored, beyond those that rows call weight
or bias, and the scales and zero points that rows call by other names than ``x_scale``."""

NARROW = frozenset(dtype for dtype, bits in BITS.items() if 0 < bits <= 8 and "int" in dtype)
"""Types of integers that stand for real numbers; wider ones are places, counts and sums."""


def in_their_roles(op: str, inputs: Sequence[Value | None]) -> list[Value | None]:
    """The inputs of a quantised operator: stored integers may be learned, and stored scales are settings."""
    learned, settings = QUANTIZED[op]

    def placed(i: int, value: Value | None) -> Value | None:
        if value is None or value.stored is None or value.stored.is_buffer:
            return value
        if i in learned and value.shape and (op != "Gather" or (len(value.shape) == 2 and value.dtype in NARROW)):
            return replace(value, role="param")
        return replace(value, role="const") if i in settings else value

    return [placed(i, value) for i, value in enumerate(inputs)]
