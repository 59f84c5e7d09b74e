"""Open sizes, lists, pipelines and layers of the older format. Costs are worked out by hand."""

import re
import struct

import pytest
from program import Op, V, argument, feature, model, named, network, number, operation, part, saved, varint

from costcore import CostError, estimate
from costcore.graphs import DEEPEST

FLOATS = {"x": V((2, 3, 8, 8))}


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def weights(count):
    """Return weights of float32; their size follows from the parameters of their layer."""
    return part(1, floats(*[0.0] * count))


def shapes(report):
    return [shape for each in report.layer_report.values() for shape in each["output_shapes"]]


def test_a_size_that_depends_on_data_is_a_symbol():
    path = model(FLOATS, Op("non_zero", {"x": "%x"}, {"y": V((None, 4), "int32")}))
    report = estimate(path)
    assert ([str(size) for size in shapes(report)[0]], report.status) == (["y_0", "4"], "assumed")
    assert shapes(estimate(path, dims={"y_0": 5})) == [(5, 4)]
    with pytest.raises(CostError, match=r"unknown dimension 'z' \(expected y_0\)"):
        estimate(path, dims={"z": 5})


def test_an_unknown_operation_has_the_size_that_the_file_states():
    with pytest.warns(match="no calculator for 'coreml::my'"):
        report = estimate(model(FLOATS, Op("my", {"x": "%x"}, {"y": V((None, 3))})))
    assert report.status == "partial"


@pytest.mark.parametrize(
    ("kind", "inputs", "shape"),
    [
        ("conv", {"weight": V((4, 3, 3, 3), stored=True), "pad_type": "same", "strides": (2, 2)}, "x_0,4,4,4"),
        ("reshape", {"shape": (-1, 6)}, "32*x_0,6"),
        (
            "slice_by_index",
            {"begin": (0, 1, 0, 0), "end": (0, 0, 4, 8), "end_mask": (True, True, False, False)},
            "x_0,2,4,8",
        ),
        ("pixel_unshuffle", {"downscale_factor": 2}, "x_0,12,4,4"),
        ("tile", {"reps": (2, 1, 1, 1)}, "2*x_0,3,8,8"),
        ("topk", {"k": 2, "axis": 1}, "x_0,2,8,8"),
        ("upsample_bilinear", {"scale_factor_height": 1.5, "scale_factor_width": 2.0}, "x_0,3,12,16"),
        ("space_to_batch", {"block_shape": (2, 4), "paddings": (0, 0, 0, 0)}, "8*x_0,3,4,2"),
    ],
)
def test_shapes_follow_from_operands(kind, inputs, shape):
    """As coremltools 9.0 infers them."""
    results = {name: V((None,) * len(shape.split(","))) for name in ("y", "z")[: 1 + (kind == "topk")]}
    report = estimate(model({"x": V((None, 3, 8, 8))}, Op(kind, {"x": "%x", **inputs}, results)))
    assert (",".join(map(str, shapes(report)[0])), report.status) == (shape, "complete")


def test_lists_have_the_elements_that_are_written():
    """What TensorFlow's loops keep: 5 rows of 4 are spread over a list, and one is read."""
    rows, one = V((None, None), is_list=True), V((None,))
    path = model(
        {"x": V((5, 4)), "at": V((5,), "int32")},
        Op("make_list", {"init_length": 5, "dtype": "fp32", "elem_shape": (-1,)}, {"a": rows}),
        Op("list_scatter", {"ls": "%a", "indices": "%at", "value": "%x"}, {"b": rows}),
        Op("list_read", {"ls": "%b", "index": 2}, {"c": one}),
        Op("list_gather", {"ls": "%b", "indices": "%at"}, {"d": V((None, None))}),
    )
    report = estimate(path)
    assert (shapes(report)[1:], report.status) == ([(5, 4), (4,), (5, 4)], "complete")


def test_a_label_is_the_best_of_the_classes():
    """9 comparisons of 10 probabilities."""
    classes = Op("classify", {"probabilities": "%x"}, {"y": V((), "string")})
    report = estimate(model({"x": V((1, 10))}, classes))
    assert (report.total_report["flops"], report.status) == (9, "complete")


LSTM = (
    number(1, 3)
    + number(2, 4)
    + part(15, number(10, 1), number(20, 1))
    + part(20, part(1, weights(12)), part(20, weights(16)), part(40, weights(4)))
)
GRU = number(1, 3) + number(2, 4) + number(15, 0) + part(30, weights(12))

