"""Adapters: how to call a tool, and what the tool itself states about its number."""

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
    """The answer of a tool: its number, and the operators that it reports as not counted."""

    value: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A rule that the tool states: ``text`` in words, ``cites`` the place, ``figure`` its number for a probe."""

    text: str
    cites: str
    figure: Callable[[Probe], int]


@dataclass(frozen=True)
class Limit:
    """A limit that the tool states: its numbers are too low for networks with one of the ``tags``."""

    tags: frozenset[str]
    text: str
    cites: str


@dataclass(frozen=True)
class Adapter:
    """A tool under test.

    Attributes:
        name: the name of its file.
        package: the distribution whose version is reported.
        declares: the definition of its number, quoted from its documentation.
        cites: the place of this quote.
        counts: functions that call the tool, by quantity; their arguments are the format and the built network.
        formats: the formats that it accepts, from :data:`~costcore_probes.probe.FORMATS`.
        unit: the amount that the tool counts for one unit of a probe: 2 for FLOPs if a multiply-accumulate is two.
        rules: the rules that it states.
        limits: the limits that it states.
        framework: the distribution that builds the networks; its version is also reported.
        isolated: whether each probe needs its own process, because the tool leaves patches behind.
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
        """Return the formats in which the tool accepts a probe; empty if it does not offer the quantity."""
        return tuple(name for name in self.formats if name in probe.formats) if probe.quantity in self.counts else ()


def adapter_names() -> list[str]:
    """Return the names of all adapters."""
    from . import adapters

    return sorted(info.name for info in iter_modules(adapters.__path__))


def adapter(name: str) -> Adapter:
    """Return an adapter by its name.

    Raises:
        ValueError: if there is no such adapter.
    """
    if name not in adapter_names():
        raise ValueError(f"there is no adapter {name!r}; expected one of {', '.join(adapter_names())}")
    made: Adapter = import_module(f".adapters.{name}", __package__).ADAPTER
    return made
