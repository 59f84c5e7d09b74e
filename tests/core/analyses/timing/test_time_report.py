"""The time of a run: totals, tables, dtypes and refusals, by hand on a device with round rates.

On the toy device a square product of width n takes 2 n² FLOP at 1e12 per second in float32, and reads 4 (n² + n) bytes,
of which 1 MB may be in the cache and the rest comes at 1e12 bytes per second.
"""

from __future__ import annotations

import json
from io import StringIO

import pytest

from costcore import CostError, Report, Trace
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.calculators.layer_costs import cost_of
from tests.core.analyses.timing.toy_device import TOY, Memory, device
from tests.core.given_costs import Step, dense, net, relu
from tests.core.traces import Call, CallCost, Run


def shown(show, **options):
    out = StringIO()
    show(out, **options)
    return out.getvalue()


def test_the_bound_of_a_run_is_the_sum_of_its_groups():
    time = net(dense("a", 1000), relu("b", 1000)).time(TOY)
    product, activation = time.groups
    # 4,004,000 bytes read, 4,000 written, against 2e6 FLOP in 2 µs
    assert (product.bound_seconds, product.binds) == (pytest.approx(3.004e-6), "dram")
    assert (activation.bound_seconds, activation.binds) == (pytest.approx(1000 / 0.5e12), "vector")
    assert time.bound_seconds == pytest.approx(3.004e-6 + 2e-9)
    assert time.seconds is None
    assert time.status == "complete"
    assert repr(time) == "<TimeReport: toy, at least 3.006e-06 s>"


def test_a_run_reads_all_weights_though_those_of_each_call_fit_into_the_cache():
    time = net(*(dense(name, 400) for name in "abcd"), framework="torch").time(TOY)
    assert [group.binds for group in time.groups] == ["vector"] * 4
    # 4 x 640,000 bytes of weights and 1,600 of input, of which 1 MB may be in the cache; products alone 4 x 0.32 µs
    assert time.whole_run.seconds == time.bound_seconds == pytest.approx(1.5616e-6)
    *groups, whole = time.layers()
    assert (whole["name"], whole["binds"]) == ("whole run", "dram")
    assert whole["bound_seconds"] == pytest.approx(1.5616e-6 - 1.28e-6)
    assert sum(entry["bound_seconds%"] for entry in (*groups, whole)) == pytest.approx(100)
    assert time.by_type()["total"]["binds"] == "vector 82%, dram 18%"
    assert any(line.startswith("whole run: ") for line in time.remarks)


def test_a_weight_that_several_calls_read_comes_once():
    time = net(*(dense("tied", 400) for _ in range(4)), framework="torch").time(TOY)
    assert time.whole_run.seconds == 0  # 641,600 bytes fit
    assert time.bound_seconds == pytest.approx(1.28e-6)


def test_a_table_read_in_part_counts_that_part():
    table, indices, y = Tensor((10**6, 4), role="param"), Tensor((500_000,), "int64"), Tensor((500_000, 4))
    layer = Layer("embedding", {"w": table, "x": indices}, [y])
    cost = cost_of(layer)
    call = Call(layer, "embedding", name="embedding-1", inputs=(1, 2), outputs=(3,))
    time = Report(Trace((CallCost(call, cost),), Run())).time(TOY)
    assert time.whole_run.seconds == pytest.approx((8_000_000 + 4_000_000 - 1e6) / 1e12)


def test_a_view_of_a_weight_is_the_weight():
    w = Tensor((1000, 1000), role="param")
    view = Call(Layer("view", {"x": w}, [w]), "view", name="view-1", inputs=(1,), outputs=(2,))
    add = Call(Layer("add", {"x0": w, "x1": w}, [w]), "add", name="add-1", inputs=(2, 1), outputs=(3,))
    records = (CallCost(view, Cost(Operations(), 0, 0, {})), CallCost(add, Cost(Operations(add=1), 8_000_000, 0, {})))
    time = Report(Trace(records, Run())).time(TOY)
    assert time.whole_run.seconds == pytest.approx(3e-6)  # 4 MB once, not twice


def test_a_loop_takes_as_often_as_it_runs():
    x = Tensor((1000, 500))
    layer = Layer("relu", {"x": x}, [x])
    call = Call(layer, "relu", name="relu-1", inputs=(1,), outputs=(2,), times=3)
    cost = cost_of(layer)
    time = Report(Trace((CallCost(call, cost),), Run())).time(TOY)
    (group,) = time.groups
    # one execution reads and writes 2 MB, of which 1 MB each may be in the cache
    assert group.bound_seconds == time.bound_seconds == pytest.approx(3 * 2e-6)
    assert (group.read, group.written) == (6_000_000, 6_000_000)


