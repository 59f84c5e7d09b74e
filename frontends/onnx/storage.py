"""The tensors that a graph holds: their values, what the exporter says of them, and whether they are complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from onnx import TensorProto

from costcore.errors import CostError
from costcore.ir import BITS

from .values import Value, stored_value
from .wire import SMALL

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
"""Metadata in which PyTorch's exporter says whether a tensor is a parameter or a buffer of a module."""


def stored_values(graph: Any, note: Callable[[str], None]) -> Iterator[tuple[str, Value]]:
    """The initializers of a graph by name, sparse ones under their dense shape.

    Args:
        graph: the ``GraphProto``.
        note: takes the remark that the stored bytes are not those the shape needs.

    Raises:
        CostError: for two of one name, a negative dimension or an unknown element type.
    """
    names = Counter(
        tensor.name for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    )
    for name, count in names.most_common(1):
        if count > 1:
            raise CostError(f"initializer {name!r} is there {count} times")
    buffers = {
        entry.name
        for entry in graph.value_info
        if any(data.key == KIND and data.value != "PARAMETER" for data in entry.metadata_props)
    }
    for tensor in graph.initializer:
        value = stored_value(tensor, tensor.name, f"initializer {tensor.name!r}")
        _check(tensor, value, note)
        yield tensor.name, _as_buffer(value) if tensor.name in buffers else value
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        yield name, stored_value(sparse.values, name, f"initializer {name!r}").viewed(tuple(sparse.dims))


def _as_buffer(value: Value) -> Value:
    """The value of a tensor that is not learned, whatever its type."""
    if value.stored is not None:
        value.stored.is_buffer = True
    return replace(value, role="const")


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
}
"""Operators on quantised tensors: the inputs that are learned where they are stored, and the scales and zero points."""


def in_their_roles(op: str, inputs: Sequence[Value | None]) -> list[Value | None]:
    """The inputs of a quantised operator: stored integers may be learned, and stored scales are settings."""
    learned, settings = QUANTIZED[op]

    def placed(i: int, value: Value | None) -> Value | None:
        if value is None or value.stored is None or value.stored.is_buffer:
            return value
        if i in learned and value.shape:
            return replace(value, role="param")
        return replace(value, role="const") if i in settings else value

    return [placed(i, value) for i, value in enumerate(inputs)]
