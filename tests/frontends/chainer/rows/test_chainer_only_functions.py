"""Functions that only Chainer has, or runs as one: costs by hand, on the small shapes of ``function_calls``."""

from __future__ import annotations

import pytest

from tests.frontends.chainer.run_function import counted

COSTS = {
    # name of the call: [type, FLOPs with FMA = 1, elements read, elements written]; elements have 4 bytes
    # [2, 3], [2, 4] and a weight of 3 x 4 x 5: 10 outputs, 40 dot products of 3, then 10 of 4 + 3 + 4 onto the bias;
    # back: 24 dot products of 5, of which 6 of 4 and 8 of 3, 24 products of operands summed for 60 weights over 2 rows,
    # 2 * 35 products onto the operands, 35 dot products of 2, a bias
    "bilinear, with linear terms": [
        ("BilinearFunction", 120 + 110, 6 + 8 + 60 + 15 + 20 + 5, 10),
        ("BilinearFunctionGrad", 120 + 24 + 24 + 24 + 120 + 70 + 70 + 5, 10 + 6 + 8 + 60 + 35, 6 + 8 + 60 + 35 + 5),
    ],
    # 2 rows of 3: 2 cmp each and one with the target, 1 add, 1 div; 2 masks, 2 choices, 3 add for the ignored label
    "accuracy, less one label": [("Accuracy", 6 + 2 + 4 + 3, 6 + 2, 1)],
    # 7 for each of 6 elements, then 2 sums of 3
    "huber_loss": [("HuberLoss", 42 + 4, 12, 2)],
    # 2 rows with 3 indices: 6 dot products of 3, 6 log(1 + exp), 2 signs, a sum of 6; 18 elements of the weight read
    "negative_sampling": [
        ("NegativeSamplingFunction", 18 + 18 + 2 + 5, 6 + 18 + 6 + 2, 1),
        ("NegativeSamplingFunctionGrad", 18 + 24 + 4 + 18 + 18, 1 + 6 + 18 + 6, 6 + 12),
    ],
    # 10 rows of 4: 7 add, 4 exp and a log; 50 visits of 7; 2 samples of 5; their mean.
    # Back 50 visits of 11, 40 scores of 3, 1 div
    "connectionist_temporal_classification": [
        ("ConnectionistTemporalClassification", 120 + 350 + 10 + 2, 40 + 4 + 4, 1),
        ("ConnectionistTemporalClassificationBackward", 550 + 120 + 1, 1 + 40 + 4 + 4, 40),
    ],
    # 3 columns of 2 centered: 1 add, 1 div, 2 subtractions; 9 dot products of 2, divided; 9 squares, halved
    "decov": [("DeCov", 12 + 18 + 9 + 9 + 1, 6, 1), ("DeCovBackward", 18 + 12 + 1, 1 + 6, 6)],
    # two bounds, as in the forward pass; the condition has one byte per element
    "clip": [("Clip", 12, 6, 6), ("ClipGrad", 12, 6 + 6 / 4, 6)],
    "clip, from below": [("Clip", 6, 6, 6), ("ClipGrad", 6, 6 + 6 / 4, 6)],
    "elu": [("ELU", 24, 6, 6), ("ELUGrad", 12, 12, 6)],
    "swish": [("Swish", 36, 6 + 3, 6), ("SwishGrad", 6 * 14 + 3, 6 + 3 + 6, 6 + 3)],
    # a mask of bytes for each of 2 rows and 12 weights, 2 operations each, then 24 products
    "simplified_dropconnect": [("SimplifiedDropconnect", 48 + 24, 6 + 12 + 4, 8 + 24 / 4)],
    # groups of 6 elements, 4 of them; a weight of 4 channels
    "group_normalization": [
        ("_XHat", 48, 24 + 4 + 4, 24),
        ("_ScaleShiftGrad", 24 + 24 + 20, 24 + 24 + 4, 24 + 4 + 4),
        ("_XHatGrad", 24 + 24 + 24 + 44 + 8, 24 + 24 + 4, 24),
    ],
    # 16 elements, a window of 5
    "local_response_normalization": [("LocalResponseNormalizationGrad", 16 * 9, 5 * 16, 16)],
    # 3 channels of 4 elements: mean 4, variance 4 + 4 + 1, deviation 3; by the running ones 9, which are updated by 5;
    # 3 per element. Back 2 and 1 per element, two sums of 4 products, one of 4, two means, a scale of 2, 3 per element
    "batch_renormalization": [
        ("BatchRenormalizationFunction", 3 * (4 + 9 + 3 + 9 + 5 + 12), 12 + 4 * 3, 12 + 2 * 3),
        ("BatchRenormalizationFunctionBackward", 3 * (8 + 4 + 4 + 4 + 3 + 2 + 2 + 12), 12 + 12 + 3, 12 + 3 + 3),
    ],
    # 2 regions, 3 channels, 2 x 2 bins of 2 x 2 samples: 9 per sample, 3 add, 1 div; back 8 per sample, 1 div
    "roi_average_align_2d": [
        ("ROIAverageAlign2D", 24 * (36 + 4), 150 + 8 + 2, 24),
        ("ROIAverageAlign2DBackward", 24 * (32 + 1), 24 + 8 + 2, 150),
    ],
    # 2 windows over 5 elements overlap by one: 6 x 6 elements in all, for each of 2 regions and 3 channels
    "roi_average_pooling_2d": [
        ("ROIAveragePooling2D", 216, 150 + 8 + 2, 24),
        ("ROIAveragePooling2DBackward", 216 + 24, 24 + 8 + 2, 150),
    ],
    "roi_max_pooling_2d": [
        ("ROIMaxPooling2D", 216 - 24, 150 + 8 + 2, 24 + 24),  # indices of 4 bytes, for the backward pass
        ("ROIMaxPooling2DBackward", 24, 24 + 8 + 2 + 24, 150),
    ],
    "roi_pooling_2d": [("ROIPooling2D", 108 - 12, 150 + 5, 12 + 12), ("ROIPooling2DGrad", 12, 12 + 5 + 12, 150)],
    # 20 points of 2 coordinates, twice, 3 products each
    "spatial_transformer_grid": [
        ("SpatialTransformerGrid", 240, 12, 80),
        ("SpatialTransformerGridBackward", 240, 80, 12),
    ],
    # 96 samples of 9; back 8 each for x, and for 2 coordinates 7 each, 96 products summed for each, 64 scales
    "spatial_transformer_sampler": [
        ("SpatialTransformerSampler", 96 * 9, 150 + 64, 96),
        ("SpatialTransformerSamplerBackward", 96 * 8 + 192 * 7 + 192 + 64, 96 + 150 + 64, 150 + 64),
    ],
    # 6 units: 17, 29 and 22 forward (the last for two children), 36, 59 and 45 back
    "lstm": [("LSTM", 6 * 17, 24 + 6, 12), ("LSTMGrad", 6 * 36, 6 + 24 + 6 + 6 + 6, 6 + 24)],
    "slstm": [("SLSTM", 6 * 29, 12 + 48, 12), ("SLSTMGrad", 6 * 59, 12 + 48 + 6 + 6 + 6, 12 + 48)],
    "tree_lstm": [("TreeLSTM", 6 * 22, 12 + 30, 12), ("TreeLSTMBackward", 6 * 45, 12 + 30 + 12, 12 + 30)],
    # 8 complex elements, 2 stages of 5 each; the inverse 2 more
    "fft": [("FFT", 80, 16, 16), ("FFT", 80, 16, 16)],
    "ifft": [("FFT", 80 + 16, 16, 16), ("FFT", 80 + 16, 16, 16)],
    # 2 * 3 * 5 dot products of 4; back 2 * 12 of 5 and 2 * 20 of 3
    "batch_matmul": [("BatchMatMul", 120, 24 + 40, 30), ("BatchMatMulGrad", 240, 30 + 24 + 40, 24 + 40)],
    # the sum of a diagonal of 3; back one element to all its positions
    "einsum, a trace": [("EinSum", 2, 3, 1), ("DiagEinSum", 0, 1, 9)],
    # 2 rows of 3
    "hinge": [("Hinge", 2 + 6 + 6 + 5 + 1, 6 + 2, 1), ("HingeBackward", 18 + 4 + 1, 1 + 6 + 2, 6)],
    "repeat": [("RepeatGrad", 6, 12, 6)],
    "cumprod, along an axis": [("Cumprodsum", 4, 6 + 4, 6)],
    "scatter_add, to a range": [("ScatterAdd", 6, 12 + 6, 12)],
}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", COSTS)
def test_costs(name):
    hook, _, _ = counted(name)

    types = {line[0] for line in COSTS[name]}
    entries = [entry for entry in hook.layer_report.values() if entry["type"] in types]
    assert [(e["type"], e["flops"], e["mread"] / 4, e["mwrite"] / 4) for e in entries] == COSTS[name]
