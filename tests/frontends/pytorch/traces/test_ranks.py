"""The ranks of a job: every time is worked out by hand, in microseconds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from costcore import CostError, profile_ranks
from tests.command_line import main
from tests.frontends.pytorch.traces.recording import kernel, launch, op, write

DOCS = Path(__file__).parents[4] / "docs"


def collective(start, length, n=100, name="allreduce", group="0", members="[0, 1]", size=2, number=9):
    """Return the kernel of a collective, as Kineto writes it for NCCL."""
    event = kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, length, number, stream=20)
    event["args"] |= {"Collective name": name, "In msg nelems": n, "Out msg nelems": n, "Group size": size}
    event["args"] |= {"dtype": "Float", "Process Group Name": group, "Process Group Ranks": members}
    return event


def rank_file(folder, rank, events, n_ranks: int | None = 2, name=""):
    """Write the trace of a rank."""
    info = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": n_ranks}}
    return write(folder / (name or f"rank{rank}.json"), events, **info)


FIRST = [
    *(kernel("gemm", 0, 40, 1), collective(30, 30), kernel("gemm", 60, 20, 2), collective(80, 15)),
    kernel("Memcpy DtoH", 100, 5, 3, "gpu_memcpy"),
]
"""Rank 0: computes for 40 + 20, communicates for 30 + 15, 10 of it hidden, copies for 5; 5 idle before that."""

SECOND = [
    *(kernel("gemm", 5000, 50, 1), collective(5050, 12), kernel("gemm", 5062, 18, 2), collective(5080, 20)),
]
"""Rank 1, whose clock is 5 ms ahead: computes for 50 + 18, communicates for 12 + 20."""


def times(rank):
    names = ("span", "busy", "compute", "communication", "exposed", "waiting", "copies", "idle", "held_up")
    return {name: None if getattr(rank, name) is None else getattr(rank, name) / 1000 for name in names}


def test_the_times_of_two_ranks(tmp_path):
    """Of the first collective rank 0 waits 30 - 12 = 18, of which 10 are hidden; of the second rank 1 waits 20 - 15."""
    job = profile_ranks([rank_file(tmp_path, 1, SECOND), rank_file(tmp_path, 0, FIRST)])
    zero, one = job.ranks
    assert times(zero) == {
        "span": 105,
        "busy": 100,
        "compute": 60,
        "communication": 45,
        "exposed": 35,
        "waiting": 18,
        "copies": 5,
        "idle": 5,
        "held_up": 5,
    }
    assert times(one) == {
        "span": 100,
        "busy": 100,
        "compute": 68,
        "communication": 32,
        "exposed": 32,
        "waiting": 5,
        "copies": 0,
        "idle": 0,
        "held_up": 18,
    }
    assert [*zero.parts.values()] == [60_000, 27_000, 8_000, 5_000, 5_000]
    assert sum(zero.parts.values()) == zero.span
    assert [(rank.n_last, rank.n_collectives) for rank in job.ranks] == [(1, 2), (1, 2)]
    assert job.straggler is one
    assert job.imbalance() == 68 / 64
    assert job.imbalance("waiting") == 18 / 11.5


def test_kernels_of_two_streams_at_one_time_count_once(tmp_path):
    """Compute is 0 to 30: 20 and 20 with 10 in common. The collective of 25 to 50 is exposed for 20."""
    events = [kernel("a", 0, 20, 1), kernel("b", 10, 20, 2, stream=8), collective(25, 25)]
    job = profile_ranks([rank_file(tmp_path, i, events) for i in (0, 1)])
    assert {rank.compute for rank in job.ranks} == {30_000}
    assert {rank.exposed for rank in job.ranks} == {20_000}
    assert {rank.waiting for rank in job.ranks} == {0}
    assert job.straggler is None and "no rank holds up" in str(job)


def test_kernels_count_where_the_steps_launched_them(tmp_path):
    """The device lags behind: the kernel of step 2 ends at 90. What was launched before step 1 ran until 12."""
    spans = [("ProfilerStep#1", 0, 20), ("ProfilerStep#2", 20, 20)]
    annotations = [
        {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": took}
        for name, start, took in spans
    ]
    events = [*annotations, kernel("late", 4, 8, 99), launch(5, 1), kernel("a", 10, 10, 1)]
    events += [launch(25, 2), kernel("b", 40, 50, 2)]
    path = rank_file(tmp_path, 0, events, 1)
    (both,) = profile_ranks(path).ranks
    assert (both.steps, both.span, both.compute, both.idle) == ((1, 2), 80_000, 60_000, 20_000)
    assert both.remarks == ["2.5% of the span was work launched before the window of the steps"]  # 2 of 80
    (second,) = profile_ranks([path], profiler_step=2).ranks
    assert (second.steps, second.span) == ((2,), 50_000)
    with pytest.raises(CostError, match=r"rank0.json has no step 7 of the profiler \(it has 1, 2\)"):
        profile_ranks(path, profiler_step=7)
    path, other = rank_file(tmp_path, 0, events), rank_file(tmp_path, 1, events[1:], name="other.json")
    with pytest.raises(CostError, match=r"has the steps 1, 2 of the profiler, and .*other.json the steps 2. .*step=2"):
        profile_ranks([path, other])
    with pytest.raises(TypeError, match="profiler_step"):
        profile_ranks(path, profiler_step="2")


def test_a_collective_is_named_at_its_launch(tmp_path):
    """ROCm names it there, and names the groups of the job in the head of the file."""
    for rank, took in ((0, 30), (1, 10)):
        stated = {"Collective name": "allreduce", "In msg nelems": 4, "Process Group Name": "7", "Group size": 2}
        events = [op("record_param_comms", 0, 9, **stated), launch(3, 1)]
        events += [kernel("ncclDevKernel_Generic", 10, took, 1), launch(20, 2), kernel("gemm", 60, 5, 2)]
        groups = [{"pg_name": "7", "ranks": [0, 1]}]
        info = {"distributedInfo": {"rank": rank, "world_size": 2, "pg_config": groups}}
        write(tmp_path / f"rank{rank}.json", events, **info)
    zero, one = profile_ranks(tmp_path).ranks
    assert (zero.waiting, one.waiting, one.held_up) == (20_000, 0, 20_000)


def pairs(folder, n):
    """Four ranks in pairs; rank 3 of the second pair arrives last by 8, rank 0 of the first one by 1."""
    files = []
    for rank, took in enumerate((4, 5, 12, 4)[:n]):
        members = "[0, 1]" if rank < 2 else "[2, 3]"
        events = [kernel("gemm", 0, 100 - took, 1), collective(100 - took, took, group="tp", members=members)]
        files.append(rank_file(folder, rank, events, 4))
    return files


def test_groups_of_one_name_are_told_by_their_ranks(tmp_path):
    job = profile_ranks(pairs(tmp_path, 4))
    assert [rank.waiting for rank in job.ranks] == [0, 1000, 8000, 0]
    assert job.straggler is job.ranks[3]
    assert "last in 100% of 1 collectives; all others waited for it alone for 8.0 µs, 8.0% of the span" in str(job)


def test_a_missing_rank_is_named(tmp_path):
    """Nobody of the second pair can be compared: how long rank 2 waited for rank 3 is unknown."""
    job = profile_ranks(pairs(tmp_path, 3))
    assert [rank.waiting for rank in job.ranks] == [0, 1000, None]
    assert "of 4 ranks, rank 3 has no trace: the straggler can be one of them" in job.remarks
    assert any("ranks of process group tp [2, 3] have no trace here" in remark for remark in job.remarks)
    assert job.to_dict()["figures"]["waiting"]["value"] is None


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ([collective(0, 5)], "rank 0 has 2 collectives, and rank 1 1. Record the same steps on all ranks"),
        ([kernel("gemm", 0, 5, 1)], "rank 0 has 2 collectives, and rank 1 0"),
        (
            [collective(0, 5), collective(9, 5, n=7)],
            "its collective 2 is all_reduce of 100 elements on rank 0, and all_reduce of 7 elements on rank 1",
        ),
        (
            [collective(0, 5), collective(9, 5, name="_allgather_base")],
            "its collective 2 is all_reduce of 100 elements on rank 0, and all_gather on rank 1",
        ),
    ],
    ids=["fewer", "none", "another size", "another operation"],
)
def test_collectives_that_differ_are_not_compared(other, problem, tmp_path):
    job = profile_ranks([rank_file(tmp_path, 0, FIRST), rank_file(tmp_path, 1, other)])
    assert job.ranks[0].waiting is None and job.straggler is None
    assert any(f"waiting in process group 0 [0, 1] is unknown: {problem}" in remark for remark in job.remarks)
    assert job.ranks[0].exposed == 35_000  # known all the same
    assert "unknown" in str(job)


def test_a_group_of_more_traces_than_ranks_is_not_compared(tmp_path):
    """Two pairs with one name, and no list of their ranks."""
    files = []
    for rank in range(4):
        event = collective(0, 5 + rank)
        del event["args"]["Process Group Ranks"]
        files.append(rank_file(tmp_path, rank, [event], 4))
    job = profile_ranks(files)
    assert {rank.waiting for rank in job.ranks} == {None}
    assert any("it has 2 ranks, and 4 traces do not say which of them are together" in line for line in job.remarks)


def test_collectives_without_names_are_of_all_ranks(tmp_path):
    """Old traces have the names of kernels only; a broadcast ends on its root before it begins elsewhere."""
    for i, took in enumerate((30, 10)):
        events = [kernel("ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)", 0, took, 1)]
        events += [kernel("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", 50, 5 * i + 1, 2)]
        rank_file(tmp_path, None, events, name=f"r{i}.json")
    job = profile_ranks(tmp_path)
    assert [rank.waiting for rank in job.ranks] == [20_000, 0]
    assert any(remark.startswith("assumed: collectives without a process group") for remark in job.remarks)
    assert "the files do not say which rank they are: they are numbered in their order" in job.remarks
    assert any("ncclKernel_Broadcast_RING_LL_Sum_int8_t (1)" in remark for remark in job.remarks)


def test_one_rank_waits_for_nobody(tmp_path):
    job = profile_ranks(rank_file(tmp_path, 0, [kernel("gemm", 0, 5, 1)], 1))
    assert times(job.ranks[0])["waiting"] is None
    assert job.straggler is None and job.remarks == []
    assert "no collective of several ranks was compared" in str(job)


def test_a_folder_has_its_traces_in_the_order_of_numbers(tmp_path):
    for i in (10, 9, 2):
        rank_file(tmp_path, None, [kernel("gemm", 0, i, 1)], name=f"r{i}.json")
    packed = json.dumps({"traceEvents": [kernel("gemm", 0, 11, 1)]}).encode()
    (tmp_path / "r11.json.gz").write_bytes(gzip.compress(packed))
    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / "folder").mkdir()
    assert [rank.compute for rank in profile_ranks(tmp_path).ranks] == [2000, 9000, 10_000, 11_000]


def broken(folder, problem):
    """Return the paths of a job with a problem."""
    good = rank_file(folder, 0, FIRST)
    if problem == "twice":
        return [good, rank_file(folder, 0, SECOND, name="again.json")]
    if problem == "no rank":
        return [good, rank_file(folder, None, SECOND, name="other.json")]
    if problem == "another job":
        return [good, rank_file(folder, 1, SECOND, 3)]
    if problem == "outside":
        return [good, rank_file(folder, 5, SECOND)]
    if problem == "no kernels":
        return [good, rank_file(folder, 1, [op("aten::add", 0, 1)])]
    texts = {
        "text": "nothing",
        "damaged": '{"traceEvents": [{"ph": "X"} : ' + " " * 100 + "]}",
        "deep": '{"traceEvents": [' + "[" * 10**5,
    }
    if problem in texts:
        (folder / "other.json").write_text(texts[problem])
    if problem == "empty":
        (folder / "empty").mkdir()
        return folder / "empty"
    return [] if problem == "nothing" else [good, str(folder / "other.json")]


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        ("twice", r"rank0.json and .*again.json are both of rank 0. Pass one file for each rank"),
        ("no rank", r"other.json does not say which rank it is, and .*rank0.json does. Leave one of them out"),
        ("another job", r"rank0.json is of a job of 2 ranks, and .*rank1.json of 3. Pass the traces of one job"),
        ("outside", r"rank5.json is damaged: it is of rank 5 of 2"),
        ("no kernels", r"rank1.json has no work of a device to compare ranks by. Record with profile\("),
        ("missing", r"other.json cannot be read: No such file"),
        ("text", r"other.json is not a trace of a rank. Pass traces of torch.profiler: rank0.json.gz"),
        ("damaged", r"other.json is damaged: it stops being JSON"),
        ("deep", r"other.json is not a trace: its values are nested too deeply"),
        ("empty", r"empty has no traces. Pass the files of the ranks"),
        ("nothing", r"there are no traces. Pass a file for each rank"),
    ],
)
def test_files_that_are_not_those_of_a_job(problem, sentence, tmp_path):
    with pytest.raises(CostError, match=sentence):
        profile_ranks(broken(tmp_path, problem))


def test_hostile_values_are_unknown(tmp_path):
    """Ranks, groups and sizes of another type are as good as missing."""
    event = collective(0, 5, name=[], group={}, members=7, size="many")
    event["args"] |= {"In msg nelems": -1, "dtype": None}
    head = {"distributedInfo": {"rank": "x", "world_size": [], "pg_config": [3, {}]}}
    path = write(tmp_path / "rank.json", [event, kernel("gemm", 2, 8, 1)], **head)
    (rank,) = profile_ranks([path]).ranks
    assert (rank.number, rank.span, rank.exposed) == (0, 10_000, 2_000)


def test_a_file_that_ends_early_says_so(tmp_path):
    path = rank_file(tmp_path, 0, FIRST)
    text = Path(path).read_text()
    Path(path).write_text(text[: text.rindex("Memcpy")])
    (rank,) = profile_ranks([path]).ranks
    assert rank.remarks == ["the file ends early; later events are missing"]
    assert rank.span == 95_000


# The job of the documentation: four ranks, the third of which computes more.


def documented(rank):
    """Return the events of a rank in milliseconds, by a clock of its own.

    A copy takes 0.5 and 0.5 are idle. Rank 2 computes 5 + 5 + 4 + 1 = 15, the others 4 + 4 + 4 + 1 = 13. Of the
    all-reduces, 2 are transfers: the first one ends at 13, 10 + 3, when rank 2 has been there for 2; it is hidden by
    computation. The second one ends at 17, and is exposed.
    """
    late = rank == 2
    first, begins, ends = (5, 11, 15) if late else (4, 9, 13)
    work = [
        ("Memcpy HtoD (Pinned -> Device)", 0, 0.5),
        ("forward_gemm", 1, first),
        ("backward_gemm", 1 + first, first),
        ("backward_gemm", begins, 4),
        ("all_reduce", begins, 13 - begins),
        ("all_reduce", ends, 17 - ends),
        ("adamw", 17, 1),
    ]
    events = []
    for i, (name, start, took) in enumerate(work):
        at = 1000 * (start + 100 * rank)
        if name == "all_reduce":
            event = collective(at, 1000 * took, 10**6, members="[0, 1, 2, 3]", size=4, number=i)
        else:
            event = kernel(name, at, 1000 * took, i, "gpu_memcpy" if i == 0 else "kernel")
        events.append(event)
    return events


def documented_file(rank):
    info = {"backend": "nccl", "rank": rank, "world_size": 4}
    device = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    return {"deviceProperties": device, "distributedInfo": info, "traceEvents": documented(rank)}


@pytest.mark.parametrize("rank", range(4))
def test_the_files_of_the_documentation(rank):
    """``python -m tests.frontends.pytorch.traces.test_ranks`` writes them."""
    with gzip.open(DOCS / f"rank{rank}.trace.json.gz", "rt") as file:
        assert json.load(file) == documented_file(rank)


def test_the_job_of_the_documentation():
    """Others wait 2 in each all-reduce; of 4 + 4 of communication 4 are hidden. Rank 2 has 2 + 2, 2 of them exposed."""
    job = profile_ranks([DOCS / f"rank{rank}.trace.json.gz" for rank in range(4)])
    found = {rank.number: {name: value / 1e3 for name, value in times(rank).items()} for rank in job.ranks}
    other = {"span": 18, "busy": 17.5, "compute": 13, "communication": 8, "exposed": 4, "waiting": 4}
    other |= {"copies": 0.5, "idle": 0.5, "held_up": 0}
    slow = {**other, "compute": 15, "communication": 4, "exposed": 2, "waiting": 0, "held_up": 4}
    assert found == {0: other, 1: other, 2: slow, 3: other}
    assert job.ranks[0].exposed_waiting == 2_000_000
    assert job.straggler is job.ranks[2]
    assert job.imbalance() == 15 / 13.5


FILES = [str(DOCS / f"rank{rank}.trace.json.gz") for rank in range(4)]


@pytest.mark.parametrize("mode", ["table", "md", "csv", "latex", "json", "html"])
def test_the_command_writes_every_format(mode, capsys):
    assert main(["profile", *FILES, "--format", mode]) == 0
    out = capsys.readouterr().out
    if mode == "csv":
        lines = out.splitlines()
        assert lines[0] == "rank,span,busy,compute,communication,exposed,waiting,copies,idle,last,held_up"
        assert lines[3] == "2,0.018,0.0175,0.015,0.004,0.002,0.0,0.0005,0.0005,100.0,0.004"
    elif mode == "json":
        data = json.loads(out)
        assert data["figures"]["straggler"]["value"] == "rank 2"
        assert [row["waiting"] for row in data["tables"][0]["rows"]] == [0.004, 0.004, 0.0, 0.004]
    else:
        assert ("15.0" in out and "rank 2" in out) or mode == "latex"


def test_the_page_and_the_picture_have_a_bar_for_each_rank(tmp_path):
    assert main(["profile", *FILES, "--output", str(tmp_path / "job.html")]) == 0
    page = (tmp_path / "job.html").read_text(encoding="utf-8")
    assert page.count("<rect class='temporary'") == 3 + 1  # the ranks that wait visibly, and the key
    assert "<title>rank 2, compute: 15 ms</title>" in page and " at 0" not in page
    rows = profile_ranks(FILES).plot()
    assert rows.columns == ("rank", "part", "span")
    assert ("rank 0", "waiting", 0.002) in rows and ("rank 2", "compute", 0.015) in rows
    pytest.importorskip("matplotlib")
    rows.save(tmp_path / "job.svg")
    assert "rank 3" in (tmp_path / "job.svg").read_text(encoding="utf-8")


def test_the_page_of_many_ranks_draws_those_that_wait_least_and_most(tmp_path):
    files = []
    for rank in range(12):
        events = [kernel("gemm", 0, 50 + rank, 1), collective(50 + rank, 50 - rank, members="", size=12)]
        files.append(rank_file(tmp_path, rank, events, 12))
    job = profile_ranks(files)
    assert [rank for rank, part, _ in job.plot() if part == "compute"] == [
        f"rank {rank}" for rank in (0, 1, 2, 3, 4, 8, 9, 10, 11)
    ]
    assert "9 of 12 ranks" in job.to_html()


@pytest.mark.parametrize(
    "option", [("--by", "op"), ("--device", "l4"), ("--model", "net.py:make"), ("--et", "et.json")]
)
def test_options_of_one_trace_are_refused(option, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["profile", *FILES, *option])
    assert f"{option[0]} is for one trace: costcore profile {FILES[0]} {option[0]}" in capsys.readouterr().err


if __name__ == "__main__":
    for each in range(4):
        with gzip.GzipFile(DOCS / f"rank{each}.trace.json.gz", "wb", mtime=0) as file:
            file.write(json.dumps(documented_file(each)).encode())
