"""The parts of a table of models, each alone: messages, limits, progress, rows, files, and pools of processes."""

from __future__ import annotations

import inspect
import io
import itertools
import linecache
import os
import pickle
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from textwrap import TextWrapper, dedent, indent
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from costcore import CostError
from costcore.studies.sweeps import process, rows
from costcore.studies.sweeps import process as cluster
from costcore.studies.sweeps import rows as formats
from costcore.studies.sweeps import table as identity
from costcore.studies.sweeps import table as progress
from costcore.studies.sweeps.process import ModelProcess, Plan, Sources, Task, TaskMaker, compute
from costcore.studies.sweeps.rows import (
    CSV,
    JSON_LINES,
    ModelRow,
    NamedModel,
    RowFile,
    Rows,
    Settings,
    Variants,
    amount,
    failure,
    read_frame,
    read_lines,
    write_frame,
)
from costcore.studies.sweeps.table import Identity, Keys, ModelTable, TableInterrupted


@pytest.mark.parametrize("content", [b"", b"a", b"ab" * 150, bytes(70_000)])
def test_messages_are_read_back(content):
    stream = io.BytesIO()
    write_frame(stream, content)
    write_frame(stream, b"next")
    whole = stream.getvalue()
    assert whole[:8] == len(content).to_bytes(8, "big")
    assert [read_frame(found) for found in [io.BytesIO(whole)] for _ in range(3)] == [content, b"next", None]
    assert read_frame(io.BytesIO(whole[:7])) is None
    if content:
        assert read_frame(io.BytesIO(whole[: 8 + len(content) - 1])) is None


@pytest.mark.frontend("onnx")  # brings sympy
@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), (None, None), ("12", 12), ("-3", -3), ("0.5", 0.5), ("2e-09", 2e-9), ("1.5e3", 1500.0), (7, 7)],
)
def test_figures_of_a_file(text, expected):
    assert (amount(text), type(amount(text))) == (expected, type(expected))
    assert str(amount("8*batch + 3")) == "8*batch + 3"


ROW = {"name": "a", "status": "complete", "failed": False, "key": "k"}


def test_lines_of_rows(tmp_path):
    names = [*ROW]
    assert JSON_LINES.header(names) == ""
    assert JSON_LINES.line({**ROW, "name": "ä"}) == (
        '{"name": "ä", "status": "complete", "failed": false, "key": "k"}\n'
    )
    assert CSV.header(names) == "name,status,failed,key\n"
    assert CSV.line({**ROW, "status": 'two\nlines, "quoted"', "key": None}).count("\n") == 1
    assert CSV.line({**ROW, "key": None}) == "a,complete,False,\n"
    assert [*CSV.records(iter([]))] == []
    path = tmp_path / "rows.csv"
    path.write_text("name,status,failed,key,macs\na,complete,False,k,3\nb,complete,False,l,5\nc,compl")
    assert [row["macs"] for row in read_lines(path, CSV)] == ["3", "5"]
    assert [*read_lines(tmp_path / "absent", CSV)] == []
    path.write_text("name,status,failed\na,complete,False\n")
    with pytest.raises(CostError, match="line 1 does not have the columns name, status, failed, key"):
        list(read_lines(path, CSV))


def test_files_of_rows_have_a_largest_size(tmp_path, monkeypatch):
    assert (formats.MOST_BYTES, process.MOST_HASHED) == (1 << 32, 1 << 32)
    path = tmp_path / "rows.csv"
    path.write_text("name,status,failed,key\na,complete,False,k\n")
    monkeypatch.setattr(formats, "MOST_BYTES", path.stat().st_size)
    assert len([*read_lines(path, CSV)]) == 1
    monkeypatch.setattr(formats, "MOST_BYTES", path.stat().st_size - 1)
    with pytest.raises(CostError, match=r"rows\.csv"):
        list(read_lines(path, CSV))


