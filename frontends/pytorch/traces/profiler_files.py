"""Readers of other profiles: protobufs of Perfetto and XSpace, SQLite of Nsight Systems, CSV and JSON of rocprofv3.

The files are untrusted input: readers have bounds on time and memory.
"""

from __future__ import annotations

import csv
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, Protocol

from costcore.errors import CostError
from costcore.files import open_file, read_file
from costcore.registry import first_bytes

from .records import Kernel, Launch, Op, Recorded, Span, Thread

# Traces as protobufs: Perfetto (``rocprofv3 --output-format pftrace``), and XSpace of JAX and TensorFlow.
#
# Both are decoded from the wire format, field by field. Field numbers: ``protos/perfetto/trace/trace.proto`` (Perfetto,
# Apache 2.0) and ``tsl/profiler/protobuf/xplane.proto`` (TSL, Apache 2.0). A file of Perfetto has the events of a
# Chrome trace with the same tracks. A file of XSpace has the operators of XLA with their times and, on accelerators,
# the FLOPs and bytes of XLA's cost analysis.
#
# A field takes at least two bytes, and every byte is read once per enclosing message. Messages are nested only a few
# levels deep, so time is linear in the size of a file. Inflated packets are bounded, too.

MOST_BYTES = 2**29
"""Maximum size of a file."""

MOST_EVENTS = 4 * 10**6
"""Maximum events or packets of a file."""

MOST_OPEN = 100_000
"""Maximum slices that are open at once."""

MOST_NAME = 2**16
"""Maximum bytes of a name."""

MOST_RATIO, MOST_SMALL = 64, 2**23
"""The maximum ratio of decompression of a file or its packets, and the bytes up to which any ratio is allowed."""

GZIP = b"\x1f\x8b"

REPLACED = "\ufffd".encode()
"""The character that replaces invalid bytes when binary data is saved as text."""

FIRST_OF_PACKETS = 6
"""The minimum number of the first field of a Perfetto packet; planes of XSpace begin with a lower one."""

_NO_TEXT = re.compile(rb"[\0-\x08\x0e-\x1f]")

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Reader(Protocol):
    """A reader of the events of a Chrome trace."""

    def add_span(
        self, category: str, name: str, start: int, end: int, place: tuple[Any, Any], args: dict[str, Any]
    ) -> None:
        """Read one span, in nanoseconds."""


class Part(NamedTuple):
    """The bytes of one message or text."""

    data: bytes
    start: int
    end: int

    def text(self) -> str:
        """Return the bytes as text."""
        return intern(self.data[self.start : min(self.end, self.start + MOST_NAME)].decode("utf-8", "replace"))

    def fields(self) -> Iterator[tuple[int, int | Part]]:
        """Yield its fields: the field number, and an unsigned number or the bytes.

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
    """Return whether the first bytes of a file are of a protobuf, and not of a text."""
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
    if REPLACED in data[:64]:
        raise CostError(f"{path} is damaged: it was saved as text, which replaces bytes. Copy the original as binary")
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


def add_missing_launches(recorded: Recorded) -> None:
    """Add a launch at the start of every kernel that has no launch in the file."""
    for i, kernel in enumerate(recorded.kernels):
        if kernel.kind == "kernel" and not kernel.is_taken and kernel.correlation not in recorded.launches:
            kernel.correlation = -i - 2
            recorded.launches[kernel.correlation] = Launch("launch", kernel.stream, kernel.start, kernel.name)


# Perfetto


_BEGIN, _END = 1, 2

_COMPLETE = 88
"""The phase of legacy events with a duration, ``X``."""

_CATEGORIES = {"kernel_dispatch": "kernel", "memory_copy": "gpu_memcpy", "memory_copies": "gpu_memcpy"}
"""The categories of rocprofv3, as Kineto names them."""


class _Slice(NamedTuple):
    category: str
    name: str
    start: int
    args: dict[str, Any]


class _Sequence:
    """The state of one writer of packets: interned names, clocks and the default track."""

    def __init__(self) -> None:
        self.categories: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.keys: dict[int, str] = {}
        self.texts: dict[int, str] = {}
        self.clock = self.track = 0
        self.clocks: dict[int, tuple[int, int, bool]] = {}
        """Time, unit in nanoseconds, and whether times are increments, by the id of the clock."""

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
    """A decoder of the packets of a file, which passes the slices to a reader.

    Args:
        reader: receives the slices.
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
            if fields.get(1, 0) >= 64:  # built-in clocks, with lower ids, are in nanoseconds
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
"""Name prefixes of lines that are skipped, because their events enclose events of other lines."""

