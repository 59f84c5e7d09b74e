"""The time of collectives over links, against the arithmetic of rings and trees."""

from __future__ import annotations

import pytest

from costcore import Report, Trace
from costcore.ir import Layer, Tensor
from tests.calculators.layer_costs import cost_of
from tests.command_line import main
from tests.core.traces import Call, CallCost, Run

LINK = {"gbs": 100, "latency_us": 5}


def record(op, inputs, outputs, n, group=None, times=1):
    attrs = {"group_size": n} | ({} if group is None else {"group": group})
    tensors = {f"x{i}": Tensor((size,)) for i, size in enumerate(inputs)}
    layer = Layer(op, tensors, [Tensor((size,)) for size in outputs], attrs)
    call = Call(layer, op, name=f"{op}-{group}", times=times)
    return CallCost(call, cost_of(layer))


def report(*records):
    named = (each._replace(call=each.call.named(f"{each.call.type}-{i}")) for i, each in enumerate(records))
    return Report(Trace(tuple(named), Run()))


def seconds(op, inputs, outputs, n, link=LINK):
    return report(record(op, inputs, outputs, n)).time("l4", links=link).communication_seconds


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "expected"),
    [
        # 100 MB among 8: 14 steps of 5 us, and 2 * 100 MB * 7/8 at 100 GB/s = 1.75 ms
        ("all_reduce", [25_000_000], [25_000_000], 70e-6 + 1.75e-3),
        # 400 B: a tree of 2 * 3 steps is faster than a ring of 14; 800 B at 100 GB/s = 8 ns
        ("all_reduce", [100], [100], 30e-6 + 8e-9),
        # 7 steps, and 100 MB * 7/8
        ("all_gather", [3_125_000], [25_000_000], 35e-6 + 0.875e-3),
        ("reduce_scatter", [25_000_000], [3_125_000], 35e-6 + 0.875e-3),
        ("all_to_all", [25_000_000], [25_000_000], 35e-6 + 0.875e-3),
        ("broadcast", [25_000_000], [], 35e-6 + 1e-3),
        ("send", [25_000_000], [], 5e-6 + 1e-3),
        ("recv", [], [25_000_000], 5e-6 + 1e-3),
        ("barrier", [], [], 30e-6),
    ],
)
def test_latency_of_the_steps_and_bytes_at_the_rate(op, inputs, outputs, expected):
    assert seconds(op, inputs, outputs, 8) == pytest.approx(expected, rel=1e-12)


def test_one_process_needs_no_time():
    assert seconds("all_reduce", [100], [100], 1) == 0


@pytest.mark.parametrize("op", ["broadcast", "reduce_to_root", "all_reduce", "all_gather", "all_to_all"])
def test_one_process_sends_and_adds_nothing(op):
    _, cost, *_ = record(op, [100], [100], 1)
    assert (cost.mcomm, cost.flops.flops()) == (0, 0)


def test_each_group_has_its_link():
    """Two all-reduces of 400 MB among 2, 1 step each way: 2 * (10 us + 4 ms); one all-gather of 80 B among 4."""
    made = report(
        record("all_reduce", [100_000_000], [100_000_000], 2, "tp", times=2),
        record("all_gather", [5], [20], 4, "dp"),
    )
    time = made.time("l4", links={"tp": {"gbs": 100, "latency_us": 5}, "dp": "ethernet-10g"})
    first, second = time.communications
    assert (first.group, first.group_size, first.n_calls, first.sent) == ("tp", 2, 2, 800_000_000)
    assert first.seconds == pytest.approx(2 * (10e-6 + 4e-3))
    assert second.seconds == pytest.approx(3 * 2.7e-6 + 60 / 1.25e9)
    assert time.communication_seconds == pytest.approx(first.seconds + second.seconds)
    assert time.bound_seconds == made.time("l4").bound_seconds  # communication may be overlapped
    assert "communication: 8.028 ms without overlap, not part of the bound" in time.remarks
    assert "communication, tp of 2: 8.02 ms over custom, 2 calls, 800,000,000 B sent" in time.remarks
    entry = time.to_dict()["communication"]
    assert entry["seconds"] == time.communication_seconds
    assert [group["link"]["gbs"] for group in entry["groups"]] == [100, 1.25]


@pytest.mark.parametrize(
    ("links", "expected"), [("tp=nvlink4,dp=ethernet-10g", "over ethernet-10g"), ("nvlink3", "over nvlink3")]
)
def test_the_command_takes_links(links, expected, tmp_path, capsys):
    path = tmp_path / "report.json"
    report(record("all_gather", [5], [20], 4, "dp")).to_json(path)
    assert main(["time", str(path), "--device", "l4", "--links", links]) == 0
    assert expected in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["time", str(path), "--device", "l4", "--links", "dp=nvlink9"])
    assert "unknown link 'nvlink9'" in capsys.readouterr().err


