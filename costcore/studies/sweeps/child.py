"""The process in which rows of a table are computed, so that a model can end it without any other effect."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from os import _exit
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING

from costcore.errors import CostError, CostWarning
from costcore.studies.sweeps.frames import STARTED, read_frame, write_frame
from costcore.studies.sweeps.process_state import ProcessState

if TYPE_CHECKING:
    from costcore.studies.sweeps.row import ModelRow

IDLE_SECONDS = 60
"""How long a process without a task waits for one before it ends."""


def main(memory_limit: int | None, code_path: Sequence[str]) -> None:
    """Compute the rows of the tasks in standard input, until it ends or no task comes for :data:`IDLE_SECONDS`.

    A model that changed what later ones may depend on, or for which there was too little memory, is the last one.

    Args:
        memory_limit: the bytes of memory that this process may allocate; None for no limit.
        code_path: where modules are searched for a task that is Python code. For a file, as this process started:
            without the current folder.
    """
    file_path = list(sys.path)
    tasks, replies = _own_streams()
    process = os.getpid()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _close(tasks, replies))
    _end_this_process_first()
    warnings.simplefilter("ignore", CostWarning)  # of broken plug-ins the process above warned; rows say the rest
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
                gc.freeze()  # what is imported is never garbage, and takes long to scan
            write_frame(replies, STARTED)
            sys.path[:] = code_path if is_code else file_path
            before = ProcessState.now()
            row = _row(task, code_path)
            reply = pickle.dumps(row)
            if os.getpid() != process:  # a process that the model forked, and which returned here
                _exit(0)
            write_frame(replies, reply)
            if before.is_changed() or row.is_out_of_memory:
                _exit(0)


def _row(task: bytes, code_path: Sequence[str]) -> ModelRow:
    from costcore.studies.sweeps.row import ModelRow, failure, row_of

    path = list(sys.path)
    sys.path += code_path  # a calculator that was passed with a file is code of the user
    try:
        named, settings = pickle.loads(task)
        sys.path[:] = path
    except Exception as error:  # unpickling runs code of the user
        return ModelRow("", {}, f"the model cannot be unpickled: {failure(error)}", failed=True)
    try:
        return row_of(named, settings)
    except BaseException as error:  # of the model, such as KeyboardInterrupt: Ctrl-C is for the process above
        return ModelRow(named.name, {}, failure(error), True, named.arguments)


def _load(frontends: Sequence[str]) -> None:
    """Import what rows need, and frontends; one that cannot be imported yet, or at all, is the matter of the model."""
    from costcore.registry.frontends import load
    from costcore.studies.sweeps.row import row_of  # noqa: F401

    for name in frontends:
        with suppress(CostError):
            load(name)


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return standard input and output; models read nothing, and what they print goes to standard error."""
    tasks, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return tasks, replies


def _close(*streams: IO[bytes]) -> None:
    """Close streams in a process that a model forked: what it leaves in them is not for it to write."""
    for stream in streams:
        with suppress(OSError):  # the model may have closed everything
            os.close(stream.fileno())


def _receive(tasks: IO[bytes], queue: SimpleQueue[bytes]) -> None:
    """Put every task into the queue. When the other process ends, end this one and those that models started."""
    while (task := read_frame(tasks)) is not None:
        queue.put(task)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    _exit(0)


def _end_this_process_first() -> None:
    """Let Linux end this process, not the one that started it, if the machine runs out of memory."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def limit_memory(nbytes: int) -> None:
    """Limit the memory that this process may allocate; an allocation above it is a ``MemoryError``."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    nbytes = nbytes if most == resource.RLIM_INFINITY else min(nbytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (nbytes, most))
