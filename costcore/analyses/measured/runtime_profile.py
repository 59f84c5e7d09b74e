"""Reads what runtimes of graphs measured: the profile of ONNX Runtime, and the layer times of TensorRT and OpenVINO.

Sources: ``SessionOptions.enable_profiling`` of ONNX Runtime, ``trtexec --exportProfile`` of TensorRT, and
``benchmark_app -report_type detailed_counters`` of OpenVINO.
"""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from io import StringIO
from os import PathLike, fsdecode
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.files import check_values, read_file

MOST = 2**29
"""The most bytes of a file after decompression."""

MOST_RATIO, UNPACKED = 64, 2**23
"""How much larger a file may be after decompression than before, beyond a size."""

KERNEL = "_kernel_time"
"""How the names of kernels of ONNX Runtime end."""

RUN = "model_run"
"""The name of the event of ONNX Runtime around one run."""

TENSORRT_TIMES = ("medianMs", "averageMs", "timeMs")
"""The keys of the time of a layer of TensorRT, the first that it has counts."""


REGION = "region"
"""The operator of a kernel of TensorRT that computes all nodes from the first of its two names to the second."""

_REGION = re.compile(r"ForeignNode\[(.+?)\.\.\.(.+?)\]")


class KernelTime(NamedTuple):
    """A kernel that a runtime measured, in nanoseconds from the start of the run.

    Attributes:
        names: the names of nodes or values of the graph that the runtime states.
        op: the operator that it ran, in the words of the runtime.
        shapes: of its outputs, where they are stated.
        start, end: when it ran.
    """

    names: tuple[str, ...]
    op: str
    shapes: tuple[tuple[int, ...], ...]
    start: int
    end: int


class RuntimeProfile(NamedTuple):
    """What a runtime measured of one run.

    Attributes:
        device: the runtime and what it ran on.
        kernels: the kernels in the order in which they ran.
        span: nanoseconds of the run.
    """

    device: str
    kernels: tuple[KernelTime, ...]
    span: int


def read_runtime_profile(path: str | PathLike[str]) -> RuntimeProfile:
    """Return what a file says of one run: of several, the one that took the median time, the first left out.

    Raises:
        CostError: if the file cannot be read, or is of none of these formats.
    """
    name = fsdecode(path)
    text = _text(name)
    found = _of_counters(text) if text.lstrip().startswith("layerName;") else _of_json(text, name)
    if found is None or not found.kernels:
        raise CostError(
            f"{name} has no times of nodes. Pass the report of a trace of torch.profiler (estimate(…)), a profile of "
            "ONNX Runtime (SessionOptions.enable_profiling), of TensorRT (trtexec --exportProfile) or of OpenVINO "
            "(-report_type detailed_counters)."
        )
    return found


def _text(name: str) -> str:
    content = read_file(name, MOST)
    if content.startswith(b"\x1f\x8b"):
        try:
            most = min(MOST, UNPACKED + MOST_RATIO * len(content))
            content = zlib.decompressobj(wbits=31).decompress(content, most + 1)
        except zlib.error as error:
            raise CostError(f"{name} cannot be read: {error}") from error
        if len(content) > most:
            raise CostError(f"{name} has more than {most:,} bytes after decompression. Record fewer runs.")
    return content.decode("utf-8", errors="replace")


def _of_json(text: str, name: str) -> RuntimeProfile | None:
    check_values(text, name)
    try:
        content = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        if not text.rstrip().endswith("]") and text.lstrip().startswith("["):
            raise CostError(f"{name} ends early: end the session, or call end_profiling, before you read it") from error
        raise CostError(f"{name} is not JSON: {error}") from error
    events = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    if any(any(key in each for key in TENSORRT_TIMES) for each in events):
        return _of_tensorrt(events)
    return _of_onnx_runtime([each for each in events if _whole(each.get("ts")) and _whole(each.get("dur"))])


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _of_onnx_runtime(events: Iterable[dict[str, Any]]) -> RuntimeProfile | None:
    events = [*events]
    runs = sorted((each for each in events if each.get("name") == RUN), key=lambda each: int(each["ts"]))
    if not runs:
        return None
    steady = runs[1:] or runs
    run = sorted(steady, key=lambda each: int(each["dur"]))[(len(steady) - 1) // 2]
    start, length = run["ts"], run["dur"]
    kernels, providers = [], dict[str, None]()
    for event in events:
        name, arguments = event.get("name"), event.get("args")
        if not isinstance(name, str) or not name.endswith(KERNEL) or not isinstance(arguments, dict):
            continue
        if not start <= event["ts"] < start + length:
            continue
        providers[str(arguments.get("provider", ""))] = None
        at = event["ts"] - start
        kernels.append(
            KernelTime(
                (name.removesuffix(KERNEL),),
                str(arguments.get("op_name", "")),
                _shapes(arguments.get("output_type_shape")),
                1000 * at,
                1000 * min(at + event["dur"], length),
            )
        )
    kernels.sort(key=lambda each: (each.start, -each.end))
    where = ", ".join(filter(None, providers))
    return RuntimeProfile(f"ONNX Runtime{f' ({where})' if where else ''}", tuple(kernels), 1000 * length)


def _shapes(stated: object) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of ``[{"float": [2, 64]}, …]``."""
    found = []
    for each in stated if isinstance(stated, list) else ():
        shape = next(iter(each.values()), None) if isinstance(each, dict) else None
        if isinstance(shape, list) and all(type(size) is int for size in shape):
            found.append(tuple(shape))
    return tuple(found)


def _of_tensorrt(layers: Iterable[Mapping[str, Any]]) -> RuntimeProfile:
    rows = []
    for each in layers:
        milliseconds = next((each[key] for key in TENSORRT_TIMES if key in each), None)
        name = each.get("name")
        if isinstance(name, str) and isinstance(milliseconds, (int, float)) and 0 <= milliseconds < 1e9:
            region = _REGION.search(name)
            names = (
                region.groups() if region else tuple(part.strip() for part in name.removeprefix("PWN(").split(" + "))
            )
            op = REGION if region else "Reformat" if name.startswith("Reformatting") else ""
            rows.append((names, op, milliseconds))
    return _one_after_another("TensorRT", rows)


def _of_counters(text: str) -> RuntimeProfile | None:
    rows = []
    for each in csv.DictReader(StringIO(text), delimiter=";"):
        try:
            milliseconds = float(each.get("realTime (ms)") or "")
        except ValueError:
            continue
        if each.get("execStatus") == "EXECUTED" and 0 <= milliseconds < 1e9:
            rows.append(((str(each["layerName"]),), str(each.get("layerType")), milliseconds))
    return _one_after_another("OpenVINO", rows)


def _one_after_another(device: str, rows: Iterable[tuple[tuple[str, ...], str, float]]) -> RuntimeProfile:
    kernels, at = [], 0
    for names, op, milliseconds in rows:
        length = round(1e6 * milliseconds)
        kernels.append(KernelTime(names, op, (), at, at + length))
        at += length
    return RuntimeProfile(device, tuple(kernels), at)
