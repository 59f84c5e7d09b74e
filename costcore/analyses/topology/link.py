"""Links: how fast one process sends to the next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.messages import short_repr, unknown
from costcore.toml_files import read_toml

DATA = Path(__file__).parent / "data" / "links.toml"


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
        """Return how long a process takes that sends so many bytes in so many steps, one after the other."""
        return steps * self.latency_us * 1e-6 + nbytes / (self.gbs * 1e9)


@cache
def links() -> Mapping[str, Link]:
    """Return the known links by name."""
    content, _ = read_toml(DATA, CostError)
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
    return Link("custom", _number(value, "gbs", 0), _number(value, "latency_us", None))


def _number(table: Mapping[str, Any], key: str, above: float | None) -> float:
    value = table[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf") or value == above:
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
