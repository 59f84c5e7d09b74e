"""Strings and encoded data."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, covers, pattern

TEXT: Mapping[str, str] = {
    "string_concat": "strings concatenated in pairs",
    "string_split": "strings split at separators",
    "string_normalize": "strings in another case, without stop words",
    "regex_match": "test whether strings match a pattern",
    "string_join": "strings joined along an axis",
    "string_replace": "strings with matches of a pattern replaced",
    "string_length": "number of characters of each string",
    "string_equal": "test whether strings are equal",
    "string_select": "strings that a mask selects",
    "tokenize": "strings split into tokens",
    "detokenize": "strings made of tokens",
    "lookup": "values of a table by key",
    "image_decode": "pixels of a compressed image",
    "image_encode": "compressed image of pixels",
    "image_draw": "image with boxes drawn onto it",
    "audio_decode": "samples of compressed sound",
}


@pattern("opaque")
@covers(TEXT)
def calc_text(layer: Layer) -> Cost:
    """Operators on strings and encoded data: no operations on numbers; operands are read, y is written.

    Bytes are those of the operands with a known element size. A string has no known size, so it counts no bytes. The
    work of a codec depends on data and is not counted: ``image_decode`` reads the coded bytes and writes the pixels.
    ``lookup`` uses hashing. ``image_draw`` copies the image.

    Shapes: x[N] -> y[N]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_count_ngrams(layer: Layer) -> Cost:
    """Frequency of each n-gram of a table in a sequence: at most one add per position, length and skip.

    ``grams`` is the number of n-grams of a row of x, over all lengths and skips. Finding one is a lookup by hashing and
    costs nothing. With ``weighted`` the counts are multiplied by weights, 1 mul per element of y, and the weights ``w``
    are read.

    Shapes: x[N, T], w[V]? -> y[N, V]
    Settings: grams=T
    """
    rows = layer["x"].size // layer["x"].shape[-1]
    weighted = layer.out.size if layer.attrs.get("weighted") else 0
    return Cost(Operations(add=rows * layer.attrs["grams"], mul=weighted), layer.read, layer.written, layer.attrs)
