"""A JSON file, read piece by piece: long lists one item at a time, with bounds on items and file."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from functools import partial
from json import JSONDecodeError, JSONDecoder
from os import PathLike, fsdecode
from pathlib import Path
from typing import IO, Any

from costcore.errors import CostError
from costcore.files import check_values, open_file

CHUNK = 2**20
"""Bytes that are read at once."""

LONGEST = 2**25
"""Maximum characters of one item; an event of a trace has a few thousand."""

MOST = 2**33
"""Maximum characters of a file after decompression."""

MOST_RATIO, UNPACKED = 64, 2**23
"""Maximum ratio of decompression, for files of more than ``UNPACKED`` bytes; traces have ratios of 10 to 30."""

MOST_PARTS = 2 * 10**6
"""Maximum values inside one item."""

LONGEST_BATCH = 2**20
"""Maximum characters that are parsed at once."""

LONGEST_GAP = 2**22
"""Maximum white space between two values."""

SHORTEST, FEW = 20, 10**5
"""Minimum characters per item on average, in files with more than ``FEW`` items; an event has a hundred."""

_GZIP = b"\x1f\x8b"

_GAP = re.compile(r"[\s,]*")

_BACKSLASH = re.compile(r'\\(u[0-9a-fA-F]{4}|["\\/bfnrt])|\\')


class JsonStream:
    """The values of a JSON file, plain or compressed by gzip.

    Characters that JSON forbids inside strings are accepted, single backslashes too, because profilers write them. A
    file that ends early ends the iteration.

    Args:
        path: the file.
        lists: the keys of the object whose lists are yielded item by item.
        opened: keys of lists with objects longer than ``LONGEST``, and keys of objects inside these. Lists inside them
            are yielded item by item with both keys, ``"buffer_records/kernel_dispatch"``. The key of a list is yielded
            with None before each of its objects.

    Attributes:
        is_cut: whether the file ended inside of a value; set when everything was read.
    """

    is_cut: bool

    def __init__(self, path: str | PathLike[str], lists: Collection[str], opened: Collection[str] = ()) -> None:
        self._name = fsdecode(path)
        self._lists, self._opened = lists, opened
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._scan = JSONDecoder(strict=False).raw_decode
        self._pieces: Iterator[bytes] = iter(())
        self._held = ""
        self._text = ""
        self._at = 0
        self._n_read = self._n_items = self._n_packed = self._n_unpacked = 0
        self._failed_at = -1
        self._is_over = False
        self._repairs = False
        self.is_cut = False
        self._path = Path(path)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield every value with its key; an item of a list with the key of the list, ``""`` if the file is a list.

        Raises:
            CostError: if the file cannot be read, is not JSON, or is too large.
        """
        try:
            with ExitStack() as stack:
                self._open(stack)
                yield from self._top()
                self._check_end()
        except CostError:
            raise
        except OSError as error:
            raise CostError(f"{self._name} cannot be read: {error.strerror or error}") from error

    def _open(self, stack: ExitStack) -> None:
        file = stack.enter_context(open_file(self._path))
        is_packed = file.read(2) == _GZIP
        file.seek(0)
        self._pieces = self._inflated(file) if is_packed else iter(partial(file.read, CHUNK), b"")

    def _inflated(self, file: IO[bytes]) -> Iterator[bytes]:
        # A truncated file is read up to its end.
        inflate = zlib.decompressobj(wbits=31)
        while data := file.read(CHUNK):
            self._n_packed += len(data)
            while data:
                if inflate.eof:
                    inflate = zlib.decompressobj(wbits=31)
                piece = inflate.decompress(data, CHUNK)
                self._n_unpacked += len(piece)
                if self._n_unpacked > UNPACKED + MOST_RATIO * self._n_packed:
                    raise CostError(f"{self._name} is not a trace: it expands to more than {MOST_RATIO} times its size")
                if piece:
                    yield piece
                data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
        self.is_cut |= not inflate.eof

    def _check_end(self) -> None:
        # Compressed data ends in a checksum: a file can be cut although its text is complete.
        if self._n_packed:
            try:
                for _ in self._pieces:
                    pass
            except zlib.error:
                self.is_cut = True

    def _top(self) -> Iterator[tuple[str, Any]]:
        opening = self._next().removeprefix("\ufeff") or self._next()
        if opening == "[":
            yield from (("", item) for item in self._items())
        elif opening == "{":
            yield from self._members()
        else:
            raise CostError(f"{self._name} is not a trace: it begins with neither {{ nor [")

    def _members(self, inside: str = "") -> Iterator[tuple[str, Any]]:
        while (character := self._peek()) == '"':
            found, key = self._value()
            if not found or self._next() != ":":
                break
            opening, name = self._peek(), f"{inside}/{key}" if inside else key
            if opening == "[" and key in self._opened and not inside:
                self._at += 1
                yield from self._objects(key)
            elif opening == "{" and key in self._opened and inside in self._opened:
                self._at += 1
                yield from self._members(key)
            elif opening == "[" and (inside or key in self._lists):
                self._at += 1
                yield from ((name, item) for item in self._items())
            else:
                found, value = self._value()
                if not found:
                    break
                yield name, value
        else:
            if character == "}":
                self._at += 1
                return
            if character:
                raise self._no_json(self._at)
        self.is_cut = True

    def _objects(self, key: str) -> Iterator[tuple[str, Any]]:
        while (character := self._peek()) not in ("", "]"):
            self._count_items(1)
            if character == "{":
                self._at += 1
                yield key, None
                yield from self._members(key)
            elif not self._value()[0]:
                break
        self._at += character == "]"

    def _items(self) -> Iterator[Any]:
        while (character := self._peek()) != "]":
            before = self._at
            found, item = self._value() if character else (False, None)
            if not found:
                self.is_cut = True
                self._at = len(self._text)
                return
            self._count_items(1)
            yield item
            if self._at > before:
                yield from self._batch()
        self._at += 1

    def _batch(self) -> list[Any]:
        # Parse the buffered text up to the last separator of items at once. If it parses as a list, the items are the
        # same as when read one by one.
        start = self._at
        opening = self._peek()
        separator = self._text[start - 1 : self._at + 1]
        end = self._text.rfind(separator, self._at, self._at + LONGEST_BATCH) + 1
        if opening != "{" or separator[:1] != "}" or end <= self._at or self._failed_at == self._n_read:
            return []
        text = f"[{self._text[self._at : end]}]"
        try:
            items, stop = self._scan(text)
        except (RecursionError, ValueError):
            stop = 0
        if stop != len(text):
            self._failed_at = self._n_read
            return []
        self._at = end
        self._count_items(len(items))
        return [*items]

    def _count_items(self, n: int) -> None:
        self._n_items += n
        if self._n_items * SHORTEST > FEW * SHORTEST + self._n_read:
            raise CostError(
                f"{self._name} is not a trace: it has {self._n_items:,} events in {self._n_read:,} characters"
            )

    def _peek(self) -> str:
        gap = 0
        while True:
            found = _GAP.match(self._text, self._at)
            end = self._at if found is None else found.end()
            gap += end - self._at
            self._at = end
            if gap > LONGEST_GAP:
                raise CostError(f"{self._name} is not a trace: it has more than {LONGEST_GAP:,} spaces in a row")
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    def _next(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def _value(self) -> tuple[bool, Any]:
        while True:
            if self._peek() == "":
                return False, None
            try:
                value, end = self._scan(self._text, self._at)
            except JSONDecodeError as error:
                if error.msg.startswith("Invalid \\") and not self._repairs:
                    self._repair()
                    continue
                is_unfinished = error.msg.startswith("Unterminated") or error.pos > len(self._text) - 32
                if not is_unfinished:
                    raise self._no_json(error.pos) from error
            except RecursionError as error:
                raise CostError(f"{self._name} is not a trace: its values are nested too deeply") from error
            except ValueError as error:  # a number with thousands of digits
                raise CostError(f"{self._name} is not a trace: {error}") from error
            else:
                if end < len(self._text) or not self._read_more():
                    self._at = end
                    return True, value
                continue
            length = len(self._text) - self._at
            if length > LONGEST:
                raise CostError(f"{self._name} is not a trace: a value is longer than {LONGEST:,} characters")
            check_values(self._text[self._at :], self._name, MOST_PARTS)
            if not self._read_more():
                return False, None
            while len(self._text) - self._at < 2 * length and self._read_more():
                pass  # parsing again only after the text has doubled keeps the time linear

    def _read_more(self) -> bool:
        if self._is_over:
            return False
        try:
            data = next(self._pieces, b"")
        except zlib.error as error:
            if self._n_read == 0:
                raise CostError(f"{self._name} is damaged: {error}") from error
            data, self.is_cut = b"", True
        self._is_over = not data
        piece = self._held + self._decode(data, self._is_over)
        self._held = ""
        if self._repairs:
            if (len(piece) - len(piece.rstrip("\\"))) % 2 and not self._is_over:
                piece, self._held = piece[:-1], piece[-1]
            piece = _BACKSLASH.sub(_repaired, piece)
        self._n_read += len(piece)
        if self._n_read > MOST:
            raise CostError(f"{self._name} is not a trace: it has more than {MOST:,} characters")
        self._text = self._text[self._at :] + piece
        self._at = 0
        return bool(piece) or not self._is_over

    def _repair(self) -> None:
        # Profilers write single backslashes, of Windows paths for example: they are doubled from here on.
        self._repairs = True
        self._text = _BACKSLASH.sub(_repaired, self._text[self._at :])
        self._at = 0

    def _no_json(self, at: int) -> CostError:
        where = self._n_read - len(self._text) + at
        return CostError(f"{self._name} is damaged: it stops being JSON at character {where:,}")


def _repaired(found: re.Match[str]) -> str:
    return found[0] if found[1] else "\\\\"
