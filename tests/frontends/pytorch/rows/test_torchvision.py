"""Rows of the operators of torchvision, which tests define by their public schemas."""

from __future__ import annotations

import sys

import pytest
import torch

from costcore.ir import Operations
from tests.frontends.pytorch.runs import record
from tests.registered import price

_REGION = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_MAP = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_DEFORMED = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align(Tensor input, Tensor rois, {_REGION}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {_REGION}, {_MAP}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool(Tensor input, Tensor rois, {_REGION}) -> (Tensor, Tensor)",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_REGION}, {_MAP}) -> Tensor",
    f"ps_roi_align(Tensor input, Tensor rois, {_REGION}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_REGION}, int sampling_ratio, {_MAP})"
    " -> Tensor",
    f"ps_roi_pool(Tensor input, Tensor rois, {_REGION}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_REGION}, {_MAP}) -> Tensor",
    f"deform_conv2d({_DEFORMED}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_DEFORMED}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)


def roi_align(x, rois, scale, height, width, *_):
    return x.new_zeros((rois.shape[0], x.shape[1], height, width))


def roi_pool(x, rois, scale, height, width):
    y = roi_align(x, rois, scale, height, width)
    return y, torch.zeros_like(y, dtype=torch.int32)


def ps_roi_pool(x, rois, scale, height, width, *_):
    y = x.new_zeros((rois.shape[0], x.shape[1] // (height * width), height, width))
    return y, torch.zeros_like(y, dtype=torch.int32)


def gradient(grad, *arguments):
    sizes = [value for value in arguments if type(value) is int]
    return grad.new_zeros(sizes[2:6])


def gradient_of_samples(grad, rois, mapping, scale, height, width, ratio, *sizes):
    return grad.new_zeros(sizes)


def deform_conv2d(x, w, offset, mask, bias, *_):
    return x.new_zeros((x.shape[0], w.shape[0], *offset.shape[2:]))


def deformed_gradients(grad, *operands):
    return tuple(torch.zeros_like(value) for value in operands[:5])


KERNELS = {
    "roi_align": roi_align,
    "_roi_align_backward": gradient,
    "roi_pool": roi_pool,
    "_roi_pool_backward": gradient,
    "ps_roi_align": ps_roi_pool,
    "_ps_roi_align_backward": gradient_of_samples,
    "ps_roi_pool": ps_roi_pool,
    "_ps_roi_pool_backward": gradient,
    "deform_conv2d": deform_conv2d,
    "_deform_conv2d_backward": deformed_gradients,
    "nms": lambda boxes, scores, threshold: torch.arange(boxes.shape[0]),
}


@pytest.fixture(scope="module", autouse=True)
def operators():
    """Define the operators, with kernels that only have the right shapes, as long as the tests run."""
    if "torchvision" in sys.modules:
        pytest.skip("torchvision itself is imported")
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        name = schema.partition("(")[0]
        library.define(schema)
        for key in ("CPU",) if name == "nms" else ("CPU", "Meta"):
            library.impl(name, KERNELS[name], key)
    yield
    library._destroy()


X, ROIS, WIDE = (2, 4, 20, 12), (3, 5), (2, 8, 20, 12)
REGION = (1.0, 2, 2)
Y = (3, 4, 2, 2)
PS_Y = (3, 2, 2, 2)
BYTES_OF_ROIS = 4 * 15

SAMPLE = Operations(mul=3, add=6)

CASES = {
    # 48 bins of 2 x 3 samples are averaged; 4 elements of x a sample are 1152, fewer than its 1920
    "roi_align": (
        lambda o, f: o.roi_align(f(*X), f(*ROIS), *REGION, 2, True),
        "roi_align",
        48 * (4 * SAMPLE + Operations(add=3, div=1)),
        (4 * 4 * 4 * 48 + BYTES_OF_ROIS, 4 * 48),
    ),
    # the regions decide: at most 20 / 2 by 12 / 2 samples, which need all of x
    "roi_align, samples by size": (
        lambda o, f: o.roi_align(f(*X), f(*ROIS), *REGION, -1, True),
        "roi_align",
        48 * (60 * SAMPLE + Operations(add=59, div=1)),
        (4 * 1920 + BYTES_OF_ROIS, 4 * 48),
    ),
    "ps_roi_align": (
        lambda o, f: o.ps_roi_align(f(*WIDE), f(*ROIS), *REGION, 2),
        "ps_roi_align",
        24 * (4 * SAMPLE + Operations(add=3, div=1)),
        (4 * 4 * 4 * 24 + BYTES_OF_ROIS, (4 + 4) * 24),
    ),
    # windows of 10 x 6 cover a map of 240: 3 regions of 4 channels, 239 - 3 comparisons each
    "roi_pool": (
        lambda o, f: o.roi_pool(f(*X), f(*ROIS), *REGION),
        "roi_max_pool",
        Operations(cmp=12 * (240 - 4)),
        (4 * 1920 + BYTES_OF_ROIS, (4 + 4) * 48),
    ),
    "ps_roi_pool": (
        lambda o, f: o.ps_roi_pool(f(*WIDE), f(*ROIS), *REGION),
        "ps_roi_avg_pool",
        6 * Operations(add=240 - 4, div=4),
        (4 * 3840 + BYTES_OF_ROIS, (4 + 4) * 24),
    ),
    "_roi_align_backward": (
        lambda o, f: o._roi_align_backward(f(*Y), f(*ROIS), *REGION, *X, 2, True),
        "roi_align_backward",
        48 * (4 * Operations(mul=4, add=4) + Operations(div=1)),
        (4 * 48 + BYTES_OF_ROIS, 4 * 1920),
    ),
    "_ps_roi_align_backward": (
        lambda o, f: o._ps_roi_align_backward(f(*PS_Y), f(*ROIS), f(*PS_Y).int(), *REGION, 2, *WIDE),
        "ps_roi_align_backward",
        24 * (4 * Operations(mul=4, add=4) + Operations(div=1)),
        (8 * 24 + BYTES_OF_ROIS, 4 * 3840),
    ),
    "_roi_pool_backward": (
        lambda o, f: o._roi_pool_backward(f(*Y), f(*ROIS), f(*Y).int(), *REGION, *X),
        "roi_max_pool_backward",
        Operations(add=48),
        (8 * 48 + BYTES_OF_ROIS, 4 * 1920),
    ),
    "_ps_roi_pool_backward": (
        lambda o, f: o._ps_roi_pool_backward(f(*PS_Y), f(*ROIS), f(*PS_Y).int(), *REGION, *WIDE),
        "ps_roi_avg_pool_backward",
        Operations(add=6 * 240, div=24),
        (8 * 24 + BYTES_OF_ROIS, 4 * 3840),
    ),
    # 6 boxes: 6 * 3 comparisons to sort, 15 pairs, 6 areas
    "nms": (
        lambda o, f: o.nms(f(6, 4), f(6), 0.5),
        "non_max_suppression",
        15 * Operations(mul=1, add=4, div=1, cmp=7) + Operations(cmp=18) + 6 * Operations(mul=1, add=2),
        (4 * 30, 8 * 6),
    ),
}


def the_call(run, native):
    ((call, cost),) = [(call, cost) for call, cost in priced(run) if call.native == f"torchvision::{native}"]
    return call.layer, cost


def priced(run):
    return [(call, price(call).cost) for call in record(run).calls]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("case", CASES)
def test_regions(case, device):
    run, op, flops, moved = CASES[case]
    layer, cost = the_call(
        lambda: run(torch.ops.torchvision, lambda *shape: torch.ones(shape, device=device)), case.partition(",")[0]
    )
    assert (layer.op, cost.flops) == (op, flops)
    assert (cost.mread, cost.mwrite) == moved


SETTINGS = (2, 1, 1, 0, 1, 1, 2, 1)
"""Strides, padding, dilations; 2 groups, which share their offsets."""


def deformed(use_mask, device):
    shapes = [(2, 4, 7, 5), (6, 2, 3, 3), (2, 18, 4, 3), (2, 9, 4, 3) if use_mask else (2, 1), (6,)]
    return [torch.ones(shape, device=device) for shape in shapes]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("use_mask", [False, True])
def test_deformable_convolution(use_mask, device):
    """2 maps of 4 channels, 9 taps, 12 positions: 864 samples; 144 outputs of 2 * 9 products each, onto the bias."""
    operands = deformed(use_mask, device)
    layer, cost = the_call(lambda: torch.ops.torchvision.deform_conv2d(*operands, *SETTINGS, use_mask), "deform_conv2d")
    assert layer.op == "deform_conv"
    assert layer.attrs["stride"] == (2, 1)
    assert layer.attrs["padding"] == (1, 0)
    assert cost.macs == 144 * 18
    assert cost.flops == 864 * Operations(mul=4 if use_mask else 3, add=6) + Operations(fma=144 * 18)
    assert cost.mread == 4 * (280 + 108 + 432 + (216 if use_mask else 0) + 6)
    assert cost.mwrite == 4 * 144


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("use_mask", [False, True])
def test_gradients_of_deformable_convolution(use_mask, device):
    operands, dy = deformed(use_mask, device), torch.ones((2, 6, 4, 3), device=device)
    layer, cost = the_call(
        lambda: torch.ops.torchvision._deform_conv2d_backward(dy, *operands, *SETTINGS, use_mask),
        "_deform_conv2d_backward",
    )
    assert layer.op == "deform_conv_backward"
    assert cost.macs == 2 * 144 * 18
    # gradients of samples: 864 dot products of 3; of w: 108 of 24; of offsets: 432 of 4; of the bias: 6 sums of 24
    expected = 864 * Operations(mul=7, add=12, fma=2) + 108 * Operations(mul=1, fma=23)
    expected += 432 * Operations(mul=1, fma=3) + 6 * Operations(add=23)
    if use_mask:
        expected += Operations(mul=864) + 216 * Operations(mul=1, fma=3)
    assert cost.flops == expected
    mask = 216 if use_mask else 0
    assert cost.mread == 4 * (144 + 280 + 108 + 432 + mask)
    assert cost.mwrite == 4 * (280 + 108 + 432 + mask + 6)