def test_a_line_of_rows_has_a_largest_size(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text("x" * 100)
    monkeypatch.setattr(formats, "MOST_LINE", 99)
    with pytest.raises(CostError, match="more than 99 bytes in a line"):
        list(read_lines(path, JSON_LINES))


def test_packed_rows_are_those_that_were_added():
    """Rows with another name, other figures or other numbers stay as they are; rows can be missing."""
    models = [NamedModel(name, None, None, {"width": i}) for i, name in enumerate("abcdef")]
    given = {
        0: ModelRow("a", {"macs": 2**70, "seconds": 0.5}, "complete"),
        1: ModelRow("b", {}, "ValueError: wrong", True),
        2: ModelRow("c", {"macs": Fraction(1, 3), "seconds": None}, "partial"),
        3: ModelRow("another", {"macs": 1, "seconds": 2.0}, "complete"),
        5: ModelRow("f", {"macs": 7}, "complete"),
    }
    rows = Rows(models, ("macs", "seconds"))
    for position, row in given.items():
        rows.add(position, row)
    expected = tuple(row._replace(arguments={"width": position}) for position, row in given.items())
    assert rows == expected and expected == rows and rows != expected[1:]
    assert (len(rows), [*rows.places], rows.has(4)) == (5, [0, 1, 2, 3, 5], False)
    assert (rows[1], rows[-1], rows[2:4]) == (expected[1], expected[4], expected[2:4])
    assert pickle.loads(pickle.dumps(rows)) == expected
    rows.add(4, ModelRow("e", {}, "ValueError: wrong", True))
    assert rows[4].status == "ValueError: wrong" and len(rows) == 6


def test_the_models_of_a_grid_are_made_in_order():
    grid = {"a": [1, 2], "b": "x", "c": range(3)}
    found = Variants("net", "nets.py:make", (1, 8), grid)
    assert len(found) == 6
    expected = [dict(zip("abc", values, strict=True)) for values in itertools.product(*grid.values())]
    assert [each.arguments for each in found] == expected
    assert found[-1] == NamedModel("net", "nets.py:make", (1, 8), {"a": 2, "b": "x", "c": 2})
    assert found[1:3] == [found[1], found[2]]
    with pytest.raises(IndexError):
        found[6]


def test_keys_are_found():
    one, two = "0" * 31 + "1", "f" * 32
    keys = Keys([two, "", one, two])
    assert [keys[i] for i in range(4)] == [two, "", one, two]
    assert ([*keys.positions(two)], [*keys.positions(one)]) == ([0, 3], [2])
    assert [*keys.positions("0" * 32), *keys.positions(""), *keys.positions("no key")] == []
    assert one in keys and "a" * 32 not in keys and 3 not in keys


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2**62], "int64"),
        ([1, 2**63], "string"),
        ([1, 2.5], "double"),
        ([2**60, 2.5], "string"),
        ([True, False], "bool"),
        ([True, 1], "string"),
        (["a", None], "string"),
        (["a", 1], "string"),
        ([None, None], "null"),
        ([None, 3], "int64"),
        ([[1], [2, 3]], "list<element: int64>"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 2])
def test_the_types_of_a_parquet_file_do_not_depend_on_its_parts(values, kind, at_once, tmp_path, monkeypatch):
    """Rows are converted a few at a time; texts where values have several types, or more than 64 bits."""
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(formats, "AT_ONCE", at_once)
    records = [{**ROW, "width": value} for value in values]
    path = tmp_path / "rows.parquet"
    formats.write_parquet(path, [*records[0]], lambda: iter(records))
    assert str(parquet.read_schema(path).field("width").type).replace("item", "element") == kind
    texts = [None if value is None else str(value) for value in values]
    assert [row["width"] for row in formats.read_parquet(path)] == (texts if kind == "string" else values)


