"""Shapes of named sizes: with numbers put in, they are those of the same model of numbers."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto, TensorProto

from costcore import CostError, Report, estimate
from tests.frontends.onnx.read_model import read, shapes
from tests.whole_networks.onnx_models import Graph

FAR, FLOAT, INT64 = (1 << 63) - 1, TensorProto.FLOAT, TensorProto.INT64

NODES: list[tuple[str, list[Any], dict[str, Any]]] = [
    # operator, operands after x (names of its sizes in shapes, elements of constants), attributes
    ("Add", [("n", 1)], {}),
    ("Add", [(1, "m")], {}),
    ("Add", [(5, 1, 1)], {}),
    ("Flatten", [], {"axis": -1}),
    ("Flatten", [], {"axis": 2}),
    ("Reshape", [[-1]], {}),
    ("Reshape", [[0, 1, -1]], {}),
    ("Unsqueeze", [[0, -1]], {}),
    ("Transpose", [], {}),
    ("Concat", [(3, "m")], {"axis": 0}),
    ("Concat", [("n", "m"), ("n", 2)], {"axis": -1}),
    ("Split", [], {"axis": 0, "num_outputs": 1}),
    ("Tile", [[2, 3]], {}),
    ("Pad", [[1, 2, 3, 4]], {}),
    ("Pad", [[1, 2], [], [-1]], {}),
    ("Gather", [[0, 1, 1]], {"axis": 1}),
    ("TopK", [[1]], {"axis": 0, "outputs": 2}),
    ("MatMul", [("m", 4)], {}),
    ("Gemm", [("n", 5)], {"transA": 1}),
    ("Einsum", [("m", "n")], {"equation": "ij,jk->ki"}),
    ("Einsum", [], {"equation": "ij->ji"}),
    ("ReduceSum", [[-1]], {"keepdims": 0}),
    ("Expand", [[3, 1, 1]], {}),
    *(
        ("Slice", [[start], [end], [axis], [step]], {})
        for axis in (0, -1)
        for start, end, step in (
            (0, FAR, 1),
            (1, FAR, 1),
            (0, -1, 1),
            (-2, FAR, 1),
            (-3, -1, 1),
            (0, FAR, 2),
            (1, FAR, 3),
            (0, 2, 1),
            (-1, -FAR, -1),
            (-1, -FAR, -2),
            (-2, -FAR, -1),
            (-1, 0, -1),
            (FAR, -FAR, -1),
            (FAR, -2, -1),
            (3, -FAR, -1),
            (3, 0, -2),
            (2, 6, 1),
            (2, 2, 1),
        )
    ),
]


def model(op: str, more: list[Any], attrs: dict[str, Any], sizes: dict[str, int]) -> ModelProto:
    """One node that reads x, of n times m elements."""

    def put(shape: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sizes.get(d, d) for d in shape)

    g, given, names = Graph(), {"x": put(("n", "m"))}, ["x"]
    for i, operand in enumerate(more):
        if isinstance(operand, tuple):
            given[f"y{i}"] = put(operand)
            names.append(f"y{i}")
        else:
            names.append(g.number(*operand) if operand else "")
    return g.model(given, g(op, *names, **attrs))


@pytest.mark.parametrize(("op", "more", "attrs"), NODES)
def test_named_sizes_and_numbers_agree(op: str, more: list[Any], attrs: dict[str, Any]):
    named = shapes(model(op, more, attrs, {}))
    assert any(not isinstance(d, int) for shape in named for d in shape)
    for n, m in ((7, 4), (4, 9), (8, 8)):

        def put(d: Any, sizes: dict[str, int]) -> int:
            return d if isinstance(d, int) else int(d.subs({s: sizes[str(s)] for s in d.free_symbols}))

        sizes = {"n": n, "m": m}
        found = [tuple(put(d, sizes) for d in shape) for shape in named]
        assert found == shapes(model(op, more, attrs, sizes)), sizes


def test_a_number_of_elements_that_is_reshaped_to_named_sizes_is_taken_to_be_theirs():
    g = Graph()
    wanted = g("Concat", g("Shape", "like", end=1), g.number(6), axis=0)
    recorder = read(g.model({"x": (2, 6), "like": ("n", 4)}, g("Reshape", "x", wanted)))
    assert str(recorder.calls[-1].layer.out.shape) == "(n, 6)"
    (told,) = [a.what for a in recorder.assumptions]
    assert told.startswith("its shape has 6*n elements, its input 12: assumed to be equal")


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, FAR, 1, "n"),
        (1, FAR, 1, "n - 1"),
        (0, -1, 1, "n - 1"),
        (-2, FAR, 1, "2"),
        (-3, -1, 1, "2"),
        (-1, -FAR, -1, "n"),
        (FAR, 0, -1, "n - 1"),
        (0, 2, 1, "Min(2, n)"),
        (0, 1, 1, "1"),
    ],
)
def test_slices_of_a_named_length_are_short_formulas(start: int, end: int, step: int, expected: str):
    made = model("Slice", [[start], [end], [0], [step]], {}, {})
    assert str(shapes(made)[0][0]) == expected


@pytest.mark.parametrize(("op", "more"), [("DFT", []), ("STFT", [[2]])])
def test_a_signal_of_a_named_number_of_parts_is_taken_to_be_real(op: str, more: list[Any]):
    g = Graph()
    names = [g.number(*numbers, scalar=True) for numbers in more]
    recorder = read(g.model({"x": (2, 8, "parts")}, g(op, "x", *names)))
    told = "the last axis of the signal, of size parts, is assumed to be 1: real numbers"
    assert [a.what for a in recorder.assumptions] == [told]
    assert (recorder.calls[-1].layer["x"].shape, recorder.calls[-1].layer["x"].dtype) == ((2, 8), "float32")


def test_values_that_contradict_what_was_assumed_of_a_symbol_are_refused():
    g = Graph()
    report = estimate(g.model({"x": ("n",)}, g("Slice", "x", g.number(-3), g.number(FAR), g.number(0))))
    assert [report.subs(n=n).total_report["mwrite"] for n in (3, 5)] == [3 * 4] * 2
    with pytest.raises(CostError, match=r"Slice-1: these values slice \(1,\) to \(3,\), which is larger"):
        report.subs(n=1)
    saved = Report.from_json(report.to_json())
    with pytest.raises(CostError, match="which is larger"):
        saved.subs(n=2)
    g = Graph()
    wanted = g("Concat", g("Shape", "like", end=1), g.number(6), axis=0)
    report = estimate(g.model({"x": (2, 6), "like": ("n", 4)}, g("Relu", g("Reshape", "x", wanted))))
    assert report.subs(n=2).total_report["mwrite"] == 2 * 6 * 4
    with pytest.raises(CostError, match=r"Reshape-1: these values reshape \(2, 6\) to \(3, 6\)"):
        report.subs(n=3)
