"""What an IR file holds, as plain data. The file of weights beside it is never opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple
from xml.etree.ElementTree import Element, ParseError, XMLParser

from costcore.errors import CostError
from costcore.files import open_file

MOST_TAGS = 6_000_000
"""The most XML tags that are read; a layer has about thirty."""

PIECE = 1 << 20
"""How many bytes are read at once."""

DEEPEST = 25
"""The most graphs inside loops and branches that are inside each other."""

BODIES = ("body", "then_body", "else_body")
"""The elements of a layer that are graphs."""

MOST_AXES = 64
MOST_DIGITS = 18

DTYPES: Mapping[str, str] = {
    "FP64": "float64",
    "FP32": "float32",
    "FP16": "float16",
    "BF16": "bfloat16",
    "F8E4M3": "float8_e4m3fn",
    "F8E5M2": "float8_e5m2",
    "F8E8M0": "float8_e8m0",
    "F4E2M1": "float4_e2m1",
    "NF4": "uint4",
    "BOOL": "bool",
    "BOOLEAN": "bool",
    "BIN": "uint1",
    "STRING": "string",
    **{
        f"{prefix}{bits}": f"{name}{bits}" for prefix, name in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)
    },
    **{f"U{bits}": f"uint{bits}" for bits in (1, 2, 3, 4, 6)},
    "I4": "int4",
}
"""Names of element types. Elements of NF4 have four bits."""


class Port(NamedTuple):
    """A result of a layer: its number, shape and type of elements."""

    number: str
    shape: tuple[int, ...]
    dtype: str


class LayerInfo(NamedTuple):
    """A layer of a file.

    Attributes:
        id: its number in the graph.
        name: its name.
        type: its operator, ``Convolution``.
        data: its attributes.
        inputs: numbers of the ports of its operands, in order.
        outputs: its results.
        bodies: graphs that it runs, by their role: ``body``, ``then_body``, ``else_body``.
        maps: how ports and graphs are connected, by the name of the list: kind and attributes of each entry.
    """

    id: str
    name: str
    type: str
    data: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[Port, ...]
    bodies: Mapping[str, Graph]
    maps: Mapping[str, Sequence[tuple[str, Mapping[str, str]]]]


class Graph(NamedTuple):
    """A graph: its layers in the order of the file, and the source of every operand, (layer, port) by (layer, port)."""

    layers: Sequence[LayerInfo]
    edges: Mapping[tuple[str, str], tuple[str, str]]


class Model(NamedTuple):
    """A file: its graph and its version of the format."""

    graph: Graph
    version: str


def read_model(path: str) -> Model:
    """Return what a file holds.

    Raises:
        CostError: if it is another XML file, damaged, too large, or has open sizes.
        OSError: if it cannot be read.
    """
    with open_file(path) as file:
        root = _parsed(file, path)
    if root.tag != "net" or root.find("layers") is None:
        raise CostError(f"{path}: not an OpenVINO model: its outermost element is <{root.tag[:80]}> (expected <net>)")
    try:
        return Model(_graph(root), root.attrib.get("version", "?"))
    except CostError as error:
        raise CostError(f"{path}: {error}") from error


def _parsed(file: IO[bytes], name: str) -> Element:
    """Return the outermost element of an XML file, which may neither define entities nor refer to other files."""
    parser, before, count = XMLParser(), b"", 0
    try:
        while piece := file.read(PIECE):
            if b"<!DOCTYPE" in before + piece:
                raise CostError(f"{name}: the file has a document type, which OpenVINO does not write")
            if b"\0" in piece:
                raise CostError(f"{name}: the file is not valid XML in UTF-8: it has a byte that is zero")
            count += piece.count(b"<")
            if count > MOST_TAGS:
                raise CostError(f"{name}: the file is larger than is read ({MOST_TAGS:,} tags)")
            parser.feed(piece)
            before = piece[-16:]
        return parser.close()
    except (ParseError, LookupError, ValueError) as error:
        raise CostError(f"{name}: the file is not valid XML: {error}") from error


def _graph(element: Element, depth: int = 0) -> Graph:
    """Return a graph.

    Raises:
        CostError: if graphs are inside each other deeper than is followed.
    """
    if depth > DEEPEST:
        raise CostError(f"graphs are inside each other deeper than is read ({DEEPEST} levels)")
    layers = [_layer(layer, depth) for layer in element.iterfind("layers/layer")]
    edges = {}
    for edge in element.iterfind("edges/edge"):
        a = edge.attrib
        edges[a.get("to-layer", ""), a.get("to-port", "")] = a.get("from-layer", ""), a.get("from-port", "")
    return Graph(layers, edges)


def _layer(element: Element, depth: int) -> LayerInfo:
    a = element.attrib
    name, kind = a.get("name", ""), a.get("type", "")
    data: Mapping[str, str] = {}
    inputs: tuple[str, ...] = ()
    outputs: tuple[Port, ...] = ()
    bodies, maps = {}, {}
    for child in element:
        if child.tag == "output":
            outputs = tuple(_port(port, name) for port in child.iterfind("port"))
        elif child.tag == "input":
            inputs = tuple(port.attrib.get("id", "") for port in child.iterfind("port"))
        elif child.tag == "data":
            data = child.attrib
        elif child.tag in BODIES:
            bodies[child.tag] = _graph(child, depth + 1)
        elif child.tag == "back_edges" or child.tag.endswith("port_map"):
            maps[child.tag] = [(entry.tag, entry.attrib) for entry in child]
    return LayerInfo(a.get("id", ""), name, kind, data, inputs, outputs, bodies, maps)


def _port(element: Element, layer: str) -> Port:
    """Return a result of a layer.

    Raises:
        CostError: if its type is unknown, or a size is open or no size.
    """
    precision = element.attrib.get("precision", "")
    dtype = DTYPES.get(precision)
    if dtype is None:
        raise CostError(f"layer {layer!r}: unknown type of elements {precision!r}")
    sizes = [(dim.text or "").strip() for dim in element.iterfind("dim")]
    if len(sizes) > MOST_AXES:
        raise CostError(f"layer {layer!r}: a result has {len(sizes)} axes")
    for size in sizes:
        if size == "-1" or ".." in size:
            raise CostError(
                f"layer {layer!r}: its shape ({', '.join(sizes)}) is open. Give the model fixed sizes with "
                "model.reshape(…) of OpenVINO, and save it again"
            )
        if not (size.isascii() and size.isdigit() and len(size) <= MOST_DIGITS):
            raise CostError(f"layer {layer!r}: {size[:80]!r} is not a size")
    return Port(element.attrib.get("id", ""), tuple(map(int, sizes)), dtype)


def numbers(text: str | None) -> tuple[int, ...]:
    """Return the integers of an attribute, ``"1, 1"``; other parts are left out."""
    parts = (part.strip() for part in (text or "").split(","))
    return tuple(int(part) for part in parts if part.lstrip("-").isdecimal() and len(part) <= MOST_DIGITS)