def test_lines_of_progress():
    """Six models, one every ten seconds, the second and the fourth of which fail; a line every 30 seconds."""
    rows = [(position, ModelRow("net", {}, "", failed=position in (1, 3))) for position in range(6)]
    stream, times = io.StringIO(), iter(range(100, 1000, 10))
    assert [*progress.with_lines(rows, 6, stream, lambda: next(times))] == rows
    assert stream.getvalue().splitlines() == [
        "models: 3 of 6, 1 failed, 0.1 per second, 0:00:30 left",
        "models: 6 of 6, 2 failed, 0.1 per second, in 0:01:00",
    ]
    stream, times = io.StringIO(), iter([0, 29.9, 29.9, 3700, 3701, 3702, 3703])
    assert len([*progress.with_lines(rows, 6, stream, lambda: next(times))]) == 6
    assert stream.getvalue().splitlines() == [
        "models: 3 of 6, 1 failed, 0.000811 per second, 1:01:40 left",
        "models: 6 of 6, 2 failed, 0.00162 per second, in 1:01:43",
    ]
    stream, times = io.StringIO(), iter(range(20))
    assert len([*progress.with_lines(rows, 6, stream, lambda: next(times))]) == 6
    assert stream.getvalue() == ""
    assert progress.LINE_SECONDS == 30


def raised(*errors: Exception) -> Exception:
    """The first of some errors, each of which the next one caused."""
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CostError("net failed: too wide"), "too wide"),
        (CostError("other failed: too wide"), "other failed: too wide"),
        (ValueError("x"), "ValueError: x"),
        (MemoryError("x"), "out of memory: MemoryError: x"),
        (RuntimeError("can't allocate memory: 3 bytes"), "out of memory: RuntimeError: can't allocate memory: 3 bytes"),
        (raised(ValueError("x"), TypeError(), MemoryError()), "out of memory: ValueError: x"),
        (raised(*(ValueError("x") for _ in range(99)), MemoryError()), "out of memory: ValueError: x"),
        (raised(*(ValueError("x") for _ in range(100)), MemoryError()), "ValueError: x"),
    ],
)
def test_what_a_failed_row_says(error, text):
    assert failure(error, "net") == text


TABLE = ModelTable(
    (
        ModelRow("a", {"flops": 3_000_000, "macs": 5}, "complete", arguments={"width": 0.5, "kind": int}),
        ModelRow("b", {"flops": 70, "macs": None}, "partial", arguments={"width": 2, "kind": str}),
        ModelRow("c", {}, "no such file", True, {"width": 8, "kind": str}),
        ModelRow("d", {"flops": 50, "macs": 7}, "complete", arguments={"width": 3, "kind": str}),
    ),
    "fvcore",
    ("flops", "macs"),
    ("width", "kind"),
)


def test_a_whole_table(golden):
    out = io.StringIO()
    for mode in ("table", "csv", "md"):
        TABLE.show(out, mode)
    one = ModelTable(TABLE.rows[:1], "", ("flops",), ("width",))
    one.show(out)
    texts = [out.getvalue(), repr(TABLE), repr(one), str([row.name for row in TABLE.failed])]
    texts += [str([row.name for row in TABLE.pareto(*names).rows]) for names in (("flops",), ("macs", "-width"))]
    golden("sweeps_table.txt", "\n".join([*texts, ""]))
    assert TABLE.pareto("flops", "macs").rows == (TABLE.rows[0], TABLE.rows[3])
    with pytest.raises(ValueError, match="unknown column 'mread'"):
        TABLE.pareto("mread")
    with pytest.raises(ValueError, match="unknown column 'mread'"):
        TABLE.scatter("flops", "mread", "a.svg")
    assert TableInterrupted(TABLE).args == ("interrupted after 4 models",)


