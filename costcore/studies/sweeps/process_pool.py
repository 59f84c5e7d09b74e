"""The processes in which one process computes rows: on this machine, or in a worker of a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from costcore.studies.sweeps.process import ModelProcess

MOST_POOLS = 2
"""How many pools a worker of a cluster keeps; older ones that compute nothing are ended."""


class ProcessPool:
    """Processes that compute rows, as many as threads use at the same time.

    Args:
        memory_limit: see :class:`ModelProcess`.
    """

    def __init__(self, memory_limit: int | None = None) -> None:
        self._limit = memory_limit
        self._all: list[ModelProcess] = []
        self._idle: list[ModelProcess] = []
        self._lock = threading.Lock()

    @property
    def is_idle(self) -> bool:
        """Whether no process computes a row."""
        return len(self._idle) == len(self._all)

    @contextmanager
    def process(self) -> Iterator[ModelProcess]:
        """Return a context that has a process for itself."""
        with self._lock:
            if not self._idle:
                self._all.append(ModelProcess(self._limit))
                self._idle.append(self._all[-1])
            process = self._idle.pop()
        try:
            yield process
        finally:
            with self._lock:
                self._idle.append(process)

    def interrupt(self) -> None:
        """End all processes; rows that they compute fail, and so do later ones."""
        with self._lock:
            for process in self._all:
                process.interrupt()

    def close(self) -> None:
        """End all processes, which must be idle."""
        for process in self._idle:
            process.close()


_POOLS: dict[str, ProcessPool] = {}
_LOCK = threading.Lock()


def pool_of(run: str, memory_limit: int | None) -> ProcessPool:
    """Return the pool of this process for a run of a table, and end the pools of runs that have ended."""
    with _LOCK:
        if run not in _POOLS:
            ended = [name for name, pool in _POOLS.items() if pool.is_idle][: max(0, len(_POOLS) + 1 - MOST_POOLS)]
            for name in ended:
                _POOLS.pop(name).close()
            _POOLS[run] = ProcessPool(memory_limit)
        return _POOLS[run]
