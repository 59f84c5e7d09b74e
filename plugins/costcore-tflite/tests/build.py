"""Makes .tflite files of a few operators, so that costs can be worked out by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import flatbuffers
import tflite

FOLDER = TemporaryDirectory()
NUMBERS = count()
TYPES = {"float32": "FLOAT32", "float16": "FLOAT16", "int8": "INT8", "int16": "INT16", "int32": "INT32", "bool": "BOOL"}


class T(NamedTuple):
    """A tensor: its shape (None for an open axis), and whether the file stores it (``data``: its int32 values)."""

    shape: Sequence[int | None]
    dtype: str = "float32"
    stored: bool = False
    data: Sequence[int] | None = None
    scales: int = 0
    zero_point: int = 0
    name: str = ""


class Op(NamedTuple):
    """An operator: its name, indices of operands and results, the kind of its options and these, custom ones."""

    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    kind: str = ""
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    custom: bytes = b""


class G(NamedTuple):
    """A graph."""

    tensors: Sequence[T]
    operators: Sequence[Op]
    inputs: Sequence[int]
    outputs: Sequence[int]


def vector(builder: Any, items: Sequence[int], start: Any, add: str) -> int:
    start(builder, len(items))
    for item in reversed(items):
        getattr(builder, add)(item)
    return builder.EndVector()


def table(builder: Any, kind: str, **fields: Any) -> int:
    getattr(tflite, f"{kind}Start")(builder)
    for name, value in fields.items():
        if value is not None:
            getattr(tflite, f"{kind}Add{name}")(builder, value)
    return getattr(tflite, f"{kind}End")(builder)


def model(*graphs: G) -> str:
    """Write the file of some graphs, the first of which is the model, and return its path.

    The file lies in a folder that is removed when the process ends.
    """
    path = Path(FOLDER.name, f"{next(NUMBERS)}.tflite")
    path.write_bytes(content_of(graphs))
    return str(path)


def content_of(graphs: Sequence[G]) -> bytes:
    builder = flatbuffers.Builder(1024)
    buffers = [table(builder, "Buffer")]
    names = sorted({operator.name for graph in graphs for operator in graph.operators})
    codes = [_code(builder, name) for name in names]
    subgraphs = [_graph(builder, graph, names, buffers) for graph in graphs]
    lists = {
        "OperatorCodes": vector(builder, codes, tflite.ModelStartOperatorCodesVector, "PrependUOffsetTRelative"),
        "Subgraphs": vector(builder, subgraphs, tflite.ModelStartSubgraphsVector, "PrependUOffsetTRelative"),
        "Buffers": vector(builder, buffers, tflite.ModelStartBuffersVector, "PrependUOffsetTRelative"),
    }
    builder.Finish(table(builder, "Model", Version=3, **lists), b"TFL3")
    return bytes(builder.Output())


def _code(builder: Any, name: str) -> int:
    number = getattr(tflite.BuiltinOperator, name, None)
    if number is None:
        custom = builder.CreateString(name)
        number = tflite.BuiltinOperator.CUSTOM
        return table(builder, "OperatorCode", BuiltinCode=number, DeprecatedBuiltinCode=number, CustomCode=custom)
    return table(builder, "OperatorCode", BuiltinCode=number, DeprecatedBuiltinCode=min(number, 127))


def _graph(builder: Any, graph: G, names: list[str], buffers: list[int]) -> int:
    tensors = [_tensor(builder, i, tensor, buffers) for i, tensor in enumerate(graph.tensors)]
    operators = [_operator(builder, operator, names) for operator in graph.operators]
    lists = {
        "Tensors": vector(builder, tensors, tflite.SubGraphStartTensorsVector, "PrependUOffsetTRelative"),
        "Operators": vector(builder, operators, tflite.SubGraphStartOperatorsVector, "PrependUOffsetTRelative"),
        "Inputs": vector(builder, graph.inputs, tflite.SubGraphStartInputsVector, "PrependInt32"),
        "Outputs": vector(builder, graph.outputs, tflite.SubGraphStartOutputsVector, "PrependInt32"),
    }
    return table(builder, "SubGraph", **lists)


def _tensor(builder: Any, index: int, tensor: T, buffers: list[int]) -> int:
    buffer, quantization = 0, None
    if tensor.stored or tensor.data is not None:
        content = b"\1" if tensor.data is None else struct.pack(f"<{len(tensor.data)}i", *tensor.data)
        data = builder.CreateByteVector(content)
        buffers.append(table(builder, "Buffer", Data=data))
        buffer = len(buffers) - 1
    if tensor.scales:
        parameters = tflite.QuantizationParametersStartScaleVector
        scale = vector(builder, [0.5] * tensor.scales, parameters, "PrependFloat32")
        points = tflite.QuantizationParametersStartZeroPointVector
        zero = vector(builder, [tensor.zero_point] * tensor.scales, points, "PrependInt64")
        quantization = table(builder, "QuantizationParameters", Scale=scale, ZeroPoint=zero)
    name = builder.CreateString(tensor.name or f"t{index}")
    shape = [1 if size is None else size for size in tensor.shape]
    signature = [-1 if size is None else size for size in tensor.shape]
    lists = {
        "Shape": vector(builder, shape, tflite.TensorStartShapeVector, "PrependInt32"),
        "ShapeSignature": vector(builder, signature, tflite.TensorStartShapeSignatureVector, "PrependInt32"),
    }
    kind = getattr(tflite.TensorType, TYPES[tensor.dtype])
    return table(builder, "Tensor", Type=kind, Buffer=buffer, Name=name, Quantization=quantization, **lists)


def _operator(builder: Any, operator: Op, names: list[str]) -> int:
    lists = {
        "Inputs": vector(builder, operator.inputs, tflite.OperatorStartInputsVector, "PrependInt32"),
        "Outputs": vector(builder, operator.outputs, tflite.OperatorStartOutputsVector, "PrependInt32"),
    }
    settings = {"CustomOptions": builder.CreateByteVector(bytes(operator.custom))} if operator.custom else {}
    if operator.kind:
        side = "BuiltinOptions" if hasattr(tflite.BuiltinOptions, operator.kind) else "BuiltinOptions2"
        kind = getattr(getattr(tflite, side), operator.kind)
        adds = {"Boundaries": "Float32", "NewShape": "Int32", "SqueezeDims": "Int32"}
        options = {
            name: vector(
                *(builder, value, getattr(tflite, f"{operator.kind}Start{name}Vector")),
                f"Prepend{adds.get(name, 'Int64')}",
            )
            if isinstance(value, tuple)
            else value
            for name, value in operator.options.items()
        }
        settings = {f"{side}Type": kind, side: table(builder, operator.kind, **options)}
    return table(builder, "Operator", OpcodeIndex=names.index(operator.name), **lists, **settings)