def test_rows_of_an_earlier_run(tmp_path):
    """Those with a key and all figures that did not fail."""
    path = tmp_path / "rows.jsonl"
    file = RowFile(path, ["width"], ["macs"])
    rows = [
        ("k1", ModelRow("a", {"macs": 3}, "complete", arguments={"width": 1})),
        ("", ModelRow("b", {"macs": 5}, "complete")),
        ("k3", ModelRow("c", {}, "wrong", True)),
        ("k4", ModelRow("d", {"macs": None}, "partial")),
    ]
    with file:
        file.start(rows[:1])
        for key, row in rows[1:]:
            file.add(key, row)
        assert len(path.read_text().splitlines()) == 4
        file.finish(lambda: reversed(rows))
    assert [line.split('"')[3] for line in path.read_text().splitlines()] == ["d", "c", "b", "a"]
    assert [*RowFile(path, ["width"], ["macs"]).earlier()] == [
        ("k4", ModelRow("d", {"macs": None}, "partial")),
        ("k1", ModelRow("a", {"macs": 3}, "complete")),
    ]
    assert [*RowFile(path, ["width"], ["flops"]).earlier()] == []
    with pytest.raises(ValueError, match="argument 'key' has the name of a column"):
        RowFile(path, ["key"], ["macs"])


class Process:
    """A process that computes nothing."""

    def __init__(self, limit: int | None) -> None:
        self.limit, self.is_closed, self.is_interrupted = limit, False, False

    def close(self) -> None:
        self.is_closed = True

    def interrupt(self) -> None:
        self.is_interrupted = True

    def rows(self, tasks: Iterator[Task]) -> Iterator[tuple[int, ModelRow]]:
        return ((task.position, ModelRow(f"{task.name} {self.limit}", {}, "")) for task in tasks)


def test_processes_are_used_again(monkeypatch):
    monkeypatch.setattr(process, "ModelProcess", Process)
    pool = process.ProcessPool(7)
    assert pool.is_idle
    with pool.process() as first, pool.process() as second:
        assert first is not second and not pool.is_idle
        assert first.limit == 7
    assert pool.is_idle
    with pool.process() as again:
        assert again in (first, second)
        pool.interrupt()
    assert first.is_interrupted and second.is_interrupted
    pool.close()
    assert first.is_closed and second.is_closed


def test_a_worker_computes_in_a_process_of_the_run(monkeypatch):
    monkeypatch.setattr(process, "ModelProcess", Process)
    monkeypatch.setattr(process, "_POOLS", {})
    task = Task(5, "net", b"model", ("toy",), Plan(memory_limit=3), "run")
    assert compute(task) == (5, ModelRow("net 3", {}, ""))
    assert [*process._POOLS] == ["run"]


def test_a_worker_keeps_two_pools(monkeypatch):
    monkeypatch.setattr(process, "ModelProcess", Process)
    monkeypatch.setattr(process, "_POOLS", {})
    assert process.MOST_POOLS == 2
    first, second = (process.pool_of(run, 3) for run in "ab")
    assert process.pool_of("a", 3) is first
    with first.process() as busy, second.process() as idle:
        pass
    with first.process():
        third = process.pool_of("c", 3)  # the first is busy, so the second is ended
        assert {*process._POOLS} == {"a", "c"} and idle.is_closed and not busy.is_closed
    process.pool_of("d", 3)
    assert {*process._POOLS} == {"c", "d"} and process.pool_of("c", 3) is third


class LostError(Exception):
    """See :data:`cluster.WORKER_LOST`."""


LostError.__name__ = "KilledWorker"


class Joblib:
    """joblib with a backend of one's own: jobs of models named ``dies`` lose their worker."""

    def __init__(self, n_jobs: int | None = 3, returns: bool = True) -> None:
        self.asked: list[Any] = []
        self.parallel = SimpleNamespace(
            get_active_backend=lambda: (SimpleNamespace(supports_return_generator=returns), n_jobs)
        )

    def effective_n_jobs(self, jobs: int) -> int:
        self.asked.append(jobs)
        return jobs

    def delayed(self, function: Any) -> Any:
        return lambda task: task

    def Parallel(self, **options: Any) -> Any:  # noqa: N802 - the name in joblib
        assert options["batch_size"] == 1

        def run(tasks: Any) -> Any:
            batch = []
            for task in tasks:
                batch.append(task.name)
                if task.name == "dies":
                    raise LostError("it was killed\nat night")
                if task.name == "wrong":
                    raise ValueError("wrong")
                yield task.position, ModelRow(task.name, {}, "")
            self.asked.append((options["n_jobs"], batch))

        class Context:
            __call__ = staticmethod(run)

            def __enter__(self) -> Any:
                return run

            def __exit__(self, *error: object) -> None: ...

        return Context()


