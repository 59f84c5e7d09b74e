"""What a model is to fit: the memory of a device, or the SRAM and the flash of a microcontroller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike

from costcore.analyses.devices.catalog import named
from costcore.analyses.devices.device import Device
from costcore.errors import CostError
from costcore.messages import short_repr, unknown
from costcore.text.amounts import parse_bytes

MEMORIES = ("memory", "sram", "flash")
"""The memories that a target states: one for everything, or one for values and one for what is stored."""

FORMS = '"24 GB", "256 KB sram, 1 MB flash", "sram=256KB,flash=1MB", the name of a device, or the path of a .toml file'

_PARTS = (re.compile(r"(?P<name>\w+)\s*=\s*(?P<amount>.+)"), re.compile(r"(?P<amount>.+?)\s+(?P<name>sram|flash)"))
"""The forms of one memory: ``sram=256KB`` and ``256 KB sram``."""


@dataclass(frozen=True)
class Target:
    """What a model is to fit.

    Attributes:
        name: what it is called.
        memories: bytes by memory, names of :data:`MEMORIES`; empty if the memory of a device is unknown.
        device: the device, if it is one that is known.
        binary: the memories of a microcontroller if KB and MB are powers of 1024; empty if none has such a unit.
    """

    name: str
    memories: Mapping[str, int]
    device: Device | None = None
    binary: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_divided(self) -> bool:
        """Whether values and what is stored have memories of their own."""
        return "memory" not in self.memories and bool(self.memories)


def target_of(target: object) -> Target:
    """Return what a model is to fit.

    Args:
        target: an amount of memory in bytes or as ``"24 GB"``; amounts by memory as ``"256 KB sram, 1 MB flash"``,
            ``"sram=256KB,flash=1MB"`` or a mapping; a device, its name, an alias, or the path of a TOML file.

    Raises:
        TypeError, ValueError: if it is anything else; the message has the forms.
        CostError, OSError: if the file of a device cannot be read.
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, Mapping):
        return _divided(short_repr(dict(target)), target.items())
    if isinstance(target, int) and not isinstance(target, bool):
        return Target(f"{target} bytes", {"memory": parse_bytes(target, "target")})
    if isinstance(target, (Device, PathLike)):
        return _of_device(named(target))
    if not isinstance(target, str):
        raise TypeError(f"target must be {FORMS} (got {short_repr(target)})")
    if re.search(r"\b(sram|flash)\b", target.lower()):
        return _divided(target, _named_amounts(target.lower(), target))
    if re.match(r"\s*[0-9]", target):
        return Target(target.strip(), {"memory": parse_bytes(target, "target")})
    try:
        return _of_device(named(target))
    except CostError:  # of a file
        raise
    except ValueError as error:
        raise ValueError(f"{error}. A target is {FORMS}") from None


def _of_device(device: Device) -> Target:
    size = device.memory.dram_gb
    return Target(device.name, {} if size is None else {"memory": int(1e9 * size)}, device)


def _divided(name: str, amounts: object) -> Target:
    found: dict[str, int] = {}
    binary: dict[str, int] = {}
    for memory, amount in amounts:  # type: ignore[attr-defined]
        if memory not in MEMORIES:
            raise ValueError(unknown("memory", memory, MEMORIES))
        if memory in found:
            raise ValueError(f"target {name!r} states {memory} twice")
        found[memory] = parse_bytes(amount, memory)
        in_binary = re.sub(r"([KMG])B$", r"\1iB", amount.strip()) if isinstance(amount, str) else amount
        binary[memory] = parse_bytes(in_binary, memory)
    if not found or (len(found) > 1 and "memory" in found):
        raise ValueError(f"target {name!r} must state either memory, or sram and flash")
    return Target(name, found, binary=binary if binary != found and "memory" not in found else {})


def _named_amounts(text: str, whole: str) -> Iterator[tuple[str, str]]:
    """Yield the names and amounts of ``256 kb sram, 1 mb flash``; units are in any case."""
    for part in text.split(","):
        match = next(filter(None, (form.fullmatch(part.strip()) for form in _PARTS)), None)
        if match is None:
            raise ValueError(f"target {whole!r}: {part.strip()!r} is not the size of a memory (expected {FORMS})")
        yield match["name"], match["amount"].upper().replace("IB", "iB")
