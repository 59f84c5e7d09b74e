"""Read a device from TOML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from costcore.analyses.devices.device import (
    CHECKED,
    ENGINES,
    KINDS,
    TF32,
    UNBOUNDED,
    Cache,
    Device,
    Memory,
    Printed,
    Source,
)
from costcore.errors import CostError
from costcore.ir import BITS
from costcore.messages import short_repr, unknown
from costcore.toml_files import read_toml

LEAST, MOST = 1e-18, 1e18
"""The smallest and the largest figure of a device; outside, times overflow."""

KEYS = tuple(field.name for field in fields(Device))


class DeviceError(CostError):
    """An invalid device; the message includes the file and the key."""


def read_device(path: str | PathLike[str]) -> Device:
    """Return the device in a file.

    ::

        name = "h100-sxm5-80gb"
        aliases = ["h100"]                 # other names
        kind = "gpu"                       # gpu, cpu, tpu, npu, phone or mcu
        vendor = "NVIDIA"
        notes = ["…"]                      # what its tables say below
        units = 132                        # streaming multiprocessors, cores
        clock_max_mhz = 1980               # the highest, not the one of the data sheet
        fast_convolution = true            # whether Winograd and FFT may save products; default: true
        least_kernel_us = 1.12             # the shortest kernel that was seen, for bound="observed"
        unbounded = ["dram"]               # what does not bind on purpose: vector, dram; default: nothing
        [peak.matrix]                      # dense TFLOP/s at the highest clock
        bfloat16 = 1070.5
        [peak.vector]                      # and [peak.special], of exponentials and the like
        float32 = 66.9
        [memory]
        dram_gbs = 3350
        dram_gb = 80                       # its size in 10**9 bytes
        caches = [{ bytes = 52428800 }]    # the nearest first; gbs, per_unit = true if known
        [[printed]]                        # a peak as the vendor prints it
        engine = "matrix"
        dtype = "bfloat16"
        tflops = 989.4
        clock_mhz = 1830
        lanes = 2048                       # multiply-adds per clock and unit
        [calibration]                      # what `costcore calibrate` writes
        [[sources]]
        title = "NVIDIA H100 data sheet"   # and its url
        states = "peaks, bandwidth"
        checked = "read"                   # read, second source, derived or not read

    Everything but the name and the kind may be left out: what is unknown does not bind, and a time that needs it is
    partial.

    Raises:
        DeviceError: if it is invalid; the message includes the file and the key.
        OSError: if the file cannot be read.
    """
    file = Path(path)
    content, _ = read_toml(file, DeviceError)
    return _Reader(str(file)).device(content)


class _Reader:
    """Reads one device; ``source`` is the path of its file, for messages."""

    def __init__(self, source: str) -> None:
        self._source = source

    def device(self, content: Mapping[str, Any]) -> Device:
        self._check_keys(content, KEYS, "")
        name, kind = self._text(content, "name", ""), self._text(content, "kind", "")
        if not name:
            raise self._error("name is missing")
        if kind not in KINDS:
            raise self._error(unknown("kind", kind, KINDS))
        return Device(
            name=name,
            kind=kind,
            vendor=self._text(content, "vendor", ""),
            units=self._whole(content, "units", ""),
            clock_max_mhz=self._number(content, "clock_max_mhz", ""),
            peak=self._peaks(self._table(content, "peak")),
            memory=self._memory(self._table(content, "memory")),
            fast_convolution=self._flag(content, "fast_convolution", True, ""),
            unbounded=self._unbounded(content),
            printed=tuple(self._printed(*item) for item in self._tables(content, "printed")),
            sources=tuple(self._source_of(*item) for item in self._tables(content, "sources")),
            aliases=self._texts(content.get("aliases", []), "aliases"),
            notes=self._texts(content.get("notes", []), "notes"),
            calibration=self._table(content, "calibration"),
            least_kernel_us=self._number(content, "least_kernel_us", ""),
        )

    def _unbounded(self, content: Mapping[str, Any]) -> tuple[str, ...]:
        names = self._texts(content.get("unbounded", []), "unbounded")
        self._check_keys(dict.fromkeys(names), UNBOUNDED, "unbounded: ", "name")
        return names

    def _peaks(self, table: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
        self._check_keys(table, ENGINES, "peak: ", "engine")
        peaks = {}
        for engine in table:
            place = f"peak.{engine}: "
            rates = self._table(table, engine, "peak: ")
            self._check_keys(rates, (*BITS, TF32) if engine == "matrix" else BITS, place, "dtype")
            peaks[engine] = {dtype: self._number(rates, dtype, place) or 0.0 for dtype in rates}
        return peaks

    def _memory(self, table: Mapping[str, Any]) -> Memory:
        self._check_keys(table, Memory._fields, "memory: ")
        caches = tuple(self._cache(*item) for item in self._tables(table, "caches", "memory: "))
        sizes = (self._number(table, key, "memory: ") for key in ("dram_gbs", "dram_gb"))
        return Memory(next(sizes), caches, next(sizes))

    def _cache(self, table: Mapping[str, Any], place: str) -> Cache:
        self._check_keys(table, ("bytes", "gbs", "per_unit"), place)
        nbytes = self._whole(table, "bytes", place)
        if nbytes is None:
            raise self._error(f"{place}bytes is missing")
        return Cache(nbytes, self._number(table, "gbs", place), self._flag(table, "per_unit", False, place))

    def _printed(self, table: Mapping[str, Any], place: str) -> Printed:
        self._check_keys(table, Printed._fields, place)
        engine, dtype = self._text(table, "engine", place), self._text(table, "dtype", place)
        if engine not in ENGINES:
            raise self._error(place + unknown("engine", engine, ENGINES))
        if dtype not in (*BITS, TF32):
            raise self._error(place + unknown("dtype", dtype, (*BITS, TF32)))
        numbers = {key: self._number(table, key, place) for key in ("tflops", "clock_mhz", "lanes")}
        if (tflops := numbers["tflops"]) is None:
            raise self._error(f"{place}tflops is missing")
        return Printed(engine, dtype, tflops, numbers["clock_mhz"], numbers["lanes"])

    def _source_of(self, table: Mapping[str, Any], place: str) -> Source:
        self._check_keys(table, Source._fields, place)
        texts = {key: self._text(table, key, place) for key in Source._fields}
        if texts["checked"] not in CHECKED:
            raise self._error(place + unknown("value of checked", texts["checked"], CHECKED))
        return Source(**texts)

    def _check_keys(self, table: Mapping[str, Any], expected: Iterable[str], place: str, what: str = "key") -> None:
        if missing := [key for key in table if key not in expected]:
            raise self._error(place + unknown(what, missing, expected))

    def _table(self, content: Mapping[str, Any], key: str, place: str = "") -> Mapping[str, Any]:
        value = content.get(key, {})
        if not isinstance(value, Mapping):
            raise self._error(f"{place}{key} must be a table (got {short_repr(value)})")
        return value

    def _tables(self, content: Mapping[str, Any], key: str, place: str = "") -> list[tuple[Mapping[str, Any], str]]:
        """Return the tables in a list, each with its place for messages."""
        value = content.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            raise self._error(f"{place}{key} must be a list of tables (got {short_repr(value)})")
        return [(item, f"{place}{key} {i + 1}: ") for i, item in enumerate(value)]

    def _text(self, content: Mapping[str, Any], key: str, place: str) -> str:
        value = content.get(key, "")
        if not isinstance(value, str):
            raise self._error(f"{place}{key} must be a text (got {short_repr(value)})")
        return value

    def _texts(self, value: Any, key: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(f"{key} must be a list of texts (got {short_repr(value)})")
        return tuple(value)

    def _flag(self, content: Mapping[str, Any], key: str, default: bool, place: str) -> bool:
        value = content.get(key, default)
        if not isinstance(value, bool):
            raise self._error(f"{place}{key} must be true or false (got {short_repr(value)})")
        return value

    def _number(self, content: Mapping[str, Any], key: str, place: str) -> float | None:
        value = content.get(key)
        if value is None:
            return None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 < value < float("inf"):
            raise self._error(f"{place}{key} must be a positive number (got {short_repr(value)})")
        if not LEAST <= value <= MOST:
            raise self._error(f"{place}{key} must be from {LEAST:g} to {MOST:g} (got {short_repr(value)})")
        return value  # type: ignore[no-any-return]

    def _whole(self, content: Mapping[str, Any], key: str, place: str) -> int | None:
        value = self._number(content, key, place)
        if value is not None and not isinstance(value, int):
            raise self._error(f"{place}{key} must be a whole number (got {short_repr(value)})")
        return value

    def _error(self, problem: str) -> DeviceError:
        return DeviceError(f"{self._source}: {problem}")
