"""Every quantity that rules can name, of layers of small sizes, by hand."""

from __future__ import annotations

import pytest

from costcore import CostError
from costcore.analyses.conventions.quantities import ARITIES, MAX_OPERANDS, NAMES, Quantities, vocabulary
from costcore.ir import Cost, Layer, Operations, Tensor

X, W, B, Y = (2, 3, 11, 13), (6, 3, 5, 4), (6,), (2, 6, 4, 7)
CONV = Layer(
    "conv",
    {"x": Tensor(X), "w": Tensor(W, role="param"), "b": Tensor(B, role="param")},
    [Tensor(Y, "float16")],
    {"kernel": (5, 4), "stride": (2, 3), "padding": (1, 2), "dilation": (2, 3), "groups": 3, "training": True},
)
OPERATIONS = Operations(fma=2, mul=3, add=5, div=7, cmp=11, special=13)
COST = Cost(OPERATIONS, 1, 1, {}, 90)


def of(layer, *arguments, **options):
    made = Quantities(layer, *(arguments or (COST,)), **options)
    return lambda name, *given: made(name)(*given) if given or name not in NAMES else made(name)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("x", (), 2 * 3 * 11 * 13),
        ("y", (), 2 * 6 * 4 * 7),
        ("w", (), 6 * 3 * 5 * 4),
        ("b", (), 6),
        ("x0", (), 2 * 3 * 11 * 13),  # x, if there is no x0
        ("mask", (), 0),
        ("macs", (), 90),
        ("element_macs", (), 90),
        ("is_complex", (), False),
        ("flops", (), 2 + 3 + 5 + 7 + 11 + 13),
        ("fma", (), 2),
        ("mul", (), 3),
        ("add", (), 5),
        ("div", (), 7),
        ("cmp", (), 11),
        ("special", (), 13),
        ("params", (), 360 + 6),
        ("n_operands", (), 3),
        ("W", (), 360),
        ("B", (), 6),
        ("I", (), 13),
        ("H", (), 0),
        ("P", (), 0),
        ("D", (), 1),
        ("layers", (), 1),
        ("steps", (), 2 * 3 * 11),
        ("gates", (), 0),
        ("taps", (), 20),
        ("affine", (), 1),
        ("bias", (), 1),
        ("in_place", (), False),
        ("training", (), True),
        ("running", (), False),
        ("groups", (), 3),
        ("mode", (), ""),
        ("rows", (), 2 * 3 * 11),
        ("shape", ("x", 0), 2),
        ("shape", ("x", 3), 13),
        ("shape", ("x", -4), 2),
        ("shape", ("x", -5), 1),
        ("shape", ("x", 4), 1),
        ("last", ("w",), 4),
        ("ndim", ("b",), 1),
        ("bits", ("x",), 32),
        ("bits", ("y",), 16),
        ("strided", ("x",), False),
        ("learned", ("w",), False),
        ("needs", ("w",), True),
        ("needs", ("q",), False),
        # (11 + 2 - 2 * 4 - 1) // 2 + 1 and (13 + 4 - 3 * 3 - 1) // 3 + 1
        ("forward_positions", (), 3 * 3),
        ("square_kernel", (), 20),
        ("truncate", (7.9,), 7),
    ],
)
def test_a_convolution(name, arguments, expected):
    found = of(CONV)(name, *arguments) if arguments or name in NAMES else Quantities(CONV, COST)(name)()
    assert (found, type(found)) == (expected, type(expected))


def test_every_word_has_a_meaning():
    assert vocabulary().keys() > NAMES
    assert all(vocabulary().values())
    for name in NAMES - {"batch_first", "scores", "runs_mm", "is_fused"}:
        of(CONV)(name)


def test_what_is_known_of_operands():
    found = of(CONV, None, strided=(2,), learned=(1, 2), in_place=True)
    assert [found("strided", name) for name in "xwb"] == [False, False, True]
    assert [found("learned", name) for name in "xwb"] == [False, True, True]
    assert found("in_place") is True
    assert [found(name) for name in ("macs", "flops", "fma")] == [0, 0, 0]
    with pytest.raises(CostError, match="operator 'conv' has no operand 'q'"):
        found("last", "q")


def test_a_layer_without_attributes():
    layer = Layer("mm", {"x0": Tensor((3, 5)), "x1": Tensor((5, 7))}, [])
    found = of(layer)
    names = ("y", "x", "w", "training", "groups", "taps", "affine", "bias", "running", "gates", "H", "P", "layers")
    assert [found(name) for name in names] == [0, 15, 0, False, 1, 1, 0, 0, False, 0, 0, 0, 1]
    assert Quantities(layer, None)("square_kernel")() == 1
    assert of(Layer("norm", {"x": Tensor((3,)), "mean": Tensor((3,)), "b0": Tensor((3,))}, []))("running") is True
    assert of(Layer("norm", {"x": Tensor((3,)), "mean": Tensor((3,)), "b0": Tensor((3,))}, []))("bias") == 1
    assert of(Layer("resize", {"x": Tensor((3,))}, [], {"mode": "cubic"}))("mode") == "cubic"
    assert of(Layer("mm", {"x": Tensor((3,))}, [], {"needs": ("w",)}))("needs", "x") is False


def test_plain_numbers_of_operations_are_additions():
    found = of(CONV, Cost(17, 1, 1, {}, 9))
    assert [found(name) for name in ("flops", "add", "fma", "macs")] == [17, 17, 0, 9]


