"""Writes IR files of a few layers, so that costs can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

PORT = '<port id="{0}" precision="{1}">{2}</port>'


class L(NamedTuple):
    """A layer: operator, numbers of the layers that its operands come from, shape and type of its result, attributes.

    ``inside`` is XML that is written as it is: bodies and maps of ports.
    """

    type: str
    inputs: Sequence[int] = ()
    shape: Sequence[int | str] = ()
    dtype: str = "FP32"
    data: Mapping[str, str] = {}
    name: str = ""
    inside: str = ""


def graph(layers: Sequence[L]) -> str:
    """Return layers and edges of a graph."""
    nodes, edges = [], []
    for i, layer in enumerate(layers):
        attributes = " ".join(f"{name}={quoteattr(value)}" for name, value in layer.data.items())
        ports = "".join(PORT.format(k, "FP32", "") for k in range(len(layer.inputs)))
        dims = "".join(f"<dim>{size}</dim>" for size in layer.shape)
        result = (
            "" if layer.type == "Result" else f"<output>{PORT.format(len(layer.inputs), layer.dtype, dims)}</output>"
        )
        nodes.append(
            f'<layer id="{i}" name={quoteattr(layer.name or f"l{i}")} type={quoteattr(layer.type)} version="opset1">'
            f"<data {attributes}/><input>{ports}</input>{result}{layer.inside}</layer>"
        )
        for k, source in enumerate(layer.inputs):
            port = len(layers[source].inputs)
            edges.append(f'<edge from-layer="{source}" from-port="{port}" to-layer="{i}" to-port="{k}"/>')
    return f"<layers>{''.join(nodes)}</layers><edges>{''.join(edges)}</edges>"


def ir(*layers: L) -> str:
    """Return the content of a file."""
    return f'<?xml version="1.0"?><net name="net" version="11">{graph(layers)}</net>'
