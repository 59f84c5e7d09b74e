"""Every model of ``onnx.backend.test``: read, priced, and shapes equal to the arrays that truly come out."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from costcore.frontends.onnx.values import DTYPES, Container
from costcore.ir import Operations
from tests.frontends.onnx.corpus import Reading, difference, files, read_nodes
from tests.frontends.onnx.reading import read, total

NEWEST = onnx.defs.onnx_opset_version() >= 28
"""Whether the installed onnx is as new as the lists below."""

OPEN = {
    "test_compress": "how often a condition holds",
    "test_image_decoder": "how large the coded image is",
    "test_loop11": "a value grows from one iteration to the next",
    "test_loop13_seq": "a value grows from one iteration to the next",
    "test_loop16_seq_none": "a value grows from one iteration to the next",
    "test_nonmaxsuppression": "how many boxes are kept",
    "test_nonzero": "how many elements are not zero",
    "test_sequence_map_add_2_sequences_expanded": "a loop's body is walked once for all items",
    "test_sequence_map_add_1_sequence_1_tensor_expanded": "a loop's body is walked once for all items",
    "test_sequence_map_extract_shapes_expanded": "a loop's body is walked once for all items",
    "test_sequence_map_identity_1_sequence_expanded": "a loop's body is walked once for all items",
    "test_sequence_map_identity_1_sequence_1_tensor_expanded": "a loop's body is walked once for all items",
    "test_sequence_map_identity_2_sequences_expanded": "a loop's body is walked once for all items",
    "test_string_split": "how many parts the texts have",
    "test_strnormalizer_export_monday": "how many words are left",
    "test_unique": "how many elements differ",
}
"""Where a dimension truly depends on data, by beginnings of names: what it depends on."""

PLANE = ("test_affine_grid_2d_expanded", "test_affine_grid_2d_align_corners_expanded")

SUMMED = "the body squares and sums in two operators, and the formula accumulates products (COUNTING.md 3)"
BOTH = "the body compares, and then chooses: the formula's maximum, minimum or choice is one comparison"
MAXIMUM = "the body subtracts the maximum first, which is no part of the definition (COUNTING.md, softmax)"
FACTOR = "the body multiplies by a factor that the formula knows to be 1"
INDICES = "the body computes indices, which are free (COUNTING.md 2)"
EMPTY = "an operator with an empty input costs nothing (COUNTING.md 8), and the body's logarithm has none"
STATED = {
    "AffineGrid": "the body computes the coordinates of the output, which is index arithmetic",
    "Attention": "the body scales queries and keys before their product, masks by adding, and subtracts the maximum",
    "BlackmanWindow": "the body computes the angle",
    "Celu": FACTOR,
    "CenterCropPad": INDICES,
    "Clip": BOTH,
    "Elu": BOTH,
    "FlexAttention": "the body scales queries and keys before their product",
    "GreaterOrEqual": "the body asks twice and joins the answers: the formula is one comparison",
    "GroupNormalization": SUMMED,
    "HammingWindow": "the body computes the angle, and a second cosine times 0",
    "HannWindow": "the body computes the angle, and a second cosine times 0",
    "LayerNormalization": SUMMED,
    "LeakyRelu": BOTH,
    "LessOrEqual": "the body asks twice and joins the answers: the formula is one comparison",
    "LinearAttention": "the body makes the outer product, then adds it: the formula accumulates it onto the state",
    "LogSoftmax": MAXIMUM,
    "MeanVarianceNormalization": SUMMED,
    "NegativeLogLikelihoodLoss": "the body looks for the ignored class, and gathers by computed indices",
    "PRelu": BOTH,
    "RMSNormalization": SUMMED,
    "Range": INDICES,
    "ReduceL2": SUMMED,
    "ReduceLogSum": EMPTY,
    "ReduceLogSumExp": EMPTY,
    "ReduceSumSquare": SUMMED,
    "Selu": BOTH,
    "SequenceMap": "items of different lengths: the body of a loop is walked once, on symbols",
    "Shrink": BOTH,
    "Softmax": MAXIMUM,
    "Swish": FACTOR,
    "ThresholdedRelu": BOTH,
}
"""Operators whose price differs from that of the function that defines them, and why."""


@pytest.fixture(scope="module")
def corpus() -> dict[str, Reading]:
    return read_nodes()


@pytest.fixture(scope="module")
def twins(corpus: dict[str, Reading]) -> list[tuple[Reading, Reading]]:
    """Every operator with its function body, written out as a model of its own."""
    named = ((name, name.partition("_expanded")[0]) for name in corpus if "_expanded" in name)
    return [(corpus[base], corpus[name]) for name, base in named if base in corpus]


def reason(name: str) -> str:
    return next((why for start, why in OPEN.items() if name.startswith(start)), "")


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


def test_a_shape_is_open_only_where_it_depends_on_data(corpus):
    left = {name for name, case in corpus.items() if any(difference(v, t) == "open" for _, v, t in case.outputs)}
    assert {name for name in left if not reason(name)} == set()
    if NEWEST:
        assert [start for start in OPEN if not any(name.startswith(start) for name in left)] == []


def test_every_output_has_its_true_element_type(corpus):
    wrong = {}
    for name, case in corpus.items():
        for output, value, truth in case.outputs:
            if truth is None or isinstance(value, Container) or isinstance(truth, (list, tuple)):
                continue
            dtype = DTYPES[truth.data_type] if isinstance(truth, TensorProto) else np.asarray(truth).dtype.name
            dtype = "string" if dtype == "object" or dtype.startswith("str") else dtype
            if value.dtype != dtype:
                wrong[name, output] = (value.dtype, dtype)
    assert wrong == {}


def test_operator_and_body_agree_in_macs(twins):
    if NEWEST:
        assert len(twins) >= 416
    different = {body.name: (one.macs, body.macs) for one, body in twins if one.macs != body.macs}
    # A map of the plane is written as one of space: 3 coordinates of 4 products instead of 2 of 3.
    assert different == (dict.fromkeys(PLANE, (360, 720)) if NEWEST else different)
    counted = {one.ops[0] for one, _ in twins if one.macs != 0}
    assert (
        counted >= {"AffineGrid", "Attention", "CausalConvWithState", "FlexAttention", "LinearAttention"} or not NEWEST
    )


def test_operator_and_body_agree_in_operations_but_for_what_is_stated(twins):
    different = {one.ops[0] for one, body in twins if one.operations.flops() != body.operations.flops()}
    assert different - STATED.keys() == set()
    if NEWEST:
        assert STATED.keys() - different == set()


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
