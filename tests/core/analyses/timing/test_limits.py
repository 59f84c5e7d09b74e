"""Figures at and beside limits of the time of a run, by hand."""

from __future__ import annotations

import re
from io import StringIO

import pytest

from costcore import CostError, Layer, Operations, Report, Tensor, Trace
from costcore.ir import Cost
from tests.core.analyses.timing import test_from_traces as traces
from tests.core.analyses.timing.toy_device import BELOW, COPIED, TOY, Device, calibrated_device, device, table
from tests.core.given_costs import dense, net, relu
from tests.core.results import quantity
from tests.core.traces import Call, CallCost, CallTime, Profile, Run


def run(*calls):
    """A run of calls with given costs: operator, dtype, operations and how often each runs."""
    records = []
    for i, (op, dtype, counted, times) in enumerate(calls):
        tensor = Tensor((1000,), dtype)
        layer = Layer(op, {"x": tensor}, [tensor])
        made = Cost(counted, 4000, 4000, {}, counted.fma)
        records.append(CallCost(Call(layer, op, name=f"{op}-{i}", inputs=(1,), outputs=(i + 2,), times=times), made))
    return Report(Trace(tuple(records), Run()))


def test_up_to_five_names_are_listed():
    for n, more in ((5, ""), (6, " and 1 more"), (7, " and 2 more")):
        names = "abcdefg"[:n]
        timed = net(dense("x", 1000), *(relu(name, 8) for name in names), framework="torch").time(TOY)
        found = timed.compare(net(dense("x", 1000, seconds=1e-3)))
        listed = ", ".join(f"relu-{i + 1}" for i in range(min(n, 5)))
        assert f"not measured, or with another operator, other shapes or dtypes: {listed}{more}" in found.remarks


def test_shares_of_nothing_are_nothing():
    found = net(dense("a", 8), framework="torch").time(TOY).compare(net(dense("a", 8, seconds=0.0)))
    (entry,) = found.to_dict()["groups"]
    assert (entry["measured%"], entry["bound/measured%"]) == (0.0, 0.0)


SLOW = {"gbs": 1.0, "latency_us": 2.0}