AROUND = frozenset(("while", "conditional", "call"))
"""XLA operators that enclose others."""

OF_XLA = {"hlo_op", "hlo_category"}
"""The statistics that only operators of XLA have."""

_NUMBERED = re.compile(r"(\.\d+|\.clone|\.remat\d*)+$")

_SCOPE = re.compile(r"^(jit|pjit|main|vmap|while|body|cond|closed_call|checkpoint|remat)(\(.*\))?$")

_PRODUCTS = ("convolution", "dot", "gemm", "matmul")
"""Parts of the category or name of operators whose FLOPs are multiplications and additions."""


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
        """Return the statistics of the plane or of an event, by name."""
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
            continue  # a loop, a branch or a call, which encloses operators
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
    """Add an operator of XLA with its kernel."""
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


# Device-only profiles: the SQLite export of Nsight Systems, and kernel traces of rocprofv3 as CSV.
#
# They have kernels, launches and ranges, but no shapes. Ranges of ``torch.autograd.profiler.emit_nvtx`` are operators;
# a kernel outside of them is an operator of its own. Calls have measured times, and no cost.
#
# SQLite files are untrusted input: they are opened read-only and immutable (no journal), only real tables are read, and
# queries abort after a step budget proportional to the size of the file.

DATABASE = b"SQLite format 3\0"
"""The first bytes of an SQLite file."""

COLUMNS = ("Kernel_Name", "Start_Timestamp", "End_Timestamp")
"""The columns that are read, besides agent and queue."""

MOST_FIELD = 2**16
"""Maximum characters of a name of a kernel."""

_NAME = re.compile(r"([A-Za-z_]\w*::[\w.]+)(?:,|$)")
"""The text of the NVTX range of an operator: ``aten::addmm, seq = 5, op_id = 12``."""

_THREAD_BITS = 24
"""The low bits of ``globalTid`` are the thread, those above the process; correlation ids are unique per process."""

STEPS_PER_BYTE = 20
"""Maximum steps of SQLite's virtual machine per byte of a file, in addition to :data:`STEPS`."""

STEPS = 10**7
"""Steps that every file has."""

_TABLES: Mapping[str, str] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernel",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memset",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "cuda_graph",
}

WHOLE_GRAPHS = "CUDA graphs are one kernel each: nsys profile --cuda-graph-trace=node records the kernels inside"


