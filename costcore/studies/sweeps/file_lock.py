"""A lock that keeps a second run from a file that one is written to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from costcore.errors import CostError
from costcore.messages import error_text


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Return a context in which no other run, of this process or another, has the same lock.

    It is a file beside ``path`` that the system unlocks when the process ends, however it ends. Pipes and terminals,
    and systems without such locks, are not locked.

    Raises:
        CostError: if another run has it.
        OSError: if the lock cannot be written.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    while True:
        try:
            held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise type(error)(f"{path} cannot be written: {error_text(error)}") from error
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CostError(
                    f"{path} is being written by another run. Wait for it, or name another file."
                ) from error
            if not _is_same_file(held, lock):  # the run that had it removed it meanwhile
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return
        finally:
            os.close(held)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
