import copy
import io
import pickle
import re
import warnings

import pytest
import sympy

from costcore import ComputationalCostHook, CostError, CostWarning, Operations, Report, ReportColumns, SummaryColumns


@pytest.fixture
def counted(toy):
    """Two doublings of 6 elements and two products with one shared 3 x 3 weight."""
    with ComputationalCostHook() as hook:
        toy.run("toy::Double", scale=2)
        toy.run("toy::Dense", module="head", weight=1)
        toy.run("toy::Dense", module="head", weight=1)
        toy.run("toy::Double")
    return hook


def shown(show, **arguments):
    stream = io.StringIO()
    show(stream, **arguments)
    return stream.getvalue()


def test_every_call_in_order(counted):
    report = counted.layer_report
    assert list(report) == ["Double-1", "Dense-1", "Dense-2", "Double-2"]
    entry = dict(report["Dense-2"])
    shares = {key: entry.pop(key) for key in ("flops%", "mread%", "mwrite%", "mrw%")}
    assert entry == {
        "name": "Dense-2",
        "type": "Dense",
        "op": "toy_dense",
        "module": "head",
        "phase": "forward",
        "flops": 18,  # 2 x 3 outputs, 3 products each
        "operations": {"fma": 18},
        "macs": 18,
        "mread": 60,  # 6 + 9 elements of 4 bytes
        "mwrite": 24,
        "mrw": 84,
        "n_params": 9,
        "dtype": "float32",
        "input_shapes": [(2, 3), (3, 3)],
        "output_shapes": [(2, 3)],
        "params": {},
        "traceback": "",
    }
    assert shares["flops%"] == pytest.approx(100 * 18 / 48)  # 6 + 18 + 18 + 6
    assert report["Double-1"]["params"] == {"scale": 2}
    assert type(entry["flops"]) is int


def test_sums_by_type_and_in_total(counted):
    summary, total = counted.summary_report, counted.total_report
    assert list(summary) == ["Double", "Dense", "total"]
    assert summary["Dense"]["n_layers"] == 2
    assert summary["Dense"]["flops"] == 36
    assert summary["Dense"]["n_params"] == 9  # shared: once
    assert summary["Double"]["mrw"] == 2 * 48
    assert summary["total"] == total
    assert (total["flops"], total["macs"], total["mread"], total["mwrite"]) == (48, 36, 168, 96)
    assert (total["n_layers"], total["n_params"]) == (4, 9)
    assert total["flops%"] == 100.0
    assert "n_params_model" not in total


def test_fma_is_one_flop_or_two(toy):
    with ComputationalCostHook(fma_1flop=False) as hook:
        toy.run("toy::Dense", weight=1)
        toy.run("toy::Double")
    assert hook.total_report["flops"] == 2 * 18 + 6
    assert hook.total_report["macs"] == 18


def test_reports_are_copies(counted):
    counted.layer_report["Dense-1"]["flops"] = 0
    counted.layer_report.clear()
    counted.summary_report["Dense"]["flops"] = 0
    counted.total_report["flops"] = 0
    counted.report.calls.clear()
    with pytest.raises(AttributeError):
        counted.report.calls[0].name = "changed"
    assert counted.layer_report["Dense-1"]["flops"] == 18
    assert counted.summary_report["Dense"]["flops"] == 36
    assert counted.total_report["flops"] == 48
    assert counted.report.calls[0].name == "Double-1"


@pytest.mark.parametrize("mode", ["csv", "md", "table"])
@pytest.mark.parametrize("unit", [None, "K", "M", "G", "T", "auto", "autoaligned"])
@pytest.mark.parametrize("n_digits", [0, 3, 10, None])
@pytest.mark.parametrize("columns", ["DEFAULT", "DEFAULT_AND_PERCENT", "ALL"])
def test_every_mode_unit_digits_and_column_set(counted, mode, unit, n_digits, columns):
    text = shown(counted.show_report, mode=mode, unit=unit, columns=getattr(ReportColumns, columns), n_digits=n_digits)
    assert all(name in text for name in ("Double-1", "Dense-2", "total"))
    text = shown(
        counted.show_summary_report, mode=mode, unit=unit, columns=getattr(SummaryColumns, columns), n_digits=n_digits
    )
    assert "Dense" in text and "total" in text


def test_a_table_by_hand(counted):
    assert shown(counted.show_report, unit=None) == (
        "Layer name,FLOPs,MemRead B,MemWrite B,MemR+W B\n"
        "Double-1,6,24,24,48\n"
        "Dense-1,18,60,24,84\n"
        "Dense-2,18,60,24,84\n"
        "Double-2,6,24,24,48\n"
        "total,48,168,96,264\n"
    )
    assert shown(counted.show_summary_report, unit="K", mode="md", n_digits=2) == (
        "| Layer type | # Layers | KFLOPs | MemRead KiB | MemWrite KiB | MemR+W KiB |\n"
        "|:---|---:|---:|---:|---:|---:|\n"
        "| Double | 2 | 0.01 | 0.05 | 0.05 | 0.09 |\n"
        "| Dense | 2 | 0.04 | 0.12 | 0.05 | 0.16 |\n"
        "| total | 4 | 0.05 | 0.16 | 0.09 | 0.26 |\n"
    )


