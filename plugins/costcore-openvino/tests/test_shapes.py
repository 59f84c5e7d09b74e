"""Sizes that a file leaves open follow from operands, as OpenVINO 2026.4 infers them, and costs from options.

Both are worked out by hand.
"""

import pytest
from ir import L, save, stored

from costcore import estimate


def given(*shape, dtype="FP32"):
    """An input; each of its open axes, None, has 6 elements."""
    return L("Parameter", (), tuple(-1 if size is None else size for size in shape), dtype)


def index(*shape):
    return given(*shape, dtype="I64")


def weight(*shape):
    return L("Const", (), shape)


def scalar(value, dtype="I64"):
    return stored(value, dtype=dtype)._replace(shape=())


def real(*values):
    return stored(*values, dtype="FP32")


def windows(strides="1,1", begin="0,0", end="0,0", dilations="1,1", **more):
    return {"strides": strides, "pads_begin": begin, "pads_end": end, "dilations": dilations, **more}


X = given(None, 3, 8, 9)
V, V4 = given(None), given(1, 2, 7, 3)
POOL = {"kernel": "3,2", **windows("2,2")}
CEIL = {"kernel": "2,2", **windows("3,3", "1,0", "0,1")}
MASKS = dict.fromkeys((f"{name}_mask" for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")), "")
RESIZE = {"mode": "nearest", "version": "opset4"}
SCALES = {**RESIZE, "shape_calculation_mode": "scales"}
PRIOR = {"min_size": "16,32", "aspect_ratio": "2,3"}
PLACE, FEATURES = stored(3, 4), stored(30, 40)
KEPT = {"keep_top_k": "-1", "num_classes": "3"}
LISTED = given(None, 5, dtype="I64")

SHAPES = [
    # (8 + 1 - 5) // 2 + 1 rows of a window dilated to 5, (9 + 3 - 2) // 3 + 1 columns
    ("Convolution", [X, weight(4, 3, 3, 2)], windows("2,3", "1,2", "0,1", "2,1"), [(6, 4, 3, 4)]),
    ("Convolution", [X, weight(4, 3, 3, 2)], windows("3,2", auto_pad="same_upper"), [(6, 4, 3, 5)]),
    ("Convolution", [X, weight(4, 3, 3, 2)], windows("2,3", "1,2", "0,1", "2,1", auto_pad="valid"), [(6, 4, 2, 3)]),
    ("BinaryConvolution", [X, weight(4, 3, 3, 2)], windows(mode="xnor-popcount", pad_value="0"), [(6, 4, 6, 8)]),
    ("GroupConvolution", [X, weight(3, 2, 1, 3, 2)], windows(), [(6, 6, 6, 8)]),
    # of one axis: 9 - 2 and 9 + 2
    ("Convolution", [given(None, 4, 9), weight(5, 4, 3)], windows("1", "0", "0", "1"), [(6, 5, 7)]),
    ("GroupConvolution", [given(None, 4, 9), weight(2, 3, 2, 3)], windows("1", "0", "0", "1"), [(6, 6, 7)]),
    ("ConvolutionBackpropData", [given(None, 4, 9), weight(4, 5, 3)], windows("1", "0", "0", "1"), [(6, 5, 11)]),
    (
        "GroupConvolutionBackpropData",
        [given(None, 4, 9), weight(2, 2, 3, 3)],
        windows("1", "0", "0", "1"),
        [(6, 6, 11)],
    ),
    ("MaxPool", [given(None, 4, 9)], {"kernel": "3", **windows("1", "0", "0", "1")}, [(6, 4, 7)]),
    # (8 - 1) 2 + 2 - 1 rows; (9 - 1) 3 + 3 - 2 + 1 columns of a window dilated to 3
    (
        "ConvolutionBackpropData",
        [X, weight(3, 4, 2, 2)],
        windows("2,3", "1,0", "0,2", "1,2", output_padding="0,1"),
        [(6, 4, 15, 26)],
    ),
    (
        "ConvolutionBackpropData",
        [X, weight(3, 4, 2, 2), stored(10, 12)],
        windows(auto_pad="same_upper"),
        [(6, 4, 10, 12)],
    ),
    ("ConvolutionBackpropData", [X, weight(3, 4, 2, 2)], windows("2,2", auto_pad="same_lower"), [(6, 4, 16, 18)]),
    (
        "ConvolutionBackpropData",
        [X, weight(3, 4, 2, 2)],
        windows("2,2", "1,1", "1,1", auto_pad="valid"),
        [(6, 4, 16, 18)],
    ),
    ("GroupConvolutionBackpropData", [X, weight(3, 1, 5, 2, 2)], windows("2,2"), [(6, 15, 16, 18)]),
    (
        "DeformableConvolution",
        [X, given(6, 8, 7, 8), weight(4, 3, 2, 2)],
        windows(group="1", deformable_group="1"),
        [(6, 4, 7, 8)],
    ),
    ("AvgPool", [X], {**POOL, "exclude-pad": "true"}, [(6, 3, 3, 4)]),
    ("AvgPool", [X], {**POOL, "rounding_type": "ceil"}, [(6, 3, 4, 5)]),
    ("MaxPool", [X], {"kernel": "3,2", **windows("1,2", dilations="2,3")}, [(6, 3, 4, 3)] * 2),
    ("MaxPool", [X], {**POOL, "auto_pad": "same_lower"}, [(6, 3, 4, 5)]),
    # windows begin at -1, 2 and 5, at 0, 3 and 6; the next ones, at 8 and 9, are in the padding behind
    ("MaxPool", [X], {**CEIL, "rounding_type": "ceil_torch"}, [(6, 3, 3, 3)] * 2),
    ("MaxPool", [given(3, 2, None, None)], {**CEIL, "rounding_type": "ceil_torch"}, [(3, 2, 3, 2)] * 2),
    ("AdaptiveAvgPool", [X, stored(2, 5)], {}, [(6, 3, 2, 5)]),
    ("AdaptiveMaxPool", [X, stored(2, 5)], {}, [(6, 3, 2, 5)] * 2),
    ("MatMul", [given(None, 8, 4), given(8, 5)], {"transpose_a": "true"}, [(6, 4, 5)]),
    ("MatMul", [given(None, 1, 4, 8), given(7, 5, 8)], {"transpose_b": "true"}, [(6, 7, 4, 5)]),
    ("MatMul", [given(8), given(None, 8, 5)], {}, [(6, 5)]),
    ("ScaledDotProductAttention", [given(None, 1, 5, 4), given(1, 2, 7, 4), V4], {}, [(6, 2, 5, 3)]),
    ("Add", [given(None, 1, 9), given(8, 1)], {}, [(6, 8, 9)]),
    ("Select", [given(None, 1, dtype="BOOL"), given(1, 5), given(1)], {}, [(6, 5)]),
    ("PReLU", [X, weight(3)], {}, [(6, 3, 8, 9)]),
    ("Reshape", [X, stored(0, -1, 12)], {"special_zero": "true"}, [(6, 18, 12)]),
    ("Reshape", [X, stored(-1, 12)], {"special_zero": "false"}, [(108, 12)]),
    ("Reshape", [given(0, None), stored(0, 5)], {"special_zero": "false"}, [(0, 5)]),
    ("Transpose", [X, stored(1, 0, 3, 2)], {}, [(3, 6, 9, 8)]),
    ("Transpose", [X, stored()], {}, [(9, 8, 3, 6)]),
    ("Squeeze", [given(None, 1, 8, 1), stored(1)], {}, [(6, 8, 1)]),
    ("Squeeze", [given(None, 1, 8, 1), stored(-1, 1)], {}, [(6, 8)]),
    ("Squeeze", [given(None, 1, 8, 1), stored(0, 1, 2)], {"allow_axis_skip": "true"}, [(6, 8, 1)]),
    ("Unsqueeze", [given(None, 3), stored(0, -1)], {}, [(1, 6, 3, 1)]),
    ("Unsqueeze", [given(None, 3), scalar(1)], {}, [(6, 1, 3)]),
    ("Concat", [X, given(None, 5, 8, 9)], {"axis": "-3"}, [(6, 8, 8, 9)]),
    ("Concat", [X, X], {"axis": "0"}, [(12, 3, 8, 9)]),
    ("Split", [X, scalar(1)], {"num_splits": "3"}, [(6, 1, 8, 9)] * 3),
    ("Split", [X, scalar(-4)], {"num_splits": "2"}, [(3, 3, 8, 9)] * 2),
    ("VariadicSplit", [X, scalar(-1), stored(5, -1, 1)], {}, [(6, 3, 8, 5), (6, 3, 8, 3), (6, 3, 8, 1)]),
    ("VariadicSplit", [X, scalar(0), stored(-1, 2)], {}, [(4, 3, 8, 9), (2, 3, 8, 9)]),
    ("Gather", [X, index(2, 5), scalar(1)], {}, [(6, 2, 5, 8, 9)]),
    ("Gather", [X, index(6, 5), scalar(-2)], {"batch_dims": "1"}, [(6, 3, 5, 9)]),
    ("Gather", [X, index(6, 3, 5), scalar(2)], {"batch_dims": "-1"}, [(6, 3, 5, 9)]),
    ("Gather", [X, index(None), scalar(1)], {"batch_dims": "1"}, [(6, 8, 9)]),
    ("Gather", [X, scalar(2), scalar(1)], {}, [(6, 8, 9)]),
    ("GatherElements", [X, index(6, 3, 2, 9)], {"axis": "2"}, [(6, 3, 2, 9)]),
    ("GatherND", [X, index(5, 2)], {"version": "opset5"}, [(5, 8, 9)]),
    ("GatherND", [X, index(6, 5, 2)], {"batch_dims": "1", "version": "opset8"}, [(6, 5, 9)]),
    ("GatherND", [X, index(6, 3, 5, 1)], {"batch_dims": "2", "version": "opset8"}, [(6, 3, 5, 9)]),
    ("GatherND", [X, index(6, 3, 5, 1)], {"batch_dims": "2", "version": "opset5"}, [(18, 5, 9)]),
    ("GatherTree", [given(7, None, 3), given(7, None, 3), V, given()], {}, [(7, 6, 3)]),
    ("Broadcast", [given(None, 1), stored(2, 6, 5)], {"mode": "numpy"}, [(2, 6, 5)]),
    ("Broadcast", [given(None, 1), stored(2, 1, 5)], {"mode": "bidirectional"}, [(2, 6, 5)]),
    ("Broadcast", [V, stored(6, 2), stored(0)], {"mode": "explicit"}, [(6, 2)]),
    ("Tile", [X, stored(2, 3)], {}, [(6, 3, 16, 27)]),
    ("Tile", [given(None, 3), stored(2, 1, 3)], {}, [(2, 6, 9)]),
    ("Pad", [X, stored(0, 1, -2, 0), stored(1, 0, 0, -3)], {"pad_mode": "constant"}, [(7, 4, 6, 6)]),
    ("ReduceMax", [X, stored(1, -1)], {"keep_dims": "true"}, [(6, 1, 8, 1)]),
    ("ReduceMean", [X, stored(2, 3)], {"keep_dims": "false"}, [(6, 3)]),
    ("ReduceSum", [X, stored()], {"keep_dims": "false"}, [(6, 3, 8, 9)]),
    ("TopK", [X, scalar(2)], {"axis": "-1", "mode": "max", "sort": "value"}, [(6, 3, 8, 2)] * 2),
    ("TopK", [X, scalar(2)], {"axis": "1", "mode": "max", "sort": "value"}, [(6, 2, 8, 9)] * 2),
    ("OneHot", [index(None, 2), scalar(7), scalar(1), scalar(0)], {"axis": "-1"}, [(6, 2, 7)]),
    ("OneHot", [index(None, 2), scalar(7), scalar(1), scalar(0)], {"axis": "1"}, [(6, 7, 2)]),
    ("DepthToSpace", [given(None, 12, 3, 4)], {"block_size": "2", "mode": "blocks_first"}, [(6, 3, 6, 8)]),
    ("SpaceToDepth", [given(None, 3, 4, 6)], {"block_size": "2", "mode": "blocks_first"}, [(6, 12, 2, 3)]),
    ("DepthToSpace", [given(None, 16, 3, 4, 5)], {"block_size": "2", "mode": "blocks_first"}, [(6, 2, 6, 8, 10)]),
    ("SpaceToDepth", [given(None, 3, 4, 6, 8)], {"block_size": "2", "mode": "blocks_first"}, [(6, 24, 2, 3, 4)]),
    ("SpaceToBatch", [X, stored(1, 1, 2, 3), stored(0, 0, 1, 0), stored(0, 0, 1, 3)], {}, [(36, 3, 5, 4)]),
    ("BatchToSpace", [X, stored(1, 1, 2, 3), stored(0, 0, 1, 0), stored(0, 0, 0, 2)], {}, [(1, 3, 15, 25)]),
    (
        "ExtractImagePatches",
        [X],
        {"sizes": "3,2", "strides": "2,3", "rates": "2,1", "auto_pad": "valid"},
        [(6, 18, 2, 3)],
    ),
    (
        "ExtractImagePatches",
        [X],
        {"sizes": "3,2", "strides": "3,2", "rates": "1,1", "auto_pad": "same_upper"},
        [(6, 18, 3, 5)],
    ),
    ("Col2Im", [given(None, 12, 9), stored(4, 4), stored(2, 2)], windows(), [(6, 3, 4, 4)]),
    ("ShapeOf", [X], {}, [(4,)]),
    ("NonZero", [given(None, 4)], {}, [(2, 6)]),
    ("Eye", [scalar(3), scalar(4), scalar(0)], {}, [(3, 4)]),
    ("Eye", [scalar(3), scalar(4), scalar(0), stored(5)], {}, [(5, 3, 4)]),
    ("RandomUniform", [stored(2, 3), scalar(0), scalar(1)], {"output_type": "i64"}, [(2, 3)]),
    ("Range", [scalar(2), scalar(12), scalar(3)], {}, [(4,)]),
    ("Range", [scalar(9), scalar(2), scalar(-2)], {}, [(4,)]),
    ("Range", [scalar(3), scalar(1), scalar(1)], {}, [(0,)]),
    *(
        ("Range", [scalar(each, "FP32") for each in ends], {"output_type": "f32"}, [(count,)])
        for ends, count in (((0, 1, 0.3), 4), ((3, 1, 0.5), 0), ((1, 0, -0.25), 4), ((0, 2, 0.5), 4))
    ),
    ("GridSample", [X, given(6, 4, 5, 2)], {}, [(6, 3, 4, 5)]),
    # 1 and 3; the second axis is dropped; 7, 5 and 3; the last three
    (
        "StridedSlice",
        [X, stored(1, 0, 7, -3), stored(5, 1, 1, 0), stored(2, 1, -2, 1)],
        {**MASKS, "begin_mask": "0,0,0,0", "end_mask": "0,0,0,1", "shrink_axis_mask": "0,1,0,0"},
        [(2, 3, 3)],
    ),
    # a new axis, all that the dots stand for, and 0 to 3 of the last axis
    (
        "StridedSlice",
        [X, stored(0, 0, 5), stored(0, 0, 4), stored(1, 1, 1)],
        {**MASKS, "new_axis_mask": "1,0,0", "ellipsis_mask": "0,1,0", "begin_mask": "0,0,1"},
        [(1, 6, 3, 8, 4)],
    ),
    # dots that stand for two axes, between the first one and 2 to 5 of the last
    (
        "StridedSlice",
        [X, stored(0, 0, 2), stored(1, 0, 6)],
        {**MASKS, "begin_mask": "0,0,0", "end_mask": "0,0,0", "ellipsis_mask": "0,1,0", "shrink_axis_mask": "1,0,0"},
        [(3, 8, 4)],
    ),
    ("StridedSlice", [X, stored(1), stored(4)], MASKS, [(3, 3, 8, 9)]),
    ("Slice", [X, stored(1, 7), stored(5, 0), stored(2, -3), stored(0, -2)], {}, [(2, 3, 3, 9)]),
    ("Slice", [X, stored(-2, 0), stored(2**31 - 1, 2), stored(1, 1)], {}, [(2, 2, 8, 9)]),
    ("Slice", [X, index(1), stored(5), stored(1), stored(-1)], {}, [(6, 3, 8, 6)]),
    ("Interpolate", [X, stored(16, 5)], {"axes": "2,3", "mode": "nearest"}, [(6, 3, 16, 5)]),
    (
        "Interpolate",
        [X, stored(16, 5), real(1, 1), stored(2, 3)],
        {**RESIZE, "shape_calculation_mode": "sizes"},
        [(6, 3, 16, 5)],
    ),
    (
        "Interpolate",
        [X, stored(16, 5), real(1.1, 2.5), stored(2, 3)],
        {**SCALES, "pads_begin": "0,0,1,0", "pads_end": "0,0,1,2"},
        [(6, 3, 11, 27)],
    ),
    ("Interpolate", [X, stored(6, 3, 16, 5), real(1, 1, 2, 2)], SCALES, [(6, 3, 16, 18)]),
    ("Interpolate", [X, real(0.3, 1.5), stored(3, 0)], {**SCALES, "version": "opset11"}, [(9, 3, 8, 2)]),
    (
        "Interpolate",
        [X, stored(5, 7), stored(1, 2)],
        {**RESIZE, "version": "opset11", "shape_calculation_mode": "sizes"},
        [(6, 5, 7, 9)],
    ),
    ("Einsum", [given(None, 2, 4, 3), given(6, 3, 7)], {"equation": "nabc,ncd->nabd"}, [(6, 2, 4, 7)]),
    ("DFT", [given(None, 8, 2), stored(-1)], {}, [(6, 8, 2)]),
    ("IDFT", [given(None, 8, 2), stored(0, 1), stored(-1, 5)], {}, [(6, 5, 2)]),
    ("RDFT", [given(None, 9), stored(0, -1)], {}, [(6, 5, 2)]),
    ("RDFT", [given(None, 9), stored(0), stored(4)], {}, [(3, 9, 2)]),
    ("IRDFT", [given(None, 9, 2), stored(-1)], {}, [(6, 16)]),
    ("IRDFT", [given(None, 9, 2), stored(0, -1)], {}, [(6, 16)]),
    ("IRDFT", [given(None, 9, 2), stored(1, 0), stored(-1, 7)], {}, [(7, 9)]),
    ("STFT", [given(None, 20), given(8), scalar(8), scalar(3)], {}, [(6, 5, 5, 2)]),
    ("STFT", [given(3, 18), given(8), scalar(8), scalar(2)], {"transpose_frames": "true"}, [(3, 5, 6, 2)]),
    # 5 steps of 3 from the first frame of 6 to the last, and the 8 of a frame
    ("ISTFT", [given(None, 5, 6, 2), given(8), scalar(8), scalar(3)], {"center": "false"}, [(6, 23)]),
    ("ISTFT", [given(3, 5, None, 2), given(8), scalar(8), scalar(3)], {"center": "true"}, [(3, 15)]),
    ("ISTFT", [given(5, None, 2), given(8), scalar(8), scalar(3), stored(17)], {"center": "true"}, [(17,)]),
    ("CTCGreedyDecoder", [given(7, None, 5), given(7, None)], {}, [(6, 7, 1, 1)]),
    ("CTCGreedyDecoderSeqLen", [given(None, 7, 5), index(None)], {}, [(6, 7), (6,)]),
    ("CTCLoss", [given(None, 7, 5), index(6), index(6, 7), index(6), scalar(4)], {}, [(6,)]),
    ("EmbeddingBagOffsets", [weight(9, 4), index(5), index(None)], {}, [(6, 4)]),
    ("EmbeddingBagPackedSum", [weight(9, 4), LISTED], {}, [(6, 4)]),
    ("EmbeddingSegmentsSum", [weight(9, 4), index(None), index(6), scalar(3)], {}, [(3, 4)]),
    ("SegmentMax", [given(None, 4), index(6)], {}, [(6, 4)]),
    ("Unique", [given(3, None)], {}, [(6,), (6,), (18,), (6,)]),
    ("Unique", [given(3, None, 5), scalar(-3)], {}, [(6, 6, 5), (6,), (3,), (6,)]),
    ("NMSRotated", [given(2, None, 5), given(2, 3, None), *map(scalar, (4, 1, 1))], {}, [(6, 3), (6, 3), (1,)]),
    ("SparseFillEmptyRows", [given(None), stored(4, 7), index(None, 2), given(1)], {}, [(6, 2), (6,), (4,)]),
    ("StringTensorUnpack", [given(3, None)], {}, [(3, 6), (3, 6), (6,)]),
    ("StringTensorPack", [index(3, None), index(3, None), given(9, dtype="U8")], {}, [(3, 6)]),
    ("SegmentMax", [given(None, 4), index(6), scalar(3)], {}, [(3, 4)]),
    ("Bucketize", [X, given(4)], {"output_type": "i64"}, [(6, 3, 8, 9)]),
    ("SearchSorted", [given(None, 4), given(None, 5)], {}, [(6, 5)]),
    ("ScatterElementsUpdate", [given(None, 4), index(2, 4), given(2, 4), scalar(0)], {}, [(6, 4)]),
    ("ConvertPromoteTypes", [given(None, 4), given(None, 5)], {}, [(6, 4), (6, 5)]),
    # of regions and boxes
    (
        "ROIPooling",
        [X, given(None, 5)],
        {"pooled_h": "2", "pooled_w": "4", "spatial_scale": "1", "method": "max"},
        [(6, 3, 2, 4)],
    ),
    ("ROIAlign", [X, given(5, 4), index(5)], {"pooled_h": "2", "pooled_w": "4"}, [(5, 3, 2, 4)]),
    ("ROIAlignRotated", [X, given(5, 5), index(5)], {"pooled_h": "2", "pooled_w": "4"}, [(5, 3, 2, 4)]),
    (
        "PSROIPooling",
        [given(None, 8, 8, 9), given(5, 5)],
        {"output_dim": "2", "group_size": "2", "mode": "average", "spatial_scale": "1"},
        [(5, 2, 2, 2)],
    ),
    (
        "DeformablePSROIPooling",
        [given(None, 18, 8, 9), given(5, 5)],
        {"output_dim": "2", "group_size": "3", "spatial_scale": "1"},
        [(5, 2, 3, 3)],
    ),
    ("DeformablePSROIPooling", [given(None, 2, 8, 9), given(5, 5)], {"output_dim": "2"}, [(5, 2, 1, 1)]),
    (
        "RegionYolo",
        [given(None, 18, 4, 5)],
        {"do_softmax": "0", "mask": "0,1", "classes": "4", "coords": "4", "num": "3"},
        [(6, 18, 4, 5)],
    ),
    (
        "RegionYolo",
        [given(None, 27, 4, 5)],
        {"axis": "1", "end_axis": "3", "classes": "4", "coords": "4", "num": "3", "do_softmax": "1"},
        [(6, 540)],
    ),
    (
        "RegionYolo",
        [given(None, 27, 4, 5)],
        {"axis": "1", "end_axis": "-2", "do_softmax": "true", "num": "3", "classes": "4", "coords": "4"},
        [(6, 108, 5)],
    ),
    ("ReorgYolo", [given(None, 4, 6, 8)], {"stride": "2"}, [(6, 16, 3, 4)]),
    ("Proposal", [given(None, 6, 4, 5), given(None, 12, 4, 5), given(3)], {"post_nms_topn": "7"}, [(42, 5), (42,)]),
    (
        "DetectionOutput",
        [given(None, 40), given(None, 30), given(1, 2, 40)],
        {**KEPT, "keep_top_k": "7", "normalized": "true"},
        [(1, 1, 42, 7)],
    ),
    # 10 boxes of 4 numbers, or 8 of 5; 3 classes, the best 4 of each
    (
        "DetectionOutput",
        [given(None, 40), given(None, 30), given(1, 2, 40)],
        {**KEPT, "normalized": "true"},
        [(1, 1, 180, 7)],
    ),
    ("DetectionOutput", [given(None, 32), given(None, 24), given(1, 2, 40)], {**KEPT, "top_k": "4"}, [(1, 1, 72, 7)]),
    (
        "DetectionOutput",
        [given(None, 32), given(None, 24), given(1, 1, 40)],
        {**KEPT, "variance_encoded_in_target": "true"},
        [(1, 1, 144, 7)],
    ),
    # 3 x 4 places of boxes of 4 numbers. 2 sizes of the ratios 1, 2 and 3, and a third size of the ratio 1
    ("PriorBox", [PLACE, FEATURES], {**PRIOR, "max_size": "64", "scale_all_sizes": "true"}, [(2, 4 * 12 * 7)]),
    # the ratios 1, 2, 3, 1/2 and 1/3; of the second size only 1
    ("PriorBox", [PLACE, FEATURES], {**PRIOR, "flip": "true", "scale_all_sizes": "false"}, [(2, 4 * 12 * 6)]),
    # 3 ratios of a fixed size, in a density of 2: 4 boxes instead of each
    ("PriorBox", [PLACE, FEATURES], {"aspect_ratio": "2,3", "fixed_size": "8", "density": "2"}, [(2, 4 * 12 * 12)]),
    ("PriorBox", [PLACE, FEATURES], {"fixed_size": "8,16", "fixed_ratio": "1,2", "density": "2,3"}, [(2, 4 * 12 * 24)]),
    ("PriorBoxClustered", [PLACE, FEATURES], {"width": "2,3,4", "height": "2,3,4"}, [(2, 4 * 12 * 3)]),
    (
        "ExperimentalDetectronPriorGridGenerator",
        [given(None, 4), X, given(6, 3, 80, 90)],
        {"flatten": "true"},
        [(432, 4)],
    ),
    (
        "ExperimentalDetectronPriorGridGenerator",
        [given(None, 4), X, given(6, 3, 80, 90)],
        {"flatten": "false", "h": "5", "w": "7"},
        [(8, 9, 6, 4)],
    ),
    (
        "ExperimentalDetectronROIFeatureExtractor",
        [given(None, 4), given(1, 3, 8, 9), given(1, 3, 4, 4)],
        {"output_size": "7"},
        [(6, 3, 7, 7), (6, 4)],
    ),
    (
        "ExperimentalDetectronDetectionOutput",
        [given(None, 4), given(6, 8), given(6, 2), given(1, 3)],
        {"max_detections_per_image": "9", "num_classes": "2"},
        [(9, 4), (9,), (9,)],
    ),
    (
        "ExperimentalDetectronGenerateProposalsSingleImage",
        [given(3), given(None, 4), given(12, 4, 5), given(3, 4, 5)],
        {"post_nms_count": "9"},
        [(9, 4), (9,)],
    ),
    ("ExperimentalDetectronTopKROIs", [given(None, 4), given(6)], {"max_rois": "5"}, [(5, 4)]),
    (
        "NonMaxSuppression",
        [given(None, 20, 4), given(6, 3, 20), scalar(5), scalar(0.5, "FP32"), scalar(0.5, "FP32")],
        {},
        [(6, 3), (6, 3), (1,)],
    ),
    ("NV12toRGB", [given(None, 12, 8, 1)], {}, [(6, 8, 8, 3)]),
    ("I420toBGR", [given(None, 8, 6, 1), given(6, 4, 3, 1), given(6, 4, 3, 1)], {}, [(6, 8, 6, 3)]),
    # of recurrent layers
    (
        "LSTMSequence",
        [
            given(None, 7, 3),
            given(6, 2, 4),
            given(6, 2, 4),
            index(6),
            weight(2, 16, 3),
            weight(2, 16, 4),
            weight(2, 16),
        ],
        {"hidden_size": "4", "direction": "bidirectional"},
        [(6, 2, 7, 4), (6, 2, 4), (6, 2, 4)],
    ),
    (
        "GRUSequence",
        [given(None, 7, 3), given(6, 1, 4), index(6), weight(1, 12, 3), weight(1, 12, 4), weight(1, 12)],
        {"hidden_size": "4", "direction": "reverse"},
        [(6, 1, 7, 4), (6, 1, 4)],
    ),
    (
        "LSTMCell",
        [given(None, 3), given(6, 4), given(6, 4), weight(16, 3), weight(16, 4), weight(16)],
        {"hidden_size": "4"},
        [(6, 4), (6, 4)],
    ),
    (
        "GRUCell",
        [given(None, 3), given(6, 4), weight(12, 3), weight(12, 4), weight(12)],
        {"hidden_size": "4"},
        [(6, 4)],
    ),
]


def written(path, kind, operands, data, shapes, is_open=True):
    """Write a file with one layer, whose results have open sizes."""
    version = data.get("version", "opset1")
    data = {name: value for name, value in data.items() if name != "version"}
    first, *more = [(-1,) * len(shape) if is_open else shape for shape in shapes]
    n = len(operands)
    layer = L(kind, tuple(range(n)), first, data=data, name="y", version=version, more=more)
    readers = [L("Abs", ((n, i),), (-1,) * len(shape)) for i, shape in enumerate(shapes)]
    save(path, *operands, layer, *readers, L("Result", (n + 1,)))
    return path


def of(report):
    """Return the shapes of all results, which other layers read."""
    return [each["output_shapes"][0] for each in report.layer_report.values() if each["type"] == "Abs"]


IDS = [f"{row[0]}-{i}" for i, row in enumerate(SHAPES)]


@pytest.mark.parametrize(("kind", "operands", "data", "expected"), SHAPES, ids=IDS)
@pytest.mark.filterwarnings("ignore:no calculator for:costcore.CostWarning")
def test_sizes_follow_from_operands(tmp_path, kind, operands, data, expected):
    path = written(tmp_path / "net.xml", kind, operands, data, expected)
    report = estimate(path)
    symbols = dict.fromkeys(map(str, report.symbols), 6)
    assert of(estimate(path, dims=symbols)) == expected
    assert of(report.subs(symbols)) == expected


def int32(*shape):
    return given(*shape, dtype="I32")


SMALL, IMAGE, REGIONS = given(2, 3, 4), given(1, 3, 4, 4), given(2, 5)
TABLE, FIVE, THREE = weight(9, 4), index(5), index(3)
AVERAGE = {"output_dim": "2", "group_size": "2"}
TO_4 = {"axes": "2,3"}
BINS = 2 * 3 * 2 * 2
"""The elements of a result of 2 regions, 3 channels and 2 x 2 bins."""

COSTS = [
    # 4 x 5 products of 8
    ("MatMul", [given(8, 4), given(8, 5)], {"transpose_a": "true"}, (4, 5), 160, 4 * (32 + 40)),
    ("MatMul", [given(2, 4, 8), given(2, 5, 8)], {"transpose_b": "true"}, (2, 4, 5), 320, 4 * (64 + 80)),
    # 70 scores of 4 and 30 results of 7 products; of each score the scale, the mask, exp and div; 10 sums of 7 exps
    (
        "ScaledDotProductAttention",
        [given(1, 2, 5, 4), given(1, 2, 7, 4), given(1, 2, 7, 3), given(5, 7)],
        {"causal": "false"},
        (1, 2, 5, 3),
        70 * 4 + 30 * 7 + 70 * 4 + 10 * 6,
        4 * (40 + 56 + 42 + 35),
    ),
    ("ReduceMean", [SMALL, stored(-1)], {"keep_dims": "true"}, (2, 3, 1), 6 * 3 + 6, 96),
    # without the elements of the axes, shapes show which axis it is; 8 rows of 3
    ("ReduceMax", [SMALL, L("Const", (), (1,), "I64")], {"keep_dims": "true"}, (2, 1, 4), 8 * 2, 96),
    ("ReduceMax", [SMALL, L("Const", (), (1,), "I64")], {"keep_dims": "false"}, (2, 4), 8 * 2, 96),
    # of each element exp and div; the sum of a row: 8 rows of 3, or 6 of 4
    ("SoftMax", [SMALL], {}, (2, 3, 4), 48 + 8 * 2, 96),
    ("SoftMax", [SMALL], {"axis": "-1"}, (2, 3, 4), 48 + 6 * 3, 96),
    # exp and two differences, the sum, and 8 logarithms
    ("LogSoftmax", [SMALL], {}, (2, 3, 4), 24 * 2 + 8 * 2 + 8, 96),
    ("Elu", [given(6)], {"alpha": "0.5"}, (6,), 24, 24),
    ("Gelu", [given(6)], {"approximation_mode": "ERF"}, (6,), 6 * 5, 24),
    ("Gelu", [given(6)], {"approximation_mode": "TANH"}, (6,), 6 * 9, 24),
    ("PReLU", [given(2, 3), weight(3)], {}, (2, 3), 6 * 2, 24 + 12),
    ("Clamp", [given(6)], {"min": "0", "max": "5"}, (6,), 12, 24),
    ("Select", [given(5, dtype="BOOL"), given(3, 5), given(2, 3, 1)], {}, (2, 3, 5), 30, 5 + 60 + 24),
    # the mean and the deviation are part of a stored scale and shift
    ("BatchNormInference", [SMALL, *[weight(3)] * 4], {}, (2, 3, 4), 24, 4 * (24 + 2 * 3)),
    # 2 rows of 60, or 6 of 20: 4 c + 3 FLOPs, as in test_files.py; differences of the mean: c - 1, 1 and c
    ("MVN", [given(2, 3, 4, 5)], {"across_channels": "true"}, (2, 3, 4, 5), 2 * 243, 480),
    ("MVN", [given(2, 3, 4, 5)], {"across_channels": "false"}, (2, 3, 4, 5), 6 * 83, 480),
    ("MVN", [given(2, 3, 4, 5), stored(2, 3)], {"normalize_variance": "false"}, (2, 3, 4, 5), 6 * 40, 480),
    # rows of c: c products, + eps, root, c div: 6 rows of 4, 8 rows of 3
    ("NormalizeL2", [SMALL, stored(2)], {}, (2, 3, 4), 6 * 10, 96),
    ("GRN", [SMALL], {}, (2, 3, 4), 8 * 8, 96),
    # 5 channels, or a window of 5 x 5: sums of them, and 2 mul, 1 fma and 1 special
    ("LRN", [given(1, 3, 4, 5), stored(1)], {"size": "5"}, (1, 3, 4, 5), 60 * (4 + 4), 240),
    ("LRN", [given(1, 3, 4, 5), stored(2, 3)], {"size": "5"}, (1, 3, 4, 5), 60 * (24 + 4), 240),
    *(
        ("Interpolate", [given(1, 1, 2, 2), stored(4, 4)], {**TO_4, "mode": mode}, (1, 1, 4, 4), 16 * flops, 16)
        for mode, flops in (("nearest", 0), ("linear", 9), ("linear_onnx", 9), ("bilinear_pillow", 9), ("cubic", 35))
    ),
    ("Interpolate", [given(1, 1, 2, 2), stored(4, 4)], {**TO_4, "mode": "bicubic_pillow"}, (1, 1, 4, 4), 560, 16),
    # between 2 values along one axis, 4 along two
    ("Interpolate", [given(1, 1, 2, 2), stored(4), stored(3)], {"mode": "linear_onnx"}, (1, 1, 2, 4), 8 * 3, 16),
    ("Interpolate", [given(1, 1, 2, 2), stored(4), real(1), stored(3)], {"mode": "linear"}, (1, 1, 2, 4), 8 * 3, 16),
    ("Interpolate", [given(1, 1, 2, 2), stored(1, 1, 4, 4)], {"mode": "linear_onnx"}, (1, 1, 4, 4), 16 * 9, 16),
    *(
        ("GridSample", [IMAGE, given(1, 2, 5, 2)], {"mode": mode}, (1, 3, 2, 5), 30 * flops, 4 * (read + 20))
        for mode, flops, read in (("bilinear", 9, 48), ("nearest", 0, 30), ("bicubic", 35, 48))
    ),
    ("Gather", [TABLE, FIVE, scalar(0)], {}, (5, 4), 0, 4 * 20 + 40),
    ("Gather", [given(9, 4), FIVE, scalar(1)], {}, (9, 5), 0, 4 * 45 + 40),
    ("GatherElements", [given(9, 4), index(2, 4)], {"axis": "0"}, (2, 4), 0, 32 + 64),
    ("GatherND", [given(9, 4), index(5, 1)], {}, (5, 4), 0, 80 + 40),
    ("GatherTree", [int32(4, 2, 3), int32(4, 2, 3), int32(2), int32()], {}, (4, 2, 3), 0, 96 + 96),
    ("ScatterUpdate", [given(9, 4), index(2), given(2, 4), scalar(0)], {}, (9, 4), 0, 144 + 16 + 32),
    ("SliceScatter", [given(9, 4), given(2, 4), *map(stored, (0, 2, 1, 0))], {}, (9, 4), 0, 4 * (36 - 8 + 8)),
    # 5 rows in 3 bags: 2 of them are added; a sum of products is 1 mul and fma; a mean is 1 div
    ("EmbeddingBagOffsets", [TABLE, FIVE, THREE, scalar(0), given(5)], {}, (3, 4), 8 + 12, 80 + 40 + 20),
    ("EmbeddingBagOffsets", [TABLE, FIVE, THREE], {"reduction": "MEAN"}, (3, 4), 8 + 12, 80 + 40),
    ("EmbeddingBagOffsetsSum", [TABLE, FIVE, THREE, scalar(0), given(5)], {}, (3, 4), 20, 80 + 40 + 20),
    ("EmbeddingBagOffsetsSum", [TABLE, FIVE, index(6)], {}, (6, 4), 0, 80 + 40),
    ("EmbeddingBagPacked", [TABLE, index(3, 2), given(3, 2)], {}, (3, 4), 24, 96 + 48 + 24),
    ("EmbeddingBagPackedSum", [TABLE, index(3, 2), given(3, 2)], {}, (3, 4), 24, 96 + 48 + 24),
    ("EmbeddingSegmentsSum", [TABLE, FIVE, FIVE, THREE, scalar(0), given(5)], {}, (3, 4), 20, 80 + 40 + 20),
    # 32 complex points, 5 stages of 5 FLOPs; 8 points, 3 stages, real ones half; the inverse is scaled
    ("DFT", [given(2, 4, 8, 2), stored(1, 2)], {}, (2, 4, 8, 2), 2 * 32 * 5 * 5, 512),
    ("IDFT", [given(2, 8, 2), stored(-1)], {}, (2, 8, 2), 2 * (8 * 3 * 5 + 16), 128),
    ("RDFT", [given(8, 3), stored(0)], {}, (5, 3, 2), 3 * 8 * 3 * 5 // 2, 96),
    ("IRDFT", [given(2, 5, 2), stored(-1)], {}, (2, 8), 2 * (8 * 3 * 5 // 2 + 8), 80),
    # 2 x 4 frames of 8 points, 6 of which are in the window: a product and half a transform of 3 stages
    *(
        ("STFT", [given(2, 20), given(6), scalar(8), scalar(4)], data, shape, 8 * (8 + 8 * 3 * 5 // 2), 4 * (40 + 6))
        for data, shape in (({}, (2, 4, 5, 2)), ({"transpose_frames": "true"}, (2, 5, 4, 2)))
    ),
    # the size of a frame is not there: that of the window
    (
        "STFT",
        [given(2, 20), given(8), *[L("Const", (), (), "I64")] * 2],
        {},
        (2, 4, 5, 2),
        8 * (8 + 8 * 3 * 5 // 2),
        192,
    ),
    # 2 x 4 frames of 8 points: half a transform of 3 stages, 1 / n, and a product that is added to the signal; a square
    # of each of 8 points of the window, which 4 frames add; 17 quotients
    *(
        (
            "ISTFT",
            [given(2, 5, 4, 2), given(8), length, scalar(3)],
            {"center": "false"},
            (2, 17),
            480 + 64 + 64 + 8 + 32 + 34,
            352,
        )
        for length in (scalar(8), L("Const", (), (), "I64"))
    ),
    # a sample of a bin: 3 mul, 6 add, 1 div of their number; 3 x 2 or 2 x 3 samples; 1 add or cmp joins two
    ("ROIPooling", [IMAGE, REGIONS], {"method": "bilinear"}, (2, 3, 2, 2), BINS * 10, 4 * (48 + 10)),
    ("PSROIPooling", [given(1, 8, 4, 4), REGIONS], {**AVERAGE, "mode": "average"}, (2, 2, 2, 2), 16 * 4, 4 * 138),
    (
        "PSROIPooling",
        [given(1, 8, 4, 4), REGIONS],
        {**AVERAGE, "mode": "bilinear", "spatial_bins_x": "2", "spatial_bins_y": "3"},
        (2, 2, 2, 2),
        16 * (6 * 9 + 5 + 1),
        4 * 138,
    ),
    (
        "DeformablePSROIPooling",
        [given(1, 8, 4, 4), REGIONS, given(2, 2, 2, 2)],
        {**AVERAGE, "spatial_bins_x": "4", "spatial_bins_y": "2"},
        (2, 2, 2, 2),
        16 * (8 * 9 + 7 + 1),
        4 * (138 + 16),
    ),
    ("ROIAlignRotated", [IMAGE, REGIONS, int32(2)], {"sampling_ratio": "2"}, (2, 3, 2, 2), BINS * 40, 4 * 60),
    ("ROIAlign", [IMAGE, given(2, 4), int32(2)], {"sampling_ratio": "2", "mode": "max"}, (2, 3, 2, 2), BINS * 39, 232),
    # samples as many as elements in a bin: 2 x 2
    ("ROIAlign", [IMAGE, given(2, 4), int32(2)], {"mode": "avg"}, (2, 3, 2, 2), BINS * 40, 4 * (48 + 8 + 2)),
    (
        "ExperimentalDetectronROIFeatureExtractor",
        [given(2, 4), IMAGE, given(1, 3, 2, 2)],
        {"output_size": "2", "sampling_ratio": "2"},
        (2, 3, 2, 2),
        BINS * 40,
        4 * (8 + 48 + 12),
    ),
    ("ExperimentalDetectronTopKROIs", [given(9, 4), given(9)], {"max_rois": "2"}, (2, 4), 9 * 2, 36),
    # 12 boxes of 20 + 3 + 12 FLOPs, as in test_operators.py; a sort, 12 x 4, and 15 pairs of 13
    (
        "ExperimentalDetectronGenerateProposalsSingleImage",
        [given(3), given(12, 4), given(12, 2, 2), given(3, 2, 2)],
        {"pre_nms_count": "6"},
        (4, 4),
        12 * 35 + 48 + 15 * 13,
        4 * (48 + 48 + 12),
    ),
    (
        "GenerateProposals",
        [given(2, 3), given(2, 2, 3, 4), given(2, 12, 2, 2), given(2, 3, 2, 2)],
        {"pre_nms_count": "6"},
        (8, 4),
        2 * (12 * 35 + 48 + 15 * 13),
        4 * (48 + 96 + 24),
    ),
    (
        "Proposal",
        [given(1, 6, 2, 2), given(1, 12, 2, 2), given(3)],
        {"pre_nms_topn": "6"},
        (4, 5),
        12 * 35 + 48 + 15 * 13,
        4 * (24 + 48),
    ),
    ("ExperimentalDetectronPriorGridGenerator", [given(3, 4), IMAGE, IMAGE], {}, (48, 4), 2 * 192, 48),
    ("PriorBoxClustered", [int32(2), int32(2)], {"width": "1,2"}, (2, 48), 2 * 48, 0),
    # 2 samples of 5 boxes at their corners, 4 fma and 3 of an area; 2 classes: a sort, 5 x 3, and all 10 pairs
    ("DetectionOutput", [given(2, 20), given(2, 10), given(1, 2, 25)], {}, (1, 1, 6, 7), 70 + 4 * 145, 4 * 110),
    # a sort of 10 boxes; all 45 pairs, or 3 with a decay of 6; areas of 3
    ("MulticlassNms", [given(1, 10, 4), given(1, 3, 10)], {}, (24, 6), 3 * (40 + 45 * 13) + 30, 4 * 70),
    (
        "MatrixNms",
        [given(1, 10, 4), given(1, 1, 10)],
        {"decay_function": "gaussian", "nms_top_k": "3"},
        (3, 6),
        127,
        200,
    ),
    ("NonMaxSuppression", [given(1, 10, 4), given(1, 2, 10)], {}, (6, 3), 2 * (40 + 45 * 13) + 30, 4 * 60),
    # 3 boxes at 4 places: 3 sigmoids of 3 FLOPs and 5 for each of 4 classes
    ("RegionYolo", [given(1, 27, 2, 2)], {"classes": "4", "num": "3", "mask": "0,1"}, (1, 108), 12 * (9 + 20), 432),
    ("I420toRGB", [given(1, 4, 6, 1), *[given(1, 2, 3, 1)] * 2], {}, (1, 4, 6, 3), 24 * 14, 4 * (24 + 6 + 6)),
    ("CTCGreedyDecoder", [given(7, 2, 5), given(7, 2)], {}, (2, 7, 1, 1), 14 * (4 + 2), 280),
    ("CumSum", [given(3, 8), scalar(0)], {"exclusive": "true"}, (3, 8), 8, 96),
    ("TopK", [given(2, 8), scalar(3)], {"axis": "-1"}, (2, 3), 16 * 2, 64),
    ("AdaptiveAvgPool", [given(1, 2, 6, 6), stored(3, 2)], {}, (1, 2, 3, 2), 72, 288),
    ("BinaryConvolution", [given(1, 2, 6, 6), weight(4, 2, 3, 3)], windows(), (1, 4, 4, 4), 64 * 18, 4 * (72 + 72)),
    # each of 36 inputs by 5 x 2 x 2 weights of its group
    ("GroupConvolutionBackpropData", [given(1, 4, 3, 3), weight(2, 2, 5, 2, 2)], windows(), (1, 10, 4, 4), 720, 464),
    ("ConvertLike", [given(6), index(2)], {}, (6,), 0, 24),
    # 40 units of 7 products, and tanh; of 3 times as many, 2 sigmoids of 4 FLOPs, tanh, r h, 1 - z, (1 - z) n and + z h
    *(
        (
            kind,
            [given(2, 5, 3), given(2, 1, 4), index(2), weight(1, n, 3), weight(1, n, 4), weight(1, n)],
            {"hidden_size": "4", "direction": "forward"},
            (2, 1, 5, 4),
            40 * flops,
            4 * (30 + 8 + 8 * n),
        )
        for kind, n, flops in (("RNNSequence", 4, 7 + 1), ("GRUSequence", 12, 21 + 8 + 1 + 4))
    ),
    # 3 samples of 6 units, 10 products each onto a bias; 1 FLOP or 3 of the function
    *(
        ("RNNCell", [given(3, 4), given(3, 6), weight(6, 4), weight(6, 6), weight(6)], data, (3, 6), 18 * flops, 384)
        for data, flops in (({}, 11), ({"activations": "relu"}, 11), ({"activations": "sigmoid"}, 14))
    ),
]


@pytest.mark.parametrize(
    ("kind", "operands", "data", "shape", "flops", "read"), COSTS, ids=[f"{row[0]}-{i}" for i, row in enumerate(COSTS)]
)
def test_costs_follow_from_operands_and_options(tmp_path, kind, operands, data, shape, flops, read):
    report = estimate(written(tmp_path / "net.xml", kind, operands, data, [shape], is_open=False))
    found = next(each for each in report.layer_report.values() if each["type"] == kind)
    assert (found["flops"], found["mread"], found["output_shapes"][0]) == (flops, read, shape)


PAIR = stored(2, 3)

ELEMENTS = [
    ("Add", [PAIR, stored(4)], {}, (6, 7)),
    ("Subtract", [stored(9, 7), stored(4, 5)], {}, (5, 2)),
    ("Multiply", [PAIR, stored(4, 5)], {}, (8, 15)),
    ("Divide", [stored(9, 7), stored(2, 3)], {}, (4, 2)),
    ("Mod", [stored(7, 9), stored(-3, 4)], {}, (1, 1)),
    ("FloorMod", [stored(-7, 9), stored(3, 5)], {}, (2, 4)),
    ("Maximum", [stored(2, 9), stored(4)], {}, (4, 9)),
    ("Minimum", [stored(2, 9), stored(4)], {}, (2, 4)),
    ("Abs", [stored(-3, 4)], {}, (3, 4)),
    ("Negative", [stored(-3, -4)], {}, (3, 4)),
    ("Ceiling", [real(2.5, 3)], {}, (3, 3)),
    ("Floor", [real(2.5, 3)], {}, (2, 3)),
    ("Convert", [real(2.75, 3)], {}, (2, 3)),
    ("Equal", [stored(1, 2, 3), stored(2)], {}, (0, 1, 0)),
    ("NotEqual", [stored(1, 2, 3), stored(2)], {}, (1, 0, 1)),
    ("Greater", [stored(1, 2, 3), stored(2)], {}, (0, 0, 1)),
    ("GreaterEqual", [stored(1, 2, 3), stored(2)], {}, (0, 1, 1)),
    ("Less", [stored(1, 2, 3), stored(2)], {}, (1, 0, 0)),
    ("LessEqual", [stored(1, 2, 3), stored(2)], {}, (1, 1, 0)),
    ("LogicalAnd", [stored(0, 0, 1, 1), stored(0, 1, 0, 1)], {}, (0, 0, 0, 1)),
    ("LogicalOr", [stored(0, 0, 1, 1), stored(0, 1, 0, 1)], {}, (0, 1, 1, 1)),
    ("LogicalNot", [stored(0, 1)], {}, (1, 0)),
    ("Select", [stored(0, 1), stored(5, 6), stored(7, 8)], {}, (7, 6)),
    ("ShapeOf", [X], {}, (6, 3, 8, 9)),
    ("Concat", [PAIR, stored(4)], {"axis": "0"}, (2, 3, 4)),
    ("Gather", [stored(4, 5, 6), stored(2, -3), scalar(0)], {}, (6, 4)),
    ("Split", [stored(4, 5, 6, 7), scalar(-1)], {"num_splits": "2"}, (6, 7)),
    ("VariadicSplit", [stored(4, 5, 6, 7), scalar(0), stored(1, -1)], {}, (5, 6, 7)),
    ("Slice", [stored(4, 5, 6, 7), stored(3), stored(0), stored(-2)], {}, (7, 5)),
    ("Slice", [stored(4, 5, 6, 7), stored(-2), stored(2**31 - 1), stored(1)], {}, (6, 7)),
    ("Slice", [stored(4, 5, 6), stored(2**31 - 1), stored(1 - 2**31), stored(-1)], {}, (6, 5, 4)),
    ("StridedSlice", [stored(4, 5, 6, 7), stored(1), stored(3)], MASKS, (5, 6)),
    ("StridedSlice", [stored(4, 5, 6, 7), stored(1), stored(3)], {**MASKS, "begin_mask": "1"}, (4, 5, 6)),
    ("StridedSlice", [stored(4, 5, 6, 7), stored(1), stored(3)], {**MASKS, "end_mask": "1"}, (5, 6, 7)),
    ("StridedSlice", [stored(4, 5, 6), stored(0), stored(3), stored(2)], MASKS, (4, 6)),
    ("StridedSlice", [stored(4, 5, 6), stored(-1), stored(0)], {**MASKS, "shrink_axis_mask": "1"}, (6,)),
    ("StridedSlice", [PAIR, stored(0, 0), stored(0, 0)], {**MASKS, "ellipsis_mask": "1,0", "end_mask": "0,1"}, (2, 3)),
    ("ReduceProd", [stored(2, 3, 4), scalar(0)], {"keep_dims": "true"}, (24,)),
    ("ReduceSum", [stored(2, 3, 4), scalar(0)], {"keep_dims": "true"}, (9,)),
    ("ReduceMax", [stored(2, 4, 3), scalar(0)], {"keep_dims": "true"}, (4,)),
    ("ReduceMin", [stored(3, 2, 4), scalar(0)], {"keep_dims": "true"}, (2,)),
    ("Range", [scalar(2), scalar(9), scalar(3)], {}, (2, 5, 8)),
    ("Range", [scalar(each, "FP32") for each in (2.5, 4.9, 1.5)], {"output_type": "i64"}, (2, 3)),
    ("Broadcast", [stored(3), stored(2)], {}, (3, 3)),
    ("Tile", [stored(3), stored(2)], {}, (3, 3)),
    ("ScatterUpdate", [stored(4, 5, 6), stored(1, -1), stored(8, 9), scalar(0)], {}, (4, 8, 9)),
    ("ScatterElementsUpdate", [PAIR, stored(1), stored(8), scalar(0)], {"reduction": "sum"}, ("y_0", "y_1")),
    ("Transpose", [PAIR, stored(0)], {}, (2, 3)),
    ("Reshape", [PAIR, stored(1, 2)], {}, (2, 3)),
]


@pytest.mark.parametrize(
    ("kind", "operands", "data", "expected"), ELEMENTS, ids=[f"{row[0]}-{i}" for i, row in enumerate(ELEMENTS)]
)
def test_elements_follow_from_operands(tmp_path, kind, operands, data, expected):
    """The elements of the last result are the sizes of another layer's."""
    n, last = len(operands), kind.endswith("Split")
    shape = () if kind == "Range" or data.get("shrink_axis_mask") == "1" else (-1,) * (2 if kind == "Reshape" else 1)
    layer = L(kind, tuple(range(n)), (-1,) if kind == "Range" else shape, "I64", data, more=[(-1,)] * last)
    sizes = L("Convert", ((n, int(last)),), (-1,) if kind == "Range" else shape, "I64")
    wide = L("Broadcast", (n + 2, n + 1), (-1,) * len(expected), name="y")
    save(tmp_path / "net.xml", *operands, layer, sizes, given(), wide, L("Result", (n + 3,)))
    report = estimate(tmp_path / "net.xml", dims={"l0_0": 6} if operands == [X] else None)
    assert tuple(map(as_number, [*report.layer_report.values()][-1]["output_shapes"][0])) == expected


def as_number(size):
    return size if isinstance(size, int) else str(size)
