"""Costs of single operators, worked out by hand, and the rows of all of them."""

import struct

import pytest
import tflite
from build import G, Op, T, model
from flatbuffers import flexbuffers

from costcore import CostError, CostWarning, estimate
from costcore_tflite.operators import CUSTOM_ROWS, NOT_PRICED, ROWS, WALKED

RELU, RELU6 = tflite.ActivationFunctionType.RELU, tflite.ActivationFunctionType.RELU6
SAME = tflite.Padding.SAME


def entry(operator, tensors, n_inputs=1):
    """The only call of a model of one operator, whose last tensor is its output."""
    inputs = [i for i, tensor in enumerate(tensors[:-1]) if not tensor.stored and tensor.data is None][:n_inputs]
    report = estimate(model(G(tensors, [operator], inputs, [len(tensors) - 1])))
    (only,) = report.layer_report.values()
    assert report.status == "complete"
    return only


def test_convolution_with_an_activation():
    """6 x 6 places of 4 outputs, 3 x 3 x 2 products each; relu6 compares twice."""
    tensors = [T((1, 6, 6, 2)), T((4, 3, 3, 2), stored=True), T((4,), stored=True), T((1, 6, 6, 4))]
    options = {"StrideH": 1, "StrideW": 1, "Padding": SAME, "FusedActivationFunction": RELU6}
    found = entry(Op("CONV_2D", (0, 1, 2), (3,), "Conv2DOptions", options), tensors)
    outputs = 6 * 6 * 4
    assert (found["op"], found["macs"], found["flops"]) == ("fused_conv", outputs * 18, outputs * (18 + 2))
    assert (found["mread"], found["mwrite"]) == (4 * (72 + 72 + 4), 4 * outputs)
    assert found["n_params"] == 72 + 4
    assert found["params"]["padding"] == (1, 1)


def test_same_padding_puts_the_odd_place_at_the_end():
    """8 places at stride 2 with windows of 3: 3 * 2 + 3 - 8 = 1 place, which is at the end."""
    tensors = [T((1, 8, 8, 1)), T((1, 3, 3, 1), stored=True), T((1, 4, 4, 1))]
    options = {"StrideH": 2, "StrideW": 2, "Padding": SAME}
    found = entry(Op("CONV_2D", (0, 1), (2,), "Conv2DOptions", options), tensors)
    assert found["params"]["padding"] == ((0, 1), (0, 1))


def test_depthwise_convolution():
    """4 x 4 places of 6 outputs, 3 x 3 products each: two filters for each of 3 channels."""
    tensors = [T((1, 6, 6, 3)), T((1, 3, 3, 6), stored=True), T((6,), stored=True), T((1, 4, 4, 6))]
    options = {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 2, "Padding": tflite.Padding.VALID}
    found = entry(Op("DEPTHWISE_CONV_2D", (0, 1, 2), (3,), "DepthwiseConv2DOptions", options), tensors)
    assert (found["op"], found["macs"], found["params"]["groups"]) == ("conv", 96 * 9, 3)


def test_grouped_convolution():
    """Groups follow from the channels of the weight: 8 of 2 inputs."""
    tensors = [T((1, 1, 1, 16)), T((8, 1, 1, 2), stored=True), T((1, 1, 1, 8))]
    found = entry(Op("CONV_2D", (0, 1), (2,), "Conv2DOptions", {"StrideH": 1, "StrideW": 1}), tensors)
    assert (found["macs"], found["params"]["groups"]) == (8 * 2, 8)


def test_transposed_convolution():
    """Each of 3 x 3 x 2 inputs is multiplied by 2 x 2 x 5 weights."""
    shape, weight = T((4,), "int32", data=(1, 6, 6, 5)), T((5, 2, 2, 2), stored=True)
    tensors = [shape, weight, T((1, 3, 3, 2)), T((1, 6, 6, 5))]
    options = {"StrideH": 2, "StrideW": 2, "Padding": tflite.Padding.VALID}
    found = entry(Op("TRANSPOSE_CONV", (0, 1, 2), (3,), "TransposeConvOptions", options), tensors)
    assert (found["op"], found["macs"]) == ("conv_transpose", 18 * 20)