def test_auto_gives_every_cell_its_own_prefix(toy):
    with ComputationalCostHook() as hook:
        toy.run("toy::Double", (1000, 1000))
        toy.run("toy::Double", (5,))
    lines = shown(hook.show_report, unit="auto", columns=["name", "flops", "mread"]).splitlines()
    assert lines[0] == "Layer name,FLOPs,MemRead"
    assert lines[1] == "Double-1,1.0 M,3.815 MiB"  # 4 000 000 / 2**20
    assert lines[2] == "Double-2,5,20 B"


def test_reports_go_to_the_current_standard_output(counted, capsys):
    counted.show_report()
    counted.show_summary_report(dst=None)
    assert capsys.readouterr().out.count("total") == 2
    stream = io.StringIO()
    counted.show_report(dst=stream)
    assert "total" in stream.getvalue()
    with pytest.raises(TypeError, match="two names"):
        counted.show_report(ost=stream, dst=stream)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "html5"}, "csv"),
        ({"unit": "Q"}, "autoaligned"),
        ({"n_digits": 11}, "between 0 and 10"),
        ({"columns": ["name", "colour"]}, r"unknown column 'colour' \(expected name, flops"),
        ({"columns": []}, "empty"),
    ],
)
def test_the_message_for_a_wrong_argument_of_show_report_lists_the_valid_ones(counted, wrong, message):
    with pytest.raises(ValueError, match=message):
        counted.show_report(**wrong)
    assert counted.layer_report, "the report is still available"


def test_columns_are_a_list_not_a_string(counted):
    with pytest.raises(TypeError, match="list of names"):
        counted.show_report(columns="name")


def test_the_set_of_all_columns_has_what_every_run_has_except_tracebacks():
    assert not {"traceback", "live", "live_peak", "saved", "receptive_field", "fused_mrw", "mcomm", "nodes"} & set(
        ReportColumns.ALL
    )


def test_all_zero_totals_divide_by_nothing(toy):
    with ComputationalCostHook() as hook:
        pass
    assert hook.total_report["flops"] == 0
    assert hook.total_report["flops%"] == 0.0
    assert hook.layer_report == {}
    assert "total" in shown(hook.show_report, columns=ReportColumns.ALL)


def test_an_empty_tensor_costs_no_operations(toy):
    with ComputationalCostHook() as hook:
        toy.run("toy::Dense", (0, 3), weight=1)
    assert hook.total_report["flops"] == 0
    assert hook.total_report["mrw"] == 0


def test_many_unknown_operators_share_a_warning(toy):
    unknown = "no calculator for 'toy::Wave0' and 3 other operators: 5 calls not counted; see ignored_layers"
    with pytest.warns(CostWarning, match=unknown) as caught, ComputationalCostHook():
        for i in (0, 1, 2, 3, 0):
            toy.run(f"toy::Wave{i}", (4, 5))
    assert len(caught) == 1


def test_an_unknown_operator_is_reported_once_and_never_counted_as_zero(toy):
    unknown = r"no calculator for 'toy::Wave': 2 calls of 'Wave' not counted"
    with pytest.warns(CostWarning, match=unknown) as caught, ComputationalCostHook() as hook:
        toy.run("toy::Wave", (4, 5), module="mixer")
        toy.run("toy::Double")
        toy.run("toy::Wave", (4, 5))
    assert len(caught) == 1
    assert list(hook.ignored_layers) == ["Wave-1", "Wave-2"]
    entry = hook.ignored_layers["Wave-1"]
    assert (entry["type"], entry["module"]) == ("Wave", "mixer")
    assert (entry["mread"], entry["mwrite"]) == (80, 80)
    assert entry["input_shapes"] == entry["output_shapes"] == [(4, 5)]
    assert "test_an_unknown_operator_is_reported_once" in entry["traceback"]
    assert hook.total_report["flops"] == 6
    assert list(hook.layer_report) == ["Double-1"]


def test_tracebacks_are_stored_on_request(toy):
    with ComputationalCostHook(tracebacks=True) as hook:
        toy.run("toy::Double")
    assert "test_tracebacks_are_stored_on_request" in hook.layer_report["Double-1"]["traceback"]
    assert shown(hook.show_report, columns=["name", "traceback"])


def test_a_hook_cannot_be_entered_twice(toy):
    hook = ComputationalCostHook()
    with hook:
        with pytest.raises(CostError, match="already active"), hook:
            pass
        toy.run("toy::Double")
    assert len(toy.ACTIVE) == 0
    assert list(hook.layer_report) == ["Double-1"]


