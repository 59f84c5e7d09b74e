"""Operators on strings, tokens and encoded data, in the domains of ONNX Runtime and of onnxruntime-extensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

from costcore.numbers import Dim
from costcore.translate import Arguments, Source

from ..node import EXTENSIONS, Node, OperatorSpec, Rule, row
from ..operators import fact, positive, present_inputs
from ..schema import Constraints
from ..values import Value

# Strings, tokens, and searches for texts.


LONGEST_GRAM = 1024
"""The maximum length of n-grams: the cost is a sum over all lengths."""


def tokens(node: Node) -> Sequence[Value]:
    """Infer the tokens of each string, padded to the maximum number."""
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
    """Infer the tokens so far, whose number depends on data, and the position in the source to continue from."""
    return [node.result((None,), node.value("cur_tokens").dtype), node.result((), "int64")]


@dataclass(frozen=True, slots=True)
class Search:
    """A token search: its strategy, its steps, its beams per sample, and the scores by which it chooses tokens."""

    search: str
    steps: Dim
    beams: Dim
    logits: Value


def _prompt(a: Arguments) -> Any:
    # With an encoder, the prompt consists of the forced tokens, if any.
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

TOKEN_SPECS: tuple[OperatorSpec, ...] = (
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


# Tokenizers, operators on strings, and codecs of onnxruntime-extensions: pre- and post-processing in a model.
#
# Source: microsoft/onnxruntime-extensions 0.15, docs/custom_text_ops.md; shapes as its library returns them.


Template: TypeAlias = "tuple[tuple[int | EllipsisType | None, ...], str]"
"""Shape and dtype of an output: ``...`` stands for the dimensions of the first input, None for an unknown size."""

IDS: Template = (..., None), "int64"

OFFSETS: Template = (..., None, 2), "int64"

LIST: Template = (None,), "int64"

STRINGS: Template = (None,), "string"

SAME: Template = (...,), "string"

ROW: Template = (1, None), "int64"

IMAGE: Template = (None, None, 3), "uint8"

BYTES: Template = (None,), "uint8"


def made(*outputs: Template) -> Rule:
    """Return a rule for outputs of these shapes and dtypes."""

    def rule(node: Node) -> Sequence[Value]:
        given = present_inputs(node)[0].known_shape
        return [
            node.result([d for part in shape for d in (given if part is ... else (part,))], dtype)
            for shape, dtype in outputs
        ]

    return rule


def joined(node: Node) -> Sequence[Value]:
    """Infer strings that are joined along an axis."""
    x = node.value("X")
    axis = node.axis(len(x.known_shape), "axis")
    return [node.result([d for i, d in enumerate(x.known_shape) if i != axis], "string")]


def decoded(node: Node) -> Sequence[Value]:
    """Infer one string for the tokens along the last axis."""
    return [node.result(node.value("X").known_shape[:-1], "string")]


class Extension(NamedTuple):
    """Operators of equal inputs and outputs: their names, their canonical operator, inputs, and shape rule."""

    names: str
    op: str
    inputs: str
    infer: Rule


ALL: tuple[Extension, ...] = (
    Extension(
        "GPT2Tokenizer CLIPTokenizer RobertaTokenizer SpmTokenizer HfJsonTokenizer",
        *("tokenize", "X", made(IDS, IDS, OFFSETS)),
    ),
    Extension("BertTokenizer", "tokenize", "X", made(LIST, LIST, LIST, ((None, 2), "int64"))),
    Extension("HfBertTokenizer", "tokenize", "X", made(ROW, ROW, ROW)),
    Extension(
        "SentencepieceTokenizer",
        *("tokenize", "X nbest_size alpha add_bos add_eos reverse fairseq"),
        made(((None,), "int32"), LIST, ((None,), "int32")),
    ),
    Extension("WordpieceTokenizer", "tokenize", "X row_indices", made(STRINGS, LIST, LIST, LIST)),
    Extension("BasicTokenizer BlingFireSentenceBreaker", "tokenize", "X", made(STRINGS)),
    Extension("TrieTokenizer", "tokenize", "X", made(IDS)),
    Extension("BpeDecoder TrieDetokenizer", "detokenize", "X", decoded),
    Extension("SentencepieceDecoder", "detokenize", "X fairseq", made(((1,), "string"))),
    Extension("BertTokenizerDecoder", "detokenize", "X position", made(STRINGS)),
    Extension("StringRegexReplace StringECMARegexReplace", "string_replace", "X pattern rewrite", made(SAME)),
    Extension(
        "StringRegexSplitWithOffsets StringECMARegexSplitWithOffsets",
        *("string_split", "X pattern keep_pattern", made(STRINGS, LIST, LIST, LIST)),
    ),
    Extension(
        *("StringSplit", "string_split", "X separator skip_empty"),
        made(((None, 2), "int64"), STRINGS, ((2,), "int64")),
    ),
    Extension("StringJoin", "string_join", "X separator axis", joined),
    Extension("StringUpper StringLower StringStrip", "string_normalize", "X", made(SAME)),
    Extension("StringLength", "string_length", "X", made(((...,), "int64"))),
    Extension("StringConcat", "string_concat", "X Y", made(SAME)),
    Extension("StringEqual", "string_equal", "X Y", made(((...,), "bool"))),
    Extension("StringToHashBucket StringToHashBucketFast", "hash", "X buckets", made(((...,), "int64"))),
    Extension("StringMapping", "lookup", "X", made(SAME)),
    Extension("StringToVector", "lookup", "X", made(IDS)),
    Extension("VectorToString", "lookup", "X", decoded),
    Extension("MaskedFill", "string_select", "X mask", made(STRINGS)),
    Extension("DecodeImage ImageDecoder", "image_decode", "X", made(IMAGE)),
    Extension("ImageReader", "image_decode", "X", made(((None, None, None, None), "uint8"))),
    Extension("EncodeImage", "image_encode", "X", made(BYTES)),
    Extension("DrawBoundingBoxes", "image_draw", "X boxes", made(((...,), "uint8"))),
    Extension("AudioDecoder", "audio_decode", "X", made(((1, None), "float32"))),
)
"""All operators on strings and encoded data."""


def _operands(inputs: str) -> Mapping[str, Source]:
    return {f"x{i}" if i else "x": name for i, name in enumerate(inputs.split())}


EXTENSION_SPECS: tuple[OperatorSpec, ...] = tuple(
    OperatorSpec(
        name,
        extension.inputs,
        infer=extension.infer,
        rows=[row(extension.op, _operands(extension.inputs))],
        domain=domain,
    )
    for domain in EXTENSIONS
    for extension in ALL
    for name in extension.names.split()
)


SPECS: tuple[OperatorSpec, ...] = (*TOKEN_SPECS, *EXTENSION_SPECS)
