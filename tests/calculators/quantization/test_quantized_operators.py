from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, dot, erf, exp, log, maximum, minimum, sqrt, tanh, total
from tests.calculators.layer_costs import bytes_moved, layer_cost, operations


def again(value):
    """Return a real number, quantized."""
    return minimum(maximum(round(value / 0.5) + 3, 0), 255)


def test_quantized_linear_layer_is_its_definition() -> None:
    def definition(x, w, b):
        x, w = ([[value - 3 for value in row] for row in array] for array in (x, w))
        for row in x:
            for column, start in zip(w, b, strict=True):
                value = round(dot(row, column, start) * 0.25)
                minimum(maximum(value + 3, 0), 255)

    given = {
        "x": Tensor((2, 3), "uint8"),
        "w": Tensor((4, 3), "int8"),
        "b": Tensor((4,), "int32"),
        **{f"{name}_{part}": None for name in "xwy" for part in ("scale", "zero_point")},
    }
    result = layer_cost("quantized_linear", given, Tensor((2, 4), "uint8"))
    assert result.flops == count(definition, (2, 3), (4, 3), (4,))
    assert (result.macs, result.mread, result.mwrite) == (24, 6 + 12 + 16, 8)


def test_quantized_products_that_stay_integers_or_become_real() -> None:
    given = {"x0": Tensor((2, 3), "uint8"), "x1": Tensor((3, 4), "uint8")}
    bare = Operations(mul=8, fma=16)
    assert operations("quantized_matmul", given, Tensor((2, 4), "int32")) == bare
    shifted = {**given, "x1_zero_point": Tensor((4,), "uint8")}
    assert operations("quantized_matmul", shifted, Tensor((2, 4), "int32")) == bare + Operations(add=12)
    assert operations("quantized_matmul", {**given, "x0_scale": None}, (2, 4)) == bare + Operations(mul=8)
    conv = {"x": (1, 2, 4, 4), "w": (3, 2, 3, 3), "y_scale": None}
    assert operations("quantized_conv", conv, (1, 3, 2, 2)) == Operations(mul=12 + 12, fma=12 * 17, cmp=36)


def test_product_of_values_quantized_by_their_range() -> None:
    def definition(x):
        values = list(x.ravel())
        low = total_range(values, minimum)
        high = total_range(values, maximum)
        scale = (high - low) / 255
        zero = minimum(maximum(round(0 - low / scale), 0), 255)
        for value in values:
            minimum(maximum(round(value / scale) + zero, 0), 255) - zero

    def total_range(values, pick):
        found = 0
        for value in values:
            found = pick(value, found)
        return found

    given = {"x0": (2, 3), "x1": Tensor((3, 4), "uint8"), "x1_scale": None}
    product = Operations(mul=8 + 8, fma=16)
    assert operations("dynamic_quantized_matmul", given, (2, 4)) == product + count(definition, (2, 3))


def test_unary_operators_between_dequantizing_and_quantizing() -> None:
    def real(x):
        return [[(value - 3) * 0.5 for value in row] for row in x]

    def sigmoid(x):
        return [[again(1 / (1 + exp(-value))) for value in row] for row in real(x)]

    def softmax(x):
        for row in real(x):
            powers = [exp(value) for value in row]
            summed = total(powers)
            [again(value / summed) for value in powers]

    def mean(x):
        for row in real(x):
            again(total(row) / 4)

    given = {"x": Tensor((2, 4), "uint8"), "x_scale": None, "x_zero_point": None, "y_scale": None, "y_zero_point": None}
    assert operations("quantized_sigmoid", given, Tensor((2, 4), "uint8")) == count(sigmoid, (2, 4))
    assert operations("quantized_softmax", given, Tensor((2, 4), "uint8"), axis=1) == count(softmax, (2, 4))
    assert operations("quantized_reduce_mean", given, Tensor((2,), "uint8"), axis=(1,)) == count(mean, (2, 4))
    assert bytes_moved("quantized_sigmoid", given, Tensor((2, 4), "uint8")) == (8, 8)


@pytest.mark.parametrize(
    ("op", "each"),
    [
        *(
            ("add", Operations(add=1)),
            ("sub", Operations(add=1)),
            ("mul", Operations(mul=1)),
            ("div", Operations(div=1)),
        ),
        *(("maximum", Operations(cmp=1)), ("minimum", Operations(cmp=1)), ("pow", Operations(special=1))),
        ("where", Operations(cmp=1)),
    ],
)
def test_pairs_between_dequantizing_and_quantizing(op: str, each: Operations) -> None:
    given = {f"x{i}{part}": Tensor((2, 3), "uint8") if not part else None for i in range(2) for part in ("", "_scale")}
    if op == "where":
        given["condition"] = Tensor((2, 3), "bool")
    expected = 6 * each + Operations(mul=12) + 6 * Operations(div=1, cmp=3)
    assert operations(f"quantized_{op}", given, Tensor((2, 3), "uint8")) == expected


