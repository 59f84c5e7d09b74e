"""Device-only profiles: the SQLite export of Nsight Systems, and kernel traces of rocprofv3 as CSV.

They have kernels, launches and ranges, but no shapes. Ranges of ``torch.autograd.profiler.emit_nvtx`` are operators; a
kernel outside of them is an operator of its own. Calls have measured times, and no cost.

SQLite files are untrusted input: they are opened read-only and immutable (no journal), only real tables are read, and
queries abort after a step budget proportional to the size of the file.
"""

from __future__ import annotations

import csv
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from sys import intern
from typing import Any

from costcore.errors import CostError
from costcore.files import open_file
from costcore.registry import first_bytes

from .protobuf_files import GZIP, is_protobuf
from .records import Kernel, Launch, Op, Recorded, Span, Thread

DATABASE = b"SQLite format 3\0"
"""The first bytes of an SQLite file."""

COLUMNS = ("Kernel_Name", "Start_Timestamp", "End_Timestamp")
"""The columns of a kernel trace that are read, besides those of its queue."""

MOST_FIELD = 2**16
"""Maximum characters of a name of a kernel."""

_NAME = re.compile(r"([A-Za-z_]\w*::[\w.]+)(?:,|$)")
"""The text of a range of an operator: ``aten::addmm, seq = 5, op_id = 12``."""

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


class RocprofReader:
    """Takes what ``rocprofv3 --output-format json`` writes for a process."""

    def __init__(self) -> None:
        self.recorded = Recorded()

    def add(self, value: Any) -> None:
        """Take the records of a process: dispatches of kernels, and copies."""
        value = value if isinstance(value, dict) else {}
        symbols = value.get("kernel_symbols")
        names: dict[Any, str] = {
            each.get("kernel_id"): next((each[key] for key in _SYMBOLS if isinstance(each.get(key), str)), "")
            for each in (symbols if isinstance(symbols, list) else ())
            if isinstance(each, dict) and isinstance(each.get("kernel_id"), int)
        }
        records = value.get("buffer_records")
        records = records if isinstance(records, dict) else {}
        for kind, work in (("kernel_dispatch", "kernel"), ("memory_copy", "memcpy")):
            found = records.get(kind)
            for record in found if isinstance(found, list) else ():
                self._add(record, names, work)

    def _add(self, record: Any, names: Mapping[Any, str], kind: str) -> None:
        record = record if isinstance(record, dict) else {}
        info = record.get("dispatch_info")
        info = info if isinstance(info, dict) else {}
        times = record.get("start_timestamp"), record.get("end_timestamp")
        stream = tuple(_handle(info.get(key)) for key in ("agent_id", "queue_id"))
        if kind == "kernel":
            number = info.get("kernel_id")
            name = names.get(number) if isinstance(number, int) else None
            _add_kernel_without_launch(self.recorded, name or None, times, (stream[0], stream[1]))
        elif _is_span(*times):
            start, end = times
            assert isinstance(start, int) and isinstance(end, int)
            self.recorded.kernels.append(Kernel(kind, kind, start, end, ("copies", 0), -1))


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
        """Yield the rows of a table; a column that it does not have is None, and a table that is not there is empty."""
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
    # Ids of the first process stay, those of later ones are offset.
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
    """Add a range of NVTX or ROCTX: an operator if its text is that of one."""
    match = _NAME.match(text)
    if match:
        recorded.ops.append(Op(intern(match[1]), None, start, end, thread))
    else:
        recorded.annotations.setdefault(thread, []).append(Span(start, end, intern(text[:MOST_FIELD])))
