"""Costs of layers worked out by hand, weights in smaller types, control flow, and files that are no models."""

import random
import struct
from math import prod
from pathlib import Path

import pytest
from ir import L, graph, ir

from costcore import CostError, CostWarning, estimate
from costcore.cli.main import main
from costcore_openvino.shapes import Integers

DATA = Path(__file__).parent / "data"
WINDOWS = {"strides": "1, 1", "dilations": "1, 1", "pads_begin": "1, 1", "pads_end": "1, 1"}


@pytest.fixture
def read(tmp_path):
    """Estimates a file with some layers, or some content."""

    def of(*layers, **options):
        content = layers[0] if isinstance(layers[0], str) else ir(*layers)
        (tmp_path / "net.xml").write_text(content, encoding="utf-8")
        return estimate(tmp_path / "net.xml", **options)

    return of


def nested(depth):
    """Graphs inside each other."""
    inner = ""
    for _ in range(depth + 1):
        inner = f"<layers><layer type='Loop'>{inner and f'<body>{inner}</body>'}</layer></layers>"
    return inner


def only(report):
    (found,) = report.layer_report.values()
    assert report.status == "complete"
    return found


def test_convolution(read):
    """6 x 6 places of 4 outputs: 3 x 3 x 2 products each, the first of which is a mul without a bias."""
    x, w = L("Parameter", (), (1, 2, 6, 6)), L("Const", (), (4, 2, 3, 3))
    found = only(read(x, w, L("Convolution", (0, 1), (1, 4, 6, 6), data=WINDOWS), L("Result", (2,))))
    assert (found["op"], found["macs"], found["flops"], found["n_params"]) == ("conv", 144 * 18, 144 * 18, 72)
    assert (found["mread"], found["mwrite"], found["params"]["padding"]) == (4 * (72 + 72), 4 * 144, (1, 1))


@pytest.mark.parametrize(
    ("table", "indices", "expected"),
    [
        (L("Const", (), (9, 4)), L("Parameter", (), (5,), "I64"), ("embedding", 36)),
        (L("Parameter", (), (9, 4)), L("Parameter", (), (5,), "I64"), ("gather", 0)),
        (L("Parameter", (), (9, 4)), L("Const", (), (5,), "I64"), ("gather", 0)),
    ],
)
def test_rows_of_a_stored_matrix_are_an_embedding(read, table, indices, expected):
    found = only(read(table, indices, L("Gather", (0, 1), (5, 4)), L("Result", (2,))))
    assert (found["op"], found["n_params"]) == expected


@pytest.mark.parametrize(
    ("name", "module"),
    [("/a/b/Relu", "a.b"), ("__module.a.0/aten::relu/ReLU", "a.0"), ("Relu_5", "")],
)
def test_modules_are_in_names(read, name, module):
    assert only(read(L("Parameter", (), (2,)), L("ReLU", (0,), (2,), name=name), L("Result", (1,))))["module"] == module


def test_options_of_windows_are_shown(read):
    """(8 + 1 - 5) // 2 + 1 rows of a window dilated to 5; (9 + 3 - 2) // 3 + 1 columns."""
    data = {"strides": "2, 3", "dilations": "2, 1", "pads_begin": "1, 2", "pads_end": "0, 1"}
    x, w = L("Parameter", (), (1, 3, 8, 9)), L("Const", (), (4, 3, 3, 2))
    found = only(read(x, w, L("Convolution", (0, 1), (1, 4, 3, 4), data=data), L("Result", (2,))))
    options = {"kernel": (3, 2), "stride": (2, 3), "padding": ((1, 0), (2, 1)), "dilation": (2, 1)}
    assert found["params"] == {**options, "groups": 1}
    pool = L("MaxPool", (0,), (1, 3, 3, 4), data={**data, "kernel": "3, 2", "rounding_type": "ceil"})
    assert only(read(x, pool, L("Result", (1,))))["params"] == {**options, "ceil_mode": True}


