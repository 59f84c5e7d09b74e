"""The parts of a table of models, each alone: messages, limits, progress, rows, files, and pools of processes."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from textwrap import TextWrapper, dedent, indent
from types import SimpleNamespace
from typing import Any

import pytest

from costcore import CostError, sweep, table
from costcore.studies.sweeps import child, process
from costcore.studies.sweeps import rows as formats
from costcore.studies.sweeps import rows as row_module
from costcore.studies.sweeps import table as grid
from costcore.studies.sweeps import table as identity
from costcore.studies.sweeps import table as progress
from costcore.studies.sweeps.process import Plan, Task, TaskMaker, compute, memory_of
from costcore.studies.sweeps.rows import (
    CSV,
    JSON_LINES,
    ModelRow,
    NamedModel,
    RowFile,
    Settings,
    amount,
    check_columns,
    failure,
    figure,
    read_frame,
    read_lines,
    write_frame,
)
from costcore.studies.sweeps.table import ModelTable, TableInterrupted, _named, _seconds
from tests.core.given_costs import dense, net


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


def test_a_grid_may_have_so_many_combinations(monkeypatch):
    assert grid.MOST_VARIANTS == 1_000_000
    monkeypatch.setattr(grid, "MOST_VARIANTS", 6)
    assert len(grid.combinations({"a": [1, 2], "b": (each for each in "xyz")})) == 6
    with pytest.raises(ValueError, match=r"the grid has 7 combinations \(expected at most 6\)"):
        grid.combinations({"a": range(7)})
    for wrong in ("a b", "1a", ""):
        with pytest.raises(TypeError, match="an argument of a grid must be a name"):
            grid.combinations({wrong: [1]})
    for wrong in (b"ab", {"x": 1}, 3):
        with pytest.raises(TypeError, match="a must be a list of values"):
            grid.combinations({"a": wrong})


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
    assert [*CSV.records([])] == []
    path = tmp_path / "rows.csv"
    path.write_text("name,status,failed,key,macs\na,complete,False,k,3\nb,complete,False,l,5\nc,compl")
    assert [row["macs"] for row in read_lines(path, CSV)] == ["3", "5"]
    assert read_lines(tmp_path / "absent", CSV) == []
    path.write_text("name,status,failed\na,complete,False\n")
    with pytest.raises(CostError, match="line 1 does not have the columns name, status, failed, key"):
        read_lines(path, CSV)


def test_files_of_rows_have_a_largest_size(tmp_path, monkeypatch):
    assert (formats.MOST_BYTES, process.MOST_HASHED) == (1 << 32, 1 << 32)
    path = tmp_path / "rows.csv"
    path.write_text("name,status,failed,key\na,complete,False,k\n")
    monkeypatch.setattr(formats, "MOST_BYTES", path.stat().st_size)
    assert len(read_lines(path, CSV)) == 1
    monkeypatch.setattr(formats, "MOST_BYTES", path.stat().st_size - 1)
    with pytest.raises(CostError, match=r"rows\.csv"):
        read_lines(path, CSV)


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


def test_an_error_while_another_was_handled():
    error = ValueError("x")
    error.__context__ = MemoryError()
    assert failure(error) == "out of memory: ValueError: x"


def test_labels_of_rows():
    assert ModelRow("net", {}, "").label == "net"
    assert ModelRow("net", {}, "", arguments={}).label == "net()"
    assert ModelRow("net", {}, "", arguments={"kind": int, "w": 0.5}).label == "net(kind='int', w=0.5)"
    assert ModelRow("net", {}, "").plain_arguments == {}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(({"jobs": jobs}, ValueError, "jobs must be a number of processes") for jobs in (0, True, 1.5, "2")),
        *(({"timeout": each}, ValueError, "timeout must be a positive") for each in (0, -1, True, "1", float("inf"))),
        ({"resume": True}, ValueError, "resume needs the .jsonl, .csv or .parquet file"),
        ({"mode": "fast"}, ValueError, "unknown mode 'fast'"),
        ({"columns": "macs"}, TypeError, "columns must be a list of names"),
        ({"columns": ["macs", 3]}, TypeError, "columns must be a list of names"),
        ({"columns": []}, ValueError, "columns is empty"),
        ({"columns": ["macs", "flops", "macs"]}, ValueError, "column 'macs' is given twice"),
        ({"columns": ["mac"]}, ValueError, "unknown column 'mac'"),
        ({"memory_limit": "much"}, ValueError, "memory_limit"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        table([], **options)


@pytest.mark.parametrize("models", ["net.onnx", b"net", 3, [("a",)], [("a", 1, 2, 3)], [(1, 2)]])
def test_wrong_models(models):
    with pytest.raises(TypeError, match="model"):
        table(models)


def test_models_with_names_and_inputs():
    model = object()
    assert _named(("a", model), (1,)) == NamedModel("a", model, (1,))
    assert _named(("a", model, (2,)), (1,)) == NamedModel("a", model, (2,))
    assert _named("net.onnx", (1,)) == NamedModel("net.onnx", "net.onnx", (1,))
    assert _named(model, (1,)) == NamedModel("object", model, (1,))
    made = NamedModel("a", model)
    assert _named(made, (1,)) is made
    assert [_seconds(each) for each in (None, 3, 0.25)] == [None, 3.0, 0.25]
    assert [memory_of(each) for each in (None, 12, "2 GiB")] == [None, 12, 2 << 30]


def test_columns_by_default():
    assert check_columns(None) == ("n_params", "flops", "macs", "mread", "mwrite", "activations")
    assert check_columns(["fvcore", "macs"]) == ("fvcore", "macs")
    assert (figure("n_params").title, figure("macs").title, figure("fvcore").name) == ("Params", "MACs", "fvcore")


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
        file.finish(reversed(rows))
    assert [line.split('"')[3] for line in path.read_text().splitlines()] == ["d", "c", "b", "a"]
    assert RowFile(path, ["width"], ["macs"]).earlier() == {
        "k4": ModelRow("d", {"macs": None}, "partial"),
        "k1": ModelRow("a", {"macs": 3}, "complete"),
    }
    assert RowFile(path, ["width"], ["flops"]).earlier() == {}
    with pytest.raises(ValueError, match="argument 'key' has the name of a column"):
        RowFile(path, ["key"], ["macs"])


def test_rows_that_cannot_be_pickled():
    model = NamedModel("net", (each for each in "ab"), None, {"a": 1})
    task = TaskMaker(Settings(("macs",)), Plan())(3, model)
    position, row = compute(task)
    assert (position, row.name, row.failed, row.arguments) == (3, "net", True, {"a": 1})
    assert row.status.startswith("the model cannot be pickled: TypeError: ")
    assert Plan() == Plan(jobs=None, timeout=None, memory_limit=None)


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


@pytest.mark.parametrize(
    ("change", "is_changed"),
    [
        (lambda patch, folder: None, False),
        (lambda patch, folder: patch.chdir(folder), True),
        (lambda patch, folder: patch.setenv("COSTCORE_OF_A_TEST", "2"), True),
        (lambda patch, folder: patch.delenv("COSTCORE_OF_A_TEST"), True),
        (lambda patch, folder: patch.setenv("COSTCORE_NEW", "2"), False),
        (lambda patch, folder: patch.setattr(sys, "path", [str(folder), *sys.path]), False),
        (lambda patch, folder: patch.setattr(sys, "path", sys.path[1:]), True),
        (lambda patch, folder: patch.setattr(child, "_settings_of", lambda name: "other"), True),
    ],
)
def test_what_a_model_changes_for_others(monkeypatch, tmp_path, change, is_changed):
    monkeypatch.setenv("COSTCORE_OF_A_TEST", "1")
    monkeypatch.setattr(child, "loaded", lambda: ["toy"])
    monkeypatch.setattr(child, "_settings_of", lambda name: f"settings of {name}")
    monkeypatch.setattr(sys, "path", ["/only/here", *sys.path])
    state = child.ProcessState.now()
    assert (state.folder, state.settings) == (str(Path.cwd()), {"toy": "settings of toy"})
    change(monkeypatch, tmp_path)
    assert state.is_changed() is is_changed


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


def test_an_error_of_another_kind_is_raised():
    with pytest.raises(ValueError, match="wrong"):
        [*process.rows_on_cluster(Joblib(), models("a", "wrong"), task_of, None)]
    with pytest.raises(ValueError, match="wrong"):
        process._alone(Joblib(), task_of(0, NamedModel("wrong", None)), 2)


@pytest.mark.parametrize(("jobs", "configured", "used"), [(None, None, -1), (None, 3, 3), (2, 3, 2)])
def test_how_many_jobs_are_asked_for(jobs, configured, used):
    joblib = Joblib(configured)
    assert len([*process.rows_on_cluster(joblib, models("a", "b"), task_of, jobs)]) == 2
    assert joblib.asked == [used, (used, ["a", "b"])]


def test_tasks_are_sent_ahead_in_batches():
    """Four for each of two workers."""
    joblib = Joblib(returns=False)
    assert len([*process.rows_on_cluster(joblib, models(*"abcdefghij"), task_of, 2)]) == 10
    assert [batch for _, batch in joblib.asked[1:]] == [[*"abcdefgh"], [*"ij"]]


@pytest.mark.parametrize(
    ("kind", "n_jobs", "is_used"),
    [("LokyBackend", None, False), ("LokyBackend", 2, True), ("DaskDistributedBackend", None, True)],
)
def test_joblib_is_used_if_it_is_configured(monkeypatch, kind, n_jobs, is_used):
    joblib = SimpleNamespace(parallel=SimpleNamespace(get_active_backend=lambda: (type(kind, (), {})(), n_jobs)))
    monkeypatch.setitem(sys.modules, "joblib", joblib)
    assert process.configured_joblib() == (joblib if is_used else None)
    monkeypatch.delitem(sys.modules, "joblib")
    assert process.configured_joblib() is None


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


def test_variants_of_what_is_no_function():
    for wrong, error in ((3, TypeError), ("net.onnx", ValueError), ("net", ValueError)):
        with pytest.raises(error):
            sweep(wrong, {"a": [1]})


@pytest.mark.parametrize(
    ("options", "is_step"),
    [({}, False), ({"backward": True}, True), ({"optimizer": "sgd"}, True), ({"optimizer": None}, False)],
)
@pytest.mark.parametrize(
    ("model", "arguments", "is_made"), [(object(), None, False), (lambda a: f"made {a}", {"a": 3}, True)]
)
def test_models_that_are_made_are_put_into_a_mode(monkeypatch, options, is_step, model, arguments, is_made):
    """An object stays as it is."""
    asked: list[Any] = []
    found = net(dense("a"))
    monkeypatch.setattr(row_module, "estimate", lambda model, inputs, **given: asked.append((model, given)) or found)
    monkeypatch.setattr(row_module, "in_mode", lambda *given: asked.append(given))
    monkeypatch.setattr(row_module, "check_report", lambda *given: asked.append(given))
    row = row_module.row_of(
        NamedModel("net", model, (1,), arguments), Settings(("macs",), options=options, mode="train")
    )
    assert (row.costs, row.status, row.arguments) == ({"macs": 16}, "complete", arguments)
    made = "made 3" if is_made else model
    assert asked == [
        *([("made 3", "net", "train", is_step)] if is_made else []),
        (made, options),
        (found, "made 3" if is_made else None, "net", "train", is_step),
    ]
