"""Sizes that a file leaves open: symbols of its inputs, and shapes as OpenVINO 2026.4 infers them."""

import re

import pytest
from ir import L, graph, ir, save, stored

from costcore import CostError, estimate

IMAGE = L("Parameter", (), (-1, 3, -1, -1), name="x")
ROWS = L("Parameter", (), (-1, -1, 8), name="x")
WINDOWS = {"strides": "2, 2", "dilations": "1, 1", "pads_begin": "1, 1", "pads_end": "1, 1"}
OPEN = (-1,) * 4


@pytest.fixture
def read(tmp_path):
    """Estimates a file with some layers."""

    def of(*layers, **options):
        save(tmp_path / "net.xml", *layers)
        return estimate(tmp_path / "net.xml", **options)

    return of


def shapes(report):
    """Return the shapes of the results of all calls, as texts without spaces."""
    found = [shape for each in report.layer_report.values() for shape in each["output_shapes"]]
    return [",".join(str(size).replace(" ", "") for size in shape) for shape in found]


@pytest.mark.parametrize(
    "inputs", [[(2, 3), (4, 2, 3)], {"x": (2, 3), "l1": (4, 2, 3)}, [(2, 3), [4, 2, 3]]], ids=["list", "names", "mixed"]
)
def test_inputs_of_unknown_rank_have_the_shapes_that_are_given(read, inputs):
    x, y = L("Parameter", (), (), data={"shape": "..."}, name="x"), L("Parameter", (), (), data={"shape": "..."})
    assert shapes(read(x, y, L("Add", (0, 1), ()), L("Result", (2,)), inputs=inputs)) == ["4,2,3"]


def test_a_convolution_and_a_pool_of_an_image_of_any_size(read):
    """(h + 2 - 3) // 2 + 1 rows of 4 outputs with 27 products each; subs gives what given sizes give."""
    pool = L("AvgPool", (2,), OPEN, data={"kernel": "3, 3", **WINDOWS, "rounding_type": "ceil"})
    net = IMAGE, L("Const", (), (4, 3, 3, 3)), L("Convolution", (0, 1), OPEN, data=WINDOWS), pool, L("Result", (3,))
    report = read(*net)
    assert report.status == "complete" and report.symbols == ("x_0", "x_2", "x_3")
    given = read(*net, inputs=(2, 3, 33, 64))
    assert given.total_report["macs"] == 2 * 4 * 17 * 32 * 27
    assert shapes(given) == ["2,4,17,32", "2,4,9,17"]
    assert report.subs(x_0=2, x_2=33, x_3=64).total_report == given.total_report
    assert read(*net, dims={"x_0": 2, "x_2": 33, "x_3": "2*n"}).subs(n=32).total_report == given.total_report
    assert read(*net, inputs={"x": (2, 3, "h", 64)}).subs(h=33).total_report == given.total_report