def task_of(position: int, named: NamedModel) -> Task:
    return Task(position, named.name, b"", (), Plan(), "run")


def models(*names: str) -> dict[int, NamedModel]:
    return {position: NamedModel(name, None) for position, name in enumerate(names)}


@pytest.mark.parametrize("returns", [True, False])
def test_models_around_one_that_ends_its_worker_have_rows(returns):
    names = ["a", "dies", *"bcdefghijklmno"]
    found = dict(process.rows_on_cluster(Joblib(returns=returns), models(*names), task_of, 2))
    assert [*found] == [*range(16)]
    assert [row.name for row in found.values()] == names
    assert [row.status for row in found.values() if row.failed] == [
        "the worker of this model ended: KilledWorker: it was killed"
    ]


def test_tasks_are_sent_ahead_in_batches():
    """Four for each of two workers."""
    joblib = Joblib(returns=False)
    assert len([*process.rows_on_cluster(joblib, models(*"abcdefghij"), task_of, 2)]) == 10
    assert [batch for _, batch in joblib.asked[1:]] == [[*"abcdefgh"], [*"ij"]]


def key(model: Any, inputs: Any = None, arguments: Any = None, **settings: Any) -> str:
    found = identity.Identity(Settings(("macs",), **settings)) if settings else plain_identity()
    return found.key(NamedModel("net", model, inputs, arguments))


@cache
def plain_identity() -> identity.Identity:
    return identity.Identity(Settings(("macs",)))


class Array:
    """An array of so many elements."""

    def __init__(self, size: int, *, has_objects: bool = False, content: bytes = b"", dtype: str = "float32") -> None:
        self.dtype = dtype
        kind = SimpleNamespace(hasobject=has_objects)
        self.made = SimpleNamespace(size=size, shape=(size,), dtype=kind, tobytes=lambda: content)

    def __array__(self) -> Any:
        return self.made


def test_values_that_are_part_of_a_key(tmp_path):
    """Equal values of one type have one key, all others another one; what cannot be recognized has none."""
    net = tmp_path / "net.py"
    net.write_text("def make(): ...\n")
    target = f"{net}:make"
    values: list[Any] = [
        *(
            None,
            1,
            1.0,
            True,
            "1",
            [1],
            (1,),
            [[1]],
            {"a": 1},
            {"a": 2},
            {"b": 1},
            range(3),
            range(4),
            Path("a"),
            Path("b"),
        ),
        *(Array(3), Array(4), Array(3, content=b"x"), Array(3, dtype="int8"), Array(1 << 20)),
        *(dedent, indent, partial(dedent, 1), partial(dedent, 2), partial(dedent, a=1), TextWrapper),
    ]
    keys = [key(target, value) for value in values]
    assert len({*keys}) == len(values) and all(len(each) == 32 for each in keys)
    assert keys == [key(target, value) for value in values]
    many, objects = Array((1 << 20) + 1), Array(3, has_objects=True)
    for unknown in (object(), many, objects, b"a", Process(1).close, io.StringIO, [object()]):
        assert key(target, unknown) == ""
    assert key(dedent) == "" != key(dedent, arguments={})
    assert key(target, arguments={"a": 1}) != key(target, arguments={"a": 2})
    assert key(f"{net}:other") != key(target) != key(target, mode="train")
    assert key("net") == key("timm:resnet50") == ""
    assert key(target, options={"memory": True}) not in ("", key(target))
    assert key(target, options={"memory": object()}) == ""
    rules = tmp_path / "ours.toml"
    keys = [key(target, convention=name) for name in (None, "fvcore", "macs")]
    for text in ("a = 1", "a = 2"):
        rules.write_text(text)
        keys += [key(target, convention=rules), key(target, convention=str(rules))]
    assert keys[3] == keys[4] and keys[5] == keys[6]
    assert len({*keys}) == 5 and "" not in keys


