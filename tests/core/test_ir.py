import pickle
import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import sympy

from costcore import CostError, Layer, Operations, Tensor
from costcore.ir import BITS, as_dim, covers, layout_operator


@pytest.mark.parametrize(
    ("dtype", "shape", "nbytes"),
    [
        ("float32", (2, 3), 24),
        ("float64", (), 8),
        ("bfloat16", (5,), 10),
        ("bool", (7,), 7),
        ("int4", (3,), 2),  # 12 bits
        ("int4", (4, 4), 8),
        ("uint1", (9,), 2),
        ("float8_e4m3fn", (6,), 6),
        ("complex64", (2,), 16),
        ("float32", (0, 5), 0),
    ],
)
def test_bytes_follow_the_dtype_and_small_elements_are_packed(dtype, shape, nbytes):
    assert Tensor(shape, dtype).nbytes == nbytes


def test_a_scalar_constant_takes_no_bytes_but_a_scalar_tensor_does():
    assert Tensor((), "float32", "const").nbytes == 0
    assert Tensor((), "float32").nbytes == 4
    assert Tensor((2,), "float32", "const").nbytes == 8


def test_operations_add_and_repeat():
    one = Operations(fma=2, mul=1, special=3)
    assert one + Operations(fma=1, cmp=5) == Operations(fma=3, mul=1, cmp=5, special=3)
    assert one * 10 == 10 * one == Operations(fma=20, mul=10, special=30)


def test_only_fma_depends_on_fma_1flop():
    all_classes = Operations(fma=1, mul=10, add=100, div=1000, cmp=10000, special=100000)
    assert all_classes.flops(fma_1flop=True) == 111111
    assert all_classes.flops(fma_1flop=False) == 111112


def layer(**attrs):
    return Layer(
        "conv", {"x": Tensor((1, 3, 8, 8)), "w": Tensor((4, 3, 3, 3), role="param")}, [Tensor((1, 4, 6, 6))], attrs
    )


def test_a_layer_can_be_pickled():
    assert pickle.loads(pickle.dumps(layer(kernel=(3, 3)))) == layer(kernel=(3, 3))


def test_bytes_and_parameters_of_a_layer():
    assert layer().read == 4 * (3 * 8 * 8 + 4 * 3 * 3 * 3)
    assert layer().written == 4 * 4 * 6 * 6
    assert layer().n_params == 4 * 3 * 3 * 3
    assert layer().get("b") is None


def test_symbols_stay_symbolic_until_they_are_substituted():
    n = sympy.Symbol("n", integer=True, positive=True)
    symbolic = Tensor((n, 3), "int4")
    assert symbolic.nbytes.subs(n, 5) == 8  # 15 elements of half a byte
    assert as_dim((n + 1).subs(n, 4)) == 5
    assert type(as_dim((n + 1).subs(n, 4))) is int


@pytest.mark.parametrize("wrong", [2.5, "3", None, sympy.Rational(1, 2)])
def test_dimensions_are_integers(wrong):
    with pytest.raises(TypeError, match="integer"):
        as_dim(wrong)


def test_an_operand_that_a_layer_lacks_is_an_error_that_names_it():
    layer = Layer("attention", {"x": Tensor((2, 3)), "k": Tensor((2, 3))})
    with pytest.raises(CostError, match=r"^operator 'attention' has no 'q' \(it has x, k\)$") as caught:
        layer["q"]
    assert isinstance(caught.value, KeyError)
    with pytest.raises(CostError, match=r"^operator 'attention' has no 'output' \(it has none\)$") as caught:
        layer.out  # noqa: B018 - reading it is the test
    assert isinstance(caught.value, IndexError)


n, m = sympy.symbols("n m", integer=True, positive=True)


@pytest.mark.parametrize("dtype", BITS)
def test_the_name_of_a_dtype_has_its_bits(dtype):
    digits = re.search(r"\d+", dtype)
    assert BITS[dtype] == (int(digits[0]) if digits else {"bool": 8, "string": 0}[dtype])


def test_bytes_of_some_elements():
    assert [Tensor((), "int3").bytes_of(count) for count in (0, 1, 2, 3, 8)] == [0, 1, 1, 2, 3]
    assert Tensor((9,), "float64").bytes_of(3) == 24


def symbolic_layer(**attrs) -> Layer:
    inputs = {"x": Tensor((n, 3), "float16"), "w": Tensor((m,), "int8", "param"), "s": Tensor((2,), role="state")}
    return Layer("op", inputs, [Tensor((n, m), "int64"), Tensor(())], attrs)


def test_dimensions_and_attributes_are_changed_together():
    changed = symbolic_layer(kernel=(n, (m, 1)), mode="linear").map_dims(lambda d: {n: 5, m: 7}.get(d, d))
    assert changed == Layer(
        "op",
        {"x": Tensor((5, 3), "float16"), "w": Tensor((7,), "int8", "param"), "s": Tensor((2,), role="state")},
        [Tensor((5, 7), "int64"), Tensor(())],
        {"kernel": (5, (7, 1)), "mode": "linear"},
    )


def test_the_order_of_attributes_makes_no_difference():
    one, other = symbolic_layer(a=1, b=(2, 3)), symbolic_layer(b=(2, 3), a=1)
    assert one == other
    assert len({one, other, symbolic_layer(a=1, b=(2, 4)), symbolic_layer(a=1)}) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda attrs: attrs.__setitem__("a", 2),
        lambda attrs: attrs.__delitem__("a"),
        lambda attrs: attrs.__ior__({"b": 1}),
        lambda attrs: attrs.update(b=1),
        lambda attrs: attrs.setdefault("b", 1),
        lambda attrs: attrs.pop("a"),
        lambda attrs: attrs.popitem(),
        lambda attrs: attrs.clear(),
    ],
)
def test_attributes_cannot_be_changed(change):
    attrs = symbolic_layer(a=1).attrs
    with pytest.raises(TypeError, match="create another layer"):
        change(attrs)
    assert attrs == {"a": 1}


@pytest.mark.parametrize(
    ("shared", "field"),
    [(Tensor((2,)), "shape"), (symbolic_layer(), "op"), (Operations(), "fma")],
    ids=["tensor", "layer", "count"],
)
def test_shared_objects_cannot_be_changed(shared, field):
    with pytest.raises(FrozenInstanceError, match=field):
        setattr(shared, field, 1)
    assert not hasattr(shared, "__dict__"), "there are many of them"


def test_operands_by_name():
    found = symbolic_layer()
    assert found["w"] is found.get("w")
    assert ("w" in found, "b" in found, found.get("b")) == (True, False, None)
    assert found.out.shape == (n, m)
    assert (found.read, found.written) == (2 * 3 * n + m + 8, 8 * n * m + 4)
    assert found.n_params == m


def test_a_calculator_of_several_operators_is_marked():
    table = {"b": "the second", "c": "the third"}
    marked = covers("a", table)(layout_operator(lambda layer: None))
    assert marked.ops == ("a", "b", "c")
    assert marked.table == table
    assert marked.is_layout is True


@pytest.mark.parametrize("sizes", [(np.int64(37), 41), (sympy.Integer(37), 41)])
def test_the_size_of_a_shape_does_not_depend_on_equal_ones_before(sizes):
    assert Tensor(sizes).size == 37 * 41
    assert type(Tensor((37, 41)).size) is int
