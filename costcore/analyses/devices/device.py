"""A device: the highest rates of its engines and of its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from costcore.ir import BITS

KINDS = ("gpu", "cpu", "tpu", "npu", "phone", "mcu")
"""The kinds of devices."""

ENGINES = ("matrix", "vector", "special")
"""The engines of a device: matrix products, all other arithmetic, and special functions such as exp."""

UNBOUNDED = ("vector", "dram")
"""What a device file may declare not to bind: arithmetic beside products, and main memory."""

REAL_PART = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""The dtype of the real and imaginary part, in which complex numbers are computed."""

TF32 = "tfloat32"
"""The key of the rate at which a matrix engine multiplies float32 numbers rounded to 10 bits of mantissa."""


class Cache(NamedTuple):
    """A cache.

    Attributes:
        nbytes: its size, of one unit if ``per_unit``.
        gbs: the most that can be read from and written to it together, in GB/s; None if unknown.
        per_unit: whether every unit has one.
    """

    nbytes: int
    gbs: float | None = None
    per_unit: bool = False


class Memory(NamedTuple):
    """The memory of a device.

    Attributes:
        dram_gbs: bandwidth of the main memory in GB/s; None if it is not published.
        caches: the caches, the one nearest to the engines first.
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
        states: which figures it states.
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
    """What a processor can do at most. No figure is what a program usually reaches.

    Attributes:
        name: the name by which it is chosen, such as ``h100-sxm5-80gb``.
        kind: one of :data:`KINDS`.
        vendor: who makes it.
        units: streaming multiprocessors, cores, compute units; what is counted depends on the vendor.
        clock_max_mhz: the highest clock of the engines; None if it is not published.
        peak: for each engine the dense peak by dtype, in TFLOP/s (a multiply-add is two) at the highest clock; for
            ``special`` in tera evaluations per second.
        memory: bandwidths and caches.
        fast_convolution: whether convolutions may run with fewer products than their definition (Winograd, FFT).
        unbounded: those of :data:`UNBOUNDED` that do not bind on purpose. What the file does not state is unknown.
        printed: peaks as the vendor prints them.
        sources: where the figures come from.
        aliases: other names by which it is chosen, such as ``h100``.
        notes: what a user of the figures should know.
        calibration: the table of a calibrated device; empty if it was never calibrated.
        least_kernel_us: how long the shortest kernel took that was ever seen on the device, in microseconds; None if
            that is unknown.
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

    @property
    def checked(self) -> str:
        """How far its sources were checked, the best first: ``read, not read``; empty without sources."""
        found = {source.checked for source in self.sources}
        return ", ".join(name for name in CHECKED if name in found)

    @property
    def integers(self) -> tuple[str, ...]:
        """The dtypes in which a device computes that has peaks of integers only; empty for any other device."""
        dtypes = dict.fromkeys(dtype for peaks in self.peak.values() for dtype in peaks)
        return () if any(map(_is_float, dtypes)) else tuple(dtypes)

    def computes(self, dtype: str) -> bool:
        """Return whether the device has arithmetic for a dtype beside products: with a peak, or one without a limit."""
        is_free = "vector" in self.unbounded and not (self.integers and _is_float(dtype))
        return is_free or self.vector_rate(dtype) is not None

    def vector_rate(self, dtype: str) -> float | None:
        """Return the FLOP/s of the vector engine; None if no peak is known.

        A dtype without a peak of its own is at most as fast as the next wider one with several values in one lane, and
        not faster than a narrower one. Engines of integers do not compute floating-point numbers.
        """
        return _packed_rate(self.peak.get("vector", {}), dtype)

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
        """Return the part of this device that has so many of its units.

        Rates and own caches scale, and the rate at which shared caches are reached. Their size stays, as does the main
        memory.

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
        """Return the places from which bytes come, the nearest first: name, what may lie nearer, and bytes per second.

        What lies nearer is the size of the cache before it in bytes: so much of what a group of calls reads can already
        be there, and as much of what it writes can stay there.
        """
        nearer, found = 0, []
        for cache in self.memory.caches:
            copies = self.units or 1 if cache.per_unit else 1
            if cache.gbs is not None:
                found.append(("cache", nearer, 1e9 * cache.gbs * copies))
            nearer = max(nearer, cache.nbytes * copies)
        if self.memory.dram_gbs is not None:
            found.append(("dram", nearer, 1e9 * self.memory.dram_gbs))
        return found


def _bits(dtype: str) -> int:
    return BITS[dtype]


def _is_float(dtype: str) -> bool:
    return REAL_PART.get(dtype, dtype).startswith(("float", "bfloat", "tfloat"))


def _usable(peaks: Mapping[str, float], dtype: str) -> Mapping[str, float]:
    """Return the peaks of dtypes that can hold values of a dtype: floating-point numbers are not integers."""
    return {name: rate for name, rate in peaks.items() if _is_float(name)} if _is_float(dtype) else peaks


def _packed_rate(peaks: Mapping[str, float], dtype: str) -> float | None:
    """Return operations per second at a dtype, from the peaks of an engine in tera operations per second."""
    dtype = REAL_PART.get(dtype, dtype)
    peaks = _usable(peaks, dtype)
    if dtype in peaks:
        return 1e12 * peaks[dtype]
    bits = max(_bits(dtype), 1)
    wider = {_bits(name): rate for name, rate in sorted(peaks.items(), key=lambda item: item[1]) if _bits(name) >= bits}
    if wider:
        return 1e12 * wider[min(wider)] * min(wider) / bits
    return 1e12 * min(peaks.values()) if peaks else None
