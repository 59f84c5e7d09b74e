"""Facts about printed numbers that no rule gives: other variants of a network, slips of papers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.studies.explanations.number import PrintedNumber, read_number
from costcore.toml_files import read_toml


class Hint(NamedTuple):
    """A known fact about a number.

    Attributes:
        text: the fact, as a sentence.
        source: where it is from.
    """

    text: str
    source: str


@cache
def _table() -> list[dict[str, Any]]:
    content, _ = read_toml(Path(__file__).with_name("known.toml"), CostError)
    facts: list[dict[str, Any]] = content["fact"]
    return facts


def hints(macs: int, number: PrintedNumber) -> Iterator[Hint]:
    """Yield what is known of a number that was printed for a network with these MACs."""
    for fact in _table():
        printed = read_number(fact["printed"])
        if fact["macs"] == macs and (number.rounds(printed.value) or printed.rounds(number.value)):
            yield Hint(fact["text"], fact["source"])
