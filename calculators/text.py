"""Strings, tokens and containers of values."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, covers, maximum, minimum, pattern

from ._shared import dot_products, input_bytes
from .reduction import selection_comparisons, sort_comparisons

# Tokens in text generation: hashes, n-grams, words from characters, choice of the next token.


@pattern("opaque")
def calc_token_search(layer: Layer) -> Cost:
    """Choice of the next token for every row, ``steps`` times, from scores that a decoder computed.

    Per step and row of V scores, by ``search``:

    * "greedy": the largest, V - 1 cmp.
    * "sample": a softmax (V special, V div, V - 1 add), a sort (at most V * ceil(log2(V)) cmp), and sums up to the part
      that is kept (V - 1 add, V cmp).
    * "beam": a log_softmax (2 V - 1 add, V + 1 special), the sum with the score of its beam (V add), and the choice
      of ``beams`` among the V scores of all ``beams`` of a sample, at most beams V * ceil(log2(beams + 1)) cmp.

    The last scores of every row are read in every step.

    Shapes: x[N, T], logits[N, 1, V] -> y[N, L]
    Settings: steps=L, search="greedy", beams=1
    """
    logits, attrs = layer["logits"], layer.attrs
    size, beams = logits.shape[-1], attrs.get("beams", 1)
    rows = layer["logits"].shape[0]
    if attrs["search"] == "beam":
        each = Operations(add=3 * size - 1, special=size + 1)
        operations = rows * each + Operations(cmp=rows // beams * selection_comparisons(beams * size, beams))
    elif attrs["search"] == "sample":
        operations = rows * Operations(add=2 * size - 2, div=size, special=size, cmp=sort_comparisons(size) + size)
    else:
        operations = Operations(cmp=rows * (size - 1))
    steps = attrs["steps"]
    read = layer.read - input_bytes(layer, "logits") + steps * logits.bytes_of(rows * size)
    return Cost(steps * operations, read, layer.written, attrs)


@pattern("opaque")
def calc_block_ngrams(layer: Layer) -> Cost:
    """Scores of tokens that would repeat an n-gram, set to minus infinity.

    In each row the last n - 1 of T tokens are compared with those at each of T - n + 1 earlier positions, at most n - 1
    cmp each. Tokens and scores are read, all scores are written.

    Source: Paulus, Xiong and Socher, arXiv:1705.04304.

    Shapes: x[N, T], scores[N, V] -> y[N, V]
    Settings: n=3
    """
    rows, length = layer["x"].shape
    n = layer.attrs["n"]
    places = maximum(length - n + 1, 0)
    return Cost(Operations(cmp=rows * places * (n - 1)), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_match_suffix(layer: Layer) -> Cost:
    """Verification of a draft, and search of the source text for the last n-grams of the tokens generated so far.

    x is the source of S tokens, ``tokens`` the text so far. The draft is the part of x that starts at ``place``, and
    ``predicted`` has the tokens that the decoder predicted for it.

    * The draft is compared with the predicted tokens: at most S cmp.
    * For each n from ``least`` to ``most``, at most S, the last n of ``tokens`` are compared with the n tokens at each
      of S - n + 1 positions of x: at most n cmp each. For n from 1 to k, the sum is k (k + 1) (3 S + 2 - 2 k) / 6.

    Source: Ge et al., "Lossless Acceleration with Aggressive Decoding", arXiv:2205.10350.

    Shapes: x[S], tokens[T], predicted[S+1], place[] -> y[M], found[]
    Settings: least=1, most=3
    """
    length = layer["x"].size
    shorter = max(layer.attrs["least"] - 1, 0)
    most = maximum(minimum(layer.attrs["most"], length), shorter)
    upto_most, upto_shorter = (k * (k + 1) * (3 * length + 2 - 2 * k) // 6 for k in (most, shorter))
    return Cost(Operations(cmp=length + upto_most - upto_shorter), layer.read, layer.written, layer.attrs)


HASHES: Mapping[str, str] = {
    "hash": "a 32-bit hash of every element",
    "hash_ngrams": "table positions of n-grams of tokens, by multipliers, exclusive or and remainder",
}


@pattern("opaque")
@covers(HASHES)
def calc_hash(layer: Layer) -> Cost:
    """Hashes of elements: index arithmetic without operations; all operands are read.

    Shapes: x[N, T] -> y[N, T, K]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_word_convolution(layer: Layer) -> Cost:
    """Vectors of words from characters.

    Character embeddings, a convolution along the word, tanh, the maximum over positions. A word of L characters has L -
    K + 1 positions.

    * Per position and each of F filters: a dot product of K E features, starting at the bias (MACs), and a tanh.
    * The maximum over the positions: L - K cmp per filter.

    Every word is assumed to have the full length. E elements of the table ``w1`` are read per character.

    Source: Kim et al., Character-Aware Neural Language Models, arXiv:1508.06615.

    Shapes: x[N, L], w0[F, 1, K, E], b0[F], w1[V, E] -> y[N, F]
    """
    x, y, w0, w1 = layer["x"], layer.out, layer["w0"], layer["w1"]
    places = x.shape[-1] - w0.shape[-2] + 1
    outputs = y.size * places
    macs = outputs * (w0.size // w0.shape[0])
    operations = dot_products(outputs, macs, "b0" in layer) + Operations(special=outputs, cmp=outputs - y.size)
    read = layer.read - w1.nbytes + w1.bytes_of(x.size * w1.shape[-1])
    return Cost(operations, read, layer.written, layer.attrs, macs)


# Strings and encoded data.


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

    Only operands with a known element size count bytes, so strings count none. The work of a codec depends on data and
    is not counted: ``image_decode`` reads the coded bytes and writes the pixels.
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


# Containers of values: sequences, maps and optionals.


CONTAINERS: Mapping[str, str] = {
    "container": "sequences, maps and optionals: construction, insertion, extraction",
}


@pattern("opaque")
@covers(CONTAINERS)
def calc_container(layer: Layer) -> Cost:
    """Containers of values: zero cost.

    A sequence, a map or an optional stores its values; putting values in or taking them out copies nothing.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(Operations(), 0, 0, layer.attrs)


# Dynamic time warping.


@pattern("opaque")
def calc_time_warping(layer: Layer) -> Cost:
    """Cheapest path through a matrix of costs.

    Every element plus the least of three sums: 1 add and 2 cmp. The reconstruction of the path is index arithmetic.

    Source: Sakoe and Chiba, IEEE TASSP 26, 1978.

    Shapes: x[M, N] -> y[2, L]
    """
    return Cost(layer["x"].size * Operations(add=1, cmp=2), layer.read, layer.written, layer.attrs)
