"""Operators on strings and tokens that ONNX Runtime adds, and searches for texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from costcore.numbers.dims import Dim
from costcore.translate import Arguments

from ...graph.node import Node
from ...rows.arguments import fact
from ...schema.constraints import Constraints
from ...shapes.rules import positive
from ...values.value import Value
from ..spec import OperatorSpec, row

LONGEST_GRAM = 1024
"""Longer n-grams are refused: the cost is a sum over all their lengths."""


def tokens(node: Node) -> Sequence[Value]:
    """Infer the tokens of each string, as many as the longest has."""
    x = node.value("X")
    if len(x.known_shape) not in (1, 2):
        raise node.error(f"needs strings of 1 or 2 dimensions (got the shape {x.known_shape})")
    return [node.result((*x.known_shape, None), "string")]


def blocked(node: Node) -> Sequence[Value]:
    """Infer scores like the input."""
    positive(node, "ngram_size")
    ids, scores = node.value("input_ids"), node.value("scores")
    if len(ids.known_shape) != 2:
        raise node.error(f"needs token ids [N, T] (got the shape {ids.known_shape})")
    return [node.result(scores.known_shape, scores.dtype)]


def hashed(node: Node) -> Sequence[Value]:
    """Infer one 32-bit hash for each element."""
    return [node.result(node.value("X").known_shape, "uint32" if node.args.get("positive", 1) else "int32")]


def hashed_ngrams(node: Node) -> Sequence[Value]:
    """Infer one hash for each token, n-gram length and head, the last tokens, and captured states."""
    ids, largest = node.value("input_ids"), positive(node, "max_ngram_size")
    if largest < 2:
        raise node.error(f"has max_ngram_size {largest}, which must be 2 or more")
    before = largest - 1
    count: Dim = ids.known_shape[0]
    if node.op == "VarlenNGramHashMapping":
        count = node.value("cumulative_sequence_length").known_shape[0] - 1
    hashes = node.result((*ids.known_shape, before * positive(node, "n_head_per_ngram")), ids.dtype)
    update = (count, node.args.get("state_update_capacity", 0), before)
    return [
        hashes,
        node.result((count, before), ids.dtype),
        node.result((count, before), "int32"),
        node.result(update, ids.dtype),
    ]


def word_vectors(node: Node) -> Sequence[Value]:
    """Infer a vector for each word."""
    words, w = node.value("Sequence"), node.value("W")
    if len(w.known_shape) != 4:
        raise node.error(f"needs filters [F, 1, K, E] (got the shape {w.known_shape})")
    letters, window = words.known_shape[-1], w.known_shape[2]
    if isinstance(letters, int) and isinstance(window, int) and letters < window:
        raise node.error(f"has words of {letters} letters, and filters over {window}")
    return [node.result((*words.known_shape[:-1], w.known_shape[0]), w.dtype)]


def path(node: Node) -> Sequence[Value]:
    """Infer the positions of a path through a matrix; its length depends on data."""
    shape = node.value("input").known_shape
    if len(shape) < 2:
        raise node.error(f"needs a matrix of costs (got the shape {shape})")
    return [node.result((2, None), "int32")]


def suffix(node: Node) -> Sequence[Value]:
    """Infer the tokens so far, whose number depends on data, and the position at which the source continues."""
    return [node.result((None,), node.value("cur_tokens").dtype), node.result((), "int64")]


@dataclass(frozen=True, slots=True)
class Search:
    """A token search: how it chooses tokens, its steps, its beams per sample, and the scores it chooses by."""

    search: str
    steps: Dim
    beams: Dim
    logits: Value


def _prompt(a: Arguments) -> Any:
    """Return the tokens that a search continues; with an encoder, the forced ones, if any."""
    return a.get("input_ids") if a.get("encoder") is None else a.get("decoder_input_ids")


SEARCH = row(
    "token_search",
    {
        "x": _prompt,
        "logits": fact(Search, lambda f: f.logits),
        "allowed": "vocab_mask",
        "allowed_first": "prefix_vocab_mask",
    },
    {
        "search": fact(Search, lambda f: f.search),
        "steps": fact(Search, lambda f: f.steps),
        "beams": fact(Search, lambda f: f.beams),
    },
)


BEAMS = (
    "input_ids max_length min_length num_beams num_return_sequences length_penalty repetition_penalty vocab_mask "
    "prefix_vocab_mask attention_mask decoder_input_ids logits_processor"
)
GREEDY = "input_ids max_length min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask"

SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "Tokenizer",
        "X",
        infer=tokens,
        rows=[row("tokenize", {"x": "X"})],
    ),
    OperatorSpec(
        "MurmurHash3",
        "X",
        attributes="positive",
        infer=hashed,
        rows=[row("hash", {"x": "X"})],
    ),
    *(
        OperatorSpec(
            op,
            inputs,
            required=required,
            attributes=attributes,
            infer=hashed_ngrams,
            rows=[
                row(
                    "hash_ngrams",
                    {
                        "x": "input_ids",
                        "factors": "multipliers",
                        "sizes": "vocab_sizes",
                        "past": "past_ids",
                        "offsets": "head_offsets",
                        "segments": "segment_ids",
                    },
                    {"n": "max_ngram_size"},
                )
            ],
        )
        for op, inputs, required, attributes in (
            (
                "NGramHashMapping",
                "input_ids multipliers vocab_sizes past_ids head_offsets eos_token_id segment_ids",
                3,
                "n_head_per_ngram max_ngram_size",
            ),
            (
                "VarlenNGramHashMapping",
                "input_ids multipliers vocab_sizes cumulative_sequence_length past_ids head_offsets "
                "eos_token_id segment_ids past_segment_ids capture_count",
                4,
                "n_head_per_ngram state_update_capacity max_ngram_size",
            ),
        )
    ),
    OperatorSpec(
        "NGramRepeatBlock",
        "input_ids scores",
        required=2,
        attributes="ngram_size",
        infer=blocked,
        rows=[row("block_ngrams", {"x": "input_ids", "scores": "scores"}, {"n": "ngram_size"})],
    ),
    OperatorSpec(
        "WordConvEmbedding",
        "Sequence W B C",
        required=4,
        infer=word_vectors,
        rows=[row("word_convolution", {"x": "Sequence", "w0": "W", "b0": "B", "w1": "C"})],
    ),
    OperatorSpec(
        "DynamicTimeWarping",
        "input",
        infer=path,
        rows=[row("time_warping", {"x": "input"})],
    ),
    OperatorSpec(
        "BifurcationDetector",
        "src_tokens cur_tokens prev_suffix_match_idx pred_tokens",
        required=3,
        attributes="min_ngram_size max_ngram_size",
        constraints=Constraints(maximums={"max_ngram_size": LONGEST_GRAM}),
        infer=suffix,
        rows=[
            row(
                "match_suffix",
                {
                    "x": "src_tokens",
                    "tokens": "cur_tokens",
                    "place": "prev_suffix_match_idx",
                    "predicted": "pred_tokens",
                },
                {"least": lambda a: a.get("min_ngram_size", 1), "most": lambda a: a.get("max_ngram_size", 3)},
            )
        ],
    ),
    *(
        OperatorSpec(name, inputs, required=2, attributes="vocab_size", rows=[SEARCH])
        for name, inputs in (
            ("BeamSearch", BEAMS),
            ("WhisperBeamSearch", f"{BEAMS} cross_qk_layer_head extra_decoding_ids temperature"),
            ("GreedySearch", GREEDY),
            ("Sampling", f"{GREEDY} presence_mask seed"),
        )
    ),
)
