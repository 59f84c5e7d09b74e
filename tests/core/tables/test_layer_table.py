import csv
import io
from functools import partial

import pytest

from costcore import ComputationalCostHook, Cost, Layer, LayerColumns, Report, Tensor, Trace
from tests.core import html_reports
from tests.core.toy_networks import nested_report
from tests.core.traces import Call, CallCost, Run


def shown(report, **options):
    stream = io.StringIO()
    report.show_layers(stream, **{"mode": "csv", **options})
    return stream.getvalue()


def test_there_is_one_row_per_call_in_the_format_of_torchstat(toy):
    assert shown(nested_report(toy), unit=None).splitlines() == [
        "Module,Layer name,Input shape,Output shape,# Params,Memory B,MAdd,Flops,"
        "MemRead B,MemWrite B,MemR+W B,FLOPs (%)",
        'body.0,Dense-1,"(2, 3)","(2, 3)",9,24,36,18,60,24,84,25.0%',  # MAdd: 18 fma as two each
        'body.1,Double-1,"(2, 3)","(2, 3)",0,24,6,6,24,24,48,8.333%',
        'body,Double-2,"(2, 3)","(2, 3)",0,24,6,6,24,24,48,8.333%',
        'head,Dense-2,"(2, 3)","(2, 3)",9,24,36,18,60,24,84,25.0%',
        'tied,Dense-3,"(2, 3)","(2, 3)",9,24,36,18,60,24,84,25.0%',
        ',Double-3,"(2, 3)","(2, 3)",0,24,6,6,24,24,48,8.333%',
        "total,total,,,18,144,126,72,252,144,396,100.0%",
    ]


def test_madd_and_flops_do_not_depend_on_fma_1flop(toy):
    tables = []
    for fma_1flop in (True, False):
        with ComputationalCostHook(fma_1flop=fma_1flop) as hook:
            toy.run("toy::Dense", weight=1)
        tables.append(shown(hook.report, columns=["madd", "flops_fma1"], unit=None))
    assert tables[0] == tables[1] == "MAdd,Flops\n36,18\n36,18\n"


def test_flops_without_operation_classes_are_the_same_in_both_columns():
    layer = Layer("op", {"x": Tensor((2,))}, [Tensor((2,))])
    report = Report(Trace((CallCost(Call(layer, "Op", name="Op-1"), Cost(7, 8, 8, {})),), Run()))
    assert shown(report, columns=["madd", "flops_fma1"], unit=None) == "MAdd,Flops\n7,7\n7,7\n"


def test_the_bytes_that_calls_send_follow_the_other_bytes_of_every_column_set():
    sends, other = (html_reports.call(op, op, 8, 4, 4) for op in ("all_reduce", "relu"))
    report = html_reports.report([sends._replace(cost=sends.cost._replace(mcomm=64)), other])
    views = (report.show_report, report.show_summary_report, report.show_tree, report.show_layers)
    for show in (*views, partial(report.show_by, "module")):
        show(ost=(out := io.StringIO()), mode="csv", unit=None)
        head, *rows = csv.reader(out.getvalue().splitlines())
        place = head.index("MemR+W B") + 1
        assert head[place] == "MemSent B" and sorted(row[place] for row in rows) == ["0", "64", "64"]
        with pytest.raises(ValueError, match=r"unknown unit 'Q' \(expected None, K, M, G, T, auto, autoaligned\)"):
            show(ost=out, mode="csv", unit="Q")
    report.show_report(ost=(out := io.StringIO()), mode="csv", unit=None, columns=["name", "mrw"])
    assert out.getvalue().splitlines()[0] == "Layer name,MemR+W B"


def test_views_have_no_memory():
    layer = Layer("view", {"x": Tensor((2,))}, [Tensor((2,))])
    calls = [CallCost(Call(layer, "View", name="View-1", times=3), Cost(0, 0, 0, {}))]
    calls += [CallCost(Call(layer, "Copy", name="Copy-1", times=3), Cost(0, 8, 8, {}))]
    assert shown(Report(Trace(tuple(calls), Run())), columns=["memory"], unit=None).split()[2:] == ["0", "24", "24"]


def test_the_top_rows_and_the_others_add_up(toy):
    text = shown(nested_report(toy), columns=["module", "memory", "madd", "n_params"], unit=None, sort="madd", top=2)
    assert text.splitlines()[1:] == ["body.0,24,36,9", "head,24,36,9", "others,96,54,9", "total,144,126,18"]


def test_the_set_of_all_columns_has_what_every_run_has(toy):
    assert "Measured" not in shown(nested_report(toy), columns=LayerColumns.ALL, mode="table")


@pytest.fixture
def measured(toy):
    with ComputationalCostHook(measure_time=True) as hook:
        toy.run("toy::Double")  # the toy frontend measures 0.25 s, 0.5 s, 0.75 s
        toy.run("toy::Dense", weight=1)
        toy.run("toy::Double")
    return hook.report


def test_measured_time_has_the_last_columns(measured):
    lines = shown(measured, unit=None).splitlines()
    assert lines[0].endswith("FLOPs (%),Measured ms,Measured (%)")
    assert [line.split("%,")[-1] for line in lines[1:]] == [
        "250.0,16.667%",
        "500.0,33.333%",
        "750.0,50.0%",
        "1500.0,100.0%",
    ]


def test_measured_time_is_in_every_form_of_the_report(measured):
    assert measured.layer_report["Dense-1"]["seconds"] == 0.5
    assert measured.summary_report["Double"]["seconds"] == 1.0
    assert measured.total_report["seconds"] == measured.tree()["seconds"] == 1.5
    assert measured.by("type")["Dense"]["seconds%"] == pytest.approx(100 / 3)
    assert Report.from_json(measured.to_json()) == measured


def test_time_that_was_not_measured_is_not_in_the_report(toy):
    report = nested_report(toy)
    assert "seconds" not in report.total_report
    assert "seconds" not in report.layer_report["Dense-1"]
    assert "seconds" not in report.to_json()


def test_a_note_states_that_no_frontend_measured_time(toy, monkeypatch):
    monkeypatch.setattr(toy, "measures", False)
    with ComputationalCostHook(measure_time=True) as hook:
        toy.run("toy::Double")
    assert hook.report.notes == ["no time was measured: the frontends of this run do not measure single calls"]
