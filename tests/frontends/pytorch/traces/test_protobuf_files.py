"""Traces as protobufs: files of Perfetto and XSpace, written by a small encoder, and two that tools wrote.

Field numbers are those of ``perfetto/trace/trace.proto`` (Perfetto 0.16) and ``tsl/profiler/protobuf/xplane.proto``.
``jax_cpu.xplane.pb.gz`` is the plane ``/host:CPU`` of ``jax.profiler.trace`` (JAX 0.10.2, CPU): three runs of a
compiled step with a convolution and a two-layer network. ``perfetto_builder.pftrace`` was written by
``TraceProtoBuilder`` of the package perfetto (0.16.0), with the tracks and categories of rocprofv3.
"""

from __future__ import annotations

import gzip
import json
import random
import resource
import struct
import time
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from costcore import CostError, estimate

pytestmark = pytest.mark.filterwarnings("ignore::costcore.CostWarning")

DATA = Path(__file__).parents[3] / "data" / "traces"


def varint(number: int) -> bytes:
    number %= 1 << 64
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def message(*fields: tuple[int, object]) -> bytes:
    """Return a message: numbers are varints, floats fixed64, and all others bytes."""
    found = []
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3), varint(value)
        elif isinstance(value, float):
            found += varint(number << 3 | 1), struct.pack("<d", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += varint(number << 3 | 2), varint(len(data)), data
    return b"".join(found)


def packets(*each: bytes) -> bytes:
    return message(*((1, packet) for packet in each))


def thread(uuid: int, tid: int) -> bytes:
    return message((60, message((1, uuid), (4, message((1, 77), (2, tid))))))


def begin(uuid: int, time: int, category: str, name: str, **arguments: int) -> bytes:
    notes = [(4, message((10, key), (3, value))) for key, value in arguments.items()]
    return message((8, time), (10, 5), (11, message(*notes, (9, 1), (11, uuid), (22, category), (23, name))))


def end(uuid: int, time: int) -> bytes:
    return message((8, time), (10, 5), (11, message((9, 2), (11, uuid))))


def rocprof() -> bytes:
    """A range of ``emit_nvtx`` with a launch inside, whose kernel has 500 ns; a kernel without a launch has 80 ns."""
    return packets(
        thread(2, 78),
        message((60, message((1, 3), (2, "COMPUTE AGENT [4] QUEUE [1] (GPU)")))),
        begin(2, 1000, "marker_api", "aten::addmm, seq = 5"),
        begin(2, 1020, "hip_runtime_api", "hipLaunchKernel", corr_id=1),
        end(2, 1040),
        end(2, 1100),
        begin(3, 1200, "kernel_dispatch", "Cijk_MT128x64", corr_id=1, agent=4, queue=1),
        end(3, 1700),
        begin(3, 1720, "kernel_dispatch", "void relu<float>(float*)", corr_id=9, agent=4, queue=1),
        end(3, 1800),
    )


def interned() -> bytes:
    """The same kernels as :func:`rocprof`, by interned names, a default track and times as differences."""
    names = [(2, message((1, 1), (2, "Cijk_MT128x64"))), (2, message((1, 2), (2, "void relu<float>(float*)")))]
    words = [(1, message((1, 1), (2, "kernel_dispatch"))), (3, message((1, 7), (2, "corr_id")))]
    clock = message((1, message((1, 64), (2, 1000), (3, 1), (4, 1))))
    defaults = message((58, 64), (11, message((11, 3))))
    first = message((10, 6), (13, 1), (6, clock), (59, defaults), (12, message(*names, *words)))

    def event(delta: int, kind: int, name: int = 0) -> bytes:
        found = [(9, kind), *([(10, name), (3, 1), (4, message((1, 7), (3, name)))] if name else [])]
        return message((8, delta), (10, 6), (11, message(*found)))

    return packets(
        message((50, zlib.compress(packets(first, event(200, 1, 1))))), event(500, 2), event(20, 1, 2), event(80, 2)
    )


def space(*lines: bytes, kind: str = "TPU v4", plane: str = "/device:TPU:0") -> bytes:
    """A plane whose events are: 1 a product with FLOPs and bytes, 2 a loop, 3 an addition in the backward pass."""
    names = ("flops", "bytes_accessed", "hlo_category", "tf_op", "device_type_string")
    stats = [(5, message((1, i), (2, message((1, i), (2, name))))) for i, name in enumerate(names, 1)]
    product = [
        (5, message((1, 1), (3, 2000))),
        (5, message((1, 2), (4, 600))),
        (5, message((1, 3), (5, "convolution"))),
    ]
    product.append((5, message((1, 4), (5, "jit(step)/Dense_0/dot_general:"))))
    added = [
        (5, message((1, 3), (5, "loop fusion"))),
        (5, message((1, 4), (5, "jit(step)/transpose(jvp(Dense_1))/add_any"))),
        (5, message((1, 2), (2, 60.0))),
    ]
    events = {1: ("%fusion.1 = f32[…]", "fusion.1", product), 2: ("while.3", "", []), 3: ("fusion.2", "", added)}
    kinds = [
        (4, message((1, i), (2, message((1, i), (2, name), (4, shown), *more))))
        for i, (name, shown, more) in events.items()
    ]
    return message(
        (1, message((2, plane), *((3, line) for line in lines), *kinds, *stats, (6, message((1, 5), (5, kind)))))
    )


def line(name: str, *events: tuple[int, int, int]) -> bytes:
    """A line from 1,000 ns on; an event has its kind, and its start and length in nanoseconds."""
    found = [(4, message((1, kind), (2, 1000 * start), (3, 1000 * length))) for kind, start, length in events]
    return message((2, name), (3, 1000), *found)


TPU = space(
    line("Steps", (2, 0, 900)),
    line("XLA Modules", (2, 0, 900)),
    line("XLA Ops", (2, 100, 700), (1, 150, 400), (3, 600, 50)),
)


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def by_operator(report):
    rows = report.measured().table("op").to_dict()["tables"][0]["rows"]
    return {row["name"]: round(1e9 * row["seconds"]) for row in rows if row.get("seconds")}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (rocprof(), {"aten::addmm": 500, "kernel::relu": 80}),
        (interned(), {"kernel::Cijk_MT128x64": 500, "kernel::relu": 80}),
        (gzip.compress(rocprof()), {"aten::addmm": 500, "kernel::relu": 80}),
        ((DATA / "perfetto_builder.pftrace").read_bytes(), {"kernel::Cijk_Ailk_Bljk_MT128x64": 1500}),
        (TPU, {"xla::convolution": 400, "xla::loop fusion": 50}),
    ],
    ids=["rocprof", "interned", "gz", "perfetto", "xspace"],
)
def test_time_of_operators(tmp_path, data, expected):
    assert by_operator(estimate(written(tmp_path / "file", data))) == expected