@pytest.mark.parametrize(
    ("precision", "nbytes"),
    [
        *(("FP64", 192), ("FP32", 96), ("FP16", 48), ("BF16", 48), ("F8E4M3", 24), ("F8E5M2", 24), ("F8E8M0", 24)),
        *(("F4E2M1", 12), ("NF4", 12), ("BOOL", 24), ("BOOLEAN", 24), ("I4", 12), ("I8", 24), ("I16", 48)),
        *(("I32", 96), ("I64", 192), ("U1", 3), ("BIN", 3), ("U2", 6), ("U3", 9), ("U4", 12), ("U6", 18)),
        *(("U8", 24), ("U16", 48), ("U32", 96), ("U64", 192)),
    ],
)
def test_bytes_of_24_elements(read, precision, nbytes):
    found = only(read(L("Parameter", (), (24,), precision), L("ReLU", (0,), (24,)), L("Result", (1,))))
    assert found["mread"] == nbytes


def test_grouped_convolution(read):
    """Two groups of 3 outputs and 2 inputs: the axis of groups is part of the outputs."""
    x, w = L("Parameter", (), (1, 4, 5, 5)), L("Const", (), (2, 3, 2, 1, 1))
    found = only(read(x, w, L("GroupConvolution", (0, 1), (1, 6, 5, 5), data=WINDOWS), L("Result", (2,))))
    assert (found["macs"], found["params"]["groups"], found["n_params"]) == (150 * 2, 2, 12)


def test_transposed_convolution(read):
    """Each of 3 x 3 x 2 inputs is multiplied by 5 x 2 x 2 weights."""
    x, w = L("Parameter", (), (1, 2, 3, 3)), L("Const", (), (2, 5, 2, 2))
    found = only(read(x, w, L("ConvolutionBackpropData", (0, 1), (1, 5, 6, 6)), L("Result", (2,))))
    assert (found["op"], found["macs"]) == ("conv_transpose", 18 * 20)


@pytest.mark.parametrize(("shape", "transposed"), [((5, 6), "true"), ((6, 5), "false")])
def test_linear_layer(read, shape, transposed):
    x, w = L("Parameter", (), (2, 6)), L("Const", (), shape)
    found = only(read(x, w, L("MatMul", (0, 1), (2, 5), data={"transpose_b": transposed}), L("Result", (2,))))
    assert (found["op"], found["macs"], found["n_params"]) == ("linear", 60, 30)


def test_a_bias_is_a_parameter_and_one_number_is_not(read):
    layers = (L("Parameter", (), (2, 6)), L("Const", (), (1, 6)), L("Const", (), (1,)))
    report = read(*layers, L("Add", (0, 1), (2, 6)), L("Multiply", (3, 2), (2, 6)), L("Result", (4,)))
    assert [each["n_params"] for each in report.layer_report.values()] == [6, 0]


def test_weights_in_a_smaller_type_are_read_as_stored(read):
    """An int8 weight is converted, shifted and scaled as it is read: 30 bytes, 30 parameters, no call of its own."""
    layers = (
        L("Parameter", (), (2, 6)),
        L("Const", (), (5, 6), "I8"),
        L("Convert", (1,), (5, 6)),
        L("Const", (), (5, 1)),
        L("Multiply", (2, 3), (5, 6)),
        L("MatMul", (0, 4), (2, 5), data={"transpose_b": "true"}),
        L("Result", (5,)),
    )
    report = read(*layers)
    found = only(report)
    assert (found["macs"], found["n_params"], found["mread"]) == (60, 30, 2 * 6 * 4 + 30)
    assert "unpacking them is not counted" in report.notes[0]


def test_a_matrix_that_is_stored_once_is_one(read):
    """A table of 50 x 16 is the weight of the output too: two constants at one place. Vectors stay apart: 50 and 50."""
    table = {"element_type": "f32", "offset": "0", "size": "3200"}
    vector = {"element_type": "f32", "offset": "3200", "size": "200"}
    report = read(
        L("Parameter", (), (3,), "I64"),
        L("Const", (), (50, 16), data=table),
        L("Gather", (1, 0), (3, 16)),
        L("Const", (), (50, 16), data=table),
        L("MatMul", (2, 3), (3, 50), data={"transpose_b": "true"}),
        L("Const", (), (1, 50), data=vector),
        L("Add", (4, 5), (3, 50)),
        L("Const", (), (1, 50), data=vector),
        L("Multiply", (6, 7), (3, 50)),
        L("Result", (8,)),
    )
    assert report.total_report["n_params"] == 800 + 50 + 50
    assert [each["n_params"] for each in report.layer_report.values()] == [800, 800, 50, 50]


