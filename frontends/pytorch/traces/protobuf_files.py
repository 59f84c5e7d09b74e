"""Traces as protobufs: those of Perfetto (``rocprofv3 --output-format pftrace``), and XSpace of JAX and TensorFlow.

Both are read from the wire, field by field. Field numbers are those of ``protos/perfetto/trace/trace.proto`` (Perfetto,
Apache 2.0) and of ``tsl/profiler/protobuf/xplane.proto`` (TSL, Apache 2.0). A file of Perfetto gives the events that a
Chrome trace of the same tracks has. A file of XSpace gives the operators of XLA with their times, and with the FLOPs
and bytes that XLA's cost analysis states for them on accelerators.

The files are untrusted input. A field takes at least two bytes, and every byte is looked at once for each message
around it, of which there are few: time grows with the size of a file. Inflated packets are bounded, too.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, Protocol

from costcore.errors import CostError
from costcore.files import read_file

from .records import Kernel, Launch, Op, Recorded, Thread

MOST_BYTES = 2**29
"""Maximum size of a file."""

MOST_EVENTS = 4 * 10**6
"""Maximum events or packets of a file."""

MOST_OPEN = 100_000
"""Maximum slices that are open at once."""

MOST_NAME = 2**16
"""Maximum bytes of a name."""

MOST_RATIO, MOST_SMALL = 64, 2**23
"""How much larger a file or its compressed packets may be after decompression than before, beyond a size."""

GZIP = b"\x1f\x8b"

FIRST_OF_PACKETS = 6
"""Packets of Perfetto begin with a field of at least this number, and planes of XSpace with their number or name."""

_NO_TEXT = re.compile(rb"[\0-\x08\x0e-\x1f]")

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Reader(Protocol):
    """Takes the events of a Chrome trace."""

    def add_span(
        self, category: str, name: str, start: int, end: int, place: tuple[Any, Any], args: dict[str, Any]
    ) -> None:
        """Take one span, in nanoseconds."""


class Part(NamedTuple):
    """The bytes of one message, or of a text."""

    data: bytes
    start: int
    end: int

    def text(self) -> str:
        """Return it as a text."""
        return intern(self.data[self.start : min(self.end, self.start + MOST_NAME)].decode("utf-8", "replace"))

    def fields(self) -> Iterator[tuple[int, int | Part]]:
        """Yield its fields: the number, and an unsigned number or the bytes.

        Raises:
            ValueError: if the bytes are no message.
        """
        data, at, end = self.data, self.start, self.end
        while at < end:
            tag, at = _varint(data, at, end)
            kind = tag & 7
            if kind == VARINT:
                value, at = _varint(data, at, end)
                yield tag >> 3, value
                continue
            if kind == BYTES:
                length, at = _varint(data, at, end)
            elif kind in (FIXED64, FIXED32):
                length = 8 if kind == FIXED64 else 4
            else:
                raise ValueError(f"no field starts at byte {at}")
            if at + length > end:
                raise ValueError(f"it ends in the field at byte {at}")
            yield (
                tag >> 3,
                Part(data, at, at + length) if kind == BYTES else int.from_bytes(data[at : at + length], "little"),
            )
            at += length


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise ValueError(f"no number ends at byte {at}")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _text(value: int | Part) -> str:
    return value.text() if isinstance(value, Part) else ""


def _number(value: int | Part) -> int:
    return value if isinstance(value, int) else 0


def _parts(value: int | Part) -> Iterator[tuple[int, int | Part]]:
    return value.fields() if isinstance(value, Part) else iter(())


def _real(value: int | Part) -> float:
    return float(struct.unpack("<d", _number(value).to_bytes(8, "little"))[0])


def is_protobuf(head: bytes) -> bool:
    """Return whether a file is a protobuf, by its first bytes, and no text."""
    return head.startswith(b"\n") and _NO_TEXT.search(head[:256]) is not None


def _first_number(whole: Part) -> int:
    first = next((value for _, value in whole.fields()), 0)
    return next((number for number, _ in _parts(first)), 0)


def read_protobuf(path: Path, recorded: Recorded, reader: Reader) -> None:
    """Read a file of Perfetto into ``reader``, or one of XSpace into ``recorded``.

    Raises:
        CostError: if it cannot be read, is damaged, or is something else.
    """
    data = read_file(path, MOST_BYTES)
    if data.startswith(GZIP):
        data = _unzipped(data, path)
    whole = Part(data, 0, len(data))
    try:
        if _first_number(whole) < FIRST_OF_PACKETS:
            _read_space(whole, recorded)
        else:
            Packets(reader).read(whole)
    except (ValueError, struct.error) as error:
        if isinstance(error, CostError):
            raise
        raise CostError(f"{path} is damaged: {error}. Record it again, or export it as JSON") from error


def _unzipped(data: bytes, path: Path) -> bytes:
    inflate = zlib.decompressobj(wbits=31)
    limit = min(MOST_BYTES, MOST_SMALL + MOST_RATIO * len(data))
    try:
        found = inflate.decompress(data, limit)
    except zlib.error as error:
        raise CostError(f"{path} is damaged: {error}. Decompress it with gunzip, and pass the result") from error
    if inflate.unconsumed_tail:
        raise CostError(f"{path} has more than {limit:,} bytes. Record a shorter run")
    return found


def launch_without_calls(recorded: Recorded) -> None:
    """Launch every kernel that no call of the host in the file launched when it starts, as an operator of its own."""
    for i, kernel in enumerate(recorded.kernels):
        if kernel.kind == "kernel" and not kernel.is_taken and kernel.correlation not in recorded.launches:
            kernel.correlation = -i - 2
            recorded.launches[kernel.correlation] = Launch("launch", kernel.stream, kernel.start, kernel.name)


# Perfetto


_BEGIN, _END = 1, 2

_COMPLETE = 88
"""The phase of legacy events that have a duration, ``X``."""

_CATEGORIES = {"kernel_dispatch": "kernel", "memory_copy": "gpu_memcpy", "memory_copies": "gpu_memcpy"}
"""The categories of rocprofv3, as Kineto names them."""


class _Slice(NamedTuple):
    category: str
    name: str
    start: int
    args: dict[str, Any]


class _Sequence:
    """What packets of one writer refer to: interned names, clocks and the default track."""

    def __init__(self) -> None:
        self.categories: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.keys: dict[int, str] = {}
        self.texts: dict[int, str] = {}
        self.clock = self.track = 0
        self.clocks: dict[int, tuple[int, int, bool]] = {}
        """Time, unit in nanoseconds, and whether times are differences, by the number of the clock."""

    def time(self, value: int, clock: int) -> int:
        found = self.clocks.get(clock or self.clock)
        if found is None:
            return value
        now, unit, is_difference = found
        if not is_difference:
            return value * unit
        self.clocks[clock or self.clock] = now + value * unit, unit, True
        return now + value * unit


class Packets:
    """Takes the packets of a file in their order, and gives its slices to a reader.

    Args:
        reader: takes the slices.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._sequences: dict[int, _Sequence] = {}
        self._tracks: dict[int, tuple[Any, Any]] = {}
        self._open: dict[int, list[_Slice]] = {}
        self._left = MOST_EVENTS
        self._n_open = 0
        self._unpacked = -MOST_SMALL

    def read(self, trace: Part, depth: int = 0) -> None:
        """Read all packets.

        Raises:
            ValueError: if the bytes are no packets.
            CostError: if there are too many.
        """
        for number, packet in trace.fields():
            self._left -= 1
            if self._left < 0:
                raise CostError(f"it has more than {MOST_EVENTS:,} packets. Record a shorter run")
            if number == 1 and isinstance(packet, Part):
                fields = dict(packet.fields())
                if isinstance(packed := fields.get(50), Part) and not depth:
                    self.read(self._inflated(packed), depth + 1)
                else:
                    self._add(packet, fields)

    def _inflated(self, packed: Part) -> Part:
        inflate = zlib.decompressobj()
        try:
            self._unpacked -= MOST_RATIO * (packed.end - packed.start)
            data = inflate.decompress(packed.data[packed.start : packed.end], 1 - self._unpacked)
        except zlib.error as error:
            raise ValueError(f"packets at byte {packed.start} cannot be decompressed: {error}") from error
        self._unpacked += len(data)
        if self._unpacked > 0:
            raise CostError(f"its packets expand to more than {MOST_RATIO} times their size. Record the trace again")
        return Part(data, 0, len(data))

    def _add(self, packet: Part, fields: Mapping[int, int | Part]) -> None:
        key = _number(fields.get(10, 0))
        is_new = fields.get(41) == 1 or _number(fields.get(13, 0)) & 1  # the state was cleared
        if is_new or key not in self._sequences:
            self._sequences[key] = _Sequence()
        sequence = self._sequences[key]
        if 59 in fields:
            self._take_defaults(sequence, fields[59])
        if 6 in fields:
            _take_clocks(sequence, fields[6])
        if 12 in fields:
            _take_names(sequence, fields[12])
        if 60 in fields:
            self._take_track(fields[60])
        if 11 in fields:
            time = sequence.time(_number(fields.get(8, 0)), _number(fields.get(58, 0)))
            self._take_event(sequence, fields[11], time)

    def _take_defaults(self, sequence: _Sequence, defaults: int | Part) -> None:
        for number, value in _parts(defaults):
            if number == 58:
                sequence.clock = _number(value)
            elif number == 11:
                sequence.track = next((_number(each) for n, each in _parts(value) if n == 11), 0)

    def _take_track(self, track: int | Part) -> None:
        fields = dict(_parts(track))
        uuid = _number(fields.get(1, 0))
        if isinstance(thread := fields.get(4), Part):
            found = dict(thread.fields())
            self._tracks[uuid] = _number(found.get(1, 0)), _number(found.get(2, 0))
        else:
            name = fields.get(2, fields.get(10))
            self._tracks[uuid] = (_number(fields.get(5, 0)), _text(name) if name is not None else uuid)

    def _take_event(self, sequence: _Sequence, event: int | Part, time: int) -> None:
        kind, track, name, categories, args = 0, sequence.track, "", [], {}
        legacy: dict[int, int | Part] = {}
        for number, value in _parts(event):
            if number == 9:
                kind = _number(value)
            elif number == 11:
                track = _number(value)
            elif number == 23:
                name = _text(value)
            elif number == 10:
                name = sequence.names.get(_number(value), "")
            elif number == 22:
                categories.append(_text(value))
            elif number == 3:
                categories += [sequence.categories.get(each, "") for each in _numbers(value)]
            elif number == 4:
                key, found = _annotation(sequence, value)
                args[key] = found
            elif number == 6:
                legacy = dict(_parts(value))
        category = _CATEGORIES.get(categories[0], categories[0]) if categories else ""
        waiting = self._open.setdefault(track, [])
        if kind == _BEGIN:
            waiting.append(_Slice(category, name, time, args))
            self._n_open += 1
            if self._n_open > MOST_OPEN:
                raise CostError(f"more than {MOST_OPEN:,} slices are open at once. Record the trace again")
        elif kind == _END and waiting:
            begun = waiting.pop()
            self._n_open -= 1
            self._give(track, begun, time, {**begun.args, **args} if args else begun.args)
        elif _number(legacy.get(2, 0)) == _COMPLETE:
            name = name or sequence.names.get(_number(legacy.get(1, 0)), "")
            self._give(track, _Slice(category, name, time, args), time + 1000 * _number(legacy.get(3, 0)), args)

    def _give(self, track: int, begun: _Slice, end: int, args: dict[str, Any]) -> None:
        if begun.start <= end:
            place = self._tracks.get(track, (0, track))
            self._reader.add_span(begun.category, begun.name, begun.start, end, place, args)


