"""Rows that workers compute, with stand-ins for a Ray cluster and for processes."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from costcore.studies.sweeps import process
from costcore.studies.sweeps import process as cluster
from costcore.studies.sweeps.process import ModelProcess, Plan, Task, TaskMaker
from costcore.studies.sweeps.rows import ModelRow, NamedModel, Settings

from .test_parts import Joblib, models, task_of


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
