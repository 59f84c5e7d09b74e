"""Text generation: operators of ONNX Runtime that hold an encoder and a decoder and run the decoder for every token.

The encoder, or the decoder on the prompt, is counted once. The decoder on one token is counted for every further token
up to the maximum length, each time with the number of past tokens in the middle of the search. What the operator does
with the decoder's scores is its own call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from costcore.numbers.dims import Dim, maximum

from ..graph.node import Inferred, Node
from ..graph.scope import GraphContext, Scope
from ..values.declared_types import declared_shape
from ..values.dimensions import describe_size
from ..values.value import DTYPES, Shape, Value
from .walker import Outputs, Walker

SEARCHES: Mapping[str, str] = {
    "com.microsoft::BeamSearch": "beam",
    "com.microsoft::WhisperBeamSearch": "beam",
    "com.microsoft::GreedySearch": "greedy",
    "com.microsoft::Sampling": "sample",
}
"""How each operator chooses tokens."""


class GraphRun(NamedTuple):
    """One run of an encoder or decoder.

    Attributes:
        rows: sequences of the batch, beams included.
        new: new tokens of each.
        past: tokens before these.
        source: length of the encoder's output; None without an encoder.
    """

    rows: Dim
    new: Dim
    past: Dim
    source: Dim | None


class SearchSizes(NamedTuple):
    """Sizes of the outputs of a search.

    Attributes:
        batch: number of prompts.
        beams: number of beams.
        longest: maximum length of a sequence.
        steps: number of tokens generated for each.
        vocabulary: number of different tokens.
        source: length of the encoder's output; None without an encoder.
    """

    batch: Dim
    beams: Dim
    longest: Dim
    steps: Dim
    vocabulary: Dim
    source: Dim | None


def search(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs:
    """Walk the graphs of a search as often as they run, and record the choice of tokens."""
    ids = node.value("input_ids")
    walker.recording.dataflow.unknown.setdefault(f"{node.label} keeps its cache between the runs of the decoder")
    batch, encoder = ids.known_shape[0], node.args.get("encoder")
    beams = _number(walker, node, context, "num_beams") if SEARCHES[node.key] == "beam" else 1
    longest = _number(walker, node, context, "max_length")
    if encoder is not None:
        prompt = node.get("decoder_input_ids")
        first: Dim = prompt.known_shape[1] if prompt is not None else 1
        run = GraphRun(batch, first, 0, ids.known_shape[1])
        outputs = yield from _walk_graph(walker, node, scope, context, "encoder", run, 1, ids)
        source = _source_length(encoder, outputs, ids)
    else:
        first, source = ids.known_shape[1], None
        name = "init_decoder" if node.args.get("init_decoder") is not None else "decoder"
        run = GraphRun(batch * beams, first, 0, None)
        outputs = yield from _walk_graph(walker, node, scope, context, name, run, 1)
    steps = maximum(longest - first, 0)
    times = maximum(steps - 1, 0)  # the first run gave the scores of the first token
    mark = walker.recording.checkpoint()
    run = GraphRun(batch * beams, 1, first + times // 2, source)
    later = yield from _walk_graph(walker, node, scope, context, "decoder", run, times)
    if isinstance(times, int) and times == 0:
        walker.recording.take(mark)
    walker.recording.assume(
        f"the length of the generated text depends on data: assumed {longest} tokens; the decoder runs {times} times "
        "on one token, with the number of past tokens in the middle of the search",
        node.label,
    )
    scores = later[0] if later else outputs[0]
    vocabulary = node.args.get("vocab_size") if node.args.get("vocab_size", -1) > 0 else scores.known_shape[-1]
    logits = scores.viewed((batch * beams, 1, vocabulary))
    from ..contrib.text.tokens import Search

    node.inferred = Inferred((), Search(SEARCHES[node.key], steps, beams, logits))
    node.outputs = _outputs(walker, node, SearchSizes(batch, beams, longest, steps, vocabulary, source), context)
    walker.recording.record(node, context)
    return node.outputs


def _number(walker: Walker, node: Node, context: GraphContext, name: str) -> Dim:
    """Return the number that an input carries, a symbol if it is unknown."""
    value = node.value(name)
    if value.data is not None:
        found: Dim = value.data.ravel()[0]
        return found
    symbol = walker.dims.fresh(f"{context.prefix}{node.proto.name or node.proto.output[0]}_{name}")
    hint = walker.recording.hints.remedy(value)
    walker.recording.assume(f"{name} depends on data: assumed {describe_size(symbol)}{hint}", node.label)
    return symbol


def _walk_graph(
    walker: Walker,
    node: Node,
    scope: Scope,
    context: GraphContext,
    name: str,
    run: GraphRun,
    times: Dim,
    first_input: Value | None = None,
) -> Any:
    """Walk the graph ``name`` of the node; its first input is ``first_input``, or token ids."""
    graph = node.args.get(name)
    if graph is None or not graph.input:
        raise node.error(f"has no graph {name!r} with inputs")
    inner, inside = Scope(scope), context.of_subgraph(node, name, times)
    for i, entry in enumerate(graph.input):
        dtype = DTYPES.get(entry.type.tensor_type.elem_type, "int32")
        declared = declared_shape(entry.type.tensor_type, walker.dims)
        if i == 0 and first_input is not None:
            value = Value(first_input.known_shape, dtype)
        else:
            value = Value(_input_shape(walker, entry.name, declared, run, f"{inside.prefix}{entry.name}"), dtype)
        inner.values[entry.name] = value
    return (yield walker.walk_graph(graph, inner, inside))


def _input_shape(walker: Walker, name: str, declared: Any, run: GraphRun, full_name: str) -> Shape | None:
    """Return the shape of a graph's input: declared numbers, else sizes that its name and rank imply."""
    if declared is None:
        return None
    rank = len(declared)
    length = run.past if run.source is None or "cross" not in name else run.source
    total = run.past + run.new if run.source is None else run.source
    if "past" in name and rank in (4, 5):
        implied: dict[int, Dim] = {rank - 4: run.rows, rank - 2: length}
    elif rank == 3:
        implied = {0: run.rows, 1: total}
    elif rank == 2:
        implied = {0: run.rows, 1: total if "mask" in name else run.new}
    else:
        implied = {}
    shape = [implied.get(i, d) if not isinstance(d, int) else d for i, d in enumerate(declared)]
    return tuple(walker.dims.fresh(f"{full_name}_{i}") if d is None else d for i, d in enumerate(shape))