def _numbers(value: int | Part) -> list[int]:
    # of a repeated field, which may be packed
    if isinstance(value, int):
        return [value]
    found, at = [], value.start
    while at < value.end:
        number, at = _varint(value.data, at, value.end)
        found.append(number)
    return found


def _take_clocks(sequence: _Sequence, snapshot: int | Part) -> None:
    for number, clock in _parts(snapshot):
        if number == 1:
            fields = {n: _number(value) for n, value in _parts(clock)}
            if fields.get(1, 0) >= 64:  # others are in nanoseconds
                unit = fields.get(4, 0) or 1
                sequence.clocks[fields[1]] = fields.get(2, 0) * unit, unit, fields.get(3) == 1


def _take_names(sequence: _Sequence, data: int | Part) -> None:
    tables = {1: sequence.categories, 2: sequence.names, 3: sequence.keys, 29: sequence.texts}
    for number, entry in _parts(data):
        table = tables.get(number)
        if table is not None:
            fields = dict(_parts(entry))
            table[_number(fields.get(1, 0))] = _text(fields.get(2, 0))


def _annotation(sequence: _Sequence, annotation: int | Part, depth: int = 0) -> tuple[str, Any]:
    key = ""
    found: Any = None
    for number, value in _parts(annotation):
        if number == 1:
            key = sequence.keys.get(_number(value), "")
        elif number == 10:
            key = _text(value)
        elif number == 2:
            found = value == 1
        elif number in (3, 7):
            found = _number(value)
        elif number == 4:
            found = _signed(_number(value))
        elif number == 5:
            found = _real(value)
        elif number == 6:
            found = _text(value)
        elif number == 17:
            found = sequence.texts.get(_number(value), "")
        elif number == 12 and depth < 8:
            item = _annotation(sequence, value, depth + 1)[1]
            found = [*found, item] if isinstance(found, list) else [item]
    return key, found


