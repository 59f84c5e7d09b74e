import io
import json
import pickle

import pytest

from costcore import ComputationalCostHook, CostError, Layer, Report, Tensor, Trace, __version__, check, estimate
from costcore.errors import PartialReportError
from tests.core.toy_networks import nested_report
from tests.core.traces import Assumption, Call, CallCost, Recorder, Run, Uncounted


def unknown(native="my::Wave", module="head", where='  File "net.py", line 12, in forward\n    wave(x)\n', n=1):
    layer = Layer(native, {"x": Tensor((2, 3))}, [Tensor((2, 3))])
    calls = (Call(layer, "Wave", native, f"{native}-{i}", module, where=where) for i in range(n))
    return tuple(CallCost(call, None, Uncounted.NO_CALCULATOR, "no calculator for 'my::Wave'") for call in calls)


def shown(report, mode, show="show_report"):
    stream = io.StringIO()
    getattr(report, show)(stream, mode=mode)
    return stream.getvalue()


def test_a_report_is_complete_or_partial(toy):
    assert nested_report(toy).status == "complete"
    assert Report(Trace(unknown(), Run())).status == "partial"
    assert Report(Trace((), Run())).status == "complete"


ASSUMED = Run(assumptions=(Assumption("n is 1", "fc", "net.py:3 in forward", 4), Assumption("m is 2")))


def test_a_report_with_assumptions_is_assumed_unless_it_is_partial(toy):
    report = Report(Trace((), ASSUMED))
    assert report.status == "assumed"
    assert repr(report) == "<Report: 0 calls, 0 FLOPs, 0 MACs, 2 assumptions about data>"
    assert Report(Trace(unknown(), ASSUMED)).status == "partial"
    assert report.remarks == [
        "assumed: the totals depend on 2 assumptions about data",
        "assumption: n is 1 at net.py:3 in forward (module `fc`, 4 times)",
        "assumption: m is 2",
    ]


def test_an_assumption_is_the_pair_of_what_and_where():
    """Earlier versions had only the two; the line and the number of times are attributes beside them."""
    each = ASSUMED.assumptions[0]
    what, where = each
    assert (what, where, each.line, each.times) == ("n is 1", "fc", "net.py:3 in forward", 4)
    assert each == Assumption("n is 1", "fc") == ("n is 1", "fc")
    again = pickle.loads(pickle.dumps(each))
    assert (again, again.line, again.times) == (each, each.line, each.times)


def test_assumptions_are_saved_with_line_and_times():
    again = Report.from_json(Report(Trace((), ASSUMED)).to_json())
    assert again.remarks == Report(Trace((), ASSUMED)).remarks
    assert (again.status, json.loads(again.to_json())["status"]) == ("assumed", "assumed")


def test_a_file_of_an_earlier_version_called_assumptions_complete():
    content = json.loads(Report(Trace((), ASSUMED)).to_json())
    content["status"] = "complete"
    for entry in content["assumptions"]:
        del entry["line"], entry["times"]
    again = Report.from_json(json.dumps(content))
    assert again.status == "assumed"
    assert [(each.what, each.line, each.times) for each in again.assumptions] == [("n is 1", "", 1), ("m is 2", "", 1)]


def test_repeated_assumptions_are_counted():
    recorder = Recorder()
    for _ in range(3):
        recorder.assume("n is 1", "fc", "net.py:3 in forward")
    mark = recorder.checkpoint()
    recorder.assume("n is 1", "fc", "net.py:3 in forward")
    recorder.assume("m is 2")
    assert [(*each, each.times) for each in recorder.assumptions_since(mark)] == [
        ("n is 1", "fc", 1),
        ("m is 2", "", 1),
    ]
    assert [(*each, each.times) for each in recorder.assumptions] == [("n is 1", "fc", 4), ("m is 2", "", 1)]
    recorder.rollback(mark)
    assert [(*each, each.times) for each in recorder.assumptions] == [("n is 1", "fc", 3)]


def test_strict_refuses_assumptions(toy):
    report = Report(Trace((), ASSUMED))
    (violation,) = check(report, {"strict": True})
    assert str(violation) == "total: assumed: 2 assumptions about data"


def test_versions_of_tool_frameworks_and_convention(toy):
    assert nested_report(toy).versions == {"costcore": __version__, "convention": "costcore-1", "toy": "1.0"}


@pytest.mark.parametrize("mode", ["md", "table", "color"])
@pytest.mark.parametrize("show", ["show_report", "show_summary_report", "show_layers", "show_tree"])
def test_a_partial_report_has_remarks_below_the_table(mode, show):
    report = Report(
        Trace((*unknown(n=2), *unknown("my::Other", "", "")), Run(assumptions=(Assumption("n is 1", "x.py:3"),)))
    )
    text = shown(report, mode, show)
    bullet = "- " if mode == "md" else ""
    assert text.endswith(
        f"{bullet}partial: the totals do not include 3 calls of 2 unsupported operators (Wave, Other)\n"
        f"{bullet}unsupported: my::Wave: 2 calls, reads 48 B, writes 48 B; "
        "first in module 'head', net.py:12 in forward\n"
        f"{bullet}unsupported: my::Other: 1 call, reads 24 B, writes 24 B\n"
        f"{bullet}assumed: the totals depend on 1 assumption about data\n"
        f"{bullet}assumption: n is 1 (x.py:3)\n"
    )