def test_code_that_a_module_imports(tmp_path):
    """Of relative imports of one and two levels; modules that are there nowhere count by their names."""
    package = tmp_path / "mine"
    (package / "inner").mkdir(parents=True)
    files = {
        "net.py": "import mine.inner.block\nimport json, costcore.api\nimport acme_layers.deep\n",
        "mine/__init__.py": "",
        "mine/inner/__init__.py": "",
        "mine/inner/block.py": "from . import part\nfrom ..other import width\nfrom ..... import far\n",
        "mine/inner/part.py": "a = 1",
        "mine/other.py": "width = 1",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def found() -> str:
        return process.Sources([str(tmp_path)]).of_module("net")

    before = found()
    packages = process.Sources([str(tmp_path)]).packages("net")
    assert packages == {"json", "costcore", "acme_layers", "far"}
    for name, text in files.items():
        (tmp_path / name).write_text(text + "# changed\n")
        assert found() != before, name
        (tmp_path / name).write_text(text)
        assert found() == before
    (tmp_path / "mine/inner/unused.py").write_text("a = 2")
    assert found() == before


def test_packages_that_an_installed_one_requires(monkeypatch):
    monkeypatch.setattr(
        process, "requires", lambda package: ["torch>=2", "a.b-c[x]", "plain"] if package == "acme" else None
    )
    found = process.Sources([])
    assert found.packages("acme.models") == {"acme", "torch", "a.b-c", "plain"}
    assert found.packages("other") == {"other"}
    assert process._installed("json.decoder") == ""
    assert process._installed("acme.models") == "acme"
    assert process._installed("pytest.x") == f"pytest {pytest.__version__}"


class WorkerCrashedError(Exception):
    """As Ray raises it."""


class Ray(ModuleType):
    """Ray with a queue in place of a cluster, which finishes the latest task first and loses those named ``dies``."""

    exceptions = SimpleNamespace(RayError=WorkerCrashedError)

    def __init__(self) -> None:
        super().__init__("ray")
        self.most, self.cancelled = 0, []

    def remote(self, function: Any) -> Any:
        assert function is cluster.compute
        return SimpleNamespace(remote=lambda task: (task.position, task.name))

    def wait(self, running: list[Any], num_returns: int) -> Any:
        assert num_returns == 1
        self.most = max(self.most, len(running))
        return running[-1:], running[:-1]

    def get(self, done: Any) -> Any:
        if done[1] == "dies":
            raise WorkerCrashedError("it was killed\nat night")
        return done[0], ModelRow(done[1], {}, "complete")

    def cancel(self, reference: Any) -> None:
        self.cancelled.append(reference)


@pytest.fixture
def ray(monkeypatch):
    ray = Ray()
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def on_ray(names: str, workers: int) -> Any:
    joblib = Joblib(workers)
    joblib.parallel = SimpleNamespace(get_active_backend=lambda: (type("RayBackend", (), {})(), workers))
    return cluster.rows_on_cluster(joblib, models(*names), task_of, None)


def test_ray_gets_four_tasks_per_worker_and_one_for_every_row(ray):
    """Of twelve models the first eight are sent at once; the latest is finished first."""
    found = [*on_ray("abcdefghijkl", 2)]
    assert "".join(row.name for _, row in found) == "hijklgfedcba"
    assert all("abcdefghijkl"[position] == row.name for position, row in found)
    assert (ray.most, ray.cancelled) == (8, [])


def test_a_model_that_ends_its_worker_of_ray_has_a_row(ray):
    found = dict(on_ray(["a", "dies", "b"], 2))
    assert [found[i].name for i in range(3)] == ["a", "dies", "b"]
    assert [found[i].status for i in (0, 2)] == ["complete"] * 2
    assert found[1].status == "the worker of this model ended: WorkerCrashedError: it was killed"


def test_tasks_of_ray_that_nobody_waits_for_are_cancelled(ray):
    rows = on_ray("abc", 1)
    assert next(rows)[1].name == "c"
    rows.close()
    assert ray.cancelled == [(0, "a"), (1, "b")]


def test_a_cluster_without_workers_gets_four_tasks():
    """As one whose workers have still to start."""
    joblib = Joblib(returns=False)
    joblib.effective_n_jobs = lambda jobs: 0
    assert len([*cluster.rows_on_cluster(joblib, models(*"abcdef"), task_of, 2)]) == 6
    assert [batch for _, batch in joblib.asked] == [[*"abcd"], [*"ef"]]


def test_a_process_that_starts_while_it_is_interrupted_is_ended(monkeypatch):
    one, ended = ModelProcess(), []

    class Child:
        process = "a process"
        how_it_ended = staticmethod(lambda: "the process of this model ended: SIGKILL")
        end = staticmethod(lambda: None)

        def send(self, task):
            raise BrokenPipeError

        @classmethod
        def start(cls, limit):
            one.interrupt()
            return cls()

    monkeypatch.setattr(process, "_Child", Child)
    monkeypatch.setattr(process, "_kill", ended.append)
    ((position, row),) = one.rows(iter((Task(4, "net", b"", (), Plan(), "run"),)))
    assert (position, row.name, row.failed) == (4, "net", True)
    assert row.status == "no process could be started, the last one ended: SIGKILL"
    assert ended and {*ended} == {"a process"}


@pytest.mark.parametrize(
    ("code", "frontends"),
    [("import torch\nimport os", {"pytorch"}), ("import torch, chainer", {"pytorch", "chainer"}), ("import os", set())],
)
def test_a_process_prepares_the_frontends_of_what_the_code_of_a_model_imports(tmp_path, code, frontends):
    path, made = tmp_path / "nets.py", TaskMaker(Settings(("macs",)), Plan())
    path.write_text(code)
    for model, expected in ((f"{path}:make", frontends), (str(tmp_path / "net.onnx"), {"onnx"})):
        assert {"pytorch", "chainer", "onnx"}.intersection(made(0, NamedModel("a", model)).frontends) == expected


def named(target, **arguments):
    return NamedModel("net", str(target), (1, 3), arguments)


def test_a_sparse_file_of_ten_terabytes_is_not_read(tmp_path):
    path = tmp_path / "net.onnx"
    path.touch()
    try:
        os.truncate(path, 10**13)
    except OSError as error:
        pytest.skip(f"no file of 10 TB here: {error}")
    start = time.process_time()
    with pytest.raises(CostError, match=r"net\.onnx cannot be recognized: it has more than 4,294,967,296 bytes"):
        Sources([]).of_file(path)
    assert Identity(Settings(("macs",))).key(named(path)) == ""
    assert time.process_time() - start < 5  # at 2 GB per second, the 10 TB would take 5,000 s


def test_a_file_without_a_size_is_read_up_to_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "MOST_HASHED", 3 << 20)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    ends = os.open(path, os.O_RDWR), os.open(path, os.O_WRONLY)
    monkeypatch.setattr(process, "open_file", lambda _: Endless(path))
    with pytest.raises(CostError, match="more than 3,145,728 bytes"):
        Sources([]).of_file(path)
    for end in ends:
        os.close(end)


