"""Read the graphs of a .tflite file as plain data. Weights are never read: their sizes follow from shapes."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from types import FunctionType
from typing import IO, Any, NamedTuple

import tflite
from flatbuffers import flexbuffers

from costcore.errors import CostError
from costcore.files import FileBytes, content_of, open_file
from costcore.graphs.graph import damaged

IDENTIFIER = b"TFL3"
"""The bytes 4 to 7 of every file."""

MOST_OBJECTS = 1_000_000
"""The maximum number of tensors, operators and operands that are read; damaged files may repeat the same ones."""

MOST_VALUES = 1024
"""The maximum number of elements of a constant whose values are read: axes, shapes and paddings have a few."""

MOST_AXES = 64

MOST_RAW = 16
"""The maximum number of integers read from custom options that are a C structure."""

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
"""Dtypes by element type. Resources and variants count as strings: their shape does not determine their size."""


def _names(enumeration: type) -> dict[int, str]:
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}


INT32, UINT16, UINT32, UINT64 = (struct.Struct(f"<{kind}").unpack_from for kind in "iHIQ")
INTEGERS: Mapping[int, Callable[[Any, int], tuple[int, ...]]] = {
    count: struct.Struct(f"<{count}i").unpack_from for count in range(16)
}
"""Functions that read a number of integers; most lists have one of these lengths."""

MOST_FIELDS = 16
"""The maximum number of fields of a table; an operator has 14."""

MODEL_BUFFERS, BUFFER_DATA, GRAPH_TENSORS, GRAPH_OPERATORS = 4, 0, 0, 3
"""Field numbers of the schema."""

OPERATORS = _names(tflite.BuiltinOperator)
"""Names of the builtin operators by number."""


def _classes(enumeration: type) -> dict[int, Any]:
    """Return the classes of options by number; None for classes that the installed schema lacks."""
    return {number: getattr(tflite, name, None) for number, name in _names(enumeration).items()}


_OPTIONS = _classes(tflite.BuiltinOptions)
_OPTIONS_2 = _classes(getattr(tflite, "BuiltinOptions2", object))

INTEGER_BYTES = {"int32": 4, "int64": 8}
"""Bytes per element of the dtypes that store sizes and axes."""


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
        has_zero_point: whether any zero point is not 0.
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
    is_sparse: bool


class OperatorInfo(NamedTuple):
    """An operator of a file.

    Attributes:
        name: its name, ``CONV_2D``; a custom operator has its own name.
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


_new_tensor: Callable[..., TensorInfo] = tuple.__new__
_new_operator: Callable[..., OperatorInfo] = tuple.__new__
"""Create named tuples from all attributes in order, three times as fast as their constructors."""


class Graph(NamedTuple):
    """A graph of a file: tensors, and operators in the order in which they run."""

    name: str
    tensors: Sequence[TensorInfo]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: Sequence[OperatorInfo]


class Model(NamedTuple):
    """A file: its graphs (the first is the model), its schema version, and its size in bytes."""

    graphs: Sequence[Graph]
    version: int
    nbytes: int


