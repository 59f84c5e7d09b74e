"""Rows that are computed in another process, which a model may end, occupy or fill without harm to other rows."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, NamedTuple, cast

from costcore.studies.sweeps.frames import read_frame, write_frame
from costcore.studies.sweeps.row import OUT_OF_MEMORY, ModelRow

_CODE = "import sys; sys.path[:] = {path!r}; from costcore.studies.sweeps.child import main; main({limit!r})"


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

    def row(self, name: str, task: bytes, frontends: Sequence[str] = (), timeout: float | None = None) -> ModelRow:
        """Return the row of a model.

        Args:
            name: the name of the model.
            task: the pickled arguments of :func:`costcore.studies.sweeps.row.row_of`.
            frontends: the frontends to import before the time starts.
            timeout: the seconds that the model may take; None for no limit.
        """
        child = self._send(pickle.dumps((tuple(frontends), task)))
        if isinstance(child, str):
            return ModelRow(name, {}, child, failed=True)
        is_late = threading.Event()
        timer = threading.Timer(timeout or 0, _stop, (child, is_late))
        if timeout is not None:
            timer.start()
        try:
            reply = read_frame(child.replies)
        finally:
            timer.cancel()
        if reply is None:
            reason = f"stopped after timeout={timeout:g} seconds" if is_late.is_set() else child.how_it_ended()
            self.close()
            return ModelRow(name, {}, reason, failed=True)
        row: ModelRow = pickle.loads(reply)._replace(name=name)
        if row.failed and row.status.startswith(OUT_OF_MEMORY):
            self.close()  # the next model starts with empty memory
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

    def _send(self, task: bytes) -> _Child | str:
        """Send the task to a running process and return that process, or else the reason why there is none."""
        reason = ""
        for _ in range(2):  # a process that waited for long may end while the task is sent
            child = self._child = self._child or _Child.start(self._limit)
            if self._is_interrupted:
                _kill(child.process)
            with suppress(OSError):
                write_frame(child.tasks, task)
                if read_frame(child.replies) is not None:
                    return child
            reason = child.how_it_ended()
            self.close()
        return f"no process could be started, the last one ended: {reason.rpartition(': ')[2]}{self._limit_text()}"

    def _limit_text(self) -> str:
        return "" if self._limit is None else f" (memory_limit={self._limit:,} bytes)"


class _Child(NamedTuple):
    """A running process with the streams to and from it."""

    process: subprocess.Popen[bytes]
    tasks: IO[bytes]
    replies: IO[bytes]

    @classmethod
    def start(cls, memory_limit: int | None) -> _Child:
        command = [sys.executable, "-c", _CODE.format(path=sys.path, limit=memory_limit)]
        # A session of its own: Ctrl-C is for the process that starts it, which then ends it, and all that it started.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        return cls(process, cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout))

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


def _stop(child: _Child, is_late: threading.Event) -> None:
    is_late.set()
    _kill(child.process)


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
