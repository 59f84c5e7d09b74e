"""Operators of text generation against executed definitions."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, exp, largest, log, tanh, total
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations


def ids(*shape: int) -> Tensor:
    return Tensor(shape, "int32")


@pytest.mark.parametrize("op", ["hash", "hash_ngrams"])
def test_hashes_are_index_arithmetic(op: str) -> None:
    assert operations(op, {"x": ids(2, 3)}, ids(2, 3, 4)) == Operations()
    assert bytes_moved(op, {"x": ids(2, 3)}, ids(2, 3, 4)) == (4 * 6, 4 * 24)


@pytest.mark.parametrize("n", [2, 3, 6, 8])
def test_the_end_of_a_row_is_looked_for_at_every_place_before(n: int) -> None:
    def definition(tokens):
        for row in tokens:
            for place in range(len(row) - n + 1):
                for i in range(n - 1):  # none differs, which takes longest
                    _ = row[place + i] == row[len(row) - n + 1 + i]

    given = {"x": ids(2, 6), "scores": (2, 9)}
    assert operations("block_ngrams", given, (2, 9), n=n) == count(definition, (2, 6))
    assert bytes_moved("block_ngrams", given, (2, 9), n=n) == (4 * (12 + 18), 4 * 18)


@pytest.mark.parametrize(("length", "least", "most"), [(4, 1, 3), (5, 2, 2), (1, 1, 3), (2, 4, 6), (6, 3, 9)])
def test_a_draft_is_compared_and_its_end_looked_for(length: int, least: int, most: int) -> None:
    def definition(draft, predicted):
        for a, b in zip(draft, predicted, strict=False):
            _ = a == b
        for n in range(least, most + 1):
            for place in range(length - n + 1):
                for i in range(n):
                    _ = draft[place + i] == draft[length - n + i]

    given = {"x": ids(length), "tokens": ids(9), "predicted": ids(length + 1), "place": ids()}
    found = operations("match_suffix", given, ids(6), ids(), least=least, most=most)
    assert found == count(definition, (length,), (length + 1,))


def test_the_longest_ngram_may_be_any_number() -> None:
    given = {"x": ids(4), "tokens": ids(9), "predicted": ids(5), "place": ids()}
    found = operations("match_suffix", given, ids(6), ids(), least=1, most=10**12)
    # 4 tokens of the draft; 4 places of 1, 3 of 2, 2 of 3 and 1 of 4
    assert found == Operations(cmp=4 + 4 + 6 + 6 + 4)
    longest = 10**9
    whole = {"x": ids(longest), "tokens": ids(9), "predicted": ids(longest + 1), "place": ids()}
    # the sum of n (S + 1 - n) for n from 1 to S is S (S + 1) (S + 2) / 6
    expected = longest + longest * (longest + 1) * (longest + 2) // 6
    assert operations("match_suffix", whole, ids(6), ids(), least=1, most=longest) == Operations(cmp=expected)


@pytest.mark.parametrize("bias", [True, False])
def test_words_are_made_of_their_letters(bias: bool) -> None:
    """2 words of 4 letters of 3 features, 5 filters over 2 letters."""

    def definition(letters, w, *b):
        for word in letters:
            for f, kernel in enumerate(w):
                places = [word[i : i + 2].flat for i in range(3)]
                largest([tanh(dot(place, kernel.flat, b[0][f] if b else None)) for place in places])

    given = {"x": ids(2, 4), "w0": (5, 1, 2, 3), "w1": (30, 3)} | ({"b0": (5,)} if bias else {})
    shapes = [(2, 4, 3), (5, 1, 2, 3)] + [(5,)] * bias
    result = layer_cost("word_convolution", given, (2, 5))
    assert result.flops == count(definition, *shapes)
    assert result.macs == (2 * 5 * 3) * (2 * 3)
    assert result.mread == 4 * (8 + 30 + 24 + 5 * bias)


SORT = Operations(cmp=8 * 3)  # 8 * log2(8)


def softmax(scores):
    powers = [exp(score) for score in scores]
    summed = total(powers)
    return [power / summed for power in powers]


def test_the_best_token() -> None:
    result = layer_cost("token_search", {"x": ids(3, 4), "logits": (3, 1, 8)}, ids(3, 5), steps=5, search="greedy")
    assert result.flops == 5 * 3 * count(largest, (8,))
    assert (result.mread, result.mwrite) == (4 * (12 + 5 * 24), 4 * 15)


def test_a_token_by_chance() -> None:
    def definition(scores):
        kept = 0.0
        for i, probability in enumerate(softmax(scores)):
            kept = probability if i == 0 else kept + probability
            _ = kept < 0.9

    given = {"x": ids(3, 4), "logits": (3, 1, 8)}
    found = operations("token_search", given, ids(3, 5), steps=5, search="sample")
    assert found == 15 * (count(definition, (8,)) + SORT)


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({"beams": 2}, 2 * (16 * 2)),  # 2 samples: 2 of the 8 scores of both beams, 16 * ceil(log2(2 + 1))
        ({}, 4 * 8),  # 4 samples of one beam: the best of 8
    ],
)
def test_the_best_beams(settings: dict[str, int], chosen: int) -> None:

    def definition(scores, beam):
        whole = log(total([exp(score) for score in scores]))
        _ = [score - whole + beam for score in scores]

    given = {"x": ids(4, 3), "logits": (4, 1, 8)}
    found = operations("token_search", given, ids(4, 5), steps=5, search="beam", **settings)
    assert found == 5 * (4 * count(definition, (8,), ()) + Operations(cmp=chosen))
