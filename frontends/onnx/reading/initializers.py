"""Initializers of a graph: their values, their roles by the exporter's metadata, and checks of their stored size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from onnx import TensorProto

from costcore.errors import CostError
from costcore.ir import BITS

from ..values.value import FLOATS, Value, stored_value
from .protobuf_wire import SMALL

INPUT_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
"""Metadata key under which PyTorch's exporter marks a tensor as a parameter or a buffer of a module."""

FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"
"""Metadata key under which PyTorch's exporter lists the names of all values from which it computed a constant."""

SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
"""Metadata key, of a graph, under which PyTorch's exporter lists the inputs of the program, parameters included."""

_STORED_INPUT = re.compile(
    r"(?:^\w+: ([A-Z_]+) |<InputKind\.([A-Z_]+): \d+>, arg=\w+\([^)\n]*\), )target='([^'\n]*)'", re.MULTILINE
)
"""An input of the program that has a name in the module, in a list or in the text of a Python object."""

_QUOTED = re.compile(r"'([^']*)'")

PARAMETER_NAME = re.compile(r"[^\W\d]\w*(\.\w+)*")
"""The name of a tensor of a module, ``head.0.weight``; exporters do not name computed constants like this."""

QUANTIZED = "_quantized"
"""What ONNX Runtime's quantizer appends to the names of the tensors that it quantized."""

OLDER_NAME = re.compile(r"\d+|.*(/|::).*")
"""The names that the older exporter of PyTorch gives to nodes and computed values, ``/head/Mul`` or ``123``."""


def read_initializers(
    graph: Any,
    note: Callable[[str], None],
    has_parameter_names: bool = False,
    configuring: Mapping[str, bool] = MappingProxyType({}),
    is_rewritten: bool = False,
) -> Iterator[tuple[str, Value]]:
    """Yield the initializers of a graph by name, sparse ones under their dense shape.

    Args:
        graph: the ``GraphProto``.
        note: receives a note if the stored bytes do not fit the shape.
        has_parameter_names: whether the exporter keeps the names of parameters.
        configuring: names of tensors that only configure operators, unless the exporter marks them as learned; True for
            those that a module may have learned nevertheless.
        is_rewritten: whether a tool that drops marks of exporters wrote the file.

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
        _check(tensor, value, note)
        if value.stored is not None:
            value.stored.is_unmarked = has_parameter_names or (is_rewritten and not kinds)
        written = str(tensor.name).removesuffix(QUANTIZED)  # a name that is not UTF-8 is bytes
        kind = kinds.get(written, "") if value.dtype in FLOATS or kinds.get(written) != "PARAMETER" else ""
        if not kind and configuring.get(tensor.name, True) and is_parameter_name(tensor.name):
            kind = "PARAMETER"
        elif not kind and tensor.name in configuring:
            kind = "CONFIGURATION"
        folded = folded_from.get(written)
        if folded is not None and value.stored is not None:
            kind = kind if folded.parameters else "FOLDED"
            value.stored.folded_from = "" if folded.is_one_parameter else ", ".join(map(repr, folded.parameters))
        yield tensor.name, _of_kind(value, kind)
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        yield name, stored_value(sparse.values, name, f"initializer {name!r}").viewed(tuple(sparse.dims))


IN_PROGRAM = ("BUFFER", "CONSTANT_TENSOR")
"""Kinds of tensors that PyTorch reads from memory, also those of one element."""


class _Folded(NamedTuple):
    """A constant that the exporter computed.

    Attributes:
        parameters: the learned tensors from which it was computed.
        is_one_parameter: whether nothing else was needed: it is the parameter in another layout.
    """

    parameters: tuple[str, ...]
    is_one_parameter: bool


def _kinds_by_signature(graph: Any) -> dict[str, str]:
    """Return the kinds of the tensors of the program, by name, if the exporter lists them."""
    signature = next((str(entry.value) for entry in graph.metadata_props if entry.key == SIGNATURE), "")
    return {name: listed or of_object for listed, of_object, name in _STORED_INPUT.findall(signature)}


def _folded(graph: Any, parameters: Collection[str]) -> dict[str, _Folded]:
    """Return the constants that the exporter computed, by name; none unless the parameters of the program are known."""
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
    """Return a function that is True for names of parameters, and False for those of computed constants.

    The older exporter of PyTorch gives nodes and computed values names that no tensor of a module has,
    ``/head/Mul_output_0``. The newer one gives values names without dots, ``val_67``, so without its marks only a name
    with a dot proves a parameter.
    """
    outputs = {entry.name for entry in graph.output}
    names = (name for node in graph.node for name in (node.name, *node.output) if name not in outputs)
    is_older = any(map(OLDER_NAME.fullmatch, names))

    def is_parameter_name(name: str) -> bool:
        return PARAMETER_NAME.fullmatch(name) is not None and (is_older or "." in name)

    return is_parameter_name


def _of_kind(value: Value, kind: str) -> Value:
    """Return the value with the role that the exporter gives it: ``PARAMETER``, another kind, or ``""`` if unknown."""
    if not kind or value.stored is None:
        return value
    value.stored.is_learned = kind == "PARAMETER" and value.dtype in FLOATS
    value.stored.is_buffer = kind != "PARAMETER"
    value.stored.is_in_program = kind in IN_PROGRAM
    return replace(value, role="param" if value.stored.is_learned else "const")


def _check(tensor: Any, value: Value, note: Callable[[str], None]) -> None:
    """Note an initializer with fewer or more bytes than its shape needs; opens no file."""
    bits = BITS[value.dtype]
    needed = -(-value.size * bits // 8)
    if not bits or (needed > SMALL and tensor.data_location != TensorProto.EXTERNAL):
        return  # without_weights dropped raw_data of larger tensors, and an access to raw_data copies it
    if tensor.data_location == TensorProto.EXTERNAL:
        length = next((entry.value for entry in tensor.external_data if entry.key == "length"), str(needed))
        if length != str(needed):
            note(f"initializer {tensor.name!r} needs {needed} bytes, but its external data has length {length[:40]!r}")
    elif tensor.raw_data and len(tensor.raw_data) != needed:
        note(f"initializer {tensor.name!r} needs {needed} bytes, but the model holds {len(tensor.raw_data)} of it")
