"""Every quantity that rules can name, of layers of small sizes, by hand."""

from __future__ import annotations

import pytest
import sympy

from costcore import CostError
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.analyses.conventions.written import amount
from tests.core.traces import Module, Run

X, W, B, Y = (2, 3, 11, 13), (6, 3, 5, 4), (6,), (2, 6, 4, 7)
CONV = Layer(
    "conv",
    {"x": Tensor(X), "w": Tensor(W, role="param"), "b": Tensor(B, role="param")},
    [Tensor(Y, "float16")],
    {"kernel": (5, 4), "stride": (2, 3), "padding": (1, 2), "dilation": (2, 3), "groups": 3, "training": True},
)
OPERATIONS = Operations(fma=2, mul=3, add=5, div=7, cmp=11, special=13)
COST = Cost(OPERATIONS, 1, 1, {}, 90)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # forward positions: (11 + 2 - 2 * 4 - 1) // 2 + 1 and (13 + 4 - 3 * 3 - 1) // 3 + 1
        *(("x", 2 * 3 * 11 * 13), ("y", 2 * 6 * 4 * 7), ("w", 6 * 3 * 5 * 4), ("b", 6), ("x0", 2 * 3 * 11 * 13)),
        *(("mask", 0), ("macs", 90), ("element_macs", 90), ("1 if is_complex else 0", 0)),
        *(("flops", 2 + 3 + 5 + 7 + 11 + 13), ("fma", 2), ("mul", 3), ("add", 5), ("div", 7), ("cmp", 11)),
        *(("special", 13), ("params", 360 + 6), ("n_operands", 3), ("W", 360), ("B", 6), ("I", 13), ("H", 0), ("P", 0)),
        *(("D", 1), ("layers", 1), ("steps", 2 * 3 * 11), ("gates", 0), ("taps", 20), ("affine", 1), ("bias", 1)),
        *(("1 if in_place else 0", 0), ("1 if training else 0", 1), ("1 if running else 0", 0), ("groups", 3)),
        *(("1 if mode == '' else 0", 1), ("rows", 2 * 3 * 11), ("shape(x, 0)", 2), ("shape(x, 3)", 13)),
        *(("shape(x, -4)", 2), ("shape(x, -5)", 1), ("shape(x, 4)", 1), ("last(w)", 4), ("ndim(b)", 1)),
        *(("bits(x)", 32), ("bits(y)", 16), ("1 if strided(x) else 0", 0), ("1 if learned(w) else 0", 0)),
        *(("1 if needs(w) else 0", 1), ("1 if needs(q) else 0", 0), ("forward_positions()", 3 * 3)),
        ("square_kernel()", 20),
    ],
)
def test_a_convolution(expression, expected):
    assert amount(expression, CONV, COST) == expected


def test_what_is_known_of_operands():
    run = Run(modules={"": Module("Net", parameters=(7,))})
    ids = {"inputs": (1, 2, 3), "outputs": (4,), "storages": (9, 2, 3, 9), "strided": (2,), "parameters": (7,)}
    for expression, expected in (
        ("strided(x) * 1 + 10 * strided(w) + 100 * strided(b)", 100),
        ("learned(x) * 1 + 10 * learned(w) + 100 * learned(b)", 110),
        ("1 if in_place else 0", 1),
    ):
        assert amount(expression, CONV, COST, run, **ids) == expected
    with pytest.raises(CostError, match="operator 'conv' has no operand 'q'"):
        amount("last(q)", CONV, COST)