LAYERS = [
    # 5 steps of 4 gates: 4 x (3 + 4) products of each
    ("lstm", (5, 1, 3, 1, 1), 420, LSTM, ["x"], (5, 1, 4, 1, 1), 5 * 4 * 4 * 7),
    (
        "both directions",
        (5, 1, 3, 1, 1),
        430,
        LSTM + part(20, part(1, weights(12))),
        ["x"],
        (5, 1, 8, 1, 1),
        2 * 5 * 4 * 4 * 7,
    ),
    # the last step alone is returned
    ("gru", (5, 1, 3, 1, 1), 410, GRU, ["x"], (1, 1, 4, 1, 1), 5 * 3 * 4 * 7),
    (
        "crop",
        (1, 3, 8, 8),
        190,
        part(1, part(10, number(1, 1), number(2, 2)), part(10, number(1, 0))),
        ["x"],
        (1, 3, 5, 8),
        0,
    ),
    ("slice", (1, 3, 8, 8), 350, number(1, 2) + number(2, 6) + number(3, 2) + number(4, 1), ["x"], (1, 3, 2, 8), 0),
    ("mean", (1, 3, 8, 8), 280, number(1, 1) + number(3, 1), ["x"], (1, 3, 1, 1), 0),
    ("embedding", (7, 1, 1, 1), 150, number(1, 50) + number(2, 6) + part(20, weights(300)), ["x"], (7, 6, 1, 1), 0),
    ("tile", (2, 3), 920, part(1, varint(2), varint(1)), ["x"], (4, 3), 0),
    ("top", (2, 9), 1015, number(1, 1) + number(2, 4), ["x"], (2, 4), 0),
    ("greater", (2, 9), 830, varint(2 << 3 | 5) + floats(0.5), ["x"], (2, 9), 0),
    # 2 x 4 x 4 x 4 places of 5 outputs, 3 x 27 products
    (
        "conv3d",
        (2, 3, 4, 4, 4),
        1471,
        b"".join(number(*pair) for pair in [(1, 5), (2, 3), (10, 1), (20, 3), (21, 3), (22, 3), (70, 2)])
        + part(60, weights(405)),
        ["x"],
        (2, 5, 4, 4, 4),
        2 * 64 * 5 * 81,
    ),
]


@pytest.mark.parametrize(
    ("name", "shape", "field", "content", "given", "expected", "macs"), LAYERS, ids=[c[0] for c in LAYERS]
)
def test_layers_of_the_older_format(name, shape, field, content, given, expected, macs):
    made = ["y", "z"] if name == "top" else ["y"]
    report = estimate(saved(network(shape, (name, field, content, given, made))))
    assert (shapes(report)[0], report.total_report["macs"], report.status) == (expected, macs, "complete")


@pytest.mark.parametrize(
    ("field", "content", "message"),
    [
        (120, number(1, 3), r"pooling 3 is unknown \(expected 0 to 2\)"),
        (280, number(1, 10), "reduction 10 is unknown"),
        (280, number(3, 5), "axis of a reduction 5 is unknown"),
        (350, number(4, 3), "axis of a slice 3 is unknown"),
        (1466, number(1, 2), "pooling 2 is unknown"),
    ],
)
def test_settings_that_the_format_does_not_have_are_errors(field, content, message):
    with pytest.raises(CostError, match=message):
        estimate(saved(network((1, 3, 8, 8), ("layer", field, content, ["x"], ["y"]))))


def test_a_custom_layer_has_its_name():
    layers = ("a", 500, part(10, "Swish"), ["x"], ["h"]), ("b", 130, part(10), ["h"], ["y"])
    with pytest.warns(match="custom layer Swish"):
        report = estimate(saved(network((1, 3, 8, 8), *layers)))
    assert report.status == "partial" and shapes(report) == [(1, 3, 8, 8)]


