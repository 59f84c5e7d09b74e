"""Facts about printed numbers that no rule gives: other variants of a network, slips of papers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from costcore.explanations.number import PrintedNumber, read_number

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
    file = Path(__file__).with_name("known.toml")
    facts: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["fact"]
    return facts


def hints(macs: int, number: PrintedNumber) -> Iterator[Hint]:
    """Yield what is known of a number that was printed for a network with these MACs."""
    for fact in _table():
        printed = read_number(fact["printed"])
        if fact["macs"] == macs and (number.rounds(printed.value) or printed.rounds(number.value)):
            yield Hint(fact["text"], fact["source"])