def test_a_stored_operand_of_an_einsum_is_learned(read):
    """2 x 3 x 4 results of 6 products each, by 6 x 3 x 4 weights."""
    operands = L("Parameter", (), (2, 6)), L("Const", (), (6, 3, 4))
    found = only(read(*operands, L("Einsum", (0, 1), (2, 3, 4), data={"equation": "bi,ihd->bhd"}), L("Result", (2,))))
    assert (found["macs"], found["n_params"]) == (144, 72)


@pytest.mark.parametrize(
    ("shape", "n_axes", "rows", "status"),
    [
        ((2, 5, 7, 8), 1, 70, "assumed"),
        ((2, 5, 7, 8), 3, 2, "assumed"),
        ((2, 5, 7, 8), 4, 1, "complete"),
        ((3, 3), 1, 3, "complete"),
    ],
)
def test_axes_in_the_file_of_weights_are_assumed_where_they_decide(read, shape, n_axes, rows, status):
    """A row of c numbers: mean c, variance c + 1 + c - 1 + 1, + eps, root, c differences over it: 4c + 3 FLOPs."""
    operands = L("Parameter", (), shape), L("Const", (), (n_axes,), "I64")
    report = read(*operands, L("MVN", (0, 1), shape), L("Result", (2,)))
    size = prod(shape)
    assert (report.total_report["flops"], report.status) == (4 * size + 3 * rows, status)
    report = read(*operands, L("CumSum", (0, 1), shape), L("Result", (2,)))
    if n_axes == 1:
        assert (report.total_report["flops"], report.status) == (size - size // shape[-1], status)


@pytest.mark.parametrize(
    ("reduction", "flops"), [("none", 0), ("sum", 6), ("sub", 6), ("prod", 6), ("max", 6), ("mean", 6 + 12)]
)
def test_scatter(read, reduction, flops):
    """6 updates of 12 elements, each joined once; a mean divides every element. All of x is read: 12 + 6 + 6 values."""
    operands = L("Parameter", (), (4, 3)), L("Parameter", (), (2, 3), "I32"), L("Parameter", (), (2, 3))
    scatter = L("ScatterElementsUpdate", (0, 1, 2), (4, 3), data={"reduction": reduction})
    found = only(read(*operands, scatter, L("Result", (3,))))
    assert (found["op"], found["flops"]) == ("scatter_elements", flops)
    assert (found["mread"], found["mwrite"]) == (4 * 24, 48)


def test_a_scatter_that_joins_otherwise_is_named(read):
    operands = L("Parameter", (), (4, 3)), L("Parameter", (), (2, 1), "I32"), L("Parameter", (), (2, 3))
    scatter = L("ScatterNDUpdate", (0, 1, 2), (4, 3), data={"reduction": "xor"})
    with pytest.warns(CostWarning, match="no calculator for 'openvino::ScatterNDUpdate'"):
        report = read(*operands, scatter, L("Result", (3,)))
    assert report.status == "partial"


def axes_at(offset, n=1, kind="i64"):
    data = {"element_type": kind, "offset": offset, "size": str(n * int(kind[1:]) // 8)}
    return L("Const", (), (n,), kind.upper(), data)


@pytest.mark.parametrize(("kind", "offset"), [("i64", "8"), ("i32", "4")])
def test_axes_are_read_from_the_file_of_weights(read, tmp_path, kind, offset):
    """Of 2 x 5 x 7 x 8, axes 1 and -3 are axis 1: 2 * 7 * 8 rows, as above; ``CumSum`` adds 4 to each first of 5."""
    first = struct.pack(f"<4{kind.replace('i64', 'q').replace('i32', 'i')}", 9, 1, -3, 9)
    (tmp_path / "net.bin").write_bytes(first)
    x, shape = L("Parameter", (), (2, 5, 7, 8)), (2, 5, 7, 8)
    found = only(read(x, axes_at(offset, 2, kind), L("MVN", (0, 1), shape), L("Result", (2,))))
    assert (found["flops"], found["params"]["axis"]) == (4 * 560 + 3 * 112, (1,))
    found = only(read(x, axes_at(offset, 1, kind), L("CumSum", (0, 1), shape), L("Result", (2,))))
    assert (found["flops"], found["params"]["axis"]) == (4 * 112, 1)
    found = only(read(x, axes_at(offset, 2, kind), L("NormalizeL2", (0, 1), shape), L("Result", (2,))))
    assert found["params"]["axis"] == (1,)


@pytest.mark.parametrize("offset", ["24", "x", "9" * 18, "9" * 40])
def test_a_file_of_weights_without_the_axes_leaves_them_assumed(read, tmp_path, offset):
    (tmp_path / "net.bin").write_bytes(bytes(30))
    shape = (2, 5, 7, 8)
    report = read(L("Parameter", (), shape), axes_at(offset), L("MVN", (0, 1), shape), L("Result", (2,)))
    assert report.status == "assumed"
    assert report.total_report["flops"] == 4 * 560 + 3 * 70


@pytest.mark.parametrize(
    ("kind", "states", "gates", "flops"),
    [("LSTMCell", 2, 4, 17), ("GRUCell", 1, 3, 13), ("RNNCell", 1, 1, 1)],
)
def test_cells(read, kind, states, gates, flops):
    """3 samples of 10 features, 14 units: each gate has a product of 10 + 14 onto its bias.

    LSTM: 3 sigmoids of 4, 2 tanh, f c, + i g, o tanh(c): 17. GRU: 2 sigmoids, tanh, r h, 1 - z, (1 - z) n, + z h: 13.
    """
    given = [L("Parameter", (), (3, 10)), *[L("Parameter", (), (3, 14))] * states]
    stored = [L("Const", (), (gates * 14, n)) for n in (10, 14)] + [L("Const", (), (gates * 14,))]
    layers = [*given, *stored]
    found = only(read(*layers, L(kind, range(len(layers)), (3, 14)), L("Result", (len(layers),))))
    macs = 3 * 14 * gates * 24
    assert (found["macs"], found["n_params"]) == (macs, gates * 14 * 25)
    assert found["flops"] == macs + 3 * 14 * flops


def test_a_deformable_convolution(read):
    """81 places of 12 outputs: 9 x 4 products each; 8 x 9 x 81 samples of 9 operations."""
    layers = L("Parameter", (), (1, 8, 9, 9)), L("Parameter", (), (1, 18, 9, 9)), L("Const", (), (12, 4, 3, 3))
    found = only(
        read(
            *layers,
            L("DeformableConvolution", (0, 1, 2), (1, 12, 9, 9), data={**WINDOWS, "group": "2"}),
            L("Result", (3,)),
        )
    )
    assert (found["op"], found["macs"], found["n_params"]) == ("deform_conv", 81 * 12 * 36, 432)
    assert found["flops"] == 81 * 12 * 36 + 8 * 9 * 81 * 9


def test_searches_and_regions(read):
    """A search among 7 bounds compares 3 times."""
    x, bounds = L("Parameter", (), (2, 6)), L("Const", (), (7,))
    assert only(read(x, bounds, L("Bucketize", (0, 1), (2, 6), "I64"), L("Result", (2,))))["flops"] == 12 * 3
    assert only(read(bounds, x, L("SearchSorted", (0, 1), (2, 6), "I64"), L("Result", (2,))))["flops"] == 12 * 3
    image = L("Parameter", (), (1, 3, 8, 8)), L("Parameter", (), (4, 4)), L("Parameter", (), (4,), "I32")
    align = L("ROIAlign", (0, 1, 2), (4, 3, 2, 2), data={"sampling_ratio": "2", "mode": "avg"})
    report = read(*image, align, L("Result", (3,)))
    assert report.layer_report["ROIAlign-1"]["op"] == "roi_align"
    assert report.layer_report["ROIAlign-1"]["flops"] == 48 * (4 * 9 + 4)


def test_lstm_of_a_file_that_openvino_wrote():
    """5 steps of 2 samples, 8 inputs, 16 units: 10 * 4 * 16 * (8 + 16) products; one bias for each of 64 gate units."""
    report = estimate(DATA / "lstm.xml")
    found = report.layer_report["LSTMSequence-1"]
    assert (found["op"], found["macs"], found["n_params"]) == ("lstm", 15_360, 4 * 16 * 24 + 64)
    assert report.status == "complete"


BODY = graph([L("Parameter", (), (1, 4)), L("Exp", (0,), (1, 4)), L("Result", (1,))])
MAP = (
    '<port_map><input external_port_id="0" internal_layer_id="0" {0}/>'
    '<output external_port_id="1" internal_layer_id="2"/></port_map>'
)


def test_a_loop_over_an_axis_runs_as_often_as_it_has_elements(read):
    inside = MAP.format('axis="0" part_size="1"') + f"<body>{BODY}</body>"
    report = read(L("Parameter", (), (5, 4)), L("TensorIterator", (0,), (1, 4), inside=inside), L("Result", (1,)))
    assert (report.status, report.layer_report["Exp-1"]["flops"]) == ("complete", 5 * 4)


def test_a_loop_that_depends_on_data_is_a_symbol_or_as_given(read):
    inside = MAP.format("") + f"<body>{BODY}</body>"
    layers = L("Parameter", (), (1, 4)), L("Loop", (0,), (1, 4), inside=inside), L("Result", (1,))
    report = read(*layers)
    assert (report.status, str(report.total_report["flops"])) == ("assumed", "4*trips_1")
    assert read(*layers, trips=3).total_report["flops"] == 12


def test_the_more_expensive_branch_is_counted_and_assumed(read):
    """Of 4 numbers: the exponentials of one branch are 4 FLOPs, of the other 8.

    The caller holds the condition (1 byte) and x (16); a branch has a copy of x and a result, 16 bytes each.
    """
    ends = L("Parameter", (), (1, 4)), L("Exp", (0,), (1, 4))
    then, other = (*ends, L("Result", (1,))), (*ends, L("Exp", (1,), (1, 4)), L("Result", (2,)))
    inside = "".join(
        f'<{side}_port_map><input external_port_id="1" internal_layer_id="0"/>'
        f'<output external_port_id="2" internal_layer_id="{len(layers) - 1}"/></{side}_port_map>'
        f"<{side}_body>{graph(layers)}</{side}_body>"
        for side, layers in (("then", then), ("else", other))
    )
    condition, x = L("Parameter", (), (), "BOOL"), L("Parameter", (), (1, 4))
    report = read(condition, x, L("If", (0, 1), (1, 4), inside=inside), L("Exp", (2,), (1, 4)), L("Result", (3,)))
    assert (report.status, report.total_report["flops"]) == ("assumed", 8 + 4)
    assert "the most expensive, 'else', is counted" in report.assumptions[0][0]
    assert report.arena(align=1).peak == 1 + 3 * 16


def test_the_arena_holds_an_input_and_a_result(read):
    layers = L("Parameter", (), (1, 4)), L("Exp", (0,), (1, 4)), L("Exp", (1,), (1, 4)), L("Result", (2,))
    assert read(*layers).arena(16).peak == 2 * 16


def test_an_unknown_operator_is_named(read):
    with pytest.warns(match="no calculator for 'openvino::MyOperator'"):
        report = read(L("Parameter", (), (2, 4)), L("MyOperator", (0,), (2, 4)), L("Result", (1,)))
    (ignored,) = report.ignored_layers.values()
    assert (report.status, ignored["mread"], ignored["mwrite"]) == ("partial", 32, 32)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not valid XML"),
        ("<net", "is not valid XML"),
        ("<html/>", "not an OpenVINO model: its outermost element is <html>"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><net><layers/></net>', "has a document type"),
        ("<net>" + nested(26) + "</net>", "nested more than 25 deep"),
        ("<net/>".encode("utf-16").decode("latin-1"), "is not valid XML"),
        ("<net/>", "not an OpenVINO model: it has no layers"),
        ('<net version="7"/>', "it has version 7 of the format, which OpenVINO no longer reads"),
        (ir(L("Parameter", (), (), data={"shape": "..."})), "input 'l0' has no shape in the file. Give one"),
        (ir(L("Parameter", (), ("x", 3))), "'x' is not a size"),
        (ir(L("Parameter", (), (2,), "Q5")), "unknown type of elements 'Q5'"),
        (
            ir(L("Exp", (1,), (2,)), L("Exp", (0,), (2,))),
            "the graph has a cycle: layer 'l1' -> layer 'l0' -> layer 'l1'",
        ),
        (ir(L("Parameter", (), (2,)), L("Convolution", (0,), (2,))), "operand 0 of Convolution has 1 axes"),
        (ir(L("ReLU", (), (2,), inside=f"<body>{BODY}</body>")), "layer 'l0' is a ReLU, which has no <body>"),
        (ir(L("Loop", (), (2,), inside=f"<then_body>{BODY}</then_body>")), "is a Loop, which has no <then_body>"),
        (ir(L("Parameter", (), (2,)), L("If", (0,), (2,), inside=f"<body>{BODY}</body>")), "If, which has no <body>"),
        (ir(L("Loop", (), (2,), inside=f"<body>{BODY}</body>" * 2)), "layer 'l0' has two elements <body>"),
        (ir(L("ReLU", (), (2,))), "layer 'l0': operand 0 of ReLU is missing"),
        (
            ir(L("Parameter"), L("ReLU", (0,))).replace('<output><port id="1" precision="FP32"></port></output>', ""),
            "layer 'l1': ReLU has no result",
        ),
        (ir(L("ReLU", (), (2,), inside="<data/>")), "layer 'l0' has two elements <data>"),
        (ir(L("ReLU", (), (2,))).replace("</net>", "<layers/></net>"), "the file has two elements <layers>"),
        (
            ir(L("Parameter", (), [10**17] * 60), L("ReLU", (0,), [10**17] * 60), L("Result", (1,))),
            r"a tensor of shape \(100000000000000000, .*…\) of 'relu' has more than 2\*\*256 elements",
        ),
    ],
)
def test_what_is_no_model_is_an_error(read, content, message):
    with pytest.raises(CostError, match=rf"net\.xml.*{message}"):
        read(content)


@pytest.mark.parametrize("text", ["--5,1", "-,1", "5-,1", "1e3", "٣,1", "9" * 5000, "", "1,,1"])
def test_integers_that_are_none_are_left_out(read, text):
    """A convolution of 2 x 3 x 3 weights over one channel; the file states the result, which decides its costs."""
    x, w = L("Parameter", (), (1, 1, 8, 8)), L("Const", (), (2, 1, 3, 3))
    data = dict.fromkeys(("strides", "pads_begin", "pads_end", "dilations"), text)
    report = read(x, w, L("Convolution", (0, 1), (1, 2, 6, 6), data=data), L("Result", (2,)))
    assert report.total_report["macs"] == 2 * 6 * 6 * 9


@pytest.mark.parametrize("axis", ["9" * 5000, "-" * 9, "²", "7"])
def test_an_axis_that_is_none_takes_nothing_apart(read, axis):
    inside = MAP.format(f'axis="{axis}" part_size="{axis}"') + f"<body>{BODY}</body>"
    report = read(L("Parameter", (), (1, 4)), L("TensorIterator", (0,), (1, 4), inside=inside), L("Result", (1,)))
    assert str(report.total_report["flops"]) == "4*trips_1"


@pytest.mark.parametrize(
    ("constant", "message"), [("MOST_LAYERS", "more than 1 layers"), ("MOST_TAGS", r"more than 1 tags")]
)
def test_what_a_file_holds_is_bounded(read, monkeypatch, constant, message):
    monkeypatch.setattr(f"costcore_openvino.model.{constant}", 1)
    with pytest.raises(CostError, match=rf"net\.xml.*{message}"):
        read(L("Parameter", (), (2,)), L("ReLU", (0,), (2,)), L("Result", (1,)))


@pytest.mark.parametrize("size", [8, 100])
def test_weights_that_become_shorter_are_an_error(read, tmp_path, monkeypatch, size):
    """The axes of a reduction, two integers of 8 bytes, are read of the file of weights."""
    (tmp_path / "net.bin").write_bytes(bytes(8))
    monkeypatch.setattr("costcore_openvino.shapes.Integers.beside", lambda *_: Integers(tmp_path / "net.bin", size))
    axes = L("Const", (), (2,), "I64", {"element_type": "i64", "offset": "0", "size": "16"})
    layers = L("Parameter", (), (1, 3, 8, 8)), axes, L("ReduceMean", (0, 1), (1, 3)), L("Result", (2,))
    if size < 16:
        assert read(*layers).total_report["n_layers"] > 0
    else:
        with pytest.raises(CostError, match=r"net\.bin became shorter while it was read"):
            read(*layers)


def test_the_oldest_version_of_the_format_is_read(read):
    content = ir(L("Parameter", (), (2,)), L("ReLU", (0,), (2,)), L("Result", (1,)))
    assert read(content.replace('version="11"', 'version="10"')).total_report["flops"] == 2


def test_given_shapes_are_those_of_a_file_without_open_sizes(read):
    layers = L("Parameter", (), (2,)), L("ReLU", (0,), (2,)), L("Result", (1,))
    assert read(*layers, inputs=(2,)).total_report["flops"] == 2
    with pytest.raises(
        CostError, match=r"has the shape \(2\) in the file \(got \(3,\)\). Change shapes with model.reshape"
    ):
        read(*layers, inputs=(3,))
    with pytest.raises(CostError, match=r"leaves no dimension open"):
        read(*layers, dims={"x": 3})


@pytest.mark.parametrize("size", ["<dim>2</dim>", "<dim>-1</dim>"])
@pytest.mark.filterwarnings("ignore:no calculator for:costcore.CostWarning")
def test_damaged_files_end_with_a_sentence(tmp_path, size):
    """Characters are changed, and pieces are removed or repeated; also of a file with open sizes."""
    generator = random.Random(5)
    original = (DATA / "lstm.xml").read_text(encoding="utf-8").replace("<dim>2</dim>", size)
    accepted = 0
    for _ in range(400):
        lines = original.splitlines(keepends=True)
        for _ in range(generator.choice((1, 2, 5))):
            i = generator.randrange(len(lines))
            how = generator.choice(("digit", "drop", "repeat", "swap"))
            if how == "digit":
                lines[i] = "".join(generator.choice("0123456789") if c.isdigit() else c for c in lines[i])
            elif how == "drop" and "<dim>" in lines[i]:
                del lines[i]
            elif how == "repeat" and "<dim>" in lines[i]:
                lines.insert(i, lines[i])
            else:
                j = generator.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
        (tmp_path / "x.xml").write_text("".join(lines), encoding="utf-8")
        try:
            report = estimate(tmp_path / "x.xml")
            str(report), report.to_json()
            accepted += 1
        except CostError as error:
            assert str(error)
    assert accepted > 40


def test_a_file_has_a_verdict(tmp_path, capsys):
    """x of 288 bytes and y of 576 are alive at once; weights of 288. With one memory both, and a context on a GPU."""
    path = tmp_path / "net.xml"
    x, w = L("Parameter", (), (1, 2, 6, 6)), L("Const", (), (4, 2, 3, 3))
    layers = (x, w, L("Convolution", (0, 1), (1, 4, 6, 6), data=WINDOWS), L("Result", (2,)))
    path.write_text(ir(*layers), encoding="utf-8")
    assert main(["fit", str(path), "sram=864B,flash=288B", "--align", "1"]) == 0
    assert main(["fit", str(path), "sram=863B,flash=288B", "--align", "1"]) == 1
    assert main(["fit", str(path), "sram=864B,flash=287B", "--align", "1"]) == 1
    assert main(["fit", str(path), "1152 B", "--align", "1"]) == 0
    assert main(["fit", str(path), "1151 B", "--align", "1"]) == 1
    assert main(["fit", str(DATA / "lstm.xml"), "l4"]) == 0
    assert main(["fit", str(path), "cortex-m4-168"]) == 2
    assert "is unknown: state it instead of the name" in capsys.readouterr().out