def test_operators_of_xla_have_the_costs_that_the_profiler_states(tmp_path):
    report = estimate(written(tmp_path / "step.xplane.pb", TPU))
    first, second = report.trace.calls
    # 2000 FLOPs of a product are 1000 products and 1000 sums
    assert (report.total_report["macs"], report.total_report["mread"], report.status) == (1000, 660, "assumed")
    assert [(call.module, call.phase) for call in (first, second)] == [("Dense_0", "forward"), ("Dense_1", "backward")]
    assert report.trace.run.profile.device == "TPU v4"
    assert any("XLA's cost analysis" in str(assumption) for assumption in report.assumptions)
    view = report.measured(device="tpu-v4")
    assert view.mfu is None and any("no dtypes" in remark for remark in view.remarks)
    assert view.total.flops == 2000


def test_a_trace_of_jax_has_the_operators_that_ran(tmp_path):
    path = written(tmp_path / "cpu.xplane.pb", (DATA / "jax_cpu.xplane.pb.gz").read_bytes())
    report = estimate(path)
    counted = {}
    for call in report.trace.calls:
        counted[call.native] = counted.get(call.native, 0) + 1
    # three runs of one convolution, two products, and fusions
    assert (counted["xla::convolution"], counted["xla::dot"], counted["xla::ynn_fusion"]) == (3, 6, 21)


def test_the_chrome_trace_of_jax_has_no_categories(tmp_path):
    args = {"hlo_module": "jit_step", "hlo_op": "dot.1"}
    event = {"ph": "X", "pid": 701, "tid": 3, "ts": 10.5, "dur": 41.484, "name": "dot.1", "args": args}
    other = {"ph": "X", "pid": 701, "tid": 3, "ts": 1.5, "dur": 2, "name": "$contextlib.py:132 __enter__"}
    text = json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [other, event]})
    assert by_operator(estimate(written(tmp_path / "perfetto_trace.json", text.encode()))) == {"xla::dot": 41484}


def test_json_of_rocprof(tmp_path):
    def dispatch(kernel: int, start: int, stop: int) -> dict[str, object]:
        info = {"agent_id": {"handle": 4}, "queue_id": {"handle": 1}, "kernel_id": kernel}
        return {"start_timestamp": start, "end_timestamp": stop, "dispatch_info": info}

    symbols = [{"kernel_id": 7, "formatted_kernel_name": "Cijk_MT128x64"}, {"kernel_id": 8, "kernel_name": "relu"}]
    copies = [{"start_timestamp": 1000, "end_timestamp": 1030}]
    records = {
        "kernel_dispatch": [dispatch(7, 1100, 1600), dispatch(8, 1600, 1680), dispatch(9, 1, 2)],
        "memory_copy": copies,
    }
    text = json.dumps(
        {"rocprofiler-sdk-tool": [{"metadata": {}, "kernel_symbols": symbols, "buffer_records": records}]}
    )
    path = written(tmp_path / "1_results.json", text.encode())
    assert by_operator(estimate(path)) == {
        "kernel::Cijk_MT128x64": 500,
        "kernel::relu": 80,
        "launched before the window": 30,
    }


