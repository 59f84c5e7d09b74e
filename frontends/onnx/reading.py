"""Read a file into a ``ModelProto`` without weights, and read its initializers.

Weights are removed from the serialized protobuf before it is parsed. Metadata of exporters distinguishes parameters
from constants, and assigns nodes to modules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from os import PathLike, fsdecode
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from costcore.errors import CostError
from costcore.files import content_of, open_file, unreadable
from costcore.ir import BITS

from .values import FLOATS, Value, stored_value

# A model from a path, from bytes or from a ``ModelProto``


def read_model(source: Any) -> tuple[Any, str]:
    """Return the model and its name for errors. External data files are not opened.

    Raises:
        CostError: if the file cannot be read, or is not an ONNX model.
        TypeError: for a source of another type.
    """
    if isinstance(source, ModelProto):
        return _checked(source, "this ModelProto"), "the model"
    if isinstance(source, (bytes, bytearray, memoryview)):
        view = memoryview(source)
        flat = view.cast("B") if view.c_contiguous else view.tobytes()
        return _parsed(flat, f"{view.nbytes} bytes"), "the model"
    if isinstance(source, (str, PathLike)):
        path = Path(fsdecode(source))
        return _from_file(path), str(path)
    raise TypeError(f"expected a path, bytes or an onnx.ModelProto (got {type(source).__name__})")


def _from_file(path: Path) -> Any:
    try:
        with open_file(path) as file:
            content = content_of(file, path)
            if not len(content):
                raise CostError(
                    f"{path} is not an ONNX model: it is empty. Write it again: torch.onnx.export(model, inputs, path)"
                )
            return _parsed(content, str(path))
    except CostError:
        raise
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


CHECKPOINT = "torch.save writes such files. Build the nn.Module in Python and pass the module"

SIGNATURES = {
    b"PK\x03\x04": f"it is a zip archive; extract the model from it. {CHECKPOINT}",
    b"\x1f\x8b": "it is gzip-compressed; gunzip extracts the model",
    **dict.fromkeys((bytes((0x80, version)) for version in range(2, 6)), f"it is a pickle; {CHECKPOINT}"),
    b"<": "it is an HTML or XML page, such as a server sends in place of a file",
    b"{": "it is JSON",
    b"[": "it is JSON",
}
"""The first bytes of files that are often mistaken for ONNX models, and the problem to report."""

TEXT = frozenset((*b"\t\n\r", *range(0x20, 0x7F)))
"""The bytes of plain text."""

HEADER = 64
"""The number of leading bytes that identify the format of a file."""


def _parsed(buffer: Buffer, name: str) -> Any:
    model, found = ModelProto(), _format(bytes(buffer[:HEADER]))
    try:
        model.ParseFromString(without_weights(buffer))
    except (DecodeError, ValueError) as error:
        raise CostError(f"{name} is not an ONNX model: {found or error}") from error
    return _checked(model, name, found)


def _format(header: bytes) -> str:
    text = header.removeprefix(b"\xef\xbb\xbf").lstrip()
    for first, found in SIGNATURES.items():
        if header.startswith(first) or text.startswith(first):
            return found
    return "it is plain text" if len(header) > 1 and TEXT.issuperset(header) else ""


def _checked(model: Any, name: str, found: str = "") -> Any:
    if not model.HasField("graph"):
        raise CostError(f"{name} is not an ONNX model: {found or 'it has no graph'}")
    if not (model.graph.node or model.graph.output):
        raise CostError(f"{name} is not an ONNX model: its graph has no nodes and no outputs")
    return model


# Removal of weights, by a walk over the protobuf wire format


SMALL = 32 * 1024
"""The maximum bytes of a message that is copied unchanged, enough for 1024 elements of any dtype."""

PAYLOAD = frozenset(
    TensorProto.DESCRIPTOR.fields_by_name[name].number
    for name in (
        *("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data"),
        *("external_data", "doc_string"),
    )
)
"""The fields of a tensor for its elements, or for their location in another file."""

DEEPEST = 100
"""The maximum nesting of messages; deeper messages are copied unchanged, and the parser rejects them."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Buffer(Protocol):
    """Bytes, or a file that is read in pieces."""

    def __getitem__(self, where: Any, /) -> Any: ...

    def __len__(self) -> int: ...


def without_weights(buffer: Buffer) -> bytes:
    """Return a serialized ``ModelProto`` without the elements of large tensors, which are skipped, not read.

    Raises:
        ValueError: if the bytes are not a protobuf message, or end inside one.
    """
    return b"".join(_without_payload(buffer, 0, len(buffer), ModelProto.DESCRIPTOR, 0))