def test_norms_of_channels_between_dequantizing_and_quantizing() -> None:
    """2 samples of 3 channels of 4 elements: shifted, scaled; the norm of real numbers; quantized."""
    x = {"x": Tensor((2, 3, 4), "uint8"), "x_scale": None, "x_zero_point": None}
    channels = {name: Tensor((3,), "float32", "state") for name in ("mean", "var")}
    for op, given in (("batch_norm", channels), ("instance_norm", {})):
        real = operations(op, {"x": (2, 3, 4), **given}, (2, 3, 4))
        found = operations(f"quantized_{op}", {**x, **given}, Tensor((2, 3, 4), "uint8"))
        assert found == real + 24 * Operations(add=1, mul=1) + 24 * Operations(div=1, cmp=3), op


def test_a_real_output_is_not_quantized() -> None:
    given = {"x": Tensor((2, 4), "uint8"), "x_scale": None}
    assert operations("quantized_sqrt", given, (2, 4)) == 8 * Operations(mul=1, special=1)


def test_transposed_convolution_of_quantized_values() -> None:
    given = {"x": Tensor((1, 2, 2, 2), "uint8"), "w": Tensor((2, 3, 2, 2), "uint8"), "x_zero_point": None}
    result = layer_cost("quantized_conv_transpose", {**given, "y_scale": None}, Tensor((1, 3, 3, 3), "uint8"))
    # every element of x times 3 * 4 weights, onto zeros; its zero point; 27 outputs scaled, rounded, limited twice
    assert result.flops == Operations(fma=8 * 12, add=8, mul=27, cmp=3 * 27)
    assert (result.macs, result.mread, result.mwrite) == (8 * 12, 8 + 24, 27)


UNARY = {
    "leaky_relu": ({}, lambda row: [maximum(value, value * 0.1) for value in row]),
    "hard_swish": ({}, lambda row: [value * minimum(maximum(value * 0.1 + 0.5, 0), 1) for value in row]),
    "gelu": ({"approximate": "none"}, lambda row: [value * 0.5 * (1 + erf(value * 0.5**0.5)) for value in row]),
    "avg_pool": ({"kernel": (2,)}, lambda row: [total(row[:2]) / 2, total(row[2:]) / 2]),
    "layer_norm": ({"axis": (1,)}, lambda row: normal(row)),
    "relu": ({}, lambda row: [maximum(value, 0) for value in row]),
    "clip": ({"lower": 0, "upper": 6}, lambda row: [minimum(maximum(value, 0), 6) for value in row]),
    "hard_sigmoid": ({}, lambda row: [minimum(maximum(value * 0.2 + 0.5, 0), 1) for value in row]),
    "silu": ({}, lambda row: [value * (1 / (1 + exp(-value))) for value in row]),
    "tanh": ({}, lambda row: [tanh(value) for value in row]),
    "erf": ({}, lambda row: [erf(value) for value in row]),
    "log_softmax": ({"axis": 1}, lambda row: log_softmax(row)),
    "resize": ({"mode": "nearest"}, lambda row: row),
}


def log_softmax(row):
    lowered = log(total([exp(value) for value in row]))
    return [value - lowered for value in row]


def normal(row):
    mean = total(row) / 4
    deviations = [value - mean for value in row]
    scale = 1 / sqrt(dot(deviations, deviations) / 4 + 1e-5)
    return [value * scale for value in deviations]


@pytest.mark.parametrize("op", UNARY)
def test_more_operators_between_dequantizing_and_quantizing(op: str) -> None:
    settings, function = UNARY[op]

    def definition(x):
        for row in x:
            [again(value) for value in function([(value - 3) * 0.5 for value in row])]

    x, y = ((2, 1, 4), (2, 1, 2)) if op == "avg_pool" else ((2, 4), (2, 4))
    given = {"x": Tensor(x, "uint8"), "x_scale": None, "x_zero_point": None, "y_scale": None, "y_zero_point": None}
    assert operations(f"quantized_{op}", given, Tensor(y, "uint8"), **settings) == count(definition, (2, 4))