class Endless:
    """A pipe that always has more, as ``yes`` writes it."""

    def __init__(self, path):
        self._pipe = os.open(path, os.O_RDONLY)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self._pipe)

    def fileno(self):
        return self._pipe

    def read(self, n):
        return b"y" * n


def test_the_code_of_a_model_is_read_once_for_all_its_variants(tmp_path, monkeypatch):
    looked_up = []
    monkeypatch.setattr(process, "version", lambda package: looked_up.append(package) or "1.0")
    net = tmp_path / "net.py"
    net.write_text("import acme_layers\ndef make(width): ...\n")
    identity = Identity(Settings(("macs",)))
    keys = {identity.key(named(f"{net}:make", width=width)) for width in range(50)}
    assert len(keys) == 50 and "" not in keys
    assert looked_up == ["acme_layers"]


def made(width):
    def model():
        return width

    return model


def test_the_key_of_a_function_has_the_values_it_was_made_with():
    identity = Identity(Settings(("macs",)))
    keys = [identity.key(NamedModel("net", made(width), (1, 3), {})) for width in (1, 2, 1)]
    assert keys[0] == keys[2] != keys[1] and "" not in keys


@pytest.mark.parametrize("column", ["bound_seconds@{}", "bound_seconds@{}:float16", "{}"])
def test_the_key_changes_with_the_file_of_a_column(tmp_path, column):
    """A device, with a dtype or without, or a convention."""
    file, net = tmp_path / "mine.toml", tmp_path / "net.py"
    net.write_text("def make(): ...\n")
    keys = []
    for content in ("a = 1\n", "a = 2\n", "a = 1\n"):
        file.write_text(content)
        keys.append(Identity(Settings(("macs", column.format(file)))).key(named(f"{net}:make")))
    assert keys[0] == keys[2] != keys[1] and "" not in keys