def read_model(path: str) -> Model:
    """Return the content of a file.

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
    """Reads at most ``MOST_OBJECTS`` objects of a file."""

    def __init__(self, model: Any, size: int) -> None:
        self._content = model._tab.Bytes
        self._left = min(MOST_OBJECTS, 4 * size)
        self._known_offsets: dict[int, tuple[int, ...]] = {}
        self._known_options: dict[tuple[Any, int, bytes], Mapping[str, Any]] = {}
        self._codes = [self._code(model.OperatorCodes(i)) for i in self.counted(model.OperatorCodesLength())]
        self._buffers = self._tables(self._fields(model._tab.Pos)[MODEL_BUFFERS])

    def counted(self, length: int) -> range:
        """Return the indices of a list, and count its elements toward the limit of objects."""
        self._left -= max(length, 0) + 1
        if self._left < 0:
            raise ValueError(f"it has more objects than a file of its size can hold, or more than {MOST_OBJECTS:,}")
        return range(length)

    def graph(self, graph: Any) -> Graph:
        """Return a graph."""
        table = graph._tab
        tensors = [self._tensor(at) for at in self._tables(self._fields(table.Pos)[GRAPH_TENSORS])]
        places = self._tables(self._fields(table.Pos)[GRAPH_OPERATORS])
        operators = [self._operator(at, len(tensors)) for at in places]
        inputs, outputs = (self._indices(at, len(tensors), 0) for at in self._fields(table.Pos)[1:3])
        return Graph(_text(graph.Name()), tensors, inputs, outputs, operators)

    def _code(self, code: Any) -> tuple[str, bool]:
        """Return the name of an operator, and whether it is custom. Old files have its number in a deprecated field."""
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if number == tflite.BuiltinOperator.CUSTOM:
            return _text(code.CustomCode()) or "CUSTOM", True
        return OPERATORS.get(number, f"BUILTIN_{number}"), False

    # A graph has thousands of tensors and operators. Reading their fields here is faster than by flatbuffers, which
    # looks up the offset of every field.

    def _offsets(self, at: int) -> tuple[int, ...]:
        """Return the offsets of the fields of a table from its beginning; 0 for an absent field."""
        entries = at - INT32(self._content, at)[0]
        offsets = self._known_offsets.get(entries)
        if offsets is None:
            if entries < 0:
                raise ValueError(f"no table is at byte {at}")
            count = min(max(UINT16(self._content, entries)[0] // 2 - 2, 0), MOST_FIELDS)
            offsets = struct.unpack_from(f"<{count}H", self._content, entries + 4)
            offsets = self._known_offsets[entries] = offsets + (0,) * (MOST_FIELDS - count)
        return offsets

    def _fields(self, at: int) -> list[int]:
        """Return the positions of the fields of a table; 0 for an absent field."""
        return [offset and at + offset for offset in self._offsets(at)]

    def _list(self, at: int) -> tuple[int, int]:
        """Return the position and the number of elements of the list in a field; (0, 0) without the field.

        Raises:
            ValueError: if the file has more objects than are read.
        """
        if not at:
            return 0, 0
        at += UINT32(self._content, at)[0]
        count = UINT32(self._content, at)[0]
        self.counted(count)
        return at + 4, count

    def _tables(self, at: int) -> list[int]:
        """Return the positions of the tables of a list."""
        start, count = self._list(at)
        offsets = struct.unpack_from(f"<{count}I", self._content, start)
        return [start + 4 * i + offset for i, offset in enumerate(offsets)]

    def _integers(self, at: int) -> tuple[int, ...]:
        """Return the elements of a list of 32-bit integers."""
        if not at:
            return ()
        content = self._content
        at += UINT32(content, at)[0]
        count = UINT32(content, at)[0]
        read = INTEGERS.get(count)
        if read is not None and self._left > count:  # as in ``_list``, without its calls
            self._left -= count + 1
            return read(content, at + 4)
        self.counted(count)
        return struct.unpack_from(f"<{count}i", content, at + 4)

    def _operator(self, at: int, n_tensors: int) -> OperatorInfo:
        offsets = self._offsets(at)
        code_at, inputs_at, outputs_at, kind_at, options_at = offsets[:5]
        name, is_custom = self._codes[UINT32(self._content, at + code_at)[0] if code_at else 0]
        inputs = self._indices(inputs_at and at + inputs_at, n_tensors, -1)
        outputs = self._indices(outputs_at and at + outputs_at, n_tensors, 0)
        if is_custom:
            operator = tflite.Operator()
            operator.Init(self._content, at)
            return OperatorInfo(name, True, inputs, outputs, _custom_options(operator, self.counted))
        options = self._options(_OPTIONS, at + kind_at, at + options_at) if kind_at and options_at else None
        if not options and offsets[11] and offsets[12]:  # options of newer operators are in a second union
            options = self._options(_OPTIONS_2, at + offsets[11], at + offsets[12])
        return _new_operator(OperatorInfo, (name, False, inputs, outputs, options or {}))

    def _options(self, kinds: Mapping[int, Any], kind_at: int, at: int) -> Mapping[str, Any] | None:
        """Return the options of a builtin operator by name; None without any."""
        content = self._content
        kind = kinds.get(content[kind_at])
        if kind is None:
            return None
        at += UINT32(content, at)[0]
        entries = at - INT32(content, at)[0]
        size = UINT16(content, max(entries, 0) + 2)[0]
        key = kind, entries, content[at + 4 : at + size]
        found = self._known_options.get(key)
        if found is None:
            options = kind()
            options.Init(content, at)
            found = _option_values(options, self.counted)
            if size <= MOST_AXES and all(isinstance(value, (int, float)) for value in found.values()):
                self._known_options[key] = found  # numbers are stored inside the table: equal bytes are equal options
        return found

    def _indices(self, at: int, n_tensors: int, least: int) -> tuple[int, ...]:
        """Return a list of indices of tensors.

        Raises:
            ValueError: if a tensor does not exist.
        """
        found = self._integers(at)
        if found and (min(found) < least or max(found) >= n_tensors):
            index = next(index for index in found if not least <= index < n_tensors)
            raise ValueError(f"an operator or a graph names tensor {index} of {n_tensors}")
        return found

    def _tensor(self, at: int) -> TensorInfo:
        shape_at, type_at, buffer_at, name_at, scales_at, _, sparsity_at, signature_at = self._offsets(at)[:8]
        content = self._content
        shape = self._integers(shape_at and at + shape_at)
        if len(shape) > MOST_AXES:
            raise ValueError(f"a tensor has {len(shape)} axes")
        signature = self._integers(at + signature_at) if signature_at else ()
        open_axes: tuple[int, ...] = ()
        if shape and (min(shape) < 0 or (signature and min(signature) < 0)):
            sizes = shape
            if len(signature) != len(sizes):
                signature = sizes
            if min(*sizes, *signature) < -1:
                raise ValueError(f"a tensor has the shape {list(sizes)}")
            open_axes = tuple([i for i, pair in enumerate(zip(sizes, signature, strict=True)) if -1 in pair])
            shape = tuple([1 if size == -1 else size for size in sizes])
        kind = content[at + type_at] if type_at else 0
        dtype = DTYPES.get(kind)
        if dtype is None:
            raise ValueError(f"a tensor has the unknown type {kind}")
        buffer = buffer_at and UINT32(content, at + buffer_at)[0]
        is_stored, data = self._buffer(buffer, dtype) if 0 < buffer < len(self._buffers) else (False, None)
        scales, has_zero_point = self._quantization(at + scales_at) if scales_at else (0, False)
        name = ""
        if name_at:
            start = at + name_at
            start += UINT32(content, start)[0] + 4
            name = str(content[start : start + UINT32(content, start - 4)[0]], "utf-8", "replace")
        found = name, shape, open_axes, dtype, is_stored, data, scales, has_zero_point, sparsity_at > 0
        return _new_tensor(TensorInfo, found)

    def _uncounted_list(self, at: int) -> tuple[int, int]:
        at += UINT32(self._content, at)[0]
        return at + 4, UINT32(self._content, at)[0]

    def _quantization(self, at: int) -> tuple[int, bool]:
        """Return the number of scales, and whether a zero point is not 0."""
        at += UINT32(self._content, at)[0]
        scales_at, points_at = self._offsets(at)[2:4]
        scales = self._uncounted_list(at + scales_at)[1] if scales_at else 0
        start, count = self._uncounted_list(at + points_at) if points_at else (0, 0)
        count = min(count, scales)
        if start + 8 * count > len(self._content):
            raise ValueError("a tensor has more zero points than the file has bytes")
        return scales, any(self._content[start : start + 8 * count])

    def _buffer(self, number: int, dtype: str) -> tuple[bool, tuple[int, ...] | None]:
        """Return whether a buffer has data, and its values if it is a small constant of 32- or 64-bit integers."""
        at = self._buffers[number]
        data_at, place_at = self._offsets(at)[:2]
        start, length = self._uncounted_list(at + data_at) if data_at else (0, 0)
        # large files store the data after the part that the schema describes
        is_stored = length > 0 or (place_at > 0 and UINT64(self._content, at + place_at)[0] > 1)
        size = INTEGER_BYTES.get(dtype)
        if size is None or not 0 < length <= MOST_VALUES * size or length % size:
            return is_stored, None
        return is_stored, struct.unpack_from(f"<{length // size}{'i' if size == 4 else 'q'}", self._content, start)


@cache
def _option_names(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the scalar options and of the list options of a class of options."""
    methods = {name: each for name, each in vars(kind).items() if isinstance(each, FunctionType)}
    lists = {name.removesuffix("Length") for name in methods if name.endswith("Length")}
    others = {f"{name}{end}" for name in lists for end in ("AsNumpy", "IsNone", "Length")}
    numbers = (name for name, each in methods.items() if each.__code__.co_argcount == 1 and name not in others)
    return tuple(sorted(numbers)), tuple(sorted(lists))