def test_a_pipeline_is_the_sum_of_its_stages():
    """A convolution of 3 x 3 over 3 channels to 4, 64 places; then a linear layer of its mean to 2 features."""
    conv = number(1, 4) + number(2, 3) + part(20, varint(3), varint(3)) + part(51) + part(90, weights(108))
    first = network((1, 3, 8, 8), ("c", 100, conv, ["x"], ["h"]))
    linear = number(1, 4) + number(2, 2) + part(20, weights(8))
    second = network((1, 4), ("l", 140, linear, ["x"], ["y"]))
    scaler = number(1, 4) + part(2, part(1, feature("y", (1, 2))), part(10, feature("z", (1, 2)))) + part(604)
    second = second.replace(b"\x12\x01x", b"\x12\x01m").replace(b"\n\x01x", b"\n\x01m")
    mean = network((1, 4, 8, 8), ("p", 280, number(1, 1) + number(3, 1), ["x"], ["p"]), ("r", 301, b"", ["p"], ["m"]))
    mean = mean.replace(b"\x12\x01x", b"\x12\x01h").replace(b"\n\x01x", b"\n\x01h")
    stages = b"".join(part(1, each) for each in (first, mean, second, scaler))
    names = b"".join(part(2, each) for each in ("body", "neck", "head", "scale"))
    described = part(2, part(1, feature("x", (1, 3, 8, 8))), part(10, feature("z", (1, 2))))
    path = saved(number(1, 4) + described + part(202, stages, names))
    report = estimate(path)
    assert report.total_report["macs"] == 64 * 4 * 27 + 8 and report.status == "complete"
    assert {row["module"] for row in report.layer_report.values()} == {"body", "neck", "head", "scale"}


def stage(field, given, made):
    """Return a model without a graph, with descriptions of its inputs and results."""
    descriptions = part(2, *(part(1, each) for each in given), *(part(10, each) for each in made))
    return number(1, 4) + descriptions + part(field)


def typed(name, field):
    """Return the description of a feature of another type: 1 is an integer, 2 a number, 3 a text."""
    return part(1, name) + part(3, part(field))


BOXES = feature("b", (9, 4)), feature("c", (9, 3))


@pytest.mark.parametrize(
    ("field", "given", "made", "op", "shape", "mread", "mwrite"),
    [
        (604, [feature("x", (1, 5))], [feature("y", (1, 5))], "scale_and_shift", (1, 5), 20, 20),
        (607, [feature("x", (1, 5))], [feature("y", (1, 5))], "l2_normalize", (1, 5), 20, 20),
        (602, [feature("x", (2,)), feature("z", (3,))], [feature("y", (5,))], "concat", (5,), 20, 20),
        (602, [feature("x", (2,)), typed("z", 2)], [feature("y", (3,))], "concat", (3,), 8 + 8, 12),
        (610, [feature("s", (9, 3)), BOXES[0]], [feature("y", (5, 4))], "non_max_suppression", (5, 4), 4 * 63, 80),
        (609, [feature("x", (5,))], [typed("y", 2)], "slice", (), 4, 8),
        (600, [typed("x", 1)], [feature("y", (7,))], "one_hot", (7,), 8, 28),
        (900, [feature("x", (5,))], [feature("y", (5,))], "reshape", (5,), 0, 0),
    ],
)
def test_stages_without_a_graph_are_counted(field, given, made, op, shape, mread, mwrite):
    content = number(1, 4) + part(2, *(part(1, each) for each in given)) + part(202, part(1, stage(field, given, made)))
    report = estimate(saved(content))
    (found,) = report.layer_report.values()
    assert (found["op"], found["output_shapes"], found["module"]) == (op, [shape], "stage0")
    assert (found["mread"], found["mwrite"]) == (mread, mwrite)


@pytest.mark.parametrize("depth", [0, 1])
def test_models_inside_each_other_are_bounded(depth):
    content = stage(604, [feature("x", (1, 5))], [feature("y", (1, 5))])
    for _ in range(DEEPEST + 1 + depth):
        content = number(1, 4) + part(2, part(1, feature("x", (1, 5)))) + part(202, part(1, content))
    if depth:
        with pytest.raises(CostError, match="pipelines are nested more than"):
            estimate(saved(content))
    else:
        assert len(estimate(saved(content)).calls) == 1


@pytest.mark.parametrize("depth", [0, 1])
def test_blocks_inside_each_other_are_bounded(depth):
    inner = part(2, "x")
    for i in range(DEEPEST + depth):
        made = part(3, named(f"y{i}", V((2,))))
        branches = part(2, part(1, "pred"), part(2, argument("%b"))) + made + part(4, inner) + part(4, part(2, "x"))
        inner = part(2, f"y{i}") + part(3, part(1, "cond") + branches)
    given = part(1, named("x", V((2,)))) + part(1, named("b", V((), "bool")))
    function = given + part(2, "CoreML7") + part(3, part(1, "CoreML7"), part(2, inner))
    path = saved(number(1, 8) + part(502, number(1, 1), part(2, part(1, "main"), part(2, function))))
    if depth:
        with pytest.raises(CostError, match="blocks are nested more than"):
            estimate(path)
    else:
        assert estimate(path).total_report["flops"] == 0