def read_device_file(path: Path) -> Recorded | None:
    """Return the content of a profile; None if the file is JSON, plain or compressed.

    Raises:
        CostError: if the file is damaged, has no kernels, or is not a supported profile.
    """
    with open_file(path) as file:
        head = file.read(len(DATABASE))
    if (
        head.startswith(GZIP)
        or is_protobuf(first_bytes(str(path)))
        or head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[", b"")
    ):
        return None
    recorded = _open_database(path) if head == DATABASE else _read_rocprof(path)
    if not recorded.kernels:
        raise CostError(f"{path} has no kernels: nothing ran on a device while it was recorded")
    return recorded


# rocprofv3.


def _read_rocprof(path: Path) -> Recorded:
    recorded = Recorded()
    before = csv.field_size_limit(MOST_FIELD)
    try:
        with open_file(path) as file:
            rows = csv.DictReader(line.decode("utf-8", "replace") for line in file)
            if not {*COLUMNS} <= {*(rows.fieldnames or ())}:
                expected = "JSON of torch.profiler, SQLite of Nsight Systems, CSV of rocprofv3, or XSpace of JAX"
                raise CostError(f"{path} is not a trace (expected {expected})")
            for row in rows:
                _add_kernel_without_launch(
                    recorded, row.get("Kernel_Name"), _times(row), (row.get("Agent_Id"), row.get("Queue_Id"))
                )
    except csv.Error as error:
        raise CostError(f"{path} is not a kernel trace of rocprofv3: {error}") from error
    finally:
        csv.field_size_limit(before)
    return recorded


ROCPROF = "rocprofiler-sdk-tool"
"""The key of the list of processes in a file of rocprofv3."""

IN_ROCPROF = (ROCPROF, "buffer_records", "callback_records")
"""The objects in such a file that may be large: a process, and its records."""


class RocprofReader:
    """A reader of the JSON of ``rocprofv3 --output-format json``, record by record."""

    def __init__(self) -> None:
        self._recorded = Recorded()
        self._names: dict[int, str] = {}
        self._products: dict[int, str] = {}
        self._dispatches: list[tuple[int, Sequence[object], Thread]] = []

    def add(self, key: str, value: Any) -> None:
        """Read a value: a kernel symbol, a device, a dispatch or a copy. Ids are unique only within a process."""
        if key == ROCPROF:
            self._end_process()
        if not isinstance(value, dict):
            return
        if key == f"{ROCPROF}/kernel_symbols":
            if isinstance(number := value.get("kernel_id"), int):
                self._names[number] = next((value[name] for name in _SYMBOLS if isinstance(value.get(name), str)), "")
            return
        if key == f"{ROCPROF}/agents":
            name = value.get("product_name")
            if isinstance(number := _handle(value.get("id")), int) and isinstance(name, str):
                self._products[number] = name[:MOST_FIELD]
            return
        times = value.get("start_timestamp"), value.get("end_timestamp")
        if key == "buffer_records/kernel_dispatch":
            info = value.get("dispatch_info")
            info = info if isinstance(info, dict) else {}
            if isinstance(number := info.get("kernel_id"), int):
                stream = _handle(info.get("agent_id")), _handle(info.get("queue_id"))
                self._dispatches.append((number, times, stream))
        elif key == "buffer_records/memory_copy" and _is_span(*times):
            start, end = times
            assert isinstance(start, int) and isinstance(end, int)
            self._recorded.kernels.append(Kernel("memcpy", "memcpy", start, end, ("copies", 0), -1))

    def _end_process(self) -> None:
        # Symbols may come after the dispatches.
        for number, times, stream in self._dispatches:
            self._recorded.device = self._recorded.device or self._products.get(stream[0], "")
            _add_kernel_without_launch(self._recorded, self._names.get(number) or None, times, stream)
        self._names, self._products, self._dispatches = {}, {}, []

    def finish(self) -> Recorded:
        """Return the work of all devices."""
        self._end_process()
        return self._recorded


_SYMBOLS = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")


def _handle(value: Any) -> Any:
    found = value.get("handle") if isinstance(value, dict) else value
    return found if isinstance(found, (int, str)) else 0


def _times(row: Mapping[str, Any]) -> Sequence[object]:
    try:
        return [int(row[name]) for name in COLUMNS[1:]]
    except (KeyError, TypeError, ValueError):
        return ()


def _add_kernel_without_launch(recorded: Recorded, name: object, times: Sequence[object], stream: Thread) -> None:
    # The file has no launches: a kernel is launched as it starts.
    if isinstance(name, str) and len(times) == 2 and _is_span(*times):
        start, end = times
        assert isinstance(start, int) and isinstance(end, int)
        number = len(recorded.kernels) + 1
        recorded.kernels.append(Kernel(intern(name), "kernel", start, end, stream, number))
        recorded.launches[number] = Launch("launch", stream, start, name)


def _is_span(start: object, end: object) -> bool:
    return type(start) is int and type(end) is int and 0 <= start <= end


# Nsight Systems.


def _open_database(path: Path) -> Recorded:
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            return _read_nsight(_Tables(connection, path.stat().st_size), path)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes undecodable names
        raise CostError(f"{path} cannot be read as a database: {error}") from error


class _Tables:
    def __init__(self, connection: sqlite3.Connection, size: int) -> None:
        self._connection = connection
        self._left = STEPS + STEPS_PER_BYTE * size
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_progress_handler(self._count_steps, 10**5)
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        self._plain = {name for name, sql in found if isinstance(sql, str) and sql.upper().startswith("CREATE TABLE")}

    def _count_steps(self) -> int:
        self._left -= 10**5
        return int(self._left < 0)  # anything but 0 ends the query

    def has(self, beginning: str) -> bool:
        """Return whether the name of a table begins with a text."""
        return any(name.startswith(beginning) for name in self._plain)

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table; a missing column is None, and a missing table has no rows."""
        if table not in self._plain:
            return
        known = {row[1] for row in self._connection.execute(f"PRAGMA table_info('{table}')")}
        listed = ", ".join(f'"{column}"' if column in known else "NULL" for column in columns)
        yield from self._connection.execute(f'SELECT {listed} FROM "{table}"')


def _read_nsight(tables: _Tables, path: Path) -> Recorded:
    if tables.has("rocpd_"):
        raise CostError(
            f"{path} is a database of rocprofv3. Convert it: rocpd convert -i {path} --output-format pftrace"
        )
    texts = {key: text for key, text in tables.rows("StringIds", "id", "value") if isinstance(text, str)}
    if not texts:
        raise CostError(f"{path} is a database, but no export of Nsight Systems. Make one: nsys export --type sqlite")
    recorded = Recorded()
    names = [name for (name,) in tables.rows("TARGET_INFO_GPU", "name") if isinstance(name, str) and name]
    recorded.device = names[0] if names else ""
    processes: dict[Any, int] = {}
    for row in tables.rows("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId", "globalTid", "start", "nameId"):
        number, thread, start, name = row
        if all(type(each) is int for each in (number, thread, start)):
            number = _global_correlation(number, thread, processes)
            recorded.launches[number] = Launch(texts.get(name, "launch"), (0, thread), start)
    for table, kind in _TABLES.items():
        named = ("shortName", "demangledName") if kind == "kernel" else ("copyKind", "copyKind")
        columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", *named)
        n_before = len(recorded.kernels)
        _add_kernels(recorded, tables.rows(table, *columns), kind, texts, processes)
        if kind == "cuda_graph" and len(recorded.kernels) > n_before:
            recorded.remarks.append(WHOLE_GRAPHS)
    for start, end, text, key, thread in tables.rows("NVTX_EVENTS", "start", "end", "text", "textId", "globalTid"):
        text = text if isinstance(text, str) else texts.get(key)
        if _is_span(start, end) and isinstance(text, str) and type(thread) is int:
            add_range(recorded, text, start, end, (0, thread))
    recorded.kernels.sort(key=lambda kernel: kernel.start)
    return recorded


def _global_correlation(number: int, thread: int, processes: dict[Any, int]) -> int:
    # Ids of all but the first process are offset, which makes them unique.
    process = thread >> _THREAD_BITS
    return number + (processes.setdefault(process, len(processes)) << 40)


def _add_kernels(
    recorded: Recorded,
    rows: Iterable[tuple[Any, ...]],
    kind: str,
    texts: Mapping[Any, str],
    processes: dict[Any, int],
) -> None:
    for start, end, device, stream, number, process, short, long in rows:
        if not _is_span(start, end):
            continue
        name = texts.get(long) or texts.get(short) or kind if kind == "kernel" else kind
        owner = process if type(process) is int else next(iter(processes), 0) << _THREAD_BITS
        number = _global_correlation(number, owner, processes) if type(number) is int else -1
        work = "kernel" if kind == "cuda_graph" else kind
        if number not in recorded.launches and work == "kernel":
            number = -len(recorded.kernels) - 2
            recorded.launches[number] = Launch("launch", (device, stream), start, name)
        recorded.kernels.append(Kernel(intern(name), work, start, end, (device, stream), number))


def add_range(recorded: Recorded, text: str, start: int, end: int, thread: Thread) -> None:
    """Add a range of NVTX or ROCTX: an operator if its text names one, else an annotation."""
    match = _NAME.match(text)
    if match:
        recorded.ops.append(Op(intern(match[1]), None, start, end, thread))
    else:
        recorded.annotations.setdefault(thread, []).append(Span(start, end, intern(text[:MOST_FIELD])))
