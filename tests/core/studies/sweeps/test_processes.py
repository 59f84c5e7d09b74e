"""Models that end, occupy or fill their process: one row says so, and all others are there."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import pytest

from costcore import sweep, table

PROCESS = "costcore.studies.sweeps.process"
HARM = ["small", "dies", "crashes", "leaves", "fills", "small"]
STATUSES = [
    "complete",
    "the process of this model ended: exit code 9",
    "the process of this model ended: SIGSEGV",
    "SystemExit: 3",
    "out of memory: MemoryError",
    "complete",
]


def harmful(nets, **options):
    """The statuses of a table of harmful models, from which the folder of the file is removed."""
    rows = table([f"{nets}:{name}" for name in HARM], (2, 3), memory_limit="500 MiB", **options).rows
    assert [row.costs.get("flops") for row in rows] == [6, None, None, None, None, 6]
    assert [row.failed for row in rows] == [False, True, True, True, True, False]
    return [row.status.replace(f"{nets.parent}/", "") for row in rows]


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_model_has_a_row(nets, jobs):
    for status, expected in zip(harmful(nets, jobs=jobs), STATUSES, strict=True):
        assert status.startswith(expected)


def test_every_model_has_a_row_on_a_backend_of_joblib(nets):
    with joblib.parallel_config("loky", n_jobs=2):
        for status, expected in zip(harmful(nets), STATUSES, strict=True):
            assert status.startswith(expected)


def test_the_memory_limit_is_in_the_row(nets):
    (row,) = table([f"{nets}:fills"], (2, 3), memory_limit=500 << 20).rows
    assert row.status.endswith("(memory_limit=524,288,000 bytes)")


def test_a_model_that_hangs_is_stopped(nets):
    start = time.monotonic()
    rows = table([f"{nets}:hangs", f"{nets}:small"], (2, 3), timeout=8).rows
    assert [row.status for row in rows] == ["stopped after timeout=8 seconds", "complete"]
    assert [row.failed for row in rows] == [True, False]
    assert time.monotonic() - start < 300  # it sleeps for 1000 seconds


def test_a_model_that_closes_its_connection_is_ended(nets):
    text = "def silent():\n    os.closerange(3, 1024)\n    time.sleep(1000)\n"
    nets.write_text(nets.read_text() + text)
    start = time.monotonic()
    rows = table([f"{nets}:silent", f"{nets}:small"], (2, 3), jobs=1).rows
    assert [row.status for row in rows] == ["the process of this model ended its connection", "complete"]
    assert time.monotonic() - start < 300


@pytest.mark.frontend("pytorch")
def test_objects_are_sent_with_the_code_of_the_main_module(tmp_path):
    """A script that defines its network and sweeps it in other processes; 4 x 3 multiply-adds per row of the input."""
    script = tmp_path / "script.py"
    script.write_text("""
import torch
from costcore import sweep
class Net(torch.nn.Linear):
    pass
def make(out):
    return Net(3, out)
if __name__ == "__main__":
    print([row.costs.get("macs", row.status) for row in sweep(make, {"out": [4, 5]}, (2, 3), jobs=1).rows])
""")
    command = [sys.executable, str(script)]
    root = str(Path(__file__).parents[4])
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": root}, check=False)
    assert done.stdout == f"{[2 * 3 * 4, 2 * 3 * 5]}\n", done.stderr


def test_a_model_that_cannot_be_pickled_has_a_row(toy):
    model = toy.Model("toy::Double")
    model.items = (i for i in ())
    (row,) = table([("a", model)], (2, 3), jobs=1).rows
    assert row.failed and row.status.startswith("the model cannot be pickled: TypeError")


def test_a_model_that_cannot_be_unpickled_has_a_row(monkeypatch):
    monkeypatch.setattr(f"{PROCESS}._pickled", lambda value: b"nonsense")
    (row,) = table([("a", object())], jobs=1).rows
    assert (row.name, row.failed) == ("a", True)
    assert row.status.startswith("the model cannot be unpickled: UnpicklingError")


def test_a_process_that_cannot_start_is_the_status_of_the_row(nets):
    (row,) = table([f"{nets}:small"], (2, 3), memory_limit=1).rows
    assert row.failed and row.status.startswith("no process could be started, the last one ended: ")
    assert row.status.endswith("(memory_limit=1 bytes)")


@pytest.mark.parametrize("harm", ["dies", "crashes", "fills", "leaves", "moves"])
def test_a_model_that_was_sent_ahead_is_computed_once(nets, calls, monkeypatch, harm):
    """Every model is sent while the one before it is computed; the one after a harmful model by another process."""
    monkeypatch.setattr(f"{PROCESS}.QUICK", 1000)
    nets.write_text(nets.read_text() + "def moves():\n    os.chdir('/')\n    return toy.Model('toy::Double')\n")
    models = [(str(i), f"{nets}:make") for i in range(4)]
    models.insert(2, ("harm", f"{nets}:{harm}"))
    rows = table(models, (2, 3), jobs=1, memory_limit="500 MiB").rows
    good = [row for row in rows if row.name != "harm"]
    assert [row.name for row in rows] == ["0", "1", "harm", "2", "3"]
    assert [(row.costs.get("flops"), row.status) for row in good] == [(6, "complete")] * 4
    assert rows[2].failed == (harm != "moves")
    assert calls() == ["1,1"] * 4


def test_processes_end_with_the_table(nets):
    before = set(children())
    table([f"{nets}:small"] * 3, (2, 3), jobs=2)
    assert set(children()) <= before


def test_an_interrupt_ends_the_processes_of_models_that_run(nets):
    folder = nets.parent / "running"
    folder.mkdir()
    text = f"def waits():\n    open('{folder}/' + str(os.getpid()), 'w').close()\n    time.sleep(1000)\n"
    nets.write_text(nets.read_text() + text)
    interrupts = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # ignored in the background
    program = f"{interrupts}; from costcore import table; table(['{nets}:waits'] * 2, (2, 3), jobs=2)"
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as run:
        try:
            while len(running := [*folder.iterdir()]) < 2 and run.poll() is None:
                time.sleep(0.1)
            run.send_signal(signal.SIGINT)
            _, error = run.communicate(timeout=300)
        finally:
            run.kill()
    assert b"KeyboardInterrupt" in error
    assert not any(Path("/proc", file.name).exists() for file in running)


def children():
    return Path(f"/proc/self/task/{Path('/proc/self').resolve().name}/children").read_text().split()


def test_two_processes_share_the_models(nets, calls):
    """A model takes long enough for the other process to start."""
    text = nets.read_text().replace("{depth},{width}", "{os.getpid()}").replace("time.sleep(0)", "time.sleep(1)")
    nets.write_text(text)
    result = sweep(f"{nets}:make", {"depth": [1, 2, 3, 4]}, (2, 3), jobs=2)
    assert [row.costs["flops"] for row in result.rows] == [6, 12, 18, 24]
    assert len(set(calls())) == 2
