"""Vectors of which some elements are known before a run: sizes that follow from these are numbers, others symbols.

In every model, ``r`` and ``n`` are inputs whose values the run would get.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from onnx import TensorProto

from costcore import estimate
from tests.frontends.onnx.read_model import shapes
from tests.whole_networks.onnx_models import Graph

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
IMAGE = (1, 3, 8, 10)
INPUTS: dict[str, Any] = {"x": IMAGE, "r": (FLOAT, (1,)), "n": (INT64, (1,))}

Maker = Callable[[Graph], str]


def of_first(g: Graph, vector: str, *places: int) -> str:
    """Elements of a vector at these places."""
    return g("Gather", vector, g.number(*places))


def joined(g: Graph, *parts: str | int) -> str:
    """A vector of numbers and of values."""
    return g("Concat", *(part if isinstance(part, str) else g.number(part) for part in parts), axis=0)


def scaled(g: Graph) -> str:
    one = g.number(1.0, dtype=FLOAT)
    return g("Resize", "x", "", g("Concat", one, one, "r", "r", axis=0))


def resized(g: Graph) -> str:
    size = g(
        "Mul", g("Cast", g("Shape", "x"), to=FLOAT), g("Concat", *[g.number(2.0, dtype=FLOAT)] * 2, "r", "r", axis=0)
    )
    return g("Resize", "x", "", "", g("Cast", size, to=INT64))


def padded(g: Graph) -> str:
    """Pads as PyTorch writes them: pairs from the last axis, turned around."""
    pairs = g("Reshape", joined(g, "n", 0, 1, 2, 0, 0, 0, 0), g.number(-1, 2))
    turned = g("Slice", pairs, g.number(-1), g.number(-(1 << 62)), g.number(0), g.number(-1))
    return g("Pad", "x", g("Reshape", g("Transpose", turned, perm=[1, 0]), g.number(-1)))


CASES: dict[str, tuple[Maker, tuple[int | None, ...]]] = {
    "scales of a resize": (scaled, (1, 3, None, None)),
    "products of sizes and scales": (resized, (2, 6, None, None)),
    "what remains of a reshape": (lambda g: g("Reshape", "x", joined(g, 2, "n")), (2, 120)),
    "a reshape with two unknown sizes": (lambda g: g("Reshape", "x", joined(g, "n", 5, -1)), (None, 5, None)),
    "a copied size of a reshape": (lambda g: g("Reshape", "x", joined(g, 0, "n", 8)), (1, 30, 8)),
    "pads": (padded, (1, 3, 11, None)),
    "repeats": (lambda g: g("Tile", "x", joined(g, 2, "n", 1, 3)), (2, None, 8, 30)),
    "an expansion": (lambda g: g("Expand", "x", joined(g, "n", 3, "n", 10)), (None, 3, 8, 10)),
    "an expansion to more axes": (lambda g: g("Expand", "x", joined(g, 2, "n", 3, 8, 10)), (2, None, 3, 8, 10)),
    "a filled tensor": (lambda g: g("ConstantOfShape", joined(g, 1, "n", 4)), (1, None, 4)),
    "known elements of a vector": (
        lambda g: g("ConstantOfShape", of_first(g, joined(g, 1, "n", 4), 2, 0)),
        (4, 1),
    ),
    "a slice of a vector": (
        lambda g: g("ConstantOfShape", g("Slice", joined(g, 6, 7, "n"), g.number(0), g.number(2))),
        (6, 7),
    ),
    "a vector divided by numbers": (
        lambda g: g("ConstantOfShape", g("Div", joined(g, 6, "n", 8), g.number(2, 2, 4))),
        (3, None, 2),
    ),
    "a vector plus a vector": (
        lambda g: g("ConstantOfShape", g("Add", joined(g, 6, "n", 1), joined(g, 1, 1, "n"))),
        (7, None, None),
    ),
    "minus one of a vector replaced by known sizes": (
        lambda g: g(
            "ConstantOfShape",
            g("Where", g("Equal", joined(g, -1, 4), g.number(-1, -1)), joined(g, 5, "n"), joined(g, "n", 4)),
        ),
        (5, 4),
    ),
    "ends of a slice": (
        lambda g: g("Slice", "x", g.number(0, 0), joined(g, 2, "n"), g.number(1, 2)),
        (1, 2, None, 10),
    ),
    "parts of a split": (lambda g: g("Split", "x", joined(g, 3, "n"), axis=3, outputs=2)[1], (1, 3, 8, 7)),
    "a cropped or padded image": (lambda g: g("CenterCropPad", "x", joined(g, 1, 3, "n", 6)), (1, 3, None, 6)),
}
"""What makes the value, and its shape with None for a size that depends on the values of the inputs."""


@pytest.mark.parametrize(("make", "expected"), CASES.values(), ids=list(CASES))
def test_known_sizes_are_numbers(make, expected):
    g = Graph()
    made = make(g)
    (found,) = shapes(g.model(INPUTS, g("Exp", made)))
    assert [d if isinstance(d, int) else None for d in found] == list(expected)


VALUES = {"what remains of a reshape": 120, "a copied size of a reshape": 30, "an expansion": 1, "parts of a split": 7}
"""Values of ``n`` that fit the image; 3 elsewhere."""


@pytest.mark.parametrize("name", CASES)
def test_given_values_give_the_sizes_that_are_known_without_them(name):
    g, (make, expected) = Graph(), CASES[name]
    made = make(g)
    (found,) = shapes(g.model(INPUTS, g("Exp", made)), {"x": IMAGE, "r": [2.0], "n": [VALUES.get(name, 3)]})
    assert len(found) == len(expected)
    assert all(b is None or a == b for a, b in zip(found, expected, strict=True))


def test_the_note_of_an_unknown_size_names_the_input_that_decides_it():
    g = Graph()
    report = estimate(g.model(INPUTS, g("Exp", scaled(g))))
    assert report.status == "assumed"
    assert [text.what.partition(" of 'Resize")[0] for text in report.assumptions] == [
        "the size of axis 2",
        "the size of axis 3",
    ]
    assert all(text.what.endswith("give inputs={'r': [9.0]}") for text in report.assumptions)
