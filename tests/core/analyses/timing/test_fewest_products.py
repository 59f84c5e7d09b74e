"""The fewest products of fast algorithms and skipped taps, against enumeration and hand figures."""

from __future__ import annotations

from itertools import product

import pytest

from costcore.analyses.timing.bound import fewest_products
from costcore.ir import Layer, Tensor


def conv(size, kernel, positions, stride=1, padding=0, dilation=1, op="conv"):
    """A convolution along one axis."""
    x, w, y = Tensor((1, 4, size)), Tensor((4, 4, kernel), role="param"), Tensor((1, 4, positions))
    attrs = {"kernel": (kernel,), "stride": (stride,), "padding": (padding,), "dilation": (dilation,)}
    if op.endswith("backward"):
        return Layer(op, {"dy": y, "x": x, "w": w}, [x], attrs)
    return Layer(op, {"x": x, "w": w}, [y], attrs)


def taps_inside(size, kernel, positions, stride, padding, dilation):
    """By the definition: position p and tap t read x[p * stride + t * dilation - padding]."""
    read = [p * stride + t * dilation - padding for p, t in product(range(positions), range(kernel))]
    return sum(0 <= place < size for place in read) / len(read)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_taps_on_padding_need_no_product(stride, dilation, padding):
    size, kernel = 11, 4
    positions = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    expected = taps_inside(size, kernel, positions, stride, padding, dilation)
    for op in ("conv", "conv_backward"):
        layer = conv(size, kernel, positions, stride, padding, dilation, op)
        assert fewest_products(layer, fast_convolution=False) == pytest.approx(expected)


@pytest.mark.parametrize("padding", [(0, 3), (3, 0), (1, 2)])
def test_padding_before_decides_which_taps_are_inside(padding):
    """Four positions, 2 apart, of a kernel of 4 over 8 elements with 3 beside them."""
    layer = conv(8, 4, 4, stride=2, padding=padding)
    assert fewest_products(layer, False) == pytest.approx(taps_inside(8, 4, 4, 2, padding[0], 1))


def test_the_padding_of_a_transposed_convolution_crops_its_output():
    # 3 inputs, kernel 4, stride 2, padding 1 -> 6 outputs: input i and tap t reach output 2 i + t - 1
    layer = conv(3, 4, 6, 2, 1, op="conv_transpose")
    reached = [2 * i + t - 1 for i, t in product(range(3), range(4))]
    expected = sum(0 <= place < 6 for place in reached) / len(reached)
    assert fewest_products(layer, fast_convolution=False) == pytest.approx(expected)


def square(kernel, stride=1, n=224):
    attrs = {"kernel": (kernel, kernel), "stride": (stride, stride), "padding": (0, 0), "dilation": (1, 1)}
    m = (n - kernel) // stride + 1
    x, y = Tensor((1, 4, n, n)), Tensor((1, 4, m, m))
    return Layer("conv", {"x": x, "w": Tensor((4, 4, kernel, kernel))}, [y], attrs)


def test_a_3_by_3_convolution_needs_a_fifth_of_its_products():
    # F(6 x 6, 3 x 3): 8 * 8 products for 36 outputs of 9 each, 324 / 64 = 5.0625
    assert 1 / fewest_products(square(3), True) == pytest.approx(5.0625)
    assert fewest_products(square(3), False) == 1
    assert fewest_products(square(3, stride=2), True) == 1
    assert fewest_products(square(1), True) == 1


def test_large_kernels_may_run_by_fourier_transforms():
    # tiles of 256 x 256: (31 * 226 / 256)**2 / 2 products of the definition for each of the transform
    assert 1 / fewest_products(square(31), True) == pytest.approx((31 * 226 / 256) ** 2 / 2)


def attention(queries, keys, **attrs):
    q, k = Tensor((1, 2, queries, 8)), Tensor((1, 2, keys, 8))
    return Layer("attention", {"q": q, "k": k, "v": k}, [q], attrs)


def allowed(queries, keys, left, right, shift):
    """By the definition: query i attends to the keys from i + shift - left to i + shift + right."""
    pairs = product(range(queries), range(keys))
    return sum(i + shift - left <= j <= i + shift + right for i, j in pairs) / (queries * keys)


@pytest.mark.parametrize(("queries", "keys"), [(8, 8), (3, 8), (8, 3), (1, 5), (5, 1)])
@pytest.mark.parametrize(("window", "causal"), [(None, True), ((2, -1), True), ((2, 1), False), ((-1, 1), False)])
def test_masked_pairs_need_no_product(queries, keys, window, causal):
    left, right = window or (-1, -1)
    left = 100 if left < 0 else left
    right = 0 if causal else 100 if right < 0 else right
    expected = min(allowed(queries, keys, left, right, shift) for shift in (0, keys - queries))
    attrs = {"window": window, "causal": causal}
    assert fewest_products(attention(queries, keys, **attrs), True) == pytest.approx(expected)


def test_attention_without_a_mask_and_other_products_need_all():
    assert fewest_products(attention(8, 8), True) == 1
    assert fewest_products(Layer("linear", {}, []), True) == 1


@pytest.mark.parametrize(
    "wrong", [{"stride": (0,)}, {"padding": ((),)}, {"dilation": ("2",)}, {"kernel": (2.5,)}, {"kernel": (1 << 40,)}]
)
def test_settings_that_no_convolution_has_spare_no_product(wrong):
    """They are those of a saved report that somebody edited."""
    layer = conv(11, 4, 8)
    assert fewest_products(Layer("conv", layer.inputs, layer.outputs, {**layer.attrs, **wrong}), True) == 1