def test_a_call_without_a_cost_has_no_time():
    time = net(dense("a", 1000), Step("mystery", known=False)).time(TOY)
    assert len(time.groups) == 1
    assert time.status == "partial"
    assert "partial" in repr(time)
    assert any("mystery" in line for line in time.remarks)


def test_a_table_has_the_groups_and_the_total():
    time = net(dense("a", 1000), relu("b", 1000), relu("c", 1000)).time(TOY)
    assert shown(
        time.show_report, columns=["name", "mread", "bound_seconds", "bound_seconds%", "binds"], unit="auto"
    ) == (
        "Layer name,MemRead,Bound,Bound (%),Bound by\n"
        "linear-1,3.819 MiB,3.004 µs,99.867%,dram\n"
        "relu-1,3.906 KiB,2.0 ns,0.066%,vector\n"
        "relu-2,3.906 KiB,2.0 ns,0.066%,vector\n"
        "total,3.826 MiB,3.008 µs,100.0%,dram\n"
    )
    assert shown(time.show_summary_report, n_digits=4) == (
        "Layer type,# Groups,Bound µs,Bound (%),Bound by\n"
        "linear,1,3.004,99.867%,dram\n"
        "relu,2,0.004,0.133%,vector\n"
        "total,3,3.008,100.0%,dram\n"
    )


def test_rows_can_be_sorted_and_limited():
    time = net(relu("b", 1000), dense("a", 1000), relu("c", 2000)).time(TOY)
    columns = ["name", "mread", "bound_seconds"]
    assert shown(time.show_report, columns=columns, sort="bound_seconds", top=1, unit="auto") == (
        "Layer name,MemRead,Bound\nlinear-1,3.819 MiB,3.004 µs\nothers,11.719 KiB,6.0 ns\ntotal,3.83 MiB,3.01 µs\n"
    )
    assert shown(time.show_report, columns=columns[::2], unit=None).splitlines()[:2] == [
        "Layer name,Bound s",
        "relu-1,2e-09",
    ]
    with pytest.raises(ValueError, match=r"unknown column 'bound' \(expected .*Did you mean"):
        time.show_report(columns=["bound"])
    with pytest.raises(ValueError, match="top must be at least 1"):
        time.show_report(top=0)


def test_every_column_has_a_value_in_every_row():
    time = net(dense("a", 1000), relu("b", 1000)).time(TOY)
    columns = {"name", "names", "type", "op", "module", "phase", "dtype", "n_layers", "bound_seconds", "binds"}
    assert all(columns <= set(entry) for entry in time.layers())
    rows = [entry for kind, entry in time.by_type().items() if kind != "total"]
    assert all({"type", "n_groups", "n_layers", "bound_seconds", "binds"} <= set(entry) for entry in rows)


def test_the_json_contains_the_totals_and_every_group(tmp_path):
    time = net(dense("a", 1000), relu("b", 1000), framework="torch").time(TOY, dtype="float16")
    path = tmp_path / "time.json"
    time.to_json(path)
    data = json.loads(path.read_text())
    assert (data["device"], data["dtype"], data["fusion"], data["tf32"]) == ("toy", "float16", "none", ["conv"])
    assert data["total"]["bound_seconds"] == pytest.approx(time.bound_seconds)
    assert [group["name"] for group in data["groups"]] == ["linear-1", "relu-1"]


def test_a_dtype_changes_bytes_and_rates():
    time = net(dense("a", 1000), relu("b", 1000)).time(TOY, dtype="float16")
    product, activation = time.groups
    # half of 4,004,000 bytes less 1 MB; 2e6 FLOP at 8e12 would take 0.25 µs
    assert (product.bound_seconds, product.binds) == (pytest.approx(1.002e-6), "dram")
    assert activation.bound_seconds == pytest.approx(1000 / 1e12)
    assert activation.read == 2000


def test_integers_and_quantized_tensors_keep_their_dtype():
    x, w, ids = Tensor((10, 10)), Tensor((10, 10), "int8", "param"), Tensor((10,), "int64")
    layer = Layer("opaque::op", {"x": x, "w": w, "ids": ids}, [x])
    cost = Cost(Operations(add=1), layer.read, layer.written, {})
    (group,) = Report(Trace((CallCost(Call(layer, "op", name="op"), cost),), Run())).time(TOY, dtype="bfloat16").groups
    assert (group.read, group.written) == (200 + 100 + 80, 200)


