"""Models of FakeQuantize, counted as the runtime computes them: on integers. Costs are worked out by hand."""

import pytest
from ir import L, ir

from costcore import estimate

WINDOWS = {"strides": "1, 1", "dilations": "1, 1", "pads_begin": "1, 1", "pads_end": "1, 1"}
LEVELS = {"levels": "256"}
PLACES = 8 * 8
"""Places of all feature maps here."""


@pytest.fixture
def read(tmp_path):
    """Estimates a file with some layers."""

    def of(net, **options):
        (tmp_path / "net.xml").write_text(ir(*net.layers), encoding="utf-8")
        return estimate(tmp_path / "net.xml", **options)

    return of


class Net:
    """Layers under construction; every method returns the number of the last one."""

    def __init__(self, *shape):
        self.layers = []
        self.x = self.add("Parameter", (), shape)

    def add(self, kind, inputs=(), shape=(), dtype="FP32", **data):
        self.layers.append(L(kind, inputs, shape, dtype, data))
        return len(self.layers) - 1

    def shape(self, i):
        return self.layers[i].shape

    def quantize(self, x, **data):
        ends = [self.add("Const") for _ in range(4)]
        return self.add("FakeQuantize", (x, *ends), self.shape(x), **(data or LEVELS))

    def small(self, *shape):
        """An int8 weight with a scale per output."""
        stored = self.add("Convert", (self.add("Const", (), shape, "I8"),), shape)
        return self.add("Multiply", (stored, self.add("Const", (), (shape[0], *(1 for _ in shape[1:])))), shape)

    def conv(self, x, n_out, w=None):
        n_in = self.shape(x)[1]
        w = self.small(n_out, n_in, 3, 3) if w is None else w
        return self.add("Convolution", (x, w), (1, n_out, 8, 8), **WINDOWS)

    def then(self, kind, x, **data):
        return self.add(kind, (x,), self.shape(x), **data)

    def bias(self, x):
        stored = self.add("Const", (), (1, self.shape(x)[1], 1, 1))
        return self.add("Add", (x, stored), self.shape(x))

    def result(self, x):
        self.add("Result", (x,))
        return self


def calls(report):
    return [(each["op"], each["mread"], each["mwrite"]) for each in report.layer_report.values()]


def test_convolutions_run_on_integers_with_what_follows_them(read):
    """The input is quantized, 4 B to 1 B an element. A weight of 4 x 4 x 9 has 144 B, its scales and its bias 16 B.

    Bias, ReLU and the next FakeQuantize are part of the first convolution, bias and Swish of the second one.
    """
    net = Net(1, 4, 8, 8)
    y = net.quantize(net.then("ReLU", net.bias(net.conv(net.quantize(net.x), 4))))
    y = net.then("Swish", net.bias(net.conv(y, 4)))
    report = read(net.result(y))
    size = 4 * PLACES
    assert calls(report) == [
        ("quantize", 4 * size, size),
        ("quantized_conv", size + 144 + 16 + 16, size),
        ("quantized_conv", size + 144 + 16 + 16, 4 * size),
    ]
    first, second = [*report.layer_report.values()][1:]
    assert (first["params"]["activation"], second["params"]["activation"]) == ("relu", "silu")
    assert first["macs"] == second["macs"] == size * 4 * 9 and first["n_params"] == 144 + 4
    # the products; a scale, rounding and two limits; the ReLU
    assert first["operations"]["mul"] + first["operations"]["fma"] == size * 36 + size
    assert report.status == "complete" and any(note.startswith("FakeQuantize: layers") for note in report.notes)
    assert report.arena(1).peak == 5 * size  # the real input or output, and the integers beside it


def test_sums_and_moves_of_integers(read):
    """A residual sum with its ReLU is quantized; a pool, an interpolation and a concatenation move bytes."""
    net = Net(1, 4, 8, 8)
    x = net.quantize(net.x)
    y = net.quantize(net.conv(x, 4))
    total = net.quantize(net.then("ReLU", net.add("Add", (x, y), (1, 4, 8, 8))))
    pooled = net.then("MaxPool", total, kernel="3, 3", **WINDOWS)
    pooled = net.then("Interpolate", pooled, mode="nearest")
    joined = net.add("Concat", (total, pooled), (1, 8, 8, 8), axis="1")
    report = read(net.result(net.conv(joined, 2)))
    size = 4 * PLACES
    found = {op: (mread, mwrite) for op, mread, mwrite in calls(report)}
    assert found["quantized_add"] == (2 * size, size)
    assert found["max_pool"] == found["resize"] == (size, size) and found["concat"] == (2 * size, 2 * size)
    assert calls(report)[-1] == ("quantized_conv", 2 * size + 2 * 8 * 9 + 8, 4 * 2 * PLACES)
    assert not {"fake_quantize", "relu"} & set(found)


def test_a_linear_layer_and_a_product_of_two_values(read):
    """Rows of 6 and 5 bytes; the product of both results has 2 x 5 by 5 x 2 single bytes."""
    net = Net(2, 6)
    x = net.quantize(net.x)
    y = net.quantize(net.add("MatMul", (x, net.small(5, 6)), (2, 5), transpose_b="true"))
    report = read(net.result(net.add("MatMul", (y, y), (2, 2), transpose_b="true")))
    assert calls(report)[1:] == [("quantized_linear", 12 + 30 + 20, 10), ("quantized_matmul", 20, 16)]


def test_weights_that_are_quantized_as_they_are_stored(read):
    """The runtime quantizes a real weight once: it reads a byte an element."""
    net = Net(1, 4, 8, 8)
    weight = net.quantize(net.add("Const", (), (4, 4, 3, 3)), levels="255")
    report = read(net.result(net.bias(net.conv(net.quantize(net.x), 4, weight))))
    assert [op for op, *_ in calls(report)] == ["quantize", "quantized_conv"]
    assert calls(report)[1][1] == 4 * PLACES + 144 + 16


@pytest.mark.parametrize(
    ("kinds", "ops"),
    [(("Swish", "Swish"), ["silu"]), (("MaxPool",), ["max_pool"]), (("Swish", "MaxPool"), ["max_pool"])],
)
def test_one_activation_is_part_of_a_layer(read, kinds, ops):
    net = Net(1, 4, 8, 8)
    y = net.conv(net.quantize(net.x), 4)
    for kind in kinds:
        y = net.then(kind, y, **({"kernel": "3, 3", **WINDOWS} if kind == "MaxPool" else {}))
    assert [op for op, *_ in calls(read(net.result(y)))] == ["quantize", "quantized_conv", *ops]


@pytest.mark.parametrize("case", ["real weights", "result", "many levels", "many levels, pooled"])
def test_what_stays_real(read, case):
    """Nothing reads integers: products with real weights, results of the network, and too many levels for integers."""
    net = Net(1, 4, 8, 8)
    x = net.quantize(net.x, levels="1000000" if case.startswith("many levels") else "256")
    if case == "result":
        y = net.quantize(net.conv(net.x, 4))
    elif case == "many levels, pooled":
        y = net.conv(net.then("MaxPool", x, kernel="3, 3", **WINDOWS), 4)
    else:
        y = net.conv(x, 4, net.add("Const", (), (4, 4, 3, 3)) if case == "real weights" else None)
    report = read(net.result(y))
    ops = [op for op, *_ in calls(report)]
    assert "fake_quantize" in ops and "conv" in ops
    assert not any(op.startswith("quant") for op in ops)
    assert not any("FakeQuantize" in note for note in report.notes)