CASES = [
    (ROWS, L("MatMul", (0, 1), (-1,) * 3, data={"transpose_b": "true"}), [L("Const", (), (5, 8))], "x_0,x_1,5"),
    (ROWS, L("Reshape", (0, 1), (-1,) * 4, data={"special_zero": "true"}), [stored(0, -1, 2, 4)], "x_0,x_1,2,4"),
    (ROWS, L("Reshape", (0, 1), (-1,) * 2), [stored(-1, 16)], "floor(x_0*x_1/2),16"),
    (ROWS, L("Transpose", (0, 1), (-1,) * 3), [stored(2, 0, 1)], "8,x_0,x_1"),
    (ROWS, L("Unsqueeze", (0, 1), OPEN), [stored(-1)], "x_0,x_1,8,1"),
    (ROWS, L("Concat", (0, 0), (-1,) * 3, data={"axis": "1"}), [], "x_0,2*x_1,8"),
    (ROWS, L("Gather", (0, 1, 2), (-1,) * 3), [stored(0, 4), stored(2)], "x_0,x_1,2"),
    (ROWS, L("Slice", (0, 1, 2, 3, 4), (-1,) * 3), [stored(1), stored(-1), stored(1), stored(1)], "x_0,x_1-2,8"),
    (ROWS, L("ReduceMean", (0, 1), (-1,) * 2), [stored(1)], "x_0,8"),
    (ROWS, L("Pad", (0, 1, 2), (-1,) * 3), [stored(0, 1, 0), stored(0, 2, 0)], "x_0,x_1+3,8"),
    (ROWS, L("TopK", (0, 1), (-1,) * 3, data={"axis": "2"}), [stored(3)], "x_0,x_1,3"),
    (ROWS, L("OneHot", (0, 1, 1, 1), OPEN), [stored(9)], "x_0,x_1,8,9"),
    (ROWS, L("Tile", (0, 1), (-1,) * 3), [stored(1, 3, 1)], "x_0,3*x_1,8"),
    (ROWS, L("Einsum", (0, 0), (-1,) * 3, data={"equation": "btc,bsc->bts"}), [], "x_0,x_1,x_1"),
    (
        ROWS,
        L(
            "StridedSlice",
            (0, 1, 2, 3),
            (-1,) * 2,
            data={
                "begin_mask": "1,0",
                "end_mask": "1,1",
                "new_axis_mask": "",
                "shrink_axis_mask": "0,0",
                "ellipsis_mask": "",
            },
        ),
        [stored(0, 1), stored(0, 0), stored(1, 2)],
        "x_0,-floor(1/2-x_1/2),8",
    ),
    (IMAGE, L("SpaceToDepth", (0,), OPEN, data={"block_size": "2"}), [], "x_0,12,floor(x_2/2),floor(x_3/2)"),
    (
        IMAGE,
        L(
            "ExtractImagePatches",
            (0,),
            OPEN,
            data={"sizes": "2,2", "strides": "2,2", "rates": "1,1", "auto_pad": "valid"},
        ),
        [],
        "x_0,12,floor(x_2/2),floor(x_3/2)",
    ),
    (
        IMAGE,
        L("ConvolutionBackpropData", (0, 1), OPEN, data={**WINDOWS, "output_padding": "1, 1"}),
        [L("Const", (), (3, 5, 3, 3))],
        "x_0,5,2*x_2,2*x_3",
    ),
    (
        IMAGE,
        L("ROIAlign", (0, 1, 2), OPEN, data={"pooled_h": "7", "pooled_w": "7", "sampling_ratio": "2", "mode": "avg"}),
        [L("Parameter", (), (-1, 4), name="r"), L("Parameter", (), (-1,), "I32", name="i")],
        "r_0,3,7,7",
    ),
    (IMAGE, L("AdaptiveAvgPool", (0, 1), OPEN), [stored(3, 5)], "x_0,3,3,5"),
]


@pytest.mark.parametrize(("x", "layer", "operands", "expected"), CASES, ids=[case[1].type for case in CASES])
def test_shapes_follow_from_operands(read, x, layer, operands, expected):
    report = read(x, *operands, layer, L("Result", (1 + len(operands),)))
    assert (shapes(report)[0], report.status) == (expected, "complete")


def test_sizes_that_are_computed_from_sizes(read):
    """What torch writes of ``x.view(b, t // 2, -1)``: sizes are taken apart, divided and joined."""
    report = read(
        ROWS,
        L("ShapeOf", (0,), (3,), "I64"),
        stored(0),
        L("Gather", (1, 2, 2), (1,), "I64"),
        stored(1),
        L("Gather", (1, 4, 2), (1,), "I64"),
        stored(2),
        L("Divide", (5, 6), (1,), "I64"),
        stored(-1),
        L("Concat", (3, 7, 8), (3,), "I64", {"axis": "0"}),
        L("Reshape", (0, 9), (-1,) * 3),
        L("Result", (10,)),
        inputs=(3, 10, 8),
    )
    assert shapes(report)[-1] == "3,5,16"


def test_an_interpolation_to_a_scale_or_a_size(read):
    """A scale of 2 in single precision, in the file of weights as integers here."""
    by_scale = {"shape_calculation_mode": "scales", "mode": "nearest"}
    layers = IMAGE, stored(2, 2), stored(2, 3), L("Interpolate", (0, 1, 2), OPEN, data=by_scale), L("Result", (3,))
    new = [layer._replace(version="opset11") for layer in layers]
    assert shapes(read(*new)) == ["x_0,3,2*x_2,2*x_3"]


