"""Shapes of operators on tokens, texts and n-grams that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.dims import Dim

from ..graph.node import Node
from ..values.value import Value
from .rules import heads


def unique(node: Node) -> Sequence[Value]:
    """Different elements, where each element is among them, and how often each is there."""
    x = node.value("x")
    if len(x.known) != 1:
        raise node.error(f"needs an input of one dimension, got {x.known}")
    return [node.result((None,), x.dtype), node.result(x.known, "int64"), node.result((None,), "int64")]


def tokens(node: Node) -> Sequence[Value]:
    """As many tokens of each text as the text with most of them has."""
    x = node.value("X")
    if len(x.known) not in (1, 2):
        raise node.error(f"needs texts along one or two axes, got {x.known}")
    return [node.result((*x.known, None), "string")]


def blocked(node: Node) -> Sequence[Value]:
    """The scores as they are, some of them changed."""
    heads(node, "ngram_size")
    ids, scores = node.value("input_ids"), node.value("scores")
    if len(ids.known) != 2:
        raise node.error(f"needs token ids [N, T], got {ids.known}")
    return [node.result(scores.known, scores.dtype)]


def hashed(node: Node) -> Sequence[Value]:
    """One hash of 32 bits an element."""
    return [node.result(node.value("X").known, "uint32" if node.args.get("positive", 1) else "int32")]


def hashed_ngrams(node: Node) -> Sequence[Value]:
    """One number for every token, length of n-grams and head; the last tokens; and states on the way to them."""
    ids, largest = node.value("input_ids"), heads(node, "max_ngram_size")
    if largest < 2:
        raise node.error(f"has max_ngram_size {largest}, which must be 2 or more")
    before = largest - 1
    count: Dim = ids.known[0]
    if node.op == "VarlenNGramHashMapping":
        count = node.value("cumulative_sequence_length").known[0] - 1
    hashes = node.result((*ids.known, before * heads(node, "n_head_per_ngram")), ids.dtype)
    update = (count, node.args.get("state_update_capacity", 0), before)
    return [
        hashes,
        node.result((count, before), ids.dtype),
        node.result((count, before), "int32"),
        node.result(update, ids.dtype),
    ]


def word_vectors(node: Node) -> Sequence[Value]:
    """A vector for every word of letters."""
    words, w = node.value("Sequence"), node.value("W")
    if len(w.known) != 4:
        raise node.error(f"needs filters [F, 1, K, E], got {w.known}")
    letters, window = words.known[-1], w.known[2]
    if isinstance(letters, int) and isinstance(window, int) and letters < window:
        raise node.error(f"has words of {letters} letters, and filters over {window}")
    return [node.result((*words.known[:-1], w.known[0]), w.dtype)]


def path(node: Node) -> Sequence[Value]:
    """The places of a path through a matrix; its length depends on data."""
    shape = node.value("input").known
    if len(shape) < 2:
        raise node.error(f"needs a matrix of costs, got {shape}")
    return [node.result((2, None), "int32")]


def suffix(node: Node) -> Sequence[Value]:
    """The tokens so far, whose number depends on data, and where the source goes on."""
    return [node.result((None,), node.value("cur_tokens").dtype), node.result((), "int64")]


ADDED = {
    "Unique": unique,
    "Tokenizer": tokens,
    "MurmurHash3": hashed,
    **dict.fromkeys(("NGramHashMapping", "VarlenNGramHashMapping"), hashed_ngrams),
    "NGramRepeatBlock": blocked,
    "WordConvEmbedding": word_vectors,
    "DynamicTimeWarping": path,
    "BifurcationDetector": suffix,
}
