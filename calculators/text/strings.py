"""Values that hold values, and text: nothing is computed on numbers."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, covers

TEXT: Mapping[str, str] = {
    "string_concat": "texts joined pairwise",
    "string_split": "texts cut at separators",
    "string_normalize": "texts in another case, without some words",
    "regex_match": "whether texts match a pattern",
    "tokenize": "texts as words",
    "lookup": "values found in a table by key",
    "image_decode": "pixels of a compressed image",
}


@covers(TEXT)
def calc_text(layer: Layer) -> Cost:
    """Text or coded data, read and written: no operations on numbers, so none are counted.

    Bytes are those of the operands whose shapes tell them. How long a text is no shape tells: it takes none. What a
    codec computes inside depends on the data, and is no part of a network: the pixels of ``image_decode`` are written,
    the coded bytes read. ``lookup`` finds by hashing.

    Shapes: x[N] -> y[N]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


def calc_count_ngrams(layer: Layer) -> Cost:
    """How often each n-gram of a table stands in a sequence: for each place, length and skip one addition at most.

    ``grams`` is how many n-grams a row of x has, over all lengths and skips; finding one is a lookup by hashing, and
    free. With ``weighted`` the counts are multiplied by weights, 1 mul per element of y, and the weights ``w`` read.

    Shapes: x[N, T], w[V]? -> y[N, V]
    Settings: grams=T
    """
    rows = layer["x"].size // layer["x"].shape[-1]
    weighted = layer.out.size if layer.attrs.get("weighted") else 0
    return Cost(Operations(add=rows * layer.attrs["grams"], mul=weighted), layer.read, layer.written, layer.attrs)