def test_linear_layer_of_images():
    """2 samples of 2 x 3 features, which the operator flattens, to 5 units."""
    tensors = [T((2, 2, 3)), T((5, 6), stored=True), T((5,), stored=True), T((2, 5))]
    options = {"FusedActivationFunction": RELU}
    found = entry(Op("FULLY_CONNECTED", (0, 1, 2), (3,), "FullyConnectedOptions", options), tensors)
    assert (found["op"], found["macs"], found["flops"]) == ("fused_linear", 60, 60 + 10)
    assert found["n_params"] == 35


def test_quantized_linear_layer():
    """Products 2 * 6 * 5; 12 add for the zero point of x; per output 1 mul, 3 cmp and 1 add of its zero point.

    The activation is one of the limits, at no further cost. Scales of 5 channels are 4 bytes each.
    """
    x, w = T((2, 6), "int8", scales=1, zero_point=3), T((5, 6), "int8", stored=True, scales=5)
    tensors = [x, w, T((5,), "int32", stored=True, scales=5), T((2, 5), "int8", scales=1, zero_point=-128)]
    options = {"FusedActivationFunction": RELU}
    found = entry(Op("FULLY_CONNECTED", (0, 1, 2), (3,), "FullyConnectedOptions", options), tensors)
    assert (found["op"], found["macs"], found["flops"]) == ("quantized_linear", 60, 60 + 12 + 10 * 5)
    assert (found["mread"], found["mwrite"]) == (12 + 30 + 5 * 4 + 5 * 4, 10)


def test_dynamic_range_quantization():
    """Real x meets int8 weights: x is quantized first, as ``dynamic_quantized_linear`` states."""
    tensors = [T((2, 6)), T((5, 6), "int8", stored=True, scales=1), T((2, 5))]
    found = entry(Op("FULLY_CONNECTED", (0, 1), (2,), "FullyConnectedOptions"), tensors)
    assert (found["op"], found["macs"]) == ("dynamic_quantized_linear", 60)
    assert (found["mread"], found["mwrite"]) == (12 * 4 + 30, 40)


def test_matrix_product_of_a_transposed_side():
    tensors = [T((2, 3, 4)), T((2, 5, 4)), T((2, 3, 5))]
    found = entry(Op("BATCH_MATMUL", (0, 1), (2,), "BatchMatMulOptions", {"AdjY": True}), tensors, 2)
    assert (found["op"], found["macs"]) == ("matmul", 2 * 3 * 5 * 4)


def test_pooling():
    """2 x 2 outputs of 3 channels: 3 additions and a division each."""
    options = {"FilterHeight": 2, "FilterWidth": 2, "StrideH": 2, "StrideW": 2}
    found = entry(Op("AVERAGE_POOL_2D", (0,), (1,), "Pool2DOptions", options), [T((1, 4, 4, 3)), T((1, 2, 2, 3))])
    assert (found["op"], found["flops"]) == ("avg_pool", 12 * 4)


def test_sum_with_an_activation():
    tensors = [T((4, 8)), T((8,), stored=True), T((4, 8))]
    found = entry(Op("ADD", (0, 1), (2,), "AddOptions", {"FusedActivationFunction": RELU}), tensors)
    assert (found["flops"], found["mread"], found["n_params"]) == (32 + 32, 4 * 40, 8)


def test_lstm():
    """5 steps of 2 samples, 3 inputs, 4 units: 10 * (4 * 4 * 3 + 4 * 4 * 4) products.

    Per step and unit three sigmoids (3 each), two tanh, 1 fma and 2 mul.
    """
    gates = [T((4, 3), stored=True)] * 4 + [T((4, 4), stored=True)] * 4 + [T((4,), stored=True)] * 4
    tensors = [T((2, 5, 3)), *gates, T((2, 4)), T((2, 4)), T((2, 5, 4))]
    inputs = (0, *range(1, 9), -1, -1, -1, *range(9, 13), -1, -1, 13, 14, -1, -1, -1, -1)
    operator = Op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (15,), "UnidirectionalSequenceLSTMOptions")
    found = entry(operator, tensors, 3)
    products = 10 * (48 + 64)
    assert (found["macs"], found["flops"]) == (products, products + 10 * 4 * (9 + 2 + 3))
    assert found["n_params"] == 48 + 64 + 16


