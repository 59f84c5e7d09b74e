"""What a run records beside its calls and options: values by name, each declared by one :class:`Record`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar, overload

T = TypeVar("T")

DECLARED: dict[str, Record[Any]] = {}
"""Every declared record by name."""


_WITHOUT_SIZES = frozenset((int, str, float, bool, type(None)))
"""The types of values that no size is inside of."""


class Recorded(Protocol):
    """A run: what has records."""

    @property
    def records(self) -> Mapping[str, Any]:
        """The records by name."""


class Record(Generic[T]):
    """The declaration of what a run records under a name, by who reads it.

    ::

        CYCLES = Record("cycles", 0)                      # declare
        run = run.recording(cycles=512)                   # write
        CYCLES.of(run)                                    # read: 512; 0 if it was not recorded

    Files keep it: numbers, symbolic sizes, strings, tuples, lists and dicts of these. ``subs`` puts values into the
    symbolic sizes inside of it.

    Args:
        name: its key in :attr:`Run.records`.
        absent: its value if it was not recorded.
        of_part: returns it for some of the calls of the run, given the new position of each by its old one. Default:
            it does not depend on the positions of calls.
        is_kept: whether files keep it.
    """

    def __init__(
        self,
        name: str,
        absent: T,
        *,
        of_part: Callable[[Any, Mapping[int, int]], T] | None = None,
        is_kept: bool = True,
    ) -> None:
        self.name, self.absent, self.of_part, self.is_kept = name, absent, of_part, is_kept
        DECLARED[name] = self

    def of(self, run: Recorded) -> T:
        """Return what a run recorded."""
        found: T = run.records.get(self.name, self.absent)
        return found

    @overload
    def __get__(self, run: None, owner: object) -> Record[T]: ...

    @overload
    def __get__(self, run: Recorded, owner: object) -> T: ...

    def __get__(self, run: Recorded | None, owner: object) -> Record[T] | T:
        return self if run is None else self.of(run)


def records_of_part(records: Mapping[str, Any], new: Mapping[int, int]) -> dict[str, Any]:
    """Return the records of a run that has only some of its calls.

    Args:
        records: the records of the whole run.
        new: the new position of each of these calls by its old one.
    """
    followed = {name: record.of_part for name, record in DECLARED.items() if record.of_part is not None}
    return {name: followed[name](value, new) if name in followed else value for name, value in records.items()}


def with_sizes(value: Any, substitute: Callable[[Any], Any]) -> Any:
    """Return a value with other sizes inside of its tuples, lists and dicts."""
    if type(value) in _WITHOUT_SIZES or (type(value) is tuple and _WITHOUT_SIZES.issuperset(map(type, value))):
        return value
    if isinstance(value, tuple):
        inside = [with_sizes(item, substitute) for item in value]
        return value._make(inside) if hasattr(value, "_make") else tuple(inside)
    if isinstance(value, list):
        return [with_sizes(item, substitute) for item in value]
    if isinstance(value, Mapping):
        return {name: with_sizes(item, substitute) for name, item in value.items()}
    return substitute(value)