@pytest.mark.parametrize(
    ("fields", "shape", "given"),
    [
        (number(3, 20), "1,3,6,5", None),
        (number(3, 10), "1,1,6,5", None),
        (number(3, 40), "1,1,6,5", None),
        (number(3, 20) + part(21, part(1, number(1, 5), number(2, 6))), "1,3,x_2,x_3", (1, 3, 8, 9)),
        (number(3, 20) + part(31), "1,3,x_2,x_3", (1, 3, 8, 9)),
    ],
)
def test_images_have_channels_and_may_have_open_sizes(fields, shape, given):
    """Of width 5 and height 6."""
    body = part(1, part(1, "r"), part(2, "x"), part(3, "y"), part(130, part(10)))
    image = part(1, "x") + part(3, part(4, number(1, 5), number(2, 6), fields))
    path = saved(number(1, 4) + part(2, part(1, image), part(10, part(1, "y"))) + part(500, body))
    (found,) = estimate(path).layer_report.values()
    assert ",".join(map(str, found["output_shapes"][0])) == shape
    if given:
        assert shapes(estimate(path, given)) == [given]


def test_the_default_function_is_that_of_the_description():
    """Two functions, of 8 x 8 products and of 8 x 16; the second one is the default, and its first axis is open."""
    limits = part(31, part(1, number(1, 1), number(2, 4)), part(1, number(1, 8), number(2, 8)))
    functions, described = b"", b""
    for name, width in (("small", 8), ("large", 16)):
        op = Op("linear", {"x": "%x", "weight": V((width, 8), stored=True)}, {"y": V((None, width))})
        block = part(2, "y") + part(3, operation(op))
        body = part(1, named("x", V((None, 8)))) + part(2, "CoreML7") + part(3, part(1, "CoreML7"), part(2, block))
        functions += part(2, part(1, name), part(2, body))
        described += part(20, part(1, name), part(2, feature("x", (1, 8), limits)))
    path = saved(number(1, 9) + part(2, described + part(21, "large")) + part(502, number(1, 1), functions))
    assert str(estimate(path).total_report["macs"]) == "128*x_0"
    assert estimate(path, (2, 8)).total_report["macs"] == 256
    assert estimate(path, (1, 8), function="small").total_report["macs"] == 64


LIMITS = [
    (part(31, part(1, number(1, 2), number(2, 4)), part(1, number(1, 9), number(2, 9))), 2, 4, "2 to 4"),
    (part(31, part(1, number(1, 2), number(2, -1)), part(1, number(1, 9), number(2, 9))), 2, 99, "2 or more"),
]


@pytest.mark.parametrize(("limits", "least", "most", "shown"), LIMITS, ids=["range", "open"])
def test_sizes_are_checked_against_their_range(limits, least, most, shown):
    body = part(1, part(1, "r"), part(2, "x"), part(3, "y"), part(130, part(10)))
    described = part(2, part(1, feature("x", (1, 9), limits)), part(10, part(1, "y")))
    path = saved(number(1, 4) + described + part(500, body, number(5, 1)))
    assert str(estimate(path).total_report["mwrite"]) == "36*x_0"
    assert [shapes(estimate(path, (n, 9))) for n in (least, most)] == [[(least, 9)], [(most, 9)]]
    for n in (1, 5) if most == 4 else (1,):
        with pytest.raises(
            CostError, match=re.escape(f"input 'x' has {shown} elements along axis 0 in the model (got {n})")
        ):
            estimate(path, (n, 9))


def test_sizes_are_checked_against_the_shapes_of_a_list():
    listed = part(21, *(part(1, part(1, varint(n), varint(9))) for n in (2, 4)))
    body = part(1, part(1, "r"), part(2, "x"), part(3, "y"), part(130, part(10)))
    described = part(2, part(1, feature("x", (2, 9), listed)), part(10, part(1, "y")))
    path = saved(number(1, 4) + described + part(500, body, number(5, 1)))
    assert str(estimate(path).total_report["mwrite"]) == "36*x_0"
    assert shapes(estimate(path, (4, 9))) == [(4, 9)]
    with pytest.raises(CostError, match=re.escape("one of the shapes (2, 9), (4, 9) in the model (got (3, 9))")):
        estimate(path, (3, 9))
