"""Parse an IR file (.xml) into plain data. Weights (.bin) are not read here; shapes.py reads small constants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from xml.parsers import expat

from costcore.errors import CostError
from costcore.files import open_file

OLDEST = 10
"""The oldest supported version of the format."""

MOST_TAGS = 2_000_000
"""The maximum number of ``<`` in a file; a layer has about thirty tags."""

MOST_LAYERS = 100_000
"""The maximum number of layers in a file; language models have 20,000."""

PIECE = 1 << 20
"""The number of bytes to read at a time."""

DEEPEST = 25
"""The maximum nesting of graphs in loops and branches."""

BODIES = ("body", "then_body", "else_body")
"""The tags of subgraphs in a layer."""

BODIES_OF: Mapping[str, tuple[str, ...]] = {"Loop": BODIES[:1], "TensorIterator": BODIES[:1], "If": BODIES[1:]}
"""The tags of subgraphs by the type of the layer."""

ONCE = frozenset(("graph", "layers", "edges", "data", "operands", "results", "map"))
"""Elements that may occur once in their parent. OpenVINO reads the first one; here, a second one is an error."""

MOST_AXES = 64
MOST_DIGITS = 18
INTEGER = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}")

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
    **dict.fromkeys(("", "UNSPECIFIED"), ""),
    **{f"I{bits}": f"int{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (1, 2, 3, 4, 6, 8, 16, 32, 64)},
}
"""Dtypes by the element type of a port; empty for the dtype of the first operand. NF4 has four bits."""


class Port(NamedTuple):
    """A result of a layer: port number, shape (None for an open size), dtype, and tensor names joined by commas."""

    number: str
    shape: tuple[int | None, ...]
    dtype: str
    names: str = ""


@dataclass(slots=True)
class LayerInfo:
    """A layer of a file.

    Attributes:
        id: its number in the graph.
        name: its name.
        type: its operator, ``Convolution``.
        inputs: port numbers of its operands, in order.
        outputs: its results.
        version: the operator set, ``opset11``.
        data: its attributes.
        bodies: its subgraphs by tag: ``body``, ``then_body``, ``else_body``.
        maps: connections of ports to subgraphs by tag, such as ``port_map``: tag and attributes of each entry.
    """

    id: str
    name: str
    type: str
    inputs: list[str]
    outputs: list[Port]
    version: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    bodies: dict[str, Graph] = field(default_factory=dict)
    maps: dict[str, list[tuple[str, Mapping[str, str]]]] = field(default_factory=dict)


class Graph(NamedTuple):
    """Layers in file order, and edges: for each operand (layer, port), the result (layer, port) that it reads."""

    layers: list[LayerInfo]
    edges: dict[tuple[str, str], tuple[str, str]]


KINDS: Mapping[str, Mapping[str, str]] = {
    "file": {"net": "graph"},
    "graph": {"layers": "layers", "edges": "edges"},
    "layers": {"layer": "layer"},
    "edges": {"edge": "edge"},
    "layer": {
        "data": "data",
        "input": "operands",
        "output": "results",
        **dict.fromkeys(BODIES, "graph"),
        **dict.fromkeys(("port_map", "then_port_map", "else_port_map", "back_edges"), "map"),
    },
    "operands": {"port": "operand"},
    "results": {"port": "result"},
    "result": {"dim": "size"},
    "map": dict.fromkeys(("input", "output", "edge"), "entry"),
    **{kind: {} for kind in ("operand", "size", "edge", "data", "entry", "skipped")},
}
"""The kind of each element by the kind of its parent and its tag. Other elements are skipped with their content."""


def read_model(path: str) -> tuple[Graph, str, bool]:
    """Return the graph of a file, its format version, and whether it leaves sizes open.

    Raises:
        CostError: if it is not an IR file, damaged, or too large.
        OSError: if it cannot be read.
    """
    parser, count = expat.ParserCreate("utf-8"), 0
    reader = Reader(parser)
    with open_file(path) as file:
        try:
            while piece := file.read(PIECE):
                count += piece.count(b"<")
                if count > MOST_TAGS:
                    raise CostError(f"the file has more than {MOST_TAGS:,} tags")
                parser.Parse(piece)
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise CostError(f"the file is not valid XML in UTF-8: {error}") from error
        finally:  # break the reference cycle of reader and parser, which would keep the graph alive
            parser.StartElementHandler = parser.EndElementHandler = parser.CharacterDataHandler = None
    if not reader.graph.layers:
        raise CostError("not an OpenVINO model: it has no layers")
    return reader.graph, reader.version, reader.is_open


class Reader:
    """Builds the graph of a file from the events of an XML parser.

    Args:
        parser: the parser; its handlers become methods of this reader.

    Attributes:
        graph: the graph of the file.
        version: the format version.
        is_open: whether a result has an open size.
    """

    def __init__(self, parser: expat.XMLParserType) -> None:
        self.graph = Graph([], {})
        self.version, self.is_open = "?", False
        self._parser = parser
        self._kinds = ["file"]
        """The kinds of the open elements, outermost first; see :data:`KINDS`."""
        self._seen: list[set[str]] = [set()]
        """For each open graph and layer, the elements of :data:`ONCE` that it already has."""
        self._graphs: list[Graph] = []
        """The stack of open graphs, outermost first. The open layer is the last layer of the last graph."""
        self._port: Mapping[str, str] = {}
        self._sizes: list[str] = []
        self._text = ""
        self._n_layers = 0
        self._entries: list[tuple[str, Mapping[str, str]]] = []
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.StartDoctypeDeclHandler = _refuse

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        kind = KINDS[self._kinds[-1]].get(tag, "skipped")
        self._kinds.append(kind)
        if kind == "size":
            self._text = ""
        elif kind == "skipped":
            if len(self._kinds) == 2:
                raise CostError(f"not an OpenVINO model: its outermost element is <{tag[:80]}> (expected <net>)")
        elif kind == "operand":
            self._graphs[-1].layers[-1].inputs.append(attributes.get("id", ""))
        elif kind == "result":
            self._port, self._sizes = attributes, []
        elif kind == "edge":
            get = attributes.get
            target = get("to-layer", ""), get("to-port", "")
            self._graphs[-1].edges[target] = get("from-layer", ""), get("from-port", "")
        elif kind in ONCE:
            self._start_once(kind, tag, attributes)
        elif kind == "layer":
            get = attributes.get
            self._seen.append(set())
            self._n_layers += 1
            if self._n_layers > MOST_LAYERS:
                raise CostError(f"the file has more than {MOST_LAYERS:,} layers")
            self._graphs[-1].layers.append(
                LayerInfo(get("id", ""), get("name", ""), get("type", ""), [], [], get("version", ""))
            )
        elif kind == "entry":
            self._entries.append((tag, attributes))

    def _start_once(self, kind: str, tag: str, attributes: dict[str, str]) -> None:
        if tag in self._seen[-1]:
            raise CostError(f"{self._shown()} has two elements <{tag}>")
        self._seen[-1].add(tag)
        if kind == "data":
            self._graphs[-1].layers[-1].data = attributes
        elif kind == "results":
            self._parser.CharacterDataHandler = self._add_text
        elif kind == "graph":
            self._start_graph(tag, attributes)
            self._seen.append(set())
        elif kind == "map":
            self._graphs[-1].layers[-1].maps[tag] = self._entries = []

    def _start_graph(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._graphs) > DEEPEST:
            raise CostError(f"graphs are nested more than {DEEPEST} deep")
        graph = Graph([], {})
        if self._graphs:
            layer = self._graphs[-1].layers[-1]
            if tag not in BODIES_OF.get(layer.type, ()):
                raise CostError(f"{self._shown()} is a {layer.type[:80]}, which has no <{tag}>")
            layer.bodies[tag] = graph
        else:
            self.graph, self.version = graph, attributes.get("version", "?")
            if (number := integer(self.version)) is not None and number < OLDEST:
                raise CostError(
                    f"it has version {number} of the format, which OpenVINO no longer reads (expected {OLDEST} or "
                    "newer). Convert the model again"
                )
        self._graphs.append(graph)

    def _shown(self) -> str:
        """Name the open layer for an error; outside of layers, the file."""
        is_layer = "layer" in self._kinds and self._graphs and self._graphs[-1].layers
        return f"layer {self._graphs[-1].layers[-1].name[:80]!r}" if is_layer else "the file"

    def _end(self, _: str) -> None:
        kind = self._kinds.pop()
        if kind == "size":
            self._sizes.append(self._text)
        elif kind == "result":
            layer = self._graphs[-1].layers[-1]
            port = _port(self._port, self._sizes, layer.name)
            self.is_open |= None in port.shape or "..." in layer.data.get("shape", "")
            layer.outputs.append(port)
        elif kind == "results":
            self._parser.CharacterDataHandler = None
        elif kind == "layer":
            self._seen.pop()
        elif kind == "graph":
            self._seen.pop()
            self._graphs.pop()

    def _add_text(self, text: str) -> None:
        if len(self._text) <= MOST_DIGITS:
            self._text += text.strip()


def _refuse(*_: object) -> None:
    raise CostError("the file has a document type, which OpenVINO does not write")


def _port(attributes: Mapping[str, str], sizes: Sequence[str], layer: str) -> Port:
    """Return a result of a layer.

    Raises:
        CostError: if its element type is unknown, or a size is not a number.
    """
    precision = attributes.get("precision", "")
    dtype = DTYPES.get(precision)
    if dtype is None:
        raise CostError(f"layer {layer!r}: unknown type of elements {precision!r}")
    if len(sizes) > MOST_AXES:
        raise CostError(f"layer {layer!r}: a result has {len(sizes)} axes")
    shape = _shape(tuple(sizes))
    if isinstance(shape, str):
        raise CostError(f"layer {layer!r}: {shape[:80]!r} is not a size")
    return Port(attributes.get("id", ""), shape, dtype, attributes.get("names", ""))


@lru_cache(1024)
def _shape(sizes: tuple[str, ...]) -> tuple[int | None, ...] | str:
    """Parse a shape; return the first text that is not a size, if there is one."""
    for size in sizes:
        if not is_open(size) and not (size.isascii() and size.isdigit() and len(size) <= MOST_DIGITS):
            return size
    return tuple([None if is_open(size) else int(size) for size in sizes])


def is_open(size: str) -> bool:
    """Return whether a text states an open size: ``-1``, ``?``, or a range such as ``1..10``."""
    return size in ("-1", "?") or ".." in size


def numbers(text: str | None) -> tuple[int, ...]:
    """Parse the integers of an attribute, ``"1, 1"``; skip parts that are not integers."""
    return tuple(number for part in (text or "").split(",") if (number := integer(part)) is not None)


def integer(text: str) -> int | None:
    """Parse an integer; None for any other text, and for more than ``MOST_DIGITS`` digits."""
    text = text.strip()
    return int(text) if INTEGER.fullmatch(text) else None
