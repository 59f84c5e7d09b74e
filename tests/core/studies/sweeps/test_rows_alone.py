"""A model changes no row but its own: it may fork, start programs, or change its process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from costcore import table

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

MODELS = """
import subprocess

def forks():
    os.fork()
    return small()
def forks_and_ends():
    if os.fork() == 0:
        time.sleep(60)
    os._exit(3)
def forks_and_hangs():
    os.fork()
    time.sleep(60)
def starts():
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open({started!r}, "w").write(str(started.pid))
    time.sleep(60)
def starts_and_returns():
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open({started!r}, "w").write(str(started.pid))
    return small()
class Unexpected(BaseException):
    pass
def raises_base():
    raise Unexpected("boo")
def raises_exit():
    raise GeneratorExit("bye")
def interrupts():
    raise KeyboardInterrupt
def miscounts():
    import builtins
    builtins.len = lambda items: 3
    raise ValueError("its answer has another length than it says")
def moves():
    os.chdir("/")
    return small()
def changes_the_environment():
    os.environ["HOME"] = "elsewhere"
    return small()
def forgets_its_path():
    del sys.path[:]
    return small()
def logs():
    with open({states!r}, "a") as states:
        print(os.getpid(), os.getcwd(), os.environ.get("HOME"), bool(sys.path), file=states)
    return small()
"""


@pytest.fixture
def models(nets, tmp_path, monkeypatch):
    """The file with the models; the current folder is that of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    text = MODELS.format(started=str(tmp_path / "started"), states=str(tmp_path / "states"))
    nets.write_text(nets.read_text() + text)
    return nets


def rows_of(models, *names, **options):
    return table([f"{models}:{name}" for name in names], (2, 3), jobs=1, timeout=20, **options).rows


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody waited for is none."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_model_that_forks_has_one_row(models):
    rows = rows_of(models, "small", "forks", "small", "small")
    assert [row.status for row in rows] == ["complete"] * 4
    assert len({row.costs["flops"] for row in rows}) == 1


def test_a_process_that_a_model_forked_does_not_hold_up_its_row(models):
    start = time.monotonic()
    rows = rows_of(models, "small", "forks_and_ends", "small")
    assert rows[1].status == "the process of this model ended: exit code 3"
    assert [row.status for row in rows[::2]] == ["complete"] * 2
    assert time.monotonic() - start < 50  # the forked process sleeps for 60 seconds


def test_a_timeout_ends_what_a_model_forked(models):
    start = time.monotonic()
    (row,) = table([f"{models}:forks_and_hangs"], (2, 3), jobs=1, timeout=2).rows
    assert row.status == "stopped after timeout=2 seconds"
    assert time.monotonic() - start < 40


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("name", ["starts", "starts_and_returns"])
def test_programs_that_a_model_started_end_with_it(models, tmp_path, name):
    table([f"{models}:{name}"], (2, 3), jobs=1, timeout=3)
    started = int((tmp_path / "started").read_text())
    last = time.monotonic() + 10
    while is_alive(started) and time.monotonic() < last:
        time.sleep(0.05)
    assert not is_alive(started)


def test_an_answer_that_is_no_row_is_the_row_of_its_model(models):
    """The model changes the function by which the length of the answer is written."""
    rows = rows_of(models, "small", "miscounts", "small")
    assert rows[1].status == "worker returned an invalid result"
    assert [row.status for row in rows[::2]] == ["complete"] * 2


def test_an_interrupt_that_a_model_raises_is_its_status(models):
    rows = rows_of(models, "interrupts", "small")
    assert rows[0].failed and rows[0].status.startswith("KeyboardInterrupt")
    assert rows[1].status == "complete"


@pytest.mark.parametrize("name", ["moves", "changes_the_environment", "forgets_its_path"])
def test_a_model_that_changes_its_process_changes_no_later_row(models, tmp_path, name):
    rows = rows_of(models, "logs", name, "logs", "logs")
    assert not any(row.failed for row in rows)
    before, *after = (line.split() for line in (tmp_path / "states").read_text().splitlines())
    assert [state[1:] for state in after] == [before[1:]] * 2
    assert after[0][0] == after[1][0]  # two models that change nothing share a process
    assert (after[0][0] == before[0]) == (name == "forgets_its_path")  # the path is restored


def test_an_exception_that_no_handler_expects_is_the_status_of_its_row(models):
    """``except Exception`` catches neither."""
    rows = rows_of(models, "raises_base", "raises_exit", "small")
    assert [row.status for row in rows] == ["Unexpected: boo", "GeneratorExit: bye", "complete"]
    assert [row.failed for row in rows] == [True, True, False]
