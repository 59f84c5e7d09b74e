"""Real files, sizes that a file leaves open, control flow, memory, and files that are no models."""

import json
import random
from pathlib import Path

import pytest
import tflite
from build import G, Op, T, model

from costcore import CostError, Report, compare, estimate, fit
from costcore.cli.main import main

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*.tflite"))
pytestmark = pytest.mark.filterwarnings("ignore:no calculator for:costcore.CostWarning")
MACS = {"micro_speech_quantized": 336_000, "person_detect": 7_157_888}
"""Published, or counted with another program (tests/data/README.md names the files)."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_real_files_are_counted(file):
    report = estimate(file)
    assert report.calls
    batch = {"hello_world_float": "assumed", "hello_world_int8": "assumed"}  # the file leaves it open
    assert report.status == {**batch, "person_detect_vela": "partial"}.get(file.stem, "complete")
    if file.stem in MACS:
        assert report.total_report["macs"] == MACS[file.stem]


def test_a_file_for_an_npu_says_that_it_hides_the_network():
    report = estimate(DATA / "person_detect_vela.tflite")
    assert [each["type"] for each in report.ignored_layers.values()] == ["ethos-u"]
    assert any("count the file from before the compilation" in note for note in report.notes)


def test_an_open_batch_is_one_or_as_it_is_given():
    """1 -> 16 -> 16 -> 1 features: 16 + 256 + 16 products per sample, and 288 + 33 parameters."""
    report = estimate(DATA / "hello_world_float.tflite")
    assert (report.total_report["macs"], report.status) == (288, "assumed")
    assert "leaves the batch size open: 1 is assumed" in report.assumptions[0][0]
    report = estimate(DATA / "hello_world_float.tflite", dims={"batch": "batch"})
    assert (str(report.total_report["macs"]), report.status) == ("288*batch", "complete")
    assert report.subs(batch=4) == estimate(DATA / "hello_world_float.tflite", (4, 1))
    assert report.subs(batch=4) == estimate(DATA / "hello_world_float.tflite", dims={"batch": 4})
    assert report.total_report["n_params"] == 321


def test_an_axis_that_the_batch_is_folded_into_is_a_multiple_of_it():
    tensors = [T((None, 7, 3)), T((2,), "int32", data=(-1, 3)), T((None, 3))]
    tensors[2] = tensors[2]._replace(shape=(None, 3))
    report = estimate(model(G(tensors, [Op("RESHAPE", (0, 1), (2,))], [0], [2])), (2, 7, 3))
    assert report.layer_report["RESHAPE-1"]["input_shapes"] == [(2, 7, 3)]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((4, 2), r"input '[^']+' has the shape \(\?, 1\) in the file \(got \(4, 2\)\)"),
        ({"x": (1, 1)}, "unknown input 'x'"),
        ([(1, 1), (1, 1)], "2 inputs were given, but the model has 1"),
    ],
)
def test_wrong_inputs_are_errors(inputs, message):
    with pytest.raises(CostError, match=message):
        estimate(DATA / "hello_world_float.tflite", inputs)


def test_the_arena_is_that_of_the_runtime():
    """Greedy by size, aligned to 16 bytes: the largest sum of an input and an output is 48 x 48 x (8 + 16) bytes."""
    arena = estimate(DATA / "person_detect.tflite").arena(16)
    assert (arena.peak, arena.size) == (48 * 48 * (8 + 16), 55_296)
    assert (arena.weights, arena.file) == (230_032, (DATA / "person_detect.tflite").stat().st_size)


def test_flash_is_the_file_which_the_runtime_keeps_whole():
    path = DATA / "person_detect.tflite"
    found = fit(path, None, "256 KB sram, 1 MB flash")
    assert found.needs["flash"] == path.stat().st_size == sum(found.parts["flash"].values())
    report = estimate(path)
    assert Report.from_json(report.to_json()).arena(16).file == path.stat().st_size
    assert "rest of the file" in found.to_html()
    assert "the file, which the runtime keeps whole: 300,568 B" in report.arena(16).remarks[0]


def test_quantized_files_have_the_products_of_real_ones():
    names = ("hello_world_float", "hello_world_int8")
    one, other = (estimate(DATA / f"{name}.tflite", (1, 1)).total_report for name in names)
    assert (one["macs"], one["n_params"]) == (other["macs"], other["n_params"])
    assert one["mrw"] > 3 * other["mrw"]
    assert compare(*(estimate(DATA / f"{name}.tflite", (1, 1)) for name in names)) is not None


def test_constants_of_half_precision_are_unpacked_before_the_run():
    """The weight is stored as float16; the layer reads it as float32, as the runtime does."""
    tensors = [T((2, 6)), T((5, 6), "float16", stored=True), T((5, 6)), T((2, 5))]
    operators = [Op("DEQUANTIZE", (1,), (2,)), Op("FULLY_CONNECTED", (0, 2), (3,), "FullyConnectedOptions")]
    report = estimate(model(G(tensors, operators, [0], [3])))
    (only,) = report.layer_report.values()
    assert (only["op"], only["macs"], only["n_params"], only["mread"]) == ("linear", 60, 30, 4 * (12 + 30))
    assert "stored in a smaller type" in report.notes[0]


SCALAR = T((), "int32")
CONDITION = G([SCALAR, T((), "int32", data=(10,)), T((), "bool"), T((2, 2))], [Op("LESS", (0, 1), (2,))], [0, 3], [2])
BODY = G(
    [SCALAR, T((), "int32", data=(2,)), SCALAR, T((2, 2)), T((2, 2))],
    [Op("ADD", (0, 1), (2,), "AddOptions"), Op("EXP", (3,), (4,))],
    [0, 3],
    [2, 4],
)
WHILE = {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2}


def loop(first, condition=CONDITION):
    tensors = [first, T((2, 2)), SCALAR, T((2, 2))]
    inputs = [1] if first.data is not None else [0, 1]
    return model(G(tensors, [Op("WHILE", (0, 1), (2, 3), "WhileOptions", WHILE)], inputs, [3]), condition, BODY)


def test_a_loop_that_counts_runs_as_often():
    """From 4 below 10 in steps of 2: 3 times."""
    report = estimate(loop(T((), "int32", data=(4,))))
    assert report.layer_report["EXP-1"]["flops"] == 3 * 4
    assert report.status == "complete"


@pytest.mark.parametrize(
    ("start", "step", "trips"), [(10, 2, 0), (12, 2, 0), (9, 2, 1), (4, 5, 2), (4, 0, None), (4, -1, None)]
)
def test_loops_end_when_the_counter_is_no_longer_below_10(start, step, trips):
    body = BODY._replace(tensors=[BODY.tensors[0], T((), "int32", data=(step,)), *BODY.tensors[2:]])
    tensors = [T((), "int32", data=(start,)), T((2, 2)), SCALAR, T((2, 2))]
    operators = [Op("WHILE", (0, 1), (2, 3), "WhileOptions", WHILE)]
    report = estimate(model(G(tensors, operators, [1], [3]), CONDITION, body))
    expected = ("assumed", "4*trips_1") if trips is None else ("complete", str(4 * trips))
    assert (report.status, str(report.layer_report["EXP-1"]["flops"])) == expected


def test_a_part_of_a_fixed_tensor_has_its_largest_size_not_that_of_a_batch():
    """Of 9 x 1 x 14 numbers of 4 bytes, as many rows as a carried number says: results of bidirectional layers."""
    tensors = [T((9, 1, 14)), T((3,), "int32"), T((3,), "int32"), T((None, None, None)), T((9, 1, 14))]
    report = estimate(model(G(tensors, [Op("SLICE", (0, 1, 2), (3,)), Op("EXP", (0,), (4,))], [0, 1, 2], [3, 4])))
    assert (report.status, report.layer_report["SLICE-1"]["mwrite"]) == ("assumed", 4 * 9 * 14)
    assert "counted at its maximum (9, 1, 14)" in report.assumptions[0][0]
    one = [T((9, 1, 14)), *tensors[1:3], T((None, 1, 14))]
    report = estimate(model(G(one, [Op("SLICE", (0, 1, 2), (3,))], [0, 1, 2], [3])))
    assert (report.status, report.layer_report["SLICE-1"]["mwrite"]) == ("assumed", 4 * 9 * 14)


IMAGES = T((None, None, None, 3), name="x")
HALVES = {"StrideH": 2, "StrideW": 2, "Padding": tflite.Padding.SAME}


def test_other_open_axes_are_symbols_and_shapes_follow_from_them():
    """As the interpreter resizes them: SAME halves, rounded up; a size of the shape."""
    tensors = [
        *(IMAGES, T((4, 3, 3, 3), stored=True), T((None, None, None, 4))),
        *(T((4,), "int32"), T((1,), "int32", data=(1,)), T((1,), "int32", data=(3,)), T((1,), "int32", data=(1,))),
        *(T((2,), "int32"), T((None, None, None, 4))),
    ]
    operators = [
        Op("CONV_2D", (0, 1), (2,), "Conv2DOptions", HALVES),
        Op("SHAPE", (0,), (3,)),
        Op("STRIDED_SLICE", (3, 4, 5, 6), (7,), "StridedSliceOptions"),
        Op("RESIZE_BILINEAR", (2, 7), (8,), "ResizeBilinearOptions"),
    ]
    file = model(G(tensors, operators, [0], [8]))
    shapes = [each["output_shapes"][0] for each in estimate(file).layer_report.values()]
    assert [str(size) for size in shapes[0]] == ["1", "4", "-floor(-x_1/2)", "-floor(-x_2/2)"]
    assert [str(size) for size in shapes[-1]] == ["1", "4", "x_1", "x_2"]
    report = estimate(file, (2, 33, 20, 3))
    assert report.total_report["macs"] == 2 * 17 * 10 * 4 * 27 and report.status == "complete"
    assert report.layer_report["RESIZE_BILINEAR-1"]["output_shapes"] == [(2, 4, 33, 20)]
    assert estimate(file, dims={"batch": 2, "x_1": 33, "x_2": "2*n"}).subs(n=10).total_report == report.total_report


@pytest.mark.parametrize(("channels", "status"), [((), "complete"), ((None,), "assumed")], ids=["none", "batch"])
def test_results_without_a_shape_get_it_from_their_operands(channels, status):
    """As the runtime finds it after SHAPE, twice the height and width of 6 x 5, then a VALID convolution and a sum."""
    tensors = [
        *(T((*(channels or (1,)), 6, 5, 3), name="x"), T((4,), "int32"), T((1,), "int32", data=(1,))),
        *(T((1,), "int32", data=(3,)), T((1,), "int32", data=(1,)), T((), "int32"), T((), "int32", data=(2,))),
        *(T((), "int32"), T(()), T((4, 3, 3, 3), stored=True), T(()), T((1,), "int32", data=(3,)), T(())),
    ]
    operators = [
        Op("SHAPE", (0,), (1,)),
        Op("STRIDED_SLICE", (1, 2, 3, 4), (5,), "StridedSliceOptions"),
        Op("MUL", (5, 6), (7,)),
        Op("RESIZE_NEAREST_NEIGHBOR", (0, 7), (8,), "ResizeNearestNeighborOptions"),
        Op("CONV_2D", (8, 9), (10,), "Conv2DOptions", {"StrideH": 1, "StrideW": 1, "Padding": tflite.Padding.VALID}),
        Op("SUM", (10, 11), (12,), "ReducerOptions"),
    ]
    report = estimate(model(G(tensors, operators, [0], [12])))
    assert [each["output_shapes"][0] for each in report.layer_report.values()][3:] == [
        *((1, 3, 12, 10), (1, 4, 10, 8), (1, 10, 8)),
    ]
    assert (report.total_report["macs"], report.status) == (10 * 8 * 4 * 27, status)


def test_a_size_that_depends_on_data_is_a_symbol_of_its_tensor():
    tensors = [T((8,)), T((None, None), name="at")]
    report = estimate(model(G(tensors, [Op("WHERE", (0,), (1,))], [0], [1])))
    assert [str(size) for size in report.layer_report["WHERE-1"]["output_shapes"][0]] == ["at_0", "1"]
    assert report.status == "assumed"


def test_a_graph_that_is_called_has_the_sizes_that_it_is_given():
    inner = G([T((None, None)), T((None, None))], [Op("EXP", (0,), (1,))], [0], [1])
    tensors = [T((None, None), name="x"), T((None, None)), T((None, None)), T((), "bool")]
    sides = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1}
    operators = [Op("IF", (3, 0), (1,), "IfOptions", sides), Op("EXP", (1,), (2,))]
    report = estimate(model(G(tensors, operators, [0, 3], [2]), inner), [(2, 5), ()])
    assert report.total_report["flops"] == 2 * 10


def both(limit, second="LESS"):
    """A condition of two comparisons, below 10 and below a limit, which both have to hold."""
    tensors = [SCALAR, T((), "int32", data=(10,)), T((), "bool"), T((2, 2)), limit, T((), "bool"), T((), "bool")]
    compared = [Op("LESS", (0, 1), (2,)), Op(second, (0, 4), (5,)), Op("LOGICAL_AND", (2, 5), (6,))]
    return G(tensors, compared, [0, 3], [6])


def test_of_two_comparisons_the_first_that_fails_ends_the_loop():
    """From 4 in steps of 2: 3 times below 10, twice below 7."""
    report = estimate(loop(T((), "int32", data=(4,)), both(T((), "int32", data=(7,)))))
    assert report.layer_report["EXP-1"]["flops"] == 2 * 4
    assert report.status == "complete"


def test_a_comparison_of_another_kind_makes_the_loop_depend_on_data():
    limits = (both(T((), "int32", data=(7,)), "NOT_EQUAL"), both(T((), "int32", stored=True)), both(SCALAR))
    for condition in limits:
        report = estimate(loop(T((), "int32", data=(4,)), condition))
        assert str(report.layer_report["EXP-1"]["flops"]) == "4*trips_1"


def test_a_limit_that_the_body_changes_makes_the_loop_depend_on_data():
    condition = G([SCALAR, SCALAR, T((), "bool")], [Op("LESS", (0, 1), (2,))], [0, 1], [2])
    tensors = [SCALAR, SCALAR, T((), "int32", data=(1,)), SCALAR, SCALAR]
    operators = [Op("ADD", (0, 2), (3,), "AddOptions"), Op("ADD", (1, 2), (4,), "AddOptions")]
    ends = [T((), "int32", data=(0,)), T((), "int32", data=(5,)), SCALAR, SCALAR]
    main = G(ends, [Op("WHILE", (0, 1), (2, 3), "WhileOptions", WHILE)], [], [2])
    kept, changed = (model(main, condition, G(tensors, operators, [0, 1], [3, last])) for last in (1, 4))
    assert estimate(kept).status == "complete"
    assert estimate(changed).status == "assumed"


def test_a_loop_that_depends_on_data_is_a_symbol_or_as_given():
    report = estimate(loop(SCALAR))
    assert (report.status, str(report.layer_report["EXP-1"]["flops"])) == ("assumed", "4*trips_1")
    assert estimate(loop(SCALAR), trips=5).layer_report["EXP-1"]["flops"] == 20


def choice(then: G, other: G) -> G:
    """Return a graph that chooses between two others, of 2 times 2 numbers."""
    options = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2}
    return G([T((), "bool"), T((2, 2)), T((2, 2))], [Op("IF", (0, 1), (2,), "IfOptions", options)], [0, 1], [2])


def chain(*names: str) -> G:
    """Return a graph of operators that follow each other, of 2 times 2 numbers."""
    values = [T((2, 2)) for _ in range(len(names) + 1)]
    return G(values, [Op(name, (i,), (i + 1,)) for i, name in enumerate(names)], [0], [len(names)])


@pytest.mark.parametrize(
    ("then", "other", "counted", "flops"),
    [(["EXP"], ["EXP", "EXP"], "else", (4, 8)), (["EXP"], ["RESHAPE", "RESHAPE"], "then", (4, 0))],
)
def test_the_more_expensive_branch_is_counted_and_assumed(then, other, counted, flops):
    report = estimate(model(choice(chain(*then), chain(*other)), chain(*then), chain(*other)))
    assert (report.status, report.total_report["flops"]) == ("assumed", max(flops))
    assert report.assumptions[0][0] == (
        f"which branch of IF runs depends on data: the most expensive, {counted!r}, is counted "
        f"('then' has {flops[0]} FLOPs; 'else' has {flops[1]} FLOPs)"
    )


def test_the_arena_holds_the_larger_branch():
    """The caller holds the condition (1 byte) and x (16); the branch not counted has a copy of x (16), and 64 bytes."""
    wide = G([T((2, 2)), T((4, 4)), T((2, 2))], [Op("TILE", (0,), (1,)), Op("SLICE", (1,), (2,))], [0], [2])
    report = estimate(model(choice(chain("EXP", "EXP"), wide), chain("EXP", "EXP"), wide))
    assert (report.total_report["flops"], report.arena(align=1).peak) == (8, 1 + 16 + 16 + 64)


def test_graphs_that_call_themselves_are_an_error():
    main = G([T((2,)), T((2,))], [Op("CALL", (0,), (1,), "CallOptions", {"Subgraph": 0})], [0], [1])
    with pytest.raises(CostError, match="graphs are nested more than 32 deep"):
        estimate(model(main))


@pytest.mark.parametrize("most", [30, 31])
def test_the_objects_of_a_file_are_bounded(monkeypatch, most):
    """Of a function of 2 x 2 numbers: every list counts, and its entries.

    Those of the file: 2 for operators, 2 for buffers, 2 for graphs. Of the graph: 3 for tensors, 2 for operators, 2
    for inputs and for outputs. Of each of 2 tensors 3 for the shape, twice; 2 for operands and for results.
    """
    path = model(chain("EXP"))
    monkeypatch.setattr("costcore_tflite.model.MOST_OBJECTS", most)
    if most == 31:
        assert len(estimate(path).calls) == 1
    else:
        with pytest.raises(CostError, match="more objects than a file of its size can hold, or more than 30"):
            estimate(path)


@pytest.mark.parametrize("content", [b"", b"TFL3", b"\0\0\0\0TFL3", b"\x08\0\0\0ONNX" + bytes(40)])
def test_what_is_no_model_is_an_error(content, tmp_path):
    (tmp_path / "x.tflite").write_bytes(content)
    with pytest.raises(CostError, match=r"x\.tflite"):
        estimate(tmp_path / "x.tflite")


def test_damaged_files_end_with_a_sentence(tmp_path):
    """Bytes are changed at random, lengths and offsets among them, or the end is missing."""
    generator = random.Random(7)
    originals = [file.read_bytes() for file in FILES if file.stat().st_size < 10_000]
    accepted = 0
    for _ in range(600):
        content = bytearray(generator.choice(originals))
        for _ in range(generator.choice((1, 2, 5, 30))):
            content[generator.randrange(len(content))] = generator.choice(
                (0, 1, 127, 128, 255, generator.randrange(256))
            )
        if generator.random() < 0.2:
            del content[generator.randrange(8, len(content)) :]
        try:
            (tmp_path / "x.tflite").write_bytes(content)
            report = estimate(tmp_path / "x.tflite")
            str(report), report.to_json()
            accepted += 1
        except CostError as error:
            assert str(error)
    assert accepted > 60


PLANNED = {
    "add0": 1_920,
    "audio_preprocessor_int8": 3_040,
    "conv0": 10_432,
    "hello_world_float": 128,
    "hello_world_int8": 32,
    "keyword_scrambled": 672 + 10_240,
    "leaky_relu0": 10_240,
    "micro_speech_quantized": 5_968,
    "pad2": 10_304,
    "person_detect": 55_296,
    "quantize0": 3_840,
    "strided_slice0": 9_296,
    "trained_lstm": 5_696 + 160,
    "transpose_conv0": 23_696,
}
"""Bytes of tensors in the arena, by ``print_allocations`` of tflite_micro 20261023: the head, and variables.