def _without_payload(buffer: Buffer, position: int, end: int, message: Any, depth: int) -> list[bytes]:
    pieces: list[bytes] = []
    nested = {number: field.message_type for number, field in message.fields_by_number.items() if field.message_type}
    dropped = PAYLOAD if message is TensorProto.DESCRIPTOR else frozenset()
    copied = position
    while position < end:
        start = position
        tag, position = _varint(buffer, position, end)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise ValueError(f"no protobuf field starts at byte {start}")
        if kind == BYTES:
            length, position = _varint(buffer, position, end)
        elif kind == VARINT:
            length = _varint(buffer, position, end)[1] - position
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"no protobuf field starts at byte {start}")
        if position + length > end:
            raise ValueError(
                f"the file is truncated: the field at byte {start} needs {position + length - end} more bytes"
            )
        if number in dropped or (kind == BYTES and length > SMALL and number in nested and depth < DEEPEST):
            pieces.append(buffer[copied:start])
            copied = position + length
            if number not in dropped:
                inner = _without_payload(buffer, position, copied, nested[number], depth + 1)
                pieces += [_as_varint(tag), _as_varint(sum(map(len, inner))), *inner]
        position += length
    pieces.append(buffer[copied:end])
    return pieces


def _varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end:
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError(f"the number at byte {position} is too long")
    raise ValueError("the file is truncated inside a number")


def _as_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# Initializers: values, roles from exporter metadata, stored sizes


INPUT_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
"""The metadata key with which PyTorch's exporter marks a tensor as parameter or buffer."""

FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"
"""The metadata key for the names of all values from which PyTorch's exporter computed a constant."""

SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
"""The metadata key of a graph for the inputs of the exported program, including parameters."""

_STORED_INPUT = r"(?m)(?:^\w+: ([A-Z_]+) |<InputKind\.([A-Z_]+): \d+>, arg=\w+\([^)\n]*\), )target='([^'\n]*)'"
"""An input of the program with a name in the module, in a list or in the repr of a Python object.

Like :data:`OLDER_NAME`, it is compiled on first use.
"""

_QUOTED = re.compile(r"'([^']*)'")

PARAMETER_NAME = re.compile(r"[^\W\d]\w*(\.\w+)*")
"""A name of a module tensor, ``head.0.weight``; exporters name computed constants differently."""

QUANTIZED = "_quantized"
"""The suffix of quantized tensors from ONNX Runtime's quantizer."""

OLDER_NAME = r"\d+|.*(/|::).*"
"""Names of nodes and computed values from PyTorch's older exporter, ``/head/Mul`` or ``123``."""


def read_initializers(
    graph: Any,
    note: Callable[[str], None],
    has_parameter_names: bool = False,
    configuration: Mapping[str, bool] = MappingProxyType({}),
    is_rewritten: bool = False,
) -> Iterator[tuple[str, Value]]:
    """Yield the initializers of a graph by name; sparse initializers have their dense shape.

    Args:
        graph: the ``GraphProto``.
        note: receives a note if the stored bytes do not fit the shape.
        has_parameter_names: whether the exporter keeps the names of parameters.
        configuration: names of tensors that only configure operators, unless the exporter marks them as learned. The
            value is True if a module may have learned the tensor (an initial state).
        is_rewritten: whether the file was written by a tool that drops exporter metadata.

    Raises:
        CostError: for a duplicate name, a negative dimension or an unknown dtype.
    """
    names = Counter(
        tensor.name for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    )
    for name, count in names.most_common(1):
        if count > 1:
            raise CostError(f"the graph has {count} initializers named {name!r} (expected unique names)")
    kinds = _kinds_by_signature(graph)
    folded_from = _folded(graph, [name for name, kind in kinds.items() if kind == "PARAMETER"])
    kinds |= {
        entry.name: data.value for entry in graph.value_info for data in entry.metadata_props if data.key == INPUT_KIND
    }
    has_parameter_names = has_parameter_names and not kinds
    is_parameter_name = _parameter_names(graph) if has_parameter_names else lambda _: False
    for tensor in graph.initializer:
        value = stored_value(tensor, tensor.name, f"initializer {tensor.name!r}")
        _check_bytes(tensor, value, note)
        if value.stored is not None:
            value.stored.is_unmarked = has_parameter_names or (is_rewritten and not kinds)
        written = str(tensor.name).removesuffix(QUANTIZED)  # a name that is not UTF-8 is bytes
        kind = kinds.get(written, "") if value.dtype in FLOATS or kinds.get(written) != "PARAMETER" else ""
        if not kind and configuration.get(tensor.name, True) and is_parameter_name(tensor.name):
            kind = "PARAMETER"
        elif not kind and tensor.name in configuration:
            kind = "CONFIGURATION"
        folded = folded_from.get(written)
        if folded is not None and value.stored is not None:
            kind = kind if folded.parameters else "FOLDED"
            value.stored.folded_from = "" if folded.is_one_parameter else ", ".join(map(repr, folded.parameters))
        yield tensor.name, _with_kind(value, kind)
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        yield name, stored_value(sparse.values, name, f"initializer {name!r}").viewed(tuple(sparse.dims))


IN_PROGRAM = ("BUFFER", "CONSTANT_TENSOR")
"""Kinds of tensors that PyTorch reads from memory, even with one element."""


class _Folded(NamedTuple):
    # A constant computed from a single parameter is this parameter in another layout.
    parameters: tuple[str, ...]
    is_one_parameter: bool