def test_products_of_complex_numbers():
    layer = Layer("mm", {"x0": Tensor((3, 5)), "x1": Tensor((5, 7), "complex64")}, [])
    assert (of(layer)("is_complex"), of(layer)("element_macs")) == (True, 90 // 4)


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
    found = of(Layer(op, inputs, [], attrs))
    assert [found(name) for name in ("W", "H", "P", "D", "layers", "gates")] == expected
    assert [found(name) for name in ("B", "I", "steps", "bias")] == [7, 11, 14, 1]


@pytest.mark.parametrize(
    ("x", "batch", "expected"),
    [((4, 7, 2), 4, True), ((7, 4, 2), 4, False), ((4, 4, 2), 4, False), ((4, 2), 4, False), ((1, 7, 2), 1, False),
     ((4, 1, 2), 4, False), ((5, 7, 2), 4, False)],
)  # fmt: skip
def test_whether_the_batch_is_first(x, batch, expected):
    assert of(Layer("lstm", {"x": Tensor(x), "h0": Tensor((1, batch, 3))}, []))("batch_first") is expected


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
    assert of(Layer("matmul", inputs, []), None, strided=strided, learned=learned)("runs_mm") is expected


def test_attention():
    """2 x 3 heads of 5 queries and 7 keys."""
    inputs = {"q": Tensor((2, 3, 5, 4)), "k": Tensor((2, 3, 7, 4)), "v": Tensor((2, 3, 7, 4)), "mask": Tensor((5, 7))}
    layer = Layer("attention", inputs, [Tensor((2, 3, 5, 4))])
    found = of(layer)
    names = ("q", "k", "v", "mask", "scores", "is_fused")
    assert [found(name) for name in names] == [120, 168, 168, 35, 2 * 3 * 5 * 7, True]
    wider = {**inputs, "v": Tensor((2, 3, 7, 6))}
    flat = {**inputs, "q": Tensor((3, 5, 4))}
    for other in (
        Layer("attention", wider, layer.outputs),
        Layer("attention", flat, layer.outputs),
        Layer("attention", inputs, layer.outputs, {"backend": "math"}),
    ):
        assert of(other)("is_fused") is False


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [((2, 3, 5), -1, 6), ((2, 3, 5), 1, 10), ((2, 3, 5), 0, 15), ((2, 3, 5), (1, 2), 10), ((), 0, 1), ((4,), 0, 1)],
)
def test_rows_that_softmax_normalizes(shape, axis, expected):
    assert of(Layer("softmax", {"x": Tensor(shape)}, [], {"axis": axis}))("rows") == expected


def test_windows_of_adaptive_pools():
    """From 11 and 9 inputs to 4 and 3: 11 + 4 - 1 and 9 of all windows; 11 / 4 does not divide, its remainder is 3."""
    layer = Layer("adaptive_avg_pool", {"x": Tensor((2, 5, 11, 9))}, [Tensor((2, 5, 4, 3))])
    found = {name: Quantities(layer, None)(name)() for name in
             ("windows", "float_windows", "floor_windows", "guessed_windows")}  # fmt: skip
    assert found == {
        "windows": 2 * 5 * (11 + 4 - 1) * 9,
        "float_windows": 2.75 * 3,
        "floor_windows": 2 * 3,
        "guessed_windows": 4 * 3,
    }


@pytest.mark.parametrize(
    ("kernel", "is_int", "expected"),
    [((5, 4), None, 20), ((5, 5), None, 5), ((5, 5), False, 25), ((5, 5), True, 5), ((5, 4), True, 5)],
)
def test_a_kernel_that_was_given_as_one_number(kernel, is_int, expected):
    layer = Layer("pool", {"x": Tensor((3,))}, [], {"kernel": kernel})
    assert Quantities(layer, None, kernel_is_int=is_int)("square_kernel")() == expected


def test_an_einsum():
    inputs = {"x0": Tensor((2, 3)), "x1": Tensor((3, 5)), "b": Tensor((5,))}
    layer = Layer("einsum", inputs, [Tensor((2, 5))], {"equation": "ki, ij->kj"})
    names = ("numpy", "equation", "sizes", "pair", "products", "sums")
    found = [Quantities(layer, None)(f"einsum_{name}")() for name in names]
    assert found == [2 * 30 + 1, "ab,bc->ac", 30, 30, 30, True]


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
    assert Quantities(layer, None)("left_broadcast")() == expected


@pytest.mark.frontend("onnx")  # brings sympy
def test_symbols():
    from sympy import Symbol

    n = Symbol("n", integer=True, positive=True)
    layer = Layer("add", {"x0": Tensor((n, 3)), "x1": Tensor((1, 3))}, [])
    assert Quantities(layer, None)("left_broadcast")() == 3 * n
    assert Quantities(layer, None)("truncate")(2 * n) == 2 * n
    pool = Layer(
        "avg_pool", {"x": Tensor((2, 5, n))}, [Tensor((2, 5, n))], {"kernel": (3,), "stride": None, "padding": (0,)}
    )
    assert Quantities(pool, None)("windows")() == 2 * 5 * 3 * n


def test_functions_take_one_operand_or_none():
    arguments = dict.fromkeys(ARITIES, 0) | {"shape": 2}
    arguments |= dict.fromkeys(("last", "ndim", "strided", "learned", "needs", "bits", "truncate"), 1)
    assert arguments == ARITIES
    assert MAX_OPERANDS == 6
