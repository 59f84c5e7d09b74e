"""Messages between a process and the one that computes its rows: a length of eight bytes, then the content."""

from __future__ import annotations

from typing import IO

LENGTH = 8

STARTED = b"started"
"""What a process answers as soon as it starts a task; its row follows."""


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write a message and flush it.

    Raises:
        OSError: if the process at the other end has ended.
    """
    stream.write(len(content).to_bytes(LENGTH, "big") + content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Return the next message, or None if the process at the other end has ended."""
    length = stream.read(LENGTH)
    if len(length) < LENGTH:
        return None
    size = int.from_bytes(length, "big")
    content = stream.read(size)
    return content if len(content) == size else None