def test_a_size_that_depends_on_data_is_a_symbol_of_its_layer(read):
    net = L("Parameter", (), (-1,), name="x"), L("NonZero", (0,), (1, -1), "I64", name="at"), L("Result", (1,))
    report = read(*net)
    assert (shapes(report), report.status) == (["1,at_1"], "assumed")
    report = read(*net, dims={"at_1": 5})
    assert (shapes(report), report.status) == (["1,5"], "complete")


def test_states_hold_steps_of_earlier_passes(read):
    """Keys of one more token: as many as the batch has samples, and as the state holds and the token adds."""
    report = read(
        L("Parameter", (), (-1, 2, -1, 4), name="k"),
        L("Parameter", (), (-1, 2, 0, 4), name="empty"),
        L("ReadValue", (1,), OPEN, data={"variable_id": "s", "variable_shape": "?,2,?,4"}),
        L("Concat", (2, 0), OPEN, data={"axis": "2"}),
        L("Assign", (3,), OPEN, data={"variable_id": "s"}),
        L("Result", (3,)),
    )
    assert shapes(report)[0] == "empty_0,2,past,4" and shapes(report)[1] == "empty_0,2,k_2+past,4"
    assert any("states hold past steps" in note for note in report.notes)
    state = {"variable_id": "s", "variable_shape": "?,2,?,4", "variable_type": "f32"}
    x, value = L("Parameter", (), (-1, 2), name="x"), L("ReadValue", (), OPEN, data=state)
    report = read(x, value, L("ReLU", (1,), OPEN), L("Result", (2,)), inputs=(3, 2), dims={"past": 5})
    assert shapes(report) == ["3,2,5,4"]
    value = L("ReadValue", (), (-1,), data={"variable_id": "s", "variable_shape": "?"})
    assert shapes(read(x, value, L("ReLU", (1,), (-1,)), L("Result", (2,)))) == ["past"]
    value = L("ReadValue", (), (-1, 0), data={"variable_id": "s", "variable_shape": "?,0"})
    assert shapes(read(x, value, L("ReLU", (1,), (-1, 0)), L("Result", (2,)))) == ["x_0,0"]


def test_a_loop_runs_as_often_as_its_input_has_parts(read):
    """x + x for each of its rows; the results are joined."""
    body = graph([L("Parameter", (), (1, -1)), L("Add", (0, 0), (1, -1)), L("Result", (1,))])
    ends = (
        '<input external_port_id="0" internal_layer_id="0" axis="0" part_size="1"/>'
        '<output external_port_id="1" internal_layer_id="2" axis="-2" part_size="1"/>'
    )
    inside = f"<port_map>{ends}</port_map><body>{body}</body>"
    x, loop = L("Parameter", (), (-1, -1), name="x"), L("TensorIterator", (0,), (-1, -1), inside=inside)
    report = read(x, loop, L("ReLU", (1,), (-1, -1)), L("Result", (2,)))
    assert shapes(report) == ["1,x_1", "x_0,x_1"]
    assert read(x, loop, L("Result", (1,)), inputs=(7, 5)).total_report["flops"] == 35


@pytest.mark.parametrize(("part", "trips"), [('part_size="2"', 4), ("", 7)])
def test_a_loop_takes_parts_of_its_input(read, part, trips):
    """x + x for 7 rows of 5, of which a part has 2 or 1."""
    body = graph([L("Parameter", (), (-1, -1)), L("Add", (0, 0), (-1, -1)), L("Result", (1,))])
    ends = f'<input external_port_id="0" internal_layer_id="0" axis="-2" {part}/>'
    inside = f"<port_map>{ends}</port_map><body>{body}</body>"
    loop = L("TensorIterator", (0,), (), inside=inside)
    report = read(L("Parameter", (), (-1, -1)), loop, L("Result", (1,)), inputs=(7, 5))
    size = int(part[11:12] or 1) * 5
    assert report.total_report["flops"] == trips * size


@pytest.mark.parametrize(("condition", "flops"), [("Const", "28"), ("Parameter", "4*trips_1")])
def test_a_loop_runs_as_often_as_its_limit_unless_its_condition_is_computed(read, condition, flops):
    layers = L("Parameter", (), (1, 4)), L("Exp", (0,), (1, 4)), L(condition, (), (), "BOOL")
    body = graph([*layers, L("Result", (1,)), L("Result", (2,))])
    inside = (
        '<port_map><input external_port_id="2" internal_layer_id="0"/>'
        '<output external_port_id="3" internal_layer_id="3"/>'
        '<output external_port_id="-1" internal_layer_id="4" purpose="execution_condition"/></port_map>'
        f"<body>{body}</body>"
    )
    start = L("Const", (), (), "BOOL")
    report = read(stored(7), start, L("Parameter", (), (1, 4)), L("Loop", (0, 1, 2), (1, 4), inside=inside))
    assert str(report.total_report["flops"]) == flops


