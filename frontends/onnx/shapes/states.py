"""Shapes of operators that carry a state, of optimizers, and of operators on texts and images."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.dims import Dim

from ..node import Node
from ..values.value import Undetermined, Value
from .elementwise import broadcast


def heads(node: Node, name: str) -> int:
    """How many heads an attribute says there are.

    Raises:
        CostError: where it says none.
    """
    count = node.args.get(name) or 0
    if count < 1:
        raise node.error(f"has no {name}")
    return int(count)


def linear_attention(node: Node) -> Sequence[Value]:
    """The output like the queries with the values' features, and the state, features of keys by those of values."""
    q, k, v = node.value("query"), node.value("key"), node.value("value")
    count, shared = heads(node, "q_num_heads"), heads(node, "kv_num_heads")
    for value in (q, k, v):
        if len(value.known) != 3:
            raise node.error(f"needs inputs of 3 dimensions, got {value.known}")
    for name, part in (("decay", "gated"), ("beta", "delta")):
        if part in node.args["update_rule"] and node.get(name) is None:
            raise node.error(f"has no input {name!r}, which the update_rule {node.args['update_rule']!r} needs")
    batch, steps, _ = q.known
    width, features = k.known[-1] // shared, v.known[-1] // shared
    state = node.get("past_state")
    return [
        node.result((batch, steps, count * features), q.dtype),
        node.result((batch, shared, width, features), state.dtype if state is not None else q.dtype),
    ]


def causal_conv(node: Node) -> Sequence[Value]:
    """The output like the input, and the last inputs, one less than the kernel is long."""
    x, w = node.value("input"), node.value("weight")
    last = node.args.get("channels_last")
    batch, channels = (x.known[0], x.known[-1]) if last else x.known[:2]
    kept = (w.known[-1] - 1) * node.args.get("dilation", 1)
    return [node.result(x.known, x.dtype), node.result((batch, channels, kept), x.dtype)]


def flex_attention(node: Node) -> Sequence[Value]:
    """Every query with the values' features."""
    q, v = node.value("Q"), node.value("V")
    return [node.result((*q.known[:-1], v.known[-1]), q.dtype)]


def optimizer(node: Node) -> Sequence[Value]:
    """The parameters and their moments, which come after parameters and gradients among the inputs."""
    given = node.values("inputs")
    parts = 4 if node.op == "Adam" else 3
    if len(given) % parts:
        raise node.error(f"has {len(given)} tensors, which are not {parts} for every parameter")
    count = len(given) // parts
    return [node.result(value.known, value.dtype) for value in (*given[:count], *given[2 * count :])]


def string_concat(node: Node) -> Sequence[Value]:
    """Pairs of texts, broadcast."""
    return [node.result(broadcast(node, node.value("X").known, node.value("Y").known), "string")]


def string_split(node: Node) -> Sequence[Value]:
    """The parts of every text, as many as the text with most of them has, and their number."""
    x = node.value("X")
    return [node.result((*x.known, 0 if x.size == 0 else None), "string"), node.result(x.known, "int64")]


def image(node: Node) -> Sequence[Value]:
    """Rows, columns and channels: only the data says how many rows and columns."""
    return [node.result((None, None, 1 if node.args.get("pixel_format") == "Grayscale" else 3), "uint8")]


def ngrams(node: Node) -> Sequence[Value]:
    """One count for every n-gram's place."""
    x = node.value("X")
    indices = node.args.get("ngram_indexes") or ()
    if not indices or not x.known:
        raise Undetermined
    return [node.result((*x.known[:-1], max(indices) + 1), "float32")]


def gram_count(node: Node) -> Dim:
    """How many n-grams a row of ``TfIdfVectorizer`` has, over all lengths and skips, at most."""
    length = node.value("X").known[-1]
    least, most = node.args.get("min_gram_length", 1), node.args.get("max_gram_length", 1)
    skips = node.args.get("max_skip_count", 0)
    total: Dim = 0
    for size in range(least, min(most, 64) + 1):
        count = skips + 1 if size > 1 else 1
        if isinstance(length, int) and size > 1:
            count = min(count, max(length - 1, 0) // (size - 1))
        total = total + count * length - (size - 1) * (count * (count + 1) // 2)
    return total


RULES = {
    "LinearAttention": linear_attention,
    "CausalConvWithState": causal_conv,
    "StringConcat": string_concat,
    "StringSplit": string_split,
    "ImageDecoder": image,
    "TfIdfVectorizer": ngrams,
}
PREVIEW_RULES = {"FlexAttention": flex_attention}
TRAINING_RULES = dict.fromkeys(("Adagrad", "Adam", "Momentum"), optimizer)
