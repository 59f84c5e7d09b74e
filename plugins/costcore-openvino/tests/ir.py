"""Writes IR files of a few layers, so that costs can be worked out by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

PORT = '<port id="{0}" precision="{1}">{2}</port>'


class L(NamedTuple):
    """A layer: operator, numbers of the layers that its operands come from, shape and type of its result, attributes.

    An operand may also be the number of a layer and that of its result.

    ``inside`` is XML that is written as it is: bodies and maps of ports. ``-1`` is an open size. ``more`` are the
    shapes of further results.
    """

    type: str
    inputs: Sequence[int | tuple[int, int]] = ()
    shape: Sequence[int | str] = ()
    dtype: str = "FP32"
    data: Mapping[str, str] = {}
    name: str = ""
    inside: str = ""
    version: str = "opset1"
    more: Sequence[Sequence[int]] = ()


def graph(layers: Sequence[L]) -> str:
    """Return layers and edges of a graph."""
    nodes, edges = [], []
    for i, layer in enumerate(layers):
        attributes = " ".join(f"{name}={quoteattr(value)}" for name, value in layer.data.items())
        ports = "".join(PORT.format(k, "FP32", "") for k in range(len(layer.inputs)))
        dims = ["".join(f"<dim>{size}</dim>" for size in shape) for shape in (layer.shape, *layer.more)]
        results = [PORT.format(len(layer.inputs) + k, layer.dtype, sizes) for k, sizes in enumerate(dims)]
        result = "" if layer.type == "Result" else f"<output>{''.join(results)}</output>"
        nodes.append(
            f'<layer id="{i}" name={quoteattr(layer.name or f"l{i}")} type={quoteattr(layer.type)} '
            f'version="{layer.version}">'
            f"<data {attributes}/><input>{ports}</input>{result}{layer.inside}</layer>"
        )
        for k, source in enumerate(layer.inputs):
            source, place = source if isinstance(source, tuple) else (source, 0)
            port = len(layers[source].inputs) + place
            edges.append(f'<edge from-layer="{source}" from-port="{port}" to-layer="{i}" to-port="{k}"/>')
    return f"<layers>{''.join(nodes)}</layers><edges>{''.join(edges)}</edges>"


FORMATS = {"I64": "q", "FP32": "f"}


def stored(*values: float, dtype: str = "I64") -> L:
    """Return a constant, which :func:`save` writes into the file of weights."""
    return L("Const", (), (len(values),), dtype, {"values": " ".join(map(str, values))})


def save(path: Path, *layers: L) -> None:
    """Write a file, and the elements of its constants beside it."""
    content, placed = b"", []
    for layer in layers:
        if "values" in layer.data:
            read = int if layer.dtype == "I64" else float
            values = [read(each) for each in layer.data["values"].split()]
            elements = struct.pack(f"<{len(values)}{FORMATS[layer.dtype]}", *values) or b"\0"  # as OpenVINO does
            kind = layer.dtype.lower().replace("fp", "f")
            place = {"element_type": kind, "offset": str(len(content)), "size": str(len(elements))}
            content += elements
            layer = layer._replace(data=place)
        placed.append(layer)
    path.with_suffix(".bin").write_bytes(content)
    path.write_text(ir(*placed), encoding="utf-8")


def ir(*layers: L) -> str:
    """Return the content of a file."""
    return f'<?xml version="1.0"?><net name="net" version="11">{graph(layers)}</net>'