def _kinds_by_signature(graph: Any) -> dict[str, str]:
    signature = next((str(entry.value) for entry in graph.metadata_props if entry.key == SIGNATURE), "")
    found = re.findall(_STORED_INPUT, signature) if signature else ()
    return {name: listed or of_object for listed, of_object, name in found}


def _folded(graph: Any, parameters: Collection[str]) -> dict[str, _Folded]:
    # The names of sources are only useful if the parameters of the program are known.
    if not parameters:
        return {}
    folded = {
        entry.name: _QUOTED.findall(str(data.value))
        for entry in graph.value_info
        for data in entry.metadata_props
        if data.key == FOLDED_FROM
    }
    found = {name: tuple(source for source in sources if source in parameters) for name, sources in folded.items()}
    return {name: _Folded(learned, len(learned) == len(folded[name]) == 1) for name, learned in found.items()}


def _parameter_names(graph: Any) -> Callable[[str], bool]:
    # PyTorch's older exporter names computed values ``/head/Mul_output_0``, as no module tensor is named. The newer
    # exporter names them ``val_67``: without metadata, only a name with a dot proves a parameter.
    outputs = {entry.name for entry in graph.output}
    names = (name for node in graph.node for name in (node.name, *node.output) if name not in outputs)
    is_older = any(map(re.compile(OLDER_NAME).fullmatch, names))

    def is_parameter_name(name: str) -> bool:
        return PARAMETER_NAME.fullmatch(name) is not None and (is_older or "." in name)

    return is_parameter_name


def _with_kind(value: Value, kind: str) -> Value:
    if not kind or value.stored is None:
        return value
    value.stored.is_learned = kind == "PARAMETER" and value.dtype in FLOATS
    value.stored.is_buffer = kind != "PARAMETER"
    value.stored.is_in_program = kind in IN_PROGRAM
    return replace(value, role="param" if value.stored.is_learned else "const")


def _check_bytes(tensor: Any, value: Value, note: Callable[[str], None]) -> None:
    bits = BITS[value.dtype]
    needed = -(-value.size * bits // 8)
    if not bits or (needed > SMALL and tensor.data_location != TensorProto.EXTERNAL):
        return  # raw_data of larger tensors is gone, and each access would copy it
    if tensor.data_location == TensorProto.EXTERNAL:
        length = next((entry.value for entry in tensor.external_data if entry.key == "length"), str(needed))
        if length != str(needed):
            note(f"initializer {tensor.name!r} needs {needed} bytes, but its external data has length {length[:40]!r}")
    elif tensor.raw_data and len(tensor.raw_data) != needed:
        note(f"initializer {tensor.name!r} needs {needed} bytes, but the model stores {len(tensor.raw_data)}")


# Node metadata of PyTorch's exporters: modules, operations, source lines


SCOPES = "pkg.torch.onnx.name_scopes"
"""The key for the modules around a node, outermost first; the last entry is the node itself."""

CLASSES, OPERATION = "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node"
"""The keys for the classes of these modules, and for the operation of the user's program."""

TRACE = "pkg.torch.onnx.stack_trace"
"""The key for the source lines that called the operation, innermost last."""

REWRITE_RULES = "pkg.onnxscript.rewriter.rule_name"
"""The key for the rewrite rules that produced a node."""

NOWHERE = "_empty_nn_module_stack_from_metadata_hook"
"""The module that PyTorch reports for operations outside all modules."""

_QUOTED_EITHER_WAY = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def scopes(node: Any) -> list[str] | None:
    """Return the paths of the modules around a node, beginning with the model (``""``); None without metadata."""
    return _listed(node, SCOPES)


def classes(node: Any) -> list[str]:
    """Return the classes of these modules, ``torch.nn.modules.conv.Conv2d``."""
    return _listed(node, CLASSES) or []


def _listed(node: Any, key: str) -> list[str] | None:
    # The last entry is the node itself.
    for entry in node.metadata_props:
        if entry.key == key:
            return [name for a, b in _QUOTED_EITHER_WAY.findall(entry.value)[:-1] if (name := a or b) != NOWHERE]
    return None


def has_folded_norm(node: Any) -> bool:
    """Return True if the exporter fused a normalization into the node; its metadata then names the normalization."""
    return any(entry.key == REWRITE_RULES and "FuseBatchNormInto" in entry.value for entry in node.metadata_props)


def origin(node: Any) -> str:
    """Return the operation of the user's program that was exported to a node; empty without metadata."""
    return next((str(entry.value) for entry in node.metadata_props if entry.key == OPERATION), "")


def source_line(node: Any) -> str:
    """Return the source line that called the operation of a node; empty without metadata."""
    return next(reversed(_trace(node).splitlines()), "")


def call_site(node: Any) -> tuple[tuple[str, ...], str]:
    """Return the modules around a node, and all source lines that led to its operation."""
    return tuple(scopes(node) or ()), _trace(node)


def _trace(node: Any) -> str:
    return next((str(entry.value) for entry in node.metadata_props if entry.key == TRACE), "")