def _option_values(options: Any, counted: Callable[[int], range]) -> dict[str, Any]:
    """Return the options of an operator by their names in the schema, without nested tables."""
    kind: Any = type(options)
    numbers, lists = _option_names(kind)
    found: dict[str, Any] = {name: getattr(options, name)() for name in numbers}
    for name in lists:
        read = getattr(options, name)
        found[name] = tuple(read(i) for i in counted(getattr(options, f"{name}Length")()))
    return found


def _custom_options(operator: Any, counted: Callable[[int], range]) -> dict[str, Any]:
    """Return the integer and boolean options of a custom operator."""
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
    """Return the first integers of options in the form of a C structure, under the name ``raw``."""
    content = operator.CustomOptionsAsNumpy().tobytes()[: 4 * MOST_RAW]
    return {"raw": struct.unpack(f"<{len(content) // 4}i", content[: len(content) // 4 * 4])}


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


# A copy of a large file without its weights. Pages of the copy that are never written take no memory.

SMALL = 2**16
"""The maximum bytes of a buffer that is copied: small constants hold values such as axes, larger ones are weights."""

MOST_BYTES = 2**28
"""The maximum number of bytes that are read besides weights; graphs have a few million."""

MOST_BUFFERS = 2_000_000

PIECE = 2**20


def content_without_weights(file: IO[bytes], path: str | PathLike[str]) -> Any:
    """Return the content of a file for flatbuffers; for a large file, a copy in memory without the weights.

    Raises:
        CostError: if it cannot be read, or has a graph that is too large.
        ValueError, struct.error: if the file is damaged.
    """
    content = content_of(file, path)
    if isinstance(content, bytes):
        return content
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    image = mmap.mmap(-1, len(content), **private)
    read = at = 0
    for start, end in [*sorted(_weights(content)), (len(content), len(content))]:
        while at < start:
            piece = content[at : min(at + PIECE, start)]
            image[at : at + len(piece)] = piece
            at += len(piece)
            read += len(piece)
            if read > MOST_BYTES:
                raise CostError(f"it has more than {MOST_BYTES:,} bytes besides weights")
        at = max(at, end)
    return image


def _weights(content: FileBytes) -> Iterator[tuple[int, int]]:
    """Yield the positions of the data of large buffers."""
    buffers = _field(content, _number(content, 0), MODEL_BUFFERS)
    if buffers is None:
        return
    count = _number(content, buffers)
    if count > MOST_BUFFERS:
        raise ValueError(f"it has more than {MOST_BUFFERS:,} buffers")
    for i in range(count):
        place = buffers + 4 + 4 * i
        data = _field(content, place + _number(content, place), BUFFER_DATA)
        length = 0 if data is None else _number(content, data)
        if data is not None and length > SMALL:
            yield data + 4, min(data + 4 + length, len(content))


def _number(content: FileBytes, at: int, kind: str = "<I") -> int:
    (found,) = struct.unpack(kind, content[at : at + struct.calcsize(kind)])
    return int(found)


def _field(content: FileBytes, table: int, number: int) -> int | None:
    """Return the position of the list in a field of a table; None without the field."""
    entries = table - _number(content, table, "<i")
    if entries < 0 or 4 + 2 * number >= _number(content, entries, "<H"):
        return None
    offset = _number(content, entries + 4 + 2 * number, "<H")
    place = table + offset
    return place + _number(content, place) if offset else None
