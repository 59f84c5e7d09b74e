"""What an adapter is: how a tool is called, and what the tool itself states about its number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from .probe import Probe

__all__ = ["Adapter", "Figure", "Limit", "Rule", "adapter", "adapter_names"]


@dataclass(frozen=True)
class Figure:
    """What a tool answers: its number, and the operators that it lists as not counted in it."""

    value: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A rule that the tool states: ``text`` in words, ``cites`` where, ``figure`` what it makes of a probe."""

    text: str
    cites: str
    figure: Callable[[Probe], int]


@dataclass(frozen=True)
class Limit:
    """A limit that the tool states: networks with one of the ``tags`` are counted too low."""

    tags: frozenset[str]
    text: str
    cites: str


@dataclass(frozen=True)
class Adapter:
    """A tool under test.

    Attributes:
        name: the name of its file.
        package: the distribution whose version is reported.
        declares: what the tool's documentation says that its number is, quoted.
        cites: where it says so.
        counts: by quantity, a function of the format and the built network that calls the tool.
        formats: what it reads, of :data:`~costcore_probes.probe.FORMATS`.
        unit: what the tool counts for each thing that a probe counts: 2 for FLOPs where a multiply-accumulate is two.
        rules: rules that it states. limits: limits that it states.
        framework: the distribution that builds the networks, whose version is reported too.
        isolated: each probe runs in a process of its own, as the tool leaves patches behind.
    """

    name: str
    package: str
    declares: str
    cites: str
    counts: Mapping[str, Callable[[str, Any], Figure]]
    formats: tuple[str, ...] = ("torch",)
    unit: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    limits: tuple[Limit, ...] = ()
    framework: str = "torch"
    isolated: bool = False

    def accepts(self, probe: Probe) -> tuple[str, ...]:
        """Return the formats in which the tool can be asked: none if it does not offer the quantity."""
        return tuple(name for name in self.formats if name in probe.formats) if probe.quantity in self.counts else ()


def adapter_names() -> list[str]:
    """Return the names of all adapters."""
    from . import adapters

    return sorted(info.name for info in iter_modules(adapters.__path__))


def adapter(name: str) -> Adapter:
    """Return an adapter by its name.

    Raises:
        ValueError: there is no such adapter.
    """
    if name not in adapter_names():
        raise ValueError(f"there is no adapter {name!r}; expected one of {', '.join(adapter_names())}")
    made: Adapter = import_module(f".adapters.{name}", __package__).ADAPTER
    return made
