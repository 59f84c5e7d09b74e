"""Searches for texts: operators of ONNX Runtime that hold encoder and decoder, and run the decoder for every token.

The encoder, or the decoder on the prompt, is counted once; the decoder on one token as often as tokens are left until
the longest text is reached, each time with as many tokens before it as there are in the middle of the search. What is
done with the decoder's scores is the operator's own call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from costcore.dims import Dim, maximum

from ..contrib.text import Search
from ..graph.node import Inferred, Node
from ..graph.scope import GraphContext, Scope
from ..values.declared_types import declared_shape
from ..values.dimensions import called
from ..values.value import DTYPES, Shape, Value
from .walker import Outputs, Walker

SEARCHES: Mapping[str, str] = {
    "com.microsoft::BeamSearch": "beam",
    "com.microsoft::WhisperBeamSearch": "beam",
    "com.microsoft::GreedySearch": "greedy",
    "com.microsoft::Sampling": "sample",
}
"""How each operator chooses tokens."""


class Run(NamedTuple):
    """One run of a graph: rows, new tokens and those before, and how many places of the source are attended to."""

    rows: Dim
    new: Dim
    before: Dim
    source: Dim | None


def search(walker: Walker, node: Node, scope: Scope, context: GraphContext) -> Outputs:
    """The graphs as often as they run, and the choice of tokens."""
    ids = node.value("input_ids")
    batch, encoder = ids.known[0], node.args.get("encoder")
    beams = _number(walker, node, context, "num_beams") if SEARCHES[node.key] == "beam" else 1
    longest = _number(walker, node, context, "max_length")
    if encoder is not None:
        forced = node.get("decoder_input_ids")
        begun: Dim = forced.known[1] if forced is not None else 1
        made = yield from _graph(walker, node, scope, context, "encoder", Run(batch, begun, 0, ids.known[1]), 1, ids)
        source = _source(encoder, made, ids)
    else:
        begun, source = ids.known[1], None
        name = "init_decoder" if node.args.get("init_decoder") is not None else "decoder"
        made = yield from _graph(walker, node, scope, context, name, Run(batch * beams, begun, 0, None), 1)
    steps = maximum(longest - begun, 0)
    times = maximum(steps - 1, 0)  # the scores of the first token are there already
    mark = walker.recording.checkpoint()
    run = Run(batch * beams, 1, begun + times // 2, source)
    later = yield from _graph(walker, node, scope, context, "decoder", run, times)
    if isinstance(times, int) and times == 0:
        walker.recording.take_calls(mark)
    walker.recording.assume(
        f"when the search ends depends on data: {longest} tokens are reached, and the decoder runs {times} times for "
        "one token, each time with as many before it as in the middle of the search",
        node.label,
    )
    scores = later[0] if later else made[0]
    size = node.args.get("vocab_size") if node.args.get("vocab_size", -1) > 0 else scores.known[-1]
    logits = scores.viewed((batch * beams, 1, size))
    node.inferred = Inferred((), Search(SEARCHES[node.key], steps, beams, logits))
    node.outputs = _outputs(walker, node, Made(batch, beams, longest, steps, size, source), context)
    walker.recording.record(node, context)
    return node.outputs


def _number(walker: Walker, node: Node, context: GraphContext, name: str) -> Dim:
    """A number that is an input, a symbol where it is not known."""
    value = node.value(name)
    if value.data is not None:
        found: Dim = value.data.ravel()[0]
        return found
    symbol = walker.dims.fresh(f"{context.prefix}{node.proto.name or node.proto.output[0]}_{name}")
    walker.recording.assume(
        f"{name} depends on data: it is {called(symbol)}{walker.recording.hints.remedy(value)}", node.label
    )
    return symbol


def _graph(
    walker: Walker,
    node: Node,
    scope: Scope,
    context: GraphContext,
    name: str,
    run: Run,
    times: Dim,
    given: Value | None = None,
) -> Any:
    """Walk one of the node's graphs; its first input is ``given``, or token ids."""
    graph = node.args.get(name)
    if graph is None or not graph.input:
        raise node.error(f"has no graph {name!r} with inputs")
    inner, around = Scope(scope), context.of_subgraph(node, name, times)
    for i, entry in enumerate(graph.input):
        dtype = DTYPES.get(entry.type.tensor_type.elem_type, "int32")
        declared = declared_shape(entry.type.tensor_type, walker.dims)
        if i == 0 and given is not None:
            value = Value(given.known, dtype)
        else:
            value = Value(_shape(walker, entry.name, declared, run, f"{around.prefix}{entry.name}"), dtype)
        inner.values[entry.name] = value
    return (yield walker.walk_graph(graph, inner, around))


def _shape(walker: Walker, name: str, declared: Any, run: Run, full_name: str) -> Shape | None:
    """The shape of a graph's input: what it declares as a number, else what its name and rank say that it is."""
    if declared is None:
        return None
    rank = len(declared)
    length = run.before if run.source is None or "cross" not in name else run.source
    total = run.before + run.new if run.source is None else run.source
    if "past" in name and rank in (4, 5):
        meant: dict[int, Dim] = {rank - 4: run.rows, rank - 2: length}
    elif rank == 3:
        meant = {0: run.rows, 1: total}
    elif rank == 2:
        meant = {0: run.rows, 1: total if "mask" in name else run.new}
    else:
        meant = {}
    shape = [meant.get(i, d) if not isinstance(d, int) else d for i, d in enumerate(declared)]
    return tuple(walker.dims.fresh(f"{full_name}_{i}") if d is None else d for i, d in enumerate(shape))


def _source(encoder: Any, made: list[Value], ids: Value) -> Dim:
    """How many places of its source an encoder makes: hidden states say so, else keys for the decoder to attend to."""
    for entry, value in zip(encoder.output, made, strict=False):
        if value.shape is not None and "hidden" in entry.name and len(value.shape) == 3:
            return value.shape[1]
        if value.shape is not None and "cross" in entry.name and len(value.shape) == 4:
            return value.shape[2]
    return ids.known[1]


class Made(NamedTuple):
    """Sizes of what a search makes."""

    batch: Dim
    beams: Dim
    longest: Dim
    steps: Dim
    size: Dim
    source: Dim | None


def _outputs(walker: Walker, node: Node, made: Made, context: GraphContext) -> list[Value | None]:
    """The texts, and what is told of their scores."""
    returned = node.get("num_return_sequences")
    count: Dim = returned.data.ravel()[0] if returned is not None and returned.data is not None else made.beams
    batch, longest = made.batch, made.longest
    shapes: list[tuple[Shape, str]]
    if SEARCHES[node.key] == "beam":
        shapes = [((batch, count, longest), "int32"), ((batch, count), "float32")]
        shapes.append(((made.steps, batch, made.beams, made.size), "float32"))
    else:
        shapes = [((batch, longest), "int32"), ((batch, made.size), "float32")]
    if node.op == "WhisperBeamSearch" and len(node.proto.output) > 3:
        chosen = node.get("cross_qk_layer_head")
        heads = (
            chosen.known[0] if chosen is not None else walker.dims.fresh(f"{context.prefix}{node.proto.output[3]}_2")
        )
        shapes += [((batch, count, heads, longest, made.source or 0), "float32"), ((batch,), "float32")]
    values = [Value(shape, dtype) for shape, dtype in shapes]
    return [value if name else None for value, name in zip(values, node.proto.output, strict=False)]
