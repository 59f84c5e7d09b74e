"""What a .tflite file holds, as plain data. The weights are never read: their sizes follow from shapes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import tflite
from flatbuffers import flexbuffers

from costcore.errors import CostError
from costcore.files import open_file
from costcore.graphs.graph import damaged

from .content import content_without_weights

IDENTIFIER = b"TFL3"
"""What every file has at its bytes 4 to 7."""

MOST_OBJECTS = 1_000_000
"""The most tensors, operators and operands that are read: offsets of a damaged file may repeat one of them forever."""

MOST_VALUES = 1024
"""The most elements of a constant whose values are read: axes, shapes and paddings have a few."""

MOST_AXES = 64

MOST_RAW = 16
"""The most integers that are read of options in a format of their own."""

DTYPES: Mapping[int, str] = {
    tflite.TensorType.FLOAT32: "float32",
    tflite.TensorType.FLOAT16: "float16",
    tflite.TensorType.BFLOAT16: "bfloat16",
    tflite.TensorType.FLOAT64: "float64",
    tflite.TensorType.INT4: "int4",
    tflite.TensorType.INT8: "int8",
    tflite.TensorType.INT16: "int16",
    tflite.TensorType.INT32: "int32",
    tflite.TensorType.INT64: "int64",
    tflite.TensorType.UINT8: "uint8",
    tflite.TensorType.UINT16: "uint16",
    tflite.TensorType.UINT32: "uint32",
    tflite.TensorType.UINT64: "uint64",
    tflite.TensorType.BOOL: "bool",
    tflite.TensorType.COMPLEX64: "complex64",
    tflite.TensorType.COMPLEX128: "complex128",
    tflite.TensorType.STRING: "string",
    tflite.TensorType.RESOURCE: "string",
    tflite.TensorType.VARIANT: "string",
}
"""Names of the types of elements. Handles of resources have no size that a shape determines, like strings."""


def _names(enumeration: type) -> dict[int, str]:
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}


OPERATORS = _names(tflite.BuiltinOperator)
"""Names of the builtin operators by number."""

_OPTIONS = _names(tflite.BuiltinOptions)
_OPTIONS_2 = _names(getattr(tflite, "BuiltinOptions2", object))


class TensorInfo(NamedTuple):
    """A tensor of a file.

    Attributes:
        name: its name.
        shape: the size of each axis, for a batch of one.
        open_axes: the axes whose size the file leaves open.
        dtype: the type of its elements.
        is_stored: whether the file has its values.
        data: its values if it is a small constant of integers; None for any other.
        scales: number of scales: 0 if it is not quantized, 1, or one per channel.
        has_zero_point: whether zero stands for another number than 0.
        is_variable: whether it keeps its value from one run to the next.
        is_sparse: whether only its non-zero elements are stored.
    """

    name: str
    shape: tuple[int, ...]
    open_axes: tuple[int, ...]
    dtype: str
    is_stored: bool
    data: tuple[int, ...] | None
    scales: int
    has_zero_point: bool
    is_variable: bool
    is_sparse: bool


class OperatorInfo(NamedTuple):
    """An operator of a file.

    Attributes:
        name: its name, ``CONV_2D``; that of a custom operator is its own.
        is_custom: whether it is a custom operator.
        inputs: indices of its operands, -1 for an absent one.
        outputs: indices of its results.
        options: its options by their names in the schema.
    """

    name: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]


class Graph(NamedTuple):
    """A graph of a file: tensors, and operators in the order in which they run."""

    name: str
    tensors: Sequence[TensorInfo]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: Sequence[OperatorInfo]


class Model(NamedTuple):
    """A file: its graphs, the first of which is the model, its version of the schema, and its bytes."""

    graphs: Sequence[Graph]
    version: int
    nbytes: int = 0


def read_model(path: str) -> Model:
    """Return what a file holds.

    Raises:
        CostError: if it has another format, or is damaged.
        OSError: if it cannot be read.
    """
    with open_file(path) as file, damaged(AttributeError, LookupError, TypeError):
        content = content_without_weights(file, path)
        if content[4:8] != IDENTIFIER:
            raise CostError("not a TensorFlow Lite model: it does not have TFL3 at its fifth byte")
        model = tflite.Model.GetRootAs(content, 0)
        reader = _Reader(model, len(content))
        graphs = [reader.graph(model.Subgraphs(i)) for i in reader.counted(model.SubgraphsLength())]
        if not graphs:
            raise ValueError("it has no graph")
        return Model(graphs, model.Version(), len(content))


class _Reader:
    """Reads the objects of a file, a limited number of them."""

    def __init__(self, model: Any, size: int) -> None:
        self._model = model
        self._left = min(MOST_OBJECTS, 4 * size)
        self._codes = [self._code(model.OperatorCodes(i)) for i in self.counted(model.OperatorCodesLength())]

    def counted(self, length: int) -> range:
        """Return the indices of a list, after its length was deducted from what may still be read."""
        self._left -= max(length, 0) + 1
        if self._left < 0:
            raise ValueError(f"it has more objects than a file of its size can hold, or more than {MOST_OBJECTS:,}")
        return range(length)

    def graph(self, graph: Any) -> Graph:
        """Return a graph."""
        tensors = [self._tensor(graph.Tensors(i)) for i in self.counted(graph.TensorsLength())]
        operators = [self._operator(graph.Operators(i), len(tensors)) for i in self.counted(graph.OperatorsLength())]
        inputs, outputs = (self._indices(graph, side, len(tensors), 0) for side in ("Inputs", "Outputs"))
        return Graph(_text(graph.Name()), tensors, inputs, outputs, operators)

    def _code(self, code: Any) -> tuple[str, bool]:
        """Return the name of an operator, and whether it is custom; old files have small numbers in another field."""
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if number == tflite.BuiltinOperator.CUSTOM:
            return _text(code.CustomCode()) or "CUSTOM", True
        return OPERATORS.get(number, f"BUILTIN_{number}"), False

    def _operator(self, operator: Any, n_tensors: int) -> OperatorInfo:
        name, is_custom = self._codes[operator.OpcodeIndex()]
        inputs = self._indices(operator, "Inputs", n_tensors, -1)
        outputs = self._indices(operator, "Outputs", n_tensors, 0)
        options = _custom_options(operator, self.counted) if is_custom else self._options(operator)
        return OperatorInfo(name, is_custom, inputs, outputs, options)

    def _options(self, operator: Any) -> Mapping[str, Any]:
        """Return the options of a builtin operator by name; those of newer operators are in a second union."""
        for kinds, side in ((_OPTIONS, "BuiltinOptions"), (_OPTIONS_2, "BuiltinOptions2")):
            if not hasattr(operator, side):
                continue
            kind = getattr(tflite, kinds.get(getattr(operator, f"{side}Type")(), "NONE"), None)
            table = getattr(operator, side)()
            if kind is not None and table is not None:
                options = kind()
                options.Init(table.Bytes, table.Pos)
                return _plain(options, self.counted)
        return {}

    def _indices(self, owner: Any, side: str, n_tensors: int, least: int) -> tuple[int, ...]:
        """Return a list of indices of tensors.

        Raises:
            ValueError: if a tensor does not exist.
        """
        read = getattr(owner, side)
        found = tuple(read(i) for i in self.counted(getattr(owner, f"{side}Length")()))
        for index in found:
            if not least <= index < n_tensors:
                raise ValueError(f"an operator or a graph names tensor {index} of {n_tensors}")
        return found

    def _tensor(self, tensor: Any) -> TensorInfo:
        rank = tensor.ShapeLength()
        if rank > MOST_AXES:
            raise ValueError(f"a tensor has {rank} axes")
        sizes = [tensor.Shape(i) for i in self.counted(rank)]
        signature = [tensor.ShapeSignature(i) for i in range(rank)] if tensor.ShapeSignatureLength() == rank else sizes
        if min((*sizes, *signature), default=0) < -1:
            raise ValueError(f"a tensor has the shape {sizes}")
        open_axes = tuple(i for i, pair in enumerate(zip(sizes, signature, strict=True)) if -1 in pair)
        shape = tuple(1 if size == -1 else size for size in sizes)
        dtype = DTYPES.get(tensor.Type())
        if dtype is None:
            raise ValueError(f"a tensor has the unknown type {tensor.Type()}")
        buffer = self._model.Buffers(tensor.Buffer()) if 0 < tensor.Buffer() < self._model.BuffersLength() else None
        is_stored = buffer is not None and (buffer.DataLength() > 0 or _offset(buffer) > 1)
        quantization = tensor.Quantization()
        scales = 0 if quantization is None else quantization.ScaleLength()
        zero_points = 0 if quantization is None else min(quantization.ZeroPointLength(), max(scales, 0))
        return TensorInfo(
            _text(tensor.Name()),
            shape,
            open_axes,
            dtype,
            is_stored,
            _values(buffer, dtype) if is_stored else None,
            scales,
            zero_points > 0 and bool(quantization.ZeroPointAsNumpy()[:zero_points].any()),
            bool(tensor.IsVariable()),
            tensor.Sparsity() is not None,
        )


def _offset(buffer: Any) -> int:
    """Return where large files store the data, after the part that the schema describes."""
    return int(buffer.Offset()) if hasattr(buffer, "Offset") else 0


def _values(buffer: Any, dtype: str) -> tuple[int, ...] | None:
    """Return the values of a small constant of 32- or 64-bit integers."""
    size = {"int32": 4, "int64": 8}.get(dtype)
    length = buffer.DataLength()
    if size is None or not 0 < length <= MOST_VALUES * size or length % size:
        return None
    return struct.unpack(f"<{length // size}{'i' if size == 4 else 'q'}", buffer.DataAsNumpy().tobytes())


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the numbers and of the lists among the options of one kind of operators."""
    methods = {name: each for name, each in vars(kind).items() if isinstance(each, FunctionType)}
    lists = {name.removesuffix("Length") for name in methods if name.endswith("Length")}
    others = {f"{name}{end}" for name in lists for end in ("AsNumpy", "IsNone", "Length")}
    numbers = (name for name, each in methods.items() if each.__code__.co_argcount == 1 and name not in others)
    return tuple(sorted(numbers)), tuple(sorted(lists))


