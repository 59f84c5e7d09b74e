"""Devices as data: peak rates of engines, memory and links, found by name or alias; and the time of collectives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from costcore.analyses.analysis import ReportLike
from costcore.errors import CostError, did_you_mean, short_repr, unknown
from costcore.files import read_toml
from costcore.ir import BITS, Cost, Layer
from costcore.numbers import ceil_log2
from costcore.plugins import cached, objects_from_plugins, with_plugin_hint
from costcore.trace.trace import Trace

KINDS = ("gpu", "cpu", "tpu", "npu", "phone", "mcu")
"""The kinds of devices."""

ENGINES = ("matrix", "vector", "special")
"""The engines of a device: matrix products, all other arithmetic, and special functions such as exp."""

UNBOUNDED = ("vector", "dram")
"""Limits that a device file may declare not to bind: arithmetic beside products, and main memory."""

REAL_PART = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""The dtype of the real and imaginary parts, by complex dtype: the arithmetic runs in it."""

TF32 = "tfloat32"
"""The key of the rate of a matrix engine for float32 numbers rounded to 10 bits of mantissa."""


class Cache(NamedTuple):
    """A cache.

    Attributes:
        nbytes: its size; with ``per_unit``, the size in one unit.
        gbs: the maximum rate of reads and writes together, in GB/s; None if unknown.
        per_unit: whether every unit has one.
    """

    nbytes: int
    gbs: float | None = None
    per_unit: bool = False


class Memory(NamedTuple):
    """The memory of a device.

    Attributes:
        dram_gbs: bandwidth of the main memory in GB/s; None if it is not published.
        caches: the caches, nearest to the engines first.
        dram_gb: size of the main memory in GB (10**9 bytes), as the vendor prints it; None if devices differ.
    """

    dram_gbs: float | None = None
    caches: tuple[Cache, ...] = ()
    dram_gb: float | None = None


class Printed(NamedTuple):
    """A dense peak as the vendor prints it.

    Attributes:
        engine: one of :data:`ENGINES`.
        dtype: the dtype of the operands.
        tflops: TFLOP/s (or TOP/s), without sparsity.
        clock_mhz: the clock for which it is printed; None if the vendor does not state it.
        lanes: multiply-adds per clock and unit; None if unknown.
    """

    engine: str
    dtype: str
    tflops: float
    clock_mhz: float | None = None
    lanes: float | None = None


class Source(NamedTuple):
    """Where figures of a device come from.

    Attributes:
        title: the document.
        states: the figures that it states.
        checked: ``read`` (the document itself was read for this file), ``second source`` (the figures were read
            elsewhere), ``derived`` (computed from what the document states) or ``not read``.
        url: its address; empty if it has none.
    """

    title: str
    states: str
    checked: str
    url: str = ""


CHECKED = ("read", "second source", "derived", "not read")
"""How far a source was checked, from the best to the weakest."""


