"""Rows that are computed in another process, which a model may end, occupy or fill without harm to other rows."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, NamedTuple, cast

from costcore.isolated import python_command
from costcore.studies.sweeps.frames import read_frame, write_frame
from costcore.studies.sweeps.row import ModelRow
from costcore.studies.sweeps.task import Task

_CODE = "from costcore.studies.sweeps.child import main; main({limit!r}, {path!r})"
"""The code of a child. It finds modules as this process does once a task is Python code."""

QUICK = 0.05
"""How many seconds a row takes at most if the next task is sent while it is computed: no other process would be idle
for long that could have taken that task."""

SMALL = 1 << 15
"""The most bytes of a task that is sent while another is computed."""

UNREADABLE = (ArithmeticError, AttributeError, EOFError, ImportError, LookupError, MemoryError, TypeError, ValueError)
"""What reading an answer raises that is not a row, besides the error of pickle."""

GRACE = 0.5
"""Seconds in which a process that answers no more may end by itself, so that its row says how."""


class ModelProcess:
    """A process that computes rows one after the other. It is started when needed, and again after a model ended it.

    Args:
        memory_limit: the bytes of memory that it may allocate, with those of Python and the framework; None for no
            limit.
    """

    def __init__(self, memory_limit: int | None = None) -> None:
        self._limit = memory_limit
        self._child: _Child | None = None
        self._is_interrupted = False

    def rows(self, tasks: Iterator[Task]) -> Iterator[tuple[int, ModelRow]]:
        """Yield the position and the row of every task, one after the other.

        While rows are quick, the next task is sent before the present row is there, so that the process need not wait
        for it. It is sent again, to another process, if the present model ends this one.
        """
        task, is_sent, is_quick = next(tasks, None), False, False
        while task is not None:
            following, start = None, time.monotonic()
            row = task.content if isinstance(task.content, ModelRow) else self._started(task, is_sent)
            is_sent = False
            if isinstance(row, _Child):
                with _Limit(row, task.plan.timeout) as limit:
                    if is_quick and (following := next(tasks, None)) is not None:
                        is_sent = row.takes_ahead(following)
                    reply = read_frame(row.replies)
                row = self._row(reply, row, limit)
            is_quick = time.monotonic() - start < QUICK
            yield task.position, row._replace(name=task.name)
            task = following or next(tasks, None)

    def _row(self, reply: bytes | None, child: _Child, limit: _Limit) -> ModelRow:
        """Return the row that a process answered, or one that says how the process ended."""
        if reply is None:
            reason = limit.text if limit.is_over else child.how_it_ended()
            self.close()
            return ModelRow("", {}, reason, failed=True)
        try:
            row: ModelRow = pickle.loads(reply)
            is_row = isinstance(row, ModelRow)
        except (*UNREADABLE, pickle.UnpicklingError):
            is_row = False
        if not is_row:  # the model changed what writes rows, such as built-in functions
            self.close()
            return ModelRow("", {}, "the process of this model answered something that is not a row", failed=True)
        if row.is_out_of_memory:  # its process ends, so that the next model starts with empty memory
            self.close()
            row = row._replace(status=row.status + self._limit_text())
        return row

    def interrupt(self) -> None:
        """End the process, also while another thread waits for its row; no process is started again."""
        self._is_interrupted = True
        if (child := self._child) is not None:
            _kill(child.process)

    def close(self) -> None:
        """End the process; it is started again for the next row."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _started(self, task: Task, is_sent: bool) -> _Child | ModelRow:
        """Return the process that has started a task, which it may have got already; or a row that says why none has.

        A process that waited for long may end while a task is sent, and one that the model before has changed ends.
        """
        if is_sent and self._child is not None:
            if read_frame(self._child.replies) is not None:
                return self._child
            self.close()
        reason = ": interrupted"
        for _ in range(2 * (not self._is_interrupted)):
            child = self._child = self._child or _Child.start(self._limit)
            if self._is_interrupted:
                _kill(child.process)
            with suppress(OSError):
                child.send(task)
                if read_frame(child.replies) is not None:
                    return child
            reason = child.how_it_ended()
            self.close()
        text = f"no process could be started, the last one ended: {reason.rpartition(': ')[2]}{self._limit_text()}"
        return ModelRow("", {}, text, failed=True)

    def _limit_text(self) -> str:
        return "" if self._limit is None else f" (memory_limit={self._limit:,} bytes)"


class _Child(NamedTuple):
    """A running process with the streams to and from it."""

    process: subprocess.Popen[bytes]
    tasks: IO[bytes]
    replies: IO[bytes]

    @classmethod
    def start(cls, memory_limit: int | None) -> _Child:
        code = _CODE.format(path=[folder for folder in sys.path if isinstance(folder, str)], limit=memory_limit)
        command = python_command(code, keep_environment=True)
        # A session of its own: Ctrl-C is for the process that starts it, which then ends it, and all that it started.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        return cls(process, cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout))

    def send(self, task: Task) -> None:
        """Send a task.

        Raises:
            OSError: if the process has ended.
        """
        write_frame(self.tasks, pickle.dumps((task.frontends, task.is_code, task.content)))

    def takes_ahead(self, task: Task) -> bool:
        """Send a task while another is computed, and return True; False if it could fill the stream or the memory."""
        if not isinstance(task.content, bytes) or len(task.content) > SMALL:
            return False
        with suppress(OSError):
            self.send(task)
            return True
        return False

    def how_it_ended(self) -> str:
        last = time.monotonic() + GRACE
        while _is_running(self.process) and time.monotonic() < last:
            time.sleep(0.01)
        is_silent = _is_running(self.process)
        _kill(self.process)
        code = self.process.wait()
        if is_silent:
            return "the process of this model ended its connection"
        if code >= 0:
            return f"the process of this model ended: exit code {code}"
        name = signal.Signals(-code).name
        return f"the process of this model ended: {name}{' (out of memory?)' * (name == 'SIGKILL')}"

    def end(self) -> None:
        _kill(self.process)
        self.process.wait()
        for stream in (self.tasks, self.replies):
            with suppress(OSError):  # a task that was not read cannot be flushed
                stream.close()


class _Limit:
    """Ends a process after the seconds that its model may take; None for no limit."""

    def __init__(self, child: _Child, seconds: float | None) -> None:
        self.is_over = False
        self.text = f"stopped after timeout={seconds:g} seconds" if seconds is not None else ""
        self._child = child
        self._timer = None if seconds is None else threading.Timer(seconds, self._stop)

    def __enter__(self) -> _Limit:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _stop(self) -> None:
        self.is_over = True
        _kill(self._child.process)


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process runs. One that has ended keeps its number, which is that of its group, for a while."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll() is None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started, except in sessions of their own; nothing if it was waited for."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (AttributeError, OSError):  # a system without groups, or a process that has ended
            process.kill()