def test_csv_has_no_remarks():
    assert "partial" not in shown(Report(Trace(unknown(), Run())), "csv")


def test_a_complete_report_has_no_remarks(toy):
    assert shown(nested_report(toy), "md").endswith("|\n")


def test_remarks_are_escaped():
    report = Report(Trace(unknown("<script>|\x1b[31m"), Run()))
    assert "<script>" not in shown(report, "md")
    assert "\x1b" not in shown(report, "md") + shown(report, "table")


def test_the_number_of_remarks_is_limited():
    report = Report(Trace(tuple(record for i in range(1000) for record in unknown(f"my::Op{i}")), Run()))
    assert len(report.remarks) == 1 + 12 + 1
    assert report.remarks[0] == (
        "partial: the totals do not include 1,000 calls of 1,000 unsupported operators "
        "(Op0, Op1, Op2, Op3, Op4 and 995 more)"
    )
    assert report.remarks[-1] == "and 988 more operators that are not counted"


def uncounted(native, reason, module=""):
    record = unknown(native, module, "")[0]
    call = record.call._replace(name=f"{native}-{reason.name}")
    return CallCost(call, None, reason, "a reason")


def test_the_reason_of_each_call_that_is_not_counted_is_stated():
    """Each call reads and writes 2 * 3 elements of 4 bytes."""
    records = (
        uncounted("other_threads", Uncounted.OTHER_THREADS),
        uncounted("my::Relu", Uncounted.CALCULATOR_FAILED, "head"),
        uncounted("my::Relu", Uncounted.NO_SHAPES),
        uncounted("my::Wave", Uncounted.NO_CALCULATOR),
    )
    report = Report(Trace(records, Run()))
    assert report.remarks == [
        "partial: the totals do not include 1 call of 1 unsupported operator (Wave), 1 call without known shapes "
        "(Relu), 1 call whose calculator failed (Relu) and calls in other threads",
        "calculator failed: my::Relu: 1 call, reads 24 B, writes 24 B; first in module 'head'",
        "without shapes: my::Relu: 1 call, reads 24 B, writes 24 B",
        "unsupported: my::Wave: 1 call, reads 24 B, writes 24 B",
    ]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (Uncounted.CALCULATOR_FAILED, "1 call whose calculator failed (Wave)"),
        (Uncounted.OTHER_THREADS, "calls in other threads"),
        (Uncounted.NO_SHAPES, "1 call without known shapes (Wave)"),
    ],
)
def test_a_call_with_a_calculator_is_not_called_unsupported(reason, text):
    trace = Trace((uncounted("my::Wave", reason),), Run())
    assert Report(trace).remarks[0] == f"partial: the totals do not include {text}"
    assert not any("unsupported" in line for line in Report(trace).remarks)


def test_an_operator_whose_calculator_failed_is_reported_as_failed(toy):
    def broken(layer):
        raise KeyError("w")

    hook = ComputationalCostHook()
    hook.add_custom_cost_calculator("toy::Wave", broken)
    with pytest.raises(CostError, match="raised KeyError"), hook:
        toy.run("toy::Wave")
    assert hook.report.remarks[0] == "partial: the totals do not include 1 call whose calculator failed (Wave)"
    assert Report.from_json(hook.report.to_json()).remarks == hook.report.remarks


def test_strict_makes_a_partial_run_an_error_that_has_the_report(toy):
    with pytest.raises(PartialReportError, match=r"toy::Wave: 1 call, reads 24 B, writes 24 B; first in") as caught:
        estimate(toy.Model("toy::Double", "toy::Wave"), (2, 3), strict=True)
    assert isinstance(caught.value, CostError)
    assert caught.value.report.total_report["flops"] == 6
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.report) == (str(caught.value), caught.value.report)
    hook = ComputationalCostHook(strict=True)
    with pytest.raises(PartialReportError, match="toy::Wave"), hook:
        toy.run("toy::Double")
        toy.run("toy::Wave")
    assert hook.total_report["flops"] == 6
    assert hook.report.status == "partial"


def test_strict_accepts_a_complete_run(toy):
    with ComputationalCostHook(strict=True) as hook:
        toy.run("toy::Double")
    assert hook.report.status == "complete"
    assert estimate(toy.Model("toy::Double"), (2, 3), strict=True).status == "complete"


def test_strict_does_not_hide_an_error_of_the_user(toy):
    with pytest.raises(KeyError), ComputationalCostHook(strict=True):
        toy.run("toy::Wave")
        raise KeyError("mine")
