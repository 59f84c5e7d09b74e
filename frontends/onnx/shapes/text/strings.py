"""Shapes of operators on strings, of lookups in vocabularies and of image decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.numbers.dims import Dim

from ...graph.node import Node, Rule
from ...values.value import DTYPES, Container, Undetermined, Value
from ..rules import broadcast, same_shape_in


def string_concat(node: Node) -> Sequence[Value]:
    """Infer the broadcast of two tensors of strings."""
    return [node.result(broadcast(node, node.value("X").known_shape, node.value("Y").known_shape), "string")]


def string_split(node: Node) -> Sequence[Value]:
    """Infer the parts of each string, as many as the longest has, and their number."""
    x = node.value("X")
    return [node.result((*x.known_shape, 0 if x.size == 0 else None), "string"), node.result(x.known_shape, "int64")]


def image(node: Node) -> Sequence[Value]:
    """Infer rows, columns and channels; rows and columns depend on data."""
    return [node.result((None, None, 1 if node.args.get("pixel_format") == "Grayscale" else 3), "uint8")]


def ngrams(node: Node) -> Sequence[Value]:
    """Infer one count for each n-gram of the vocabulary."""
    x = node.value("X")
    indices = node.args.get("ngram_indexes") or ()
    if not indices or not x.known_shape:
        raise Undetermined
    return [node.result((*x.known_shape[:-1], max(indices) + 1), "float32")]


def gram_count(node: Node) -> Dim:
    """Return the largest number of n-grams in a row of ``TfIdfVectorizer``, over all lengths and skips."""
    length = node.value("X").known_shape[-1]
    least, most = node.args.get("min_gram_length", 1), node.args.get("max_gram_length", 1)
    skips = node.args.get("max_skip_count", 0)
    total: Dim = 0
    for size in range(least, min(most, 64) + 1):
        count = skips + 1 if size > 1 else 1
        if isinstance(length, int) and size > 1:
            count = min(count, max(length - 1, 0) // (size - 1))
        total = total + count * length - (size - 1) * (count * (count + 1) // 2)
    return total


def normalized_strings(node: Node) -> Sequence[Value]:
    """Infer strings without stop words; the number of remaining ones depends on data."""
    x = node.value("X")
    return [node.result((*x.known_shape[:-1], None) if node.args.get("stopwords") else x.known_shape, "string")]


def encode_labels(node: Node) -> Sequence[Value]:
    """Infer one value of the map for each element."""
    tensor = node.args.get("values_tensor")
    if tensor is not None:
        dtype = DTYPES.get(tensor.data_type, "float32")
    elif node.args.get("values_floats"):
        dtype = "float32"
    elif node.args.get("values_int64s") or (not node.args.get("values_strings") and node.value("X").dtype == "string"):
        dtype = "int64"
    else:
        dtype = "string"
    return [node.result(node.value("X").known_shape, dtype)]


def map_categories(node: Node) -> Sequence[Value]:
    """Infer numbers for strings, or strings for numbers."""
    return [node.result(node.value("X").known_shape, "int64" if node.value("X").dtype == "string" else "string")]


def from_map(node: Node) -> Sequence[Value]:
    """Infer a row from a map: as long as the vocabulary, the given size, or the map itself."""
    x = node.value("X")
    if not isinstance(x, Container):
        raise node.error("needs a map as its input")
    if node.op == "DictVectorizer":
        count: Dim | None = len(node.args.get("int64_vocabulary") or node.args.get("string_vocabulary") or ())
        return [node.result((count,), x.dtype)]
    cast = {"TO_INT64": "int64", "TO_STRING": "string"}
    count = node.args.get("max_map") if node.args.get("map_form") == "SPARSE" else x.length
    return [node.result((1, count), cast.get(node.args.get("cast_to", ""), "float32"))]


RULES: Mapping[str, Rule] = {
    "ai.onnx::StringConcat": string_concat,
    "ai.onnx::StringSplit": string_split,
    "ai.onnx::StringNormalizer": normalized_strings,
    "ai.onnx::RegexFullMatch": same_shape_in("bool"),
    "ai.onnx::TfIdfVectorizer": ngrams,
    "ai.onnx::ImageDecoder": image,
    "ai.onnx.ml::CastMap": from_map,
    "ai.onnx.ml::CategoryMapper": map_categories,
    "ai.onnx.ml::DictVectorizer": from_map,
    "ai.onnx.ml::LabelEncoder": encode_labels,
}
"""Rules by full operator name."""
