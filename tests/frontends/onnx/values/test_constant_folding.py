"""Elements known before a run equal those that onnx's reference implementation computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto
from onnx.reference import ReferenceEvaluator

from tests.frontends.onnx.corpus import outputs_of
from tests.whole_networks.onnx_models import Graph

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
KINDS = {int: INT64, float: FLOAT, bool: BOOL}


def true_elements(model: ModelProto, inputs: dict[str, Any]) -> Any:
    """The elements of the output as the reference computes them."""
    for entry in model.graph.output:
        entry.type.tensor_type.ClearField("elem_type")
    return ReferenceEvaluator(model).run(None, inputs)[0].tolist()


A, B = [7, -7, 7, -7, 0, 12], [2, 2, -2, -2, 5, 4]
F, G = [0.5, -1.5, 2.5, -2.5, 3.0, 0.25], [2.0, 0.5, -1.0, 4.0, 3.0, 2.0]
P, Q = [True, True, False, False], [True, False, True, False]
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Max", "Min")
ORDER = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


@pytest.mark.parametrize(
    ("op", "arrays", "attrs"),
    [
        *((op, (A, B), {}) for op in (*ARITHMETIC, *ORDER, "Mod")),
        *((op, (F, G), {}) for op in (*ARITHMETIC, *ORDER)),
        *((op, (A, A), {}) for op in ORDER),
        *((op, (P, Q), {}) for op in ("And", "Or", "Xor", "Equal")),
        *((op, (F,), {}) for op in ("Abs", "Neg", "Floor", "Ceil", "Round", "Relu", "Reciprocal", "Exp", "Sign")),
        *((op, (A,), {}) for op in ("Abs", "Neg", "Relu", "Sign")),
        *((op, (G[4:],), {}) for op in ("Sqrt", "Log")),
        ("Not", (P,), {}),
        ("Mod", (A, B), {"fmod": 1}),
        ("Mod", (F, G), {"fmod": 1}),
        ("Max", (A, B, [1, 2, 3, 4, 5, 6]), {}),
        ("Add", (A, [10]), {}),
        ("Pow", ([2, 3, 1, -1, -2], [5, 0, 60, 3, 3]), {}),
        ("Where", (P, [1, 2, 3, 4], [5, 6, 7, 8]), {}),
        ("Cast", (F,), {"to": INT64}),
        ("Cast", (A,), {"to": FLOAT}),
        ("Cast", (A,), {"to": BOOL}),
        ("Cast", (P,), {"to": INT64}),
        ("Range", ([2], [11], [3]), {}),
        ("Range", ([11], [2], [-4]), {}),
        ("Range", ([5], [2], [1]), {}),
        ("Range", ([0], [1 << 62], [1 << 61]), {}),
        ("Range", ([0], [1 << 62], [-1]), {}),
        ("Range", ([-(1 << 62)], [1 << 62], [1 << 61]), {}),
        ("Range", ([0.5], [2.0], [0.5]), {}),
        ("Range", ([2.0], [0.5], [0.25]), {}),
        ("NonZero", (A,), {}),
        ("Gather", (A, [0, -1, 3]), {}),
        ("Concat", (A, B), {"axis": 0}),
        ("Slice", (A, [1], [-1], [0], [2]), {}),
    ],
)
def test_elements_are_those_of_the_reference(op: str, arrays: tuple[list[Any], ...], attrs: dict[str, Any]):
    g = Graph()
    scalars = op == "Range"
    names = [g.number(*array, dtype=KINDS[type(array[0])], scalar=scalars) for array in arrays]
    model = g.model({}, g(op, *names, **attrs))
    (value,) = outputs_of(model)
    truth = true_elements(model, {})
    assert value.data is not None
    assert value.data.ravel().tolist() == pytest.approx(np.ravel(truth).tolist())
    assert value.shape == np.shape(truth)


def sizes(g: Graph) -> tuple[str, str]:
    """The two sizes of the input x, of which nothing is known but their names."""
    shape = g("Shape", "x")
    return g("Gather", shape, g.number(0)), g("Gather", shape, g.number(1))


def mixed(op: str, *numbers: float, swapped: bool = False, dtype: int = INT64, **attrs: Any) -> ModelProto:
    """One operator of a size and numbers, or of two sizes."""
    g = Graph()
    n, m = sizes(g)
    if dtype != INT64:
        n, m = g("Cast", n, to=dtype), g("Cast", m, to=dtype)
    given = [n, *(g.number(number, dtype=dtype) for number in numbers)] if numbers else [n, m]
    return g.model({"x": ("n", "m")}, g(op, *(given[::-1] if swapped else given), **attrs))


@pytest.mark.parametrize(
    "model",
    [
        *(mixed(op) for op in ARITHMETIC[:4]),
        *(mixed(op, 4, swapped=swapped) for op in ARITHMETIC for swapped in (False, True)),
        *(mixed(op, 4) for op in ("Mod", "Pow")),
        mixed("Mod", 4, fmod=1),
        mixed("Div", 2.0, dtype=FLOAT),
        mixed("Mul", 0.5, dtype=FLOAT),
        *(mixed(op) for op in ("Max", "Min")),
    ],
    ids=lambda model: model.graph.node[-1].op_type,
)
@pytest.mark.parametrize("shape", [(7, 3), (9, 9), (1, 2)])
def test_formulas_become_the_elements_of_the_reference(model: ModelProto, shape: tuple[int, int]):
    (value,) = outputs_of(model)
    assert value.data is not None
    (formula,) = value.data.tolist()
    numbers = {symbol: shape["nm".index(str(symbol))] for symbol in formula.free_symbols}
    truth = true_elements(model, {"x": np.zeros(shape, "float32")})
    assert [float(formula.subs(numbers))] == truth


@pytest.mark.parametrize("op", ["Floor", "Ceil"])
@pytest.mark.parametrize("n", [6, 7, 8])
def test_formulas_of_half_a_size_are_rounded(op: str, n: int):
    g = Graph()
    half = g("Mul", g("Cast", sizes(g)[0], to=FLOAT), g.number(0.5, dtype=FLOAT))
    model = g.model({"x": ("n", "m")}, g("Cast", g(op, half), to=INT64))
    (formula,) = outputs_of(model)[0].data.tolist()
    (symbol,) = formula.free_symbols
    assert [int(formula.subs(symbol, n))] == true_elements(model, {"x": np.zeros((n, 1), "float32")})


@pytest.mark.parametrize(
    ("op", "number", "known"),
    [  # a size is 1 or more
        ("Equal", 0, False),
        ("Less", 1, False),
        ("LessOrEqual", 0, False),
        ("Greater", 0, True),
        ("GreaterOrEqual", 1, True),
        ("Equal", 5, None),
        ("Less", 5, None),
        ("LessOrEqual", 5, None),
        ("Greater", 5, None),
        ("GreaterOrEqual", 5, None),
    ],
)
def test_comparisons_of_sizes_are_known_where_every_size_agrees(op: str, number: int, known: bool | None):
    (value,) = outputs_of(mixed(op, number))
    assert (None if value.data is None else value.data.tolist()) == (None if known is None else [known])


@pytest.mark.parametrize(
    ("op", "arrays"),
    [
        ("Div", ([1, 2], [1, 0])),
        ("Mod", ([1, 2], [1, 0])),
        ("Log", ([1.0, -1.0],)),
        ("Sqrt", ([1.0, -1.0],)),
        ("Reciprocal", ([1.0, 0.0],)),
        ("Exp", ([1.0, 1e9],)),
        ("Pow", ([2, 2], [1, 65])),
        ("Pow", ([2, 2], [1, -1])),
        ("Gather", ([1, 2], [0, 2])),
        ("Mul", ([1 << 62], [4])),
    ],
)
def test_elements_that_no_type_holds_are_not_known(op: str, arrays: tuple[list[Any], ...]):
    g = Graph()
    (value,) = outputs_of(g.model({}, g(op, *(g.number(*array, dtype=KINDS[type(array[0])]) for array in arrays))))
    assert value.data is None
    assert value.shape == np.shape(arrays[-1])
