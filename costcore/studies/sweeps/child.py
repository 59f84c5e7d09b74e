"""The child process that computes rows of a table: a model may end it, hang or fill its memory."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import _exit
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, NamedTuple

from costcore.errors import CostError, CostWarning
from costcore.registry import ability, load, loaded, specs
from costcore.studies.sweeps.rows import STARTED, ModelRow, failure, read_frame, row_of, write_frame

IDLE_SECONDS = 60
"""A process without a task ends after this time."""


def main(memory_limit: int | None, code_path: Sequence[str]) -> None:
    """Compute the rows of the tasks in standard input, until it ends or no task comes for :data:`IDLE_SECONDS`.

    The process ends after a model that changed its global state, or that ran out of memory.

    Args:
        memory_limit: the bytes of memory that this process may allocate; None for no limit.
        code_path: the search path of modules for a task that is Python code. Tasks with a file use the path of this
            process at its start, without the current folder.
    """
    file_path = list(sys.path)
    tasks, replies = _own_streams()
    process = os.getpid()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _close(tasks, replies))
    _end_this_process_first()
    warnings.simplefilter("ignore", CostWarning)  # the parent warned of broken plug-ins; rows say the rest
    if memory_limit is not None:
        limit_memory(memory_limit)
    queue: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(tasks, queue), daemon=True).start()
    loaded: set[str] = set()
    with suppress(Empty):
        while True:
            frontends, is_code, task = pickle.loads(queue.get(timeout=IDLE_SECONDS))
            sys.path[:] = file_path
            if not set(frontends) <= loaded:
                _load(frontends)
                loaded.update(frontends)
                gc.freeze()  # imported objects are never garbage, and slow to scan
            write_frame(replies, STARTED)
            sys.path[:] = code_path if is_code else file_path
            before = ProcessState.now()
            row = _row(task, code_path)
            reply = pickle.dumps(row)
            if os.getpid() != process:  # a process forked by the model returned here
                _exit(0)
            write_frame(replies, reply)
            if before.is_changed() or row.is_out_of_memory:
                _exit(0)


def _row(task: bytes, code_path: Sequence[str]) -> ModelRow:
    path = list(sys.path)
    sys.path += code_path  # a calculator passed with a file is user code
    try:
        named, settings = pickle.loads(task)
        sys.path[:] = path
    except Exception as error:  # unpickling runs code of the user
        return ModelRow("", {}, f"the model cannot be unpickled: {failure(error)}", failed=True)
    try:
        return row_of(named, settings)
    except BaseException as error:  # also KeyboardInterrupt of the model: Ctrl-C is for the parent
        return ModelRow(named.name, {}, failure(error), True, named.arguments)


def _load(frontends: Sequence[str]) -> None:
    for name in frontends:
        # The row of the model reports a frontend that cannot be imported.
        with suppress(CostError):
            load(name)


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    # Models must not read tasks, and their prints must not mix with replies: stdin becomes empty, stdout becomes
    # stderr.
    tasks, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return tasks, replies


def _close(*streams: IO[bytes]) -> None:
    # A process forked by a model must not flush buffered data of the streams.
    for stream in streams:
        with suppress(OSError):  # the model may have closed everything
            os.close(stream.fileno())


def _receive(tasks: IO[bytes], queue: SimpleQueue[bytes]) -> None:
    while (task := read_frame(tasks)) is not None:
        queue.put(task)
    # The parent has ended: end this process and all that models started.
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    _exit(0)


def _end_this_process_first() -> None:
    # Under memory pressure Linux then kills this process, not its parent.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def limit_memory(nbytes: int) -> None:
    """Limit the memory that this process may allocate; an allocation above it is a ``MemoryError``."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    nbytes = nbytes if most == resource.RLIM_INFINITY else min(nbytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (nbytes, most))


# Global state that a model can change for later models in the same process.


class ProcessState(NamedTuple):
    """The state of this process at one time.

    Attributes:
        folder: the current folder; empty if it was removed.
        environment: the environment variables.
        path: the search path of modules.
        settings: the settings of each imported framework.
    """

    folder: str
    environment: Mapping[str, str]
    path: tuple[str, ...]
    settings: Mapping[str, object]

    @classmethod
    def now(cls) -> ProcessState:
        """Return the present state."""
        folder = ""
        with suppress(OSError):
            folder = str(Path.cwd())
        return cls(folder, dict(os.environ), tuple(sys.path), {name: _settings_of(name) for name in loaded()})

    def is_changed(self) -> bool:
        """Return whether anything of this state differs now; additions do not matter to later models."""
        now = ProcessState.now()
        return (
            now.folder != self.folder
            or not set(self.path) <= set(now.path)
            or any(now.environment.get(name) != value for name, value in self.environment.items())
            or any(now.settings.get(name) != value for name, value in self.settings.items())
        )


def _settings_of(name: str) -> object:
    with suppress(CostError):
        settings = ability(specs()[name], "process_settings")
        return None if settings is None else settings()
    return None