@pytest.mark.parametrize(
    ("layer", "expression", "expected"),
    [
        *((Layer("mm", {"x0": Tensor((3, 5)), "x1": Tensor((5, 7))}, []), name, value) for name, value in (
            ("y", 0), ("x", 15), ("w", 0), ("1 if training else 0", 0), ("groups", 1), ("taps", 1), ("affine", 0),
            ("bias", 0), ("1 if running else 0", 0), ("gates", 0), ("H", 0), ("P", 0), ("layers", 1),
            ("square_kernel()", 1),
        )),
        (Layer("norm", {"x": Tensor((3,)), "mean": Tensor((3,)), "b0": Tensor((3,))}, []), "bias + 10 * running", 11),
        (Layer("resize", {"x": Tensor((3,))}, [], {"mode": "cubic"}), "1 if mode == 'cubic' else 0", 1),
        (Layer("mm", {"x": Tensor((3,))}, [], {"needs": ("w",)}), "1 if needs(x) else 0", 0),
    ],
)  # fmt: skip
def test_a_layer_without_attributes(layer, expression, expected):
    assert amount(expression, layer, COST) == expected


def test_operations_of_other_kinds():
    """Plain numbers are additions; a product of complex numbers is four of elements."""
    assert [amount(name, CONV, Cost(17, 1, 1, {}, 9)) for name in ("flops", "add", "fma", "macs")] == [17, 17, 0, 9]
    layer = Layer("mm", {"x0": Tensor((3, 5)), "x1": Tensor((5, 7), "complex64")}, [])
    assert amount("element_macs if is_complex else 0", layer, COST) == 90 // 4


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        (
            "lstm",
            {"hidden": 3, "projection": 2, "bidirectional": True, "layers": 2},
            [12 + 15 + 21 + 24, 3, 2, 2, 2, 4],
        ),
        ("gru", {"hidden": 3, "projection": None}, [12 + 15 + 18 + 21 + 24 + 27, 3, 0, 1, 1, 3]),
        ("rnn", {"hidden": 3, "projection": 0}, [12 + 15 + 18 + 21 + 24 + 27, 3, 0, 1, 1, 1]),
    ],
)
def test_recurrent_layers(op, attrs, expected):
    """Weights of 12, 15, 18, 21, 24 and 27 elements, every third one of a projection; biases of 2 and 5."""
    inputs = {"x": Tensor((7, 2, 11)), "h0": Tensor((1, 2, 3))}
    inputs |= {f"w{i}": Tensor((12 + 3 * i,), role="param") for i in range(6)}
    inputs |= {"b0": Tensor((2,)), "b1": Tensor((5,))}
    layer = Layer(op, inputs, [], attrs)
    assert [amount(name, layer) for name in ("W", "H", "P", "D", "layers", "gates")] == expected
    assert [amount(name, layer) for name in ("B", "I", "steps", "bias")] == [7, 11, 14, 1]


@pytest.mark.parametrize(
    ("x", "batch", "expected"),
    [((4, 7, 2), 4, True), ((7, 4, 2), 4, False), ((4, 4, 2), 4, False), ((4, 2), 4, False), ((1, 7, 2), 1, False),
     ((4, 1, 2), 4, False), ((5, 7, 2), 4, False)],
)  # fmt: skip
def test_whether_the_batch_is_first(x, batch, expected):
    layer = Layer("lstm", {"x": Tensor(x), "h0": Tensor((1, batch, 3))}, [])
    assert amount("1 if batch_first else 0", layer) == expected


@pytest.mark.parametrize(
    ("ranks", "strided", "learned", "expected"),
    [
        ((2, 2), (), (), True),
        ((2, 3), (), (), True),
        ((1, 2), (), (), True),
        ((2, 1), (), (), False),
        ((1, 1), (), (), False),
        ((3, 1), (0,), (), True),
        ((3, 1), (), (), False),
        ((3, 1), (0,), (1,), False),
        ((3, 1), (0,), (0,), True),
        ((1, 3), (), (), True),
        ((1, 3), (1,), (), False),
        ((1, 3), (), (0,), False),
        ((1, 3), (), (1,), True),
    ],
)
def test_what_pytorch_runs_as_a_product_of_matrices(ranks, strided, learned, expected):
    inputs = {f"x{i}": Tensor((4,) * rank) for i, rank in enumerate(ranks)}
    ids = {"inputs": tuple(20 + i for i in range(len(ranks))), "strided": strided}
    inputs = {
        name: Tensor(x.shape, role="param" if i in learned else "data") for i, (name, x) in enumerate(inputs.items())
    }
    run = Run(modules={"": Module("Net", parameters=(7,))}, frameworks={"torch": "2"})
    layer, own = Layer("matmul", inputs, []), (7,) * bool(learned)
    assert amount("1 if runs_mm else 0", layer, run=run, parameters=own, **ids) == expected