def test_bytes_at_another_dtype_are_those_of_the_calculator():
    # of the table only rows are read: 8 bytes for an index, 4 x 2 for its row
    table, indices, y = Tensor((1000, 4), role="param"), Tensor((10,), "int64"), Tensor((10, 4))
    layer = Layer("embedding", {"w": table, "x": indices}, [y])
    record = CallCost(Call(layer, "embedding", name="e"), cost_of(layer))
    (group,) = Report(Trace((record,), Run())).time(TOY, dtype="float16").groups
    assert (group.read, group.written) == (10 * 8 + 10 * 8, 10 * 8)


def test_frameworks_decide_whether_tf32_is_used():
    def products_of(framework):
        return net(dense("a", 1000), framework=framework).time(device(memory=Memory())).groups[0].bound_seconds

    assert products_of("torch") == pytest.approx(2e-6)  # not in matrix products
    assert products_of("onnx") == pytest.approx(0.5e-6)
    report = net(dense("a", 1000), framework="torch")
    assert report.time(device(memory=Memory()), tf32={"matmul"}).bound_seconds == pytest.approx(0.5e-6)


@pytest.mark.parametrize(
    ("steps", "options", "line"),
    [
        ("cd", {}, "float32: convolutions in TF32, matrix products in float32"),
        ("cd", {"tf32": ["conv", "matmul"]}, "float32: convolutions and matrix products in TF32"),
        ("c", {}, "float32: convolutions in TF32"),
        ("d", {}, "float32: matrix products in float32"),
        ("cd", {"dtype": "float16"}, None),
        ("r", {}, None),
    ],
)
def test_the_precision_of_float32_products_is_said(steps, options, line):
    made = {"c": Step("conv", "c", 16, 16, 0, 80, 16, (1, 4), {"c.w": 16}), "d": dense("d", 8), "r": relu("r", 8)}
    report = net(*(made[each] for each in steps), framework="torch")
    other = "none" if len(options.get("tf32", ())) == 2 else "conv,matmul"
    said = [f"{line} (default: as the framework allows). Otherwise --tf32 {other}"] if line else []
    assert [each for each in report.time(TOY, **options).remarks if "float32:" in each] == said
    without = device(peak={"matrix": {"float16": 8.0}, "vector": {"float32": 1.0}})
    assert not any("float32:" in each for each in report.time(without, **options).remarks)


def test_a_saved_report_takes_the_same_time(tmp_path):
    report = net(dense("a", 1000), relu("b", 1000), framework="torch")
    report.to_json(tmp_path / "report.json")
    saved = Report.from_json(tmp_path / "report.json")
    assert saved.time(TOY, dtype="float16").to_dict() == report.time(TOY, dtype="float16").to_dict()


def test_rates_that_a_device_lacks_are_named():
    time = net(dense("a", 1000)).time(device(peak={}))
    assert time.groups[0].binds == "dram"
    assert "toy: unknown, not part of the bound: the peak of its vector engine" in time.remarks


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtype": "fp16"}, ValueError, r"unknown dtype 'fp16' \(expected float16, bfloat16, float32, float64"),
        ({"dtype": 16}, TypeError, "dtype must be a string such as 'bfloat16' \\(got 16\\)"),
        ({"fusion": "all"}, ValueError, r"unknown level of fusion 'all' \(expected none"),
        ({"cores": 1}, ValueError, "cores applies to a CPU \\(toy is a gpu\\)"),
        ({"cores": 1.5}, TypeError, "cores must be a whole number"),
        ({"tf32": "conv"}, TypeError, "tf32 must be a set of operators"),
        ({"tf32": ["linear"]}, ValueError, "unknown operator of tf32 'linear' \\(expected conv, matmul\\)"),
    ],
)
def test_wrong_arguments_are_sentences(options, error, message):
    with pytest.raises(error, match=message):
        net(dense("a")).time(TOY, **options)


def test_a_cpu_has_no_more_cores_than_it_has():
    with pytest.raises(ValueError, match="toy has 10 cores \\(got cores=11\\)"):
        net(dense("a")).time(device(kind="cpu"), cores=11)


def test_a_fused_report_is_not_fused_again():
    with pytest.raises(CostError, match=r"already fused. Call time.. on the original report, with fusion='pointwise'."):
        net(dense("a")).fused("pointwise").report.time(TOY)


def test_amounts_of_another_convention_have_no_time():
    with pytest.raises(CostError, match="this report counts MACs"):
        net(dense("a")).under("macs").report.time(TOY)
