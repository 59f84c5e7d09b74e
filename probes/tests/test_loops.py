"""The definitions as loops, held to sizes that are counted by hand, and to values."""

from collections import defaultdict

import pytest

from costcore_probes.loops import attention, conv, conv_transpose, einsum, linear, recurrent, window


def count(items):
    return sum(1 for _ in items)


def run(triples, x, w):
    """Accumulate the products that triples name; an index of None is a zero, or is dropped."""
    y = defaultdict(int)
    for out, first, second in triples:
        if out is not None:
            y[out] += (0 if first is None else x[first]) * w[second]
    return dict(y)


def test_a_linear_layer_multiplies_rows_by_columns():
    x = {(0, 0): 2, (0, 1): 3}
    w = {(0, 0): 5, (0, 1): 7, (1, 0): 11, (1, 1): 13}
    assert run(linear(1, 2, 2), x, w) == {(0, 0): 2 * 5 + 3 * 7, (0, 1): 2 * 11 + 3 * 13}


def test_a_convolution_of_three_numbers():
    """[1, 2, 3] with [4, 5], one zero on each side: 0·4 + 1·5, 1·4 + 2·5, 2·4 + 3·5, 3·4 + 0·5."""
    x = {(0, 0, i): i + 1 for i in range(3)}
    w = {(0, 0, 0): 4, (0, 0, 1): 5}
    triples = list(conv(1, 1, 1, (3,), (2,), padding=1))
    assert [run(triples, x, w)[0, 0, i] for i in range(4)] == [5, 14, 23, 12]
    assert sum(first is None for _, first, _ in triples) == 2


def test_a_transposed_convolution_of_two_numbers():
    """[1, 2] with [4, 5, 6], stride 2: 4, 5, 6 + 2·4, 2·5, 2·6; padding 1 cuts off both ends."""
    x = {(0, 0, 0): 1, (0, 0, 1): 2}
    w = {(0, 0, t): 4 + t for t in range(3)}
    whole = run(conv_transpose(1, 1, 1, (2,), (3,), stride=2), x, w)
    assert [whole[0, 0, i] for i in range(5)] == [4, 5, 14, 10, 12]
    cut = run(conv_transpose(1, 1, 1, (2,), (3,), stride=2, padding=1), x, w)
    assert [cut[0, 0, i] for i in range(3)] == [5, 14, 10]


@pytest.mark.parametrize(("size", "arguments", "places"), [(7, (3, 2, 1, 1), 4), (7, (3, 1, 0, 2), 3), (10, (2, 4), 3)])
def test_places_of_a_window(size, arguments, places):
    assert window((size,), arguments[:1], *arguments[1:]) == (places,)


def test_sizes_counted_by_hand():
    assert count(einsum("bik,bkj->bij", {"b": 2, "i": 3, "j": 5, "k": 7})) == 2 * 3 * 5 * 7
    assert count(attention(2, 3, 4, 5, 7)) == 2 * (2 * 3 * 4 * 5 * 7)
    assert count(attention(1, 1, 2, 3, 5, values=7)) == 2 * 3 * 5 + 2 * 3 * 7
    assert count(recurrent(2, 3, 4, 5, 6)) == 2 * 3 * (4 * 6 * 5 + 4 * 6 * 6)
    assert count(recurrent(1, 1, 3, 5, 4, layers=2, directions=2)) == 2 * 3 * 4 * (5 + 4) + 2 * 3 * 4 * (8 + 4)
    assert count(recurrent(1, 1, 4, 5, 6, projected=2)) == 4 * 6 * (5 + 2) + 6 * 2
