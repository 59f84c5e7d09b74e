"""Calibrations from recorded runs, made by hand: which calls are points, several dtypes, errors by runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costcore import CostError, Report
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.analyses.measured.runs import linear, profiled, trace_of
from tests.core.analyses.timing.toy_device import (
    BELOW,
    COPIED,
    FAR,
    ROUNDED,
    SENT,
    WITHOUT_KERNEL,
    calibration_of,
    find_device,
    from_toml,
    to_toml,
)
from tests.core.traces import Call, CallTime

L4 = find_device("l4")


def scaled(n, dtype="bfloat16"):
    """A product by a number: reads and writes n elements."""
    layer = Layer("mul", {"x0": Tensor((n,), dtype), "x1": Tensor((n,), dtype)}, [Tensor((n,), dtype)])
    size = 2 if dtype == "bfloat16" else 4
    return Call(layer, type="mul", native="aten::mul"), Cost(Operations(mul=n), 2 * n * size, n * size, {})


def as_dtype(made, dtype):
    call, cost = made
    of = [Tensor(each.shape, dtype) for each in (*call.layer.inputs.values(), *call.layer.outputs)]
    return call._replace(layer=Layer("linear", {"x": of[0], "w": of[1]}, [of[2]])), cost


SIZES = [2**i for i in range(10, 22)]


def run(factor=1.0, dtype="bfloat16", **options):
    """A run of 12 products by a number that take a nanosecond per 100 bytes, and 12 linear layers."""
    calls = [scaled(n, dtype) for n in SIZES] + [as_dtype(linear(n // 8, ""), dtype) for n in SIZES]
    times = [round(factor * max(2000, 6 * n / 100)) for n in SIZES] + [round(factor * (3000 + n)) for n in SIZES]
    return profiled(trace_of(*calls), times, **options).trace


def changed(trace, position, **fields):
    profile = trace.run.profile
    calls = {**profile.calls, position: profile.calls[position]._replace(**fields)}
    return replace(trace, run=trace.run.recording(profile=profile._replace(calls=calls)))


def of(*traces):
    return calibration_of(traces, [f"run {i}" for i in range(len(traces))], L4)


def test_every_different_call_of_a_run_is_a_point_with_its_dtype():
    found = of(run(), run(1.1))
    assert len(found.calibration.points) == 48 and found.left_out == {}
    assert found.calibration.dtypes == {"bfloat16"}
    assert {point.signature.dtype for point in found.calibration.points} == {"bfloat16"}
    assert found.conditions.clock == "kernel" and found.conditions.flags == {"traces": "run 0, run 1"}
    assert found.conditions.noise == 0.0  # no call is there three times


def test_equal_calls_of_a_run_are_their_median():
    times = [5000, 7000, 9000]
    equal = trace_of(*(scaled(4096) for _ in times))
    found = calibration_of([run(), profiled(equal, times).trace], ["a", "b"], L4)
    assert found.calibration.points[-1].seconds == 7e-6
    assert found.conditions.noise == pytest.approx(2000 / 7000)  # of 2/7, 0 and 2/7 the middle one
    pair = profiled(trace_of(scaled(4096), scaled(4096)), [5000, 7000]).trace
    assert calibration_of([run(), pair], ["a", "b"], L4).conditions.noise == 0.0


def test_the_units_are_those_of_the_device():
    assert L4.units and of(run()).conditions.units == L4.units
    unknown = calibration_of([run()], ["a"], replace(L4, units=None))
    assert unknown.conditions.units == 0


def test_calls_that_say_nothing_of_kernels_are_left_out():
    trace = changed(run(), 0, device=0)
    trace = changed(trace, 1, aside=1500)
    trace = changed(trace, 23, device=1)
    assert of(trace).left_out == {WITHOUT_KERNEL: 1, COPIED: 1, BELOW: 1}
    sent = Cost(Operations(), 4096, 4096, {}, mcomm=4096)
    layer = Layer("all_reduce", {"x0": Tensor((1024,))}, [Tensor((1024,))], {"group_size": 2})
    calls = [scaled(n) for n in SIZES * 2]
    waits = profiled(trace_of((Call(layer, type="all_reduce", native="c10d::all_reduce"), sent)), [10**6]).trace
    assert of(run(), waits).left_out == {SENT: 1}
    assert len(calls) == 24


def test_products_that_were_rounded_are_no_points_of_float32():
    found = of(run(), run(dtype="float32", tf32=True))
    assert found.left_out == {ROUNDED: 12}
    assert found.calibration.dtypes == {"bfloat16"}


def test_a_run_of_two_dtypes_has_a_time():
    found = of(run(), run(1.1))
    device = replace(L4, calibration=to_toml(found.calibration, found.conditions))
    mixed = Report(trace_of(as_dtype(linear(512, ""), "bfloat16"), scaled(4096, "float32")))
    times = mixed.time(device=device)
    assert times.seconds is not None
    calibration, _ = from_toml(device.calibration, "file", device)
    cast = times.groups[1]
    alone = Report(trace_of(scaled(8192))).time(device=device)  # of as many bytes
    assert cast.seconds == pytest.approx(alone.seconds, rel=0.3)
    assert len(calibration.points) == 48
    product = Report(trace_of(as_dtype(linear(512, ""), "float32"))).time(device=device)
    assert product.seconds is None
    assert product.calibrated.remarks == ("no calibrated time: measured in bfloat16, not float32",)


def test_the_points_of_a_saved_calibration_of_one_dtype_are_known():
    found = of(run(), run(1.1))
    device = replace(L4, calibration=to_toml(found.calibration, found.conditions))
    saved, _ = from_toml(device.calibration, "file", device)
    for point in found.calibration.points:
        estimate = saved.estimate(point.signature)
        assert estimate.distance == pytest.approx(0.0, abs=1e-3)  # files have six digits
        assert estimate.seconds == pytest.approx(found.calibration.estimate(point.signature).seconds, rel=0.05)
    with pytest.raises(CostError, match="need the rates of their device"):
        from_toml(device.calibration, "file")


def test_calls_without_a_kernel_take_no_time():
    found = of(run(), run(1.1))
    device = replace(L4, calibration=to_toml(found.calibration, found.conditions))
    layer = Layer("view", {"x": Tensor((64,), "bfloat16")}, [Tensor((8, 8), "bfloat16")])
    view = Call(layer, type="view", native="aten::view"), Cost(Operations(), 0, 0, {})
    alone = Report(trace_of(scaled(4096))).time(device=device).seconds
    assert Report(trace_of(view, scaled(4096), view)).time(device=device).seconds == pytest.approx(alone)


def test_the_error_is_that_of_calls_of_other_runs():
    found = of(run(), run(1.25))
    mul = dict(found.calibration.errors.families["mul bfloat16"])
    # estimates of the slower run from the faster one: 1 / 1.25 of the truth, missed by a quarter; and the other way 0.2
    assert 0.19 < mul[0.0].mean < 0.26 and mul[0.0].most == pytest.approx(0.25, abs=0.01)
    assert of(run()).calibration.errors.families["mul bfloat16"] == ()  # of one run nothing follows


def test_far_calls_have_no_error():
    found = of(run(), run(1.25))
    device = replace(L4, calibration=to_toml(found.calibration, found.conditions))
    far = Report(trace_of(scaled(2 ** (21 + 2 * round(FAR)))))
    assert far.time(device=device).error is None


def test_what_has_no_times_of_a_device_is_refused():
    with pytest.raises(CostError, match="nothing has no times of kernels"):
        calibration_of([trace_of(linear(8, ""))], ["nothing"], L4)
    with pytest.raises(CostError, match=r"the traces have 1 different calls with kernels \(at least 8\)"):
        of(profiled(trace_of(linear(8, "")), [5000]).trace)


def test_the_time_beside_kernels_is_known():
    assert CallTime(10, 0, 10, 1).aside == 0