def test_sort():
    """5 rows of 6 in 2 tensors, by one of them: 6 * ceil(log2(6)) = 18 comparisons a row."""
    tensors = [T((5, 6)), T((5, 6), "int32"), T((5, 6)), T((5, 6), "int32")]
    operator = Op("STABLEHLO_SORT", (0, 1), (2, 3), "StablehloSortOptions", {"Dimension": 1})
    (only,) = estimate(model(G(tensors, [operator], [0, 1], [2, 3]))).layer_report.values()
    assert (only["op"], only["flops"], only["mread"], only["mwrite"]) == ("sort", 5 * 18, 240, 240)


@pytest.mark.parametrize(("update", "flops"), [((), 0), (("STABLEHLO_ADD",), 6), (("MAXIMUM",), 6)])
def test_scatter(update, flops):
    """2 rows of 3 of 4 are updated: 6 elements, each joined once; x has 12, indices 2."""
    tensors = [T((4, 3)), T((2, 1), "int32"), T((2, 3)), T((4, 3))]
    operator = Op(
        *("STABLEHLO_SCATTER", (0, 1, 2), (3,), "StablehloScatterOptions"), {"UpdateComputationSubgraphIndex": 1}
    )
    joins = G([T(())] * 3, [Op(name, (0, 1), (2,)) for name in update], [0, 1], [2 if update else 1])
    (only,) = estimate(model(G(tensors, [operator], [0, 1, 2], [3]), joins)).layer_report.values()
    assert (only["op"], only["flops"]) == ("scatter_nd", flops)
    assert (only["mread"], only["mwrite"]) == (4 * (12 + 2 + 6), 48)


def test_a_scatter_that_joins_otherwise_is_named():
    tensors = [T((4, 3)), T((2, 1), "int32"), T((2, 3)), T((4, 3))]
    options = {"UpdateComputationSubgraphIndex": 1}
    operator = Op("STABLEHLO_SCATTER", (0, 1, 2), (3,), "StablehloScatterOptions", options)
    joins = G([T(())] * 3, [Op("STABLEHLO_POWER", (0, 1), (2,))], [0, 1], [2])
    with pytest.warns(CostWarning, match="no calculator for 'tflite::STABLEHLO_SCATTER'"):
        report = estimate(model(G(tensors, [operator], [0, 1, 2], [3]), joins))
    assert report.status == "partial"


def test_dynamic_slices():
    """A row of 3 of 4 is read, and replaced in a copy: 9 elements of x and 3 updates."""
    part = entry(Op("STABLEHLO_DYNAMIC_SLICE", (0, 1), (2,)), [T((4, 3)), T((), "int32"), T((1, 3))], 2)
    assert (part["op"], part["flops"], part["mwrite"]) == ("slice", 0, 12)
    tensors = [T((4, 3)), T((1, 3)), T((), "int32"), T((4, 3))]
    whole = entry(Op("STABLEHLO_DYNAMIC_UPDATE_SLICE", (0, 1, 2), (3,)), tensors, 3)
    assert (whole["op"], whole["flops"], whole["mread"], whole["mwrite"]) == ("slice_scatter", 0, 48, 48)


def test_singular_value_decomposition_filter():
    """6 filters of rank 2 over 4 inputs and 5 steps: 2 * (6 * 4 + 6 * 5) products; 3 add per sample join the ranks."""
    tensors = [T((2, 4)), T((6, 4), stored=True), T((6, 5), stored=True), T((3,), stored=True), T((2, 30)), T((2, 3))]
    found = entry(Op("SVDF", (0, 1, 2, 3, 4), (5,), "SVDFOptions", {"Rank": 2}), tensors, 2)
    assert (found["macs"], found["flops"]) == (108, 108 + 2 * 3 + 6)


