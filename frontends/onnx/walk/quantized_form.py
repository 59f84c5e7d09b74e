"""Count operators between DequantizeLinear and QuantizeLinear nodes as runtimes run them: on quantized values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from costcore.ir import Layer, Tensor
from costcore.trace.call import Call
from costcore.trace.run import GraphNodes

from ..values.value import FLOATS, Value
from .quantization_order import SHAPES, Scales, place, quantize_as_runtimes_do, readers_of
from .recording import Recording

PRODUCTS = frozenset(("conv", "conv_transpose", "linear", "matmul"))
"""Products, which runtimes compute in integers if all factors are quantized."""

CALCULATED = frozenset(
    (
        *("relu", "leaky_relu", "hard_sigmoid", "hard_swish", "sigmoid", "silu", "tanh", "gelu", "clip", "erf", "sqrt"),
        *("softmax", "log_softmax", "batch_norm", "instance_norm", "layer_norm", "avg_pool", "reduce_mean", "resize"),
        *("add", "sub", "mul", "div", "maximum", "minimum", "pow", "concat", "where"),
    )
)
"""Operators that dequantize each operand and quantize the result as they compute it."""

MOVES = frozenset(
    (
        *("reshape", "identity", "copy", "transpose", "slice", "split", "tile", "broadcast_to", "pad", "max_pool"),
        *("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "depth_to_space"),
        *("space_to_depth", "reverse_sequence", "topk", "argmax", "argmin"),
    )
)
"""Operators that only choose or move elements: quantized ones are as good."""

LIMITS = frozenset(("relu", "clip"))
"""Functions that the limits of a quantization right after them include."""

VIEWS = frozenset(("reshape", "transpose", "identity"))
"""Operators through which a stored weight stays the same weight."""


class Source(NamedTuple):
    """The quantized value behind a real one.

    Attributes:
        tensor: the quantized value.
        identity: its operand id.
        scale: the call that dequantizes it, with scale and zero point.
    """

    tensor: Tensor
    identity: int
    scale: Call

    @property
    def is_stored(self) -> bool:
        """Whether the model stores it."""
        return self.tensor.role != "data"

    def as_operand(self, real: Tensor) -> Tensor:
        """Return it in the shape in which an operator reads the real value."""
        return Tensor(real.shape, self.tensor.dtype, self.tensor.role)


def fold_quantization(recording: Recording, values: Iterable[Value]) -> None:
    """Replace operators around which values are dequantized and quantized by their quantized forms; note how many.

    Args:
        recording: the run, with all its calls.
        values: the values of the outermost graph, for the elements of scales.
    """
    scales = Scales(values)
    quantize_as_runtimes_do(recording, scales)
    folding = _Folding(recording, scales)
    for call in recording.recorder.calls:
        folding.fold(call)
    folding.remove_unread()
    if folding.replaced:
        left_out = sum(call.layer.op in ("quantize", "dequantize") for call in folding.gone.values())
        recording.note(
            f"{len(folding.replaced)} operators between DequantizeLinear and QuantizeLinear are counted as runtimes "
            f"run them, on quantized values: {left_out} of these nodes are part of them{_at_the_ends(folding)}. "
            "keep_qdq=True counts each node"
        )
    folding.finish()


def _at_the_ends(folding: _Folding) -> str:
    """Return how many calls are left that convert real inputs and outputs of the network."""
    left = sum(folding.is_at_an_end(call) for call in folding.kept())
    those = "the one that is left converts" if left == 1 else f"{left} that are left convert"
    return f"; {those} real inputs or outputs of the network, which costs runtimes a pass, too" if left else ""


def keep_stored(recording: Recording) -> None:
    """Keep dequantized weights in the memory of the weights: runtimes dequantize them before, or as they use them."""
    derived: set[int] = set()
    for call in recording.recorder.calls:
        op = call.layer.op
        if op in ("quantize", "dequantize"):
            is_stored = call.layer["x"].role != "data" or call.inputs[0] in derived
        else:
            is_stored = op in VIEWS and bool(call.inputs) and call.inputs[0] in derived
        if is_stored:
            derived.add(call.outputs[0])
            recording.dataflow.views.append((call.outputs[0], call.inputs[0]))


class _Folding:
    """One pass over the calls of a run.

    Attributes:
        replaced: the calls in quantized form, by the first output of what they replace.
        gone: the calls that others stand for, by first output.
    """

    def __init__(self, recording: Recording, scales: Scales) -> None:
        self._recorder, self._scales = recording.recorder, scales
        self.replaced: dict[int, Call] = {}
        self.gone: dict[int, Call] = {}
        self._moved: dict[int, int] = {}
        """Quantized values by the ids of the real ones."""
        self._absorbed: dict[int, set[int]] = defaultdict(set)
        """First outputs of the calls that read a value no more, by its id."""
        self._producers: dict[int, Call] = {}
        self._readers = readers_of(recording)
        """First outputs of the calls that read a value, by its id; 0 for any other reader."""
        for call in self._recorder.calls:
            self._producers.update((i, call) for i in call.outputs if i not in call.inputs)  # views of stored values

    def fold(self, call: Call) -> None:
        """Fold what dequantizes and quantizes around a call into it, if it has a quantized form."""
        op = call.layer.op
        if op not in PRODUCTS | CALCULATED | MOVES or not call.outputs or call.outputs[0] in self.gone:
            return
        operands = zip(call.layer.inputs, call.inputs, strict=True)
        sources = {name: found for name, i in operands if (found := self._source(i, call)) is not None}
        if op in MOVES:
            self._move(call, sources)
        elif op in CALCULATED or self._is_quantized(call, sources):
            nodes = [call, *self._quantized_after(call)]
            if len(nodes) > 1 or any(not source.is_stored for source in sources.values()):
                self._take(nodes, f"quantized_{op}", sources)
        elif op == "matmul" and sources.keys() == {"x1"} and sources["x1"].is_stored:
            self._take([call], "packed_matmul", sources, {"x0": "x", "x1": "w"})  # dequantized as it is used

    @staticmethod
    def _is_quantized(call: Call, sources: Mapping[str, Source]) -> bool:
        """Return whether all data that a product multiplies is quantized."""
        return bool(sources) and all(
            name in sources for name, x in call.layer.inputs.items() if name != "b" and x.dtype in FLOATS
        )

    def _source(self, identity: int, reader: Call) -> Source | None:
        """Return the quantized value behind a value; None if it is not dequantized."""
        call, is_view = self._producers.get(identity), False
        while call is not None and call.layer.op in VIEWS and call.inputs:
            call, is_view = self._producers.get(call.inputs[0]), True
        if call is None or call.layer.op != "dequantize":
            return None
        source = Source(call.layer["x"], call.inputs[0], call)
        made = self._producers.get(source.identity)
        if made is not None and made.layer.op == "quantize" and made.layer["x"].role != "data":
            weight = made.layer["x"]  # quantized as it is stored
            source = Source(Tensor(weight.shape, source.tensor.dtype, weight.role), made.inputs[0], call)
        return source if source.is_stored or not (is_view or place(call) != place(reader)) else None

    def _only_reader(self, call: Call, output: int = 0) -> Call | None:
        """Return the call that alone reads an output of a call, as often as it runs; None otherwise."""
        readers = self._readers.get(call.outputs[output], ())
        reader = self._producers.get(readers[0]) if len(readers) == 1 else None
        is_first = reader is not None and reader.inputs[:1] == call.outputs[output : output + 1]
        return reader if reader is not None and is_first and place(reader) == place(call) else None

    def _quantized_after(self, call: Call, output: int = 0) -> list[Call]:
        """Return the calls that limit and quantize an output of a call, the last one last; empty if none does."""
        reader = self._only_reader(call, output)
        limits = []
        if reader is not None and reader.layer.op in LIMITS and call.layer.op not in MOVES:
            limits, reader = [reader], self._only_reader(reader)
        return [*limits, reader] if reader is not None and reader.layer.op == "quantize" else []

    def _move(self, call: Call, sources: Mapping[str, Source]) -> None:
        """Replace an operator that moves elements by itself on quantized ones, if it leaves their scale."""
        layer = call.layer
        if not sources or any(name not in sources for name, x in layer.inputs.items() if x.dtype in FLOATS):
            return
        quantized: list[Call] = []
        for k, tensor in enumerate(layer.outputs):
            if tensor.dtype in FLOATS and self._readers.get(call.outputs[k]):
                after = self._quantized_after(call, k)
                if not after or not all(self._scales.are_equal(source.scale, after[0]) for source in sources.values()):
                    if layer.op == "gather" and layer.attrs.get("axis") == 0 and sources["x"].is_stored:
                        self._take([call], "packed_embedding", sources, {"x": "w", "indices": "x"})
                    return
                quantized += after
        if not quantized and any(tensor.dtype in FLOATS for tensor in layer.outputs):
            return
        dtype = next(iter(sources.values())).tensor.dtype
        operands = {name: sources[name].as_operand(x) if name in sources else x for name, x in layer.inputs.items()}
        outputs = [Tensor(x.shape, dtype) if x.dtype in FLOATS else x for x in layer.outputs]
        ids = {reader.inputs[0]: reader.outputs[0] for reader in quantized}
        identities = [sources[n].identity if n in sources else i for n, i in zip(operands, call.inputs, strict=True)]
        moved = tuple(ids.get(identity, identity) for identity in call.outputs)
        new = Layer(layer.op, operands, outputs, layer.attrs)
        if layer.op == "gather" and _is_embedding(new):
            new = Layer("embedding", {"x": new["indices"], "w": new["x"]}, outputs)
            identities.reverse()
        self._replace(call, quantized, new, identities, moved)
        self._absorb(call, sources)

    def _take(
        self, nodes: Sequence[Call], op: str, sources: Mapping[str, Source], names: Mapping[str, str] | None = None
    ) -> None:
        """Replace an operator, and what limits and quantizes its output, by ``op`` on quantized values.

        Args:
            nodes: the operator first, the quantization last.
            op: canonical name of the quantized form.
            sources: its quantized operands by name.
            names: new names of operands.
        """
        call, last, new_names = nodes[0], nodes[-1], names or {}
        operands: dict[str, Tensor] = {}
        identities = []
        for own, tensor, identity in zip(call.layer.inputs, call.layer.inputs.values(), call.inputs, strict=True):
            source = sources.get(own)
            operands[new_names.get(own, own)] = tensor if source is None else source.as_operand(tensor)
            identities.append(identity if source is None else source.identity)
        scaled = [(new_names.get(own, own), source.scale) for own, source in sources.items()]
        if call.layer.op in PRODUCTS:
            scaled = [(name, scale) for name, scale in scaled if name != "b"]  # its scale is that of the sums
        if last.layer.op == "quantize":
            scaled.append(("y", last))
        for name, scale in scaled:
            for part, tensor, identity in zip(
                scale.layer.inputs, scale.layer.inputs.values(), scale.inputs, strict=True
            ):
                if part != "x":
                    operands[f"{name}_{part}"] = tensor
                    identities.append(identity)
        layer = Layer(op, operands, last.layer.outputs, call.layer.attrs)
        self._replace(call, nodes[1:], layer, identities, last.outputs)
        self._absorb(call, sources)

    def _absorb(self, call: Call, sources: Mapping[str, Source]) -> None:
        """Note that a call reads the quantized values instead."""
        for name, identity in zip(call.layer.inputs, call.inputs, strict=True):
            if name in sources:
                self._absorbed[identity].add(call.outputs[0])
                self._moved[identity] = sources[name].identity
                self._readers[sources[name].identity].append(call.outputs[0])

    def _replace(
        self, call: Call, after: Sequence[Call], layer: Layer, identities: Sequence[int], outputs: tuple[int, ...]
    ) -> None:
        """Note the call of ``layer`` that stands for a call and for those right after it."""
        nodes = [self._recorder.nodes[each.name] for each in (call, *after)]
        produced = [name for each in nodes for name in each.outputs] if len(outputs) > 1 else nodes[-1].outputs
        self.replaced[call.outputs[0]] = call._replace(
            layer=self._recorder.intern(layer),
            name=self._recorder.nodes_key(
                GraphNodes(tuple(name for each in nodes for name in each.names), tuple(produced))
            ),
            inputs=tuple(identities),
            outputs=outputs,
            parameters=tuple(i for i, x in zip(identities, layer.inputs.values(), strict=True) if x.role == "param"),
        )
        self._moved.update(zip(call.outputs, outputs, strict=True))
        self.gone.update((each.outputs[0], each) for each in (call, *after))

    def remove_unread(self) -> None:
        """Remove what dequantizes for folded calls only, what quantizes a weight for it, and constants."""
        removed: set[int] = set()
        for call in reversed(self._recorder.calls):
            if not call.outputs or call.outputs[0] in self.gone:
                continue
            identity, op = call.outputs[0], call.layer.op
            readers = self._readers.get(identity, ())
            if op == "constant":  # runtimes compute it once
                if self.replaced and 0 not in readers:
                    self.gone[identity] = call
                continue
            is_stored = op in ("quantize", "dequantize") and self._is_stored(call)
            if op not in VIEWS and op != "dequantize" and not is_stored:
                continue
            settings = {r for r in readers if is_stored and r in self.gone and identity not in self.gone[r].inputs}
            absorbed = self._absorbed.get(identity, set()) | removed | settings
            if all(reader in absorbed for reader in readers) and (readers or is_stored):
                removed.add(identity)
                self.gone[identity] = call

    def _is_stored(self, call: Call) -> bool:
        """Return whether a call quantizes or dequantizes what the model stores."""
        made = self._producers.get(call.inputs[0])
        is_stored = made is not None and made.layer.op == "quantize" and made.layer["x"].role != "data"
        return call.layer["x"].role != "data" or is_stored

    def kept(self) -> list[Call]:
        """Return the calls for which no other stands."""
        return [call for call in self._recorder.calls if not call.outputs or call.outputs[0] not in self.gone]

    def is_at_an_end(self, call: Call) -> bool:
        """Return whether a call quantizes an input of the network, or dequantizes an output."""
        if call.layer.op == "quantize":
            return call.inputs[0] in self._recorder.inputs
        return call.layer.op == "dequantize" and call.outputs[0] in self._recorder.returned

    def finish(self) -> None:
        """Write the new calls into the run."""
        calls = []
        for call in self._recorder.calls:
            first = call.outputs[0] if call.outputs else 0
            if first in self.replaced:
                calls.append(self.replaced[first])
            elif first not in self.gone:
                is_shape = call.layer.op in SHAPES
                moved = tuple(self._moved.get(i, i) for i in call.inputs) if is_shape else call.inputs
                calls.append(call._replace(inputs=moved) if moved != call.inputs else call)
        self._recorder.calls[:] = calls


def _is_embedding(layer: Layer) -> bool:
    """Return whether a gather looks rows up in a learned matrix, as in :mod:`..rows.indexing`."""
    table = layer["x"]
    is_learned = table.role == "param" and len(table.shape) == 2
    return is_learned and layer.attrs.get("axis") == 0 and layer["indices"].role == "data"