def test_attention():
    """2 x 3 heads of 5 queries and 7 keys."""
    inputs = {"q": Tensor((2, 3, 5, 4)), "k": Tensor((2, 3, 7, 4)), "v": Tensor((2, 3, 7, 4)), "mask": Tensor((5, 7))}
    layer = Layer("attention", inputs, [Tensor((2, 3, 5, 4))])
    names = ("q", "k", "v", "mask", "scores", "is_fused * 1")
    assert [amount(name, layer) for name in names] == [120, 168, 168, 35, 2 * 3 * 5 * 7, 1]
    for changed, attrs in (
        ({"v": Tensor((2, 3, 7, 6))}, {}),
        ({"q": Tensor((3, 5, 4))}, {}),
        ({}, {"backend": "math"}),
    ):
        assert amount("is_fused * 1", Layer("attention", {**inputs, **changed}, layer.outputs, attrs)) == 0


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [((2, 3, 5), -1, 6), ((2, 3, 5), 1, 10), ((2, 3, 5), 0, 15), ((2, 3, 5), (1, 2), 10), ((), 0, 1), ((4,), 0, 1)],
)
def test_rows_that_softmax_normalizes(shape, axis, expected):
    assert amount("rows", Layer("softmax", {"x": Tensor(shape)}, [], {"axis": axis})) == expected


def test_windows_of_adaptive_pools():
    """From 11 and 9 inputs to 4 and 3: 11 + 4 - 1 and 9 of all windows; 11 / 4 does not divide, its remainder is 3."""
    layer = Layer("adaptive_avg_pool", {"x": Tensor((2, 5, 11, 9))}, [Tensor((2, 5, 4, 3))])
    for expression, expected in (
        ("windows()", 2 * 5 * (11 + 4 - 1) * 9),
        ("truncate(float_windows() * 4)", 4 * 2.75 * 3),
        ("floor_windows()", 2 * 3),
        ("guessed_windows()", 4 * 3),
    ):
        assert amount(expression, layer) == expected
    # from 7 to 3: 0-2, 2-4 and 4-6 are 9 inputs, 7 + 3 - gcd 1; from 6 to 3 none overlap
    for size, expected in ((7, 9), (6, 6)):
        layer = Layer("adaptive_avg_pool", {"x": Tensor((2, 4, size))}, [Tensor((2, 4, 3))])
        assert amount("windows()", layer) == 2 * 4 * expected


@pytest.mark.parametrize(
    ("size", "outputs", "settings", "expected"),
    [
        (5, 3, {"padding": (1,)}, 3 + 3 + 3),  # windows begin at -1, 1 and 3; padding counts
        (5, 3, {"padding": (1,), "count_include_pad": False}, 2 + 3 + 2),
        (6, 4, {"padding": (1,)}, 3 + 3 + 3 + 2),  # the last begins at 5: 5 and the padding, not what lies beyond
        (6, 4, {"padding": (1,), "count_include_pad": False}, 2 + 3 + 3 + 1),
        (6, 3, {"padding": (0,)}, 3 + 3 + 2),
        (4, 3, {"padding": (0,)}, 3 + 2 + 0),  # the last begins beyond the input
    ],
)
def test_inputs_of_windows(size, outputs, settings, expected):
    attrs = {"kernel": (3,), "stride": (2,), **settings}
    layer = Layer("avg_pool", {"x": Tensor((2, 4, size))}, [Tensor((2, 4, outputs))], attrs)
    assert amount("windows()", layer) == 2 * 4 * expected
    square = Layer(
        "avg_pool",
        {"x": Tensor((2, 4, size, size))},
        [Tensor((2, 4, outputs, outputs))],
        {name: value * 2 if isinstance(value, tuple) else value for name, value in attrs.items()},
    )
    assert amount("windows()", square) == 2 * 4 * expected**2