# XSpace


HOST = "/host:CPU"

_DEVICE = "/device:"

_LINES = ("Steps", "XLA Modules", "XLA TraceMe", "Framework", "TensorFlow", "Source", "Async", "SparseCore")
"""The beginning of the names of lines whose events are around those of other lines."""

AROUND = frozenset(("while", "conditional", "call"))
"""Operators of XLA around others."""

OF_XLA = {"hlo_op", "hlo_category"}
"""The statistics that only operators of XLA have."""

_NUMBERED = re.compile(r"(\.\d+|\.clone|\.remat\d*)+$")

_SCOPE = re.compile(r"^(jit|pjit|main|vmap|while|body|cond|closed_call|checkpoint|remat)(\(.*\))?$")

_PRODUCTS = ("convolution", "dot", "gemm", "matmul")
"""What the category or name of an operator contains whose FLOPs are those of products and sums."""


class _Plane:
    def __init__(self, plane: Part) -> None:
        self.name = ""
        self.lines: list[Part] = []
        self.stat_names: dict[int, str] = {}
        self._stats: list[Part] = []
        events: list[Part] = []
        for number, value in plane.fields():
            if not isinstance(value, Part):
                continue
            if number == 2:
                self.name = value.text()
            elif number == 3:
                self.lines.append(value)
            elif number == 4:
                events.append(value)
            elif number == 5:
                key, entry = _entry(value)
                self.stat_names[key] = _text(dict(_parts(entry)).get(2, 0))
            elif number == 6:
                self._stats.append(value)
        self.events: dict[int, tuple[str, dict[str, Any]]] = {}
        for each in events:
            key, entry = _entry(each)
            name, shown, stats = "", "", []
            for number, value in _parts(entry):
                if number == 2:
                    name = _text(value)
                elif number == 4:
                    shown = _text(value)
                elif number == 5 and isinstance(value, Part):
                    stats.append(value)
            self.events[key] = shown or name, self.stats(stats)

    def stats(self, stats: list[Part] | None = None) -> dict[str, Any]:
        """Return statistics by their names, of the plane or of an event."""
        found: dict[str, Any] = {}
        for stat in self._stats if stats is None else stats:
            key = ""
            value: Any = None
            for number, content in stat.fields():
                if number == 1:
                    key = self.stat_names.get(_number(content), "")
                elif number == 2:
                    value = _real(content)
                elif number == 3:
                    value = _number(content)
                elif number == 4:
                    value = _signed(_number(content))
                elif number == 5:
                    value = _text(content)
                elif number == 7:
                    value = self.stat_names.get(_number(content), "")
            found[key] = value
        return found


