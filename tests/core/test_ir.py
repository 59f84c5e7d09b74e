import pickle

import pytest
import sympy

from costcore import CostError, Layer, Operations, Tensor
from costcore.ir import as_dim, ceil_div, ceil_log2, maximum, minimum
from costcore.numbers import degree, quotient


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


def test_equal_layers_have_equal_hashes():
    assert layer(kernel=(3, 3)) == layer(kernel=(3, 3))
    assert len({layer(kernel=(3, 3)), layer(kernel=(3, 3)), layer(kernel=(5, 5))}) == 2


def test_a_layer_cannot_be_changed():
    with pytest.raises(TypeError, match="cannot be changed"):
        layer().attrs["kernel"] = (1, 1)
    with pytest.raises(TypeError, match="cannot be changed"):
        layer().inputs.update(b=Tensor((4,)))


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


def test_helpers_agree_on_ints_and_symbols():
    n = sympy.Symbol("n", integer=True, positive=True)
    for value in range(1, 20):
        assert minimum(n, 7).subs(n, value) == minimum(value, 7) == min(value, 7)
        assert maximum(n, 7).subs(n, value) == maximum(value, 7) == max(value, 7)
        assert ceil_div(n, 4).subs(n, value) == ceil_div(value, 4) == -(-value // 4)
        assert ceil_log2(n).subs(n, value) == ceil_log2(value)
    assert [ceil_log2(v) for v in (0, 1, 2, 3, 4, 5, 8, 9, 1024, 1025)] == [0, 0, 1, 2, 2, 3, 3, 4, 10, 11]


def test_quotients_of_symbols_are_exact_if_factors_cancel():
    n, m = sympy.symbols("n m", integer=True, positive=True)
    assert quotient(7, 2) == 3
    assert quotient(6 * n * m, 2 * m) == 3 * n
    assert quotient(n + 1, 1) == n + 1
    assert quotient(n, 2).subs(n, 7) == 3


def test_the_degree_is_that_of_the_longest_product():
    n, m = sympy.symbols("n m", integer=True, positive=True)
    assert [degree(d) for d in (5, sympy.Integer(5), n, n * m, n**3 * m + n, (n + m) ** 2 // 3)] == [0, 0, 1, 2, 4, 2]
    assert degree(sympy.Max(n, 2 * n * m)) == 2
    assert degree(2**n) > 16


def test_an_operand_that_a_layer_lacks_is_an_error_that_names_it():
    layer = Layer("attention", {"x": Tensor((2, 3)), "k": Tensor((2, 3))})
    with pytest.raises(CostError, match=r"^operator 'attention' has no 'q' \(it has x, k\)$") as caught:
        layer["q"]
    assert isinstance(caught.value, KeyError)
    with pytest.raises(CostError, match=r"^operator 'attention' has no 'output' \(it has none\)$") as caught:
        layer.out  # noqa: B018 - reading it is the test
    assert isinstance(caught.value, IndexError)
