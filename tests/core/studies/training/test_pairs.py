"""Pairs of query and key that masks, windows and documents allow, counted by hand."""

from __future__ import annotations

import pytest

from costcore.ir import Layer, Tensor
from costcore.studies.training.step import allowed_pairs, check_documents, limits_of, within_documents


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ((4, 4), (None, None), 16),
        ((4, 4), (None, 0), 1 + 2 + 3 + 4),
        ((4, 4), (1, 0), 1 + 2 + 2 + 2),  # itself and the one before
        ((4, 4), (1, 1), 2 + 3 + 3 + 2),
        ((4, 4), (0, None), 4 + 3 + 2 + 1),
        ((2, 5), (None, 0), 1 + 2),  # the first query is at the first key
        ((5, 2), (None, 0), 1 + 2 + 2 + 2 + 2),
        ((5, 2), (1, 0), 1 + 2 + 1),  # the last two queries are too far behind the two keys
        ((2, 5), (0, 2), 3 + 3),
    ],
)
def test_limits_leave_pairs(sizes, limits, expected):
    assert allowed_pairs(*sizes, *limits) == expected


@pytest.mark.parametrize(
    ("attributes", "is_causal", "expected"),
    [
        ({}, False, (None, None)),
        ({}, True, (None, 0)),
        ({"causal": True}, False, (None, 0)),
        ({"window": 4}, False, (3, None)),  # of four tokens, itself is one
        ({"window": (2, 1)}, False, (2, 1)),
        ({"window": (-1, 0)}, False, (None, 0)),
        ({"window": (0, -1)}, False, (0, None)),
        ({"window": (2, 1), "causal": True}, False, (2, 0)),
    ],
)
def test_attributes_limit_pairs(attributes, is_causal, expected):
    tensor = Tensor((1, 1, 4, 2))
    layer = Layer("attention", {"q": tensor, "k": tensor, "v": tensor}, [tensor], attributes)
    assert limits_of(layer, is_causal) == expected


def test_documents_attend_within_themselves():
    """Three and one of four tokens: 1 + 2 + 3 and 1 of 16 pairs; twice as many sequences, twice as many documents."""
    assert within_documents((3, 1), (None, 0), 4, 4) == (7, 16)
    assert within_documents((3, 1, 4), (None, 0), 4, 4) == (7 + 10, 32)
    assert within_documents((3, 1), (None, 0), 2, 4) == (1 + 2, 8)  # of a cache, which is not packed


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([True, 3], TypeError, "document_lengths must be integers"),
        (["4"], TypeError, "document_lengths must be integers"),
        ([2.0, 2], TypeError, "document_lengths must be integers"),
        ([0, 4], ValueError, "between 1 and the sequence of 4"),
        ([5, 3], ValueError, "between 1 and the sequence of 4"),
        ([3], ValueError, "whole sequences of 4 tokens"),
        ([], ValueError, "whole sequences of 4 tokens"),
    ],
)
def test_documents_fill_sequences(lengths, error, message):
    with pytest.raises(error, match=message):
        check_documents(lengths, 4)


def test_whole_sequences_are_accepted():
    check_documents([1, 3, 4], 4)