def reduced(nbytes=4000, times=3, group="tp"):
    layer = Layer(
        "all_reduce", {"x0": Tensor((nbytes // 4,))}, [Tensor((nbytes // 4,))], {"group_size": 4, "group": group}
    )
    sent = Cost(Operations(add=1), nbytes, nbytes, {}, mcomm=nbytes)
    return CallCost(Call(layer, "all_reduce", name=f"r-{group}", times=times), sent)


def test_communication_is_stated_by_group():
    trace = Trace((reduced(), reduced(8000, 1, "dp")), Run())
    time = Report(trace).time(TOY, links={"tp": SLOW})
    assert time.communication_seconds is None
    lines = [line for line in time.remarks if line.startswith("communication")]
    assert lines[0] == "communication: unknown without overlap, not part of the bound"
    assert lines[1].startswith("communication, tp of 4: ") and lines[1].endswith(" over custom, 3 calls, 12,000 B sent")
    assert lines[2] == "communication, dp of 4: no link given (links=…), 1 call, 8,000 B sent"
    (tp, dp) = time.to_dict()["communication"]["groups"]
    assert tp["link"]["name"] == "custom" and dp["link"] is None
    both = Report(trace).time(TOY, links={"": SLOW})
    assert both.communication_seconds == pytest.approx(sum(each.seconds for each in both.communications))
    assert Report(Trace((), Run())).time(TOY).communication_seconds == 0.0


def test_float32_products_of_a_recorded_run_may_be_rounded_if_some_were():
    trace = traces.run(dtype="float32", tf32=True)
    assert Report(trace).time(TOY).tf32 == ("conv", "matmul")
    assert Report(trace).time(TOY, tf32=()).tf32 == ()


def test_kernels_at_their_limits():
    """Copies of exactly half of the time count, and calls that take exactly as long as their bound."""
    base = traces.run()
    assert traces.of(traces.changed(base, 1, aside=1000)).left_out == {}
    assert traces.of(traces.changed(base, 1, aside=1001)).left_out == {COPIED: 1}
    bound = Report(base).time(traces.L4).groups[23].bound_seconds * 1e9
    least = int(bound) + 1
    assert traces.of(traces.changed(base, 23, device=least)).left_out == {}
    assert traces.of(traces.changed(base, 23, device=least - 1)).left_out == {BELOW: 1}


@pytest.mark.parametrize(
    ("row", "is_valid"),
    [
        ([1e-15, 1.0, 1.0], True),
        ([9e-16, 1.0, 1.0], False),
        ([1.0, 1e30, 1.0], True),
        ([1.0, 1.1e30, 1.0], False),
        ([1.0, 1.0, 1.0, 200.0], True),
        ([1.0, 1.0, 1.0, 200.5], False),
        ([1.0, 1.0], False),
        ([0.0, 1.0, 1.0], False),
        ([1.0, -1.0, 1.0], False),
    ],
)
def test_limits_of_the_numbers_of_a_file(row, is_valid):
    family = {"name": "relu", "kind": "arithmetic", "errors": [], "points": [row]}
    made = {**table(), "family": [family]}
    if is_valid:
        assert net(relu("a", 8)).time(calibrated_device(made))
    else:
        with pytest.raises(CostError, match="calibration"):
            net(relu("a", 8)).time(calibrated_device(made))


@pytest.fixture
def on_device(monkeypatch):
    """Have one name stand for a device, which quantities take by its name."""

    def put(one):
        for place in ("devices.device", "timing.times"):
            monkeypatch.setattr(f"costcore.analyses.{place}.find_device", lambda _: one)

    return put


def test_the_calibrated_time_of_calls_is_their_sum(on_device):
    """Both activations take the 1 µs that was measured; of a product in another dtype nothing is known."""
    on_device(calibrated_device())
    ledger = net(relu("a", 1024), relu("b", 1024), framework="torch").ledger
    asked = quantity("calibrated_seconds@toy")
    assert asked.of(ledger, ledger.calls) == asked.total(ledger) == pytest.approx(2e-6)
    assert asked.of(ledger, ledger.calls[:1]) == pytest.approx(1e-6)
    assert asked.of(ledger, []) == 0.0
    half = quantity("calibrated_seconds@toy:float16")
    mixed = net(relu("a", 1024), dense("b", 1024), framework="torch").ledger
    assert half.of(mixed, mixed.calls) is None


def test_a_device_that_was_never_calibrated_has_no_calibrated_time(on_device):
    on_device(TOY)
    ledger = net(relu("a", 1024)).ledger
    for calls in (ledger.calls, []):
        with pytest.raises(CostError, match="toy was not calibrated: run costcore calibrate on it, and name its file"):
            quantity("calibrated_seconds@toy").of(ledger, calls)


def test_what_binds_calls_is_unknown_only_if_there_are_calls(on_device):
    on_device(TOY)
    ledger = net(relu("a", 1000), dense("b", 1000)).ledger
    asked = quantity("binds@toy")
    assert [asked.of(ledger, [each]) for each in ledger.calls] == ["vector", "dram"]
    assert asked.of(ledger, []) == ""
    on_device(Device("blank", "npu"))
    blank = net(relu("a", 1000), dense("b", 1000)).ledger
    assert [asked.of(blank, blank.calls), asked.of(blank, [])] == ["unknown", ""]


def test_ten_calls_are_compared_by_default():
    """12 products that took 1 to 12 µs longer than their bounds."""
    timed = net(*(dense(f"m{i}", 1000) for i in range(12)), framework="torch").time(TOY)
    found = timed.compare(net(*(dense(f"m{i}", 1000, seconds=(4 + i) * 1e-6) for i in range(12))))
    assert [group.name for group in found.worst()] == [f"linear-{i}" for i in range(12, 2, -1)]
    stream = StringIO()
    found.show(stream, "csv", by="call")
    assert len(stream.getvalue().splitlines()) == 1 + 10 + 1
    found.show(whole := StringIO())
    assert whole.getvalue().strip() == str(found).strip()


def test_no_dot_lies_above_a_roof():
    """A convolution by Winograd's algorithm, whose operands fit the cache, beside a fused sum of another dtype.

    Definition: 2 * 2304 * 16 * 32 * 32 FLOP. F(6x6, 3x3) needs 64 products for 36 outputs of 9 each: 81 / 16 = 5.0625
    times fewer. So the bound is shorter than the FLOP of the definition take at the peak, but the dot is on the roof.
    """
    image, weight = Tensor((1, 16, 34, 34), "float16"), Tensor((16, 16, 3, 3), "float16", "param")
    out = Tensor((1, 16, 32, 32), "float16")
    layer = Layer("conv", {"x": image, "w": weight}, [out], {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)})
    macs = out.size * 16 * 9
    cost = Cost(Operations(fma=macs), image.nbytes + weight.nbytes, out.nbytes, {}, macs)
    sums = run(("add", "float32", Operations(fma=10**5), 1)).trace.records
    conv = CallCost(Call(layer, "conv", name="conv", inputs=(1, 2), outputs=(3,)), cost)
    dots = {name: (*rest,) for name, *rest in Report(Trace((conv, *sums), Run())).plot("roofline", device=TOY)}
    for intensity, rate, binds, _ in dots.values():
        assert rate <= {"matrix": 8e12, "vector": 1e12, "dram": 1e12}[binds] * (1 + 1e-12)
        assert rate <= 1e12 * intensity * (1 + 1e-12)  # memory
    _, rate, _, seconds = dots["conv"]
    assert seconds == pytest.approx(2 * macs / 5.0625 / 8e12)
    assert rate == pytest.approx(8e12)


def test_a_measured_run_has_the_rates_that_were_measured():
    """10**6 additions in 4 µs are 2.5e11 FLOP/s; the bound is 2 µs. On another device it is that of the bound."""
    (record,) = run(("add", "float32", Operations(add=10**6), 1)).trace
    profile = Profile("NVIDIA L4", "device", 4000, 0, {0: CallTime(4000, 0, 4000, 1)})
    report = Report(Trace((record,), Run().recording(profile=profile)))
    (measured,) = report.plot("roofline", device=device(name="l4"))
    assert measured[2] == pytest.approx(10**6 / 4e-6) and measured[5] == pytest.approx(4e-6)
    assert measured[1] == pytest.approx(10**6 / 8000)
    (bound,) = report.plot("roofline", device=TOY)
    assert len(bound) == 5 and bound[2] == pytest.approx(10**6 / 2e-6)
    assert "measured FLOP per second" in report.time(device(name="l4")).to_svg()


@pytest.mark.parametrize(
    ("options", "roofs"),
    [
        ({}, {"matrix 4 TFLOP/s, tfloat32": "94%", "vector 1 TFLOP/s, float32": "6%"}),
        ({"tf32": []}, {"vector 1 TFLOP/s, float32": "100%"}),
        (
            {"dtype": "float16", "tf32": ["matmul"]},
            {"matrix 8 TFLOP/s, float16": "94%", "vector 2 TFLOP/s, float16": "6%"},
        ),
    ],
)
def test_roofs_have_the_rates_that_bind(options, roofs):
    """The product takes 16 times as long as the activation, unless both run on the vector engine."""
    picture = net(dense("a", 64), relu("b", 64)).time(TOY, **options).to_svg()
    texts = re.findall(r">([^<>]*)<", picture)
    assert [text for text in texts if "binds" in text] == [
        f"{name.partition(' ')[0]} binds {share} of the time" for name, share in roofs.items()
    ]
    assert {text for text in texts if text.startswith(("matrix ", "vector ")) and "binds" not in text} == {*roofs}
