"""Profiles of a device alone: exports of Nsight Systems and kernel traces of rocprofv3, written by hand.

Tables and columns are those of ``nsys export --type sqlite`` (docs.nvidia.com/nsight-systems) and of
``rocprofv3 --kernel-trace`` (rocm.docs.amd.com/projects/rocprofiler-sdk).
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from costcore import CostError, estimate
from tests.command_line import main

pytestmark = pytest.mark.filterwarnings("ignore::costcore.CostWarning")

TABLES = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (name TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, copyKind INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
"""

TEXTS = {1: "sgemm_128x64", 2: "void relu_kernel<float>(float*)", 3: "cudaLaunchKernel", 4: "aten::addmm, seq = 5"}

PROCESS = 77 << 24
THREAD = PROCESS + 1


def nsight(path, more=""):
    """Two matrix products of 500 ns inside of ``aten::addmm``, two kernels of 80 ns outside, and a copy of 30 ns."""
    with sqlite3.connect(path) as file:
        file.executescript(TABLES)
        file.executemany("INSERT INTO StringIds VALUES (?, ?)", TEXTS.items())
        file.execute("INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100 80GB HBM3')")
        for i, start in enumerate((1000, 2000)):
            launches = [(start, start + 5, THREAD, 2 * i + 1, 3), (start + 20, start + 25, THREAD, 2 * i + 2, 3)]
            file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", launches)
            file.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, NULL, 4, ?)", (start - 10, start + 10, THREAD))
            kernels = [(start + 100, start + 600, 0, 7, 2 * i + 1, PROCESS, 1, 1)]
            kernels += [(start + 620, start + 700, 0, 7, 2 * i + 2, PROCESS, 2, 2)]
            file.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?)", kernels)
        file.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (2900, 2930, 0, 7, 99, ?, 1)", (PROCESS,))
        file.executescript(more)
    file.close()
    return str(path)


HEADER = '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"'


def rocprof(path, *rows):
    path.write_text("\n".join([HEADER, *(f'"KERNEL_DISPATCH","Agent 4",1,{i},{row}' for i, row in enumerate(rows))]))
    return str(path)


def by_operator(report):
    rows = report.measured().table("op").to_dict()["tables"][0]["rows"]
    return {row["name"].removeprefix("kernel::"): round(1e9 * row["seconds"]) for row in rows if row.get("seconds")}


def test_kernels_belong_to_the_ranges_that_launched_them(tmp_path):
    report = estimate(nsight(tmp_path / "step.sqlite"))
    assert by_operator(report) == {
        "aten::addmm": 1000,
        "relu_kernel": 160,
        "launched before the window": 30,
    }
    profile = report.trace.run.profile
    # From the first kernel to the end of the copy: 1830 ns, of which 2 * 580 and 30 have work.
    assert (profile.device, profile.span, profile.idle) == ("NVIDIA H100 80GB HBM3", 1830, 1830 - 2 * 580 - 30)
    assert report.status == "partial"
    assert any("the trace has no shapes" in note for note in report.notes)


def test_kernels_without_launches_are_operators_of_their_own(tmp_path):
    path = nsight(tmp_path / "step.sqlite", "DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME; DROP TABLE NVTX_EVENTS;")
    assert by_operator(estimate(path)) == {
        "sgemm_128x64": 1000,
        "relu_kernel": 160,
        "launched before the window": 30,
    }


def test_graphs_that_are_recorded_as_wholes_have_their_time(tmp_path):
    more = f"""CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER,
            streamId INTEGER, correlationId INTEGER, globalPid INTEGER);
        INSERT INTO StringIds VALUES (9, 'cudaGraphLaunch');
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (3000, 3005, {THREAD}, 50, 9);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (3100, 3500, 0, 7, 50, {PROCESS}),
            (3600, 3660, 0, 7, 51, {PROCESS});"""
    report = estimate(nsight(tmp_path / "step.sqlite", more))
    assert by_operator(report)["cuda_graph"] == 400 + 60
    assert any("--cuda-graph-trace=node" in note for note in report.notes)


def test_correlation_numbers_count_per_process(tmp_path):
    other = (78 << 24) + 1
    more = f"""INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5000, 5005, {other}, 1, 3);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5100, 5107, 1, 7, 1, {other - 1}, 1, 1);"""
    assert by_operator(estimate(nsight(tmp_path / "two.sqlite", more)))["sgemm_128x64"] == 7


def test_a_kernel_trace_of_rocprof(tmp_path):
    path = rocprof(tmp_path / "1_kernel_trace.csv", '"Cijk_MT128x64",7,1000,1080', '"softmax(float*, int)",8,1100,1104')
    assert by_operator(estimate(path)) == {"Cijk_MT128x64": 80, "softmax": 4}
    assert main(["profile", path, "--output", str(tmp_path / "page.html")]) == 0
    assert "<h1><bdi>1_kernel_trace.csv</bdi></h1>" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: rocprof(path), "has no kernels"),
        (lambda path: rocprof(path, '"k",1,x,y', '"k",1,9,2', "1"), "has no kernels"),
        (lambda path: path.write_text("Kernel_Name,Start_Timestamp\n"), "is not a trace .expected JSON"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(100)), "cannot be read as a database"),
        (
            lambda path: sqlite3.connect(path).executescript("CREATE TABLE a (b); INSERT INTO a VALUES (1)"),
            "but no export of",
        ),
    ],
)
def test_files_that_are_refused(tmp_path, make, message):
    make(tmp_path / "file")
    with pytest.raises(CostError, match=message):
        estimate(str(tmp_path / "file"))


def test_views_are_not_read_and_journals_not_opened(tmp_path):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i + 1 AS end FROM n"
    path = nsight(tmp_path / "view.sqlite", f"DROP TABLE NVTX_EVENTS; CREATE VIEW NVTX_EVENTS AS {endless};")
    for suffix in ("-wal", "-journal", "-shm"):
        (tmp_path / f"view.sqlite{suffix}").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    assert by_operator(estimate(path))["sgemm_128x64"] == 1000
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_damaged_databases_have_one_family_of_errors(tmp_path):
    content = bytearray(Path(nsight(tmp_path / "good.sqlite")).read_bytes())
    draw = random.Random(5)
    for i in range(60):
        damaged = bytearray(content[: draw.randrange(100, len(content))] if i % 3 == 0 else content)
        for _ in range(draw.randrange(1, 40)):
            damaged[draw.randrange(16, len(damaged))] = draw.randrange(256)
        path = tmp_path / f"{i}.sqlite"
        path.write_bytes(damaged)
        with suppress(CostError):
            estimate(str(path))