def _source_length(encoder: Any, outputs: list[Value], ids: Value) -> Dim:
    """Return the length of the encoder's output: of its hidden states, else of the keys for cross-attention."""
    for entry, value in zip(encoder.output, outputs, strict=False):
        if value.shape is not None and "hidden" in entry.name and len(value.shape) == 3:
            return value.shape[1]
        if value.shape is not None and "cross" in entry.name and len(value.shape) == 4:
            return value.shape[2]
    return ids.known_shape[1]


def _outputs(walker: Walker, node: Node, sizes: SearchSizes, context: GraphContext) -> list[Value | None]:
    """Return the sequences and their scores."""
    returned = node.get("num_return_sequences")
    count: Dim = returned.data.ravel()[0] if returned is not None and returned.data is not None else sizes.beams
    batch, longest = sizes.batch, sizes.longest
    shapes: list[tuple[Shape, str]]
    if SEARCHES[node.key] == "beam":
        shapes = [((batch, count, longest), "int32"), ((batch, count), "float32")]
        shapes.append(((sizes.steps, batch, sizes.beams, sizes.vocabulary), "float32"))
    else:
        shapes = [((batch, longest), "int32"), ((batch, sizes.vocabulary), "float32")]
    if node.op == "WhisperBeamSearch" and len(node.proto.output) > 3:
        selected = node.get("cross_qk_layer_head")
        name = f"{context.prefix}{node.proto.output[3]}_2"
        heads = selected.known_shape[0] if selected is not None else walker.dims.fresh(name)
        shapes += [((batch, count, heads, longest, sizes.source or 0), "float32"), ((batch,), "float32")]
    values = [Value(shape, dtype) for shape, dtype in shapes]
    return [value if name else None for value, name in zip(values, node.proto.output, strict=False)]
