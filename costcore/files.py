"""Open and read files of users safely: regular files and pipes, bounded in size, with one kind of error; also TOML."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any

from costcore.errors import CostError, FileError, error_text

MOST_BYTES = 2**30
"""The maximum size of a file read into memory."""

MOST_VALUES = 5_000_000
"""The maximum number of values in a JSON file."""

_MARKS = (b",", b"[", b"{")

SMALL_FILE, BLOCK = 2**24, 2**16
"""The maximum size of a file that :func:`content_of` reads at once, and the block size for larger ones."""

_POINTER, _MOST_OF_POINTER = b"version https://git-lfs.github.com/", 1024
"""The first bytes of a file that Git LFS leaves in place of a large one, and the maximum size of such a file."""

PIECE = 2**20
"""The minimum bytes of a read; the size of a pipe is unknown."""


def exists(path: str | PathLike[str]) -> bool:
    """Return whether a file or folder exists; False for invalid names, where ``Path.exists`` raises."""
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
    """Return an open file. A pipe is read until its end, and is empty without a writer.

    Raises:
        FileError: if it cannot be opened, is a folder or a device (its content may never end), or a pointer of Git LFS.
    """
    try:
        file = open(path, "rb", opener=_opened)  # noqa: SIM115 (Path.open takes no opener)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    status = os.fstat(file.fileno())
    mode = status.st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        file.close()
        raise FileError(f"{_shown(path)} cannot be read: it is a device")
    if stat.S_ISREG(mode) and 0 < status.st_size < _MOST_OF_POINTER and _is_pointer(file, path):
        file.close()
        raise FileError(f"{_shown(path)} is a Git LFS pointer, not the file itself. Fetch the file with git lfs pull")
    # O_NONBLOCK was for opening alone.
    if hasattr(os, "set_blocking"):
        os.set_blocking(file.fileno(), True)
    return file


def _is_pointer(file: IO[bytes], path: str | PathLike[str]) -> bool:
    try:
        start = file.read(len(_POINTER))
        file.seek(0)
    except OSError as error:
        file.close()
        raise unreadable(path, error) from error
    return start == _POINTER


def _opened(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file(path: str | PathLike[str], limit: int = MOST_BYTES) -> bytes:
    """Return the content of a file.

    Args:
        path: the file.
        limit: its maximum bytes.

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
    left = limit
    # A read reserves all the bytes it asks for, however short the file is.
    while left and (piece := file.read(min(left, max(size + 1, PIECE)))):
        left -= len(piece)
        yield piece


def read_text(path: str | PathLike[str], error: type[CostError] = FileError, limit: int = MOST_BYTES) -> str:
    """Return the text of a file in UTF-8.

    Args:
        path: the file.
        error: the exception if it is not UTF-8.
        limit: its maximum bytes.

    Raises:
        FileError: as :func:`read_file`.
        CostError: ``error``, if it is not UTF-8.
    """
    try:
        return read_file(path, limit).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise error(f"{_shown(path)} is not a text in UTF-8: {problem}") from problem


class FileBytes:
    """The bytes of a regular file, read in blocks on demand.

    Not mapped into memory: a mapped file that becomes shorter ends the process.

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
    """Return the bytes of an open file: small files and pipes in memory, others on demand.

    Args:
        file: the open file.
        path: its path, for messages.
        limit: the maximum bytes of a pipe.

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
    """Check that a JSON text has a bounded number of values; each takes about a hundred bytes of memory.

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
    text = os.fsdecode(path)
    return text if text.isprintable() else repr(text)


# TOML files of users.


MOST_TOML_BYTES = 2**22
"""The maximum size of a TOML file."""

MOST_PARTS = 100
"""The maximum parts of a dotted key; time and memory of Python's reader grow with their square."""

_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|#[^\n]*")

_SPACES = re.compile(r"[ \t]+")

_KEY = re.compile(r"[^\s=,\[\]{}#]+")


def loads(text: str) -> dict[str, Any]:
    """Return the content of a text in TOML.

    Raises:
        ValueError: if it is not TOML, or a key has more than :data:`MOST_PARTS` parts.
        RecursionError: if it is nested too deeply.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    if text.count(".") > MOST_PARTS:
        plain = _SPACES.sub(" ", _TEXT.sub("q", text)).replace(" .", ".").replace(". ", ".")
        if any(key[0].count(".") >= MOST_PARTS for key in _KEY.finditer(plain)):
            raise ValueError(f"a key has more than {MOST_PARTS} parts")
    return tomllib.loads(text)


def read_toml(file: Path, invalid: type[CostError]) -> tuple[dict[str, Any], str]:
    """Return the content of a TOML file, and its text.

    Args:
        file: the file.
        invalid: the exception for a file that is not TOML.

    Raises:
        CostError: ``invalid``; the message includes the file and the place in it.
        FileError: if the file cannot be read.
    """
    text = read_text(file, invalid, MOST_TOML_BYTES)
    try:
        return loads(text), text
    except RecursionError as error:
        raise invalid(f"{file} is not a TOML file: it is nested too deeply") from error
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise invalid(f"{file} is not a TOML file: {error}") from error