def test_two_nested_hooks_both_count(toy):
    with ComputationalCostHook() as outer:
        toy.run("toy::Double")
        with ComputationalCostHook() as inner:
            toy.run("toy::Double")
    assert outer.total_report["flops"] == 12
    assert inner.total_report["flops"] == 6


def test_a_hook_that_is_used_again_starts_from_zero(toy):
    hook = ComputationalCostHook()
    for _ in range(2):
        with hook:
            toy.run("toy::Double")
        assert hook.total_report["flops"] == 6


def test_an_exception_leaves_the_partial_report_and_no_active_hook(toy):
    with pytest.raises(RuntimeError, match="mine"), ComputationalCostHook() as hook:
        toy.run("toy::Wave")
        toy.run("toy::Double")
        raise RuntimeError("mine")
    assert hook.total_report["flops"] == 6
    assert "Wave-1" in hook.ignored_layers
    assert not toy.ACTIVE


def test_the_report_can_be_read_while_counting(toy):
    with ComputationalCostHook() as hook:
        toy.run("toy::Double")
        assert hook.total_report["flops"] == 6
        toy.run("toy::Double")
        assert hook.total_report["flops"] == 12


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="fma_1flop must be True"):
        ComputationalCostHook(fma_1flop=1)
    with pytest.raises(TypeError, match="record_api_calls must be True or False"):
        ComputationalCostHook(record_api_calls=1)
    with pytest.raises(ValueError, match="expected framework, free"):
        ComputationalCostHook(layout="nhwc")
    with pytest.raises(ValueError, match="unknown frontend 'jax'"):
        ComputationalCostHook(frontends=["jax"])
    with pytest.raises(TypeError, match="list of names"):
        ComputationalCostHook(frontends="pytorch")


def test_symbols_stay_in_the_totals_until_they_are_substituted(toy):
    n = sympy.Symbol("n", integer=True, positive=True)
    with ComputationalCostHook() as hook:
        toy.run("toy::Dense", (n, 3), weight=1)
        toy.run("toy::Double", (2, 3))
    report = hook.report
    assert report.total_report["macs"] == 9 * n
    assert report.total_report["flops%"] == 100
    assert report.layer_report["Double-1"]["flops%"] is None
    assert "9*n + 6" in shown(report.show_report, unit=None)
    assert "-" in shown(report.show_report, columns=["name", "flops%"])
    put = report.subs(n=8)
    assert put.total_report["macs"] == 72 and type(put.total_report["macs"]) is int
    assert put.layer_report["Dense-1"]["input_shapes"] == [(8, 3), (3, 3)]
    assert put.layer_report["Dense-1"]["operations"] == {"fma": 72}
    with pytest.raises(CostError, match=r"unknown symbolic dimension 'batch' \(expected n\)"):
        report.subs(batch=8)
    with pytest.raises(TypeError, match="integer"):
        report.subs(n=1.5)


def test_there_is_no_warning_without_unknown_operators(toy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ComputationalCostHook() as hook:
            toy.run("toy::Double")
    assert hook.ignored_layers == {}
    assert hook.report.calls[0].layer.op == "toy_double"
    assert hook.layer_report["Double-1"]["operations"] == {"mul": 6}
    assert Operations(mul=6).flops() == 6


def test_a_hook_has_everything_that_its_report_has(toy):
    with ComputationalCostHook() as hook:
        toy.run("toy::Double")
        assert hook.status == "complete"
        toy.run("toy::Double")
    public = [name for name in dir(Report) if not name.startswith("_")]
    assert {"by", "status", "show_tree", "to_json", "notes", "subs"} <= set(public) <= set(dir(hook))
    assert hook.by("op")["toy_double"]["flops"] == 12
    assert (hook.status, hook.notes, hook.versions) == ("complete", [], hook.report.versions)
    assert hook.to_json() == hook.report.to_json()
    assert shown(hook.show_tree) == shown(hook.report.show_tree)


def test_a_wrong_attribute_of_a_hook_is_an_attribute_error():
    hook = ComputationalCostHook()
    message = "ComputationalCostHook has no attribute 'total_reports'. Did you mean 'total_report'?"
    with pytest.raises(AttributeError, match=re.escape(message)):
        hook.total_reports  # noqa: B018
    assert not hasattr(hook, "__array__")
    with pytest.raises(AttributeError):
        ComputationalCostHook.__new__(ComputationalCostHook).status  # noqa: B018  # as copy and pickle make it


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_hook_is_neither_pickled_nor_copied(copied):
    cch = ComputationalCostHook()
    with pytest.raises(TypeError, match=r"cannot pickle or copy a ComputationalCostHook\. Pickle hook\.report"):
        copied(cch)
    assert pickle.loads(pickle.dumps(cch.report)) == cch.report
