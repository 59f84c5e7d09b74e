"""Measured beside predicted time, by hand: the toy device computes 1e12 FLOP/s and reads 1e12 bytes/s."""

from __future__ import annotations

import json
from io import StringIO

import pytest

from costcore import CostError
from tests.core.analyses.timing.toy_device import TOY, calibrated_device
from tests.core.given_costs import dense, net, relu


def steps(*seconds):
    """Two products and an activation, which took so long. The bound of the activation of 1000 elements is 2 ns."""
    times = dict(zip(("a", "b", "c"), (*seconds, None, None, None)[:3], strict=True))
    return (
        dense("a", 1000, seconds=times["a"]),
        relu("b", 1000, seconds=times["b"]),
        dense("c", 1000, seconds=times["c"]),
    )


BOUND = 3.004e-6
"""Of each product: 4,004,000 bytes are read, of which 1 MB may be in the cache, at 1e12 bytes per second."""


def compared(*runs, device=TOY):
    return net(*steps(), framework="torch").time(device).compare(*(net(*steps(*run)) for run in runs))


def test_calls_are_joined_by_name():
    found = compared((6e-6, 4e-9, 9e-6))
    assert [(g.name, g.measured, g.bound) for g in found.groups] == [
        ("linear-1", 6e-6, pytest.approx(BOUND)),
        ("relu-1", 4e-9, pytest.approx(2e-9)),
        ("linear-2", 9e-6, pytest.approx(BOUND)),
    ]
    assert found.total.measured == pytest.approx(15.004e-6)
    assert (found.violations, found.unmatched, found.unexpected) == ([], [], [])
    assert not any("below the bound" in line for line in found.remarks)
    assert found.total.predicted is None


def test_of_several_runs_the_median_counts():
    found = compared((6e-6, 4e-9, 9e-6), (8e-6, 4e-9, 9e-6), (60e-6, 4e-9, 9e-6))
    assert found.groups[0].measured == 8e-6


def test_a_time_below_the_bound_is_listed_as_an_error():
    found = compared((2e-6, 4e-9, 9e-6))
    assert [group.name for group in found.violations] == ["linear-1"]
    below = [line for line in found.remarks if line.startswith("below the bound")]
    assert below == ["below the bound: linear-1 took 2.0 µs, the bound is 3.004 µs"]
    assert json.loads(found.to_json())["below_bound"] == ["linear-1"]


def test_a_run_below_the_bound_of_the_whole_run_is_listed_too():
    """Each product of 400 fits into the cache of 1 MB; 4 of them read 2,561,600 bytes, of which 1 MB may be there.

    The bound of each is 0.32 µs, and that of the run 1.5616 µs.
    """
    names = "abcd"
    timed = net(*(dense(name, 400) for name in names), framework="torch").time(TOY)
    found = timed.compare(net(*(dense(name, 400, seconds=0.35e-6) for name in names)))
    assert found.violations == [] and found.total.is_below_bound
    assert "below the bound: total took 1.4 µs, the bound is 1.562 µs" in found.remarks


def test_sums_by_family_and_the_calls_that_are_off_most():
    found = compared((6e-6, 4e-9, 9e-6), device=calibrated_device())
    families = found.by_family()
    assert [*families] == ["linear (other operands)", "relu"]
    products = families["linear (other operands)"]
    assert (products.measured, products.n_groups) == (pytest.approx(15e-6), 2)
    assert products.predicted == pytest.approx(2 * found.groups[0].predicted)
    assert [group.name for group in found.worst(2)] == ["linear-2", "relu-1"]


def test_calls_that_were_not_measured_or_differ_are_listed():
    timed = net(*steps(), framework="torch").time(TOY)
    other = net(dense("a", 1000, seconds=6e-6), relu("b", 500, seconds=1e-6), relu("c", 8, seconds=1e-6))
    found = timed.compare(other)
    assert [group.name for group in found.groups] == ["linear-1"]
    assert found.unmatched == ["relu-1", "linear-2"]
    assert found.unexpected == ["relu-2"]
    assert "not measured, or with another operator, other shapes or dtypes: relu-1, linear-2" in found.remarks
    assert "measured, but not among the timed calls: relu-2" in found.remarks
    assert found.total.bound == pytest.approx(BOUND)


@pytest.mark.parametrize("by", ["family", "call"])
@pytest.mark.parametrize("mode", ["csv", "md", "table"])
def test_tables_have_the_total_and_leave_out_what_is_unknown(by, mode):
    texts = {}
    for name, device in (("bound", TOY), ("calibrated", calibrated_device())):
        out = StringIO()
        compared((2e-6, 4e-9, 9e-6), device=device).show(out, mode, by=by)
        texts[name] = out.getvalue()
    assert all("total" in text and ("below the bound" in text or mode == "csv") for text in texts.values())
    assert "Calibrated" in texts["calibrated"] and "Calibrated" not in texts["bound"]


def test_the_csv_by_family_by_hand():
    """The whole run reads 8,004,000 bytes, of which 1 MB may be in the cache: 7.004 µs of 15.004 µs."""
    out = StringIO()
    compared((6e-6, 4e-9, 9e-6)).show(out, "csv", n_digits=1, by="family")
    assert out.getvalue().splitlines() == [
        "Family,# Groups,Measured µs,Measured (%),Bound µs,Of measured (%)",
        "linear (other operands),2,15.0,100.0%,6.0,40.1%",
        "relu,1,0.0,0.0%,0.0,50.0%",
        "total,3,15.0,100.0%,7.0,46.7%",
    ]


def test_a_report_without_times_is_refused():
    with pytest.raises(CostError, match=r"has no times\. Measure a run: ComputationalCostHook\(measure_time=True\)"):
        compared((None, None, None))


def test_a_report_of_another_model_is_refused():
    with pytest.raises(CostError, match="no call of the measured report has the name"):
        net(relu("a", 4), framework="torch").time(TOY).compare(net(dense("b", 4, seconds=1.0)))


def test_an_unknown_table_is_refused():
    with pytest.raises(ValueError, match=r"by must be 'family' or 'call' \(got 'module'\)"):
        compared((6e-6, 4e-9, 9e-6)).show(by="module")


def test_a_run_in_another_dtype_is_not_compared():
    time = net(*steps(), framework="torch").time(TOY, dtype="float16")
    with pytest.raises(CostError, match="no call of the measured report has the name, operator, shapes and dtypes"):
        time.compare(net(*steps(6e-6, 4e-9, 9e-6)))


def test_only_reports_can_be_compared():
    with pytest.raises(TypeError, match=r"compare expects reports, as a hook returns them \(got str\)"):
        net(*steps(), framework="torch").time(TOY).compare("run.json")
