"""Tokenizers, operators on strings, and codecs of onnxruntime-extensions: pre- and post-processing inside a model.

Source: microsoft/onnxruntime-extensions 0.15, docs/custom_text_ops.md; the shapes are those that its library returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import NamedTuple, TypeAlias

from costcore.translate import Source

from ...graph.node import Node, Rule
from ...shapes.rules import present_inputs
from ...values.value import Value
from ..spec import EXTENSIONS, OperatorSpec, row

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
    """Return a rule whose outputs have these shapes and dtypes."""

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
    """Return the sources of the operands: the first input is ``x``."""
    return {f"x{i}" if i else "x": name for i, name in enumerate(inputs.split())}


SPECS: tuple[OperatorSpec, ...] = tuple(
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
