"""Operators on strings, n-grams and images: one node each, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import INT64, STRING, UINT8, priced


def test_texts():
    words = (STRING, (2, 3))
    assert priced("StringConcat", words, (STRING, (3,)))[0].out.shape == (2, 3)
    layer, cost = priced("StringSplit", words, outputs=2)
    assert [str(y.shape) for y in layer.outputs] == ["(2, 3, StringSplit_0_0_2)", "(2, 3)"]
    assert (cost.flops, cost.mread, cost.mwrite) == (Operations(), 0, 8 * 6)
    assert priced("RegexFullMatch", words, pattern="a*")[1].mwrite == 6
    assert priced("StringNormalizer", (STRING, (3,)))[0].out.shape == (3,)
    assert str(priced("StringNormalizer", (STRING, (3,)), stopwords=["a"])[0].out.shape) == "(StringNormalizer_0_0_0,)"


def test_counts_of_ngrams():
    # rows of 6: pairs with no, one or two between them, 5 + 4 + 3
    layer, cost = priced(
        "TfIdfVectorizer",
        (INT64, (2, 6)),
        mode="TFIDF",
        max_skip_count=2,
        min_gram_length=2,
        max_gram_length=2,
        ngram_counts=[0, 4],
        ngram_indexes=[0, 1, 2],
        pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        weights=[1.0, 2.0, 3.0],
    )
    assert (layer.out.shape, cost.flops) == ((2, 3), Operations(add=2 * 12, mul=6))


def test_images_are_as_large_as_their_data_says():
    layer, cost = priced("ImageDecoder", (UINT8, (1000,)))
    assert str(layer.out.shape) == "(ImageDecoder_0_0_0, ImageDecoder_0_0_1, 3)"
    assert (cost.flops, cost.mread) == (Operations(), 1000)
