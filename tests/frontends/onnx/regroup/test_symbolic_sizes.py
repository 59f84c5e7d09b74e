"""Groups in models of named sizes: they are those of every number, or a note says that they depend on the numbers."""

from __future__ import annotations

import pytest
from onnx import ModelProto

from costcore import estimate
from tests.frontends.onnx.regroup.decompositions import CASES, Case, Spelled, model, scores

TOTALS = ("macs", "flops", "mread", "mwrite", "n_params")
DEPENDS = "depends on sizes; the nodes were counted one by one"


def inputs(case: Case) -> list[tuple[int, int]]:
    """The axes of all inputs."""
    shapes = [entry.type.tensor_type.shape for entry in model(case).graph.input]
    return [(i, axis) for i, shape in enumerate(shapes) for axis in range(len(shape.dim))]


def named(case: Case, i: int, axis: int) -> tuple[ModelProto, int]:
    """The model with a name for one axis of one input, and its size."""
    made = model(case)
    dim = made.graph.input[i].type.tensor_type.shape.dim[axis]
    size = dim.dim_value
    dim.dim_param = "s"
    return made, size


EACH = [(case, i, axis) for case in CASES for i, axis in inputs(case)]


@pytest.mark.parametrize(("case", "i", "axis"), EACH, ids=[f"{c.write.__name__}-{i}-{axis}" for c, i, axis in EACH])
def test_substitution_equals_the_estimate_of_numbers_or_a_note_says_why_not(case, i, axis):
    made, size = named(case, i, axis)
    symbolic, numbers = estimate(made, regroup=True), estimate(model(case), regroup=True).total_report
    remaining = {symbol.name for name in TOTALS for symbol in getattr(symbolic.total_report[name], "free_symbols", ())}
    totals = (symbolic.subs(s=size) if remaining else symbolic).total_report
    differing = [name for name in TOTALS if totals[name] != numbers[name]]
    notes = [note for note in symbolic.notes if DEPENDS in note]
    assert bool(differing) == bool(notes)
    for note in notes:
        assert f"If s = {size}, give dims={{'s': {size}}}" in note
        assert estimate(made, regroup=True, dims={"s": size}).total_report["flops"] == numbers["flops"]


def attention(*, mask: tuple[str, ...], values: tuple[str, ...]) -> ModelProto:
    g = Spelled()
    shapes = {"q": ("n", "h", "q", 8), "k": ("n", "h", "s", 8), "v": values, "mask": mask}
    return g.model(shapes, g("MatMul", scores(g, "mask"), "v"))


SAME, OTHER = ("n", "h", "s", "d"), ("n", "h", "r", "d")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (attention(mask=("q", "s"), values=SAME), ""),
        (attention(mask=("q", "t"), values=SAME), ""),  # the product with the values requires t = s
        (attention(mask=("r", "s"), values=SAME), "If r = q, give dims={'r': 'q'}."),
        (attention(mask=("q", "t"), values=OTHER), "If t = s, give dims={'t': 's'}."),
    ],
)
def test_a_mask_of_other_names(made, expected):
    report = estimate(made, regroup=True)
    notes = [note for note in report.notes if DEPENDS in note]
    assert len(notes) == bool(expected)
    assert ("attention" in report.by("op")) == (not expected)
    if expected:
        assert expected in notes[0]
        name, other = ("r", "q") if "r = q" in expected else ("t", "s")
        assert "attention" in estimate(made, regroup=True, dims={name: other}).by("op")
