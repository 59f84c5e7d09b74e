"""Every model of ``onnx.backend.test``: read, priced, and shapes equal to the arrays that truly come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from costcore.ir import Operations
from tests.frontends.onnx.corpus import Reading, difference, dtype_of, files, is_list, read_nodes
from tests.frontends.onnx.read_model import read, total
from tests.frontends.onnx.twins import TWINS, expected

NEWEST = onnx.defs.onnx_opset_version() >= 28
"""Whether the installed onnx is as new as the lists below."""

OPEN = (
    ("test_image_decoder", "output", (0, 1), "how large the coded image is"),
    ("test_nonmaxsuppression", "selected_indices", (0,), "how many boxes are kept"),
    ("test_string_split", "substrings", (-1,), "how many parts the texts have"),
    ("test_strnormalizer_export_monday", "y", (-1,), "how many words are left"),
    ("test_unique_bfloat16_sorted_without_axis", "Y", (0,), "how many elements differ"),
    ("test_unique_not_sorted_without_axis", "Y", (0,), "how many elements differ"),
    ("test_unique_sorted_without_axis", "Y", (0,), "how many elements differ"),
    ("test_unique_sorted_with_axis", "Y", (0,), "how many rows differ"),
    ("test_unique_sorted_with_axis_3d", "Y", (1,), "how many slices differ"),
    ("test_unique_sorted_with_negative_axis", "Y", (1,), "how many columns differ"),
    ("test_unique", "indices", (0,), "the same"),
    ("test_unique", "counts", (0,), "the same"),
)
"""Where an axis truly depends on data: beginning of the case's name, output, axes, and what they depend on.

Integers and bools are given to the reader with their values, so that what depends on these is none of it.
"""


@pytest.fixture(scope="module")
def corpus() -> dict[str, Reading]:
    return read_nodes()


@pytest.fixture(scope="module")
def twins(corpus: dict[str, Reading]) -> list[tuple[Reading, Reading]]:
    """Every operator with its function body, written out as a model of its own."""
    named = ((name, name.partition("_expanded")[0]) for name in corpus if "_expanded" in name)
    return [(corpus[base], corpus[name]) for name, base in named if base in corpus]


def open_axes(value: Any) -> tuple[int, ...]:
    """The axes of an output whose length is no number."""
    return tuple(axis for axis, d in enumerate(value.known_shape) if not isinstance(d, int))


def stated(name: str, output: str, value: Any) -> list[tuple[str, str, tuple[int, ...], str]]:
    """The lines of the list that speak of these axes of an output."""
    return [
        line
        for line in OPEN
        if name.startswith(line[0])
        and output == line[1]
        and open_axes(value) == tuple(axis % len(value.known_shape) for axis in line[2])
    ]


def test_every_node_model_is_read(corpus):
    assert {name: case.error for name, case in corpus.items() if case.error} == {}
    if NEWEST:
        assert len(corpus) >= 1884


def test_every_call_has_a_price(corpus):
    assert {name: case.unpriced for name, case in corpus.items() if case.unpriced} == {}


def test_every_output_has_its_true_shape(corpus):
    wrong = {
        (name, output): (value.shape, np.shape(truth))
        for name, case in corpus.items()
        for output, value, truth in case.outputs
        if difference(value, truth) == "wrong"
    }
    assert wrong == {}


def test_an_axis_is_open_only_where_it_depends_on_data(corpus):
    left = [
        (name, output, value)
        for name, case in corpus.items()
        for output, value, truth in case.outputs
        if difference(value, truth) == "open"
    ]
    assert [(name, output, value.shape) for name, output, value in left if not stated(name, output, value)] == []
    if NEWEST:
        assert set(OPEN) == {line for name, output, value in left for line in stated(name, output, value)}


def test_every_output_has_its_true_element_type(corpus):
    wrong = {}
    for name, case in corpus.items():
        for output, value, truth in case.outputs:
            if truth is None or is_list(value) or isinstance(truth, (list, tuple)):
                continue
            if value.dtype != dtype_of(truth):
                wrong[name, output] = (value.dtype, dtype_of(truth))
    assert wrong == {}


def test_operator_and_body_agree_in_macs(twins):
    if NEWEST:
        assert len(twins) >= 416
    different = {one.ops[0]: body.macs / one.macs for one, body in twins if one.macs != body.macs}
    # The function takes a map of the plane for one of space: a point is 3 dot products of length 4 instead of 2 of 3.
    assert different == ({"AffineGrid": (3 * 4) / (2 * 3)} if NEWEST else different)
    counted = {one.ops[0] for one, _ in twins if one.macs != 0}
    assert (
        counted >= {"AffineGrid", "Attention", "CausalConvWithState", "FlexAttention", "LinearAttention"} or not NEWEST
    )


def test_operator_and_body_differ_by_what_is_stated_kind_by_kind(twins):
    different = {one.ops[0] for one, body in twins if (one.operations, one.macs) != (body.operations, body.macs)}
    assert different - TWINS.keys() == set()
    if NEWEST:  # before, functions were written in other nodes
        assert TWINS.keys() - different == set()
        assert {
            body.name: (body.operations, body.macs)
            for one, body in twins
            if expected(one) != (body.operations, body.macs)
        } == {}


def test_the_files_are_read_and_priced():
    found = files()
    assert len(found) >= 149 or not NEWEST
    for path in found:
        calls = read(path).calls
        assert total(calls, "flops") is not None, path


@pytest.mark.parametrize(
    ("name", "macs"),
    [
        # as torchvision publishes them, 19.63 and 4.09 GMACs; the weights of light models are made when they run
        ("light_vgg19", 19_632_062_464),
        ("light_resnet50", 4_089_184_256),
    ],
)
def test_published_figures_of_the_light_models(name, macs):
    path = next(path for path in files() if path.stem == name)
    assert total(read(path).calls, "macs") == macs


def test_the_corpus_costs_something(corpus):
    assert sum(1 for case in corpus.values() if case.operations != Operations()) > 1000