@pytest.mark.parametrize(("kernel", "expected"), [((5, 4), 20), ((5, 5), 5)])
def test_a_kernel_that_may_have_been_given_as_one_number(kernel, expected):
    assert amount("square_kernel()", Layer("pool", {"x": Tensor((3,))}, [], {"kernel": kernel})) == expected


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((2, 3, 5), (2, 3)), 30),
        (((2, 3), (2, 1, 7)), 42),
        (((1, 3), (4, 1), (9, 9)), 12),  # only two are lined up
        (((2, 3, 1), (2, 3)), 6),
        (((), ()), 1),
        (((6,),), 6),
    ],
)
def test_shapes_lined_up_from_the_left(shapes, expected):
    layer = Layer("add", {f"x{i}": Tensor(shape) for i, shape in enumerate(shapes)}, [])
    assert amount("left_broadcast()", layer) == expected


@pytest.mark.frontend("onnx")  # brings sympy
def test_symbols():
    n = sympy.Symbol("n", integer=True, positive=True)
    layer = Layer("add", {"x0": Tensor((n, 3)), "x1": Tensor((1, 3))}, [])
    assert amount("left_broadcast()", layer) == 3 * n
    assert amount("truncate(1 * x0)", layer) == 3 * n
    settings = {"kernel": (3,), "stride": None, "padding": (0,)}
    pool = Layer("avg_pool", {"x": Tensor((2, 5, n))}, [Tensor((2, 5, n))], settings)
    assert amount("windows()", pool) == 2 * 5 * 3 * n


N = sympy.Symbol("n", integer=True, positive=True)


def einsum(expression, equation, *shapes):
    inputs = {f"x{i}": Tensor(shape) for i, shape in enumerate(shapes)}
    return amount(expression, Layer("einsum", inputs, [], {"equation": equation}))


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)], 2 * 2 * 3 * 5 + 1),  # a product and a sum for each index triple, and 1
        ("i,j->ij", [(4,), (6,)], 4 * 6 + 1),  # nothing is summed
        ("ij->i", [(4, 6)], 2 * 4 * 6 + 1),
        ("bij,bjk->bik", [(4, 16, 8), (4, 8, 16)], 16380),  # 16,385 has four digits in print
        ("...i,ij->...j", [(5, 3, 6), (6, 4)], 2 * 5 * 3 * 6 * 4 + 1),
        ("...i,...i->...", [(5, 3, 6), (3, 6)], 2 * 5 * 3 * 6 + 1),
        ("...i,...", [(5, 3, 6), (3,)], 5 * 3 * 6 + 1),
        ("bi,ij,jk->bk", [(5, 6), (6, 7), (7, 8)], 2 * 5 * 6 * 7 + 2 * 5 * 7 * 8 + 1),  # 981: first bi,ij
        ("ij,jk,kl", [(2, 9), (9, 9), (9, 3)], 2 * 9 * 9 * 2 + 2 * 2 * 9 * 3 + 1),
        ("ij,jk,kl->il", [(3, 3)] * 3, 2 * 27 + 2 * 27 + 1),  # a result as large as the operands is allowed
    ],
)
def test_what_numpy_prints(equation, shapes, expected):
    assert einsum("einsum_numpy()", equation, *shapes) == expected
    numpy = pytest.importorskip("numpy")
    printed = numpy.einsum_path(equation, *map(numpy.zeros, shapes), optimize="optimal")[1]
    (line,) = (line for line in printed.split("\n") if "optimized flop" in line.lower())
    assert int(float(line.split(":")[-1])) == expected