def test_without_a_link_the_time_is_unknown():
    made = report(record("all_gather", [5], [20], 4, "dp"))
    time = made.time("l4")
    assert time.communication_seconds is None
    assert "communication, dp of 4: no link given (links=…), 1 call, 60 B sent" in time.remarks
    assert made.time("l4", links="nvlink4").communication_seconds == pytest.approx(3 * 0.47e-6 + 60 / 450e9)
    assert made.time("l4", links={"tp": "nvlink4"}).communication_seconds is None
    assert [each.seconds for each in made.analysis("communication")] == [None]
    assert [each.seconds for each in made.analysis("communication", links="nvlink4")] == [
        pytest.approx(3 * 0.47e-6 + 60 / 450e9)
    ]


def test_only_collectives_with_a_size_and_a_cost_communicate():
    """Five numbers of each of four processes are gathered: 60 bytes are sent by three of them."""
    gather = record("all_gather", [5], [20], 4, "dp")
    relu = Layer("relu", {"x": Tensor((4,))}, [Tensor((4,))])
    others = [
        CallCost(Call(relu, "relu", name="relu-1"), cost_of(relu)),
        CallCost(Call(Layer("relu", relu.inputs, relu.outputs, {"group_size": 4}), "relu"), gather.cost),
        CallCost(Call(Layer("all_gather", relu.inputs, relu.outputs), "all_gather"), gather.cost),
        gather._replace(cost=None),
    ]
    (found,) = report(*others, gather).time("l4").communications
    assert (found.group, found.group_size, found.n_calls, found.sent) == ("dp", 4, 1, 60)


def test_groups_of_one_name_and_other_sizes_are_apart():
    """Among 2 and among 4: 1 and 3 steps of 5 us each, and 40 and 60 bytes at 100 GB/s."""
    made = report(
        record("all_gather", [10], [20], 2, times=3),
        record("all_gather", [5], [20], 4),
        record("all_gather", [10], [20], 2),
    )
    two, four = made.time("l4", links=LINK).communications
    assert (two.group, two.group_size, two.n_calls, two.sent) == ("", 2, 4, 4 * 40)
    assert (four.group, four.group_size, four.n_calls, four.sent) == ("", 4, 1, 60)
    assert two.seconds == pytest.approx(4 * (5e-6 + 40 / 1e11), rel=1e-12)
    assert four.seconds == pytest.approx(15e-6 + 60 / 1e11, rel=1e-12)


def test_at_another_dtype_fewer_bytes_are_sent():
    made = report(record("all_gather", [5], [20], 4, "dp"))
    assert made.time("l4", dtype="bfloat16", links="nvlink4").communications[0].sent == 30


def test_a_run_of_one_process_does_not_communicate():
    made = report()
    time = made.time("l4")
    assert (time.communications, time.communication_seconds) == ([], 0)
    assert "communication" not in time.to_dict()
    assert not any("communication" in line for line in time.remarks)


@pytest.mark.parametrize(
    ("name", "gbs"),
    [
        *((f"pcie{n}-x16", 16 * rate * 128 / 130 / 8) for n, rate in ((3, 8), (4, 16), (5, 32))),
        ("infiniband-ndr", 400 / 8),
    ],
)
def test_rates_of_links(name, gbs):
    """PCI Express: 16 lanes of 8 GT/s with 128 of 130 bits are 16 * 8 * 128/130 / 8 = 15.754 GB/s."""
    (found,) = report(record("all_gather", [5], [20], 4)).time("l4", links=name).communications
    assert found.link.gbs == pytest.approx(gbs, abs=1e-3)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("nvlink9", ValueError, "unknown link 'nvlink9'.*Did you mean 'nvlink"),
        (3, TypeError, "a link must be a name or"),
        ({"gbs": 3}, TypeError, "a link must be a name or"),
        ({"gbs": 0, "latency_us": 1}, ValueError, "gbs of a link must be a positive number"),
        ({"gbs": 1, "latency_us": "2"}, ValueError, "latency_us of a link must be a positive number"),
        ({"tp": "nvlink9"}, ValueError, "unknown link"),
        *(({"gbs": gbs, "latency_us": 1}, ValueError, "gbs of a link") for gbs in (-1, True, float("inf"), "1")),
        *(({"gbs": 1, "latency_us": us}, ValueError, "latency_us of a link") for us in (-1, False, float("inf"))),
        ({"gbs": 1, "latency_us": 1, "name": "x"}, TypeError, "a link must be a name or"),
    ],
)
def test_invalid_links(value, error, message):
    with pytest.raises(error, match=message):
        report(record("all_gather", [5], [20], 4, "tp")).time("l4", links=value)
