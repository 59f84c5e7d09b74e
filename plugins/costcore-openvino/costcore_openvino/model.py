"""What an IR file holds, as plain data. The file of weights beside it is never opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple
from xml.parsers import expat

from costcore.errors import CostError
from costcore.files import open_file

MOST_ELEMENTS = 5_000_000
"""The most XML elements that are read; a layer has about fifteen."""

DEEPEST = 100
"""The most levels of XML elements; every graph inside a loop or branch adds four."""

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


class Element:
    """An XML element: its name, attributes, children and text."""

    __slots__ = ("attributes", "children", "tag", "text")

    def __init__(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.tag, self.attributes, self.text = tag, attributes, ""
        self.children: list[Element] = []

    def all(self, tag: str) -> list[Element]:
        """Return the children with that name."""
        return [child for child in self.children if child.tag == tag]

    def one(self, tag: str) -> Element:
        """Return the first child with that name; an empty element without one."""
        return next((child for child in self.children if child.tag == tag), Element(tag, {}))


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
    if root.tag != "net" or not root.all("layers"):
        raise CostError(f"{path}: not an OpenVINO model: its outermost element is <{root.tag[:80]}> (expected <net>)")
    try:
        return Model(_graph(root), root.attributes.get("version", "?"))
    except CostError as error:
        raise CostError(f"{path}: {error}") from error


def _parsed(file: IO[bytes], name: str) -> Element:
    """Return the outermost element of an XML file, which may neither define entities nor refer to other files."""
    outside = Element("", {})
    stack, count = [outside], 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS or len(stack) > DEEPEST:
            limits = f"{MOST_ELEMENTS:,} elements, {DEEPEST} levels"
            raise CostError(f"{name}: the file is larger or nested deeper than is read ({limits})")
        element = Element(tag, attributes)
        stack[-1].children.append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def text(content: str) -> None:
        if len(stack[-1].text) < MOST_DIGITS + 2:
            stack[-1].text += content.strip()

    def refuse(*_: object) -> None:
        raise CostError(f"{name}: the file has a document type, which OpenVINO does not write")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = refuse
    parser.buffer_text = True
    try:
        parser.ParseFile(file)
    except (expat.ExpatError, ValueError) as error:
        raise CostError(f"{name}: the file is not valid XML: {error}") from error
    return outside.children[0]


def _graph(element: Element) -> Graph:
    layers = [_layer(layer) for layer in element.one("layers").all("layer")]
    edges = {}
    for edge in element.one("edges").all("edge"):
        a = edge.attributes
        target = a.get("to-layer", ""), a.get("to-port", "")
        edges[target] = a.get("from-layer", ""), a.get("from-port", "")
    return Graph(layers, edges)


def _layer(element: Element) -> LayerInfo:
    a = element.attributes
    name, kind = a.get("name", ""), a.get("type", "")
    bodies = {tag: _graph(element.one(tag)) for tag in ("body", "then_body", "else_body") if element.all(tag)}
    maps = {
        child.tag: [(entry.tag, entry.attributes) for entry in child.children]
        for child in element.children
        if child.tag.endswith("port_map") or child.tag == "back_edges"
    }
    inputs = tuple(port.attributes.get("id", "") for port in element.one("input").all("port"))
    outputs = tuple(_port(port, name) for port in element.one("output").all("port"))
    return LayerInfo(a.get("id", ""), name, kind, element.one("data").attributes, inputs, outputs, bodies, maps)


def _port(element: Element, layer: str) -> Port:
    """Return a result of a layer.

    Raises:
        CostError: if its type is unknown, or a size is open or no size.
    """
    precision = element.attributes.get("precision", "")
    dtype = DTYPES.get(precision)
    if dtype is None:
        raise CostError(f"layer {layer!r}: unknown type of elements {precision!r}")
    sizes = [dim.text for dim in element.all("dim")]
    if len(sizes) > MOST_AXES:
        raise CostError(f"layer {layer!r}: a result has {len(sizes)} axes")
    for size in sizes:
        if size == "-1" or ".." in size:
            raise CostError(
                f"layer {layer!r}: its shape ({', '.join(sizes)}) is open. Give the model fixed sizes with "
                "model.reshape(…) of OpenVINO, and save it again"
            )
        if not (size.isascii() and size.isdigit() and len(size) <= MOST_DIGITS):
            raise CostError(f"layer {layer!r}: {size!r} is not a size")
    return Port(element.attributes.get("id", ""), tuple(map(int, sizes)), dtype)


def numbers(text: str | None) -> tuple[int, ...]:
    """Return the integers of an attribute, ``"1, 1"``; other parts are left out."""
    parts = (part.strip() for part in (text or "").split(","))
    return tuple(int(part) for part in parts if part.lstrip("-").isdecimal() and len(part) <= MOST_DIGITS)