@dataclass(frozen=True)
class Device:
    """The peak rates of a processor; programs usually reach less.

    Attributes:
        name: the name by which it is chosen, such as ``h100-sxm5-80gb``.
        kind: one of :data:`KINDS`.
        vendor: who makes it.
        units: its streaming multiprocessors, cores or compute units; the kind of unit depends on the vendor.
        clock_max_mhz: the maximum clock of the engines; None if it is not published.
        peak: for each engine the dense peak by dtype, in TFLOP/s (a multiply-add is two) at the maximum clock; for
            ``special`` in tera evaluations per second.
        memory: bandwidths and caches.
        fast_convolution: whether convolutions may run with fewer products than their definition (Winograd, FFT).
        unbounded: limits from :data:`UNBOUNDED` that never bind. A missing figure is unknown instead.
        printed: peaks as the vendor prints them.
        sources: where the figures come from.
        aliases: other names by which it is chosen, such as ``h100``.
        notes: remarks for users of the figures.
        calibration: the table of a calibrated device; empty if it was never calibrated.
        least_kernel_us: the duration of the shortest kernel seen on the device, in microseconds; None if unknown.
        context_mib: the measured MiB of a process before its first tensor (its CUDA context); None if unknown.
    """

    name: str
    kind: str
    vendor: str = ""
    units: int | None = None
    clock_max_mhz: float | None = None
    peak: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    fast_convolution: bool = True
    unbounded: tuple[str, ...] = ()
    printed: tuple[Printed, ...] = ()
    sources: tuple[Source, ...] = ()
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    calibration: Mapping[str, Any] = field(default_factory=dict)
    least_kernel_us: float | None = None
    context_mib: float | None = None

    @property
    def checked(self) -> str:
        """How far its sources were checked, the best first: ``read, not read``; empty without sources."""
        found = {source.checked for source in self.sources}
        return ", ".join(name for name in CHECKED if name in found)

    @property
    def integers(self) -> tuple[str, ...]:
        """The dtypes of a device that has only integer peaks; empty for any other device."""
        dtypes = dict.fromkeys(dtype for peaks in self.peak.values() for dtype in peaks)
        return () if any(map(_is_float, dtypes)) else tuple(dtypes)

    def computes(self, dtype: str) -> bool:
        """Return whether the device computes a dtype outside of matrix products, at a known peak or unbounded."""
        is_free = "vector" in self.unbounded and not (self.integers and _is_float(dtype))
        return is_free or self.vector_rate(dtype) is not None

    def vector_rate(self, dtype: str) -> float | None:
        """Return the FLOP/s of the vector engine; None if no peak is known.

        A dtype without a peak of its own gets the rate of the next wider dtype with several values packed in one lane;
        if none is wider, the lowest peak. Integer engines do not compute floating-point numbers.
        """
        return _packed_rate(self.peak.get("vector", {}), dtype)

    def printed_rate(self, engine: str, dtype: str) -> float | None:
        """Return the FLOP/s of an engine as its vendor prints them, else at the highest clock; None if unknown."""
        rates = self.peak.get(engine, {})
        if dtype not in rates:
            return None
        printed = {each.dtype: each.tflops for each in self.printed if each.engine == engine}
        # Vendors print one of several dtypes of equal speed.
        equal = [printed[name] for name in (dtype, *rates) if name in printed and rates[name] == rates[dtype]]
        return 1e12 * (equal[0] if equal else rates[dtype])

    def describe_peak(self, dtype: str, *, is_printed: bool = False) -> list[str]:
        """Return a line that says which peak is used, printed or at the highest clock; empty if they agree."""
        highest = self.matrix_rate(dtype) or self.vector_rate(dtype)
        printed = self.printed_rate("matrix", dtype) or self.printed_rate("vector", dtype)
        if not highest or not printed or highest == printed:
            return []
        clock, sheet = (f"{rate / 1e12:,.1f} TFLOP/s" for rate in (highest, printed))
        used, why = (clock, f"at its highest clock, so that bounds hold; MFU is relative to {sheet}, of the data sheet")
        if is_printed:
            used, why = (
                sheet,
                f"the peak of its data sheet, as in papers on MFU; bounds of time use {clock}, at the highest clock",
            )
        return [f"peak of {self.name}: {used} ({dtype}), {why}"]

    def special_rate(self, dtype: str) -> float:
        """Return the evaluations per second of the special function unit; 0 if there is none."""
        return _packed_rate(self.peak.get("special", {}), dtype) or 0.0

    def matrix_rate(self, dtype: str, tf32: bool = False) -> float | None:
        """Return the FLOP/s of the matrix engine; None if it does not multiply this dtype.

        A dtype without a peak of its own is converted to the next wider one.

        Args:
            dtype: the dtype of the operands.
            tf32: whether float32 operands may be rounded to TF32.
        """
        peaks = _usable(self.peak.get("matrix", {}), dtype)
        if dtype == "float32" and tf32 and TF32 in peaks:
            return 1e12 * peaks[TF32]
        bits = BITS[REAL_PART.get(dtype, dtype)]
        known = {_bits(name): rate for name, rate in sorted(peaks.items(), key=lambda item: item[1]) if name != TF32}
        wider = [width for width in known if width >= bits and (width == bits or bits <= 16)]
        return 1e12 * (peaks.get(dtype) or known[min(wider)]) if wider else None

    def with_units(self, units: int) -> Device:
        """Return the part of this device with this number of its units.

        Rates, caches of units and the bandwidth of shared caches scale. The size of shared caches and the main memory
        stay the same.

        Raises:
            ValueError: if it does not have so many units.
        """
        if self.units is None or not 1 <= units <= self.units:
            has = "an unknown number of" if self.units is None else str(self.units)
            raise ValueError(f"{self.name} has {has} cores (got cores={units})")
        part = units / self.units
        peak = {engine: {name: rate * part for name, rate in peaks.items()} for engine, peaks in self.peak.items()}
        caches = tuple(
            cache if cache.per_unit or cache.gbs is None else cache._replace(gbs=cache.gbs * part)
            for cache in self.memory.caches
        )
        return replace(self, units=units, peak=peak, memory=self.memory._replace(caches=caches))

    def levels(self) -> list[tuple[str, int, float]]:
        """Return the memories, the nearest first: name, nearer capacity in bytes, and bytes per second.

        The nearer capacity is the size of the cache before the memory: up to that many bytes of a group's reads can
        already be there, and as many of its writes can stay there.
        """
        nearer, found = 0, []
        for each in self.memory.caches:
            copies = self.units or 1 if each.per_unit else 1
            if each.gbs is not None:
                found.append(("cache", nearer, 1e9 * each.gbs * copies))
            nearer = max(nearer, each.nbytes * copies)
        if self.memory.dram_gbs is not None:
            found.append(("dram", nearer, 1e9 * self.memory.dram_gbs))
        return found


