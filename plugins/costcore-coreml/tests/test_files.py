"""Models that coremltools wrote, worked out by hand; the rows of all operations; files that are no models."""

import json
import random
import re
import shutil
from pathlib import Path

import pytest
from program import Op, V, model, number, part, program, saved, varint

from costcore import CostError, estimate
from costcore.cli.main import main
from costcore.graphs import GraphValue
from costcore_coreml.loops import counted_trips
from costcore_coreml.model import Block, Operation, TypeInfo
from costcore_coreml.rows import OLDER, ROWS, WALKED

DATA = Path(__file__).parent / "data"
CNN = DATA / "cnn.mlpackage"
FILES = sorted(DATA.glob("*.mlmodel"))

CONV, PRODUCTS, LINEAR = 8 * 8 * 8 * 27, 8 * 27 + 8, 128 * 10
"""The convolution: 8 x 8 places of 8 outputs of 27 products; its parameters; the products of the linear layer."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_models_are_counted(file):
    report = estimate(file)
    assert report.status == ("assumed" if file.stem in ("cond", "loop") else "complete")
    assert report.calls and not report.ignored_layers
    assert re.fullmatch("specification [4-9]", report.versions["coreml"])


@pytest.mark.parametrize("file", [CNN, DATA / "cnn_layers.mlmodel"], ids=["program", "layers"])
def test_a_network_has_the_same_macs_and_parameters_in_both_formats(file):
    report = estimate(file)
    found = report.total_report
    assert (found["macs"], found["n_params"]) == (CONV + LINEAR, PRODUCTS + LINEAR + 10)
    shapes = {each["op"]: each["output_shapes"] for each in report.layer_report.values()}
    assert (shapes["conv"], shapes["max_pool"], shapes["softmax"]) == ([(1, 8, 8, 8)], [(1, 8, 4, 4)], [(1, 10)])


def test_lstm():
    """5 steps of 2 samples: four gates of 16 units multiply 8 inputs and 16 states; the two biases are summed."""
    (found,) = estimate(DATA / "lstm.mlmodel").layer_report.values()
    assert (found["op"], found["macs"]) == ("lstm", 10 * 4 * 16 * (8 + 16))
    assert found["n_params"] == 4 * 16 * (8 + 16) + 64


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("linear8", 8192 + 2 * 128 + 128),  # int8, with scales of two bytes and zero points of one
        ("palette4", 8192 // 2 + 2 * 16),  # indices of four bits, a table of 16 numbers of two bytes
        ("sparse", 8192 // 8 + 2 * 2048),  # a bit for each element, two bytes for those that are not zero
        ("block4", 8192 // 2 + 2 * 128 * 2),  # four bits, a scale for each block of 32
        ("grouped4", 8192 // 2 + 2 * 16 * 8),  # a table for each group of 16 rows
        ("sparse8", 8192 // 8 + 2043 + 2 * 128),
        ("sparse4", 8192 // 8 + 2043 // 2 + 1 + 2 * 16),
    ],
)
def test_compressed_weights_are_read_as_they_are_stored(name, weights):
    """The first layer: 2 x 64 inputs and 128 biases of two bytes each besides."""
    report = estimate(DATA / f"{name}.mlmodel")
    first = report.layer_report["linear-1"]
    assert (first["macs"], first["n_params"]) == (2 * 64 * 128, 64 * 128 + 128)
    assert first["mread"] == 2 * 2 * 64 + weights + 2 * 128
    assert "unpacking them is not counted" in report.notes[0]


def test_a_state_is_read_and_written():
    """4 x 8 numbers of two bytes: a row is written into a copy, that is written back, and summed up."""
    report = estimate(DATA / "state.mlmodel")
    found = {name: (each["mread"], each["mwrite"]) for name, each in report.layer_report.items()}
    assert found["write_state-1"] == (64, 64)
    assert found["reduce_sum-1"] == (64, 16)
    assert report.arena(16).peak >= 64


def test_open_sizes_are_symbols_and_can_be_given():
    path = DATA / "range.mlmodel"
    report = estimate(path)
    assert str(report.total_report["macs"]) == f"{CONV + LINEAR}*x_1_0"
    assert report.subs(x_1_0=4).total_report["macs"] == 4 * (CONV + LINEAR)
    assert estimate(path, dims={"x_1_0": 4}) == estimate(path, (4, 3, 8, 8)) == estimate(path, {"x_1": (4, 3, 8, 8)})


def test_enumerated_shapes_are_open_sizes():
    """Stride 2 makes 16 x 12 places of 32 x 24: 8 outputs of 27 products, 4 of 8; a mean, and rows."""
    report = estimate(DATA / "enumerated.mlmodel", (1, 3, 32, 24))
    assert report.total_report["macs"] == 192 * (8 * 27 + 4 * 8)
    assert report.layer_report["transpose-1"]["output_shapes"] == [(1, 192, 8)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": (4, 3, 8)}, r"input 'x_1' has the shape \(\?, 3, 8, 8\) in the file"),
        ({"inputs": (4, 3, 9, 8)}, r"has the shape \(\?, 3, 8, 8\) in the file"),
        ({"inputs": {"z": (4,)}}, "z"),
        ({"inputs": [(4, 3, 8, 8), (1,)]}, "2 inputs were given"),
        ({"dims": {"z": 4}}, "x_1_0"),
        ({"dims": {"x_1_0": -4}}, "must be 0 or more"),
        ({"function": "other"}, "main"),
    ],
)
def test_options_that_do_not_fit_are_errors(options, message):
    with pytest.raises(CostError, match=rf"range\.mlmodel.*{message}"):
        estimate(DATA / "range.mlmodel", **options)


def test_a_branch_is_the_larger_one_and_a_loop_a_symbol_or_as_given():
    """The larger branch has two functions of 8 elements. The loop: 8 exp and an add, and one more test than runs."""
    assert estimate(DATA / "cond.mlmodel").total_report["flops"] == 16
    assert str(estimate(DATA / "loop.mlmodel").total_report["flops"]) == "10*trips_1 + 1"
    assert estimate(DATA / "loop.mlmodel", trips=3).total_report["flops"] == 31


def test_a_loop_that_counts_to_a_number_runs_as_often():
    """A GRU is a loop of 5 steps of 2 samples: 3 gates of 16 units multiply 8 inputs and 16 states; 6 biases of 16."""
    report = estimate(DATA / "gru.mlmodel")
    found = report.total_report
    assert (found["macs"], found["n_params"], report.status) == (10 * 3 * 16 * 24, 3 * 16 * 24 + 6 * 16, "complete")


def _number(value):
    return GraphValue((), "int32", is_stored=True, data=(value,))


def _counting(limit=5, step=2, *, joined="logical_and", other=None):
    """Return how often a loop runs that begins at 1 and adds a step while the number is less than a limit."""
    kind = TypeInfo((), "int32")
    less = Operation("less", "", {"x": ["i"], "y": [limit]}, [("a", None)])
    both = Operation(joined, "", {"x": ["a"], "y": ["b"]}, [("c", None)])
    second = Operation("less", "", {"x": ["j"], "y": ["n"]}, [("b", None)])
    test = Block([("i", kind), ("j", kind)], ["c"], [less, second, both])
    adds = [
        Operation("add", "", {"x": ["k"], "y": [step]}, [("k2", None)]),
        Operation("add", "", {"x": [_number(1)], "y": ["l"]}, [("l2", None)]),
    ]
    body = Block([("k", kind), ("l", kind)], ["k2", "l2"], adds)
    return counted_trips(test, body, [_number(1), other or _number(0)], {"n": _number(3), "x": GraphValue((), "int32")})


@pytest.mark.parametrize(
    ("trips", "options"),
    [
        (2, {"limit": _number(5)}),  # 1, 3
        (3, {"limit": _number(9)}),  # 1, 3, 5, 7, but the other counts 0, 1, 2
        (0, {"limit": _number(1)}),
        (1, {"limit": "n"}),
        (None, {"limit": "x"}),  # depends on data
        (None, {"limit": "j"}),  # changes
        (None, {"step": _number(0)}),
        (None, {"step": "k"}),
        (None, {"step": "x"}),
        (None, {"joined": "logical_or"}),
        (None, {"other": GraphValue((), "int32")}),
    ],
)
def test_what_a_counter_says_of_a_loop(trips, options):
    assert _counting(**{"limit": _number(5), "step": _number(2), **options}) == trips


def test_a_convolution_in_the_older_format_may_be_given_its_weight(tmp_path):
    """6 channels of 2 x 2 places, 4 inputs, 3 x 3 taps, in a layer of two operands, and without one."""
    pair = part(20, varint(3), varint(3))
    for operands, n_params in ((("x", "w"), 0), (("x",), 6 * 36)):
        inputs = [
            part(1, part(1, name), part(3, part(5, part(1, *map(varint, shape)), number(2, 65568))))
            for name, shape in (("x", (1, 4, 4, 4)), ("w", (6, 4, 3, 3)))
        ]
        layer = part(1, "c") + b"".join(part(2, name) for name in operands) + part(3, "y")
        layer += part(100, number(1, 6), number(2, 4), number(10, 1), pair, part(50, part(1)), part(90))
        (tmp_path / "c.mlmodel").write_bytes(
            number(1, 4) + part(2, *inputs, part(10, part(1, "y"))) + part(500, part(1, layer))
        )
        report = estimate(tmp_path / "c.mlmodel")
        assert (report.total_report["macs"], report.total_report["n_params"]) == (24 * 36, n_params)


def test_every_operation_has_a_row():
    """Those that unpack weights are folded."""
    names = set((DATA / "operations.txt").read_text(encoding="utf-8").split())
    priced = {rule.native.removeprefix("coreml::") for rule in ROWS}
    folded = {name for name in names if name.startswith("constexpr_")}
    assert priced - names == {"coreml_update_state", "write_state"} | OLDER  # how states are written in files
    assert names - priced == folded | WALKED


def test_the_operations_are_those_of_coremltools():
    pytest.importorskip("coremltools", reason="compares the list with the registry of the installed coremltools")
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    listed = set((DATA / "operations.txt").read_text(encoding="utf-8").split())
    assert {name for name in SSAOpRegistry.core_ops if name[0] != "_"} == listed


X = {"x": V((2, 3, 8, 8), "float16")}
STORED = V((3,), stored=True)


@pytest.mark.parametrize(
    ("kind", "inputs", "shape", "op", "flops"),
    [
        ("clamped_relu", {"x": "%x", "alpha": 0.1, "beta": 6.0}, (2, 3, 8, 8), "leaky_clip", 3 * 384),
        ("linear_activation", {"x": "%x", "alpha": 2.0, "beta": 1.0}, (2, 3, 8, 8), "scale_and_shift", 384),
        ("softplus_parametric", {"x": "%x"}, (2, 3, 8, 8), "parametric_softplus", 5 * 384),
        ("reduce_sum", {"x": "%x", "axes": (2, 3), "keep_dims": False}, (2, 3), "reduce_sum", 6 * 63),
        ("matmul", {"x": "%x", "y": V((5, 8), stored=True), "transpose_y": True}, (2, 3, 8, 5), "linear", 48 * 5 * 8),
        (
            "batch_norm",
            {"x": "%x", "mean": STORED, "variance": STORED},
            (2, 3, 8, 8),
            "batch_norm",
            384,
        ),
    ],
)
def test_operations(kind, inputs, shape, op, flops):
    report = estimate(model(X, Op(kind, inputs, {"y": V(shape, "float16")})))
    (found,) = report.layer_report.values()
    assert (report.status, found["op"]) == ("complete", op)
    assert found["flops"] == flops


WINDOW = {"kernel_sizes": (3, 2), "strides": (2, 1), "pad_type": "custom", "pad": (1, 1, 0, 1), "ceil_mode": True}
WEIGHT, PART = V((6, 1, 3, 3), stored=True), V((4, 8), stored=True)
QUERY = {"query": "%q", "key": "%k", "value": "%v", "attn_mask": "%m"}
INDEX, ROW = V((5,), "int32"), V((5, 8))
BOTH = {**{f"weight_{side}_back": V((16, 8 if side == "ih" else 4), stored=True) for side in ("ih", "hh")}}
GATES = {"weight_ih": V((16, 8), stored=True), "weight_hh": V((16, 4), stored=True)}

ATTRIBUTES = [
    # of x of (2, 3, 8, 8) in float16 unless the operands say otherwise: entries of the report, and attributes
    (
        "conv",
        {"weight": WEIGHT, "groups": 3, "dilations": (1, 2), "pad_type": "same"},
        (2, 6, 8, 8),
        {"groups": 3, "kernel": (3, 3), "padding": (1, 2), "dilation": (1, 2), "stride": (1, 1)},
    ),
    (
        "avg_pool",
        WINDOW,
        (2, 3, 5, 8),
        {"kernel": (3, 2), "stride": (2, 1), "padding": ((1, 1), (0, 1)), "ceil_mode": True, "dilation": (1, 1)},
    ),
    ("l2_pool", {"kernel_sizes": (2, 2), "strides": (2, 2)}, (2, 3, 4, 4), {"p": 2, "padding": (0, 0)}),
    ("max_pool", {"kernel_sizes": (3, 2), "pad_type": "same_lower"}, (2, 3, 8, 8), {"padding": ((1, 1), (1, 0))}),
    ("max_pool", {"kernel_sizes": (3, 2), "pad_type": "same"}, (2, 3, 8, 8), {"padding": ((1, 1), (0, 1))}),
    ("reduce_mean", {"axes": (-1, 1), "keep_dims": True}, (2, 1, 8, 1), {"axis": (1, 3), "keepdims": True}),
    ("reduce_mean", {"axes": (1,)}, (2, 8, 8), {"axis": (1,), "keepdims": False}),
    ("reduce_argmax", {"axis": -3}, (2, 8, 8), {"axis": 1}),
    ("reduce_argmin", {}, (2, 3, 8), {"axis": 3}),
    ("clip", {"alpha": 0.5, "beta": 2.0}, (2, 3, 8, 8), {"lower": 0.5, "upper": 2.0}),
    ("elu", {"alpha": 0.5}, (2, 3, 8, 8), {"alpha": 0.5}),
    ("leaky_relu", {"alpha": 0.25}, (2, 3, 8, 8), {"slope": 0.25}),
    ("gelu", {}, (2, 3, 8, 8), {"op": "gelu", "flops": 5 * 384}),
    ("gelu", {"mode": "TANH_APPROXIMATION"}, (2, 3, 8, 8), {"approximate": "tanh", "flops": 9 * 384}),
    ("gelu", {"mode": "SIGMOID_APPROXIMATION"}, (2, 3, 8, 8), {"op": "quick_gelu", "flops": 6 * 384}),
    ("prelu", {"alpha": V((3,), stored=True)}, (2, 3, 8, 8), {"n_params": 3}),
    (
        "softplus_parametric",
        {"alpha": V((3,), stored=True), "beta": V((3,), stored=True)},
        (2, 3, 8, 8),
        {"n_params": 6},
    ),
    ("softmax", {"axis": -3}, (2, 3, 8, 8), {"axis": 1}),
    ("softmax", {}, (2, 3, 8, 8), {"axis": 3}),
    ("l2_norm", {}, (2, 3, 8, 8), {"axis": (1, 2, 3)}),
    ("layer_norm", {"axes": (-1, 1), "gamma": V((3, 8), stored=True)}, (2, 3, 8, 8), {"axis": (1, 3), "n_params": 24}),
    ("instance_norm", {"gamma": STORED, "beta": STORED}, (2, 3, 8, 8), {"n_params": 6}),
    ("local_response_norm", {"size": 5}, (2, 3, 8, 8), {"size": 5}),
    ("resize_bilinear", {"target_size_height": 4, "target_size_width": 5}, (2, 3, 4, 5), {"mode": "linear"}),
    ("resize_nearest_neighbor", {"target_size_height": 4, "target_size_width": 5}, (2, 3, 4, 5), {"mode": "nearest"}),
    ("resize", {"shape": (4, 5)}, (2, 3, 4, 5), {"mode": "linear"}),
    ("resize", {"shape": (4, 5), "interpolation_mode": "NEAREST_NEIGHBOR"}, (2, 3, 4, 5), {"mode": "nearest"}),
    ("cumsum", {}, (2, 3, 8, 8), {"axis": 0}),
    ("cumsum", {"axis": -1}, (2, 3, 8, 8), {"axis": 3}),
    ("argsort", {}, (2, 3, 8, 8), {"axis": 3}),
    ("topk", {"k": 2, "axis": -3}, (2, 2, 8, 8), {"axis": 1, "k": 2}),
    ("topk", {}, (2, 3, 8, 1), {"axis": 3, "k": 1}),
    ("concat", {"x": None, "values": ["%x", "%x"], "axis": -3}, (2, 6, 8, 8), {"axis": 1}),
    ("stack", {"x": None, "values": ["%x", "%x"], "axis": -1}, (2, 3, 8, 8, 2), {"axis": 4}),
    ("gather", {"indices": (0, 2), "axis": -3}, (2, 2, 8, 8), {"op": "gather", "axis": 1}),
    ("gather", {"indices": (0, 1, 1)}, (3, 3, 8, 8), {"axis": 0}),
    ("gather_along_axis", {"indices": V((2, 3, 8, 5), "int32"), "axis": -1}, (2, 3, 8, 5), {"axis": 3}),
    # rows of a stored matrix; columns; a matrix that is given
    ("gather", {"x": V((50, 8), stored=True), "indices": INDEX}, (5, 8), {"op": "embedding", "n_params": 400}),
    ("gather", {"x": V((50, 8), stored=True), "indices": INDEX, "axis": -2}, (5, 8), {"op": "embedding"}),
    ("gather", {"x": V((50, 8), stored=True), "indices": INDEX, "axis": 1}, (50, 5), {"op": "gather"}),
    ("gather", {"x": V((50, 8)), "indices": INDEX}, (5, 8), {"op": "gather", "n_params": 0}),
    ("gather", {"x": V((50, 8, 2), stored=True), "indices": INDEX}, (5, 8, 2), {"op": "gather"}),
    ("gather", {"x": V((50, 8), "int32", stored=True), "indices": INDEX}, (5, 8), {"op": "gather"}),
    *(
        ("scatter", {"x": None, "data": ROW, "indices": INDEX, "updates": ROW, **mode}, (5, 8), {"flops": flops})
        for mode, flops in (({}, 40), ({"mode": "update"}, 0), ({"mode": "sub"}, 40), ({"mode": "div"}, 40))
    ),
    ("select", {"x": None, "cond": V((5, 1), "bool"), "a": ROW, "b": V((8,))}, (5, 8), {"mread": 5 + 160 + 32}),
    ("cast", {"dtype": "fp32"}, (2, 3, 8, 8), {"dtype": "float16"}),
    ("classify", {"x": None, "probabilities": V((2, 10))}, (), {"axis": 1}),
    ("random_categorical", {"x": V((2, 10)), "size": 3}, (2, 3), {"op": "multinomial"}),
    ("quantize", {"x": None, "input": ROW, "scale": STORED, "zero_point": STORED}, (5, 8), {"mread": 160 + 24}),
    ("dequantize", {"x": None, "input": ROW, "scale": STORED, "zero_point": STORED}, (5, 8), {"mread": 160 + 24}),
    (
        "crop_resize",
        {"roi": V((5, 1, 4, 1, 1)), "target_height": 2, "target_width": 7},
        (5, 2, 3, 2, 7),
        {"mode": "linear"},
    ),
    ("einsum", {"x": None, "values": ["%q", "%k"], "equation": "nqd,nkd->nqk"}, (2, 5, 7), {"macs": 2 * 5 * 7 * 4}),
    # x times y: columns of x by rows of y, each given as it is or transposed
    ("matmul", {"x": ROW, "y": V((8, 4))}, (5, 4), {"op": "matmul", "macs": 160}),
    (
        "matmul",
        {"x": V((8, 5)), "y": V((8, 4)), "transpose_x": True},
        (5, 4),
        {"macs": 160, "input_shapes": [(5, 8), (8, 4)]},
    ),
    (
        "matmul",
        {"x": ROW, "y": V((4, 8)), "transpose_y": True},
        (5, 4),
        {"macs": 160, "input_shapes": [(5, 8), (8, 4)]},
    ),
    ("matmul", {"x": ROW, "y": V((8, 4), stored=True)}, (5, 4), {"op": "linear", "input_shapes": [(5, 8), (4, 8)]}),
    ("matmul", {"x": ROW, "y": PART, "transpose_y": True}, (5, 4), {"op": "linear", "input_shapes": [(5, 8), (4, 8)]}),
    (
        "matmul",
        {"x": V((8, 5)), "y": V((8, 4), stored=True), "transpose_x": True},
        (5, 4),
        {"op": "matmul", "n_params": 32},
    ),
    ("matmul", {"x": ROW, "y": V((2, 8, 4), stored=True)}, (2, 5, 4), {"op": "matmul"}),
    ("lstm", {"x": V((5, 2, 8)), **GATES}, (1, 2, 4), {"hidden": 4, "bidirectional": False, "layers": 1}),
    ("lstm", {"x": V((5, 2, 8)), **GATES, **BOTH, "direction": "bidirectional"}, (1, 2, 8), {"bidirectional": True}),
    (
        "lstm",
        {"x": V((5, 2, 8)), **GATES, "bias": V((16,), stored=True), "peephole": V((12,), stored=True)},
        (1, 2, 4),
        {"peephole": True, "n_params": 16 * 12 + 28},
    ),
    # 70 scores of 4 products, and 30 results of 7; of each score the scale, the mask, exp and div; 10 sums of 7 exps
    ("scaled_dot_product_attention", {"x": None, **QUERY}, (2, 5, 3), {"causal": False, "flops": 280 + 210 + 280 + 60}),
]


@pytest.mark.parametrize(
    ("kind", "inputs", "shape", "expected"), ATTRIBUTES, ids=[f"{row[0]}-{i}" for i, row in enumerate(ATTRIBUTES)]
)
def test_attributes_are_read(kind, inputs, shape, expected):
    others = {"q": V((2, 5, 4)), "k": V((2, 7, 4)), "v": V((2, 7, 3)), "m": V((5, 7))}
    given = {name: value for name, value in inputs.items() if isinstance(value, V) and not value.stored}
    operands = {"x": "%x", **inputs, **{name: f"%{name}" for name in given}}
    found = [each for value in operands.values() for each in (value if isinstance(value, list) else [value])]
    named = {each[1:] for each in found if isinstance(each, str) and each[:1] == "%"}
    values = {name: value for name, value in {**X, **others, **given}.items() if name in named}
    operands = {name: value for name, value in operands.items() if value is not None}
    results = {"y": V(shape, "float16"), **({"z": V(shape, "int32")} if kind == "topk" else {})}
    (found,) = estimate(model(values, Op(kind, operands, results))).layer_report.values()
    found |= found["params"]
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("kind", "settings", "shape"),
    [
        ("conv", {"weight": V((5, 3, 3, 3), stored=True), "pad_type": "same", "strides": (2, 2)}, (2, 5, 4, 4)),
        ("conv", {"weight": V((5, 3, 3, 3), stored=True), "dilations": (2, 2)}, (2, 5, 4, 4)),
        ("conv_transpose", {"weight": V((3, 2, 4, 4), stored=True), "strides": (2, 2), "groups": 1}, (2, 2, 18, 18)),
        ("max_pool", {"kernel_sizes": (3, 3), "strides": (2, 2), "ceil_mode": True}, (2, 3, 4, 4)),
        ("reshape", {"shape": (0, -1)}, (2, 192)),
        ("transpose", {"perm": (0, 2, 3, 1)}, (2, 8, 8, 3)),
        ("expand_dims", {"axes": (0, -1)}, (1, 2, 3, 8, 8, 1)),
        ("slice_by_index", {"begin": (0, 1, 0, -4), "end": (2, 3, 0, 8), "stride": (1, 1, 2, 1),
                            "end_mask": (False, False, True, False), "squeeze_mask": (False,) * 4}, (2, 2, 4, 4)),
        ("slice_by_index", {"begin": (1, 0, 0, 0), "end": (0, 3, 8, 8), "squeeze_mask": (True, False, False, False)},
         (3, 8, 8)),
        ("pad", {"pad": (1, 2)}, (2, 3, 8, 11)),
        ("tile", {"reps": (1, 2, 1, 1)}, (2, 6, 8, 8)),
        ("flatten2d", {"axis": 2}, (6, 64)),
        ("upsample_nearest_neighbor", {"scale_factor_height": 2, "scale_factor_width": 1.5}, (2, 3, 16, 12)),
        ("resize_bilinear", {"target_size_height": 5, "target_size_width": 4}, (2, 3, 5, 4)),
        ("gather", {"indices": (0, 2), "axis": 1}, (2, 2, 8, 8)),
        ("reduce_argmax", {"axis": 1, "keep_dims": False}, (2, 8, 8)),
        ("shape", {}, (4,)),
    ],
)  # fmt: skip
def test_shapes_that_the_file_leaves_open_follow_from_the_operands(kind, settings, shape):
    operation = Op(kind, {"x": "%x", **settings}, {"y": V((None,) * len(shape), "float16")})
    (found,) = estimate(model(X, operation)).layer_report.values()
    assert found["output_shapes"] == [shape]


def test_a_shape_that_is_computed_is_followed():
    """The first axis of x, twice, and 64: [2 * batch, 64] of [batch, 2, 8, 8]."""
    one = V((1,), "int32")
    path = model(
        {"x": V((None, 2, 8, 8))},
        Op("shape", {"x": "%x"}, {"sizes": V((4,), "int32")}),
        Op("slice_by_index", {"x": "%sizes", "begin": (0,), "end": (1,)}, {"first": one}),
        Op("mul", {"x": "%first", "y": 2}, {"twice": one}),
        Op("const", {"val": (64,)}, {"rest": one}),
        Op("concat", {"values": ["%twice", "%rest"], "axis": 0}, {"wanted": V((2,), "int32")}),
        Op("reshape", {"x": "%x", "shape": "%wanted"}, {"y": V((None, None))}),
    )
    assert estimate(path, (5, 2, 8, 8)).layer_report["reshape-1"]["output_shapes"] == [(10, 64)]
    assert [str(size) for size in estimate(path).layer_report["reshape-1"]["output_shapes"][0]] == ["2*x_0", "64"]


def test_unpriced_operations_are_named():
    with pytest.warns(match="no calculator for 'coreml::my_operation'"):
        report = estimate(model(X, Op("my_operation", {"x": "%x"}, {"y": V((2, 3), "float16")})))
    (ignored,) = report.ignored_layers.values()
    assert (report.status, ignored["mread"], ignored["mwrite"]) == ("partial", 2 * 384, 2 * 6)


def relu(reads="%x"):
    return Op("relu", {"x": reads}, {"y": V((2, 3))})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"\x00" * 8, "damaged"),
        (b"\xff" * 40, "damaged"),
        (number(1, 4), "neither a program nor a neural network"),
        (number(1, 4) + part(202, b""), "a pipeline without models"),
        (number(1, 4) + part(402, b""), "of the kind 'ensemble of trees', which has no graph"),
        (number(1, 4) + part(555, b""), "of the kind 'custom model'"),
        (
            number(1, 4) + part(500, part(1, part(1, "l"), part(2, "x"), part(3, "y"), part(420, b""))),
            "reads 'x', but no earlier operation",
        ),
        (program(X, relu("%z")), "reads 'z', but no earlier operation has this result"),
        (program(X, Op("relu", {}, {"y": V((2,))})), r"\(relu\) has no operand x"),
        (program(X, Op("linear", {"x": "%x", "weight": V((3,), stored=True)}, {"y": V((2,))})), "weight has 1 axes"),
        (program(X, Op("relu", {"x": "%x"}, {}), outputs=["x"]), "has no result"),
        (program(X, Op("reshape", {"x": "%x", "shape": (-7, 2)}, {"y": V((None, 2))})), "has the shape"),
        (program(X, Op("cond", {"pred": "%x"}, {"y": V((2,))})), "has 0 blocks"),
    ],
)
def test_what_is_no_model_is_an_error(content, message):
    with pytest.raises(CostError, match=rf"\.mlmodel.*{message}"):
        estimate(saved(content))


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("{", "does not name a model"),
        ("[1]", "does not name a model"),
        (json.dumps({"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "../x"}}}), "outside the package"),
        (json.dumps({"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "/x"}}}), "outside the package"),
        (json.dumps({"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "none"}}}), "none"),
    ],
)
def test_packages_whose_manifest_names_no_model_are_errors(tmp_path, manifest, message):
    package = tmp_path / "x.mlpackage"
    package.mkdir()
    (package / "Manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(CostError, match=message):
        estimate(package)


@pytest.mark.filterwarnings("ignore:no calculator for:costcore.CostWarning")
def test_damaged_files_end_with_a_sentence(tmp_path):
    """Bytes are changed, removed and repeated."""
    generator = random.Random(5)
    contents = [path.read_bytes() for path in FILES]
    path, accepted = tmp_path / "x.mlmodel", 0
    for _ in range(400):
        data = bytearray(generator.choice(contents))
        for _ in range(generator.choice((1, 2, 5))):
            at = generator.randrange(len(data))
            how = generator.choice(("change", "drop", "repeat", "end"))
            if how == "change":
                data[at] = generator.randrange(256)
            elif how == "drop":
                del data[at]
            elif how == "repeat":
                data[at:at] = data[at : at + 8]
            elif generator.random() < 0.1:
                del data[at + 1 :]
        path.write_bytes(data)
        try:
            report = estimate(path)
            str(report), report.to_json()
            accepted += 1
        except CostError as error:
            assert str(error)
    assert accepted > 40


def test_the_command_line_reads_packages(tmp_path, capsys):
    shutil.copytree(CNN, tmp_path / "net.mlpackage")
    assert main([f"{tmp_path / 'net.mlpackage'}/", "--summary", "--columns", "type,macs"]) == 0
    assert "conv" in capsys.readouterr().out
    assert main(["fit", str(DATA / "cnn_layers.mlmodel"), "l4"]) == 0
