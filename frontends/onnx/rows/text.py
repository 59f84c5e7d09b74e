"""Rows of operators on strings, sequences and maps."""

from __future__ import annotations

from costcore.translate import Row

from ..shapes.text.strings import gram_count
from .arguments import determined

CONTAINERS = (
    *("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength"),
    *("Optional", "OptionalHasElement", "OptionalGetElement"),
)


ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{op}", "container") for op in CONTAINERS),
    Row("ai.onnx.ml::ZipMap", "container"),
    Row("ai.onnx::StringConcat", "string_concat", {"x0": "X", "x1": "Y"}),
    Row("ai.onnx::StringSplit", "string_split", {"x": "X"}),
    Row("ai.onnx::StringNormalizer", "string_normalize", {"x": "X"}),
    Row("ai.onnx::RegexFullMatch", "regex_match", {"x": "X"}),
    Row("ai.onnx::ImageDecoder", "image_decode", {"x": "encoded_stream"}),
    Row(
        "ai.onnx::TfIdfVectorizer",
        "count_ngrams",
        {"x": "X"},
        {
            "grams": determined(gram_count),
            "weighted": lambda a: a.get("mode") in ("IDF", "TFIDF") and bool(a.get("weights")),
        },
    ),
    *(Row(f"ai.onnx.ml::{op}", "lookup") for op in ("CastMap", "DictVectorizer")),
    *(Row(f"ai.onnx.ml::{op}", "lookup", {"x": "X"}) for op in ("CategoryMapper", "LabelEncoder")),
)
