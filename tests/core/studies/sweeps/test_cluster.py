"""Tables on a Dask cluster of processes, started by its library and by hand, and on Ray where it is installed."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import joblib
import pytest

from costcore import sweep, table
from tests.frameworks import optional

from .conftest import ROOT
from .test_processes import STATUSES, harmful

PAGE = Path(ROOT) / "docs" / "sweeps.md"


@pytest.fixture(scope="module")
def client():
    """A client of a cluster of two processes; a task whose worker ends is not tried again."""
    distributed = optional("distributed")
    import dask

    settings = {"distributed.scheduler.allowed-failures": 0, "distributed.worker.profile.enabled": False}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore:Port 8787:UserWarning")
class TestDask:
    """One cluster for all tests."""

    def test_harmful_models_have_rows(self, nets, client):
        with joblib.parallel_config("dask"):
            statuses = harmful(nets)
        for status, expected in zip(statuses, STATUSES, strict=True):
            assert status.startswith(expected)
        assert len(client.scheduler_info()["workers"]) == 2

    def test_rows_and_files_are_those_of_one_process(self, nets, client, tmp_path):
        """More models than are sent ahead; arguments and figures are the same, and so are the bytes of the files."""
        grid, one, many = {"depth": range(1, 16)}, tmp_path / "one.jsonl", tmp_path / "many.jsonl"
        alone = sweep(f"{nets}:make", grid, (2, 3), output=one)
        with joblib.parallel_config("dask"):
            assert sweep(f"{nets}:make", grid, (2, 3), output=many) == alone
        assert many.read_bytes() == one.read_bytes()

    def test_a_model_that_hangs_is_stopped(self, nets, client):
        with joblib.parallel_config("dask"):
            rows = table([f"{nets}:hangs", f"{nets}:small"], (2, 3), timeout=8).rows
        assert [row.status for row in rows] == ["stopped after timeout=8 seconds", "complete"]

    def test_a_worker_that_is_lost_costs_its_rows_only(self, nets, client):
        nets.write_text(nets.read_text() + f"def kills():\n    os.kill(os.getppid(), {signal.SIGKILL})\n    hangs()\n")
        names = ["small", "kills", "small", "small"]
        with joblib.parallel_config("dask"):
            rows = table([f"{nets}:{name}" for name in names], (2, 3)).rows
        assert rows[1].failed and rows[1].status.startswith("the worker of this model ended: KilledWorker")
        assert sum(row.failed for row in rows) <= 2  # the other worker may have been asked for a row of the lost one


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def blocks(language):
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("## A Dask cluster") :]
    return re.search(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[1]


@contextmanager
def cluster_of_the_page(folder, port):
    """The scheduler and the workers that the commands of the page start, on another port."""
    started = []
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        for line in blocks("sh").replace("8786", port).splitlines():
            program, *arguments = shlex.split(line)
            assert program == "dask"
            command = [sys.executable, "-m", "dask", *arguments]
            environment = {**os.environ, "PYTHONPATH": ROOT}
            started.append(subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **quiet))
            time.sleep(1)
        yield started
    finally:
        for process in reversed(started):
            end(process)


def end(process):
    """Ask the process to end, then its session: a worker that lost its scheduler may try to reach it for ever."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def script_of_the_page(folder, port):
    """Write the function of the page, and its script for another port."""
    nets = re.search(r"write_text\('''\n(.*?)'''\)", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    (folder / "nets.py").write_text(nets)
    (folder / "script.py").write_text(blocks("py").replace("8786", port))
    options = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": ROOT}, "text": True, "start_new_session": True}
    script = subprocess.Popen([sys.executable, "script.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    try:
        yield script
    finally:
        end(script)


def test_the_page_starts_a_cluster_by_hand(tmp_path):
    """The commands of the page, on another port, and its script; a convolution of 3 x 3 from 3 to 8 channels, …"""
    optional("distributed")
    port = str(free_port())
    with cluster_of_the_page(tmp_path, port), script_of_the_page(tmp_path, port) as script:
        printed, said = script.communicate(timeout=300)
    rows = [[cell.strip() for cell in line.split("|")] for line in printed.splitlines()[2:]]
    assert [row[1:4] + row[-2:-1] for row in rows] == [
        ["nets.py:make", width, depth, "complete"] for width in ("0.5", "1.0") for depth in ("2", "3")
    ], said


@pytest.mark.slow
def test_a_scheduler_that_is_lost_costs_no_rows(tmp_path, monkeypatch):
    """The rows until then are in the file, and the error says how to go on."""
    optional("distributed")
    port, output = str(free_port()), tmp_path / "rows.jsonl"
    page = blocks("py").replace("[2, 3]}", "range(1, 500)}").replace("timeout=60", 'output="rows.jsonl"')
    page = page.replace('config("dask")', 'config("dask", wait_for_workers_timeout=100)')
    monkeypatch.setitem(globals(), "blocks", {"py": page, "sh": blocks("sh")}.__getitem__)
    with cluster_of_the_page(tmp_path, port) as (scheduler, _), script_of_the_page(tmp_path, port) as script:
        while script.poll() is None and not (output.exists() and output.stat().st_size):
            time.sleep(0.1)
        scheduler.kill()
        _, said = script.communicate(timeout=300)
    assert "CostError: the scheduler of Dask was lost. Start it again, and pass resume=True" in said
    assert '"failed": true' not in output.read_text() and output.read_text().count('"complete"') > 0


@pytest.mark.filterwarnings("ignore")
def test_ray(nets):
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        register_ray()
        with joblib.parallel_config("ray"):
            for status, expected in zip(harmful(nets), STATUSES, strict=True):
                assert status.startswith(expected)
    finally:
        ray.shutdown()