def _entry(entry: Part) -> tuple[int, int | Part]:
    fields = dict(entry.fields())
    return _number(fields.get(1, 0)), fields.get(2, 0)


def _read_space(space: Part, recorded: Recorded) -> None:
    planes = [_Plane(value) for number, value in space.fields() if number == 1 and isinstance(value, Part)]
    left = MOST_EVENTS
    for plane in [each for each in planes if each.name.startswith(_DEVICE)] + [x for x in planes if x.name == HOST]:
        if plane.name == HOST and recorded.kernels:
            break
        for line in plane.lines:
            left = _read_line(plane, line, recorded, left)
        kind = plane.stats().get("device_type_string")
        recorded.device = recorded.device or (kind if isinstance(kind, str) and recorded.kernels else "")


def _read_line(plane: _Plane, line: Part, recorded: Recorded, left: int) -> int:
    name, begins, events = "", 0, []
    for number, value in line.fields():
        if number == 2 or (number == 11 and not name):
            name = _text(value)
        elif number == 3:
            begins = _signed(_number(value))
        elif number == 4 and isinstance(value, Part):
            events.append(value)
    left -= len(events)
    if left < 0:
        raise CostError(f"it has more than {MOST_EVENTS:,} events. Record a shorter run")
    if name.startswith(_LINES):
        return left
    thread: Thread = (plane.name, name)
    read = filter(None, (_event(plane, event, begins) for event in events))
    found = sorted((each for each in read if plane.name != HOST or each[3].keys() & OF_XLA), key=lambda each: each[:2])
    for i, (start, end, label, stats) in enumerate(found):
        if i + 1 < len(found) and found[i + 1][0] < end:
            continue  # a loop, a branch or a call, around operators of its own
        category = category_of(label, stats)
        add_operator(recorded, label, category, start, end, thread, stats)
    return left