def test_symbols_that_are_broadcast_are_noted(read):
    operands = L("Parameter", (), (-1, 8), name="a"), L("Parameter", (), (-1, 1), name="b")
    report = read(*operands, L("Add", (0, 1), (-1, 8)), L("Result", (2,)))
    assert "b_0 is assumed equal to a_0: their operands are broadcast" in report.notes
    assert shapes(report) == ["a_0,8"]


@pytest.mark.parametrize(
    ("kind", "x", "stated", "operands"),
    [
        ("Unsqueeze", (3, -1), (3, 1, -1), [L("Const", (), (1,))]),
        ("Squeeze", (1, 3, -1), (3, -1), [L("Const", (), (1,))]),
        ("ReduceMean", (2, 3, -1), (2, -1), [L("Const", (), (1,))]),
        ("ReduceMax", (2, 3, -1), (2, 1, -1), [L("Const", (), (1,))]),
        ("Gather", (2, 3, -1), (2, -1), [L("Const", (), ()), L("Const", (), ())]),
    ],
)
def test_axes_that_are_not_there_are_those_that_fit(tmp_path, kind, x, stated, operands):
    data = {"keep_dims": "true" if len(x) == len(stated) else "false"}
    layer = L(kind, tuple(range(1 + len(operands))), stated, data=data)
    net = L("Parameter", (), x, name="x"), *operands, layer, L("Result", (1 + len(operands),))
    (tmp_path / "net.xml").write_text(ir(*net), encoding="utf-8")
    report = estimate(tmp_path / "net.xml")
    expected = ",".join(f"x_{len(x) - 1}" if size == -1 else str(size) for size in stated)
    assert (shapes(report), report.status) == ([expected], "assumed")
    found = next(iter(report.layer_report.values()))
    assert found["params"].get("axis") == ((1,) if kind.startswith("Reduce") else None)


def test_a_file_without_its_weights_keeps_the_sizes_that_it_states(tmp_path):
    """The order of a Transpose is in the weights: the open axis of the result is the open one of the operand."""
    layers = L("Parameter", (), (1, 3, -1), name="x"), L("Const", (), (3,)), L("Transpose", (0, 1), (1, -1, 3))
    (tmp_path / "net.xml").write_text(ir(*layers, L("Result", (2,))), encoding="utf-8")
    report = estimate(tmp_path / "net.xml")
    assert (shapes(report), report.status) == (["1,x_2,3"], "assumed")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": (1, 4, 8, 8)}, "input 'x' has the shape (?, 3, ?, ?) in the file (got (1, 4, 8, 8))"),
        ({"inputs": {"y": (1,)}}, "unknown input 'y'"),
        ({"dims": {"x_1": 3}}, "unknown dimension 'x_1' (expected x_0, x_2, x_3)"),
        ({"dims": {"x_0": -1}}, "the size of 'x_0' must be 0 or more"),
        ({"inputs": (1, 3, 5, 8)}, "input 'x' has 8..64 elements along axis 2 (got 5)"),
    ],
)
def test_sizes_that_do_not_fit(read, options, message):
    with pytest.raises(CostError, match=re.escape(message)):
        read(IMAGE._replace(data={"shape": "?,3,8..64,?"}), L("ReLU", (0,), OPEN), L("Result", (1,)), **options)


def test_sizes_at_the_ends_of_a_range_fit(read):
    image = IMAGE._replace(data={"shape": "?,3,8..64,?"})
    report = read(image, L("ReLU", (0,), OPEN), L("Concat", (1, 1), OPEN, data={"axis": "2"}), inputs=(1, 3, 64, 8))
    assert shapes(report) == ["1,3,64,8", "1,3,128,8"]
    assert shapes(read(image, L("ReLU", (0,), OPEN), L("Result", (1,)), inputs=(1, 3, 8, 8))) == ["1,3,8,8"]
