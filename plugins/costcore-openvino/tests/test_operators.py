"""Operators of all sets, and formulas of detection worked out by hand."""

import pytest
from ir import L, ir

from costcore import estimate
from costcore_openvino.rows import NOT_PRICED, ROWS, WALKED

SETS = (
    "Abs Acos Acosh AdaptiveAvgPool AdaptiveMaxPool Add Asin Asinh Assign Atan Atanh AvgPool BGRtoNV12 "
    "BatchNormInference BatchToSpace BinaryConvolution BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr "
    "BitwiseRightShift BitwiseXor Broadcast Bucketize CTCGreedyDecoder CTCGreedyDecoderSeqLen CTCLoss Ceiling Clamp "
    "Col2Im Concat Constant Convert ConvertLike ConvertPromoteTypes Convolution ConvolutionBackpropData Cos Cosh "
    "CumSum DFT DeformableConvolution DeformablePSROIPooling DepthToSpace DetectionOutput Divide Einsum Elu "
    "EmbeddingBagOffsets EmbeddingBagOffsetsSum EmbeddingBagPacked EmbeddingBagPackedSum EmbeddingSegmentsSum Equal "
    "Erf ErfInv Exp ExperimentalDetectronDetectionOutput ExperimentalDetectronGenerateProposalsSingleImage "
    "ExperimentalDetectronPriorGridGenerator ExperimentalDetectronROIFeatureExtractor ExperimentalDetectronTopKROIs "
    "ExtractImagePatches Eye FakeConvert FakeQuantize Floor FloorMod GRN GRUCell GRUSequence Gather GatherElements "
    "GatherND GatherTree Gelu GenerateProposals Greater GreaterEqual GridSample GroupConvolution "
    "GroupConvolutionBackpropData GroupNormalization GroupedMatMul HSigmoid HSwish HardSigmoid I420toBGR I420toRGB "
    "IDFT IRDFT ISTFT Identity If Interpolate Inverse IsFinite IsInf IsNaN LRN LSTMCell LSTMSequence Less LessEqual "
    "Log LogSoftmax LogicalAnd LogicalNot LogicalOr LogicalXor Loop MVN MatMul MatrixNms MaxPool Maximum Minimum Mish "
    "Mod MulticlassNms Multinomial Multiply NMSRotated NV12toBGR NV12toRGB Negative NonMaxSuppression NonZero "
    "NormalizeL2 NotEqual OneHot PRelu PSROIPooling Pad Parameter Power PriorBox PriorBoxClustered Proposal RDFT "
    "RGBtoNV12 RNNCell RNNSequence ROIAlign ROIAlignRotated ROIPooling RandomUniform Range ReadValue ReduceL1 "
    "ReduceL2 ReduceLogicalAnd ReduceLogicalOr ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum RegionYolo Relu "
    "ReorgYolo Reshape Result Reverse ReverseSequence Roll Round STFT ScaledDotProductAttention ScatterElementsUpdate "
    "ScatterNDUpdate ScatterUpdate SearchSorted SegmentMax Select Selu ShapeOf ShuffleChannels Sigmoid Sign Sin Sinh "
    "Slice SliceScatter SoftPlus SoftSign Softmax SpaceToBatch SpaceToDepth SparseFillEmptyRows Split Sqrt "
    "SquaredDifference Squeeze StridedSlice StringTensorPack StringTensorUnpack Subtract Swish Tan Tanh "
    "TensorIterator Tile TopK Transpose Unique Unsqueeze VariadicSplit Xor"
)
"""The operators of the sets 1 to 17, as the headers of OpenVINO 2026.4 list them."""


def test_every_operator_of_the_sets_has_a_row_or_a_reason():
    names = set(SETS.split())
    priced = {row.native.removeprefix("openvino::") for row in ROWS}
    assert names <= priced | NOT_PRICED.keys() | WALKED
    assert NOT_PRICED.keys() <= names and not priced & (NOT_PRICED.keys() | WALKED)


def given(*shape, dtype="FP32"):
    return L("Parameter", (), shape, dtype)


BOX = 8 + 6 + 4 + 2
"""The FLOPs of a box of an anchor and differences: 8 mul, 6 fma, 4 add, 2 special."""

PAIR = 1 + 4 + 1 + 7
"""The FLOPs of an overlap: 1 mul, 4 add, 1 div, 7 cmp."""

AREA = 3
"""The FLOPs of an area: 1 mul, 2 add."""