def _plain(options: Any, counted: Callable[[int], range]) -> dict[str, Any]:
    """Return the options of an operator by their names in the schema, without nested tables."""
    kind: Any = type(options)
    numbers, lists = _fields(kind)
    found: dict[str, Any] = {name: getattr(options, name)() for name in numbers}
    for name in lists:
        read = getattr(options, name)
        found[name] = tuple(read(i) for i in counted(getattr(options, f"{name}Length")()))
    return found


def _custom_options(operator: Any, counted: Callable[[int], range]) -> dict[str, Any]:
    """Return the integers and truth values among the options of a custom operator."""
    if operator.CustomOptionsLength() == 0:
        return {}
    try:
        root = flexbuffers.GetRoot(bytearray(operator.CustomOptionsAsNumpy().tobytes()))
        if not root.IsMap:
            return _raw_options(operator)
        keys, values = root.AsMap.Keys, root.AsMap.Values
        pairs = ((keys[i].AsKey, values[i]) for i in counted(len(values)))
        return {str(key): int(value.AsInt) for key, value in pairs if value.IsInt or value.IsBool}
    except (struct.error, AssertionError, AttributeError, IndexError, TypeError, ValueError):
        return _raw_options(operator)


def _raw_options(operator: Any) -> dict[str, Any]:
    """Return the first integers of options that are a structure in C, under the name ``raw``."""
    content = operator.CustomOptionsAsNumpy().tobytes()[: 4 * MOST_RAW]
    return {"raw": struct.unpack(f"<{len(content) // 4}i", content[: len(content) // 4 * 4])}


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")