def test_json_of_rocprof_for_large_runs(tmp_path, monkeypatch):
    """A process with more dispatches than one value may have characters, its symbols after them; one with other ids.

    The records are those of ``tests/rocprof/908_results.json.gz`` of github.com/AMD-AGI/TraceLens, without most fields.
    """
    monkeypatch.setattr("costcore.frontends.pytorch.traces.json_stream.LONGEST", 2**14)
    monkeypatch.setattr("costcore.frontends.pytorch.traces.json_stream.CHUNK", 2**12)

    def process(name: str, n: int) -> dict[str, object]:
        dispatches = [
            {
                "size": 184,
                "correlation_id": {"internal": i, "external": 0},
                "start_timestamp": 63857983914653 + 100 * i,
                "end_timestamp": 63857983914653 + 100 * i + 40,
                "dispatch_info": {"agent_id": {"handle": 37946}, "queue_id": {"handle": 16}, "kernel_id": 8},
            }
            for i in range(n)
        ]
        agents = [
            {"id": {"handle": 37944}, "type": 1, "product_name": "AMD EPYC"},
            {"id": {"handle": 37946}, "type": 2, "product_name": "AMD Instinct MI350X"},
        ]
        symbol = {"kernel_id": 8, "kernel_name": f"{name}.kd", "formatted_kernel_name": name}
        records = {"kernel_dispatch": dispatches, "hip_api": [], "memory_copy": []}
        return {
            "metadata": {"pid": 908, "node": {"id": 0}},
            "agents": agents,
            "buffer_records": records,
            "callback_records": {"counter_collection": []},
            "kernel_symbols": [symbol],
        }

    text = json.dumps({"rocprofiler-sdk-tool": [process("relu", 200), 3, process("tanh", 2)]})
    assert len(text) > 2**15
    report = estimate(written(tmp_path / "908_results.json", text.encode()))
    assert by_operator(report) == {"kernel::relu": 200 * 40, "kernel::tanh": 2 * 40}
    assert "recorded on AMD Instinct MI350X" in report.notes
    cut = estimate(written(tmp_path / "cut.json", text[:-100].encode()))
    assert any("ends early" in str(each) for each in cut.assumptions)


def test_notes_of_a_profile_of_xla(tmp_path):
    """XLA states FLOPs and bytes on a TPU; a profile of a GPU or a CPU has times alone."""
    of_tpu = estimate(written(tmp_path / "step.xplane.pb", TPU))
    of_cpu = estimate(DATA / "jax_cpu.xplane.pb.gz")
    assert not any("only times are known" in note for note in of_tpu.notes)
    assert any(note.endswith("a function of JAX with the package costcore-jax") for note in of_cpu.notes)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (packets(thread(2, 78)), "has no operators and no kernels"),
        (rocprof()[:-3], "is damaged: it ends in the field at byte"),
        (space().decode("utf-8", "replace").encode(), "is damaged: it was saved as text, which replaces bytes"),
        (packets(message((6, b""), (50, b"no zlib"))), "cannot be decompressed"),
        (packets(message((6, b""), (50, zlib.compress(bytes(2**28))))), "expand to more than 64 times their size"),
        (packets(*(begin(2, i, "hip_api", "f") for i in range(100_001))), "slices are open at once"),
        (space(line("XLA Ops", (9, 0, 5))), "has no operators and no kernels"),
    ],
    ids=["nothing", "cut", "as text", "no zlib", "large", "deep", "unknown event"],
)
def test_files_that_are_refused(tmp_path, data, problem):
    with pytest.raises(CostError, match=problem):
        estimate(written(tmp_path / "file", data))


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("report.nsys-rep", "nsys export --type sqlite"),
        ("report.ncu-rep", "nsys export --type sqlite report.nsys-rep"),
        ("results.rocpd", "rocpd convert --output-format pftrace -i"),
        ("trace.otf2", "rocprofv3 --kernel-trace --output-format pftrace"),
    ],
)
def test_other_reports_name_the_command_that_exports_them(tmp_path, name, command):
    with pytest.raises(CostError, match=command):
        estimate(written(tmp_path / name, b"\1\2\3\4"))


def test_damaged_files_have_one_family_of_errors(tmp_path):
    draw = random.Random(7)
    begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    files = (rocprof(), interned(), TPU, gzip.decompress((DATA / "jax_cpu.xplane.pb.gz").read_bytes())[:20_000])
    for i in range(60):
        content = files[i % len(files)]
        damaged = bytearray(content[: draw.randrange(20, len(content))] if i % 3 == 0 else content)
        for _ in range(draw.randrange(1, 12)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        with suppress(CostError):
            estimate(written(tmp_path / f"{i}.pb", bytes(damaged)))
    assert time.process_time() - begun < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20