def test_joined_operands_are_made_real_and_quantized_again() -> None:
    given = {"x0": Tensor((2, 3), "uint8"), "x0_scale": None, "x1": Tensor((2, 1), "uint8"), "x1_scale": None}
    result = layer_cost("quantized_concat", given, Tensor((2, 4), "uint8"), axis=1)
    assert result.flops == Operations(mul=8) + 8 * Operations(div=1, cmp=3)
    assert (result.mread, result.mwrite) == (8, 8)


@pytest.mark.parametrize("segments", [True, False])
def test_embeddings_of_quantized_tables(segments: bool) -> None:
    """2 sentences of 3 words of 4 features."""

    def definition(words, places, w, b, *kinds):
        places, w, b = ([(v - 3) * 0.5 for v in part.flat] for part in (places, w, b))
        for sentence in range(2):
            for t in range(3):
                row = [(v - 3) * 0.5 + p for v, p in zip(words[sentence, t], places[4 * t : 4 * t + 4], strict=True)]
                if segments:
                    row = [v + (k - 3) * 0.5 for v, k in zip(row, kinds[0][sentence, t], strict=True)]
                mean = total(row) / 4
                deviations = [v - mean for v in row]
                scale = 1 / sqrt(dot(deviations, deviations) / 4 + 1e-5)
                for v, weight, start in zip(deviations, w, b, strict=True):
                    dot([v * scale], [weight], start)

    tables = {"w0": (50, 4), "w1": (9, 4), "w": (4,), "b": (4,)} | ({"w2": (2, 4)} if segments else {})
    given = {name: Tensor(shape, "uint8") for name, shape in tables.items()}
    for name in tables:
        given |= {f"{name}_scale": Tensor((1,)), f"{name}_zero_point": Tensor((1,), "uint8")}
    result = layer_cost("quantized_embed_norm", {"x": Tensor((2, 3), "int32"), **given}, (2, 3, 4))
    shapes = [(2, 3, 4), (3, 4), (4,), (4,)] + [(2, 3, 4)] * segments
    assert result.flops == count(definition, *shapes)
    # words of 4 bytes; rows of bytes, the positions once; and a scale and a zero point each
    assert result.mread == 4 * 6 + 24 + 12 + 8 + 24 * segments + 5 * (4 + segments)


def test_epilogues_of_quantized_products() -> None:
    """4 outputs: a second tensor made real (1 add of its zero point, 1 mul) and added, then the larger of it and 0."""
    given = {"x": Tensor((1, 2, 2, 2), "uint8"), "w": Tensor((1, 2, 1, 1), "int8"), "y_scale": None}
    y = Tensor((1, 1, 2, 2), "uint8")
    plain = operations("quantized_conv", given, y)
    added = {**given, "z": y, "z_zero_point": None}
    assert operations("quantized_conv", added, y) == plain + 4 * Operations(mul=1, add=2)
    assert operations("quantized_conv", added, y, activation="relu") == plain + 4 * Operations(mul=1, add=2, cmp=1)
    assert bytes_moved("quantized_conv", added, y) == (8 + 2 + 4, 4)
    pair = {"x0": y, "x0_scale": None, "x1": y, "x1_scale": None}
    relu = operations("quantized_add", pair, y, activation="relu")
    assert relu == operations("quantized_add", pair, y) + Operations(cmp=4)


@pytest.mark.parametrize("op", ["linear", "conv", "conv_transpose"])
def test_products_of_values_quantized_by_their_range(op: str) -> None:
    x, w, y = ((2, 3), (4, 3), (2, 4)) if op == "linear" else ((1, 3, 2), (4, 3, 1), (1, 4, 2))
    w = (3, 4, 1) if op == "conv_transpose" else w
    given = {"x": x, "w": Tensor(w, "int8"), "b": (4,), "w_scale": Tensor((4,))}
    result = layer_cost(f"dynamic_quantized_{op}", given, y)
    # 6 values: range 12 cmp; scale 1 add 1 div; zero point 1 div 1 add 3 cmp; values 6 * (1 div 1 add 3 cmp, 1 add)
    by_range = Operations(add=2 + 12, div=2 + 6, cmp=12 + 3 + 18)
    assert result.flops == Operations(fma=24) + by_range + Operations(mul=8)
    assert (result.macs, result.mread, result.mwrite) == (24, 4 * 6 + 12 + 16 + 16, 4 * 8)
    shifted = operations(f"dynamic_quantized_{op}", {**given, "w_zero_point": None}, y, activation="relu")
    assert shifted == result.flops + Operations(add=12, cmp=8)