def test_numbers_that_numpy_does_not_print():
    with pytest.raises(CostError, match="needs the sizes of all indices as numbers"):
        einsum("einsum_numpy()", "ij,jk->ik", (2, N), (3, 5))
    with pytest.raises(CostError, match=r"has 7 operands .expected at most 6."):
        einsum("einsum_numpy()", "a,a,a,a,a,a,a->a", *[(2,)] * 7)


@pytest.mark.parametrize(
    ("expression", "equation", "shapes", "expected"),
    [
        ("einsum_sizes()", "bij,bjk->bik", [(4, 2, 3), (4, 3, 5)], 4 * 2 * 3 * 5),
        ("einsum_sizes()", "ij,jk->ik", [(N, 3), (3, 5)], 15 * N),
        ("einsum_sizes()", "...i,ij->...j", [(2, 6), (6, 4)], 0),
        ("einsum_pair()", "bij,bjk->bik", [(4, 2, 3), (4, 3, 5)], 4 * 2 * 3 * 5),
        ("einsum_pair()", "ij,k->i", [(2, 3), (5,)], 2),  # j and k are summed before
        ("einsum_pair()", "...i,ij->...j", [(7, 2, 6), (6, 4)], 7 * 2 * 6 * 4),
        ("einsum_pair()", "bi,ij,jk->bk", [(5, 6), (6, 7), (7, 8)], 0),
        ("einsum_sums() * 1", "ij,jk->ik", [(2, 2), (2, 2)], 1),
        ("einsum_sums() * 1", "i,j->ij", [(2,), (2,)], 0),
        ("einsum_sums() * 1", "bi,bi->bi", [(2, 2), (2, 2)], 0),
        ("einsum_sums() * 1", "ij,jk", [(2, 2), (2, 2)], 1),
        ("einsum_sums() * 1", "...i,i", [(2,), (2,)], 1),
        ("1 if einsum_equation() == 'abc,adc->abd' else 0", "bqc , bkc -> bqk", [(2, 3, 4), (2, 5, 4)], 1),
        # of the batched matrix products that PyTorch runs
        ("einsum_products()", "bij,bjk->bik", [(4, 2, 3), (4, 3, 5)], 4 * 2 * 3 * 5),
        ("einsum_products()", "ij,jk", [(2, 3), (3, 5)], 2 * 3 * 5),
        ("einsum_products()", "i,j->ij", [(4,), (6,)], 0),  # multiplied element by element
        ("einsum_products()", "ij,kl->il", [(2, 3), (5, 6)], 0),  # j and k are summed before
        ("einsum_products()", "bij,bjk->bk", [(4, 2, 3), (4, 3, 5)], 4 * 3 * 5),  # i is summed before
        ("einsum_products()", "bij,bjk->bik", [(4, 2, 1), (4, 1, 5)], 0),  # nothing to sum over one element
        ("einsum_products()", "bij,bjk->bik", [(4, 2, 3), (1, 3, 5)], 4 * 2 * 3 * 5),
        ("einsum_products()", "bi,ij,jk->bk", [(5, 6), (6, 7), (7, 8)], 5 * 6 * 7 + 5 * 7 * 8),
        ("einsum_products()", "ab,bc,ca->", [(2, 3), (3, 4), (4, 2)], 2 * 3 * 4 + 2 * 4),
        ("einsum_products()", "ij->ji", [(2, 3)], 0),
        ("einsum_products()", "bij,jk->bik", [(N, 2, 3), (3, 5)], 30 * N),
    ],
)
def test_readings_of_an_equation(expression, equation, shapes, expected):
    assert einsum(expression, equation, *shapes) == expected