def _event(plane: _Plane, event: Part, begins: int) -> tuple[int, int, str, dict[str, Any]] | None:
    key = offset = length = 0
    own: list[Part] = []
    for number, value in event.fields():
        if number == 1:
            key = _number(value)
        elif number == 2:
            offset = _signed(_number(value))
        elif number == 3:
            length = _signed(_number(value))
        elif number == 4 and isinstance(value, Part):
            own.append(value)
    name, shared = plane.events.get(key, ("", {}))
    start = begins + offset // 1000  # picoseconds
    if not name or length < 0 or start < 0:
        return None
    return start, start + length // 1000, name, {**shared, **plane.stats(own)} if own else shared


def category_of(name: str, stats: Mapping[str, Any]) -> str:
    """Return the category of an operator of XLA, or its name without numbers."""
    return str(stats.get("hlo_category") or _NUMBERED.sub("", str(stats.get("hlo_op") or name)))


def add_operator(
    recorded: Recorded, name: str, category: str, start: int, end: int, thread: Thread, stats: Mapping[str, Any]
) -> None:
    """Add an operator of XLA with the kernel that it is."""
    kind = "memcpy" if "Memcpy" in str(thread[1]) or name.startswith("Memcpy") else "kernel"
    kernel = Kernel(name, kind, start, end, thread, -len(recorded.kernels) - 2, is_taken=True)
    flops, moved = _whole(stats.get("flops")), _whole(stats.get("bytes_accessed"))
    op = Op(intern(f"xla::{category}"), None, start, end, thread, kernels=[kernel])
    if flops or moved:
        op.details = {"flops": flops, "bytes": moved, "product": any(x in f"{category} {name}" for x in _PRODUCTS)}
    op.module, op.phase = _place_of(str(stats.get("tf_op") or ""))
    recorded.kernels.append(kernel)
    recorded.ops.append(op)


@lru_cache(maxsize=1 << 12)
def _place_of(scope: str) -> tuple[str, str]:
    # Module and phase by the scopes around an operator: ``jit(step)/transpose(jvp(Dense_0))/dot_general:``.
    parts = [part for part in scope.partition(":")[0].split("/")[:-1] if part and not _SCOPE.match(part)]
    is_backward = any(part.startswith("transpose(") for part in parts)
    names = (re.sub(r"^(\w+\()+|\)+$", "", part) for part in parts)
    return ".".join(filter(None, names)), "backward" if is_backward else "forward"


def _whole(value: object) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    return int(value) if isinstance(value, (int, float)) and 0 <= value < 2**63 else 0