def test_a_function_of_a_notebook_has_no_key(tmp_path, monkeypatch):
    """Its source is known while the notebook runs, but it is in no file."""
    code = "def make(width): ...\n"
    monkeypatch.setitem(linecache.cache, "<cell 3>", (len(code), None, [code], "<cell 3>"))
    scope = {}
    exec(compile(code, "<cell 3>", "exec"), scope)
    assert inspect.getsource(scope["make"]) == code
    net = tmp_path / "net.py"
    net.write_text("def make(): ...\n")
    assert Identity(Settings(("macs",))).key(NamedModel("net", scope["make"], None, {"width": 3})) == ""
    assert Identity(Settings(("macs",))).key(named(f"{net}:make", width=scope["make"])) == ""
    assert Identity(Settings(("macs",), options={"made_by": scope["make"]})).key(named(f"{net}:make")) == ""


NEEDS = {"peak": {"memory": True}, "seen": {"record_api_calls": True}, "depth": {"layers": 3}}


@pytest.mark.parametrize(
    ("columns", "given", "inputs", "options", "expected"),
    [
        ("peak seen", {}, (1, 3), (("memory",), ()), {"memory": True, "record_api_calls": True}),
        ("peak seen", {"memory": False}, (1, 3), (("memory",), ()), {"record_api_calls": True}),  # it is given
        ("peak seen", {}, ("n", 3), (("memory",), ()), {"record_api_calls": True}),  # memory has no formula
        ("peak depth", {}, (1, 3), (("layers",), ()), {"layers": 3}),  # the frontend has no memory
        ("peak depth", {}, (1, 3), ((), ("memory", "layers")), {"memory": True, "layers": 3}),
        ("seen", {}, None, ((), ()), {"record_api_calls": True}),
    ],
)
def test_what_columns_need_and_the_model_accepts(monkeypatch, columns, given, inputs, options, expected):
    monkeypatch.setattr(rows, "figure", lambda name: SimpleNamespace(needs=NEEDS[name]))
    spec = SimpleNamespace(options=options[0], model_options=options[1])
    monkeypatch.setattr(rows, "frontend_of", lambda model: spec)
    assert rows._needed("net", inputs, Settings(columns.split(), options=given)) == expected


def test_the_frontend_of_a_model_is_not_asked_for_in_vain():
    """That of an object would be an error."""
    assert rows._needed(object(), (1, 3), Settings(("flops",))) == {}


def test_errors_that_cause_each_other_are_none_of_memory():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert failure(first) == "ValueError: first"
