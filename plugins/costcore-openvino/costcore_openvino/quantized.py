"""Find the layers of a quantized model that the runtime computes on integers.

``FakeQuantize`` rounds its operand and returns floats. The runtime executes it differently: its low precision
transformations (https://docs.openvino.ai, "Low Precision Transformations") pass the result on as integers, compute
convolutions and matrix products with integer weights on integers, and fuse a bias, an activation and the next
``FakeQuantize`` into the layer before them. A model without a product of integers is not changed.

Checked against the runtime graph of OpenVINO 2026.4 on a CPU, layer by layer: convolutions with bias, Swish and sums,
pools, concatenations, nearest interpolation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from .model import Graph, LayerInfo, integer

QUANTIZE = "FakeQuantize"

UNPACKING = frozenset(("Convert", "Multiply", "Reshape", "Subtract", "Transpose", "Unsqueeze", "Squeeze"))
"""Operators that unpack weights, if all their operands are stored."""

CONVOLUTIONS = frozenset(("Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData"))
PRODUCTS = CONVOLUTIONS | {"MatMul"}

MOVES = frozenset(
    (
        *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "MaxPool", "Concat", "StridedSlice", "Slice", "Split"),
        *("VariadicSplit", "ShuffleChannels", "DepthToSpace", "SpaceToDepth", "Tile"),
    )
)
"""Operators that only choose or move elements: integers stay integers."""

ACTIVATIONS: Mapping[str, str] = {
    "Clamp": "clip",
    "Elu": "elu",
    "Gelu": "gelu",
    "HSigmoid": "hard_sigmoid",
    "HSwish": "hard_swish",
    "Mish": "mish",
    "ReLU": "relu",
    "Sigmoid": "sigmoid",
    "Swish": "silu",
    "Tanh": "tanh",
}
"""Activations that are fused into a product, with their names in formulas."""

LIMITS = frozenset(("ReLU", "Clamp"))
"""Activations that are fused into any layer if a quantization follows."""

CALCULATED = frozenset(
    (
        *("Add", "AvgPool", "Divide", "Gelu", "HSigmoid", "HSwish", "Interpolate", "Maximum", "Minimum", "Multiply"),
        *("ReduceMean", "ReLU", "Sigmoid", "SoftMax", "Softmax", "Subtract", "Swish", "Tanh"),
    )
)
"""Other layers that can read integers and return a quantized result."""

WIDTHS = {8: "uint8", 16: "uint16"}
"""Integer dtypes by bits. A quantization has the smallest one that holds its levels."""

Value = tuple[str, str]
"""A result: layer and port number."""


@dataclass
class Fused:
    """The layers that the runtime fuses into one layer.

    Attributes:
        bias: the stored value that is added to a product; None if there is none.
        activation: the name of the activation in formulas; empty if there is none.
        quantized: the layer that quantizes the result; None if the result is float.
        layers: all fused layers.
    """

    bias: Value | None = None
    activation: str = ""
    quantized: LayerInfo | None = None
    layers: list[LayerInfo] = field(default_factory=list)


class QuantizationPlan:
    """The integer dtypes and fused layers of a graph, as the runtime executes it.

    Args:
        layers: the layers in order of execution.
        graph: their graph.

    Attributes:
        integers: the integer dtype of each result that is passed on as integers.
        fused: the layers fused into each layer that reads integers or returns a quantized result, by layer id.
        fused_into: the layer that computes each fused layer; both as layer ids.
    """

    def __init__(self, layers: Sequence[LayerInfo], graph: Graph) -> None:
        self._edges = graph.edges
        self._layers = {layer.id: layer for layer in layers}
        self._readers: dict[Value, list[tuple[LayerInfo, int]]] = defaultdict(list)
        for layer in layers:
            for position, source in enumerate(self._sources(layer)):
                self._readers[source].append((layer, position))
        self._stored: set[str] = set()
        self._low_precision: set[str] = set()
        self.integers: dict[Value, str] = {}
        self.fused: dict[str, Fused] = {}
        self.fused_into: dict[str, str] = {}
        self._find_stored(layers)
        self._find_integers(layers)
        products = [layer for layer in layers if self._is_product_on_integers(layer)]
        if not products:
            self.integers.clear()
            return
        for layer in products:
            self._fuse(layer, is_product=True)
        for layer in layers:
            moves = any((layer.id, port.number) in self.integers for port in layer.outputs)
            if (
                layer.type in CALCULATED
                and not moves
                and layer.id not in self._stored
                and layer.id not in self.fused_into
            ):
                self._fuse(layer, is_product=False)

    def is_stored(self, layer: LayerInfo) -> bool:
        """Return whether the results of a layer are constants."""
        return layer.id in self._stored

    def scale_of(self, quantization: LayerInfo) -> Value:
        """Return ``input_high`` of a quantization, in place of its scale: both have the same number of elements."""
        return next(islice(self._sources(quantization), 2, 3), ("", ""))

    def _sources(self, layer: LayerInfo) -> Iterator[Value]:
        """Yield the results that a layer reads, in the order of its operands."""
        for port in layer.inputs:
            yield self._edges.get((layer.id, port), ("", ""))

    def _find_stored(self, layers: Sequence[LayerInfo]) -> None:
        for layer in layers:
            sources = [source for source, _ in self._sources(layer)]
            unpacks = layer.type in UNPACKING and bool(sources) and self._stored.issuperset(sources)
            quantizes = layer.type == QUANTIZE and bool(sources) and sources[0] in self._stored
            if layer.type == "Const" or unpacks or quantizes:
                self._stored.add(layer.id)
            is_small = layer.type == "Const" and any(port.dtype in _WEIGHT_DTYPES for port in layer.outputs)
            if is_small or quantizes or (unpacks and not self._low_precision.isdisjoint(sources)):
                self._low_precision.add(layer.id)

    def _find_integers(self, layers: Sequence[LayerInfo]) -> None:
        for layer in layers:
            if layer.id in self._stored:
                continue
            values = [(layer.id, port.number) for port in layer.outputs]
            if layer.type == QUANTIZE:
                dtype = dtype_of(layer)
                if dtype and not any(reader.type == "Result" for reader, _ in self._readers[values[0]]):
                    self.integers[values[0]] = dtype
            elif layer.type in MOVES or (layer.type == "Interpolate" and layer.data.get("mode") == "nearest"):
                sources = [*self._sources(layer)]
                data = sources if layer.type == "Concat" else sources[:1]
                found = {self.integers.get(source, "") for source in data}
                if len(found) == 1 and "" not in found:
                    self.integers.update(dict.fromkeys(values, found.pop()))

    def _is_product_on_integers(self, layer: LayerInfo) -> bool:
        if layer.type not in PRODUCTS or len(layer.inputs) < 2 or len(layer.outputs) != 1:
            return False
        x, w = [*self._sources(layer)][:2]
        return x in self.integers and (w in self.integers or w[0] in self._low_precision)

    def _fuse(self, layer: LayerInfo, is_product: bool) -> None:
        """Find the layers fused into a layer, if it reads integers or its result is quantized."""
        if len(layer.outputs) != 1:
            return
        found, value = Fused(), (layer.id, layer.outputs[0].number)
        waiting: list[LayerInfo] = []
        # a product of two activations has no bias
        has_bias = is_product and [*self._sources(layer)][1][0] in self._low_precision
        while (reader := self._only_reader(value)) is not None and reader.id not in self.fused_into:
            sources = [*self._sources(reader)]
            result = (reader.id, reader.outputs[0].number)
            if reader.type == QUANTIZE and value == sources[0] and result in self.integers:
                found.quantized = reader
                found.layers = [*found.layers, *waiting, reader]
                break
            bias = next((source for source in sources if source[0] in self._stored), None)
            if has_bias and reader.type == "Add" and bias and not found.bias and not found.activation:
                found.bias = bias
                found.layers.append(reader)
            elif reader.type in (ACTIVATIONS if is_product else LIMITS) and not found.activation:
                found.activation = ACTIVATIONS[reader.type]
                (found.layers if is_product else waiting).append(reader)
            else:
                break
            value = result
        if not is_product and found.quantized is None:
            found.activation = ""
        reads_integers = any(source in self.integers for source in self._sources(layer))
        if is_product or found.quantized is not None or reads_integers:
            self.fused[layer.id] = found
            self.fused_into.update(dict.fromkeys((each.id for each in found.layers), layer.id))

    def _only_reader(self, value: Value) -> LayerInfo | None:
        readers = self._readers.get(value, ())
        return readers[0][0] if len(readers) == 1 and len(readers[0][0].outputs) == 1 else None


_WEIGHT_DTYPES = frozenset(("int8", "uint8", "int4", "uint4"))


def dtype_of(layer: LayerInfo) -> str:
    """Return the integer dtype of a quantization; empty if no dtype of ``WIDTHS`` holds its levels."""
    levels = integer(layer.data.get("levels", "")) or 0
    return next((dtype for bits, dtype in WIDTHS.items() if 2 <= levels <= 1 << bits), "")
