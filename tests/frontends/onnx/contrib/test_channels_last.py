"""Operators with channels last, and those that onnx has given up and ONNX Runtime has not."""

from __future__ import annotations

import pytest

from costcore import estimate
from tests.frontends.onnx.contrib.lines import O, S, Z
from tests.frontends.onnx.contrib.single_node import INT64, UINT8, priced, shapes
from tests.whole_networks.onnx_models import Graph


def last(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], *shape[2:], shape[1])


X = (1, 4, 8, 8)


@pytest.mark.parametrize(
    ("op", "operands", "attrs"),
    [
        ("Conv", [{(6, 2, 3, 3)}, {(6,)}], {"group": 2, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("ConvTranspose", [{(4, 3, 2, 2)}], {"strides": [2, 2]}),
        ("MaxPool", [], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("AveragePool", [], {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
        ("LpPool", [], {"kernel_shape": [2, 2]}),
        ("GlobalAveragePool", [], {}),
        ("GlobalMaxPool", [], {}),
        ("GlobalLpPool", [], {}),
        ("LRN", [], {"size": 3}),
        ("BatchNormalization", [{(4,)}] * 4, {}),
        ("InstanceNormalization", [{(4,)}] * 2, {}),
        ("DepthToSpace", [], {"blocksize": 2}),
        ("SpaceToDepth", [], {"blocksize": 2}),
        ("GridSample", [(1, 3, 3, 2)], {}),
        ("MaxUnpool", [(INT64, X)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ],
)
def test_channels_last_cost_what_channels_first_do(op, operands, attrs):
    first, expected, _ = priced(op, X, *operands, domain="", **attrs)
    turned, cost, _ = priced(op, last(X), *operands, domain="com.ms.internal.nhwc", **attrs)
    assert turned.op == first.op
    assert shapes(turned) == [last(shape) for shape in shapes(first)]
    assert cost[:3] == expected[:3] and cost.macs == expected.macs


def test_convolution_with_channels_last_and_an_activation():
    # 4 outputs at 6 x 7 places, 27 products each
    layer, cost, _ = priced(
        "Conv", (1, 8, 9, 3), {(4, 3, 3, 3)}, {(4,)}, domain="com.ms.internal.nhwc", activation="Relu"
    )
    assert (layer.op, shapes(layer)) == ("fused_conv", [(1, 6, 7, 4)])
    assert cost.flops == 168 * O(fma=27, cmp=1)


def test_quantised_layers_with_channels_last():
    x, w = (UINT8, (1, 4, 4, 2)), {(UINT8, (2, 3, 2, 2))}
    layer, cost, _ = priced("QLinearConvTranspose", x, S, Z, w, S, Z, S, Z, domain="com.ms.internal.nhwc")
    assert (layer.op, shapes(layer)) == ("quantized_conv_transpose", [(1, 5, 5, 3)])
    # 32 inputs of 3 * 4 products; zero points of inputs and weights; 75 outputs quantised
    assert cost.flops == O(fma=384, add=32 + 24) + 75 * O(mul=1, cmp=3, add=1)
    layer, cost, _ = priced(
        "QLinearAveragePool", x, S, Z, S, Z, domain="com.ms.internal.nhwc", channels_last=1, kernel_shape=[2, 2]
    )
    assert shapes(layer) == [(1, 3, 3, 2)]
    assert cost.flops == 32 * O(mul=1, add=1) + 18 * O(add=3, div=1) + 18 * O(div=1, cmp=3, add=1)
    layer, cost, _ = priced("QLinearConv", x, S, Z, {(UINT8, (3, 2, 2, 2))}, S, Z, S, Z, domain="com.ms.internal.nhwc")
    assert (shapes(layer), cost.macs) == ([(1, 3, 3, 3)], 27 * 8)


BLOCKED = "com.microsoft.nchwc"
"""Channels lie in blocks: a layout of its own, of which shapes say nothing."""


@pytest.mark.parametrize(
    ("op", "attrs", "made"),
    [
        ("ReorderInput", {}, (1, 8, 4, 4)),  # a block of 8, the smallest
        ("ReorderOutput", {"channels": 5}, (1, 5, 4, 4)),  # the last block is not full
    ],
)
def test_channels_go_into_blocks_and_out_of_them(op, attrs, made):
    layer, cost, _ = priced(op, (1, 6, 4, 4), domain=BLOCKED, **attrs)
    assert shapes(layer) == [made]
    assert cost.flops == O()
    assert cost.mwrite == 4 * made[1] * 16


def test_a_note_says_that_blocks_are_padded():
    g = Graph()
    y = g("Conv", g("ReorderInput", "x", domain=BLOCKED), g.weight(16, 8, 3, 3), domain=BLOCKED)
    report = estimate(g.model({"x": (1, 8, 6, 6)}, g("ReorderOutput", y, domain=BLOCKED, channels=10)))
    assert report.total_report["macs"] == 4 * 4 * 16 * 8 * 9  # of 16 channels, though 10 are read of them
    note = report.notes[-1]
    assert note.startswith("convolutions of ONNX Runtime's NCHWc layout run on blocks of 8 channels: MACs, bytes")


@pytest.mark.parametrize(
    ("channels", "weights", "padded"),
    [
        # what ONNX Runtime 1.32 printed of its run, on a processor with blocks of 8
        (12, [(24, 16)], 16),
        (20, [(16, 24)], 24),
        (24, [(40, 24)], 24),
        (24, [(24, 1)], 24),  # one weight for each channel
        # on blocks of 16, all weights have multiples of 16 channels
        (24, [(48, 32)], 32),
        (24, [(32, 1)], 32),
        (24, [(16, 3), (48, 32)], 32),  # the first convolution reads an image as it is
        (24, [(16, 3), (24, 24)], 24),
    ],
)
def test_channels_are_padded_to_the_blocks_of_the_weights(channels, weights, padded):
    g = Graph()
    made = []
    for out, read in weights:
        x = g("ReorderInput", "x", domain=BLOCKED) if read > 3 or read == 1 else "image"
        y = g("Conv", x, g.weight(out, read, 3, 3), domain=BLOCKED, group=out if read == 1 else 1)
        made.append(g("ReorderOutput", y, domain=BLOCKED, channels=out))
    inputs = {"x": (1, channels, 6, 6), "image": (1, 3, 6, 6)}
    report = estimate(g.model(inputs, made))
    (layer,) = [call.layer for call in report.trace.calls if call.native.endswith("::ReorderInput")]
    assert layer.outputs[0].shape == (1, padded, 6, 6)
    assert any(f"blocks of {16 if padded == 32 else 8} channels" in note for note in report.notes)


def test_channels_that_are_last_are_padded_and_put_back():
    layer, cost, _ = priced("ReorderInput", (1, 4, 5, 6), domain=BLOCKED, channels_last=1)
    assert shapes(layer) == [(1, 8, 4, 5)]
    assert (cost.mread, cost.mwrite) == (4 * 120, 4 * 160)
    layer, _, _ = priced("ReorderOutput", (1, 8, 4, 5), domain=BLOCKED, channels_last=1, channels=6)
    assert shapes(layer) == [(1, 4, 5, 6)]


def test_blocked_channels_are_upsampled():
    layer, cost, _ = priced("Upsample", (1, 8, 4, 4), domain=BLOCKED, scales=[1, 1, 2, 3])
    assert shapes(layer) == [(1, 8, 8, 12)]
    assert (cost.flops, cost.mwrite) == (O(), 4 * 8 * 96)
    with pytest.raises(ValueError, match="has 2 scales for 4 axes"):
        priced("Upsample", (1, 8, 4, 4), domain=BLOCKED, scales=[2, 2])
    with pytest.raises(ValueError, match="has 0 scales for 4 axes"):
        priced("Upsample", (1, 8, 4, 4), domain=BLOCKED)


def test_a_plane_alone_has_no_channels_last():
    with pytest.raises(ValueError, match=r"needs an input of 3 or more dimensions \(got the shape \(4, 8\)\)"):
        priced("MaxPool", (4, 8), domain="com.ms.internal.nhwc", kernel_shape=[2])