def _bits(dtype: str) -> int:
    return BITS[dtype]


def _is_float(dtype: str) -> bool:
    return REAL_PART.get(dtype, dtype).startswith(("float", "bfloat", "tfloat"))


def _usable(peaks: Mapping[str, float], dtype: str) -> Mapping[str, float]:
    # A float dtype needs a float engine; integers fit in either.
    return {name: rate for name, rate in peaks.items() if _is_float(name)} if _is_float(dtype) else peaks


def _packed_rate(peaks: Mapping[str, float], dtype: str) -> float | None:
    dtype = REAL_PART.get(dtype, dtype)
    peaks = _usable(peaks, dtype)
    if dtype in peaks:
        return 1e12 * peaks[dtype]
    bits = max(_bits(dtype), 1)
    # Several narrow values share a lane of the next wider dtype.
    wider = {_bits(name): rate for name, rate in sorted(peaks.items(), key=lambda item: item[1]) if _bits(name) >= bits}
    if wider:
        return 1e12 * wider[min(wider)] * min(wider) / bits
    return 1e12 * min(peaks.values()) if peaks else None


# TOML reader.


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
        notes = ["…"]                      # printed below its tables
        units = 132                        # streaming multiprocessors, cores
        clock_max_mhz = 1980               # the maximum, not the clock of the data sheet
        fast_convolution = true            # whether Winograd and FFT may save products; default: true
        least_kernel_us = 1.12             # the shortest kernel that was seen, for bound="observed"
        context_mib = 534                  # of a process before its first tensor, for `costcore fit`
        unbounded = ["dram"]               # limits that never bind: vector, dram; default: none
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
        [calibration]                      # written by `costcore calibrate`
        [[sources]]
        title = "NVIDIA H100 data sheet"   # and its url
        states = "peaks, bandwidth"
        checked = "read"                   # read, second source, derived or not read

    Only the name and the kind are required. An unknown figure does not bind, and a time that needs it is partial.

    Raises:
        DeviceError: if it is invalid; the message includes the file and the key.
        OSError: if the file cannot be read.
    """
    file = Path(path)
    content, _ = read_toml(file, DeviceError)
    return _Reader(str(file)).device(content)


class _Reader:
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
            context_mib=self._number(content, "context_mib", ""),
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
        if unexpected := [key for key in table if key not in expected]:
            raise self._error(place + unknown(what, unexpected, expected))

    def _table(self, content: Mapping[str, Any], key: str, place: str = "") -> Mapping[str, Any]:
        value = content.get(key, {})
        if not isinstance(value, Mapping):
            raise self._error(f"{place}{key} must be a table (got {short_repr(value)})")
        return value

    def _tables(self, content: Mapping[str, Any], key: str, place: str = "") -> list[tuple[Mapping[str, Any], str]]:
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


# Registry: built-in devices, plug-ins and user files.


DEVICE_DATA = Path(__file__).parent / "data"

CALIBRATED = {file.stem: file for file in sorted((DEVICE_DATA / "calibrated").glob("*.toml"))}
"""Files of calibrated devices, by device name. Another file has the same device without its calibration."""


def devices() -> dict[str, Device]:
    """Return all known devices by name: built in first, then plug-ins.

    Raises:
        CostError: if a device of a plug-in is invalid.
    """
    return dict(_known())


def device_names() -> list[str]:
    """Return the names and aliases of all known devices."""
    return [*_known(), *(alias for each in _known().values() for alias in each.aliases), *CALIBRATED]


def _plain(name: object) -> str:
    # "RTX 4090" is rtx4090, and "NVIDIA A100-SXM4-80GB" is what nvidia-smi prints.
    return re.sub(r"^(nvidia|amd|intel|tesla|geforce)+", "", re.sub(r"[^a-z0-9]", "", str(name).lower()))


def find_device(device: str | PathLike[str] | Device) -> Device:
    """Return a device by its name, an alias or the path of a TOML file; a :class:`Device` is returned as it is.

    Case, spaces and hyphens of names do not count.

    Raises:
        TypeError: if ``device`` is anything else.
        ValueError: if there is none of that name; the message names the nearest one.
        CostError: if the file is not a device.
        OSError: if the file cannot be read.
    """
    if isinstance(device, Device):
        return device
    if not isinstance(device, (str, PathLike)):
        raise TypeError(f"a device must be a name or the path of a TOML file (got {device!r})")
    if str(device).endswith(".toml") or str(device) in CALIBRATED:
        return read_device(CALIBRATED.get(str(device), device))
    known = _known()
    if str(device) in known:
        return known[str(device)]
    for spelled in (str, _plain):  # exact names first
        for each in known.values():
            if spelled(device) in map(spelled, (each.name, *each.aliases)):
                return each
    names = sorted(device_names(), key=list(known).__contains__)  # aliases first
    longer = [*dict.fromkeys(name for name in names if name.lower().startswith(str(device).lower()))]
    longer = [name for name in longer if not any(name != each and name.startswith(each) for each in longer)]
    near = f". Did you mean {' or '.join(map(repr, longer[:6]))}?" if longer else did_you_mean([str(device)], names)
    raise ValueError(
        with_plugin_hint(
            f"unknown device {str(device)!r}{near or '.'} `costcore devices` lists the {len(known)} known ones; the "
            "path of a .toml file is one of your own"
        )
    )


def memory_size(device: Device) -> int:
    """Return the bytes of the memory of a device.

    Raises:
        CostError: if they are unknown.
    """
    if device.memory.dram_gb is None:
        raise CostError(
            f"the size of the memory of {device.name} is unknown: state it, as --memory '80 GB' or memory='80 GB'"
        )
    return int(1e9 * device.memory.dram_gb)


@cached
def _known() -> Mapping[str, Device]:
    known = {file.stem: read_device(file) for file in sorted(DEVICE_DATA.glob("*.toml"))}
    for paths in objects_from_plugins("costcore_devices", Path):
        for path in paths:
            device = read_device(path)
            known[device.name] = device
    return known


# Device names of drivers, as traces contain them.


NAMES = (
    (r"H100 80GB HBM3", "h100-sxm5-80gb"),
    (r"H100 PCIe", "h100-pcie-80gb"),
    (r"H200", "h200-sxm-141gb"),
    (r"B200", "b200-sxm-180gb"),
    (r"A100-SXM4-80GB", "a100-sxm4-80gb"),
    (r"A100-SXM4-40GB|A100-PG509-200", "a100-sxm4-40gb"),
    (r"V100-SXM2-(16|32)GB", "v100-sxm2-16gb"),
    (r"Tesla T4|NVIDIA T4", "t4"),
    (r"NVIDIA L40S", "l40s"),
    (r"NVIDIA L4", "l4"),
    (r"RTX 3090", "rtx3090"),
    (r"RTX 4090", "rtx4090"),
    (r"RTX 5090", "rtx5090"),
    (r"Instinct MI300X", "mi300x"),
    (r"Instinct MI250X", "mi250x-die"),
)
"""Patterns of driver names, with the name of the device file."""


def device_named(name: str) -> str:
    """Return the device file for the name that a driver reports; empty if there is none."""
    return next((file for pattern, file in NAMES if re.search(rf"(?:{pattern})(?![\w])", name)), "")


# The time of collectives: latency of the steps of a ring or tree, and bytes over the rate of a link.
#
# Each group of processes communicates over its own link, one collective after the other. Nothing is overlapped with
# computation or with other groups, and no link is shared. This is the model of Hockney (1994), with the steps of the
# ring and of the binary tree; an all-reduce takes the faster of the two.


COLLECTIVES = frozenset(
    (
        *("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce_to_root"),
        *("gather_to_root", "scatter_from_root", "send", "recv", "barrier"),
    )
)
"""The operators that communicate."""


class Communication(NamedTuple):
    """The communication of one group of processes.

    Attributes:
        group: name of the dimension of the mesh; empty if it has none.
        group_size: number of its processes.
        n_calls: how many collectives run.
        sent: bytes that a process sends.
        link: the link; None if none was stated.
        seconds: how long they take; None without a link.
    """

    group: str
    group_size: int
    n_calls: int
    sent: int
    link: Link | None
    seconds: float | None


def communications(trace: Trace, links: Mapping[str, Link]) -> list[Communication]:
    """Return the communication of each group of a run, in order of first call.

    Args:
        trace: the run, with numbers for all sizes.
        links: links by group; ``""`` stands for every other group.
    """
    found: dict[tuple[str, int], Communication] = {}
    for call, cost, *_ in trace:
        size = call.layer.attrs.get("group_size")
        if cost is None or size is None or call.layer.op not in COLLECTIVES:
            continue
        group = str(call.layer.attrs.get("group", ""))
        link = links.get(group, links.get(""))
        before = found.get((group, size), Communication(group, size, 0, 0, link, None))
        times = int(call.times)
        seconds = None
        if link is not None:
            seconds = (before.seconds or 0.0) + times * collective_seconds(call.layer, cost, link)
        sent = before.sent + times * int(cost.mcomm)
        found[group, size] = before._replace(n_calls=before.n_calls + times, sent=sent, seconds=seconds)
    return [*found.values()]


def communications_of(report: ReportLike, links: object = None) -> list[Communication]:
    """Return the communication of each group of a run; links as for :meth:`costcore.Report.time`, or none.

    Raises:
        TypeError, ValueError: if a link is invalid.
    """
    return communications(report.trace, {} if links is None else links_by_group(links))


def collective_seconds(layer: Layer, cost: Cost, link: Link) -> float:
    """Return the seconds of one collective over a link."""
    n, sent = int(layer.attrs["group_size"]), float(cost.mcomm)
    if n == 1:
        return 0.0
    if layer.op == "all_reduce":
        return all_reduce_seconds(n, float(layer.read), link)
    if layer.op == "barrier":
        return link.seconds(2 * ceil_log2(n), 0)
    if layer.op == "recv":
        return link.seconds(1, float(layer.written))
    return link.seconds(1 if layer.op == "send" else n - 1, sent)


def all_reduce_seconds(n: int, nbytes: float, link: Link) -> float:
    """Return the seconds of an all-reduce of a number of bytes among n processes, by ring or by tree."""
    ring = link.seconds(2 * (n - 1), 2 * (n - 1) / n * nbytes)
    return min(ring, link.seconds(2 * ceil_log2(n), 2 * nbytes))


# Links between processes: rate and latency.


COMMUNICATION_DATA = Path(__file__).parent / "links.toml"


class Link(NamedTuple):
    """A link between processes.

    Attributes:
        name: its name.
        gbs: GB/s that one process sends, in one direction, with the other direction busy too.
        latency_us: microseconds until the first byte of a message has arrived.
    """

    name: str
    gbs: float
    latency_us: float

    def seconds(self, steps: int, nbytes: float) -> float:
        """Return the time of a process to send this number of bytes in this number of steps, one after the other."""
        return steps * self.latency_us * 1e-6 + nbytes / (self.gbs * 1e9)


@cache
def links() -> Mapping[str, Link]:
    """Return the known links by name."""
    content, _ = read_toml(COMMUNICATION_DATA, CostError)
    return {name: Link(name, entry["gbs"], entry["latency_us"]) for name, entry in content["link"].items()}


def link_of(value: object) -> Link:
    """Return a link by its name, or from ``{"gbs": 25, "latency_us": 5}``; a :class:`Link` is returned as it is.

    Raises:
        TypeError, ValueError: if it is not a link; the message lists the known ones.
    """
    if isinstance(value, Link):
        return value
    if isinstance(value, str):
        if value not in links():
            raise ValueError(unknown("link", value, [*links(), 'or {"gbs": …, "latency_us": …}']))
        return links()[value]
    if not isinstance(value, Mapping) or set(value) != {"gbs", "latency_us"}:
        raise TypeError(f'a link must be a name or {{"gbs": …, "latency_us": …}} (got {short_repr(value)})')
    return Link("custom", _number(value, "gbs"), _number(value, "latency_us", allows_zero=True))


def host_link_of(device: Device) -> Link | None:
    """Return the link of a device to the memory of its host; None if ``links.toml`` has none.

    Args:
        device: the device, also a calibrated one, ``h100-sxm5-80gb-traces``.
    """
    content, _ = read_toml(COMMUNICATION_DATA, CostError)
    known = [name for name in content["host"] if f"{device.name}-".startswith(f"{name}-")]
    return link_of(content["host"][max(known, key=len)]) if known else None


def _number(table: Mapping[str, Any], key: str, allows_zero: bool = False) -> float:
    value = table[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf") or (value == 0 and not allows_zero):
        raise ValueError(f"{key} of a link must be a positive number (got {short_repr(value)})")
    return float(value)


def links_by_group(value: object) -> dict[str, Link]:
    """Return links by the name of the group that uses them; the name ``""`` stands for every other group.

    Args:
        value: one link for all groups, or a dict of links by the name of a dimension of the mesh.

    Raises:
        TypeError, ValueError: if a link is invalid.
    """
    if isinstance(value, Mapping) and not {"gbs", "latency_us"} & set(value):
        return {str(group): link_of(link) for group, link in value.items()}
    return {"": link_of(value)}