@pytest.mark.parametrize(
    ("operator", "tensors", "attributes"),
    [
        (
            Op("MEAN", (0, 1), (2,), "ReducerOptions"),
            [T((2, 3, 4)), T((1,), "int32", data=(-1,)), T((2, 3))],
            {"axis": (2,)},
        ),
        (Op("TRANSPOSE", (0, 1), (2,)), [T((2, 3)), T((2,), "int32", data=(1, 0)), T((3, 2))], {"axes": (1, 0)}),
        (
            Op("PAD", (0, 1), (2,)),
            [T((2, 3)), T((2, 2), "int32", data=(0, 1, 2, 0)), T((3, 5))],
            {"padding": (0, 2, 1, 0), "before": (0, 2)},
        ),
        (
            Op("CONCATENATION", (0, 1), (2,), "ConcatenationOptions", {"Axis": -1}),
            [T((2, 3)), T((2, 1)), T((2, 4))],
            {"axis": 1},
        ),
        (
            Op("SLICE", (0, 1, 2), (3,)),
            [T((4, 6)), T((2,), "int32", data=(1, 0)), T((2,), "int32", data=(2, -1)), T((2, 6))],
            {"start": (1, 0), "stop": (3, None)},
        ),
        (
            Op("RESIZE_BILINEAR", (0, 1), (2,), "ResizeBilinearOptions", {"HalfPixelCenters": True}),
            [T((1, 4, 4, 3)), T((2,), "int32", data=(8, 8)), T((1, 8, 8, 3))],
            {"mode": "linear"},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Op) else "",
)
def test_attributes(operator, tensors, attributes):
    found = entry(operator, tensors, 2)["params"]
    assert {name: found.get(name) for name in attributes} == attributes


def _weights(count, *shape):
    return [T(shape, stored=True)] * count


_DIRECTION = [*_weights(1, 4, 3), *_weights(1, 4, 4), *_weights(1, 4), T((1, 4))]
WINDOW = {"WindowDimensions": (1, 3, 3, 1), "WindowStrides": (1, 2, 2, 1), "BodySubgraphIndex": 1}
DOT = {"LhsBatchingDimensions": (0,), "RhsBatchingDimensions": (0,), "LhsContractingDimensions": (2,)}
CONV = {
    "WindowStrides": (1, 1),
    "InputFeatureDimension": 3,
    "InputSpatialDimensions": (1, 2),
    "KernelInputFeatureDimension": 2,
    "KernelOutputFeatureDimension": 3,
    "KernelSpatialDimensions": (0, 1),
    "OutputFeatureDimension": 3,
    "OutputSpatialDimensions": (1, 2),
    "FeatureGroupCount": 1,
}
REDUCE = {"Dimensions": (1,), "BodySubgraphIndex": 1}
MAXIMUM = G([T(()), T(()), T(())], [Op("STABLEHLO_MAXIMUM", (0, 1), (2,))], [0, 1], [2])
ADD = G([T(()), T(()), T(())], [Op("STABLEHLO_ADD", (0, 1), (2,))], [0, 1], [2])

FURTHER = {
    # 3 x 3 x 2 results of 9 elements each, joined by 8 comparisons
    "STABLEHLO_REDUCE_WINDOW": (
        [T((1, 7, 7, 2)), T((), stored=True), T((1, 3, 3, 2))],
        "StablehloReduceWindowOptions",
        WINDOW,
        MAXIMUM,
        ("window_reduction", 0, 18 * 8),
    ),
    # the same with the window as an operand; 4 is MAXIMUM
    "REDUCE_WINDOW": (
        [T((1, 7, 7, 2)), T((), stored=True), T((4,), "int32", data=(1, 3, 3, 1)), T((1, 3, 3, 2))],
        "ReduceWindowOptions",
        {"ReduceFunction": 4},
        MAXIMUM,
        ("window_reduction", 0, 18 * 8),
    ),
    # 2 x 3 x 5 results of 4 products
    "STABLEHLO_DOT_GENERAL": (
        [T((2, 3, 4)), T((2, 5, 4)), T((2, 3, 5))],
        "StablehloDotGeneralOptions",
        {**DOT, "RhsContractingDimensions": (2,)},
        ADD,
        ("einsum", 120, 120),
    ),
    # 4 x 4 places of 5 outputs, 3 x 3 x 2 products
    "STABLEHLO_CONVOLUTION": (
        [T((1, 6, 6, 2)), T((3, 3, 2, 5), stored=True), T((1, 4, 4, 5))],
        "StablehloConvolutionOptions",
        CONV,
        ADD,
        ("conv", 80 * 18, 80 * 18),
    ),
    "STABLEHLO_REDUCE": (
        [T((2, 6)), T((), stored=True), T((2,))],
        "StablehloReduceOptions",
        REDUCE,
        ADD,
        ("reduce_sum", 0, 2 * 5),
    ),
    "STABLEHLO_COMPARE": ([T((2, 6)), T((2, 6)), T((2, 6), "bool")], "", {}, ADD, ("less", 0, 12)),
    # two directions of 5 steps: 4 gates of 4 units over 3 inputs and 4 states
    "BIDIRECTIONAL_SEQUENCE_RNN": (
        [T((1, 5, 3)), *(*_DIRECTION, *_DIRECTION), T((1, 5, 8))],
        "BidirectionalSequenceRNNOptions",
        {"MergeOutputs": True},
        ADD,
        ("rnn", 2 * 5 * 4 * 7, None),
    ),
    # boxes of 6 anchors, 16 FLOPs each; the better of 2 classes; 6 x 3 cmp of a sort; 3 x 6 - 6 = 9 pairs at most
    "TFLite_Detection_PostProcess": (
        [T((1, 6, 4)), T((1, 6, 2)), T((6, 4), stored=True), T((1, 3, 4))],
        "",
        {"max_detections": 3},
        ADD,
        ("ssd_postprocess", 0, 6 * 16 + 6 + 18 + 12 * 19),
    ),
    # options in C: padding, stride of columns and rows; a transposed convolution by its input
    "Convolution2DTransposeBias": (
        [T((1, 4, 4, 2)), T((3, 2, 2, 2), stored=True), T((3,), stored=True), T((1, 8, 8, 3))],
        "",
        struct.pack("<3i", 1, 2, 2),
        ADD,
        ("conv_transpose", 4 * 4 * 2 * 12, None),
    ),
    # and the columns and rows of the kernel: 2 x 1 x 2 maxima of 3 x 2 elements
    "MaxPoolingWithArgmax2D": (
        [T((1, 4, 4, 2)), T((1, 2, 1, 2))],
        "",
        struct.pack("<5i", 1, 3, 2, 3, 2),
        ADD,
        ("max_pool", 0, 4 * 5),
    ),
    "FlexErf": ([T((2, 6)), T((2, 6))], "", {}, ADD, ("erf", 0, None)),
}


@pytest.mark.parametrize("name", FURTHER)
def test_further_operators(name):
    tensors, kind, options, body, (op, macs, flops) = FURTHER[name]
    custom = options if isinstance(options, bytes) else b""
    if options and not kind and not custom:
        builder = flexbuffers.Builder()
        builder.MapFromElements(options)
        custom = bytes(builder.Finish())
    operator = Op(name, range(len(tensors) - 1), (len(tensors) - 1,), kind, options if kind else {}, custom)
    inputs = [i for i, tensor in enumerate(tensors[:-1]) if not tensor.stored and tensor.data is None]
    report = estimate(model(G(tensors, [operator], inputs, [len(tensors) - 1]), body))
    (found,) = report.layer_report.values()
    assert (report.status, found["op"], found["macs"]) == ("complete", op, macs)
    assert flops is None or found["flops"] == flops


@pytest.mark.parametrize("options", [b"", struct.pack("<3i", 1, 2, 2), struct.pack("<5i", 1, 2, 2, 0, 2)])
def test_a_window_that_the_options_do_not_state_is_an_error(options):
    operator = Op("MaxPoolingWithArgmax2D", (0,), (1,), custom=options)
    with pytest.raises(CostError, match=r"option [34] of a custom operator is missing, or not positive"):
        estimate(model(G([T((1, 4, 4, 2)), T((1, 2, 2, 2))], [operator], [0], [1])))


def test_operators_of_one_kind_have_their_own_options():
    """Of 2 x 3 x 4 elements: joined along the second axis, then along the third one, of the same kind of table."""
    tensors = [T((2, 3, 4)), T((2, 6, 4)), T((2, 6, 8))]
    joins = [Op("CONCATENATION", (i, i), (i + 1,), "ConcatenationOptions", {"Axis": i + 1}) for i in range(2)]
    report = estimate(model(G(tensors, joins, [0], [2])))
    assert [call.layer.attrs["axis"] for call in report.calls] == [1, 2]


def test_a_window_of_one_pixel():
    operator = Op("MaxPoolingWithArgmax2D", (0,), (1,), custom=struct.pack("<5i", 1, 1, 1, 1, 1))
    (found,) = estimate(model(G([T((1, 4, 4, 2)), T((1, 4, 4, 2))], [operator], [0], [1]))).layer_report.values()
    assert (found["params"]["kernel"], found["params"]["stride"]) == ((1, 1), (1, 1))


@pytest.mark.parametrize(
    ("operands", "outputs", "named"), [((-1, 9), (1,), 9), ((-2,), (1,), -2), ((2,), (1,), 2), ((0,), (-1,), -1)]
)
def test_tensors_that_do_not_exist_are_named(operands, outputs, named):
    file = model(G([T((2,)), T((2,))], [Op("EXP", operands, outputs)], [0], [1]))
    with pytest.raises(CostError, match=f"names tensor {named} of 2"):
        estimate(file)


def test_a_bidirectional_lstm():
    """5 steps, two directions of 4 gates: 4 units over 3 inputs and 4 states."""
    one = [*_weights(4, 4, 3), *_weights(4, 4, 4), *[None] * 3, *_weights(4, 4), None, None]
    operands = [T((1, 5, 3)), *one, *one, *[T((1, 4))] * 4]
    tensors = [each for each in operands if each is not None]
    numbers = iter(range(len(tensors)))
    inputs = [-1 if each is None else next(numbers) for each in operands]
    tensors.append(T((1, 5, 8)))
    options = {"MergeOutputs": True}
    operator = Op(
        "BIDIRECTIONAL_SEQUENCE_LSTM", inputs, (len(tensors) - 1,), "BidirectionalSequenceLSTMOptions", options
    )
    given = [i for i, tensor in enumerate(tensors[:-1]) if not tensor.stored]
    report = estimate(model(G(tensors, [operator], given, [len(tensors) - 1])))
    assert (report.total_report["macs"], report.status) == (2 * 5 * 4 * 4 * 7, "complete")


def test_every_builtin_operator_has_a_row_or_a_reason():
    names = {name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}
    custom = {rule.native for rule in CUSTOM_ROWS}
    priced = {rule.native.removeprefix("tflite::") for rule in ROWS if rule.native not in custom}
    assert priced <= names
    assert names - priced - WALKED == set(NOT_PRICED)
    assert not priced & set(NOT_PRICED)


@pytest.mark.filterwarnings("ignore:no calculator for:costcore.CostWarning")
def test_a_custom_operator_is_named_and_can_be_priced():
    tensors = [T((2, 8)), T((2, 8))]
    file = model(G(tensors, [Op("MyOperator", (0,), (1,))], [0], [1]))
    report = estimate(file)
    (ignored,) = report.ignored_layers.values()
    assert (report.status, ignored["type"], ignored["mread"]) == ("partial", "MyOperator", 64)
    priced = estimate(file, calculators={"tflite::MyOperator": lambda layer: (7, layer.read, layer.written, {})})
    assert (priced.status, priced.total_report["flops"]) == ("complete", 7)