Its build has no kernel for the operator of person_detect_vela.
"""


@pytest.mark.parametrize("name", PLANNED)
def test_it_fits_what_the_runtime_plans_and_nothing_less(name):
    path, size = DATA / f"{name}.tflite", PLANNED[name]
    assert fit(path, None, {"sram": size}, align=16).fits
    below = fit(path, None, {"sram": size - 1}, align=16, suggestions=False)
    assert (below.fits, below.needs) == (False, {"sram": size})


def test_an_open_batch_is_asked_for():
    verdict = fit(DATA / "hello_world_int8.tflite", None, "sram=2KB", dims={"batch": "batch"})
    assert verdict.fits is None
    assert "--dim batch=1" in verdict.because


NAMES = sorted(path.stem for path in DATA.glob("*.tflite"))


@pytest.mark.parametrize("name", NAMES)
def test_every_file_has_a_verdict(name, capsys):
    """Of SRAM and flash, and of the memory of a GPU, which takes the context, weights and buffers: by the exit code."""
    path = str(DATA / f"{name}.tflite")
    assert main(["fit", path, "l4"]) == 0
    capsys.readouterr()
    assert main(["fit", path, "1 B sram, 1 B flash", "--no-suggestions", "--format", "json"]) == 1
    needs = json.loads(capsys.readouterr().out)["needs"]
    exactly = ",".join(f"{memory}={nbytes}B" for memory, nbytes in needs.items())
    assert main(["fit", path, exactly]) == 0
    for memory, nbytes in needs.items():
        if not nbytes:  # two files store no tensor that a run reads
            continue
        assert main(["fit", path, f"{memory}={nbytes - 1}B", "--no-suggestions"]) == 1
        assert f"exceeds {memory} by 1 B" in capsys.readouterr().out


def test_what_cannot_be_said_is_a_sentence(capsys):
    assert main(["fit", str(DATA / "hello_world_int8.tflite"), "l4", "--dim", "batch=batch"]) == 2
    assert "sizes depend on batch: state numbers" in capsys.readouterr().out
    assert main(["fit", str(DATA / "conv0.tflite"), "cortex-m4-168"]) == 2
    assert "the size of the memory of cortex-m4-168 is unknown" in capsys.readouterr().out