CASES = {
    # 2 samples x 3 classes: a sort of 10 boxes, 10 x 4 cmp, and 6 pairs of the best 4; an area each
    "MulticlassNms": (
        [given(2, 10, 4), given(2, 3, 10)],
        L("MulticlassNms", (0, 1), (24, 6), data={"nms_top_k": "4"}),
        2 * 3 * (40 + 6 * PAIR) + 20 * AREA,
    ),
    # a sort and all 45 pairs, each with the decay (1 - iou) / (1 - most): 2 add, 1 div, and 1 cmp
    "MatrixNms": (
        [given(1, 10, 4), given(1, 1, 10)],
        L("MatrixNms", (0, 1), (10, 6), data={"decay_function": "linear"}),
        40 + 45 * (PAIR + 4) + 10 * AREA,
    ),
    # 5 default boxes; for each of 2 classes a sort, 5 x 3 cmp, and 3 pairs of the best 3
    "DetectionOutput": (
        [given(1, 20), given(1, 10), given(1, 2, 20)],
        L(
            "DetectionOutput",
            (0, 1, 2),
            (1, 1, 6, 7),
            data={"top_k": "3", "code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "normalized": "true"},
        ),
        5 * (BOX + AREA) + 2 * (15 + 3 * PAIR),
    ),
    # 3 anchors at 2 x 2 positions: 8 cmp of the image, 2 add and 2 cmp of the least size; a sort; pairs of the best 6
    "Proposal": (
        [given(1, 6, 2, 2), given(1, 12, 2, 2), given(3)],
        L("Proposal", (0, 1, 2), (4, 5), data={"pre_nms_topn": "6", "post_nms_topn": "4"}),
        12 * (BOX + AREA + 8 + 2 + 2) + 12 * 4 + 15 * PAIR,
    ),
    # 4 regions of 2 classes: boxes in the image, a sort and 6 pairs per class, a sort of all 8
    "ExperimentalDetectronDetectionOutput": (
        [given(4, 4), given(4, 8), given(4, 2), given(1, 3)],
        L("ExperimentalDetectronDetectionOutput", (0, 1, 2, 3), (3, 4), data={"max_detections_per_image": "3"}),
        8 * (BOX + AREA + 8) + 2 * (4 * 2 + 6 * PAIR) + 8 * 3,
    ),
    # 4 corners of 6 boxes, and their variances
    "PriorBox": ([given(2, dtype="I64"), given(2, dtype="I64")], L("PriorBox", (0, 1), (2, 24)), 2 * 24),
    # 2 masks of 3 + 4 sigmoids at 4 positions, 3 FLOPs each
    "RegionYolo": (
        [given(1, 18, 2, 2)],
        L("RegionYolo", (0,), (1, 18, 2, 2), data={"do_softmax": "0", "mask": "0,1", "classes": "4", "num": "3"}),
        2 * 4 * 7 * 3,
    ),
    # 2 regions of 3 channels: 2 x 2 windows of 4 elements each, 3 cmp
    "ROIPooling": (
        [given(1, 3, 4, 4), given(2, 5)],
        L("ROIPooling", (0, 1), (2, 3, 2, 2), data={"pooled_h": "2", "pooled_w": "2", "method": "max"}),
        2 * 3 * 4 * 3,
    ),
    # a bilinear sample of each bin: 3 mul, 6 add, and the division by 1 sample
    "PSROIPooling": (
        [given(1, 8, 4, 4), given(2, 5)],
        L("PSROIPooling", (0, 1), (2, 2, 2, 2), data={"mode": "bilinear", "output_dim": "2", "group_size": "2"}),
        16 * (3 + 6 + 1),
    ),
    # 10 steps: the best of 9 classes, 8 cmp, which is compared with the blank and the one before
    "CTCGreedyDecoderSeqLen": (
        [given(2, 5, 9), given(2, dtype="I32")],
        L("CTCGreedyDecoderSeqLen", (0, 1), (2, 5), "I32"),
        10 * (8 + 2),
    ),
    # 4 pixels: 3 add, 1 mul, 4 fma, 6 cmp
    "NV12toRGB": ([given(1, 3, 2, 1)], L("NV12toRGB", (0,), (1, 2, 2, 3)), 4 * (3 + 1 + 4 + 6)),
    # 5 rows of 4 added to 3 bags: 2 x 4 add
    "EmbeddingBagOffsetsSum": (
        [given(9, 4), given(5, dtype="I64"), given(3, dtype="I64")],
        L("EmbeddingBagOffsetsSum", (0, 1, 2), (3, 4)),
        2 * 4,
    ),
    # 8 complex points, 3 stages of 5 FLOPs
    "DFT": ([given(2, 8, 2), given(1, dtype="I64")], L("DFT", (0, 1), (2, 8, 2)), 2 * 8 * 3 * 5),
}


@pytest.mark.parametrize("name", CASES)
def test_costs_by_hand(tmp_path, name):
    operands, layer, flops = CASES[name]
    (tmp_path / "net.xml").write_text(ir(*operands, layer, L("Result", (len(operands),))), encoding="utf-8")
    report = estimate(tmp_path / "net.xml")
    assert (report.total_report["flops"], report.status) == (flops, "complete")
