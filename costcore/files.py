"""Open and read the files that users name: regular files and pipes, up to a size, with one error for all mistakes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from os import PathLike
from typing import IO, Any

from costcore.errors import CostError, FileError
from costcore.messages import error_text

MOST_BYTES = 2**30
"""The largest file that is read into memory."""

MOST_VALUES = 5_000_000
"""The most values of a file in JSON."""

_MARKS = (b",", b"[", b"{")

SMALL_FILE, BLOCK = 2**22, 2**16
"""The largest file that :func:`content_of` reads at once, and how much it reads of others for a byte."""

PIECE = 2**20
"""The least bytes that a read asks for; the size of a pipe is not known."""


def exists(path: str | PathLike[str]) -> bool:
    """Return whether there is a file or folder; False for a name that no file can have, where Path.exists raises."""
    return _mode(path) != 0


def is_file(path: str | PathLike[str]) -> bool:
    """Return whether a path is a regular file."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: str | PathLike[str]) -> bool:
    """Return whether a path is a folder."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: str | PathLike[str]) -> int:
    with suppress(OSError, ValueError):
        return os.stat(path).st_mode  # noqa: PTH116 (the methods of Path take no names of 300 characters)
    return 0


def open_file(path: str | PathLike[str]) -> IO[bytes]:
    """Return an open file, to be used as a context. A pipe is read until its end, and is empty if nobody writes it.

    Raises:
        FileError: if it cannot be opened, or is a folder or a device, whose content may never end.
    """
    try:
        file = open(path, "rb", opener=_opened)  # noqa: SIM115 (Path.open takes no opener)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    mode = os.fstat(file.fileno()).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        file.close()
        raise FileError(f"{_shown(path)} cannot be read: it is a device")
    if hasattr(os, "set_blocking"):
        os.set_blocking(file.fileno(), True)
    return file


def _opened(path: str, flags: int) -> int:
    """Open a file. Without ``O_NONBLOCK``, opening a pipe would wait until somebody writes it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file(path: str | PathLike[str], limit: int = MOST_BYTES) -> bytes:
    """Return the content of a file.

    Args:
        path: the file.
        limit: the most bytes that it may have.

    Raises:
        FileError: if it cannot be read, is larger, or is neither a regular file nor a pipe.
    """
    with open_file(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > limit else b"".join(_pieces(file, size, limit + 1))
        except OSError as error:
            raise unreadable(path, error) from error
    if size > limit or len(content) > limit:
        raise FileError(f"{_shown(path)} cannot be read: it has more than {limit:,} bytes")
    return content


def _pieces(file: IO[bytes], size: int, limit: int) -> Iterator[bytes]:
    """Yield what a file has, up to ``limit`` bytes; a read reserves all that it asks for, however short the file is."""
    left = limit
    while left and (piece := file.read(min(left, max(size + 1, PIECE)))):
        left -= len(piece)
        yield piece


def read_text(path: str | PathLike[str], error: type[CostError] = FileError, limit: int = MOST_BYTES) -> str:
    """Return the text of a file in UTF-8.

    Args:
        path: the file.
        error: the exception if it is not such a text.
        limit: the most bytes that it may have.

    Raises:
        FileError: as :func:`read_file`.
        CostError: ``error``.
    """
    try:
        return read_file(path, limit).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise error(f"{_shown(path)} is not a text in UTF-8: {problem}") from problem


class FileBytes:
    """The bytes of a regular file, read piece by piece when they are asked for.

    A file that is mapped into memory instead ends the process if it becomes shorter meanwhile.

    Args:
        file: the open file.
        path: its path, for messages.

    Raises:
        FileError: by an index or a slice, if the file became shorter, or cannot be read.
    """

    __slots__ = ("_block", "_file", "_path", "_size", "_start")

    def __init__(self, file: IO[bytes], path: str | PathLike[str]) -> None:
        self._file, self._path = getattr(file, "raw", file), path  # blocks are the only buffer
        self._size = os.fstat(file.fileno()).st_size
        self._start, self._block = 0, b""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, slice):
            start, stop, _ = where.indices(self._size)
            return self._read(start, max(stop - start, 0))
        offset = where - self._start
        if 0 <= offset < len(self._block):
            return self._block[offset]
        if not 0 <= where < self._size:
            raise IndexError(where)
        self._start, self._block = where, self._read(where, min(BLOCK, self._size - where))
        return self._block[0]

    def _read(self, start: int, length: int) -> bytes:
        pieces, left = [], length
        try:
            self._file.seek(start)
            while left and (piece := self._file.read(left)):
                pieces.append(piece)
                left -= len(piece)
        except OSError as error:
            raise unreadable(self._path, error) from error
        if left:
            raise FileError(f"{_shown(self._path)} cannot be read: it became shorter while it was read")
        return b"".join(pieces)


def content_of(file: IO[bytes], path: str | PathLike[str], limit: int = MOST_BYTES) -> bytes | FileBytes:
    """Return the bytes of an open file: those of a small file, and of a pipe, are in memory.

    Args:
        file: the open file.
        path: its path, for messages.
        limit: the most bytes of a pipe.

    Raises:
        FileError: if it cannot be read, or a pipe has more.
    """
    size = os.fstat(file.fileno()).st_size
    if file.seekable() and size > SMALL_FILE:
        return FileBytes(file, path)
    try:
        content = b"".join(_pieces(file, size, limit + 1))
    except OSError as error:
        raise unreadable(path, error) from error
    if len(content) > limit:
        raise FileError(f"{_shown(path)} cannot be read: it has more than {limit:,} bytes")
    return content


def check_values(text: str | bytes, path: str | PathLike[str], most: int = MOST_VALUES) -> None:
    """Check that a text in JSON has a bounded number of values, which take a hundred bytes of memory each.

    Raises:
        FileError: if it has more.
    """
    n = sum(text.count(mark) for mark in (",", "[", "{")) if isinstance(text, str) else sum(map(text.count, _MARKS))
    if n > most:
        raise FileError(f"{_shown(path)} cannot be read: it has more than {most:,} values")


def unreadable(path: str | PathLike[str], error: OSError | ValueError) -> FileError:
    """Return the exception for a file that could not be read."""
    return FileError(f"{_shown(path)} cannot be read: {error_text(error)}")


def _shown(path: str | PathLike[str]) -> str:
    """Return a path for a message; one with a NUL, which no file can have, as its repr."""
    text = os.fsdecode(path)
    return text if text.isprintable() else repr(text)
